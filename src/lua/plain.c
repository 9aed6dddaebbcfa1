#include "lua/plain.h"

#include "lua/bind.h"
#include "lua/show.h"

enum { COLUMNS = 80 };

static const char metatable[] = "ipulua.plain";

bool plain_is(lua_State *L, int index) {
  if (!lua_istable(L, index)) return false;
  if (!lua_getmetatable(L, index)) return true;
  lua_pushliteral(L, "plain");
  lua_rawget(L, -2);
  bool plain = lua_toboolean(L, -1);
  lua_pop(L, 2);
  return plain;
}

int plain_to_string(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  show_push(L, 1, COLUMNS);
  return 1;
}

void plain_mark(lua_State *L) {
  if (luaL_newmetatable(L, metatable)) {
    lua_pushliteral(L, "table");
    lua_setfield(L, -2, "__name"); /* what messages call it */
    lua_pushboolean(L, true);
    lua_setfield(L, -2, "plain");
    lua_pushcfunction(L, plain_to_string);
    lua_setfield(L, -2, "__tostring");
  }
  lua_setmetatable(L, -2);
}

/* plain(value): the value; a table without a metatable is marked. */
static int mark(lua_State *L) {
  lua_settop(L, 1);
  if (!lua_istable(L, 1)) return 1;
  if (lua_getmetatable(L, 1)) lua_pop(L, 1);
  else plain_mark(L);
  return 1;
}

void bind_open_plain(lua_State *L) {
  lua_pushcfunction(L, mark);
  lua_setfield(L, -2, "plain");
  lua_pushcfunction(L, plain_to_string);
  lua_setfield(L, -2, "show");
}
