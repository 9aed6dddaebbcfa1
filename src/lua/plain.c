#include "lua/plain.h"

#include "lua/bind.h"
#include "lua/show.h"

enum { COLUMNS = 80 };

bool plain_is(lua_State *L, int index) {
  if (!lua_istable(L, index)) return false;
  if (!lua_getmetatable(L, index)) return true;
  lua_pushliteral(L, "plain");
  lua_rawget(L, -2);
  bool plain = lua_toboolean(L, -1);
  lua_pop(L, 2);
  return plain;
}

static int to_string(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  show_push(L, 1, COLUMNS);
  return 1;
}

static void mark_as(lua_State *L, const char *metatable) {
  if (luaL_newmetatable(L, metatable)) {
    bind_set_text(L, "__name", "table"); /* its name in messages */
    bind_set_flag(L, "plain", true);
    lua_pushcfunction(L, to_string);
    lua_setfield(L, -2, "__tostring");
  }
  lua_setmetatable(L, -2);
}

void plain_mark(lua_State *L) { mark_as(L, "ipulua.plain"); }
void plain_mark_shape(lua_State *L) { mark_as(L, "ipulua.shape"); }

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
}
