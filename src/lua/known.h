/* Ops whose operands are all known are computed eagerly while a function is traced. Programs hold
 * their results as constants. The ops are also recorded on a tape beside the trace, so that
 * gradients find their operands. */
#ifndef IPULUA_LUA_KNOWN_H
#define IPULUA_LUA_KNOWN_H
#include "lua/bind.h"

/* An op has run in the current trace; results as in tape_record. */
void known_record(lua_State *L, const OpDef *op, Tensor *const *in, int count, const Attr *attrs,
                  int first, int out_count);
/* The tensor as a constant of the trace. If it was computed during this trace, gradients find its
 * operands. */
Value *known_value(TraceRef *ref, Tensor *tensor);
void known_clear(TraceRef *ref);
#endif
