/* Where the command finds Lua files: beside the executable, in the build tree or installed. */
#ifndef IPULUA_CLI_PATHS_H
#define IPULUA_CLI_PATHS_H
#include <lua.h>
#include <stdbool.h>

/* Add our folder to package.path: in front of Lua's default path wherever that stands (so LUA_PATH and its
 * ";;" keep their meaning), at the end when LUA_PATH left the default out. False when there is none. */
bool paths_add(lua_State *L);
#endif
