/* What could stand at the cursor: fields and methods, globals and keywords, option keys, file
 * names. */
#ifndef IPULUA_CLI_COMPLETE_H
#define IPULUA_CLI_COMPLETE_H
#include <lua.h>
#include <stddef.h>

/* text: the chunk up to the cursor. Pushes a sorted list of strings, each a full replacement for
 * the last *stem bytes of text. Runs no Lua code of the script: tables are read raw, metatables
 * followed through __index tables only (and a table "methods" beside an __index function). Modules
 * of the library may list in a function
 * __names what they load on demand. May raise when out of memory. */
void complete_push(lua_State *L, const char *text, size_t length, size_t *stem);

/* The globals that the prompt loads when they are first used, and the module each comes from. */
typedef struct LazyGlobal {
  const char *name, *module;
} LazyGlobal;
extern const LazyGlobal lazy_globals[]; /* ends with a NULL name */
#endif
