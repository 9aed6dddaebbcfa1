#include "transform/clone.h"

#include <stdlib.h>
#include <string.h>

#include "graph/control.h"
#include "ops/io/feed.h"
#include "transform/verify.h"

/* ---- one node ---- */

static bool fixed_outputs(const OpDef *op) { return op->outputs >= 0 || op->infer; }

static Graph *copy_pure(const Graph *g, Error *e);

static void adopt_copies(Graph *to, const Node *n, Attr *attrs, bool pure) {
  for (int i = 0; i < op_attr_count(n->op); i++) {
    attrs[i] = n->attr[i];
    if (attrs[i].kind != ATTR_GRAPH || !attrs[i].graph) continue;
    /* not part of the nodes that are computed again */
    bool own_gradient = i == CONTROL_OTHER && n->op->control->other == REGION_GRADIENT;
    attrs[i].graph =
        pure && !own_gradient ? copy_pure(attrs[i].graph, &to->error) : graph_copy(attrs[i].graph);
    if (attrs[i].graph) graph_adopt(to, attrs[i].graph);
    else if (to->error.status == OK)
      fail(&to->error, ERR_OUT_OF_MEMORY, "out of memory while copying a graph");
  }
}

/* Nodes whose outputs are set by their builders (loops, queues, host functions) keep their types: a
 * region was traced with them. */
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
            "%s: compiled for %s, but got %s: its values need known extents", n->op->name,
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

/* Leaves may come after their readers in the list. */
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

/* ---- nodes that the outputs of a region need ---- */

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
              ? "gradients: the loop, branch or function takes an element (%s), which its gradient "
                "can't take again; differentiate inside of it, or take the element before it and "
                "pass it in"
              : "gradients: the loop, branch or function calls back (%s), which its gradient can't "
                "do again; differentiate inside of it, or call back before it and pass the value in",
          n->op->name);
      return false;
    }
    for (int k = 0; k < n->in_count; k++) live[n->in[k]->node->id] = true;
  }
  return true;
}

/* The nodes that the outputs need, or all nodes. */
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
