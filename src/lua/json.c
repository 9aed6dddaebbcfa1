/* JSON read for Lua, by jansson. */
#include <jansson.h>

#include "lua/bind.h"

enum { MAX_NESTED = 200 };
enum { TEXT = 1, NULL_VALUE, LIST_MARK }; /* arguments */

#define ROOT_NAME "ipulua.JsonRoot"

static int free_root(lua_State *L) {
  json_t **root = lua_touserdata(L, 1);
  json_decref(*root);
  *root = NULL;
  return 0;
}

static bool push(lua_State *L, json_t *value, int depth);

/* Both push one table, unfinished where they give false: something is nested too deeply. */
static bool push_list(lua_State *L, json_t *list, int depth) {
  size_t count = json_array_size(list);
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++) {
    if (!push(L, json_array_get(list, i), depth)) return false;
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  if (count) return true;
  lua_pushvalue(L, LIST_MARK);
  lua_setmetatable(L, -2);
  return true;
}

static bool push_object(lua_State *L, json_t *object, int depth) {
  lua_createtable(L, 0, (int)json_object_size(object));
  for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
    lua_pushlstring(L, json_object_iter_key(at), json_object_iter_key_len(at));
    if (!push(L, json_object_iter_value(at), depth)) return false;
    lua_rawset(L, -3);
  }
  return true;
}

static bool push(lua_State *L, json_t *value, int depth) {
  luaL_checkstack(L, 4, "values in values");
  if (json_is_array(value) || json_is_object(value)) {
    if (depth == MAX_NESTED) return false;
    return (json_is_array(value) ? push_list : push_object)(L, value, depth + 1);
  }
  if (json_is_string(value))
    lua_pushlstring(L, json_string_value(value), json_string_length(value));
  else if (json_is_integer(value)) lua_pushinteger(L, json_integer_value(value));
  else if (json_is_real(value)) lua_pushnumber(L, json_real_value(value));
  else if (json_is_null(value)) lua_pushvalue(L, NULL_VALUE);
  else lua_pushboolean(L, json_is_true(value));
  return true;
}

/* (text, null, mark) → its value, or nil and the problem; null stands for null, mark becomes the
 * metatable of empty lists. */
static int read_json(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, TEXT, &length);
  lua_settop(L, LIST_MARK);
  json_t **root = lua_newuserdatauv(L, sizeof *root, 0);
  *root = NULL;
  luaL_setmetatable(L, ROOT_NAME);
  json_error_t at;
  *root = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &at);
  if (*root && push(L, *root, 0)) return 1;
  lua_pushnil(L);
  if (*root) lua_pushfstring(L, "nested deeper than %d levels", MAX_NESTED);
  else lua_pushfstring(L, "line %d, column %d: %s", at.line, at.column, at.text);
  return 2;
}

void bind_open_json(lua_State *L) {
  lua_pushcfunction(L, read_json);
  lua_setfield(L, -2, "read_json");
  bind_type(L, ROOT_NAME, free_root, NULL);
}
