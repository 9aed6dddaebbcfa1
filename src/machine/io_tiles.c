/* The memory of the tiles that only move data: what infeeds and outfeeds move in one round of a loop, or time step, lies there. */
#include <math.h>

#include "machine/rows.h"
#include "ops/feed.h"

/* Of infeeds and outfeeds; what other host transfers move doesn't pass these tiles. */
static bool is_fed(const Row *r) {
  return (r->kind == ROW_HOST_IN || r->kind == ROW_HOST_OUT) && r->node && (node_is_dequeue(r->node) || node_is_enqueue(r->node));
}

double price_io_limit(const Price *p) {
  const Machine *m = &p->machine;
  return floor((double)m->io_tiles * (double)m->pod.target.tile_bytes * m->io_proportion);
}

static void note(IpuPrice *x, double bytes, double limit) {
  x->io_bytes = fmax(x->io_bytes, bytes);
  x->io_fits = x->io_bytes <= limit;
}

bool price_io_tiles(Price *p) {
  for (int i = 0; i < p->shards; i++) p->ipu[i].io_fits = true;
  if (!price_has_io(p)) return true;
  double *moved = arena_alloc(p->arena, (size_t)((p->row_count + 1) * p->shards) * sizeof *moved); /* by block and IPU */
  if (!moved) return false;
  for (int i = 0; i < p->row_count; i++) {
    const Row *r = &p->row[i];
    if (!is_fed(r)) continue;
    int ipu = r->ipu < p->shards ? r->ipu : 0;
    double *bytes = &moved[(r->parent + 1) * p->shards + ipu];
    *bytes += r->bytes;
    note(&p->ipu[ipu], *bytes, price_io_limit(p));
  }
  return true;
}

const Row *price_io_largest(const Price *p, int ipu) {
  const Row *largest = NULL;
  for (int i = 0; i < p->row_count; i++)
    if (is_fed(&p->row[i]) && p->row[i].ipu == ipu && (!largest || p->row[i].bytes > largest->bytes)) largest = &p->row[i];
  return largest;
}
