/* The instances of a training, for Lua: their begin and end, texts that they exchange, and
 * collectives of tensors on the host. `words` is a meeting's name in messages, with the script's
 * line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dist/crc.h"
#include "dist/gather.h"
#include "dist/instances.h"
#include "dist/launch.h"
#include "lua/bind.h"
#include "lua/module.h"
#include "tensor/combine.h"

static Instances *check(lua_State *L) {
  Instances *t = bind_state(L)->engine->instances;
  if (!t) luaL_error(L, "the instances have not begun");
  return t;
}

static void describe(const void *context, char *text, size_t n) {
  snprintf(text, n, "%s", (const char *)context);
}

static uint32_t crc_of(const char *text) { return dist_crc(0, text, strlen(text)); }

/* Of (kind, detail, words, …) */
static Meeting meeting_at(lua_State *L) {
  return (Meeting){.kind = crc_of(luaL_checkstring(L, 1)),
                   .detail = crc_of(luaL_checkstring(L, 2)),
                   .describe = describe,
                   .context = luaL_checkstring(L, 3)};
}

static Brought *push_brought(lua_State *L, const Instances *t) {
  return lua_newuserdatauv(L, (size_t)instances_count(t) * sizeof(Brought), 0);
}

/* Standard error writes whole lines from here on: a launcher joins the output of all instances.
 * stdio keeps its buffer of one byte for a stream that has written before. Another buffer, once
 * given, is used until the process ends. */
static void write_whole_lines(void) {
  enum { SIZE = 8192 };
  static char *buffer;
  if (!buffer && (buffer = malloc(SIZE))) setvbuf(stderr, buffer, _IOLBF, SIZE);
}

/* (plug-in's file, launcher's name, rank, size) → the library's name */
static int begin(lua_State *L) {
  State *s = bind_state(L);
  Error e = {0};
  const char *plugin = luaL_checkstring(L, 1), *launcher = luaL_checkstring(L, 2);
  int rank = bind_check_int(L, 3, "rank"), size = bind_check_int(L, 4, "size");
  instances_begin(&e, plugin, launcher, rank, size, &s->engine->instances);
  bind_check(L, &e);
  write_whole_lines();
  lua_pushstring(L, instances_library(s->engine->instances));
  return 1;
}

/* (kind, detail, words, text) → list of everybody's texts */
static int gather_text(lua_State *L) {
  Instances *t = check(L);
  Meeting m = meeting_at(L);
  m.varying = true;
  Part part;
  part.data = luaL_checklstring(L, 4, &part.bytes);
  bind_settle(L, NULL);
  Brought *from = push_brought(L, t);
  Error e = {0};
  instances_gather(t, &m, &part, 1, from, &e);
  bind_check(L, &e);
  lua_createtable(L, instances_count(t), 0);
  for (int q = 0; q < instances_count(t); q++) {
    lua_pushlstring(L, from[q].bytes ? from[q].data : "", from[q].bytes);
    lua_rawseti(L, -2, q + 1);
  }
  return 1;
}

/* A dense tensor at 4; pushes the object that keeps it alive. */
static Tensor *check_dense(lua_State *L) {
  Tensor *t = bind_concrete(L, 4, "value");
  if (tensor_is_dense(t)) return t;
  LuaTensor *u = bind_new_tensor(L);
  Error e = {0};
  u->tensor = tensor_dense(&e, t);
  bind_check(L, &e);
  return u->tensor;
}

static Tensor *push_new(lua_State *L, const Type *type) {
  Error e = {0};
  LuaTensor *u = bind_new_tensor(L);
  u->tensor = tensor_new_uninitialised(&e, type);
  bind_check(L, &e);
  return u->tensor;
}

/* Everybody's elements of the tensor at 4. */
static const Brought *gather_tensor(lua_State *L, Instances *t, const Tensor *x) {
  Meeting m = meeting_at(L);
  Part part = {x->data, type_bytes(&x->type)};
  Brought *from = push_brought(L, t);
  Error e = {0};
  instances_gather(t, &m, &part, 1, from, &e);
  bind_check(L, &e);
  return from;
}

/* (kind, detail, words, tensor) → [instances, …] */
static int allgather(lua_State *L) {
  Instances *t = check(L);
  bind_settle(L, NULL);
  Tensor *x = check_dense(L);
  Type type = x->type;
  if (type.rank == MAX_RANK)
    return bind_fail(L, ERR_INVALID_ARGUMENT,
                     "distributed.allgather can't stack tensors of rank %d", MAX_RANK);
  memmove(type.shape + 1, type.shape, (size_t)type.rank * sizeof *type.shape);
  type.shape[0] = instances_count(t);
  type.rank++;
  const Brought *from = gather_tensor(L, t, x);
  Tensor *out = push_new(L, &type);
  size_t bytes = type_bytes(&x->type);
  for (int q = 0; q < instances_count(t) && bytes; q++)
    memcpy((char *)out->data + (size_t)q * bytes, from[q].data, bytes);
  return 1;
}

/* (kind, detail, words, tensor, mean) → the sum, or the mean */
static int allreduce(lua_State *L) {
  Instances *t = check(L);
  bool mean = lua_toboolean(L, 5);
  bind_settle(L, NULL);
  Tensor *x = check_dense(L);
  const Brought *from = gather_tensor(L, t, x);
  const void **data = lua_newuserdatauv(L, (size_t)instances_count(t) * sizeof *data, 0);
  for (int q = 0; q < instances_count(t); q++) data[q] = from[q].data;
  Tensor *out = push_new(L, &x->type);
  if (type_count(&x->type)) tensor_combine(&x->type, data, instances_count(t), mean, out->data);
  return 1;
}

static Status send_from(Instances *t, Meeting *m, const Part *own, int root, Brought *from,
                        Error *e) {
  m->varying = true;
  Part nothing = {"", 0};
  return instances_gather(t, m, instances_rank(t) == root ? own : &nothing, 1, from, e);
}

/* (kind, detail, words, tensor, root) → the root's tensor; others of the same type are given */
static int broadcast(lua_State *L) {
  Instances *t = check(L);
  int root = bind_check_int(L, 5, "root_rank");
  bind_settle(L, NULL);
  Tensor *x = check_dense(L);
  Meeting m = meeting_at(L);
  Part part = {x->data, type_bytes(&x->type)};
  Brought *from = push_brought(L, t);
  Error e = {0};
  send_from(t, &m, &part, root, from, &e);
  bind_check(L, &e);
  Tensor *out = push_new(L, &x->type);
  if (part.bytes && from[root].bytes == part.bytes) memcpy(out->data, from[root].data, part.bytes);
  return 1;
}

/* (kind, detail, words, list of variables): all take instance 0's values, in one message. */
static int broadcast_variables(lua_State *L) {
  Instances *t = check(L);
  Meeting m = meeting_at(L);
  luaL_checktype(L, 4, LUA_TTABLE);
  bind_settle(L, NULL);
  int count = (int)luaL_len(L, 4);
  size_t bytes = 0, at = 0;
  Variable **v = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *v, 0);
  for (int i = 0; i < count; i++) {
    lua_rawgeti(L, 4, i + 1);
    v[i] = bind_test_variable(L, -1);
    lua_pop(L, 1);
    if (!v[i] || !v[i]->value)
      return luaL_error(L, "each entry must be a variable with a value, entry %d is none", i + 1);
    bytes += type_bytes(&v[i]->type);
  }
  char *all = lua_newuserdatauv(L, bytes + 1, 0);
  for (int i = 0; i < count; i++) {
    size_t n = type_bytes(&v[i]->type);
    if (n) memcpy(all + at, v[i]->value->data, n);
    at += n;
  }
  Brought *from = push_brought(L, t);
  Error e = {0};
  send_from(t, &m, &(Part){all, bytes}, 0, from, &e);
  for (int i = 0; i < count && e.status == OK && instances_rank(t); i++) {
    void *data = variable_writable(&e, v[i]);
    size_t n = type_bytes(&v[i]->type);
    if (data && n) memcpy(data, from[0].data, n);
    from[0].data = (const char *)from[0].data + n;
  }
  bind_check(L, &e);
  for (int i = 0; i < count; i++) v[i]->assigned = false;
  return 0;
}

/* (words): reports to all instances that this one has failed. */
static int tell_failure(lua_State *L) {
  Error e = {0};
  fail(&e, ERR_RUNTIME, "%s", luaL_checkstring(L, 1));
  instances_fail(check(L), &e);
  return 0;
}

/* Raises when another instance has failed. */
static int look(lua_State *L) {
  Error e = {0};
  instances_look(check(L), &e);
  bind_check(L, &e);
  return 0;
}

/* (status, words) → status that the process ends with */
static int finish(lua_State *L) {
  State *s = bind_state(L);
  int status = bind_check_int(L, 1, "status");
  if (s->engine->instances) {
    status = instances_end(s->engine->instances, status, luaL_optstring(L, 2, NULL));
    s->engine->instances = NULL;
  }
  lua_pushinteger(L, status);
  return 1;
}

/* Pushes the file of a plug-in, in one of the folders that module_offer_plugins noted, or nil. */
static bool push_plugin(lua_State *L, const char *name) {
  int top = lua_gettop(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, PLUGIN_FOLDERS);
  for (lua_Integer i = luaL_len(L, -1); i > 0; i--) {
    lua_rawgeti(L, top + 1, i);
    const char *path = lua_pushfstring(L, "%s/%s.so", lua_tostring(L, -1), name);
    if (access(path, R_OK)) continue;
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
    return true;
  }
  lua_settop(L, top);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "searchpath");
  lua_pushfstring(L, "ipulua.%s", name);
  lua_getfield(L, -3, "cpath");
  lua_call(L, 2, 1);
  lua_replace(L, top + 1);
  return lua_isstring(L, top + 1);
}

bool module_has_plugin(lua_State *L, const char *name) {
  bool found = push_plugin(L, name);
  lua_pop(L, 1);
  return found;
}

static int plugin(lua_State *L) {
  push_plugin(L, luaL_checkstring(L, 1));
  return 1;
}

/* → {launcher, library, count, index, local_count, local_index}, from the environment */
static int launch(lua_State *L) {
  Launch l = launch_read();
  lua_newtable(L);
  bind_set_text(L, "launcher", l.launcher);
  bind_set_text(L, "library", l.library);
  bind_set_integer(L, "count", l.size);
  bind_set_integer(L, "index", l.rank);
  return 1;
}

static int host(lua_State *L) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  lua_pushstring(L, name);
  return 1;
}

static int crc(lua_State *L) {
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  lua_pushinteger(L, dist_crc(0, text, n));
  return 1;
}

int module_instance(lua_State *L) {
  const State *s = bind_known_state(L);
  return s && s->engine && s->engine->instances ? instances_rank(s->engine->instances) : -1;
}

int module_finish(lua_State *L, int status, const char *words) {
  const State *s = bind_known_state(L);
  if (!s || !s->engine || !s->engine->instances) return status;
  Instances *t = s->engine->instances;
  s->engine->instances = NULL;
  return instances_end(t, status, words);
}

static int statistics(lua_State *L) {
  const Instances *t = bind_state(L)->engine->instances;
  Statistics s = {0};
  if (t) s = instances_statistics(t);
  lua_newtable(L);
  bind_set_integer(L, "meetings", s.meetings);
  bind_set_integer(L, "bytes_sent", s.bytes_sent);
  bind_set_integer(L, "bytes_received", s.bytes_received);
  bind_set_number(L, "seconds", s.seconds);
  bind_set_number(L, "waited", s.waited);
  return 1;
}

static int hosts(lua_State *L) {
  const Instances *t = check(L);
  lua_newtable(L);
  for (int q = 0; q < instances_count(t); q++) {
    lua_pushstring(L, instances_host(t, q));
    lua_rawseti(L, -2, q + 1);
  }
  return 1;
}

void bind_open_instances(lua_State *L) {
  static const luaL_Reg functions[] = {{"begin", begin},
                                       {"gather_text", gather_text},
                                       {"allgather", allgather},
                                       {"allreduce", allreduce},
                                       {"broadcast", broadcast},
                                       {"broadcast_variables", broadcast_variables},
                                       {"fail", tell_failure},
                                       {"look", look},
                                       {"finish", finish},
                                       {"statistics", statistics},
                                       {"hosts", hosts},
                                       {"host", host},
                                       {"launch", launch},
                                       {"plugin", plugin},
                                       {NULL, NULL}};
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "instances");
  lua_pushcfunction(L, crc);
  lua_setfield(L, -2, "crc");
}
