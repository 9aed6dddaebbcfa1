/* A call's arguments as an op takes them: operands and attributes, out of what lies on Lua's
 * stack. */
#ifndef IPULUA_LUA_ARGUMENTS_H
#define IPULUA_LUA_ARGUMENTS_H
#include "lua/bind.h"

enum { FEW_OPERANDS = 16 };

typedef struct Arguments {
  const OpDef *op;
  int *operand; /* stack indices: few, or what a userdata on the stack holds */
  int few[FEW_OPERANDS];
  int operand_count;
  Attr attr[MAX_ATTRS]; /* what they hold stays on the stack while the call lasts */
} Arguments;

/* Of a call of a->op (the rest of *a is zero), whose arguments are all that is on the stack.
 * Raises in the caller's words. */
void arguments_read(lua_State *L, Arguments *a);
/* How many inputs a caller gives: a random op's counter is not among them. */
int arguments_inputs(const OpDef *op);
/* Is it a table of a script's own with names in it? */
bool arguments_has_names(lua_State *L, int index);
#endif
