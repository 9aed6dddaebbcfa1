/* The graph of sessions: placeholders, values computed from them, and programs for fetches. */
#include <string.h>

#include "lua/trace.h"
#include "transform/fetch.h"

enum { MAX_FETCHED = 4096 };

TraceRef *bind_graph(lua_State *L) {
  State *s = bind_state(L);
  if (!s->graph) s->graph = trace_ref_new(L, trace_new_deferred());
  return s->graph;
}

bool bind_is_deferred(lua_State *L, int index) {
  State *s = bind_state(L);
  LuaTensor *t = bind_test_tensor(L, index);
  if (t) return !t->tensor && t->trace && t->trace == s->graph;
  Variable *v = bind_test_variable(L, index);
  return v && v->deferred;
}

static void check_graph(lua_State *L, Graph *g) {
  Error e = g->error;
  error_clear(&g->error);
  bind_check(L, &e);
}

/* (dtype, shape, name) */
static int placeholder(lua_State *L) {
  Type type = {.dtype = bind_check_dtype(L, 1)};
  type.rank = bind_check_shape(L, 2, "shape", type.shape);
  const char *name = luaL_checkstring(L, 3);
  for (int i = 0; i < type.rank; i++)
    if (type.shape[i] < -1) {
      long long extent = (long long)type.shape[i];
      bind_fail(L, ERR_VALUE,
                "placeholder '%s': an extent must be -1 (unknown) or at least 0, got %lld", name,
                extent);
    }
  TraceRef *ref = bind_graph(L);
  bind_mark_line(L, ref->trace->graph);
  Value *v = trace_placeholder(ref->trace, &type, name);
  check_graph(L, ref->trace->graph);
  if (!v) bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
  bind_push_value(L, v, ref);
  return 1;
}

/* Make the graph the current trace: enter() → token, leave(token). */
static int enter(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *ref = bind_graph(L);
  bind_push_token(L);
  if (s->trace != ref) {
    trace_ref_release(ref->below);
    ref->below = trace_ref_retain(s->trace);
  }
  s->trace = ref;
  return 1;
}

static int leave(lua_State *L) {
  bind_take_token(L, 1);
  return 0;
}

/* Whether a value is of the graph: (tensor or variable) */
static int is_deferred(lua_State *L) {
  lua_pushboolean(L, bind_is_deferred(L, 1));
  return 1;
}

static LuaTensor *check_value(lua_State *L, int index) {
  LuaTensor *t = bind_test_tensor(L, index);
  if (!t || !bind_is_deferred(L, index))
    bind_fail(L, ERR_VALUE, "sess:run: a tensor of the session's graph is expected");
  return t;
}

/* A text for the value itself, to look programs up by. */
static int value_key(lua_State *L) {
  LuaTensor *t = check_value(L, 1);
  lua_pushfstring(L, "%d.%d", t->value->node->id, t->value->index);
  return 1;
}

/* (fetched, fed, types of the fed: {dtype, shape}, name) → program: the fed values are its
 * arguments. */
static int compile(lua_State *L) {
  TraceRef *ref = bind_graph(L);
  lua_Integer fetched_count = luaL_len(L, 1), fed_count = luaL_len(L, 2);
  if (fetched_count > MAX_FETCHED || fed_count > MAX_FETCHED)
    bind_fail(L, ERR_VALUE, "sess:run: more than %d values at once", MAX_FETCHED);
  Value **fetched = lua_newuserdatauv(L, (size_t)(2 * fetched_count + 1) * sizeof *fetched, 0);
  Fed *fed = lua_newuserdatauv(L, (size_t)(fed_count + 1) * sizeof *fed, 0);
  for (int i = 0; i < (int)fetched_count; i++) {
    lua_rawgeti(L, 1, i + 1);
    fetched[i] = check_value(L, -1)->value;
    lua_pop(L, 1);
  }
  for (int i = 0; i < (int)fed_count; i++) {
    lua_rawgeti(L, 2, i + 1);
    fed[i].value = check_value(L, -1)->value;
    lua_rawgeti(L, 3, i + 1);
    lua_rawgeti(L, -1, 1);
    fed[i].type = (Type){.dtype = bind_check_dtype(L, -1)};
    lua_rawgeti(L, -2, 2);
    fed[i].type.rank = bind_check_shape(L, -1, "shape", fed[i].type.shape);
    lua_pop(L, 4);
  }
  const char *name = luaL_optstring(L, 4, "session");
  Trace *to = trace_new(NULL);
  if (!to) bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
  Value **results = fetched + fetched_count;
  if (clone_fetched(ref->trace, fed, (int)fed_count, fetched, (int)fetched_count, to, results) !=
      OK) {
    Error e = to->graph->error;
    trace_free(to);
    bind_raise(L, &e);
  }
  bind_push_program(L, to, results, (int)fetched_count, name, bind_state(L)->estimating);
  return 1;
}

/* → how many effects and nodes the graph has; nothing where there is no graph */
static int size(lua_State *L) {
  const State *s = bind_state(L);
  if (!s->graph) return 0;
  lua_pushinteger(L, s->graph->trace->effect_count);
  lua_pushinteger(L, s->graph->trace->graph->node_count);
  return 2;
}

/* (tensor, effects, nodes): what was assigned since then is also assigned when the tensor is
 * computed, if it was made since then. */
static int assign_with(lua_State *L) {
  LuaTensor *t = check_value(L, 1);
  Trace *graph = bind_graph(L)->trace;
  trace_assign_with(graph, (int)luaL_checkinteger(L, 2), (int)luaL_checkinteger(L, 3),
                    t->value->node);
  Error e = graph->graph->error;
  error_clear(&graph->graph->error);
  bind_check(L, &e);
  return 0;
}

/* Forget the graph; tensors of it are stale. */
static int reset(lua_State *L) {
  State *s = bind_state(L);
  if (!s->graph) return 0;
  trace_free(s->graph->trace);
  s->graph->trace = NULL;
  trace_ref_release(s->graph);
  s->graph = NULL;
  return 0;
}

void bind_open_graph(lua_State *L) {
  static const luaL_Reg functions[] = {{"graph_placeholder", placeholder},
                                       {"graph_enter", enter},
                                       {"graph_leave", leave},
                                       {"is_deferred", is_deferred},
                                       {"graph_value_key", value_key},
                                       {"graph_compile", compile},
                                       {"graph_size", size},
                                       {"graph_assign_with", assign_with},
                                       {"graph_reset", reset},
                                       {NULL, NULL}};
  bind_set_functions(L, functions);
}
