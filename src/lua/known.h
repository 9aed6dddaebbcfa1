/* What is computed at once while a function is traced, because all operands are known: programs
 * hold its results as constants. How it came about is noted beside the trace, so that gradients
 * find what it was computed from. */
#ifndef IPULUA_LUA_KNOWN_H
#define IPULUA_LUA_KNOWN_H
#include "lua/bind.h"

/* An op has run in the current trace; results as in tape_record. */
void known_record(lua_State *L, const OpDef *op, Tensor *const *in, int count, const Attr *attrs,
                  int first, int out_count);
/* The tensor as a value of the trace: a constant, which has a past if it was computed while this
 * was traced. */
Value *known_value(TraceRef *ref, Tensor *tensor);
void known_clear(TraceRef *ref);
#endif
