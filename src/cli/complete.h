/* Completion at the cursor: fields and methods, globals and keywords, option keys, file names. */
#ifndef IPULUA_CLI_COMPLETE_H
#define IPULUA_CLI_COMPLETE_H
#include <lua.h>
#include <stddef.h>

/* text: the chunk up to the cursor. Pushes a sorted list of strings, each a full replacement for
 * the last *stem bytes of text. It runs no Lua code of the script. Tables are read raw, and
 * metatables are followed through __index tables only. Beside an __index function, a table
 * "methods" is read. Modules of the library may have a function __names that lists the fields that
 * they load on demand. May raise when out of memory. */
void complete_push(lua_State *L, const char *text, size_t length, size_t *stem);

/* The globals that the prompt loads at their first use, and their modules. */
typedef struct LazyGlobal {
  const char *name, *module;
} LazyGlobal;
extern const LazyGlobal lazy_globals[]; /* ends with a NULL name */
#endif
