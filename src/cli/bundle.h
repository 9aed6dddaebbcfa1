/* The library's Lua files and the page of reports as the executable carries them, so that it
 * runs where there is no other file. */
#ifndef IPULUA_CLI_BUNDLE_H
#define IPULUA_CLI_BUNDLE_H
#include <lua.h>

/* What stands for the folder ipulua in the names of chunks: "[ipulua]/keras/layer.lua:12". */
#define BUNDLE_FOLDER "[ipulua]/"

/* From now on `require` finds the library's modules in the executable: where Lua's default path
 * stands in package.path, at the end when it isn't there. The module ipulua.bundle reads what is
 * no module. */
void bundle_add(lua_State *L);
#endif
