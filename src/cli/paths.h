/* The folders of Lua files and of modules in C, relative to the executable: in the build tree or
 * installed. */
#ifndef IPULUA_CLI_PATHS_H
#define IPULUA_CLI_PATHS_H
#include <lua.h>
#include <stdbool.h>

/* Adds the library's folder to package.path, and offers the plug-ins. False if there is no such
 * folder. */
bool paths_add(lua_State *L);
#endif
