/* Lookups in a table and updates of its rows. */
#include <math.h>

#include "target/plan.h"

/* Columns are cut first, to one 8-byte vector per tile. The remaining tiles cut the lookups. If a
 * column of the table is larger than a memory element, they cut the rows instead. */
typedef struct TablePlan {
  double columns, parts; /* tiles across; tiles along rows or lookups */
  bool by_rows;
  double vectors; /* of one row on a tile */
} TablePlan;

static TablePlan plan_table(const Target *t, Dtype d, double rows, double width) {
  TablePlan p = {0};
  double vector = vector_width(t, d), across = ceil_ratio(width, vector);
  p.columns = fmin(across, (double)t->tiles);
  p.vectors = ceil_ratio(across, p.columns);
  p.parts = fmax(1, floor((double)t->tiles / p.columns));
  p.by_rows = rows * p.vectors * (double)t->vector_bytes > (double)t->element_bytes;
  if (p.by_rows) p.parts = fmin(p.parts, rows);
  return p;
}

/* The lookups of one tile: all if rows are split, its own if lookups are split. The IPU Model
 * counts every lookup that a tile tests as its own, since indices are data, unknown in advance. */
typedef struct Lookups {
  double seen, bytes; /* bytes: of a row's part */
} Lookups;

static Lookups share_lookups(const Target *t, TablePlan *p, double indices) {
  if (!p->by_rows) p->parts = fmin(p->parts, indices);
  Lookups l = {
      .bytes = p->vectors * (double)t->vector_bytes,
  };
  l.seen = p->by_rows ? indices : ceil_ratio(indices, p->parts);
  return l;
}

/* Partial results, or partial tables, of the parts become one. */
static void combine(Cost *c, const Target *t, double outputs, double parts) {
  if (parts <= 1) return;
  double exchange, steps, rate = (double)t->exchange_bytes_per_cycle;
  double cycles = reduce_partials(t, outputs, parts, 4, true, &exchange, &steps);
  cost_steps(c, t, "combine", steps, exchange * rate / steps, cycles / steps);
}

static Cost gather_by(const Target *t, Dtype d, int64_t rows, int64_t indices, TablePlan p) {
  Cost c = cost_free();
  Lookups l = share_lookups(t, &p, (double)indices);
  double w = (double)t->workers, copied = p.by_rows || p.parts <= 1 ? 0 : (double)rows * l.bytes;
  double each = 19 + 2 * p.vectors,
         mine = p.by_rows ? ceil_ratio(l.seen, w) : l.seen; /* workers share tests only */
  c.tiles = fmin((double)t->tiles, p.columns * p.parts);
  cost_step(&c, t, "gather", l.seen * 4 + copied, w * (30 + mine * each));
  if (p.by_rows) combine(&c, t, l.seen * l.bytes / element_bytes(d), p.parts);
  cost_step(&c, t, "results", l.seen * l.bytes, 0);
  cost_memory(&c, MEMORY_MESSAGE, l.seen * l.bytes + (copied > 0 ? 2 * copied : 0));
  c.flops = 0;
  cost_vertex(&c, t, VERTEX_MULTI_SLICE, 40, 120);
  cost_vertex(&c, t, VERTEX_COPY, 16, 40);
  if (p.by_rows && p.parts > 1) cost_vertex(&c, t, VERTEX_REDUCE_PARTIALS, 24, 40);
  return c;
}

/* Without a plan PopLibs' multiSlice makes dynamic slices of few lookups (inliningThreshold). With
 * a plan it doesn't. Here both cost the same. */
enum { INLINED_SLICES = 3 };

/* Few wide rows, one after the other: the workers of a tile share each (PL dynamicSlice), which
 * they don't share in a multi-slice. */
static Cost slice_by(const Target *t, int64_t indices, TablePlan p) {
  Cost c = cost_free();
  double w = (double)t->workers, n = (double)indices, bytes = p.vectors * (double)t->vector_bytes;
  c.tiles = p.columns;
  cost_steps(&c, t, "slice", n, 4 + bytes, w * (30 + 19 + 2 * ceil_ratio(p.vectors, w)));
  cost_memory(&c, MEMORY_MESSAGE, n * bytes);
  cost_vertex(&c, t, VERTEX_SLICE, 24, 20);
  return c;
}

Cost cost_gather(const Target *t, Dtype d, int64_t rows, int64_t width, int64_t indices) {
  if (rows <= 0 || width <= 0 || indices <= 0) return cost_free();
  TablePlan p = plan_table(t, d, (double)rows, (double)width), other = p;
  Cost c = gather_by(t, d, rows, indices, p);
  for (TablePlan q = p; !q.by_rows && q.parts > 1;) { /* fewer copies of the columns */
    q.parts = floor(q.parts / 2);
    Cost fewer = gather_by(t, d, rows, indices, q);
    if (cost_cycles(&fewer) < cost_cycles(&c)) c = fewer;
  }
  bool inlined = indices <= INLINED_SLICES, wide = p.columns * 2 > (double)t->tiles;
  if (inlined || wide) {
    Cost sliced = slice_by(t, indices, p);
    if (inlined ? cost_cycles(&sliced) < cost_cycles(&c) : is_far_better(&sliced, &c)) c = sliced;
  }
  if (p.by_rows) return c;
  other.by_rows = true; /* pays where columns leave no tiles to divide the lookups */
  other.parts = fmin(p.parts, (double)rows);
  Cost b = gather_by(t, d, rows, indices, other);
  return cost_cycles(&b) < cost_cycles(&c) ? b : c;
}

/* An update reads its rows and its table from memory elements of their own. First the tile's part
 * of the table fills whole elements. Then come the rows that it receives (or its partial table) and
 * its own lookups, gathered and updated, with their indices. */
static double apart(const Target *t, const TablePlan *p, const Lookups *l, double rows,
                    double indices) {
  double element = (double)t->element_bytes,
         own = 2 * ceil_ratio(indices, p->parts) * (l->bytes + 4);
  double table = (p->by_rows ? ceil_ratio(rows, p->parts) : rows) * l->bytes;
  return ceil_ratio(table, element) * element + (p->by_rows ? l->seen : rows) * l->bytes + own;
}

static Cost scatter_by(const Target *t, Dtype d, int64_t rows, int64_t width, int64_t indices,
                       TablePlan p) {
  Cost c = cost_free();
  Lookups l = share_lookups(t, &p, (double)indices);
  double w = (double)t->workers, each = 12 + 3 * (p.vectors - 1);
  c.tiles = fmin((double)t->tiles, p.columns * p.parts);
  cost_step(&c, t, "scatter", l.seen * (4 + l.bytes), w * (18 + l.seen * each));
  if (!p.by_rows) combine(&c, t, (double)rows * l.bytes / element_bytes(d), p.parts);
  cost_memory(&c, MEMORY_MESSAGE, l.seen * l.bytes);
  c.separate_bytes = apart(t, &p, &l, (double)rows, (double)indices);
  c.flops = (double)indices * (double)width;
  cost_vertex(&c, t, VERTEX_MULTI_UPDATE, 40, 120);
  cost_vertex(&c, t, VERTEX_SLICE, 16, 40);
  if (!p.by_rows && p.parts > 1) cost_vertex(&c, t, VERTEX_REDUCE_PARTIALS, 24, 40);
  return c;
}

Cost cost_scatter(const Target *t, Dtype d, int64_t rows, int64_t width, int64_t indices) {
  if (rows <= 0 || width <= 0 || indices <= 0) return cost_free();
  TablePlan p = plan_table(t, d, (double)rows, (double)width);
  Cost best = scatter_by(t, d, rows, width, indices, p);
  /* fewer parts of the lookups: each has a table of its own, and all of these are added up */
  while (!p.by_rows && p.parts > 1) {
    p.parts = floor(p.parts / 2);
    Cost c = scatter_by(t, d, rows, width, indices, p);
    if (cost_cycles(&c) < cost_cycles(&best)) best = c;
  }
  return best;
}

/* Whole tables on a tile. */
static Cost take_on_tiles(const Target *t, Dtype d, double tables, double rows, double lookups,
                          bool add) {
  Cost c = cost_free();
  double share = ceil_ratio(tables, (double)t->tiles), mine = share * lookups,
         size = element_bytes(d), table = share * rows * size;
  double w = (double)t->workers, each = add ? 12 : 21;
  c.tiles = ceil_ratio(tables, share);
  cost_step(&c, t, add ? "scatter" : "gather", mine * (4 + (add ? size : 0)) + (add ? 0 : table),
            w * (30 + ceil_ratio(mine, w) * each));
  cost_step(&c, t, "results", add ? table : mine * size, 0);
  cost_memory(&c, MEMORY_MESSAGE, mine * (4 + size) + table);
  c.flops = add ? tables * lookups : 0;
  cost_vertex(&c, t, add ? VERTEX_MULTI_UPDATE : VERTEX_MULTI_SLICE, 40, 120);
  return c;
}

/* Tables of one column, each with lookups of its own: whole on a tile, or, of fewer tables than
 * tiles, each on several. */
Cost cost_take_along(const Target *t, Dtype d, int64_t tables, int64_t rows, int64_t lookups,
                     bool add) {
  if (tables <= 0 || rows <= 0 || lookups <= 0) return cost_free();
  Cost whole = take_on_tiles(t, d, (double)tables, (double)rows, (double)lookups, add);
  if (2 * tables > t->tiles) return whole;
  Target part = *t;
  part.tiles = t->tiles / tables;
  Cost cut =
      add ? cost_scatter(&part, d, rows, 1, lookups) : cost_gather(&part, d, rows, 1, lookups);
  cut.tiles *= (double)tables, cut.flops *= (double)tables;
  return cost_cycles(&cut) < cost_cycles(&whole) ? cut : whole;
}
