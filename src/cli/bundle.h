/* The library's Lua files and the page of reports, embedded in the executable, which so needs no
 * other file. */
#ifndef IPULUA_CLI_BUNDLE_H
#define IPULUA_CLI_BUNDLE_H
#include <lua.h>

/* The prefix of chunk names for files of the folder ipulua: "[ipulua]/keras/layer.lua:12". */
#define BUNDLE_FOLDER "[ipulua]/"

/* Lets `require` find the library's modules in the executable. They take the place of Lua's default
 * path in package.path, or its end if the default path isn't there. The module ipulua.bundle reads
 * files that are no modules. */
void bundle_add(lua_State *L);
#endif
