/* The variable of a tensor. In mixed precision a layer's call sees a variable as a tensor of
 * another dtype. It can still assign to the variable, as in v:assign_add(1). */
#include "lua/bind.h"

static const char BEHIND_KEY;

/* (tensor, variable) */
static int set_behind(lua_State *L) {
  luaL_checktype(L, 1, LUA_TUSERDATA);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &BEHIND_KEY) != LUA_TTABLE) return 0;
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_rawset(L, -3);
  return 0;
}

/* A method of the variable, called with the tensor. */
static int call_behind(lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_replace(L, 2);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

bool bind_field_behind(lua_State *L) {
  int top = lua_gettop(L);
  if (lua_type(L, 2) == LUA_TSTRING &&
      lua_rawgetp(L, LUA_REGISTRYINDEX, &BEHIND_KEY) == LUA_TTABLE) {
    lua_pushvalue(L, 1);
    if (lua_rawget(L, -2) == LUA_TUSERDATA) {
      int variable = lua_gettop(L);
      lua_pushvalue(L, 2);
      if (lua_gettable(L, variable) == LUA_TFUNCTION) {
        lua_pushvalue(L, variable);
        lua_pushcclosure(L, call_behind, 2);
        return true;
      }
    }
  }
  lua_settop(L, top);
  return false;
}

void bind_open_behind(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  bind_set_text(L, "__mode", "k");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &BEHIND_KEY);
  lua_pushcfunction(L, set_behind);
  lua_setfield(L, -2, "set_behind");
}
