/* The binding as a Lua module: ipulua.core. Lua files above it make the public interface. */
#ifndef IPULUA_LUA_MODULE_H
#define IPULUA_LUA_MODULE_H
#include <lua.h>

__attribute__((visibility("default"))) int luaopen_ipulua_core(lua_State *L);

/* Offer the modules in C that may lie in a folder (ipulua.hdf5) to `require`, which loads them from there. */
void module_offer_plugins(lua_State *L, const char *folder);
#endif
