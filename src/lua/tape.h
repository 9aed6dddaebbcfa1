/* Eager gradient tapes: while one is open, eager ops are also written down, in a graph whose values have tensors. */
#ifndef IPULUA_LUA_TAPE_H
#define IPULUA_LUA_TAPE_H
#include "lua/bind.h"
/* Note an op that has just run: operands at index[], all its results at stack positions first … first + out_count - 1. */
void tape_record(lua_State *L, const OpDef *op, const int *index, int count, const Attr *attrs, int first, int out_count);
/* A run of a program is noted as a call: before it, what it is given (arguments: the stack index of a list; pushes a value), and
 * after it, its results (a list on top of the stack). */
Value **tape_begin_call(lua_State *L, const Program *p, int arguments);
void tape_end_call(lua_State *L, const Program *p, Value **in);
#endif
