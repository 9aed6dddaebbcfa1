/* The binding as a Lua module: ipulua.core. Lua files above it make the public interface. */
#ifndef IPULUA_LUA_MODULE_H
#define IPULUA_LUA_MODULE_H
#include <lua.h>
#include <stdbool.h>

__attribute__((visibility("default"))) int luaopen_ipulua_core(lua_State *L);

/* Lets `require` load the modules in C of a folder, such as ipulua.hdf5. has_other_lua: the process
 * may have other symbols lua_* than L's, as LuaJIT's, to which the modules must not be linked. */
void module_offer_plugins(lua_State *L, const char *folder, bool has_other_lua);
/* in the registry: the folders of the plug-ins that core opens */
#define PLUGIN_FOLDERS "ipulua.plugins"

bool module_has_plugin(lua_State *L, const char *name);

/* The number of this process among the instances of a training; -1: it is no instance. */
int module_instance(lua_State *L);
/* Called when the script has ended. Returns the exit status of the process. Without instances it
 * does nothing. */
int module_finish(lua_State *L, int status, const char *words);
#endif
