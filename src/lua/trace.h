/* Declarations shared by the binding files of traces. */
#ifndef IPULUA_LUA_TRACE_H
#define IPULUA_LUA_TRACE_H
#include "lua/bind.h"

TraceRef *bind_current_trace(lua_State *L); /* raises when no function is being traced */
/* Removes the current trace from the stack. Its symbolic tensors can't be used any more. */
Trace *bind_pop_trace(State *s);
/* Raise the graph's error, if there is one; a script may catch it and go on tracing. */
void bind_check_graph(lua_State *L, Graph *g);
/* The values of a list, for a trace or the current one; the array is a userdata that is pushed. */
Value **bind_values_in(lua_State *L, TraceRef *ref, int index, int *count, const char *what);
Value **bind_values(lua_State *L, int index, int *count, const char *what);
int bind_push_values(lua_State *L, Value **v, int count, TraceRef *r); /* a list; returns 1 */
/* A token, with which a script returns to the current trace: pushes one, and reads the one at
 * index. */
void bind_push_token(lua_State *L);
void bind_take_token(lua_State *L, int index);
#endif
