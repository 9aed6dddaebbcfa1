/* Softmax, cross-entropy, normalisation: chains of passes and reductions over one layout. */
#include "target/plan.h"

static void pass(Cost *c, const Target *t, Dtype d, int64_t elements, int64_t small,
                 double cycles) {
  Cost p = small > 0 ? cost_broadcast(t, d, elements, small, cycles)
                     : cost_elementwise(t, d, elements, 1, cycles);
  cost_then(c, &p);
}

static void reduce(Cost *c, const Target *t, Dtype d, ReduceKind kind, int64_t rows,
                   int64_t columns) {
  Cost r = cost_reduce(t, d, kind, rows, columns, 1);
  cost_then(c, &r);
}

Cost cost_softmax(const Target *t, Dtype d, int64_t rows, int64_t columns, bool backward) {
  Cost c = cost_free();
  int64_t n = times(rows, columns);
  if (rows <= 0 || columns <= 0) return c;
  double mul = VECTOR(MUL, d);
  if (backward) { /* y (dy - sum(y dy)) */
    pass(&c, t, d, n, 0, mul);
    reduce(&c, t, d, COST_SUM, rows, columns);
    pass(&c, t, d, n, rows, 2);
    pass(&c, t, d, n, 0, mul);
  } else {
    reduce(&c, t, d, COST_MAX, rows, columns);
    pass(&c, t, d, n, rows, 2);
    pass(&c, t, d, n, 0, VECTOR(EXP, d));
    reduce(&c, t, d, COST_SUM, rows, columns);
    pass(&c, t, d, rows, 0, VECTOR(RECIPROCAL, d));
    pass(&c, t, d, n, rows, 2);
  }
  cost_memory(&c, MEMORY_TEMPORARY, tile_share(t, d, (double)n) * element_bytes(d));
  return c;
}

Cost cost_cross_entropy(const Target *t, Dtype d, int64_t rows, int64_t columns, bool backward) {
  Cost c = cost_free();
  if (rows <= 0 || columns <= 0) return c;
  if (backward) { /* probabilities minus the target: one pass */
    pass(&c, t, d, times(rows, columns), rows, 9);
    return c;
  }
  c = cost_softmax(t, d, rows, columns, false);
  pass(&c, t, d, times(rows, columns), rows, 9);
  reduce(&c, t, d, COST_SUM, rows, columns);
  return c;
}

Cost cost_norm(const Target *t, Dtype d, int64_t groups, int64_t extent, bool backward) {
  Cost c = cost_free();
  int64_t n = times(groups, extent);
  if (groups <= 0 || extent <= 0) return c;
  reduce(&c, t, d, COST_SUM, groups, extent); /* the second statistic rides in the same exchange */
  double share = tile_share(t, d, (double)n), width = vector_width(t, d);
  cost_step(&c, t, "square sum", 0, worker_cycles(t, 55, share, 2, width));
  if (backward) {
    pass(&c, t, d, n, 0, VECTOR(MUL, d));
    for (int i = 0; i < 4; i++) pass(&c, t, d, n, groups, 2);
  } else {
    pass(&c, t, F32, groups, 0, 12);
    for (int i = 0; i < 4; i++) pass(&c, t, d, n, groups, 2);
  }
  cost_memory(&c, MEMORY_TEMPORARY, share * element_bytes(d));
  return c;
}
