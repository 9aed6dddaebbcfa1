/* Tracing from Lua: begin, arguments, loops and branches, end. */
#include <stdlib.h>
#include <string.h>

#include "lua/bind.h"
#include "ops/ops.h"
#include "transform/autodiff.h"
#include "transform/clone.h"

enum { MOST_LISTED = 4096 };

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
  if (r && --r->references == 0) free(r);
}

/* A text in the graph's memory; the same one again shares it. */
static void keep_text(Graph *g, const char **slot, const char *text) {
  if (!text || !*text) *slot = NULL;
  else if (!*slot || strcmp(*slot, text)) *slot = arena_string(g->arena, text);
}

void bind_mark_line(lua_State *L, Graph *g) {
  State *s = bind_state(L);
  g->scope.place = s->scope.place;
  keep_text(g, &g->scope.prefix, s->prefix);
  keep_text(g, &g->scope.attributes, s->attributes);
  keep_text(g, &g->scope.source, bind_where(L));
}

static void check_graph(lua_State *L, Graph *g) {
  if (g->error.status == OK) return;
  Error e = g->error;
  error_clear(&g->error);
  bind_raise(L, &e);
}

const char *bind_stale_words(const LuaTensor *t) {
  if (t->trace && t->trace->is_region)
    return "a tensor made inside a loop or branch is used after it; carry it as a value of ipu.loops.repeat_n, or return it from "
           "the branch";
  return "a symbolic tensor is used after the function that made it was traced; return it from there";
}

Value *bind_value(lua_State *L, int index, const char *what) { return bind_value_in(L, bind_state(L)->trace, index, what); }

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
    value = graph_constant(t->graph, bind_concrete(L, index, what));
    lua_pop(L, 1);
  }
  check_graph(L, t->graph);
  return value;
}

static TraceRef *current(lua_State *L) {
  TraceRef *r = bind_state(L)->trace;
  if (!r) luaL_error(L, "no function is being traced");
  return r;
}

/* Take the current trace off the stack; its symbolic tensors are stale from now on. */
static Trace *pop(State *s) {
  TraceRef *r = s->trace;
  Trace *t = r->trace;
  s->trace = r->below;
  r->trace = NULL;
  trace_ref_release(r);
  return t;
}

/* (region, follows) A root trace, or a region of the current one; one that follows is put behind it (inline_region). */
static int begin(lua_State *L) {
  State *s = bind_state(L);
  bool region = lua_toboolean(L, 1), follows = region && lua_toboolean(L, 2);
  TraceRef *parent = region ? current(L) : NULL;
  TraceRef *r = trace_ref_new(L, trace_new(parent ? parent->trace : NULL));
  r->trace->follows = follows;
  r->parent = parent;
  r->is_region = region;
  r->below = s->trace;
  s->trace = r;
  bind_mark_line(L, r->trace->graph);
  return 0;
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
    else trace_free(pop(s));
  }
  return 0;
}

/* (dtype, shape, name) */
static int argument(lua_State *L) {
  TraceRef *r = current(L);
  Type type = {.dtype = bind_check_dtype(L, 1)};
  type.rank = bind_check_shape(L, 2, "shape", type.shape);
  Value *v = trace_argument(r->trace, &type, lua_tostring(L, 3));
  check_graph(L, r->trace->graph);
  bind_push_value(L, v, r);
  return 1;
}

/* The values of a list; the array is a userdata that is pushed. */
static Value **values_in(lua_State *L, TraceRef *ref, int index, int *count, const char *what) {
  index = lua_absindex(L, index);
  lua_Integer n = lua_isnoneornil(L, index) ? 0 : luaL_len(L, index);
  if (n > MOST_LISTED) bind_fail(L, ERR_VALUE, "%s: more than %d values", what, MOST_LISTED);
  Value **v = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *v, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, index, i);
    v[i - 1] = bind_value_in(L, ref, lua_gettop(L), what);
    lua_pop(L, 1);
  }
  *count = (int)n;
  return v;
}

static Value **values_of(lua_State *L, int index, int *count, const char *what) {
  return values_in(L, bind_state(L)->trace, index, count, what);
}

static int push_values(lua_State *L, Value **v, int count, TraceRef *r) {
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    bind_push_value(L, v[i], r);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* (count, carried, results, plan of a pipeline) of the current region → final values */
static int end_repeat(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *region = current(L), *outer = region->below;
  int carried_count, result_count;
  Object *plan = bind_opt_plan(L, 4);
  Value **results = values_of(L, 3, &result_count, "loop body");
  s->trace = outer; /* the operands belong to the enclosing trace */
  Value *count = bind_value(L, 1, "repeat_n");
  Value **carried = values_of(L, 2, &carried_count, "repeat_n");
  s->trace = region;
  if (carried_count != result_count) return luaL_error(L, "a loop gave %d values for %d", result_count, carried_count);
  Value **out = lua_newuserdatauv(L, (size_t)(carried_count + 1) * sizeof *out, 0);
  bind_mark_line(L, outer->trace->graph);
  trace_end_repeat(pop(s), count, carried, carried_count, results, plan, out);
  check_graph(L, outer->trace->graph);
  return push_values(L, out, carried_count, outer);
}

/* A region set aside while another is traced. */
#define REGION_NAME "ipulua.Region"

static int free_region(lua_State *L) {
  Trace **t = lua_touserdata(L, 1);
  trace_free(*t);
  *t = NULL;
  return 0;
}

/* (results) → region, keeping its results */
static int suspend(lua_State *L) {
  State *s = bind_state(L);
  int count;
  current(L);
  Value **results = values_of(L, 1, &count, "branch");
  Trace **t = lua_newuserdatauv(L, sizeof *t + (size_t)(count + 1) * sizeof *results, 0);
  *t = NULL;
  luaL_setmetatable(L, REGION_NAME);
  memcpy((char *)t + sizeof *t, results, (size_t)count * sizeof *results);
  *t = pop(s);
  return 1;
}

static Trace *take_region(lua_State *L, int index, Value ***results) {
  Trace **t = luaL_checkudata(L, index, REGION_NAME);
  Trace *taken = *t;
  if (!taken) luaL_error(L, "this region has ended");
  *results = (Value **)(void *)((char *)t + sizeof *t);
  *t = NULL;
  return taken;
}

/* (condition region, limit, carried, body region, count) → final values */
static int end_while(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *outer = current(L);
  int carried_count;
  Value *limit = bind_value(L, 2, "while_loop");
  Value **carried = values_of(L, 3, &carried_count, "while_loop"), **test, **results;
  Value **out = lua_newuserdatauv(L, (size_t)(carried_count + 1) * sizeof *out, 0);
  bind_mark_line(L, outer->trace->graph);
  Trace *body = take_region(L, 4, &results), *cond = take_region(L, 1, &test);
  trace_end_while(cond, test[0], body, limit, carried, carried_count, results, out);
  check_graph(L, s->trace->trace->graph);
  return push_values(L, out, carried_count, outer);
}

/* (test, yes region, no region, count) → results */
static int end_cond(lua_State *L) {
  TraceRef *outer = current(L);
  Value *test = bind_value(L, 1, "cond"), **yes_results, **no_results;
  int count = (int)luaL_checkinteger(L, 4);
  Value **out = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *out, 0);
  bind_mark_line(L, outer->trace->graph);
  Trace *yes = take_region(L, 2, &yes_results), *no = take_region(L, 3, &no_results);
  trace_end_cond(test, yes, yes_results, no, no_results, count, out);
  check_graph(L, outer->trace->graph);
  return push_values(L, out, count, outer);
}

/* (arguments, results) of the current region → results */
static int end_call(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *region = current(L), *outer = region->below;
  int argument_count, result_count;
  Value **results = values_of(L, 2, &result_count, "function");
  s->trace = outer;
  Value **arguments = values_of(L, 1, &argument_count, "function");
  s->trace = region;
  Value **out = lua_newuserdatauv(L, (size_t)(result_count + 1) * sizeof *out, 0);
  bind_mark_line(L, outer->trace->graph);
  trace_end_call(pop(s), arguments, results, result_count, out);
  check_graph(L, outer->trace->graph);
  return push_values(L, out, result_count, outer);
}

static int64_t *positions_of(lua_State *L, int index, int *count) {
  *count = (int)luaL_len(L, index);
  int64_t *v = lua_newuserdatauv(L, (size_t)(*count + 1) * sizeof *v, 0);
  for (int i = 0; i < *count; i++) {
    lua_rawgeti(L, index, i + 1);
    v[i] = lua_tointeger(L, -1) - 1;
    lua_pop(L, 1);
  }
  return v;
}

/* (arguments, results, gradient region, upstream, given) of the current region → results; upstream says for which results the
 * gradient's region has arguments, given for which arguments it has results. */
static int end_custom(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *region = current(L), *outer = region->below;
  int argument_count, result_count;
  CustomGradient gradient = {0};
  Value **results = values_of(L, 2, &result_count, "custom_gradient");
  gradient.upstream = positions_of(L, 4, &gradient.upstream_count);
  gradient.given = positions_of(L, 5, &gradient.given_count);
  s->trace = outer;
  Value **arguments = values_of(L, 1, &argument_count, "custom_gradient");
  s->trace = region;
  Value **out = lua_newuserdatauv(L, (size_t)(result_count + 1) * sizeof *out, 0), **given;
  bind_mark_line(L, outer->trace->graph);
  gradient.trace = take_region(L, 3, &given);
  gradient.results = given;
  trace_end_custom(pop(s), arguments, results, result_count, &gradient, out);
  check_graph(L, outer->trace->graph);
  return push_values(L, out, result_count, outer);
}

/* (results, name, runs) End the current root trace → program; runs: even where programs are only priced */
static int end_root(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *r = current(L);
  int count;
  if (r->parent) return luaL_error(L, "a loop or branch is still open");
  Value **results = values_of(L, 1, &count, "result");
  bind_push_program(L, pop(s), results, count, lua_tostring(L, 2), s->estimating && !lua_toboolean(L, 3));
  return 1;
}

/* ---- what a region takes from outside ---- */

/* Values of the enclosing trace that the current region uses, as tensors of that trace. */
static int captured(lua_State *L) {
  TraceRef *region = current(L);
  const Trace *t = region->trace;
  lua_newtable(L);
  for (int i = 0, n = 0; i < t->extra_count; i++) {
    if (t->extra[i].variable) continue;
    bind_push_value(L, t->extra[i].outer, region->below);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

static const Extra *extra_of(const Trace *t, const Value *v) {
  for (int i = 0; node_is_input(v->node) && i < t->extra_count; i++)
    if (t->extra[i].inner == v) return &t->extra[i];
  return NULL;
}

/* (value) What it is in the current trace: symbolic, also where it is known. */
static int symbolic(lua_State *L) {
  TraceRef *r = current(L);
  Value *v = bind_value(L, 1, "pipeline");
  bind_push_value(L, v, r);
  return 1;
}

/* (first) What the nodes from the first on take from outside of the current region: a list of {identity, name, stage of the node}
 * of variables, and the script's line of a node that takes a captured value (nil: none does). Without an argument: how many
 * nodes there are. */
static int uses(lua_State *L) {
  const Trace *t = current(L)->trace;
  if (lua_isnoneornil(L, 1)) {
    lua_pushinteger(L, t->graph->node_count);
    return 1;
  }
  const char *line = NULL;
  lua_newtable(L);
  for (int i = (int)luaL_checkinteger(L, 1), n = 0; i < t->graph->node_count; i++) {
    const Node *node = t->graph->node[i];
    for (int k = 0; k < node->in_count; k++) {
      const Extra *x = extra_of(t, node->in[k]);
      if (!x) continue;
      if (!x->variable) {
        line = node->source ? node->source : "";
        continue;
      }
      lua_createtable(L, 3, 0);
      lua_pushlightuserdata(L, x->variable);
      lua_rawseti(L, -2, 1);
      lua_pushstring(L, x->variable->name);
      lua_rawseti(L, -2, 2);
      lua_pushinteger(L, node->place.stage);
      lua_rawseti(L, -2, 3);
      lua_rawseti(L, -2, ++n);
    }
  }
  lua_pushstring(L, line);
  return 2;
}

/* (first, stage, half_partials) What products of a stage's backward pass add up in, of the current trace's nodes from the first on. */
static int set_backward_partials(lua_State *L) {
  const Graph *g = current(L)->trace->graph;
  lua_Integer stage = luaL_checkinteger(L, 2), value = luaL_checkinteger(L, 3);
  for (int i = (int)luaL_checkinteger(L, 1); i < g->node_count; i++) {
    Placement *p = &g->node[i]->place;
    if (p->backward && p->stage == (int)stage) p->half_partials = (int8_t)value;
  }
  return 0;
}

/* (region, arguments, captured) Put a suspended region's nodes into the current trace, with these values for its own. */
static int inline_region(lua_State *L) {
  TraceRef *r = current(L);
  int argument_count, captured_count, taken = 0;
  Value **arguments = values_of(L, 2, &argument_count, "pipeline"), **given = values_of(L, 3, &captured_count, "pipeline"), **results;
  Trace **held = luaL_checkudata(L, 1, REGION_NAME);
  for (int i = 0; *held && i < (*held)->extra_count; i++) taken += !(*held)->extra[i].variable;
  if (!*held || (*held)->argument_count != argument_count || taken != captured_count)
    return luaL_error(L, "a region of %d values is given %d", taken, captured_count);
  Trace *region = take_region(L, 1, &results);
  bind_mark_line(L, r->trace->graph);
  clone_region(region, arguments, given, r->trace);
  trace_free(region);
  check_graph(L, r->trace->graph);
  return 0;
}

/* What of the program being traced lives in streaming memory, its pipeline apart. */
static int offload(lua_State *L) {
  TraceRef *r = current(L);
  while (r->parent) r = r->parent;
  bind_read_offload(L, 1, &r->trace->offload);
  return 0;
}

/* ---- differentiation ---- */

/* A variable that was read several times in the sessions' graph: its gradient is the sum over the readings. */
static void sum_readings(lua_State *L, Trace *t, Value **ys, Value **dys, int y_count, int x_count, Value **dx) {
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

/* (ys, xs, dys | nil) in the current trace → list; false where there is no path. dys may hold false. */
static int gradients(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *r = s->trace ? s->trace : bind_graph(L);
  Graph *g = r->trace->graph;
  int y_count, x_count;
  Value **ys = values_in(L, r, 1, &y_count, "gradients"), **xs = values_in(L, r, 2, &x_count, "gradients");
  Value **dys = lua_newuserdatauv(L, (size_t)(y_count + 1) * sizeof *dys, 0);
  for (int i = 0; i < y_count; i++) {
    dys[i] = NULL;
    if (!lua_istable(L, 3)) continue;
    lua_rawgeti(L, 3, i + 1);
    if (lua_toboolean(L, -1)) dys[i] = bind_value_in(L, r, lua_gettop(L), "grad_ys");
    lua_pop(L, 1);
  }
  Value **dx = lua_newuserdatauv(L, (size_t)(x_count + 1) * sizeof *dx, 0);
  Derivation d = {ys, dys, xs, dx, y_count, x_count, g->node_count, 0};
  autodiff(g, ys, dys, y_count, xs, x_count, dx);
  d.end = g->node_count;
  if (r->trace->deferred) {
    trace_note_derivation(r->trace, &d);
    sum_readings(L, r->trace, ys, dys, y_count, x_count, dx);
  }
  check_graph(L, g);
  lua_createtable(L, x_count, 0);
  for (int i = 0; i < x_count; i++) {
    if (dx[i]) bind_push_value(L, dx[i], r);
    else lua_pushboolean(L, false);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* Tracing pauses, so that initialisers inside a traced function compute at once: hide() → token, show(token). */
static int hide(lua_State *L) {
  State *s = bind_state(L);
  lua_pushlightuserdata(L, s->trace);
  s->trace = NULL;
  return 1;
}

static int show(lua_State *L) {
  bind_state(L)->trace = lua_touserdata(L, 1);
  return 0;
}

/* What show takes to go back to the trace that is current. */
static int current_token(lua_State *L) {
  lua_pushlightuserdata(L, bind_state(L)->trace);
  return 1;
}

/* Variables that the current trace (or the sessions' graph) has read, as identities. */
static int read_variables(lua_State *L) {
  State *s = bind_state(L);
  Trace *t = (s->trace ? s->trace : bind_graph(L))->trace;
  lua_newtable(L);
  for (int i = 0; i < t->extra_count; i++) {
    if (!t->extra[i].variable) continue;
    lua_pushlightuserdata(L, t->extra[i].variable);
    lua_pushboolean(L, true);
    lua_rawset(L, -3);
  }
  return 1;
}

void bind_open_trace(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"trace_begin", begin}, {"trace_depth", depth}, {"trace_give_up", give_up}, {"trace_argument", argument},
      {"trace_records", bind_trace_records}, {"trace_end", end_root}, {"end_repeat", end_repeat}, {"suspend", suspend},
      {"end_while", end_while}, {"end_cond", end_cond}, {"end_call", end_call}, {"end_custom", end_custom},
      {"trace_captured", captured}, {"trace_uses", uses}, {"trace_value", symbolic}, {"inline_region", inline_region},
      {"set_backward_partials", set_backward_partials}, {"gradients", gradients}, {"offload", offload}, {"trace_current", current_token},
      {"trace_read_variables", read_variables}, {"trace_hide", hide}, {"trace_show", show}, {NULL, NULL}};
  bind_set_functions(L, functions);
  luaL_newmetatable(L, REGION_NAME);
  lua_pushcfunction(L, free_region);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}
