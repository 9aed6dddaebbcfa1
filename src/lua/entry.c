/* How scripts enter functions of the library that are written in Lua. `return layer(x)` is a tail
 * call. A Lua function would replace the frame of the script's function, whose line errors and
 * profiles name. A C function leaves that frame on the stack. */
#include "lua/bind.h"

static int finish(lua_State *L, int status, lua_KContext context) {
  (void)status, (void)context;
  return lua_gettop(L);
}

static int enter(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, finish);
  return finish(L, LUA_OK, 0);
}

/* (f) → a function that calls it; f itself where it is C's already */
static int entry(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  if (lua_iscfunction(L, 1)) return 1;
  lua_settop(L, 1);
  lua_pushcclosure(L, enter, 1);
  return 1;
}

/* (f) → the function that entry f calls; f itself if it is no entry */
static int entered(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  if (lua_tocfunction(L, 1) == enter) lua_getupvalue(L, 1, 1);
  return 1;
}

void bind_open_entry(lua_State *L) {
  static const luaL_Reg functions[] = {{"entry", entry}, {"entered", entered}, {NULL, NULL}};
  bind_set_functions(L, functions);
}
