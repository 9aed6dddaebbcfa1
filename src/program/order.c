/* The order in which the units of a region run. A unit is a node, or a group at its last member.
 * Programs are run and priced in this order.
 *
 * Trace order has all updates of variables at the end. By then their weights and gradients have
 * left the caches, and all gradients are live. So an elementwise unit whose values only replace
 * inputs of the region is moved ahead. It runs after its operands are made and the replaced values
 * have no other reader left. Units that only lead to such units run right before them. All other
 * units keep their order. */
#include "program/order.h"

#include "program/region.h"

typedef struct Order {
  Region *r;
  const int *inputs, *targets;
  bool singles;
  bool *movable;
  int *replaced_by; /* of an input: the unit that replaces it; -1: none */
  /* of each unit: the unit of trace order that it follows; itself, or an earlier one when it
   * moved */
  int *after;
} Order;

static int unit_id(const Region *r, int node) {
  int g = region_group(r, node);
  return g >= 0 ? r->group[g].last : node;
}

/* Nodes that run together: the product (-1: none) and the elementwise nodes of a group, or one
 * node. */
typedef struct Unit {
  const Region *r;
  int id, gemm, count;
  const int *member;
} Unit;

static Unit unit_at(const Region *r, const int *id) {
  int g = region_group(r, *id);
  if (g < 0) return (Unit){r, *id, -1, 1, id};
  const Group *group = &r->group[g];
  return (Unit){r, group->last, group->gemm, group->count, group->member};
}

static int first_of(const Unit *u) { return u->gemm >= 0 ? -1 : 0; }
static int node_of(const Unit *u, int i) { return i < 0 ? u->gemm : u->member[i]; }

/* Its reader k as a unit; -1: an output. */
static int reader_unit(const Region *r, int k) {
  int reader = r->reader[k];
  return reader < r->graph->node_count ? unit_id(r, reader) : -1;
}

/* ---- which units may move ---- */

/* Each reader outside of the unit is an output or may move. */
static bool leads_to_outputs(const Order *o, const Unit *u, bool *only) {
  const Region *r = o->r;
  *only = true;
  for (int i = first_of(u); i < u->count; i++) {
    int node = node_of(u, i);
    for (int k = r->reader_begin[node]; k < r->reader_begin[node + 1]; k++) {
      int reader = reader_unit(r, k);
      if (reader < 0 || reader == u->id) continue;
      if (!o->movable[reader]) return false;
      *only = false;
    }
  }
  return true;
}

static void find_movable(Order *o) {
  const Region *r = o->r;
  for (int i = r->graph->node_count - 1; i >= 0; i--) {
    const Node *n = r->graph->node[i];
    bool only, grouped = region_group(r, i) >= 0;
    if (!r->live[i] || unit_id(r, i) != i ||
        !(grouped || (o->singles && (node_is_fusible(n) || node_is_broadcast(n)))))
      continue;
    Unit u = unit_at(r, &i);
    if (leads_to_outputs(o, &u, &only)) o->movable[i] = only || u.gemm < 0;
  }
}

/* ---- where they go ---- */

static void follow(int *after, int unit) {
  if (unit > *after) *after = unit;
}

static void follow_operands(const Order *o, const Unit *u, int *after) {
  for (int i = first_of(u); i < u->count; i++) {
    const Node *n = o->r->graph->node[node_of(u, i)];
    for (int k = 0; k < n->in_count; k++) {
      bool chained = i >= 0 && !o->singles; /* looks through broadcasts */
      const Node *from = value_root(chained ? value_operand(n, k) : n->in[k])->node;
      int unit = unit_id(o->r, from->id);
      if (node_is_made(from) && unit != u->id) follow(after, o->after[unit]);
    }
  }
}

static void find_replaced(Order *o) {
  const Graph *g = o->r->graph;
  for (int i = 0; i < g->node_count; i++) o->replaced_by[i] = -1;
  for (int j = 0; o->targets && j < g->output_count; j++) {
    const Node *made = value_root(g->output[j])->node;
    for (int i = 0; node_is_made(made) && i < g->input_count; i++)
      if (o->inputs[i] == o->targets[j])
        o->replaced_by[g->input[i]->node->id] = unit_id(o->r, made->id);
  }
}

/* Readers of the inputs that the unit replaces. An output, or a later reader in the trace, keeps
 * the unit where it is. */
static void follow_old_readers(const Order *o, const Unit *u, int *after) {
  const Region *r = o->r;
  for (int i = 0; i < r->graph->input_count; i++) {
    int old = r->graph->input[i]->node->id;
    for (int k = r->reader_begin[old]; o->replaced_by[old] == u->id && k < r->reader_begin[old + 1];
         k++) {
      int reader = reader_unit(r, k);
      if (reader != u->id) follow(after, reader < 0 || reader > u->id ? u->id : o->after[reader]);
    }
  }
}

static void place_early(Order *o) {
  for (int i = 0; i < o->r->graph->node_count; i++) {
    o->after[i] = i;
    if (!o->movable[i]) continue;
    Unit u = unit_at(o->r, &i);
    int after = -1;
    follow_operands(o, &u, &after);
    follow_old_readers(o, &u, &after);
    if (after < i) o->after[i] = after;
  }
}

static void precede(int *latest, int unit) {
  if (unit < *latest) *latest = unit;
}

/* The readers of node's results, and the units that replace the inputs that it reads. */
static void precede_readers(const Order *o, int node, int unit, int *latest, bool *is_read) {
  const Region *r = o->r;
  for (int k = r->reader_begin[node]; k < r->reader_begin[node + 1]; k++) {
    int reader = reader_unit(r, k);
    if (reader < 0 || reader == unit) continue;
    precede(latest, o->after[reader]);
    *is_read = true;
  }
  const Node *n = r->graph->node[node];
  for (int k = 0; k < n->in_count; k++) {
    int next = o->replaced_by[value_root(value_operand(n, k))->node->id];
    if (next > unit) precede(latest, o->after[next]);
  }
}

/* A unit that has readers waits for the first of them, but not beyond its own position. Made
 * earlier, its result would only take memory. */
static void place_late(Order *o) {
  for (int i = o->r->graph->node_count - 1; i >= 0; i--) {
    if (!o->movable[i]) continue;
    Unit u = unit_at(o->r, &i);
    int latest = i;
    bool is_read = false;
    for (int m = first_of(&u); m < u.count; m++)
      precede_readers(o, node_of(&u, m), i, &latest, &is_read);
    if (is_read) o->after[i] = latest;
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

bool region_order(Region *r, const int *inputs, const int *targets, bool singles) {
  size_t n = (size_t)r->graph->node_count + 1;
  Order o = {.r = r, .inputs = inputs, .targets = targets, .singles = singles};
  o.movable = arena_alloc(r->arena, n);
  o.after = arena_alloc(r->arena, n * sizeof *o.after);
  o.replaced_by = arena_alloc(r->arena, n * sizeof *o.replaced_by);
  if (!o.movable || !o.after || !o.replaced_by) return false;
  find_replaced(&o);
  find_movable(&o);
  place_early(&o);
  place_late(&o);
  return sort_units(&o);
}
