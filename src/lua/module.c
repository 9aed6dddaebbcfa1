#include "lua/module.h"

#include <dlfcn.h>
#include <lauxlib.h>
#include <unistd.h>

#include "base/library.h"
#include "base/version.h"
#include "lua/bind.h"

int luaopen_ipulua_core(lua_State *L) {
  bind_state(L);
  lua_newtable(L);
  bind_set_text(L, "version", IPULUA_VERSION);
  bind_open_tensor(L);
  bind_open_tensor_bytes(L);
  bind_open_elements(L);
  bind_open_literal(L);
  bind_open_variable(L);
  bind_open_variable_replicas(L);
  bind_open_ops(L);
  bind_open_trace(L);
  bind_open_gradients(L);
  bind_open_region(L);
  bind_open_program(L);
  bind_open_settings(L);
  bind_open_entry(L);
  bind_open_random(L);
  bind_open_tape(L);
  bind_open_graph(L);
  bind_open_price(L);
  bind_open_host(L);
  bind_open_host_results(L);
  bind_open_behind(L);
  bind_open_context(L);
  bind_open_job(L);
  bind_open_instances(L);
  bind_open_queue(L);
  bind_open_dataset(L);
  bind_open_files(L);
  bind_open_pipeline(L);
  bind_open_plain(L);
  bind_open_json(L);
  return 1;
}

/* A loader of package.preload; its upvalues: the file, flags of dlopen. The library stays, as
 * Lua's own loader leaves it. */
static int load_hdf5(lua_State *L) {
  void *library =
      dlopen(lua_tostring(L, lua_upvalueindex(1)), (int)lua_tointeger(L, lua_upvalueindex(2)));
  lua_CFunction open;
  if (!library || !library_find(library, "luaopen_ipulua_hdf5", &open))
    return luaL_error(L, "%s", dlerror());
  lua_pushcfunction(L, open);
  lua_call(L, 0, 1);
  return 1;
}

void module_offer_plugins(lua_State *L, const char *folder, bool has_other_lua) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, PLUGIN_FOLDERS);
  lua_pushstring(L, folder);
  lua_rawseti(L, -2, luaL_len(L, -2) + 1);
  lua_pop(L, 1);
  int flags = RTLD_NOW | RTLD_LOCAL;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
  (void)has_other_lua; /* they refuse RTLD_DEEPBIND */
#else
  if (has_other_lua) flags |= RTLD_DEEPBIND;
#endif
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  if (!access(lua_pushfstring(L, "%s/hdf5.so", folder), R_OK)) {
    lua_pushinteger(L, flags);
    lua_pushcclosure(L, load_hdf5, 2);
    lua_setfield(L, -2, "ipulua.hdf5");
  } else {
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}
