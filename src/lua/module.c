#include "lua/module.h"

#include "base/version.h"
#include "lua/bind.h"

int luaopen_ipulua_core(lua_State *L) {
  bind_state(L);
  lua_newtable(L);
  lua_pushliteral(L, IPULUA_VERSION);
  lua_setfield(L, -2, "version");
  bind_open_tensor(L);
  bind_open_literal(L);
  bind_open_variable(L);
  bind_open_ops(L);
  bind_open_trace(L);
  bind_open_region(L);
  bind_open_program(L);
  bind_open_settings(L);
  bind_open_entry(L);
  bind_open_random(L);
  bind_open_tape(L);
  bind_open_graph(L);
  bind_open_price(L);
  bind_open_host(L);
  bind_open_job(L);
  bind_open_queue(L);
  bind_open_dataset(L);
  bind_open_files(L);
  bind_open_pipeline(L);
  bind_open_plain(L);
  return 1;
}
