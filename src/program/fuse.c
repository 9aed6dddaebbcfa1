/* Which nodes run together. An elementwise node joins the group of a producer of its shape, if all
 * other readers of the group's values come later. A matrix product joins a group that reads it. No
 * bit changes: a chain does the same operations on each element in the same order. */
#include "program/fuse.h"

#include <string.h>

#include "program/region.h"

enum { GROUP_SLOTS = CHAIN_SLOTS - 2 };

/* ---- liveness and readers ---- */

/* A node in a chain reads the operand of a broadcast. A node that runs alone reads the broadcast's
 * result. */
static Value *operand_read(const Region *r, const Node *reader, int k) {
  return r->fuse ? value_operand(reader, k) : reader->in[k];
}

static void mark_live(Region *r) {
  const Graph *g = r->graph;
  for (int i = 0; i < g->output_count; i++) r->live[value_root(g->output[i])->node->id] = true;
  for (int i = g->node_count - 1; i >= 0; i--) {
    const Node *n = g->node[i];
    if (n->op->traits & STATEFUL) r->live[i] = true;
    if (!r->live[i]) continue;
    for (int k = 0; k < n->in_count; k++)
      r->live[value_root(operand_read(r, n, k))->node->id] = true;
  }
}

static void count_readers(Region *r, bool fill, int *cursor) {
  const Graph *g = r->graph;
  for (int i = 0; i <= g->node_count; i++) {
    const Node *n = i < g->node_count ? g->node[i] : NULL;
    if (n && (!r->live[i] || (n->op->traits & VIEW))) continue;
    int count = n ? n->in_count : g->output_count;
    for (int k = 0; k < count; k++) {
      int from = value_root(n ? operand_read(r, n, k) : g->output[k])->node->id;
      if (fill) r->reader[cursor[from]++] = i;
      else r->reader_begin[from + 1]++;
    }
  }
}

static bool find_readers(Region *r) {
  int n = r->graph->node_count;
  r->reader_begin = arena_alloc(r->arena, (size_t)(n + 2) * sizeof *r->reader_begin);
  if (!r->reader_begin) return false;
  count_readers(r, false, NULL);
  for (int i = 0; i < n; i++) r->reader_begin[i + 1] += r->reader_begin[i];
  r->reader = arena_alloc(r->arena, (size_t)(r->reader_begin[n] + 1) * sizeof *r->reader);
  int *cursor = arena_copy(r->arena, r->reader_begin, (size_t)(n + 1) * sizeof *cursor);
  if (!r->reader || !cursor) return false;
  count_readers(r, true, cursor);
  return true;
}

/* ---- groups ---- */

static bool contains(const Group *g, int node) {
  for (int i = 0; i < g->count; i++)
    if (g->member[i] == node) return true;
  return g->gemm == node;
}

/* All other readers of the group's values come after position. */
static bool readers_are_later(const Region *r, const Group *g, int position) {
  for (int i = -1; i < g->count; i++) {
    int node = i < 0 ? g->gemm : g->member[i];
    if (node < 0) continue;
    for (int k = r->reader_begin[node]; k < r->reader_begin[node + 1]; k++)
      if (r->reader[k] <= position && !contains(g, r->reader[k])) return false;
  }
  return true;
}

/* Operands that are made inside the group must be read in the group's own shape. */
static bool shapes_agree(const Region *r, const Group *g) {
  for (int i = 0; i < g->count; i++) {
    const Node *n = r->graph->node[g->member[i]];
    for (int k = 0; k < n->in_count; k++) {
      Value *v = value_operand(n, k);
      if (contains(g, value_root(v)->node->id) && !shape_equal(&v->type, &g->shape)) return false;
    }
  }
  return true;
}

static int count_slots(const Region *r, const Group *g) {
  const Value *seen[GROUP_SLOTS + 4];
  int count = g->count + (g->gemm >= 0), distinct = 0;
  for (int i = 0; i < g->count; i++) {
    const Node *n = r->graph->node[g->member[i]];
    for (int k = 0; k < n->in_count; k++) {
      const Value *v = value_operand(n, k);
      bool known = contains(g, value_root((Value *)(uintptr_t)v)->node->id);
      for (int s = 0; s < distinct && !known; s++) known = seen[s] == v;
      if (known) continue;
      if (distinct > GROUP_SLOTS) return CHAIN_SLOTS + 1;
      seen[distinct++] = v;
    }
  }
  return count + distinct;
}

static bool merge_members(Group *to, const Group *from) {
  if (to->count + from->count > GROUP_MEMBERS) return false;
  if (to->gemm >= 0 && from->gemm >= 0) return false;
  for (int i = 0; i < from->count; i++) {
    int at = to->count++;
    for (; at > 0 && to->member[at - 1] > from->member[i]; at--)
      to->member[at] = to->member[at - 1];
    to->member[at] = from->member[i];
  }
  if (from->gemm >= 0) to->gemm = from->gemm;
  if (from->last > to->last) to->last = from->last;
  return true;
}

static int8_t rounding(const Region *r, const Group *g) {
  return r->graph->node[g->count ? g->member[0] : g->gemm]->place.stochastic_rounding;
}

/* Groups of different IPUs stay apart, and groups that round differently. */
static bool same_place(const Region *r, const Group *a, const Group *b) {
  return rounding(r, a) == rounding(r, b) && (a->shard == b->shard || a->shard < 0 || b->shard < 0);
}

/* A product reads whole operands: nothing that runs with it can be one. */
static bool product_has_operands(const Region *r, const Group *g) {
  const Node *gemm = g->gemm >= 0 ? r->graph->node[g->gemm] : NULL;
  for (int k = 0; gemm && k < gemm->in_count; k++)
    if (contains(g, value_root(gemm->in[k])->node->id)) return false;
  return true;
}

static bool try_merge(const Region *r, Group *g, const Group *other) {
  if (!same_place(r, g, other)) return false;
  Group trial = *g;
  if (!merge_members(&trial, other) || !product_has_operands(r, &trial) ||
      !readers_are_later(r, &trial, trial.last) || !shapes_agree(r, &trial) ||
      count_slots(r, &trial) > GROUP_SLOTS)
    return false;
  *g = trial;
  if (g->shard < 0) g->shard = other->shard;
  return true;
}

static bool product_fits(const Region *r, const Node *gemm, const Group *g) {
  return r->products && node_is_gemm(gemm) && shape_equal(&gemm->out[0].type, &g->shape);
}

/* Start a group for n, and add its operands where possible. */
static void group_node(Region *r, const Node *n) {
  Group g = {.member = {n->id},
             .count = 1,
             .last = n->id,
             .gemm = -1,
             .shape = n->out[0].type,
             .merged_into = -1,
             .shard = n->place.shard};
  int joined[GROUP_MEMBERS], joined_count = 0;
  for (int k = 0; k < n->in_count; k++) {
    Value *v = value_operand(n, k), *root = value_root(v);
    int id = root->node->id, other = region_group(r, id);
    if (contains(&g, id) || !shape_equal(&v->type, &g.shape) ||
        (r->pass && r->pass[id] != r->pass[n->id]))
      continue;
    if (other >= 0 && shape_equal(&r->group[other].shape, &g.shape)) {
      if (joined_count < GROUP_MEMBERS && try_merge(r, &g, &r->group[other]))
        joined[joined_count++] = other;
    } else if (other < 0 && g.gemm < 0 && product_fits(r, root->node, &g)) {
      Group product = {.gemm = id, .last = -1, .merged_into = -1, .shard = root->node->place.shard};
      try_merge(r, &g, &product);
    }
  }
  int index = r->group_count++;
  r->group[index] = g;
  for (int i = 0; i < joined_count; i++) r->group[joined[i]].merged_into = index;
  r->group_of[n->id] = index;
  if (g.gemm >= 0) r->group_of[g.gemm] = index;
}

bool region_analyse(Region *r, const Graph *g, const int *pass, const Numerics *numerics,
                    Arena *scratch) {
  size_t n = (size_t)g->node_count;
  bool fuse = numerics && !numerics->check_finite;
  *r = (Region){.graph = g, .pass = pass, .fuse = fuse, .arena = scratch};
  r->products = fuse && !numerics_trapped(numerics);
  r->live = arena_alloc(scratch, n + 1);
  r->group_of = arena_alloc(scratch, (n + 1) * sizeof *r->group_of);
  r->group = arena_alloc(scratch, (n + 1) * sizeof *r->group);
  if (!r->live || !r->group_of || !r->group || !number_values(scratch, g, &r->values)) return false;
  mark_live(r);
  if (!find_readers(r)) return false;
  for (size_t i = 0; i < n; i++) r->group_of[i] = -1;
  r->buffer = arena_alloc(scratch, (size_t)(r->values.count + 1) * sizeof *r->buffer);
  if (!r->buffer) return false;
  for (int i = 0; i < r->values.count; i++) r->buffer[i] = -1;
  for (size_t i = 0; fuse && i < n; i++) {
    if (r->live[i] && node_is_fusible(g->node[i])) group_node(r, g->node[i]);
  }
  return true;
}
