/* Regions of a traced function, for Lua. The bodies of a loop, branch or call become one node of
 * the enclosing trace. */
#include <string.h>

#include "lua/trace.h"
#include "transform/clone.h"

/* ---- set aside while another is traced ---- */

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
  bind_current_trace(L);
  Value **results = bind_values(L, 1, &count, "branch");
  Trace **t = lua_newuserdatauv(L, sizeof *t + (size_t)(count + 1) * sizeof *results, 0);
  *t = NULL;
  luaL_setmetatable(L, REGION_NAME);
  memcpy((char *)t + sizeof *t, results, (size_t)count * sizeof *results);
  *t = bind_pop_trace(s);
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

/* ---- into the trace around them ---- */

/* (count, carried, results, plan of a pipeline) of the current region → final values */
static int end_repeat(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *region = bind_current_trace(L), *outer = region->below;
  int carried_count, result_count;
  Object *plan = bind_opt_plan(L, 4);
  Value **results = bind_values(L, 3, &result_count, "loop body");
  s->trace = outer; /* the operands belong to the enclosing trace */
  Value *count = bind_value(L, 1, "repeat_n");
  Value **carried = bind_values(L, 2, &carried_count, "repeat_n");
  s->trace = region;
  if (carried_count != result_count)
    return luaL_error(L, "the loop's body returned %d values, but %d are carried", result_count,
                      carried_count);
  Value **out = lua_newuserdatauv(L, (size_t)(carried_count + 1) * sizeof *out, 0);
  bind_mark_line(L, outer->trace->graph);
  trace_end_repeat(bind_pop_trace(s), count, carried, carried_count, results, plan, out);
  bind_check_graph(L, outer->trace->graph);
  return bind_push_values(L, out, carried_count, outer);
}

/* (condition region, limit, carried, body region, count) → final values */
static int end_while(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *outer = bind_current_trace(L);
  int carried_count;
  Value *limit = bind_value(L, 2, "while_loop");
  Value **carried = bind_values(L, 3, &carried_count, "while_loop"), **test, **results;
  Value **out = lua_newuserdatauv(L, (size_t)(carried_count + 1) * sizeof *out, 0);
  bind_mark_line(L, outer->trace->graph);
  Trace *body = take_region(L, 4, &results), *cond = take_region(L, 1, &test);
  trace_end_while(cond, test[0], body, limit, carried, carried_count, results, out);
  bind_check_graph(L, s->trace->trace->graph);
  return bind_push_values(L, out, carried_count, outer);
}

/* (test, yes region, no region, count) → results */
static int end_cond(lua_State *L) {
  TraceRef *outer = bind_current_trace(L);
  Value *test = bind_value(L, 1, "cond"), **yes_results, **no_results;
  int count = (int)luaL_checkinteger(L, 4);
  Value **out = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *out, 0);
  bind_mark_line(L, outer->trace->graph);
  Trace *yes = take_region(L, 2, &yes_results), *no = take_region(L, 3, &no_results);
  trace_end_cond(test, yes, yes_results, no, no_results, count, out);
  bind_check_graph(L, outer->trace->graph);
  return bind_push_values(L, out, count, outer);
}

/* (arguments, results) of the current region → results */
static int end_call(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *region = bind_current_trace(L), *outer = region->below;
  int argument_count, result_count;
  Value **results = bind_values(L, 2, &result_count, "function");
  s->trace = outer;
  Value **arguments = bind_values(L, 1, &argument_count, "function");
  s->trace = region;
  Value **out = lua_newuserdatauv(L, (size_t)(result_count + 1) * sizeof *out, 0);
  bind_mark_line(L, outer->trace->graph);
  trace_end_call(bind_pop_trace(s), arguments, results, result_count, out);
  bind_check_graph(L, outer->trace->graph);
  return bind_push_values(L, out, result_count, outer);
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

/* (arguments, results, gradient region, upstream, given) of the current region → results. upstream
 * lists the results for which the gradient's region has arguments. given lists the arguments for
 * which it has results. */
static int end_custom(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *region = bind_current_trace(L), *outer = region->below;
  int argument_count, result_count;
  CustomGradient gradient = {0};
  Value **results = bind_values(L, 2, &result_count, "custom_gradient");
  gradient.upstream = positions_of(L, 4, &gradient.upstream_count);
  gradient.given = positions_of(L, 5, &gradient.given_count);
  s->trace = outer;
  Value **arguments = bind_values(L, 1, &argument_count, "custom_gradient");
  s->trace = region;
  Value **out = lua_newuserdatauv(L, (size_t)(result_count + 1) * sizeof *out, 0), **given;
  bind_mark_line(L, outer->trace->graph);
  gradient.trace = take_region(L, 3, &given);
  gradient.results = given;
  trace_end_custom(bind_pop_trace(s), arguments, results, result_count, &gradient, out);
  bind_check_graph(L, outer->trace->graph);
  return bind_push_values(L, out, result_count, outer);
}

/* (region, arguments, captured) Put a suspended region's nodes into the current trace, with
 * these values for its own. */
static int inline_region(lua_State *L) {
  TraceRef *r = bind_current_trace(L);
  int argument_count, captured_count, taken = 0;
  Value **arguments = bind_values(L, 2, &argument_count, "pipeline"),
        **given = bind_values(L, 3, &captured_count, "pipeline"), **results;
  Trace **held = luaL_checkudata(L, 1, REGION_NAME);
  for (int i = 0; *held && i < (*held)->extra_count; i++) taken += !(*held)->extra[i].variable;
  if (!*held || (*held)->argument_count != argument_count || taken != captured_count)
    return luaL_error(L, "the traced stage takes %d values from outside, got %d", taken,
                      captured_count);
  Trace *region = take_region(L, 1, &results);
  bind_mark_line(L, r->trace->graph);
  clone_region(region, arguments, given, r->trace);
  trace_free(region);
  bind_check_graph(L, r->trace->graph);
  return 0;
}

/* ---- values that a region takes from outside ---- */

/* Values of the enclosing trace that the current region uses, as tensors of that trace. */
static int captured(lua_State *L) {
  TraceRef *region = bind_current_trace(L);
  const Trace *t = region->trace;
  lua_newtable(L);
  for (int i = 0, n = 0; i < t->extra_count; i++) {
    if (t->extra[i].variable) continue;
    bind_push_value(L, t->extra[i].outer, region->below);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* (value) What it is in the current trace: symbolic, also where it is known. */
static int symbolic(lua_State *L) {
  TraceRef *r = bind_current_trace(L);
  Value *v = bind_value(L, 1, "pipeline");
  bind_push_value(L, v, r);
  return 1;
}

/* (first) → the values from outside of the current region that nodes from `first` on read. They are
 * a list of {identity, name, stage of the node} of variables, and the script's line of a node that
 * reads a captured value (nil: none does). () → the number of nodes. */
static int uses(lua_State *L) {
  const Trace *t = bind_current_trace(L)->trace;
  if (lua_isnoneornil(L, 1)) {
    lua_pushinteger(L, t->graph->node_count);
    return 1;
  }
  const char *line = NULL;
  lua_newtable(L);
  for (int i = (int)luaL_checkinteger(L, 1), n = 0; i < t->graph->node_count; i++) {
    const Node *node = t->graph->node[i];
    for (int k = 0; k < node->in_count; k++) {
      const Extra *x = trace_extra_of(t, node->in[k]);
      if (!x) continue;
      if (!x->variable) {
        line = node->source ? node->source : "";
        continue;
      }
      lua_createtable(L, 3, 0);
      lua_pushinteger(L, x->variable->serial);
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

/* (first, stage, half_products, half_convolutions, product_share, convolution_share) What holds
 * for products of a stage's backward pass, of the current trace's nodes from the first on. */
static int set_backward_options(lua_State *L) {
  const Graph *g = bind_current_trace(L)->trace->graph;
  lua_Integer stage = luaL_checkinteger(L, 2);
  int8_t products = (int8_t)luaL_checkinteger(L, 3), convolutions = (int8_t)luaL_checkinteger(L, 4);
  int32_t product_share = (int32_t)luaL_checkinteger(L, 5),
          convolution_share = (int32_t)luaL_checkinteger(L, 6);
  for (int i = (int)luaL_checkinteger(L, 1); i < g->node_count; i++) {
    Placement *p = &g->node[i]->place;
    if (!p->backward || p->stage != (int)stage) continue;
    p->half_products = products, p->half_convolutions = convolutions;
    p->product_share = product_share, p->convolution_share = convolution_share;
  }
  return 0;
}

void bind_open_region(lua_State *L) {
  static const luaL_Reg functions[] = {{"suspend", suspend},
                                       {"end_repeat", end_repeat},
                                       {"end_while", end_while},
                                       {"end_cond", end_cond},
                                       {"end_call", end_call},
                                       {"end_custom", end_custom},
                                       {"inline_region", inline_region},
                                       {"trace_captured", captured},
                                       {"trace_uses", uses},
                                       {"trace_value", symbolic},
                                       {"set_backward_options", set_backward_options},
                                       {NULL, NULL}};
  bind_set_functions(L, functions);
  bind_type(L, REGION_NAME, free_region, NULL);
}
