/* Reductions, scans and sorts. */
#include <math.h>

#include "target/plan.h"

/* PL popops/reduction, the vectorised vertex: 7 cycles to call it, 26 to load its state, 28 to
 * begin. For each vector of outputs it takes a cycle for each vector of partials, and 12 to zero,
 * store and loop. PL also counts 10 to find each region of partials. With them published reductions
 * would be too slow. */
static double vertex(const Target *t, double outputs, double depth) {
  double vectors = ceil_ratio(outputs, 4), w = (double)t->workers;
  return w * (7 + 26 + 28 + ceil_ratio(vectors, w) * (depth + 12));
}

/* How a tensor, spread linearly, meets the outputs of a reduction. */
typedef struct Spread {
  double elements, outputs, depth, tiles; /* of one tile; tiles that share an output */
} Spread;

/* A tile's run of elements covers the innermost axes whole, then part of one axis; the outer ones
 * select it. */
static Spread spread(const Target *t, Dtype d, const ReduceAxis *axes, int rank) {
  double total = 1, left, all = 1;
  for (int i = 0; i < rank; i++)
    total *= (double)axes[i].extent, all *= axes[i].reduced ? 1 : (double)axes[i].extent;
  Spread s = {.elements = tile_share(t, d, total), .outputs = 1, .tiles = 1};
  left = s.elements;
  for (int i = rank - 1; i >= 0; i--) {
    double extent = (double)axes[i].extent, part = fmin(extent, fmax(1, left));
    if (axes[i].reduced) s.tiles *= ceil_ratio(extent, part);
    else s.outputs *= ceil(part);
    left /= extent;
  }
  s.outputs = fmin(fmin(s.outputs, s.elements), all);
  s.depth = ceil_ratio(s.elements, s.outputs);
  s.tiles = fmin(s.tiles, (double)t->tiles);
  return s;
}

/* PL ReductionPlan, calculateNextStep: sums of many tiles are added in two stages. One is enough if
 * they come from at most 64 tiles each, or if they come from less than twice the root of the tiles
 * and nearly all tiles have some. */
static int count_stages(const Target *t, const Spread *s, double used) {
  if (s->tiles <= 1) return 0;
  double tiles = (double)t->tiles;
  bool spread_well = s->tiles < 2 * sqrt(tiles) && used > tiles * 3 / 4;
  return spread_well || s->tiles <= 64 ? 1 : 2;
}

Cost cost_reduce_axes(const Target *t, Dtype d, ReduceKind kind, const ReduceAxis *axes, int rank) {
  Cost c = cost_free();
  double total = 1;
  for (int i = 0; i < rank; i++) total *= (double)axes[i].extent;
  if (!(total > 0)) return c;
  Spread s = spread(t, d, axes, rank);
  double sum_bytes = kind == COST_MAX ? element_bytes(d) : kind == COST_ARG ? 8 : 4;
  double vectors = ceil_ratio(s.outputs, 4), w = (double)t->workers;
  double scale = kind == COST_LOG_ADD
                     ? (element_bytes(d) >= 4 ? LOG_ADD_VECTOR_F32 : LOG_ADD_VECTOR_F16)
                 : kind == COST_ARG ? 3
                                    : 1;
  bool cut = kind != COST_MAX && vectors < w && s.depth >= 2 * w;
  /* The workers share the partials of all vectors. Several may share one vector's, and add their
   * sums. */
  double shared = vertex(t, s.outputs, scale * vectors * s.depth / w) +
                  vertex(t, s.outputs, scale * ceil_ratio(w, vectors));
  double local = cut ? shared : vertex(t, s.outputs, scale * s.depth);
  /* No worker mix loads more than 16 bytes a cycle. */
  local = fmax(local, s.elements * element_bytes(d) / 16);
  c.tiles = tiles_used(t, d, total);
  int stages = count_stages(t, &s, c.tiles);
  cost_step(&c, t, "reduce", 0, local);
  double depth = stages == 2 ? sqrt(s.tiles) : s.tiles;
  /* Tiles that share outputs divide them, but not below a grain of eight (PL ReductionPlan:
   * shouldReduceAtDestination). */
  double mine = fmin(s.outputs, fmax(8, ceil_ratio(s.outputs, fmax(1, depth))));
  for (int i = 0; i < stages; i++)
    cost_step(&c, t, "reduce across tiles", mine * sum_bytes * depth,
              vertex(t, mine, scale * depth));
  c.flops = total;
  /* Received sums replace the local ones, and the vertices of another stage are added. */
  double sums = s.outputs * sum_bytes * (cut ? w + 1 : 1),
         collected = mine * sum_bytes * (depth + 1);
  if (stages) c.uneven_bytes = 150 + fmax(0, collected - sums);
  cost_memory(&c, MEMORY_PARTIALS, sums);
  cost_vertex(&c, t, VERTEX_REDUCE, 70, 40);
  return c;
}

Cost cost_reduce(const Target *t, Dtype d, ReduceKind kind, int64_t outer, int64_t extent,
                 int64_t inner) {
  const ReduceAxis axes[] = {{outer, false}, {extent, true}, {inner, false}};
  return cost_reduce_axes(t, d, kind, axes, 3);
}

/* Bitonic: log2(n) (log2(n) + 1) / 2 rounds of compare and exchange. */
Cost cost_sort(const Target *t, Dtype d, int64_t rows, int64_t extent) {
  Cost c = cost_free();
  if (rows <= 0 || extent <= 1) return c;
  double levels = ceil(log2((double)extent)), rounds = levels * (levels + 1) / 2;
  double share = tile_share(t, d, (double)rows * (double)extent);
  /* Rounds inside one tile's share need no exchange; key and 4-byte index move together. */
  double inside = floor(log2(fmax(1, fmin(share, (double)extent)))),
         local = inside * (inside + 1) / 2;
  double compute = worker_cycles(t, 30, share, 20, vector_width(t, d));
  if (local > 0) cost_step(&c, t, "sort", 0, local * compute);
  cost_steps(&c, t, "sort exchange", rounds - local, share * (element_bytes(d) + 4), compute);
  c.tiles = tiles_used(t, d, (double)rows * (double)extent);
  cost_memory(&c, MEMORY_TEMPORARY, share * (element_bytes(d) + 4));
  cost_memory(&c, MEMORY_MESSAGE, rounds > local ? share * (element_bytes(d) + 4) : 0);
  cost_vertex(&c, t, VERTEX_SORT, 32, 60);
  return c;
}

/* Sort runs of k, then keep the better half of each pair of runs. */
Cost cost_top_k(const Target *t, Dtype d, int64_t rows, int64_t extent, int64_t k) {
  Cost c = cost_free();
  if (rows <= 0 || extent <= 0 || k <= 0) return c;
  if (k >= extent) return cost_sort(t, d, rows, extent);
  rows = clamp_extent(rows), extent = clamp_extent(extent), k = clamp_extent(k);
  int64_t runs = ceil_div(extent, k);
  c = cost_sort(t, d, times(rows, runs), k);
  double levels = ceil(log2((double)k + 1)), left = (double)rows * (double)extent;
  for (int64_t r = runs; r > 1; r = ceil_div(r, 2)) {
    double share = tile_share(t, d, left);
    cost_steps(&c, t, "top k merge", levels, share * (element_bytes(d) + 4),
               worker_cycles(t, 30, share, 20, vector_width(t, d)));
    left = ceil(left / 2);
  }
  if (runs > 1 && k == 1) cost_vertex(&c, t, VERTEX_REDUCE, 12, 20);
  c.tiles = tiles_used(t, d, (double)rows * (double)extent);
  return c;
}

/* Local scan, then the tiles' totals are scanned in log2 rounds, then added; on as many tiles as
 * pay. */
static Cost scan_on(const Target *t, Dtype d, double elements, double extent) {
  Cost c = cost_free();
  double share = tile_share(t, d, elements),
         across = fmin((double)t->tiles, ceil_ratio(extent, share));
  cost_step(&c, t, "scan", 0, worker_cycles(t, 30, share, 3, 1));
  if (across > 1) {
    cost_steps(&c, t, "scan across tiles", ceil(log2(across)), 4, worker_cycles(t, 30, 1, 3, 1));
    cost_step(&c, t, "scan", 4, worker_cycles(t, 20, share, 3, vector_width(t, d)));
  }
  c.tiles = tiles_used(t, d, elements);
  c.flops = elements;
  cost_vertex(&c, t, VERTEX_SCAN, 24, 20);
  return c;
}

Cost cost_scan(const Target *t, Dtype d, int64_t rows, int64_t extent) {
  Cost best = cost_free();
  if (rows <= 0 || extent <= 0) return best;
  Target part = *t;
  for (part.tiles = t->tiles; part.tiles >= 1; part.tiles /= 2) {
    Cost c = scan_on(&part, d, (double)rows * (double)extent, (double)extent);
    if (best.step_count == 0 || cost_cycles(&c) < cost_cycles(&best)) best = c;
  }
  return best;
}
