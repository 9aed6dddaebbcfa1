/* Gradients in functions being traced, and in the sessions' graph. */
#include <limits.h>
#include <stdlib.h>

#include "lua/trace.h"
#include "ops/ops.h"
#include "transform/autodiff.h"
#include "transform/trace_gradient.h"

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
  Value **xs = bind_values_in(L, r, 2, &x_count, "gradients");
  Trace *t = r->trace;
  Derivation d = {ys, dys, xs, dx, y_count, x_count, t->graph->node_count, 0};
  autodiff(t->graph, ys, dys, y_count, xs, x_count, dx);
  d.end = t->graph->node_count;
  trace_note_derivation(t, &d);
  sum_readings(L, t, ys, dys, y_count, x_count, dx);
}

/* The innermost trace, r's or one around it, in which a value of the list at index was made;
 * `found` if there is none. */
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

/* Values computed before a loop or branch are differentiated before it. */
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

/* ---- records of functions being traced ---- */

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

/* → a window on the traces that are open from here on, including those that begin later */
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
  int before = g->node_count;
  Value **ys = bind_values_in(L, r, 1, &y_count, "gradients");
  /* known values: a persistent tape meets them again */
  for (int i = before; i < g->node_count; i++) g->node[i]->recorded = true;
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

void bind_open_gradients(lua_State *L) {
  static const luaL_Reg functions[] = {{"gradients", gradients},
                                       {"window_begin", window_begin},
                                       {"window_end", window_end},
                                       {NULL, NULL}};
  bind_set_functions(L, functions);
  bind_type(L, WINDOW_NAME, window_free, NULL);
}
