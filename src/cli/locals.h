/* Locals at the prompt: a line is a chunk of its own, so that what it declares would be gone
 * with the next one. */
#ifndef IPULUA_CLI_LOCALS_H
#define IPULUA_CLI_LOCALS_H
#include <lua.h>

typedef enum Locals {
  LOCALS_NONE, /* the text does not begin with `local` */
  LOCALS_KEPT, /* pushed: the text with globals in their place */
  LOCALS_CLOSE /* one is <close>: it ends with the line, as Lua has it */
} Locals;

/* What becomes of the `local` that the text at index begins with. May raise when out of memory. */
Locals locals_push(lua_State *L, int index);
#endif
