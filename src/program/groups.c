/* The steps of fused groups: a chain of elementwise ops, or a matrix product whose chain runs on
 * each finished block. */
#include "program/groups.h"

#include "kernels/products.h"
#include "program/lower.h"
#include "program/program.h"
#include "program/region.h"
#include "program/step.h"

/* Elementwise work and products smaller than this run on one thread: a hand-off would cost as
 * much. */
enum { PARALLEL_ELEMENTS = 32768, PARALLEL_FLOPS = 400000 };

/* ---- chains ---- */

typedef struct ChainBuild {
  Lower *lower;
  Region *region;
  const Group *group;
  Chain *chain;
  int slot_of_member[GROUP_MEMBERS];
  /* position of the last member that reads each temporary's value; -1: free */
  int buffer_user[CHAIN_TEMPORARIES];
  const Value *operand[CHAIN_SLOTS];
  int operand_slot[CHAIN_SLOTS], operand_count;
  int gemm_slot;
} ChainBuild;

static int member_index(const Group *g, int node) {
  for (int i = 0; i < g->count; i++)
    if (g->member[i] == node) return i;
  return -1;
}

static int operand_slot(ChainBuild *b, Value *v) {
  const Node *root = value_root(v)->node;
  int member = member_index(b->group, root->id);
  if (member >= 0) return b->slot_of_member[member];
  if (b->group->gemm == root->id) return b->gemm_slot;
  for (int i = 0; i < b->operand_count; i++)
    if (b->operand[i] == v) return b->operand_slot[i];
  int slot = chain_operand(b->chain, &v->type, NULL);
  lower_link(b->lower, lower_operand(b->lower, b->region, v), &b->chain->slot[slot].data);
  b->operand[b->operand_count] = v;
  b->operand_slot[b->operand_count++] = slot;
  return slot;
}

static int last_reader(const ChainBuild *b, int member) {
  const Region *r = b->region;
  int node = b->group->member[member], last = member;
  for (int i = r->reader_begin[node]; i < r->reader_begin[node + 1]; i++) {
    int m = member_index(b->group, r->reader[i]);
    if (m > last) last = m;
  }
  return last;
}

/* A value that is read outside of the group is written to memory. Others are in a block buffer
 * until their last reader has run. */
static int member_slot(ChainBuild *b, int member) {
  Region *r = b->region;
  Node *n = r->graph->node[b->group->member[member]];
  if (!region_read_outside(r, n->id)) {
    for (int t = 0; t < CHAIN_TEMPORARIES; t++) {
      if (b->buffer_user[t] >= member) continue;
      b->buffer_user[t] = last_reader(b, member);
      return chain_temporary(b->chain, n->out[0].type.dtype, t);
    }
  }
  int slot = chain_operand(b->chain, &n->out[0].type, NULL);
  lower_link(b->lower, lower_result(b->lower, r, &n->out[0]), &b->chain->slot[slot].data);
  return slot;
}

static Chain *build_chain(Lower *l, Region *r, const Group *g) {
  Chain *chain = arena_alloc(l->p->arena, sizeof *chain);
  if (!chain) {
    lower_no_memory(l);
    return NULL;
  }
  ChainBuild b = {.lower = l, .region = r, .group = g, .chain = chain, .gemm_slot = -1};
  for (int t = 0; t < CHAIN_TEMPORARIES; t++) b.buffer_user[t] = -1;
  chain_begin(chain, l->p->kernels, &g->shape);
  if (g->gemm >= 0)
    b.gemm_slot = chain_block_slot(chain, r->graph->node[g->gemm]->out[0].type.dtype);
  for (int m = 0; m < g->count; m++) {
    const Node *n = r->graph->node[g->member[m]];
    Elementwise kernel;
    double p[4] = {0};
    n->op->strip(n, &kernel, p);
    int in[3];
    for (int k = 0; k < n->in_count; k++) in[k] = operand_slot(&b, value_operand(n, k));
    b.slot_of_member[m] = member_slot(&b, m);
    int first = chain->step_count;
    chain_step(chain, kernel, n->in_count, in, b.slot_of_member[m], p);
    for (int i = first; i < chain->step_count; i++)
      chain->step[i].stream = (uint32_t)n->stream, chain->step[i].of = n;
  }
  chain->numerics = lower_numerics(l, r->graph->node[g->member[0]]);
  chain_finish(chain, g->gemm >= 0);
  return chain;
}

/* ---- products ---- */

/* A product whose only reader adds it to a buffer in place: the kernel adds as it stores. Each sum
 * must be whole before it is added, or the bits would differ. */
static bool accumulates(Lower *l, Region *r, const Group *g, const GemmPlan *plan) {
  Node *n = r->graph->node[g->member[0]], *gemm = r->graph->node[g->gemm];
  Elementwise kernel;
  double p[4];
  if (g->count != 1 || plan->k_blocks != 1 || n->in_count != 2 || region_read_outside(r, gemm->id))
    return false;
  n->op->strip(n, &kernel, p);
  if (kernel != EW_ADD) return false;
  Value *other = value_operand(n, value_root(value_operand(n, 0))->node == gemm);
  return value_root(other)->node != gemm && shape_equal(&other->type, &g->shape) &&
         lower_operand(l, r, other) == lower_result(l, r, &n->out[0]);
}

void lower_product(Lower *l, Region *r, Node *n, const Group *g, Block *b) {
  GemmStep *gs = arena_alloc(l->p->arena, sizeof *gs);
  if (!gs) {
    lower_no_memory(l);
    return;
  }
  l->position++;
  Step *s = lower_step(l, b, STEP_GEMM, g ? r->graph->node[g->last] : n);
  if (!s) return;
  Gemm *m = &gs->gemm;
  gemm_extents(n, &m->m, &m->n, &m->k);
  bool ta = n->attr[0].i, tb = n->attr[1].i;
  gs->dtype = n->in[0]->type.dtype;
  m->a_row = ta ? 1 : m->k, m->a_col = ta ? m->m : 1;
  m->b_row = tb ? 1 : m->n, m->b_col = tb ? m->k : 1;
  m->c_row = m->n;
  lower_link(l, lower_operand(l, r, n->in[0]), &m->a);
  lower_link(l, lower_operand(l, r, n->in[1]), &m->b);
  gs->plan = product_plan(l->p->kernels, gs->dtype, m);
  m->accumulate = g && accumulates(l, r, g, &gs->plan);
  if (!g || m->accumulate || region_read_outside(r, n->id)) {
    lower_link(l, lower_result(l, r, m->accumulate ? &r->graph->node[g->last]->out[0] : &n->out[0]),
               &m->c);
    m->c = m; /* present, for the plan */
  }
  if (g && !m->accumulate) gs->epilogue = build_chain(l, r, g);
  gs->plan = product_plan(l->p->kernels, gs->dtype, m);
  if (gs->plan.shared_bytes)
    lower_link(l, lower_buffer(l, BUFFER_ARENA, gs->plan.shared_bytes, n), &m->shared);
  if (gs->plan.slot_bytes > l->p->slot_bytes) l->p->slot_bytes = gs->plan.slot_bytes;
  s->gemm = gs;
  s->parallel = 2.0 * (double)m->m * (double)m->n * (double)m->k >= PARALLEL_FLOPS;
}

void lower_group(Lower *l, Region *r, const Group *g, Block *b) {
  if (g->gemm >= 0) {
    lower_product(l, r, r->graph->node[g->gemm], g, b);
    return;
  }
  l->position++;
  Step *s = lower_step(l, b, STEP_CHAIN, r->graph->node[g->last]);
  Chain *chain = build_chain(l, r, g);
  if (!s || !chain) return;
  s->chain = chain;
  s->parallel = chain->count * chain->step_count >= PARALLEL_ELEMENTS;
}
