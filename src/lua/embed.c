/* core.so's part of the bridge: the Lua state of a C program's models. */
#include <dlfcn.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "api/bridge.h"
#include "lua/bind.h"
#include "lua/callback.h"
#include "lua/module.h"

__attribute__((visibility("default"))) extern const Bridge ipulua_bridge;

static const char EMBED_KEY;

typedef struct Opening {
  const char *folder;
  int threads;
  uint64_t seed;
} Opening;

/* Put folder's files in front of package.path. */
static void add_path(lua_State *L, const char *folder) {
  if (!*folder || strpbrk(folder, ";?")) return; /* these have a meaning in a path */
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "path");
  lua_pushfstring(L, "%s/?.lua;%s/?/init.lua;%s", folder, folder, lua_tostring(L, -1));
  lua_setfield(L, -3, "path");
  lua_pop(L, 2);
}

/* Plug-ins lie where core.so does. */
static void offer_plugins(lua_State *L) {
  Dl_info own;
  const char *slash =
      dladdr(&ipulua_bridge, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
  if (!slash) return;
  lua_pushlstring(L, own.dli_fname, (size_t)(slash - own.dli_fname));
  module_offer_plugins(L, lua_tostring(L, -1), true);
  lua_pop(L, 1);
}

static int refuse_exit(lua_State *L) {
  return bind_fail(L, ERR_FAILED_PRECONDITION,
                   "os.exit is not available in an embedded program; return, or raise an error");
}

/* The process is the C program's. */
static void take_exit_away(lua_State *L) {
  lua_getglobal(L, "os");
  lua_pushcfunction(L, refuse_exit);
  lua_setfield(L, -2, "exit");
  lua_pop(L, 1);
}

static int open_protected(lua_State *L) {
  const Opening *o = lua_touserdata(L, 1);
  luaL_openlibs(L);
  take_exit_away(L);
  add_path(L, o->folder);
  offer_plugins(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_ipulua_core);
  lua_setfield(L, -2, "ipulua.core");
  lua_getglobal(L, "require");
  lua_pushliteral(L, "ipulua.tools.embed");
  lua_call(L, 1, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &EMBED_KEY);
  State *s = bind_state(L);
  Error e = {0};
  engine_set_threads(&e, s->engine, o->threads);
  bind_check(L, &e);
  s->engine->seed = s->device_seed = o->seed;
  engine_seed_rounding(s->engine, o->seed);
  return 0;
}

/* The message on top of the stack, with the status that the library gave it. */
static Status report(lua_State *L, Error *e) {
  Status status = ERR_RUNTIME;
  const char *message = callback_error_words(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &EMBED_KEY) == LUA_TTABLE) {
    lua_getfield(L, -1, "code");
    lua_pushvalue(L, -3);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_isstring(L, -1))
      for (int s = ERR_VALUE; s < STATUS_COUNT; s++)
        if (!strcmp(status_code((Status)s), lua_tostring(L, -1))) status = (Status)s;
  }
  fail(e, status, "%s", message);
  lua_settop(L, 0);
  return status;
}

static void *open_state(Error *e, const char *lua_folder, int threads, uint64_t seed) {
  lua_State *L = luaL_newstate();
  if (!L) return fail(e, ERR_OUT_OF_MEMORY, "out of memory for a Lua state"), NULL;
  Opening o = {lua_folder, threads, seed};
  lua_pushcfunction(L, open_protected);
  lua_pushlightuserdata(L, &o);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return L;
  report(L, e);
  lua_close(L);
  return NULL;
}

static void close_state(void *state) { lua_close(state); }

/* ---- calls ---- */

static void release(void *owner) { tensor_release(owner); }

/* The arguments that C passed, as a list of tensors. Each is taken over when it is used. */
static void push_tensors(lua_State *L, BridgeCall *c, int *taken, int begin, int end) {
  lua_createtable(L, end - begin, 0);
  for (int i = begin; i < end; i++) {
    LuaTensor *u = bind_new_tensor(L);
    const BridgeTensor *t = &c->in[i];
    Error e = {0};
    u->tensor = tensor_wrap(&e, &t->type, t->data, t->release, t->owner);
    bind_check(L, &e);
    *taken = i + 1;
    lua_rawseti(L, -2, i - begin + 1);
  }
}

/* Hands the list of tensors at index to the caller. */
static void take_tensors(lua_State *L, int index, BridgeCall *c) {
  int n = (int)luaL_len(L, index);
  c->out = calloc((size_t)n + 1, sizeof *c->out);
  if (!c->out) bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, index, i + 1);
    Tensor *t = bind_concrete(L, -1, c->function);
    Error e = {0};
    Tensor *own = tensor_new_uninitialised(&e, &t->type); /* a copy: the caller may write to it */
    bind_check(L, &e);
    tensor_copy_out(t, own->data);
    c->out[i] =
        (BridgeTensor){.type = own->type, .data = own->data, .owner = own, .release = release};
    c->out_count = i + 1;
    lua_pop(L, 2);
  }
}

/* Hands the text at index to the caller, whole or not at all. */
static void take_text(lua_State *L, int index, BridgeCall *c) {
  size_t size;
  const char *text = lua_tolstring(L, index, &size);
  if (strlen(text) != size)
    bind_fail(L, ERR_VALUE, "%s: the text has a NUL in it, where C would cut it", c->function);
  if (!(c->out_text = strdup(text))) bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
}

typedef struct Crossing {
  BridgeCall *call;
  int taken;
} Crossing;

/* embed.call(function, object, text, x, y) → text, object, tensors */
static int call_protected(lua_State *L) {
  Crossing *x = lua_touserdata(L, 1);
  BridgeCall *c = x->call;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &EMBED_KEY);
  lua_getfield(L, -1, "call");
  lua_pushstring(L, c->function);
  lua_pushinteger(L, c->object);
  lua_pushstring(L, c->text);
  push_tensors(L, c, &x->taken, 0, c->x_count);
  push_tensors(L, c, &x->taken, c->x_count, c->in_count);
  lua_call(L, 5, 3);
  int top = lua_gettop(L);
  if (lua_type(L, top - 2) == LUA_TSTRING) take_text(L, top - 2, c);
  c->out_object = lua_tointeger(L, top - 1);
  if (lua_istable(L, top)) take_tensors(L, top, c);
  return 0;
}

static Status call(Error *e, void *state, BridgeCall *c) {
  lua_State *L = state;
  Crossing x = {c, 0};
  lua_pushcfunction(L, call_protected);
  lua_pushlightuserdata(L, &x);
  Status status = lua_pcall(L, 1, 0, 0) == LUA_OK ? OK : report(L, e);
  for (int i = x.taken; i < c->in_count; i++) c->in[i].release(c->in[i].owner);
  size_t bytes = 0; /* the collector can't see the size of the caller's memory that it keeps */
  for (int i = 0; i < x.taken; i++) bytes += type_bytes(&c->in[i].type);
  bind_tell_collector(L, bytes);
  return status;
}

const Bridge ipulua_bridge = {BRIDGE_VERSION, open_state, close_state, call};
