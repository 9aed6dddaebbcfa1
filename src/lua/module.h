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
#define PLUGIN_FOLDERS "ipulua.plugins" /* in the registry: where those may lie that core opens */

bool module_has_plugin(lua_State *L, const char *name);

/* Of the instances of a training, which one this state's process is; -1: it is alone. */
int module_instance(lua_State *L);
/* The script has ended; gives the status that the process ends with. Nothing where it is alone. */
int module_finish(lua_State *L, int status, const char *words);
#endif
