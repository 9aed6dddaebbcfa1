#include "transform/clone.h"

#include <stdlib.h>
#include <string.h>

#include "graph/control.h"
#include "ops/io/feed.h"
#include "transform/autodiff.h"
#include "transform/verify.h"

/* ---- one node ---- */

static bool fixed_outputs(const OpDef *op) { return op->outputs >= 0 || op->infer; }

static Graph *copy_pure(const Graph *g, Error *e);

static void adopt_copies(Graph *to, const Node *n, Attr *attrs, bool pure) {
  for (int i = 0; i < op_attr_count(n->op); i++) {
    attrs[i] = n->attr[i];
    if (attrs[i].kind != ATTR_GRAPH || !attrs[i].graph) continue;
    /* no part of what is computed again */
    bool own_gradient = i == CONTROL_OTHER && n->op->control->other == REGION_GRADIENT;
    attrs[i].graph =
        pure && !own_gradient ? copy_pure(attrs[i].graph, &to->error) : graph_copy(attrs[i].graph);
    if (attrs[i].graph) graph_adopt(to, attrs[i].graph);
    else if (to->error.status == OK)
      fail(&to->error, ERR_OUT_OF_MEMORY, "out of memory while copying a graph");
  }
}

/* Nodes whose outputs their builders set (loops, queues, host functions) keep the types that
 * they have; what a region was traced with must stay. */
static Node *make_copy(Graph *to, const Node *n, Value *const *in, bool pure) {
  Attr attrs[MAX_ATTRS] = {{.kind = ATTR_NONE}};
  adopt_copies(to, n, attrs, pure);
  graph_stand_at(to, n);
  Node *made = graph_node(to, n->op, in, n->in_count, attrs);
  if (!made || fixed_outputs(n->op)) return made;
  for (int i = 0; (n->op->traits & CONTROL) && i < n->in_count; i++) {
    char traced[TYPE_TEXT], given[TYPE_TEXT];
    if (type_equal(&in[i]->type, &n->in[i]->type)) continue;
    fail_at(&to->error, n->source, ERR_INVALID_ARGUMENT,
            "%s: compiled with %s, but given %s: unknown extents can't reach it", n->op->name,
            type_text(&n->in[i]->type, traced), type_text(&in[i]->type, given));
    return NULL;
  }
  if (!node_outputs(to->arena, made, n->out_count)) {
    fail(&to->error, ERR_OUT_OF_MEMORY, "out of memory while copying a graph");
    return NULL;
  }
  for (int i = 0; i < n->out_count; i++) made->out[i].type = n->out[i].type;
  return made;
}

/* It is rounded by the same numbers. */
static Node *copy_node(Graph *to, const Node *n, Value *const *in, bool pure) {
  Node *made = make_copy(to, n, in, pure);
  if (!made) return NULL;
  made->stream = n->stream;
  graph_pass_stream(to, n->stream);
  return made;
}

Node *clone_node(Graph *to, const Node *n, Value *const *in) { return copy_node(to, n, in, false); }

Node *clone_pure(Graph *to, const Node *n, Value *const *in) { return copy_node(to, n, in, true); }

Node *clone_control(Graph *to, const Node *n, Value *const *in, Graph *const region[2]) {
  Attr attr[MAX_ATTRS];
  Node shell = *n;
  memcpy(attr, n->attr, (size_t)op_attr_count(n->op) * sizeof *attr);
  shell.attr = attr;
  for (int r = 0; r < 2; r++)
    if (region[r]) attr[r].graph = NULL; /* or it would be copied as it was */
  Node *made = clone_node(to, &shell, in);
  for (int r = 0; made && r < 2; r++)
    if (region[r]) made->attr[r].graph = region[r];
  return made;
}

Value *clone_leaf(Graph *to, const Node *n) {
  if (node_is_constant(n)) return graph_constant(to, n->attr[0].tensor);
  to->scope = (Scope){.place = n->place};
  return graph_input(to, &n->out[0].type, n->name);
}

/* ---- a whole graph ---- */

static Value *copied(Value **const *map, const Value *v) {
  Value **outs = map[v->node->id];
  return outs ? outs[v->index] : NULL;
}

static bool keep_outputs(Arena *a, Value ***slot, int count, Value *first) {
  *slot = arena_alloc(a, (size_t)(count + 1) * sizeof **slot);
  for (int i = 0; *slot && i < count; i++) (*slot)[i] = first ? &first->node->out[i] : NULL;
  return *slot != NULL;
}

static bool copy_leaf(Graph *to, const Node *n, Arena *scratch, Value ***map) {
  Value *out = node_is_input(n) ? graph_input(to, &n->out[0].type, n->name)
                                : graph_constant(to, n->attr[0].tensor);
  return out && keep_outputs(scratch, &map[n->id], 1, out);
}

/* Leaves may stand behind their readers. */
static Value *copied_operand(Graph *to, const Value *v, Arena *scratch, Value ***map) {
  const Node *n = v->node;
  if (!map[n->id] && !node_is_made(n) && !copy_leaf(to, n, scratch, map)) return NULL;
  return copied(map, v);
}

/* live (NULL: all) says which nodes; map may hold inputs already. */
static bool copy_nodes(Graph *to, const Graph *g, Arena *scratch, Value ***map, const bool *live) {
  for (int i = 0; i < g->node_count; i++) {
    const Node *n = g->node[i];
    if ((live && !live[i]) || map[n->id]) continue;
    Value **in = arena_alloc(scratch, (size_t)(n->in_count + 1) * sizeof *in), *out;
    if (!in) return false;
    for (int k = 0; k < n->in_count; k++) in[k] = copied_operand(to, n->in[k], scratch, map);
    if (!node_is_made(n)) {
      if (!copy_leaf(to, n, scratch, map)) return false;
      continue;
    }
    Node *made = copy_node(to, n, in, live != NULL);
    out = made ? made->out : NULL;
    if (to->error.status != OK || !keep_outputs(scratch, &map[n->id], n->out_count, out))
      return false;
  }
  return true;
}

static bool copy_into(Graph *to, const Graph *g, Arena *scratch, Value ***map) {
  if (!copy_nodes(to, g, scratch, map, NULL)) return false;
  /* in their order, not the nodes' */
  for (int i = 0; i < g->input_count; i++) to->input[i] = copied(map, g->input[i]);
  for (int i = 0; i < g->output_count; i++) graph_output(to, copied(map, g->output[i]));
  to->scope = g->scope;
  return to->error.status == OK;
}

Graph *graph_copy(const Graph *g) {
  Graph *to = graph_beside(g);
  Arena *scratch = arena_new();
  Value ***map = calloc((size_t)g->next_id + 1, sizeof *map);
  bool ok = to && scratch && map && copy_into(to, g, scratch, map);
  free(map);
  arena_free(scratch);
  if (ok) return to;
  graph_free(to);
  return NULL;
}

/* ---- what the outputs of a region need ---- */

/* False: a value that is needed comes of an effect. */
static bool mark_needed(Error *e, const Graph *g, const bool *needed, bool *live) {
  for (int i = 0; i < g->output_count; i++)
    if (!needed || needed[i]) live[g->output[i]->node->id] = true;
  for (int i = g->node_count - 1; i >= 0; i--) {
    const Node *n = g->node[i];
    if (!live[i]) continue;
    if ((n->op->traits & STATEFUL) && !(n->op->traits & CONTROL)) {
      fail_at(
          e, n->source, ERR_INVALID_ARGUMENT,
          node_is_dequeue(n)
              ? "gradients: a loop or branch computes again what it took from outside (%s), which is gone by then; differentiate "
                "inside of it, or take the value before it and hand it over"
              : "gradients: what a callback gave (%s) isn't had a second time, but the gradient of what it was called in computes "
                "again; differentiate inside of that, or call back before it and hand the value over",
          n->op->name);
      return false;
    }
    for (int k = 0; k < n->in_count; k++) live[n->in[k]->node->id] = true;
  }
  return true;
}

/* What the outputs need, or all of it. */
static Status put_in(Graph *to, const Graph *g, Value *const *inputs, const bool *needed, bool all,
                     Value **outputs) {
  Arena *scratch = to->error.status == OK ? arena_new() : NULL;
  Value ***map = calloc((size_t)g->next_id + 1, sizeof *map);
  bool *live = scratch ? arena_alloc(scratch, (size_t)g->node_count + 1) : NULL;
  Scope scope = to->scope;
  int first = to->node_count;
  bool ok = map && live && (all || mark_needed(&to->error, g, needed, live));
  for (int i = 0; i < g->input_count && ok; i++) {
    Value ***slot = &map[g->input[i]->node->id];
    ok = keep_outputs(scratch, slot, 1, NULL);
    if (ok) (*slot)[0] = inputs[i];
  }
  ok = ok && copy_nodes(to, g, scratch, map, all ? NULL : live);
  for (int i = 0; i < g->output_count; i++)
    outputs[i] = ok && (!needed || needed[i]) ? copied(map, g->output[i]) : NULL;
  for (int i = first; i < to->node_count; i++) to->node[i]->place.backward |= scope.place.backward;
  to->scope = scope;
  free(map);
  arena_free(scratch);
  /* unless it failed before */
  if (!ok) fail(&to->error, ERR_OUT_OF_MEMORY, "out of memory while copying a graph");
  if (VERIFYING) graph_verify(&to->error, to, "copying a region");
  return to->error.status;
}

Status graph_inline(Graph *to, const Graph *g, Value *const *inputs, const bool *needed,
                    Value **outputs) {
  return put_in(to, g, inputs, needed, false, outputs);
}

Status graph_inline_whole(Graph *to, const Graph *g, Value *const *inputs, Value **outputs) {
  return put_in(to, g, inputs, NULL, true, outputs);
}

static Graph *copy_pure(const Graph *g, Error *e) {
  Graph *to = graph_beside(g);
  Value **values = calloc((size_t)(g->input_count + g->output_count) + 1, sizeof *values);
  if (to && values) {
    for (int i = 0; i < g->input_count; i++)
      values[i] = graph_input(to, &g->input[i]->type, g->input[i]->node->name);
    graph_inline(to, g, values, NULL, values + g->input_count);
    for (int i = 0; i < g->output_count; i++) graph_output(to, values[g->input_count + i]);
  }
  bool ok = to && values && to->error.status == OK;
  if (to && !ok && e->status == OK) *e = to->error;
  free(values);
  if (ok) return to;
  graph_free(to);
  return NULL;
}

/* ---- a region in place ---- */

static bool copy_region(const Trace *region, Trace *to, Arena *scratch, Value ***map) {
  Graph *g = to->graph;
  for (int i = 0; i < region->graph->node_count; i++) {
    const Node *n = region->graph->node[i];
    if (node_is_input(n)) continue;
    Value **in = arena_alloc(scratch, (size_t)(n->in_count + 1) * sizeof *in);
    if (!in) return false;
    for (int k = 0; k < n->in_count; k++) in[k] = copied(map, n->in[k]);
    Node *made = node_is_constant(n) ? NULL : copy_node(g, n, in, false);
    Value *out = made                  ? made->out
                 : node_is_constant(n) ? graph_constant(g, n->attr[0].tensor)
                                       : NULL;
    if (!out && n->out_count) return false;
    if (!keep_outputs(scratch, &map[n->id], n->out_count, out)) return false;
  }
  for (int i = 0; i < region->extra_count; i++) {
    const Extra *x = &region->extra[i];
    if (x->variable && x->current != x->inner)
      trace_assign(to, x->variable, copied(map, x->current));
  }
  return g->error.status == OK;
}

static bool set_input(Arena *a, Value ***map, const Value *input, Value *given) {
  Value **slot = arena_alloc(a, sizeof *slot);
  if (!slot) return false;
  *slot = given;
  map[input->node->id] = slot;
  return given != NULL;
}

static bool map_inputs(const Trace *region, Value *const *arguments, Value *const *captured,
                       Trace *to, Arena *scratch, Value ***map) {
  for (int i = 0; i < region->argument_count; i++)
    if (!set_input(scratch, map, region->graph->input[i], arguments[i])) return false;
  for (int i = 0; i < region->extra_count; i++) {
    const Extra *x = &region->extra[i];
    if (!set_input(scratch, map, x->inner, x->variable ? trace_read(to, x->variable) : *captured++))
      return false;
  }
  return true;
}

Status clone_region(const Trace *region, Value *const *arguments, Value *const *captured,
                    Trace *to) {
  Graph *g = to->graph;
  Scope scope = g->scope;
  Arena *scratch = arena_new();
  Value ***map = calloc((size_t)region->graph->next_id + 1, sizeof *map);
  if (region->graph->error.status != OK && g->error.status == OK) g->error = region->graph->error;
  bool ok = scratch && map && map_inputs(region, arguments, captured, to, scratch, map) &&
            copy_region(region, to, scratch, map);
  free(map);
  arena_free(scratch);
  g->scope = scope;
  if (!ok && g->error.status == OK)
    return fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory while copying a graph");
  return g->error.status;
}

/* ---- what a session fetches ---- */

typedef struct Clone {
  const Trace *from;
  Trace *to;
  const Fed *fed;
  int fed_count;
  Arena *arena;
  bool *needed;   /* by node */
  bool *replayed; /* by derivation */
  Value ***map;   /* by node: copies of its outputs */
  bool changed;
} Clone;

static bool is_fed(const Clone *c, const Value *v) {
  for (int i = 0; i < c->fed_count; i++)
    if (c->fed[i].value == v) return true;
  return false;
}

static void need(Clone *c, const Value *v) {
  if (!v || is_fed(c, v) || c->needed[v->node->id]) return;
  c->needed[v->node->id] = true;
  c->changed = true;
}

/* The call of autodiff that made a node, or -1. They are in order and don't overlap. */
static int derivation_of(const Trace *t, int node) {
  int low = 0, high = t->derivation_count;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (t->derivation[middle].end <= node) low = middle + 1;
    else high = middle;
  }
  return low < t->derivation_count && t->derivation[low].first <= node ? low : -1;
}

static void need_operands(Clone *c, int node) {
  const Trace *t = c->from;
  const Node *n = t->graph->node[node];
  int d = derivation_of(t, node);
  if (d < 0) {
    for (int k = 0; k < n->in_count; k++) need(c, n->in[k]);
    return;
  }
  if (c->replayed[d]) return;
  c->replayed[d] = true;
  const Derivation *x = &t->derivation[d];
  for (int k = 0; k < x->y_count; k++) need(c, x->ys[k]), need(c, x->dys[k]);
  for (int k = 0; k < x->x_count; k++) need(c, x->xs[k]);
}

/* Operands stand before their nodes, but effects may lead anywhere: again, until nothing is new. */
static void find_needed(Clone *c, Value *const *fetched, int count) {
  const Trace *t = c->from;
  for (int i = 0; i < count; i++) need(c, fetched[i]);
  do {
    c->changed = false;
    for (int i = t->graph->node_count - 1; i >= 0; i--)
      if (c->needed[i]) need_operands(c, i);
    for (int i = 0; i < t->effect_count; i++)
      if (c->needed[t->effect[i].trigger->id]) need(c, t->effect[i].value);
  } while (c->changed);
}

static bool set_copy(Clone *c, const Value *v, Value *made) {
  Value ***slot = &c->map[v->node->id];
  if (!*slot && !keep_outputs(c->arena, slot, v->node->out_count, NULL)) return false;
  (*slot)[v->index] = made;
  return made != NULL;
}

static Value *copy_of(const Clone *c, const Value *v) { return v ? copied(c->map, v) : NULL; }

static Variable *variable_of(const Trace *t, const Value *v) {
  for (int i = 0; i < t->extra_count; i++)
    if (t->extra[i].inner == v) return t->extra[i].variable;
  return NULL;
}

static void copy_input(Clone *c, const Node *n) {
  Value *v = &n->out[0];
  Variable *variable = variable_of(c->from, v);
  if (is_fed(c, v)) return;
  if (variable) set_copy(c, v, trace_read(c->to, variable));
  else
    fail(
        &c->to->graph->error, ERR_INVALID_ARGUMENT,
        "placeholder '%s' has no value: give one, as in sess:run(x, {feed_dict = {[placeholder] = value}})",
        n->name);
}

static void copy_plain(Clone *c, const Node *n) {
  Graph *g = c->to->graph;
  Value **in = arena_alloc(c->arena, (size_t)(n->in_count + 1) * sizeof *in);
  if (!in) return;
  for (int k = 0; k < n->in_count; k++) in[k] = copy_of(c, n->in[k]);
  if (node_is_constant(n)) {
    set_copy(c, &n->out[0], graph_constant(g, n->attr[0].tensor));
    return;
  }
  Node *made = copy_node(g, n, in, false);
  for (int k = 0; made && k < n->out_count && k < made->out_count; k++)
    if (!is_fed(c, &n->out[k])) set_copy(c, &n->out[k], &made->out[k]);
}

static void differentiate_again(Clone *c, const Derivation *d) {
  size_t count = (size_t)(2 * d->y_count + 2 * d->x_count + 1);
  Value **ys = arena_alloc(c->arena, count * sizeof *ys);
  if (!ys) return;
  Value **dys = ys + d->y_count, **xs = dys + d->y_count, **dx = xs + d->x_count;
  for (int i = 0; i < d->y_count; i++) ys[i] = copy_of(c, d->ys[i]), dys[i] = copy_of(c, d->dys[i]);
  for (int i = 0; i < d->x_count; i++) xs[i] = copy_of(c, d->xs[i]);
  autodiff(c->to->graph, ys, dys, d->y_count, xs, d->x_count, dx);
  for (int i = 0; i < d->x_count; i++)
    if (d->dx[i] && dx[i] && d->dx[i]->node->id >= d->first) set_copy(c, d->dx[i], dx[i]);
}

static void replay(Clone *c) {
  const Trace *t = c->from;
  int effect = 0;
  for (int i = 0; i <= t->graph->node_count && c->to->graph->error.status == OK; i++) {
    for (; effect < t->effect_count && t->effect[effect].position <= i; effect++) {
      const Effect *e = &t->effect[effect];
      if (c->needed[e->trigger->id]) trace_assign(c->to, e->variable, copy_of(c, e->value));
    }
    if (i == t->graph->node_count) break;
    int d = derivation_of(t, i);
    if (d >= 0) {
      if (c->replayed[d] && t->derivation[d].first == i) differentiate_again(c, &t->derivation[d]);
      continue;
    }
    const Node *n = t->graph->node[i];
    if (!c->needed[i]) continue;
    if (node_is_input(n)) copy_input(c, n);
    else copy_plain(c, n);
  }
}

static bool prepare(Clone *c) {
  size_t nodes = (size_t)c->from->graph->node_count + 1;
  c->arena = arena_new();
  if (!c->arena) return false;
  c->needed = arena_alloc(c->arena, nodes);
  c->replayed = arena_alloc(c->arena, (size_t)c->from->derivation_count + 1);
  c->map = arena_alloc(c->arena, nodes * sizeof *c->map);
  return c->needed && c->replayed && c->map;
}

Status clone_fetched(const Trace *from, const Fed *fed, int fed_count, Value *const *fetched,
                     int fetched_count, Trace *to, Value **result) {
  Error *e = &to->graph->error;
  Clone c = {.from = from, .to = to, .fed = fed, .fed_count = fed_count};
  if (prepare(&c)) {
    for (int i = 0; i < fed_count; i++)
      set_copy(&c, fed[i].value, trace_argument(to, &fed[i].type, fed[i].value->node->name));
    find_needed(&c, fetched, fetched_count);
    replay(&c);
    for (int i = 0; i < fetched_count; i++) result[i] = copy_of(&c, fetched[i]);
    for (int i = 0; i < fetched_count && e->status == OK; i++)
      if (!result[i]) fail(e, ERR_INTERNAL, "a fetched value could not be computed");
  } else {
    fail(e, ERR_OUT_OF_MEMORY, "out of memory while copying a graph");
  }
  arena_free(c.arena);
  return e->status;
}

/* ---- unknown extents ---- */

/* The shapes under another stand-in: an extent that differs depends on an unknown one. */
static bool infer_again(const Trace *from, Value *v, Type *type) {
  Fed *fed = calloc((size_t)from->placeholder_count + 1, sizeof *fed);
  Trace *to = trace_new(NULL);
  Value *result = NULL;
  for (int i = 0; fed && i < from->placeholder_count; i++) {
    fed[i] = (Fed){from->placeholder[i].value, from->placeholder[i].declared};
    for (int k = 0; k < fed[i].type.rank; k++)
      if (fed[i].type.shape[k] < 0) fed[i].type.shape[k] = 2 * UNKNOWN_EXTENT;
  }
  bool ok =
      fed && to && clone_fetched(from, fed, from->placeholder_count, &v, 1, to, &result) == OK;
  if (ok) *type = result->type;
  trace_free(to);
  free(fed);
  return ok;
}

Type clone_declared_type(const Trace *from, Value *v) {
  const Placeholder *p = trace_find_placeholder(from, v);
  if (p) return p->declared;
  Type type = v->type, again;
  if (!from->has_unknown || !infer_again(from, v, &again) || again.rank != type.rank) return type;
  for (int k = 0; k < type.rank; k++)
    if (again.shape[k] != type.shape[k]) type.shape[k] = -1;
  return type;
}
