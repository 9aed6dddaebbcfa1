/* Moves that are joined, up to the bytes that the machine allows to wait: sums over replicas,
 * reduce-scatters, all-gathers, copies between IPUs. The first of them moves all bytes and pays
 * the fixed cost of a move; the others are free.
 *
 * Collectives wait for the last of them, with their operands. A copy isn't put off, as a reader
 * follows it. Later copies of values that are there by then go with it, and take memory on the
 * other IPU from that moment on. Copies inside a pipeline are one exchange at the end of
 * each time step already. */
#include "machine/merge.h"

#include <string.h>

#include "machine/priced.h"

static MergeKind kind_of(const PricedStep *r) {
  if (r->kind == PRICED_LINK) return MERGE_COPIES;
  switch (r->kind == PRICED_COLLECTIVE && r->node ? r->node->op->collective : COLLECTIVE_NONE) {
    case COLLECTIVE_SCATTER:
      return MERGE_SCATTERS;
    case COLLECTIVE_GATHER:
      return MERGE_GATHERS;
    case COLLECTIVE_SUM:
    case COLLECTIVE_MEAN:
      return MERGE_SUMS;
    default:
      return MERGE_COUNT;
  }
}

static bool same_attr(const Attr *a, const Attr *b) {
  if (a->kind != b->kind) return false;
  return a->kind == ATTR_NONE ||
         (a->kind == ATTR_STRING ? !strcmp(a->s, b->s) : a->kind == ATTR_INT && a->i == b->i);
}

/* The same collective of as many replicas, or a copy between the same IPUs, at the same point of
 * the program. */
static bool alike(const PricedStep *a, const PricedStep *b) {
  if (a->kind != b->kind || a->region != b->region || a->parent != b->parent || a->ipu != b->ipu ||
      a->times != b->times)
    return false;
  if (a->kind == PRICED_LINK) return a->from_ipu == b->from_ipu;
  if (!b->node || a->node->op != b->node->op) return false;
  for (int i = 0; i < op_attr_count(a->node->op); i++)
    if (!same_attr(&a->node->attr[i], &b->node->attr[i])) return false;
  return true;
}

static bool in_pipeline(const Price *p, const PricedStep *r) {
  int at = r->parent;
  while (at >= 0 && p->step[at].kind != PRICED_PIPELINE) at = p->step[at].parent;
  return at >= 0;
}

/* ---- dependencies ---- */

/* The nodes of a region that one of them is computed from, itself too. */
typedef struct Needs {
  Arena *arena;
  bool *mark;         /* by node id */
  const Node **stack; /* still to be looked at */
} Needs;

static bool find_needs(Needs *s, const Graph *g, const Node *n) {
  int top = 0;
  s->mark = arena_alloc(s->arena, (size_t)(g->next_id + 1) * sizeof *s->mark);
  s->stack = arena_alloc(s->arena, (size_t)(g->node_count + 1) * sizeof *s->stack);
  if (!s->mark || !s->stack) return false;
  s->mark[n->id] = true;
  s->stack[top++] = n;
  while (top) {
    const Node *x = s->stack[--top];
    for (int k = 0; k < x->in_count; k++) {
      const Node *y = x->in[k]->node;
      if (s->mark[y->id]) continue;
      s->mark[y->id] = true;
      s->stack[top++] = y;
    }
  }
  return true;
}

/* Returns 1 if the collective needs the result of one that lead is joined with. Joined, it would
 * wait for itself. Returns 0 if it doesn't, -1 without memory. */
static int needs_member(const Price *p, const int *leader, int lead, int step) {
  Needs s = {.arena = arena_new()};
  int found = s.arena && find_needs(&s, p->step[step].region, p->step[step].node) ? 0 : -1;
  for (int i = lead; i < step && found == 0; i++)
    if (leader[i] == lead && s.mark[p->step[i].node->id]) found = 1;
  arena_free(s.arena);
  return found;
}

/* ---- joining ---- */

static void extend(Price *p, int allocation, int step) {
  if (allocation < 0) return;
  Allocation *h = &p->allocation[allocation];
  if (step < h->first) h->first = step;
  if (step > h->last) h->last = step;
}

static void join(Price *p, int *leader, int lead, int step, const Cost *nothing) {
  PricedStep *first = &p->step[lead], *r = &p->step[step];
  first->bytes += r->bytes;
  r->bytes = 0;
  r->cost = nothing;
  leader[step] = lead;
  if (r->kind == PRICED_LINK) {
    if (r->ready > first->ready) first->ready = r->ready; /* all that it copies must be there */
    extend(p, r->arrived, lead);
    return;
  }
  for (int i = lead; i <= step; i++)
    if (leader[i] == lead) extend(p, p->step[i].moved, step);
}

static bool collect(Price *p, int *leader, int lead, double limit, const Cost *nothing) {
  bool copies = p->step[lead].kind == PRICED_LINK;
  leader[lead] = lead;
  for (int k = lead + 1; k < p->step_count; k++) {
    const PricedStep *r = &p->step[k];
    if (r->cost || !alike(&p->step[lead], r) || p->step[lead].bytes + r->bytes > limit) continue;
    int needs = copies ? r->ready >= lead : needs_member(p, leader, lead, k);
    if (needs < 0) return false;
    if (!needs) join(p, leader, lead, k, nothing);
  }
  return true;
}

bool price_merge(Price *p) {
  Cost free_of_charge = cost_free();
  const Cost *nothing = arena_copy(p->arena, &free_of_charge, sizeof free_of_charge);
  /* by step: the first that it is joined to */
  int *leader = arena_alloc(p->arena, (size_t)(p->step_count + 1) * sizeof *leader);
  if (!nothing || !leader) return false;
  memset(leader, -1, (size_t)p->step_count * sizeof *leader);
  for (int i = 0; i < p->step_count; i++) {
    MergeKind kind = kind_of(&p->step[i]);
    double limit = kind < MERGE_COUNT ? p->machine.merge_bytes[kind] : 0;
    if (!(limit > 0) || p->step[i].cost || (kind == MERGE_COPIES && in_pipeline(p, &p->step[i])))
      continue;
    if (!collect(p, leader, i, limit, nothing)) return false;
  }
  return true;
}
