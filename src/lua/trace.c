/* Tracing from Lua: begin, arguments, values, end. */
#include <stdlib.h>
#include <string.h>

#include "lua/known.h"
#include "lua/trace.h"

enum { MAX_LISTED = 4096 };

TraceRef *trace_ref_new(lua_State *L, Trace *t) {
  TraceRef *r = t ? calloc(1, sizeof *r) : NULL;
  if (!r) {
    trace_free(t);
    bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory while tracing");
  }
  r->references = 1;
  r->trace = t;
  return r;
}

TraceRef *trace_ref_retain(TraceRef *r) {
  if (r) r->references++;
  return r;
}

void trace_ref_release(TraceRef *r) {
  while (r && !--r->references) {
    TraceRef *below = r->below;
    known_clear(r);
    trace_ref_release(r->parent);
    free(r);
    r = below;
  }
}

TraceRef *trace_ref_open(TraceRef *r) {
  while (r && !r->trace) r = r->below;
  return r;
}

static bool is_orphan(const TraceRef *r) {
  for (const TraceRef *p = r->parent; p; p = p->parent)
    if (!p->trace) return true;
  return false;
}

void trace_ref_end(TraceRef *r, const TraceRef *below, const lua_State *thread, bool all) {
  trace_ref_retain(r);
  while (r && r != below) {
    TraceRef *next = trace_ref_retain(r->below);
    if (r->trace && r->thread == thread && (all || is_orphan(r))) {
      Trace *t = r->trace;
      known_clear(r);
      r->trace = NULL;
      trace_free(t);
      trace_ref_release(r); /* the stack's */
    }
    trace_ref_release(r);
    r = next;
  }
  trace_ref_release(r);
}

/* A text in the graph's memory; the same one again shares it. */
static void keep_text(Graph *g, const char **slot, const char *text) {
  if (!text || !*text) *slot = NULL;
  else if (!*slot || strcmp(*slot, text)) *slot = arena_string(g->arena, text);
  if (text && *text && !*slot) fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory while tracing");
}

void bind_mark_line(lua_State *L, Graph *g) { bind_mark_at(bind_state(L), g, bind_where(L)); }

void bind_mark_at(const State *s, Graph *g, const char *where) {
  g->scope.place = s->scope.place;
  keep_text(g, &g->scope.prefix, s->prefix);
  keep_text(g, &g->scope.attributes, s->attributes);
  keep_text(g, &g->scope.source, where);
}

void bind_check_graph(lua_State *L, Graph *g) {
  if (g->error.status == OK) return;
  Error e = g->error;
  error_clear(&g->error);
  bind_raise(L, &e);
}

const char *bind_stale_words(const LuaTensor *t) {
  if (t->trace && t->trace->is_region)
    return "a tensor made inside a loop or branch is used after it; carry it as a value of ipu.loops.repeat_n, return it from the "
           "branch, or assign it to an ipu.Variable";
  return "a symbolic tensor is used after the function that made it was traced; return it from there";
}

Value *bind_value(lua_State *L, int index, const char *what) {
  return bind_value_in(L, bind_state(L)->trace, index, what);
}

static void note_graph(const State *s, TraceRef *ref, const LuaTensor *u, const Variable *v) {
  while (ref->parent) ref = ref->parent;
  if (ref == s->graph) return;
  if (v ? v->deferred && v->serial <= ref->variables_before
        : u && !u->tensor && u->trace == s->graph)
    ref->meets_graph = true;
}

Value *bind_value_in(lua_State *L, TraceRef *ref, int index, const char *what) {
  Trace *t = ref->trace;
  LuaTensor *u = bind_test_tensor(L, index);
  Variable *v = u ? NULL : bind_test_variable(L, index);
  Value *value;
  note_graph(bind_state(L), ref, u, v);
  if (v) {
    value = trace_read(t, v);
  } else if (u && u->value && u->trace->trace && !u->tensor) {
    value = trace_import(t, u->value);
  } else {
    if (u && !u->tensor) bind_fail(L, ERR_VALUE, "%s: %s", what, bind_stale_words(u));
    value = known_value(ref, bind_concrete(L, index, what));
    lua_pop(L, 1);
  }
  bind_check_graph(L, t->graph);
  return value;
}

TraceRef *bind_current_trace(lua_State *L) {
  TraceRef *r = bind_state(L)->trace;
  if (!r) luaL_error(L, "no function is being traced");
  return r;
}

Trace *bind_pop_trace(State *s) {
  TraceRef *r = s->trace;
  Trace *t = r->trace;
  s->trace = trace_ref_open(r->below);
  known_clear(r);
  r->trace = NULL;
  trace_ref_release(r);
  return t;
}

/* (region, follows, gradient) Begins a root trace, or a region of the current one. follows: it is
 * inlined after the current one (inline_region). gradient: it runs apart from the current one, and
 * its assignments are discarded. */
static int begin(lua_State *L) {
  State *s = bind_state(L);
  bool region = lua_toboolean(L, 1), follows = region && lua_toboolean(L, 2);
  TraceRef *parent = region ? bind_current_trace(L) : NULL;
  TraceRef *r = trace_ref_new(L, trace_new(parent ? parent->trace : NULL));
  r->trace->follows = follows;
  r->parent = trace_ref_retain(parent);
  r->is_region = region;
  r->variables_before = variable_newest();
  r->is_gradient = r->trace->is_gradient = region && lua_toboolean(L, 3);
  r->below = trace_ref_retain(s->trace);
  r->thread = s->thread;
  s->trace = r;
  bind_mark_line(L, r->trace->graph);
  return 0;
}

/* Whether the root of the current trace has met values or variables of the sessions' graph. */
static int meets_graph(lua_State *L) {
  const TraceRef *r = bind_current_trace(L);
  while (r->parent) r = r->parent;
  lua_pushboolean(L, r->meets_graph);
  return 1;
}

static int writes(lua_State *L) {
  lua_pushboolean(L, trace_writes(bind_current_trace(L)->trace));
  return 1;
}

static int depth(lua_State *L) {
  int n = 0;
  for (TraceRef *r = bind_state(L)->trace; r; r = r->below) n++;
  lua_pushinteger(L, n);
  return 1;
}

/* (depth) Give up traces until that many are open. */
static int give_up(lua_State *L) {
  State *s = bind_state(L);
  lua_Integer keep = luaL_checkinteger(L, 1), n = 0;
  for (TraceRef *r = s->trace; r; r = r->below) n++;
  for (; n > keep && s->trace; n--) {
    if (s->trace == s->graph) s->trace = s->trace->below; /* the sessions' graph stays */
    else trace_free(bind_pop_trace(s));
  }
  return 0;
}

/* (dtype, shape, name) */
static int argument(lua_State *L) {
  TraceRef *r = bind_current_trace(L);
  Type type = {.dtype = bind_check_dtype(L, 1)};
  type.rank = bind_check_shape(L, 2, "shape", type.shape);
  Value *v = trace_argument(r->trace, &type, lua_tostring(L, 3));
  bind_check_graph(L, r->trace->graph);
  bind_push_value(L, v, r);
  return 1;
}

Value **bind_values_in(lua_State *L, TraceRef *ref, int index, int *count, const char *what) {
  index = lua_absindex(L, index);
  lua_Integer n = lua_isnoneornil(L, index) ? 0 : luaL_len(L, index);
  if (n > MAX_LISTED) bind_fail(L, ERR_VALUE, "%s: more than %d values", what, MAX_LISTED);
  Value **v = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *v, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, index, i);
    v[i - 1] = bind_value_in(L, ref, lua_gettop(L), what);
    lua_pop(L, 1);
  }
  *count = (int)n;
  return v;
}

Value **bind_values(lua_State *L, int index, int *count, const char *what) {
  return bind_values_in(L, bind_state(L)->trace, index, count, what);
}

int bind_push_values(lua_State *L, Value **v, int count, TraceRef *r) {
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    bind_push_value(L, v[i], r);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* (results, name, runs) End the current root trace → program; runs: even where programs are only
 * priced */
static int end_root(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *r = bind_current_trace(L);
  int count;
  if (r->parent) return luaL_error(L, "a loop or branch is still open");
  Value **results = bind_values(L, 1, &count, "the function's result");
  bind_push_program(L, bind_pop_trace(s), results, count, lua_tostring(L, 2),
                    s->estimating && !lua_toboolean(L, 3));
  return 1;
}

/* The tensors of the traced program that live in streaming memory, without its pipeline's
 * tensors. */
static int offload(lua_State *L) {
  TraceRef *r = bind_current_trace(L);
  while (r->parent) r = r->parent;
  bind_read_offload(L, 1, &r->trace->offload);
  return 0;
}

#define TOKEN_NAME "ipulua.TraceToken"

typedef struct Token {
  TraceRef *trace;   /* retained */
  lua_State *hidden; /* the thread that hid it and hasn't shown it yet; NULL: none */
} Token;

static Token *push_token(lua_State *L) {
  State *s = bind_state(L);
  Token *token = lua_newuserdatauv(L, sizeof *token, 0);
  *token = (Token){.trace = trace_ref_retain(s->trace)};
  luaL_setmetatable(L, TOKEN_NAME);
  return token;
}

void bind_push_token(lua_State *L) { push_token(L); }

/* It may have ended meanwhile, in another coroutine. */
void bind_take_token(lua_State *L, int index) {
  Token *token = luaL_checkudata(L, index, TOKEN_NAME);
  State *s = bind_state(L);
  if (token->hidden) trace_ref_end(token->trace, NULL, token->hidden, false);
  token->hidden = NULL;
  s->trace = trace_ref_open(token->trace);
}

/* Ends the traces that a coroutine hid, if the coroutine is collected before it continues. */
static int free_token(lua_State *L) {
  Token *token = lua_touserdata(L, 1);
  if (token->hidden) trace_ref_end(token->trace, NULL, token->hidden, true);
  trace_ref_release(token->trace);
  *token = (Token){0};
  return 0;
}

/* Tracing pauses, so that initialisers inside a traced function compute at once: hide() → token,
 * show(token). */
static int hide(lua_State *L) {
  State *s = bind_state(L);
  push_token(L)->hidden = s->thread;
  s->trace = NULL;
  return 1;
}

static int show(lua_State *L) {
  bind_take_token(L, 1);
  return 0;
}

/* The argument with which show returns to the current trace. */
static int current_token(lua_State *L) {
  bind_push_token(L);
  return 1;
}

/* Variables that the current trace (or the sessions' graph) has read, as identities. */
static int read_variables(lua_State *L) {
  State *s = bind_state(L);
  Trace *t = (s->trace ? s->trace : bind_graph(L))->trace;
  lua_newtable(L);
  for (int i = 0; i < t->extra_count; i++) {
    if (!t->extra[i].variable) continue;
    lua_pushinteger(L, t->extra[i].variable->serial);
    lua_pushboolean(L, true);
    lua_rawset(L, -3);
  }
  return 1;
}

/* Variables that the current trace has assigned, in the order in which it met them: a list. */
static int written_variables(lua_State *L) {
  const State *s = bind_state(L);
  lua_newtable(L);
  for (int i = 0; s->trace && i < s->trace->trace->extra_count; i++) {
    const Extra *x = &s->trace->trace->extra[i];
    if (!x->variable || x->current == x->inner) continue;
    bind_push_variable(L, variable_retain(x->variable));
    lua_rawseti(L, -2, luaL_len(L, -2) + 1);
  }
  return 1;
}

void bind_open_trace(lua_State *L) {
  static const luaL_Reg functions[] = {{"trace_begin", begin},
                                       {"trace_depth", depth},
                                       {"trace_meets_graph", meets_graph},
                                       {"trace_writes", writes},
                                       {"trace_give_up", give_up},
                                       {"trace_argument", argument},
                                       {"trace_records", bind_trace_records},
                                       {"trace_end", end_root},
                                       {"offload", offload},
                                       {"trace_current", current_token},
                                       {"trace_read_variables", read_variables},
                                       {"trace_written_variables", written_variables},
                                       {"trace_hide", hide},
                                       {"trace_show", show},
                                       {NULL, NULL}};
  bind_set_functions(L, functions);
  bind_type(L, TOKEN_NAME, free_token, NULL);
}
