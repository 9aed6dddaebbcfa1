/* Locals at the prompt. Each line is a chunk of its own, so a local would end with its line. It is
 * made a global instead. */
#ifndef IPULUA_CLI_LOCALS_H
#define IPULUA_CLI_LOCALS_H
#include <lua.h>

typedef enum Locals {
  LOCALS_NONE, /* the text does not begin with `local` */
  LOCALS_KEPT, /* pushed: the text with globals in their place */
  LOCALS_CLOSE /* one is <close>: it ends with the line, as Lua has it */
} Locals;

/* Handles a `local` at the beginning of the text at index. May raise when out of memory. */
Locals locals_push(lua_State *L, int index);
#endif
