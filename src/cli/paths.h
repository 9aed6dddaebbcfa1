/* Where the command finds Lua files and modules in C: beside the executable, in the build tree
 * or installed. */
#ifndef IPULUA_CLI_PATHS_H
#define IPULUA_CLI_PATHS_H
#include <lua.h>
#include <stdbool.h>

/* Add our folder to package.path, false when there is none; and offer the plug-ins. */
bool paths_add(lua_State *L);
#endif
