#include "graph/observe.h"

#include <string.h>

#include "graph/control.h"

static void no_memory(Graph *g) {
  fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory while tracing");
}

static bool is_call(const Node *n) {
  return n->op->traits & OBSERVES && n->attr[OBSERVED].kind == ATTR_INTS;
}

/* A call that was asked to, or a control node that holds one. */
static bool observes(const Node *n);

static bool holds_call(const Graph *g) {
  for (int i = 0; i < g->node_count; i++)
    if (observes(g->node[i])) return true;
  return false;
}

static bool observes(const Node *n) {
  ControlRegions c = control_regions(n);
  bool found = is_call(n);
  for (int r = 0; r < c.count && !found; r++) found = holds_call(c.region[r].graph);
  return found;
}

int node_shown(const Node *n) {
  return is_call(n) ? n->in_count - n->attr[OBSERVED].ints.n : n->in_count;
}

bool variable_is_observed(const Variable *v) {
  return !v->counts_runs && !v->remote && !v->of_optimizer;
}

/* ---- operands ---- */

static bool append(Graph *g, Node *n, Value *const *more, int count) {
  Value **in = arena_alloc(g->arena, (size_t)(n->in_count + count + 1) * sizeof *in);
  if (!in) return false;
  memcpy(in, n->in, (size_t)n->in_count * sizeof *in);
  memcpy(in + n->in_count, more, (size_t)count * sizeof *in);
  n->in = in;
  n->in_count += count;
  return true;
}

static bool append_int(Graph *g, Attr *list, int64_t last) {
  int64_t *v = arena_alloc(g->arena, (size_t)(list->ints.n + 1) * sizeof *v);
  if (!v) return false;
  for (int i = 0; i < list->ints.n; i++) v[i] = list->ints.v[i];
  v[list->ints.n] = last;
  *list = attr_ints(v, list->ints.n + 1);
  return true;
}

/* A gradient's region finds the new operands among its saved values. */
static bool save_operands(Graph *g, Node *n, int first, int count) {
  bool ok = true;
  for (int i = 0; i < count && ok; i++) ok = append_int(g, &n->attr[CONTROL_SAVED], first + i);
  return ok;
}

bool control_append(Graph *g, Node *n, Value *const *outer, int count, Value **inner[2]) {
  int first = n->in_count;
  ControlRegions c = control_regions(n);
  for (int r = 0; r < c.count; r++)
    for (int i = 0; i < count; i++)
      if (!(inner[r][i] = graph_input(c.region[r].graph, &outer[i]->type, NULL))) return false;
  bool saves = n->op->control->other == REGION_GRADIENT;
  return append(g, n, outer, count) && (!saves || save_operands(g, n, first, count));
}

/* ---- observing ---- */

static void observe_in(Graph *g, const Variable *v, Value *value) {
  for (int i = 0; i < g->node_count; i++)
    if (observes(g->node[i])) node_observe(g, g->node[i], v, value);
}

void node_observe(Graph *g, Node *n, const Variable *v, Value *value) {
  if (g->error.status != OK || !value) return;
  if (is_call(n)) {
    if (!append(g, n, &value, 1) || !append_int(g, &n->attr[OBSERVED], v->serial)) no_memory(g);
    return;
  }
  Value *inner[2] = {NULL, NULL};
  if (!control_append(g, n, &value, 1, (Value * *[]){&inner[0], &inner[1]})) {
    no_memory(g);
    return;
  }
  ControlRegions c = control_regions(n);
  for (int r = 0; r < c.count; r++) observe_in(c.region[r].graph, v, inner[r]);
}

static bool is_among(int64_t serial, const int64_t *list, int count) {
  for (int i = 0; i < count; i++)
    if (list[i] == serial) return true;
  return false;
}

static void keep(Graph *g, Node *n, const int64_t *serial, int count) {
  Attr *list = &n->attr[OBSERVED];
  int shown = node_shown(n), kept = 0;
  int64_t *v = arena_alloc(g->arena, (size_t)(list->ints.n + 1) * sizeof *v);
  if (!v) {
    no_memory(g);
    return;
  }
  for (int i = 0; i < list->ints.n; i++) {
    if (!is_among(list->ints.v[i], serial, count)) continue;
    v[kept] = list->ints.v[i];
    n->in[shown + kept++] = n->in[shown + i];
  }
  *list = attr_ints(v, kept);
  n->in_count = shown + kept;
}

/* Variables that were first read after a call that sees them are inputs in front of it. */
static void put_leaves_first(Graph *g) {
  Node **order = arena_alloc(g->arena, (size_t)(g->node_count + 1) * sizeof *order);
  int n = 0;
  if (!order) {
    no_memory(g);
    return;
  }
  for (int leaves = 1; leaves >= 0; leaves--)
    for (int i = 0; i < g->node_count; i++) {
      Node *node = g->node[i];
      if (node_is_made(node) != leaves) order[n++] = node;
    }
  for (int i = 0; i < n; i++) g->node[i] = order[i], order[i]->id = i;
}

void graph_observe_only(Graph *g, const int64_t *serial, int count) {
  if (holds_call(g)) put_leaves_first(g);
  for (int i = 0; i < g->node_count; i++) {
    Node *n = g->node[i];
    if (is_call(n)) keep(g, n, serial, count);
    ControlRegions c = control_regions(n);
    for (int r = 0; r < c.count; r++) graph_observe_only(c.region[r].graph, serial, count);
  }
}

const void *observed_data(const Observed *o, const Variable *v) {
  for (; o; o = o->outer)
    for (int i = 0; i < o->count; i++)
      if (o->serial[i] == v->serial) return o->data[i];
  return v->value->data;
}
