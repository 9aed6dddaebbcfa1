/* Lookups in a table and updates of its rows. */
#include <math.h>

#include "target/plan.h"

/* Columns are cut first, to one 8-byte vector per tile; what tiles are left cut the rows (when a column of the table
 * is larger than a memory element) or the lookups. */
typedef struct TablePlan {
  double columns, parts; /* tiles across; tiles along rows or lookups */
  bool by_rows;
  double vectors; /* of one row on a tile */
} TablePlan;

static TablePlan plan_table(const Target *t, Dtype d, double rows, double width) {
  TablePlan p = {0};
  double vector = vector_width(t, d), across = ceil_div(width, vector);
  p.columns = fmin(across, (double)t->tiles);
  p.vectors = ceil_div(across, p.columns);
  p.parts = fmax(1, floor((double)t->tiles / p.columns));
  p.by_rows = rows * p.vectors * (double)t->vector_bytes > (double)t->element_bytes;
  if (p.by_rows) p.parts = fmin(p.parts, rows);
  return p;
}

static Cost begin(const TablePlan *p, const Target *t) {
  Cost c = cost_free();
  c.tiles = fmin((double)t->tiles, p->columns * p->parts);
  return c;
}

Cost cost_gather(const Target *t, Dtype d, int64_t rows, int64_t width, int64_t indices) {
  if (rows <= 0 || width <= 0 || indices <= 0) return cost_free();
  TablePlan p = plan_table(t, d, (double)rows, (double)width);
  if (!p.by_rows) p.parts = fmin(p.parts, (double)indices);
  Cost c = begin(&p, t);
  double n = (double)indices, bytes = p.vectors * (double)t->vector_bytes;
  double hits = ceil_div(n, p.parts), misses = p.by_rows ? n - hits : 0, seen = p.by_rows ? n : hits;
  double w = (double)t->workers;
  double table = p.by_rows || p.parts <= 1 ? 0 : (double)rows * bytes;
  cost_step(&c, t, "gather", seen * 4 + table, w * (30 + ceil_div(hits, w) * (19 + 2 * p.vectors) + ceil_div(misses, w) * 8));
  if (p.by_rows && p.parts > 1) {
    double exchange, steps, cycles;
    cycles = reduce_partials(t, n * bytes / element_bytes(d), p.parts, element_bytes(d), true, &exchange, &steps);
    cost_steps(&c, t, "combine", steps, exchange / 2 * (double)t->exchange_bytes_per_cycle / steps, cycles / steps);
  }
  cost_step(&c, t, "results", seen * bytes, 0);
  cost_step(&c, t, "results", 0, 25 + seen * bytes / (double)t->vector_bytes);
  cost_memory(&c, MEMORY_MESSAGE, seen * 4 + table);
  cost_memory(&c, MEMORY_TEMPORARY, seen * bytes);
  cost_vertex(&c, t, VERTEX_MULTI_SLICE, 40, 120);
  return c;
}

Cost cost_scatter(const Target *t, Dtype d, int64_t rows, int64_t width, int64_t indices, bool add) {
  if (rows <= 0 || width <= 0 || indices <= 0) return cost_free();
  TablePlan p = plan_table(t, d, (double)rows, (double)width);
  if (!p.by_rows) p.parts = fmin(p.parts, (double)indices);
  Cost c = begin(&p, t);
  double n = (double)indices, bytes = p.vectors * (double)t->vector_bytes, w = (double)t->workers;
  double hits = ceil_div(n, p.parts), misses = p.by_rows ? n - hits : 0, seen = p.by_rows ? n : hits;
  double each = add ? 12 + 3 * (p.vectors - 1) : 10 + 2 * p.vectors;
  cost_step(&c, t, "scatter", seen * (4 + bytes), w * (hits * each + misses * 5));
  if (!p.by_rows && p.parts > 1) {
    double exchange, steps, cycles;
    cycles = reduce_partials(t, (double)rows * bytes / element_bytes(d), p.parts, 4, true, &exchange, &steps);
    cost_steps(&c, t, "combine", steps, exchange * (double)t->exchange_bytes_per_cycle / steps, cycles / steps);
    cost_memory(&c, MEMORY_PARTIALS, (double)rows * bytes);
  }
  cost_memory(&c, MEMORY_MESSAGE, seen * (4 + bytes));
  cost_vertex(&c, t, VERTEX_MULTI_UPDATE, 40, 120);
  return c;
}
