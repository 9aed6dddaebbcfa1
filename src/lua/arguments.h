/* Reads an op's operands and attributes from the arguments on Lua's stack. */
#ifndef IPULUA_LUA_ARGUMENTS_H
#define IPULUA_LUA_ARGUMENTS_H
#include "lua/bind.h"

enum { FEW_OPERANDS = 16 };

typedef struct Arguments {
  const OpDef *op;
  int *operand; /* stack indices: few of them in the struct, more in a userdata on the stack */
  int few[FEW_OPERANDS];
  int operand_count;
  Attr attr[MAX_ATTRS]; /* the values that they refer to stay on the stack during the call */
  bool draws;           /* counts among the engine's random calls if it succeeds */
} Arguments;

/* Fills *a, whose op alone is set, from all values on the stack. Raises with a message for the
 * caller. */
void arguments_read(lua_State *L, Arguments *a);
/* The number of inputs that a caller gives, without a random op's counter. */
int arguments_inputs(const OpDef *op);
/* Whether it is a script's table with string keys. */
bool arguments_has_names(lua_State *L, int index);
#endif
