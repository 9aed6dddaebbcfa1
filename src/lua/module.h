/* The binding as a Lua module: ipulua.core. Lua files above it make the public interface. */
#ifndef IPULUA_LUA_MODULE_H
#define IPULUA_LUA_MODULE_H
#include <lua.h>
#include <stdbool.h>

__attribute__((visibility("default"))) int luaopen_ipulua_core(lua_State *L);

/* Offer the modules in C that may lie in a folder (ipulua.hdf5) to `require`, which loads them
 * from there. has_other_lua: the process may have a lua_* that is not L's (LuaJIT), which they
 * must not find. */
void module_offer_plugins(lua_State *L, const char *folder, bool has_other_lua);
#endif
