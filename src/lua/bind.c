#include "lua/context.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "dist/instances.h"

static const char STATE_KEY, CALLBACKS_KEY;

static int free_state(lua_State *L) {
  State *s = lua_touserdata(L, 1);
  /* first: its infeeds stop datasets, which may ask the host */
  if (s->graph) trace_free(s->graph->trace), s->graph->trace = NULL;
  trace_ref_release(s->graph);
  host_calls_free(s->host);
  if (s->engine && s->engine->instances)
    instances_end(s->engine->instances, 0, NULL); /* no command ended them */
  engine_free(s->engine);
  free(s->prefix);
  free(s->attributes);
  for (int i = 0; i < s->counter_count; i++) variable_release(s->counter[i].variable);
  free(s->counter);
  free(s->library);
  s->host = NULL;
  s->engine = NULL;
  s->library = s->prefix = s->attributes = NULL;
  s->graph = NULL;
  s->counter = NULL;
  s->counter_count = 0;
  return 0;
}

/* Where the library's Lua files are: above ipulua/base/blame.lua, which everything else loads
 * first. */
static void find_library(lua_State *L, State *s) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "ipulua.base.blame");
  if (lua_istable(L, -1) && lua_getfield(L, -1, "where") == LUA_TFUNCTION) {
    lua_Debug d;
    lua_getinfo(L, ">S", &d);
    static const char own[] = "base/blame.lua";
    size_t length = strlen(d.source), tail = sizeof own - 1;
    if (length > tail && !strcmp(d.source + length - tail, own))
      s->library = strndup(d.source, length - tail);
    lua_pop(L, 2);
    return;
  }
  lua_settop(L, lua_gettop(L) - 2);
}

const State *bind_known_state(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &STATE_KEY);
  const State *s = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return s;
}

State *bind_state(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &STATE_KEY);
  State *s = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (s) {
    if (L != s->thread) context_switch(L, s);
    return s;
  }
  s = lua_newuserdatauv(L, sizeof *s, 0);
  memset(s, 0, sizeof *s);
  s->print = print_defaults;
  s->scope.place = PLACEMENT_NONE;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, free_state);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &STATE_KEY);
  s->callbacks = lua_newthread(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &CALLBACKS_KEY);
  context_begin(L, s);
  Error e = {0};
  s->host = host_calls_new();
  if (!s->host) luaL_error(L, "out of memory");
  s->engine = engine_new(&e, 0, rng_system_seed());
  if (!s->engine) luaL_error(L, "%s", e.message);
  s->device_seed = s->engine->seed;
  return s;
}

const char *bind_where(lua_State *L) {
  State *s = bind_state(L);
  if (!s->library) find_library(L, s);
  lua_Debug d;
  size_t length = s->library ? strlen(s->library) : 0;
  for (int level = 1; lua_getstack(L, level, &d); level++) {
    lua_getinfo(L, "Sl", &d);
    if (*d.what == 'C' || (length && !strncmp(d.source, s->library, length))) continue;
    if (d.currentline > 0) lua_pushfstring(L, "%s:%d", d.short_src, d.currentline);
    else lua_pushstring(L, d.short_src);
    strncpy(s->where, lua_tostring(L, -1), sizeof s->where - 1);
    lua_pop(L, 1);
    return s->where;
  }
  return NULL;
}

int bind_raise(lua_State *L, const Error *e) {
  luaL_checkstack(L, 8, NULL);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "ipulua.base.blame");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "error");
  lua_pushstring(L, e->message);
  lua_pushstring(L, e->status == ERR_CANCELLED ? "cancelled" : status_kind(e->status));
  if (e->source[0]) lua_pushstring(L, e->source);
  else lua_pushnil(L);
  lua_call(L, 3, 0);
  return luaL_error(L, "%s", e->message); /* not reached */
}

const char *bind_describe(lua_State *L, int index) {
  index = lua_absindex(L, index);
  int type = lua_type(L, index);
  luaL_checkstack(L, 4, NULL);
  Type tensor;
  char text[TYPE_TEXT];
  if (type == LUA_TUSERDATA && bind_type_at(L, index, &tensor))
    return lua_pushfstring(L, "a tensor %s", type_text(&tensor, text));
  if (type != LUA_TSTRING && type != LUA_TNUMBER && type != LUA_TBOOLEAN)
    return luaL_typename(L, index);
  lua_pushfstring(L, "%s (%s)", lua_isinteger(L, index) ? "integer" : luaL_typename(L, index),
                  luaL_tolstring(L, index, NULL));
  lua_remove(L, -2);
  return lua_tostring(L, -1);
}

void bind_tell_collector(lua_State *L, size_t bytes) {
  size_t kilobytes = bytes >> 10;
  if (kilobytes) lua_gc(L, LUA_GCSTEP, kilobytes > 1 << 20 ? 1 << 20 : (int)kilobytes);
}

int bind_fail(lua_State *L, Status s, const char *format, ...) {
  Error e = {0};
  va_list args;
  va_start(args, format);
  failv(&e, s, format, args);
  va_end(args);
  return bind_raise(L, &e);
}

void bind_new_metatable(lua_State *L, const char *name, const char *word) {
  luaL_newmetatable(L, name);
  bind_set_text(L, "__name", word);
}

void bind_type(lua_State *L, const char *name, lua_CFunction collect, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "__gc");
  if (methods) {
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
  }
  lua_pop(L, 1);
}

void bind_push_texts(lua_State *L, char *const *text, int count) {
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    lua_pushstring(L, text[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

void bind_set_text(lua_State *L, const char *key, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}

void bind_set_flag(lua_State *L, const char *key, bool on) {
  lua_pushboolean(L, on);
  lua_setfield(L, -2, key);
}

void bind_set_integer(lua_State *L, const char *key, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

void bind_set_number(lua_State *L, const char *key, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

void bind_set_functions(lua_State *L, const luaL_Reg *functions) { luaL_setfuncs(L, functions, 0); }

int bind_check_int(lua_State *L, int index, const char *what) {
  lua_Integer n = luaL_checkinteger(L, index);
  if (n < INT_MIN || n > INT_MAX)
    bind_fail(L, ERR_VALUE, "'%s' is out of range: %lld", what, (long long)n);
  return (int)n;
}
