/* Tracing from Lua: begin, arguments, values, gradients, end. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lua/known.h"
#include "lua/trace.h"
#include "ops/ops.h"
#include "transform/autodiff.h"
#include "transform/trace_gradient.h"

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

Value *bind_value_in(lua_State *L, TraceRef *ref, int index, const char *what) {
  Trace *t = ref->trace;
  LuaTensor *u = bind_test_tensor(L, index);
  Variable *v = u ? NULL : bind_test_variable(L, index);
  Value *value;
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

/* (region, follows, gradient) A root trace, or a region of the current one; one that follows is
 * put behind it (inline_region); one that is a gradient's runs apart from it, and what it
 * assigns is lost. */
static int begin(lua_State *L) {
  State *s = bind_state(L);
  bool region = lua_toboolean(L, 1), follows = region && lua_toboolean(L, 2);
  TraceRef *parent = region ? bind_current_trace(L) : NULL;
  TraceRef *r = trace_ref_new(L, trace_new(parent ? parent->trace : NULL));
  r->trace->follows = follows;
  r->parent = trace_ref_retain(parent);
  r->is_region = region;
  r->is_gradient = r->trace->is_gradient = region && lua_toboolean(L, 3);
  r->below = trace_ref_retain(s->trace);
  r->thread = s->thread;
  s->trace = r;
  bind_mark_line(L, r->trace->graph);
  return 0;
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

/* The same, for a trace. */
static Value **values_in(lua_State *L, TraceRef *ref, int index, int *count, const char *what) {
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
  return values_in(L, bind_state(L)->trace, index, count, what);
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

/* What of the program being traced lives in streaming memory, its pipeline apart. */
static int offload(lua_State *L) {
  TraceRef *r = bind_current_trace(L);
  while (r->parent) r = r->parent;
  bind_read_offload(L, 1, &r->trace->offload);
  return 0;
}

/* ---- differentiation ---- */

/* A variable that was read several times in the sessions' graph: its gradient is the sum over
 * the readings. */
static void sum_readings(lua_State *L, Trace *t, Value **ys, Value **dys, int y_count, int x_count,
                         Value **dx) {
  for (int i = 0; i < x_count; i++) {
    lua_rawgeti(L, 2, i + 1);
    Variable *v = bind_test_variable(L, -1);
    lua_pop(L, 1);
    for (int k = 0; v && k < t->extra_count; k++) {
      Value *x = t->extra[k].inner, *more = NULL;
      if (t->extra[k].variable != v || x == trace_read(t, v)) continue;
      Derivation d = {ys, dys, &x, &more, y_count, 1, t->graph->node_count, 0};
      autodiff(t->graph, ys, dys, y_count, &x, 1, &more);
      d.end = t->graph->node_count;
      trace_note_derivation(t, &d);
      if (more) dx[i] = dx[i] ? ops_add(t->graph, dx[i], more) : more;
    }
  }
}

/* Copies of the sessions' graph differentiate again. */
static void deferred_gradients(lua_State *L, TraceRef *r, Value **ys, Value **dys, int y_count,
                               Value **dx) {
  int x_count;
  Value **xs = values_in(L, r, 2, &x_count, "gradients");
  Trace *t = r->trace;
  Derivation d = {ys, dys, xs, dx, y_count, x_count, t->graph->node_count, 0};
  autodiff(t->graph, ys, dys, y_count, xs, x_count, dx);
  d.end = t->graph->node_count;
  trace_note_derivation(t, &d);
  sum_readings(L, t, ys, dys, y_count, x_count, dx);
}

/* The trace of r or around it that a value of the list at index was made in, the innermost such
 * one; `found` where there is none. */
static TraceRef *maker_in(lua_State *L, TraceRef *r, TraceRef *found, int index) {
  lua_Integer n = lua_istable(L, index) ? luaL_len(L, index) : 0;
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, index, i);
    const LuaTensor *u = bind_test_tensor(L, -1);
    /* NULL: known, or nothing is there */
    TraceRef *maker = u ? u->trace : bind_test_variable(L, -1) ? r : NULL;
    lua_pop(L, 1);
    for (TraceRef *at = r; at && at != found; at = at->parent)
      if (at == maker) found = at;
  }
  return found;
}

/* What was computed before a loop or branch is differentiated before it. */
static TraceRef *differentiated_in(lua_State *L, TraceRef *r) {
  for (TraceRef *at = r; at; at = at->parent)
    if (at->trace->follows || at->trace->deferred) return r;
  TraceRef *found = maker_in(L, r, maker_in(L, r, NULL, 1), 3);
  return found ? found : r;
}

static Source read_source(lua_State *L, int index) {
  Type type; /* raises for a stale symbolic tensor */
  bind_type_at(L, index, &type);
  LuaTensor *u = bind_test_tensor(L, index);
  if (!u) return (Source){.variable = bind_test_variable(L, index)};
  return u->tensor ? (Source){.tensor = u->tensor} : (Source){.value = u->value};
}

/* ---- what a tape records of functions being traced ---- */

#define WINDOW_NAME "ipulua.Window"

typedef struct Part {
  TraceRef *trace; /* retained */
  int first, end;
} Part;

typedef struct Window {
  Part *part;
  int count, capacity;
} Window;

static Part *part_of(lua_State *L, Window *w, TraceRef *r) {
  for (int i = 0; i < w->count; i++)
    if (w->part[i].trace == r) return &w->part[i];
  if (!array_reserve(&w->part, &w->capacity, w->count + 1, sizeof *w->part))
    bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory on a GradientTape");
  w->part[w->count] = (Part){trace_ref_retain(r), 0, INT_MAX};
  return &w->part[w->count++];
}

/* → a window on the traces that are open, from here on; those that begin later are in it, too */
static int window_begin(lua_State *L) {
  Window *w = lua_newuserdatauv(L, sizeof *w, 0);
  *w = (Window){0};
  luaL_setmetatable(L, WINDOW_NAME);
  for (TraceRef *r = bind_state(L)->trace; r && r->trace; r = r->parent)
    part_of(L, w, r)->first = r->trace->graph->node_count;
  return 1;
}

/* (window) It ends here. */
static int window_end(lua_State *L) {
  Window *w = luaL_checkudata(L, 1, WINDOW_NAME);
  for (TraceRef *r = bind_state(L)->trace; r && r->trace; r = r->parent) {
    Part *p = part_of(L, w, r);
    if (p->end == INT_MAX) p->end = r->trace->graph->node_count;
  }
  return 0;
}

static int window_free(lua_State *L) {
  Window *w = luaL_checkudata(L, 1, WINDOW_NAME);
  for (int i = 0; i < w->count; i++) trace_ref_release(w->part[i].trace);
  free(w->part);
  *w = (Window){0};
  return 0;
}

/* A list on the stack; NULL: everything is recorded. */
static Recorded *read_window(lua_State *L, int index, int *count) {
  Window *w = luaL_testudata(L, index, WINDOW_NAME);
  *count = 0;
  if (!w) return NULL;
  Recorded *list = lua_newuserdatauv(L, (size_t)(w->count + 1) * sizeof *list, 0);
  for (int i = 0; i < w->count; i++)
    if (w->part[i].trace->trace)
      list[(*count)++] = (Recorded){w->part[i].trace->trace, w->part[i].first, w->part[i].end,
                                    w->part[i].trace->trace->graph->node_count};
  return list;
}

/* (ys, xs, dys | nil, window | nil) in the current trace → list; false where there is no path. dys
 * may hold false. */
static int gradients(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *r = s->trace ? differentiated_in(L, s->trace) : bind_graph(L);
  Graph *g = r->trace->graph;
  int y_count, x_count = (int)luaL_len(L, 2), recorded_count;
  lua_settop(L, 4);
  const Recorded *recorded = read_window(L, 4, &recorded_count);
  bind_mark_line(L, g);
  Value **ys = values_in(L, r, 1, &y_count, "gradients");
  Value **dys = lua_newuserdatauv(L, (size_t)(y_count + 1) * sizeof *dys, 0);
  for (int i = 0; i < y_count; i++) {
    dys[i] = NULL;
    if (!lua_istable(L, 3)) continue;
    lua_rawgeti(L, 3, i + 1);
    if (lua_toboolean(L, -1)) dys[i] = bind_value_in(L, r, lua_gettop(L), "grad_ys");
    lua_pop(L, 1);
  }
  Value **dx = lua_newuserdatauv(L, (size_t)(x_count + 1) * sizeof *dx, 0);
  if (r->trace->deferred) {
    deferred_gradients(L, r, ys, dys, y_count, dx);
  } else {
    Source *source = lua_newuserdatauv(L, (size_t)(x_count + 1) * sizeof *source, 0);
    for (int i = 0; i < x_count; i++) {
      lua_rawgeti(L, 2, i + 1);
      source[i] = read_source(L, lua_gettop(L));
      lua_pop(L, 1);
    }
    trace_gradients(r->trace, ys, dys, y_count, source, x_count, recorded, recorded_count, dx);
  }
  bind_check_graph(L, g);
  lua_createtable(L, x_count, 0);
  for (int i = 0; i < x_count; i++) {
    if (dx[i]) bind_push_value(L, dx[i], r);
    else lua_pushboolean(L, false);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
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

/* What a coroutine hid that never goes on is given up with it. */
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

/* What show takes to go back to the trace that is current. */
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
                                       {"trace_writes", writes},
                                       {"trace_give_up", give_up},
                                       {"trace_argument", argument},
                                       {"trace_records", bind_trace_records},
                                       {"trace_end", end_root},
                                       {"gradients", gradients},
                                       {"offload", offload},
                                       {"window_begin", window_begin},
                                       {"window_end", window_end},
                                       {"trace_current", current_token},
                                       {"trace_read_variables", read_variables},
                                       {"trace_written_variables", written_variables},
                                       {"trace_hide", hide},
                                       {"trace_show", show},
                                       {NULL, NULL}};
  bind_set_functions(L, functions);
  luaL_newmetatable(L, TOKEN_NAME);
  lua_pushcfunction(L, free_token);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  luaL_newmetatable(L, WINDOW_NAME);
  lua_pushcfunction(L, window_free);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}
