#include "lua/context.h"

#include <stdlib.h>
#include <string.h>

#define CONTEXT_NAME "ipulua.Context"

/* In the registry. */
static const char CONTEXTS_KEY; /* thread → Context, weak keys: of threads with open scopes, and of
                                 * the main thread */
static const char CHAIN_KEY;    /* list of the threads that ran, outermost first */
static const char RUNNING_KEY;  /* the thread that runs: no other one gets its address meanwhile */
static const char SOURCE_KEY;   /* the Context that the running thread began with */
static const char HERE_KEY;     /* the table in which Lua files keep open scopes */

typedef struct Around {
  TraceRef *trace; /* retained */
  Placement place;
  char *prefix, *attributes;
  bool estimating;
} Around;

/* The open scopes of a thread that doesn't run, and those at its beginning. User values 1 and 2 are
 * the two tables. */
typedef struct Context {
  Around now, base;
  lua_State *thread; /* the one whose it is, to compare with */
} Context;

/* ---- values ---- */

static void clear(Around *a) {
  trace_ref_release(a->trace);
  free(a->prefix);
  free(a->attributes);
  memset(a, 0, sizeof *a);
}

static bool copy_text(char **to, const char *from) {
  *to = from ? strdup(from) : NULL;
  return *to || !from;
}

static void copy(lua_State *L, Around *to, const Around *from) {
  Around made = *from;
  bool whole = copy_text(&made.prefix, from->prefix);
  if (!copy_text(&made.attributes, from->attributes) || !whole) {
    free(made.prefix);
    free(made.attributes);
    luaL_error(L, "out of memory");
  }
  trace_ref_retain(made.trace);
  clear(to);
  *to = made;
}

static bool same_text(const char *a, const char *b) { return !strcmp(a ? a : "", b ? b : ""); }

static bool same(const Around *a, const Around *b) {
  return trace_ref_open(a->trace) == trace_ref_open(b->trace) &&
         placement_equal(&a->place, &b->place) && a->estimating == b->estimating &&
         same_text(a->prefix, b->prefix) && same_text(a->attributes, b->attributes);
}

static Around live(const State *s) {
  return (Around){s->trace, s->scope.place, s->prefix, s->attributes, s->estimating};
}

/* Takes a's texts over. */
static void make_live(State *s, Around *a) {
  free(s->prefix);
  free(s->attributes);
  s->trace = trace_ref_open(a->trace);
  s->scope.place = a->place;
  s->prefix = a->prefix;
  s->attributes = a->attributes;
  s->estimating = a->estimating;
  engine_follow_scopes(s->engine, &s->scope.place);
  a->prefix = a->attributes = NULL;
  clear(a);
}

static int free_context(lua_State *L) {
  Context *c = lua_touserdata(L, 1);
  trace_ref_end(c->now.trace, c->base.trace, c->thread, true);
  clear(&c->now);
  clear(&c->base);
  return 0;
}

/* ---- tables ---- */

static void push_copy(lua_State *L, int index) {
  index = lua_absindex(L, index);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, index);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
}

static bool within(lua_State *L, int index, int other) {
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    lua_pushvalue(L, -2);
    lua_rawget(L, other);
    bool equal = lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
    if (equal) continue;
    lua_pop(L, 2);
    return false;
  }
  return true;
}

static bool same_tables(lua_State *L, int a, int b) {
  a = lua_absindex(L, a), b = lua_absindex(L, b);
  return within(L, a, b) && within(L, b, a);
}

/* ---- threads ---- */

bool context_is_active(const State *s, lua_State *thread) {
  lua_Debug d;
  return thread == s->thread || thread == s->main ||
         (lua_status(thread) == LUA_OK && lua_getstack(thread, 0, &d));
}

void context_push_thread(lua_State *L, lua_State *thread) {
  if (thread != L && !lua_checkstack(thread, 1)) luaL_error(L, "stack overflow");
  lua_pushthread(thread);
  if (thread != L) lua_xmove(thread, L, 1);
}

/* Pushes the Context of the thread on top of the stack in its place, or nil. */
static Context *find(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &CONTEXTS_KEY);
  lua_insert(L, -2);
  lua_rawget(L, -2);
  lua_remove(L, -2);
  return lua_touserdata(L, -1);
}

static Context *push_context(lua_State *L) {
  Context *c = lua_newuserdatauv(L, sizeof *c, 2);
  memset(c, 0, sizeof *c);
  luaL_setmetatable(L, CONTEXT_NAME);
  return c;
}

/* contexts[thread] = the value on top, which is popped. */
static void set_context(lua_State *L, lua_State *thread) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &CONTEXTS_KEY);
  context_push_thread(L, thread);
  lua_rotate(L, -3, -1);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* Puts aside the open scopes of the thread that ran. Does nothing if its resumer has the same
 * scopes. */
static void leave(lua_State *L, State *s) {
  int top = lua_gettop(L);
  Around now = live(s);
  context_push_thread(L, s->thread);
  Context *own = find(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &HERE_KEY);
  if (s->thread != s->main) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &SOURCE_KEY);
    const Context *source = lua_touserdata(L, -1);
    lua_getiuservalue(L, own ? top + 1 : -1, own ? 2 : 1);
    const Around *base = own ? &own->base : &source->now;
    if (same(&now, base) && same_tables(L, top + 2, -1)) {
      lua_pushnil(L);
      set_context(L, s->thread);
      lua_settop(L, top);
      return;
    }
    if (!own) {
      push_copy(L, -1);
      own = push_context(L);
      own->thread = s->thread;
      copy(L, &own->base, base);
      lua_insert(L, -2);
      lua_setiuservalue(L, -2, 2);
      lua_pushvalue(L, -1);
      lua_replace(L, top + 1);
      set_context(L, s->thread);
    }
  }
  copy(L, &own->now, &now);
  lua_pushvalue(L, top + 2);
  lua_setiuservalue(L, top + 1, 1);
  lua_settop(L, top);
}

/* A thread that was resumed and has made no call since isn't in the chain. Replaces the Context on
 * top by the Context of such a thread, if there is one. It waits for all threads of the chain. */
static void find_silent(lua_State *L, const State *s, const lua_State *thread, int chain) {
  int found = lua_gettop(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &CONTEXTS_KEY);
  for (lua_pushnil(L); lua_next(L, found + 1); lua_pop(L, 1)) {
    lua_State *each = lua_tothread(L, -2);
    bool known = each == thread || !context_is_active(s, each);
    for (lua_Integer i = luaL_len(L, chain); i > 0 && !known; i--, lua_pop(L, 1)) {
      lua_rawgeti(L, chain, i);
      known = lua_tothread(L, -1) == each;
    }
    if (known || each == s->main) continue;
    lua_pushvalue(L, -1);
    lua_replace(L, found);
  }
  lua_pop(L, 1);
}

/* Leaves in the chain the threads that wait for others, and appends `thread`. Pushes the Context of
 * the last thread before it that has one. */
static void join_chain(lua_State *L, const State *s, lua_State *thread) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &CHAIN_KEY);
  int chain = lua_gettop(L), kept = 0;
  context_push_thread(L, s->main);
  find(L);
  lua_Integer n = luaL_len(L, chain);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, chain, i);
    lua_State *each = lua_tothread(L, -1);
    if (each == thread || !context_is_active(s, each)) {
      lua_pop(L, 1);
      continue;
    }
    lua_pushvalue(L, -1);
    lua_rawseti(L, chain, ++kept);
    if (find(L)) lua_replace(L, chain + 1);
    else lua_pop(L, 1);
  }
  context_push_thread(L, thread);
  lua_rawseti(L, chain, ++kept);
  for (lua_Integer i = n; i > kept; i--) {
    lua_pushnil(L);
    lua_rawseti(L, chain, i);
  }
  find_silent(L, s, thread, chain);
  lua_remove(L, chain);
}

static void enter(lua_State *L, State *s, lua_State *thread) {
  int top = lua_gettop(L);
  s->thread = thread;
  context_push_thread(L, thread);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &RUNNING_KEY);
  Context *own = find(L);
  join_chain(L, s, thread);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &SOURCE_KEY);
  lua_getiuservalue(L, own ? top + 1 : -1, 1);
  if (!own) push_copy(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &HERE_KEY);
  Around begun = {0};
  if (own) trace_ref_end(own->now.trace, own->base.trace, thread, false);
  copy(L, &begun, own ? &own->now : &((Context *)lua_touserdata(L, top + 2))->now);
  make_live(s, &begun);
  lua_settop(L, top);
}

void context_switch(lua_State *L, State *s) {
  lua_State *thread = L == s->callbacks ? s->calling : L;
  if (thread == s->thread || !thread) return;
  luaL_checkstack(L, 16, NULL);
  leave(L, s);
  enter(L, s, thread);
}

void context_begin(lua_State *L, State *s) {
  bind_type(L, CONTEXT_NAME, free_context, NULL);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  bind_set_text(L, "__mode", "k");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &CONTEXTS_KEY);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &CHAIN_KEY);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &HERE_KEY);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  s->main = s->thread = lua_tothread(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &RUNNING_KEY);
  Context *c = push_context(L);
  c->now.place = PLACEMENT_NONE;
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, 1);
  set_context(L, s->main);
}

/* A scope was closed. A coroutine without open scopes has the scopes of its resumer again, as they
 * are now. */
static int follow_resumer(lua_State *L) {
  State *s = bind_state(L);
  if (s->thread == s->main) return 0;
  leave(L, s);
  enter(L, s, s->thread);
  return 0;
}

/* The table in which Lua files keep open scopes. Its fields are replaced, never changed in
 * place. */
static int here(lua_State *L) {
  bind_state(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &HERE_KEY);
  return 1;
}

void bind_open_context(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"here", here}, {"follow_resumer", follow_resumer}, {NULL, NULL}};
  bind_set_functions(L, functions);
}
