/* When each unit of a region runs; a unit is a node, or a group at its last member. Trace order leaves all updates of variables to the end,
 * where the weights and gradients that they read have left the caches, and every gradient has been kept until then. So a group whose
 * values only replace what the region was given runs as soon as what it reads is there and everybody else is done with what it
 * replaces; elementwise groups that lead only to such ones run right before them. All other units keep their order. */
#include "program/lower.h"

typedef struct Order {
  Region *r;
  const int *inputs, *targets;
  bool *movable;
  int *after; /* of each unit: the unit of trace order that it follows; itself, or an earlier one when it moved */
} Order;

static int unit_of(const Region *r, int node) {
  int g = region_group(r, node);
  return g >= 0 ? r->group[g].last : node;
}

/* The members of a group, its product at -1. */
static int group_first(const Group *g) { return g->gemm >= 0 ? -1 : 0; }
static int group_node(const Group *g, int i) { return i < 0 ? g->gemm : g->member[i]; }

/* ---- which groups may move ---- */

/* Everybody outside the group who reads it is an output or may move. */
static bool leads_to_outputs(const Order *o, const Group *g, bool *only) {
  const Region *r = o->r;
  *only = true;
  for (int i = group_first(g); i < g->count; i++) {
    int node = group_node(g, i);
    for (int k = r->reader_begin[node]; k < r->reader_begin[node + 1]; k++) {
      int reader = r->reader[k];
      if (reader >= r->graph->node_count) continue;
      int unit = unit_of(r, reader);
      if (unit == g->last) continue;
      if (!o->movable[unit]) return false;
      *only = false;
    }
  }
  return true;
}

static void find_movable(Order *o) {
  for (int i = o->r->graph->node_count - 1; i >= 0; i--) {
    int index = region_group(o->r, i);
    const Group *g = index >= 0 ? &o->r->group[index] : NULL;
    bool only;
    if (g && g->last == i && leads_to_outputs(o, g, &only)) o->movable[i] = only || g->gemm < 0;
  }
}

/* ---- where they go ---- */

static void follow(int *after, int unit) {
  if (unit > *after) *after = unit;
}

static void follow_operands(const Order *o, const Group *g, int *after) {
  for (int i = group_first(g); i < g->count; i++) {
    const Node *n = o->r->graph->node[group_node(g, i)];
    for (int k = 0; k < n->in_count; k++) {
      const Node *from = value_root(i < 0 ? n->in[k] : value_operand(n, k))->node;
      int unit = unit_of(o->r, from->id);
      if (node_is_made(from) && unit != g->last) follow(after, o->after[unit]);
    }
  }
}

/* Those who read what the region was given for the place that an output of node goes to. Where one may move, too, the group stays. */
static void follow_old_readers(const Order *o, int node, int unit, int *after) {
  const Region *r = o->r;
  for (int j = 0; j < r->graph->output_count; j++) {
    if (value_root(r->graph->output[j])->node->id != node) continue;
    for (int i = 0; i < r->graph->input_count; i++) {
      if (o->inputs[i] != o->targets[j]) continue;
      int old = r->graph->input[i]->node->id;
      for (int k = r->reader_begin[old]; k < r->reader_begin[old + 1]; k++) {
        int reader = unit_of(r, r->reader[k] < r->graph->node_count ? r->reader[k] : unit);
        if (reader != unit) follow(after, o->movable[reader] ? unit : reader);
      }
    }
  }
}

static void place_early(Order *o) {
  const Region *r = o->r;
  for (int i = 0; i < r->graph->node_count; i++) {
    o->after[i] = i;
    if (!o->movable[i]) continue;
    const Group *g = &r->group[region_group(r, i)];
    int after = -1;
    follow_operands(o, g, &after);
    for (int m = group_first(g); m < g->count; m++) follow_old_readers(o, group_node(g, m), i, &after);
    if (after < i) o->after[i] = after;
  }
}

/* What leads to others waits for the first of them, not beyond its own place: made early it would only lie about. */
static void place_late(Order *o) {
  const Region *r = o->r;
  for (int i = r->graph->node_count - 1; i >= 0; i--) {
    if (!o->movable[i]) continue;
    const Group *g = &r->group[region_group(r, i)];
    int latest = r->graph->node_count;
    for (int m = group_first(g); m < g->count; m++) {
      int node = group_node(g, m);
      for (int k = r->reader_begin[node]; k < r->reader_begin[node + 1]; k++) {
        int unit = r->reader[k] < r->graph->node_count ? unit_of(r, r->reader[k]) : i;
        if (unit != i && o->after[unit] < latest) latest = o->after[unit];
      }
    }
    if (latest < r->graph->node_count) o->after[i] = latest < i ? latest : i;
  }
}

/* ---- the sequence ---- */

/* By the unit that each follows, then in trace order. */
static bool sort_units(Order *o) {
  Region *r = o->r;
  int n = r->graph->node_count;
  int *begin = arena_alloc(r->arena, (size_t)(n + 3) * sizeof *begin);
  r->sequence = arena_alloc(r->arena, (size_t)(n + 1) * sizeof *r->sequence);
  r->position = arena_alloc(r->arena, (size_t)(n + 1) * sizeof *r->position);
  if (!begin || !r->sequence || !r->position) return false;
  for (int i = 0; i < n; i++) begin[o->after[i] + 2]++;
  for (int i = 1; i < n + 2; i++) begin[i] += begin[i - 1];
  for (int i = 0; i < n; i++) {
    int at = begin[o->after[i] + 1]++;
    r->sequence[at] = i;
    r->position[i] = at;
  }
  return true;
}

bool lower_order(Region *r, const int *inputs, const int *targets) {
  size_t n = (size_t)r->graph->node_count + 1;
  Order o = {r, inputs, targets, arena_alloc(r->arena, n), arena_alloc(r->arena, n * sizeof *o.after)};
  if (!o.movable || !o.after) return false;
  find_movable(&o);
  place_early(&o);
  place_late(&o);
  return sort_units(&o);
}
