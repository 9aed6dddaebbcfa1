/* Outfeeds for Lua, and nodes for queues in traces. Lua code keeps the structure of an element;
 * here it is a list. */
#include <stdlib.h>

#include "engine/outfeed.h"
#include "lua/bind.h"
#include "lua/object.h"
#include "ops/io/feed.h"

#define OUTFEED_NAME "ipulua.Outfeed"

static int free_object(lua_State *L) {
  Object **o = lua_touserdata(L, 1);
  object_release(*o);
  *o = NULL;
  return 0;
}

Object *bind_check_object(lua_State *L, int index, const char *name) {
  Object **o = luaL_checkudata(L, index, name);
  if (!*o) luaL_error(L, "this object has been freed");
  return *o;
}

Object **bind_push_object(lua_State *L, const char *name) {
  Object **u = lua_newuserdatauv(L, sizeof *u, 1);
  *u = NULL;
  luaL_setmetatable(L, name);
  return u;
}

/* Its name in program:queues(). */
static int identity(lua_State *L) {
  lua_pushlightuserdata(L, bind_check_object(L, 1, lua_tostring(L, lua_upvalueindex(1))));
  return 1;
}

void bind_object_type(lua_State *L, const char *name, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  lua_pushcfunction(L, free_object);
  lua_setfield(L, -2, "__gc");
  lua_newtable(L);
  lua_pushstring(L, name);
  lua_pushcclosure(L, identity, 1);
  lua_setfield(L, -2, "identity");
  if (methods) luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

/* (keep_last) */
static int new_outfeed(lua_State *L) {
  bool keep_last = lua_toboolean(L, 1);
  Object **held = bind_push_object(L, OUTFEED_NAME);
  Error e = {0};
  Outfeed *q = outfeed_new(&e, keep_last);
  *held = (Object *)q;
  bind_check(L, &e);
  return 1;
}

static Outfeed *check(lua_State *L) { return (Outfeed *)bind_check_object(L, 1, OUTFEED_NAME); }

/* (outfeed, list of tensors, form) in the current trace */
static int enqueue(lua_State *L) {
  State *s = bind_state(L);
  Outfeed *q = check(L);
  int n = (int)luaL_len(L, 2);
  if (!s->trace) return luaL_error(L, "no function is being traced");
  int form = (int)luaL_checkinteger(L, 3);
  if (n > OUTFEED_COMPONENTS)
    return bind_fail(L, ERR_VALUE, "an outfeed's element has more than %d components",
                     OUTFEED_COMPONENTS);
  Graph *g = s->trace->trace->graph;
  Value **in = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *in, 0);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    in[i] = bind_value(L, lua_gettop(L), "enqueue");
    lua_pop(L, 1);
  }
  bind_mark_line(L, g);
  outlet_enqueue(g, outfeed_outlet(q), form, in, n);
  Error e = g->error;
  bind_check(L, &e);
  return 0;
}

/* (outfeed, most) → list of tensors, their form; an empty list if nothing has been enqueued */
static int take(lua_State *L) {
  Outfeed *q = check(L);
  int64_t max = luaL_optinteger(L, 2, -1);
  Tensor **out = lua_newuserdatauv(L, OUTFEED_COMPONENTS * sizeof *out, 0);
  Error e = {0};
  int n, form;
  /* a script that only polls must also serve the callbacks that a program waits for */
  host_calls_serve(bind_state(L)->host);
  outfeed_take(q, max, out, &n, &form, &e);
  bind_check(L, &e);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    bind_push_tensor(L, out[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, form);
  return 2;
}

static int count(lua_State *L) {
  lua_pushinteger(L, outfeed_count(check(L)));
  lua_pushinteger(L, outfeed_total(check(L)));
  return 2;
}

static int settle(lua_State *L) {
  bind_settle_queue(L, (Object *)check(L));
  return 0;
}

static int clear(lua_State *L) {
  Outfeed *q = check(L);
  if (bind_job_uses(L, (Object *)q))
    return bind_fail(L, ERR_FAILED_PRECONDITION, "a program is running with this outfeed queue");
  outfeed_clear(q);
  return 0;
}

void bind_open_queue(lua_State *L) {
  static const luaL_Reg methods[] = {{"enqueue", enqueue}, {"take", take},   {"count", count},
                                     {"settle", settle},   {"clear", clear}, {NULL, NULL}};
  lua_pushcfunction(L, new_outfeed);
  lua_setfield(L, -2, "new_outfeed");
  bind_object_type(L, OUTFEED_NAME, methods);
}
