#include "program/region.h"

static bool is_view(const Node *n) { return (n->op->traits & VIEW) != 0; }

Value *value_root(Value *v) {
  while (is_view(v->node)) v = v->node->in[0];
  return v;
}

bool node_is_broadcast(const Node *n) { return n->op->layout == LAYOUT_SPREAD; }

bool node_is_light(const Node *n) {
  return n->in_count == 1 && (is_view(n) || node_is_broadcast(n));
}

/* Whether chains have a kernel for the node's operands. The answer is the same on every instruction
 * set. */
static bool has_kernel(const Node *n) {
  Elementwise kernel;
  double p[4] = {0};
  n->op->strip(n, &kernel, p);
  return chain_can(kernels_find("base"), kernel, n->in[n->in_count == 3 ? 1 : 0]->type.dtype);
}

bool node_is_fusible(const Node *n) {
  return (n->op->traits & ELEMENTWISE) && n->op->strip && !is_view(n) && n->out_count == 1 &&
         type_count(&n->out[0].type) > 0 && has_kernel(n);
}

Value *value_operand(const Node *reader, int k) {
  Value *v = reader->in[k];
  if (!node_is_fusible(reader)) return v;
  while (node_is_broadcast(v->node)) v = v->node->in[0];
  return v;
}

bool node_is_gemm(const Node *n) {
  if (n->op->layout != LAYOUT_PRODUCT) return false;
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type;
  if (a->dtype != F32 && a->dtype != F64) return false;
  if (type_count(a) == 0 || type_count(b) == 0) return false;
  return b->rank == 2 && (a->rank == 2 || (a->rank > 2 && !n->attr[0].i));
}

void gemm_extents(const Node *n, int64_t *rows, int64_t *cols, int64_t *inner) {
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type;
  bool ta = n->attr[0].i, tb = n->attr[1].i;
  *cols = b->shape[tb ? 0 : 1];
  *inner = b->shape[tb ? 1 : 0];
  *rows = ta ? a->shape[1] : type_count(a) / a->shape[a->rank - 1];
}

int region_group(const Region *r, int node) {
  int g = r->group_of[node];
  while (g >= 0 && r->group[g].merged_into >= 0) g = r->group[g].merged_into;
  return g;
}

int region_position(const Region *r, int node) {
  if (node >= r->graph->node_count) return node;
  int g = region_group(r, node), unit = g >= 0 ? r->group[g].last : node;
  return r->position ? r->position[unit] : unit;
}

bool region_read_outside(const Region *r, int node) {
  int g = region_group(r, node);
  for (int i = r->reader_begin[node]; i < r->reader_begin[node + 1]; i++) {
    int reader = r->reader[i];
    if (reader >= r->graph->node_count || region_group(r, reader) != g) return true;
  }
  return false;
}

int *region_slot(Region *r, const Value *v) { return &r->buffer[value_number(&r->values, v)]; }
