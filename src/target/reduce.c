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

/* Which outputs of a reduction the parts of a linearly spread tensor belong to. */
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

/* PL ReductionPlan, calculateNextStep: sums of many tiles are added in two stages. One stage is
 * enough if each sum comes from at most 64 tiles. It is also enough if each comes from less than
 * twice the root of the tiles, and nearly all tiles have some. */
static int count_stages(const Target *t, const Spread *s, double used) {
  if (s->tiles <= 1) return 0;
  double tiles = (double)t->tiles;
  bool spread_well = s->tiles < 2 * sqrt(tiles) && used > tiles * 3 / 4;
  return spread_well || s->tiles <= 64 ? 1 : 2;
}

/* --- the order of columns --- */

/* Runs of a tensor's elements that lie on consecutive tiles (PL calcLinearTileMapping), cut into
 * blocks of `row` columns. */
typedef struct Runs {
  int64_t total, grain, tiles, each, rest; /* grains of a tile; grains that are left over */
  int64_t row, block;
} Runs;

static int64_t run_start(const Runs *r, int64_t tile) {
  int64_t grains = tile * r->each + tile * r->rest / r->tiles;
  return grains * r->grain < r->total ? grains * r->grain : r->total;
}

/* A tile's part of a block: its first column, the one after its last, its elements. */
typedef struct Part {
  int64_t first, end, count;
} Part;

static Part part_of(const Runs *r, int64_t tile, int64_t block) {
  int64_t from = block * r->block, start = run_start(r, tile), stop = run_start(r, tile + 1);
  if (start < from) start = from;
  if (stop > from + r->block) stop = from + r->block;
  return (Part){(start - from) % r->row, (stop - from) % r->row, stop - start};
}

/* Whether the part has column c right after the one before it, in one group. Columns with equal
 * numbers of rows in the part are a group. So groups end at its first and last column. */
static bool has_link(const Runs *r, const Part *p, int64_t c) {
  if (p->count >= r->row) return c != p->first && c != p->end;
  int64_t at = (c - p->first + r->row) % r->row;
  return at > 0 && at < p->count;
}

/* Columns of the vertex that has column 0 after others; 0 if none does. Workers share the columns
 * of each group in grains (PL dividePartials). */
static int64_t turned_columns(const Target *t, const Runs *r, const Part *p, int64_t grain) {
  if (p->count < r->row || p->first == 0 || p->end == 0) return 0;
  int64_t grains = ceil_div(r->row, grain), parts = ceil_div(grains, ceil_div(grains, t->workers));
  int64_t zero = r->row - p->first, group = (p->end - p->first + r->row) % r->row;
  for (int64_t i = 0; i < parts; i++) {
    int64_t from = i * grains / parts * grain, to = (i + 1) * grains / parts * grain;
    if (to > r->row) to = r->row;
    if (group > from && group <= zero) from = group;
    if (group < to && group > zero) to = group;
    if (from < zero && zero < to) return to - from;
  }
  return 0;
}

/* The links that no part of a block's columns has: the missing ones of its first whole part, less
 * the ones that others have. */
typedef struct Links {
  int64_t missing[2];
  int count; /* -1: no whole part yet */
  int64_t turned;
} Links;

static void visit_part(const Target *t, const Runs *r, const Part *p, int64_t grain, Links *l) {
  int left = 0;
  for (int i = 0; i < l->count; i++)
    if (!has_link(r, p, l->missing[i])) l->missing[left++] = l->missing[i];
  l->count = left;
  int64_t turned = turned_columns(t, r, p, grain);
  if (turned > l->turned) l->turned = turned;
}

static void visit_block(const Target *t, const Runs *r, int64_t block, int64_t grain, Links *l) {
  int64_t from = block * r->block;
  /* at or before the first tile of the block, whatever is lost in rounding */
  double about = (double)from / (double)r->total * (double)r->tiles - 1;
  int64_t tile = about > 0 ? (int64_t)about : 0;
  while (run_start(r, tile + 1) <= from) tile++;
  int64_t first = tile;
  if (l->count < 0)
    for (; tile < r->tiles && run_start(r, tile) < from + r->block && l->count < 0; tile++) {
      Part p = part_of(r, tile, block);
      if (p.count >= r->row) *l = (Links){{p.first, p.end}, 1 + (p.end != p.first), 0};
    }
  if (l->count < 0) return;
  for (tile = first; tile < r->tiles && run_start(r, tile) < from + r->block; tile++) {
    Part p = part_of(r, tile, block);
    visit_part(t, r, &p, grain, l);
  }
}

/* The block with the given indices of the kept and of the reduced axes outside of it. */
static int64_t block_at(const ReduceAxis *axes, int rank, int64_t kept, int64_t reduced) {
  int64_t block = 0, stride = 1;
  for (int i = rank - 1; i >= 0; i--) {
    int64_t extent = axes[i].extent, *index = axes[i].reduced ? &reduced : &kept;
    block += *index % extent * stride, *index /= extent, stride *= extent;
  }
  return block;
}

/* Sums that a tile has in another order than most: the columns of the largest such vertex, else 0.
 * A tile whose run begins within a row has its columns as 4 5 6 7 0 1 2 3. PL
 * (findCommonColumnOrder) follows each column to the next one on any tile. If that closes a circle,
 * the order is 0 1 2 3 4 5 6 7, and such a tile's sums are copied into it. */
static int64_t copied_columns(const Target *t, Dtype d, ReduceKind kind, const ReduceAxis *axes,
                              int rank) {
  ReduceAxis own[8];
  int n = 0;
  for (int i = 0; i < rank; i++)
    if (axes[i].extent > 1 && n > 0 && own[n - 1].reduced == axes[i].reduced)
      own[n - 1].extent *= axes[i].extent;
    else if (axes[i].extent > 1 && n < 8) own[n++] = axes[i];
  if (n < 2 || own[n - 1].reduced) return 0;
  int64_t total = 1, kept = 1, reduced = 1, width = (int64_t)vector_width(t, d);
  for (int i = 0; i < n; i++) {
    total = times(total, own[i].extent);
    if (i < n - 2 && own[i].reduced) reduced = times(reduced, own[i].extent);
    else if (i < n - 2) kept = times(kept, own[i].extent);
  }
  /* PL splitRegions: at least 128 bytes, 16 grains, on each tile */
  int64_t grains = ceil_div(total, width), parts = grains < 16 ? 1 : grains / 16,
          most = ceil_div(grains, parts < t->tiles ? parts : t->tiles),
          tiles = ceil_div(grains, most);
  Runs r = {total,
            width,
            tiles,
            grains / tiles,
            grains % tiles,
            own[n - 1].extent,
            times(own[n - 2].extent, own[n - 1].extent)};
  if (total >= EXTENT_MAX || r.block <= most * width || most * width < r.row) return 0;
  int64_t found = 0;
  for (int64_t k = 0; k < kept; k++) {
    Links l = {.count = -1};
    for (int64_t i = 0; i < reduced; i++)
      visit_block(t, &r, block_at(own, n - 2, k, i), kind == COST_SUM ? 2 * width : width, &l);
    if (l.count == 0 && l.turned > found) found = l.turned;
  }
  return found;
}

/* Whether the workers share the rows of an output. PL splitTwoStageReductionsBetweenWorkers: if
 * each then has half of them or less and saves 30 cycles, of partials that take one for each vector
 * of sums. That is for vectors of outputs whose rows lie outside of them. */
static bool cuts_rows(const Target *t, Dtype d, ReduceKind kind, const ReduceAxis *axes, int rank,
                      const Spread *s) {
  double w = (double)t->workers, width = vector_width(t, d);
  int last = rank - 1;
  while (last > 0 && axes[last].extent == 1) last--;
  if (rank == 0 || axes[last].reduced || s->outputs < 4 || (kind != COST_SUM && kind != COST_MAX))
    return ceil_ratio(s->outputs, 4) < w && s->depth >= 2 * w;
  double parts = fmin(w, ceil_ratio(s->outputs, kind == COST_SUM ? 2 * width : width));
  double sums = kind == COST_MAX ? width : 4;
  return 2 * parts <= w && s->depth >= 6 && s->elements / parts / sums > 60;
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
  bool cut = cuts_rows(t, d, kind, axes, rank, &s);
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
  /* The sums and their copy lie in memory elements of their own. */
  if (stages && kind != COST_ARG)
    c.separate_bytes = (double)copied_columns(t, d, kind, axes, rank) * sum_bytes;
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
