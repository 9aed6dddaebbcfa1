/* Infeeds for Lua. */
#include "data/infeed.h"

#include "lua/dataset.h"
#include "lua/object.h"

#define INFEED_NAME "ipulua.Infeed"

static Infeed *check_infeed(lua_State *L) { return (Infeed *)bind_check_object(L, 1, INFEED_NAME); }

/* The types of whole batches at an index, NULL for nil; they live as long as the call. */
static const Type *read_whole(lua_State *L, int index) {
  if (lua_isnoneornil(L, index)) return NULL;
  Type *types = lua_newuserdatauv(L, DATASET_COMPONENTS * sizeof *types, 0);
  bind_read_types(L, index, types);
  return types;
}

/* (dataset, depth, batch | nil: of whole batches, where smaller ones may come, types | nil: theirs,
 * where they may have any shape) */
static int new_infeed(lua_State *L) {
  Dataset *d = bind_check_dataset(L, 1);
  int depth = (int)luaL_checkinteger(L, 2);
  const Type *whole = read_whole(L, 4);
  DataContext context = bind_data_context(L);
  Object **held = bind_push_object(L, INFEED_NAME);
  Error e = {0};
  *held = (Object *)infeed_new(&e, d, &context, depth, luaL_optinteger(L, 3, 0), whole);
  bind_check(L, &e);
  return 1;
}

static int dequeue(lua_State *L) { /* in the current trace → list of symbolic components */
  State *s = bind_state(L);
  Infeed *q = check_infeed(L);
  if (!s->trace) return luaL_error(L, "no function is being traced");
  Graph *g = s->trace->trace->graph;
  bind_mark_line(L, g);
  Node *n = feed_dequeue(g, infeed_feed(q));
  Error e = g->error;
  bind_check(L, &e);
  lua_createtable(L, n->out_count, 0);
  for (int i = 0; i < n->out_count; i++) {
    bind_push_value(L, &n->out[i], s->trace);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int open_infeed(lua_State *L) {
  Infeed *q = check_infeed(L);
  DataContext context = bind_data_context(L);
  Error e = {0};
  infeed_set_context(q, &context);
  infeed_open(q, &e);
  bind_check(L, &e);
  size_t bytes = 0; /* of one element; several are read ahead */
  for (int i = 0; i < infeed_feed(q)->count; i++) bytes += type_bytes(&infeed_feed(q)->type[i]);
  bind_tell_collector(L, bytes);
  return 0;
}

static int open_infeed_explicitly(lua_State *L) {
  infeed_open_explicitly(check_infeed(L));
  return 0;
}

static int close_infeed(lua_State *L) {
  Error e = {0};
  if (bind_job_uses(L, (Object *)check_infeed(L)))
    return bind_fail(L, ERR_FAILED_PRECONDITION, "a program is running with this infeed queue");
  infeed_close(check_infeed(L), &e);
  bind_check(L, &e);
  return 0;
}

/* (infeed, dataset, depth, batch | nil, types | nil): while it is closed */
static int replace_infeed(lua_State *L) {
  Infeed *q = check_infeed(L);
  Dataset *d = bind_check_dataset(L, 2);
  Error e = {0};
  const Type *whole = read_whole(L, 5);
  infeed_replace(q, d, (int)luaL_checkinteger(L, 3), luaL_optinteger(L, 4, 0), whole, &e);
  bind_check(L, &e);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, 1, 1);
  return 0;
}

static int watch(lua_State *L) {
  infeed_watch(check_infeed(L));
  return 0;
}

/* The CRC32C of the first element since watch. */
static int crc_of_watched(lua_State *L) {
  lua_pushinteger(L, infeed_crc(check_infeed(L)));
  return 1;
}

/* (infeed, most) → the number of waiting whole batches, and of rows of the smaller one after
 * them */
static int gather(lua_State *L) {
  Infeed *q = check_infeed(L);
  DataContext context = bind_data_context(L);
  int64_t got = 0, rows = 0;
  Error e = {0};
  if (!infeed_is_open(q)) infeed_set_context(q, &context);
  infeed_gather(q, luaL_checkinteger(L, 2), &got, &rows, &e);
  bind_check(L, &e);
  lua_pushinteger(L, got);
  lua_pushinteger(L, rows);
  return 2;
}

/* (infeed) → the components of the smaller batch, which gather has reported */
static int take_smaller(lua_State *L) {
  Infeed *q = check_infeed(L);
  int count = infeed_feed(q)->count;
  int64_t got, rows = 0;
  Error e = {0};
  infeed_gather(q, 0, &got, &rows, &e);
  bind_check(L, &e);
  if (!rows) return luaL_error(L, "no smaller batch was read; gather must report one first");
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) bind_new_tensor(L), lua_rawseti(L, -2, i + 1);
  Tensor **out = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof(Tensor *), 0);
  infeed_take_smaller(q, out);
  for (int i = 0; i < count; i++) {
    lua_rawgeti(L, -2, i + 1);
    ((LuaTensor *)lua_touserdata(L, -1))->tensor = out[i];
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return 1;
}

static int leave_out(lua_State *L) {
  infeed_leave_out(check_infeed(L));
  return 0;
}

static int infeed_state(lua_State *L) {
  lua_pushboolean(L, infeed_is_open(check_infeed(L)));
  lua_pushinteger(L, infeed_position(check_infeed(L)));
  return 2;
}

static int save_infeed(lua_State *L) {
  Error e = {0};
  Tensor *t = infeed_save(check_infeed(L), &e);
  bind_check(L, &e);
  bind_push_tensor(L, t);
  return 1;
}

static int restore_infeed(lua_State *L) {
  LuaTensor *t = bind_check_tensor(L, 2, "saved");
  DataContext context = bind_data_context(L);
  Error e = {0};
  infeed_set_context(check_infeed(L), &context);
  infeed_restore(check_infeed(L), t->tensor, &e);
  bind_check(L, &e);
  return 0;
}

void bind_open_infeed(lua_State *L) {
  static const luaL_Reg methods[] = {{"watch", watch},
                                     {"crc", crc_of_watched},
                                     {"dequeue", dequeue},
                                     {"open", open_infeed},
                                     {"open_explicitly", open_infeed_explicitly},
                                     {"close", close_infeed},
                                     {"replace", replace_infeed},
                                     {"gather", gather},
                                     {"take_smaller", take_smaller},
                                     {"leave_out", leave_out},
                                     {"state", infeed_state},
                                     {"save", save_infeed},
                                     {"restore", restore_infeed},
                                     {NULL, NULL}};
  lua_pushcfunction(L, new_infeed), lua_setfield(L, -2, "new_infeed");
  bind_object_type(L, INFEED_NAME, methods);
}
