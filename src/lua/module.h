/* The binding as a Lua module: ipulua.core. Lua files above it make the public interface. */
#ifndef IPULUA_LUA_MODULE_H
#define IPULUA_LUA_MODULE_H
#include <lua.h>
__attribute__((visibility("default"))) int luaopen_ipulua_core(lua_State *L);
#endif
