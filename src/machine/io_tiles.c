/* Tiles that only move data. They hold the elements of infeeds and outfeeds of one round of a loop,
 * or time step; the next round's move while this one computes. Elements that don't fit there are
 * placed on all tiles (Graphcore's io_tiles_test.py), and computing waits for them. */
#include "machine/io_tiles.h"

#include <math.h>

#include "machine/priced.h"
#include "ops/io/feed.h"

/* Infeeds and outfeeds only. Other host transfers don't use these tiles. */
static bool is_fed(const PricedStep *r) {
  return (r->kind == PRICED_HOST_IN || r->kind == PRICED_HOST_OUT) && r->node &&
         (node_is_dequeue(r->node) || node_is_enqueue(r->node));
}

double price_io_limit(const Price *p) {
  const Machine *m = &p->machine;
  return floor((double)m->io_tiles * (double)m->pod.target.tile_bytes * m->io_proportion);
}

bool price_io_tiles(Price *p) {
  if (!price_has_io(p)) return true;
  /* by block and IPU */
  double *moved = arena_alloc(p->arena, (size_t)((p->step_count + 1) * p->shards) * sizeof *moved);
  if (!moved) return false;
  for (int i = 0; i < p->step_count; i++) {
    const PricedStep *r = &p->step[i];
    if (!is_fed(r)) continue;
    IpuPrice *x = &p->ipu[price_ipu_of(p, r)];
    double *bytes = &moved[(r->parent + 1) * p->shards + price_ipu_of(p, r)];
    *bytes += r->bytes;
    x->io_bytes = fmax(x->io_bytes, *bytes);
  }
  return true;
}

bool price_overlaps(const Price *p, int ipu) {
  return price_has_io(p) && p->ipu[ipu].io_bytes <= price_io_limit(p);
}

/* ---- loops ---- */

/* Cycles of an iteration on an IPU: of infeeds and outfeeds, and of everything else. */
static void sum_round(const Price *p, int block, int ipu, double *fed, double *rest) {
  const PricedStep *b = &p->step[block];
  double rounds = b->times * b->repeats;
  *fed = *rest = 0;
  for (int i = block + 1; i < b->end; i++) {
    const PricedStep *r = &p->step[i];
    if (!r->cost || price_ipu_of(p, r) != ipu) continue;
    if (is_fed(r) && r->parent == block) *fed += r->cost->cycles[PHASE_STREAM];
    else *rest += cost_cycles(r->cost) * r->times / rounds;
  }
}

/* Cycles that are waited for: the first iteration's transfers, and in later ones the time by which
 * transfers take longer than the rest. */
static bool hide(Price *p, int block, int ipu, double share) {
  for (int i = block + 1; i < p->step[block].end; i++) {
    PricedStep *r = &p->step[i];
    if (!is_fed(r) || r->parent != block || price_ipu_of(p, r) != ipu || !r->cost) continue;
    Cost *c = arena_copy(p->arena, r->cost, sizeof *c);
    if (!c) return false;
    c->cycles[PHASE_STREAM] *= share;
    for (int s = 0; s < c->row_count; s++) c->steps[s].stream *= share;
    r->cost = c;
  }
  return true;
}

bool price_overlap(Price *p) {
  for (int i = 0; i < p->step_count && price_has_io(p); i++) {
    const PricedStep *b = &p->step[i];
    if (!priced_is_block(b->kind) || b->kind == PRICED_PIPELINE || !(b->repeats > 1) ||
        !(b->times > 0))
      continue;
    for (int ipu = 0; ipu < p->shards; ipu++) {
      double fed, rest;
      if (!price_overlaps(p, ipu)) continue;
      sum_round(p, i, ipu, &fed, &rest);
      double waited = fmax(0, fed - rest) + fmin(fed, rest) / b->repeats;
      if (fed > 0 && !hide(p, i, ipu, waited / fed)) return false;
    }
  }
  return true;
}
