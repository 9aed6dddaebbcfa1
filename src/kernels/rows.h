/* Sums along a row of float32, the same on every instruction set: four groups of SUMS partial
 * sums for long rows. */
#ifndef IPULUA_KERNELS_ROWS_H
#define IPULUA_KERNELS_ROWS_H
#include "kernels/simd.h"

enum { ROW_GROUPS = 4 };

/* The term to be summed, from vectors of the operands and two constants of the row. */
typedef f32v (*RowTerm)(f32v a, f32v b, f32v c, f32v s, f32v t);
typedef struct Row {
  const float *a, *b, *c; /* b and c may be NULL: zeros */
  f32v s, t;
} Row;

INLINE f32v row_term(RowTerm f, const Row *r, int64_t at) {
  f32v none = {0};
  return f(load_f32(r->a + at), r->b ? load_f32(r->b + at) : none,
           r->c ? load_f32(r->c + at) : none, r->s, r->t);
}
INLINE f32v some_row_term(RowTerm f, const Row *r, int64_t at, int64_t n) {
  f32v none = {0}, a = load_some_f32(r->a + at, n);
  return keep_some_f32(f(a, r->b ? load_some_f32(r->b + at, n) : none,
                         r->c ? load_some_f32(r->c + at, n) : none, r->s, r->t),
                       n);
}

INLINE float row_sum(RowTerm f, Row r, int64_t n) {
  f32v group[ROW_GROUPS][F32_PARTS];
  int64_t e = 0;
  UNROLL for (int i = 0; i < F32_PARTS; i++) group[0][i] = (f32v){0};
  if (n >= ROW_GROUPS * SUMS) {
    UNROLL for (int g = 1; g < ROW_GROUPS; g++) UNROLL for (int i = 0; i < F32_PARTS; i++)
        group[g][i] = (f32v){0};
    for (; e + ROW_GROUPS * SUMS <= n; e += ROW_GROUPS * SUMS)
      UNROLL for (int g = 0; g < ROW_GROUPS; g++) UNROLL for (int i = 0; i < F32_PARTS; i++)
          group[g][i] += row_term(f, &r, e + g * SUMS + i * F32_LANES);
    UNROLL for (int i = 0; i < F32_PARTS; i++) group[0][i] =
        (group[0][i] + group[1][i]) + (group[2][i] + group[3][i]);
  }
  for (; e + SUMS <= n; e += SUMS)
    UNROLL for (int i = 0; i < F32_PARTS; i++) group[0][i] += row_term(f, &r, e + i * F32_LANES);
  if (e < n) UNROLL for (int i = 0; i < F32_PARTS; i++) {
      int64_t left = n - e - i * F32_LANES, size = left < 0           ? 0
                                                   : left > F32_LANES ? F32_LANES
                                                                      : left;
      if (size) group[0][i] += some_row_term(f, &r, e + i * F32_LANES, size);
    }
  return fold_sum_f32(group[0]);
}

INLINE f32v term_itself(f32v a, f32v b, f32v c, f32v s, f32v t) {
  return (void)b, (void)c, (void)s, (void)t, a;
}
INLINE f32v term_product(f32v a, f32v b, f32v c, f32v s, f32v t) {
  return (void)c, (void)s, (void)t, a * b;
}
/* (a - s)^2 */
INLINE f32v term_square(f32v a, f32v b, f32v c, f32v s, f32v t) {
  f32v d = a - s;
  return (void)b, (void)c, (void)t, d * d;
}
/* a ((b - s) t), and the same with a c in place of a */
INLINE f32v term_scaled(f32v a, f32v b, f32v c, f32v s, f32v t) {
  return (void)c, a * ((b - s) * t);
}
INLINE f32v term_weighted(f32v a, f32v b, f32v c, f32v s, f32v t) { return a * c * ((b - s) * t); }
#endif
