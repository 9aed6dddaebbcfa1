/* The part of columns.c that is compiled for each element type, with the macros of real_f32.h and
 * real_f64.h. NAME(x) is x_f32 or x_f64. */

/* Adds up some columns, `rows` elements each. Unused operands are NULL. */
INLINE void NAME(sum_columns)(bool square, bool product, const REAL *dy, const REAL *x,
                              const REAL *mean, int64_t rows, int64_t n, REAL *sum, REAL *other,
                              int64_t lanes) {
  VECTOR s[4] = {{0}}, o[4] = {{0}};
  VECTOR m = mean ? LOAD_SOME(mean, lanes) : (VECTOR){0};
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) UNROLL for (int k = 0; k < 4; k++) {
      VECTOR v = LOAD_SOME(x + (i + k) * n, lanes) - m;
      if (square) v *= v;
      if (product) {
        VECTOR d = LOAD_SOME(dy + (i + k) * n, lanes);
        o[k] += d * v;
        v = d;
      }
      s[k] += v;
    }
  for (; i < rows; i++) {
    VECTOR v = LOAD_SOME(x + i * n, lanes) - m;
    if (square) v *= v;
    if (product) {
      VECTOR d = LOAD_SOME(dy + i * n, lanes);
      o[0] += d * v;
      v = d;
    }
    s[0] += v;
  }
  STORE_SOME(sum, lanes, LOAD_SOME(sum, lanes) + ((s[0] + s[1]) + (s[2] + s[3])));
  if (product) STORE_SOME(other, lanes, LOAD_SOME(other, lanes) + ((o[0] + o[1]) + (o[2] + o[3])));
}

INLINE void NAME(each_column)(bool square, bool product, const REAL *dy, const REAL *x,
                              const REAL *mean, int64_t rows, int64_t n, REAL *sum, REAL *other) {
  int64_t c = 0;
  for (; c + LANES <= n; c += LANES) NAME(sum_columns)
  (square, product, product ? dy + c : NULL, x + c, mean ? mean + c : NULL, rows, n, sum + c,
   product ? other + c : NULL, LANES);
  if (c < n) NAME(sum_columns)
  (square, product, product ? dy + c : NULL, x + c, mean ? mean + c : NULL, rows, n, sum + c,
   product ? other + c : NULL, n - c);
}

static void NAME(column_sums)(const void *x, int64_t rows, int64_t n, void *sum) {
  NAME(each_column)(false, false, NULL, x, NULL, rows, n, sum, NULL);
}
static void NAME(column_squares)(const void *x, const void *mean, int64_t rows, int64_t n,
                                 void *sum) {
  NAME(each_column)(true, false, NULL, x, mean, rows, n, sum, NULL);
}
static void NAME(column_products)(const void *dy, const void *x, const void *mean, int64_t rows,
                                  int64_t n, void *sum, void *product) {
  NAME(each_column)(false, true, dy, x, mean, rows, n, sum, product);
}

/* A vector of columns at a time, whose factors stay in registers. */
INLINE void NAME(scale_columns)(const REAL *x, const REAL *mean, const REAL *scale,
                                const REAL *shift, int64_t rows, int64_t n, REAL *y,
                                int64_t lanes) {
  VECTOR m = LOAD_SOME(mean, lanes), a = LOAD_SOME(scale, lanes), b = LOAD_SOME(shift, lanes);
  INDEPENDENT for (int64_t i = 0; i < rows; i++)
      STORE_SOME(y + i * n, lanes, (LOAD_SOME(x + i * n, lanes) - m) * a + b);
}
static void NAME(column_scale)(const void *x, const void *mean, const void *scale,
                               const void *shift, int64_t rows, int64_t n, void *y) {
  const REAL *from = x, *m = mean, *a = scale, *b = shift;
  REAL *to = y;
  int64_t c = 0;
  for (; c + LANES <= n; c += LANES)
    NAME(scale_columns)(from + c, m + c, a + c, b + c, rows, n, to + c, LANES);
  if (c < n) NAME(scale_columns)(from + c, m + c, a + c, b + c, rows, n, to + c, n - c);
}

INLINE void NAME(combine_columns)(const REAL *dy, const REAL *x, const REAL *mean, const REAL *ps,
                                  const REAL *qs, const REAL *rs, int64_t rows, int64_t n, REAL *dx,
                                  int64_t lanes) {
  VECTOR m = LOAD_SOME(mean, lanes), p = LOAD_SOME(ps, lanes), q = LOAD_SOME(qs, lanes),
         r = LOAD_SOME(rs, lanes);
  INDEPENDENT for (int64_t i = 0; i < rows; i++)
      STORE_SOME(dx + i * n, lanes,
                 LOAD_SOME(dy + i * n, lanes) * p + (LOAD_SOME(x + i * n, lanes) - m) * q + r);
}
static void NAME(column_combine)(const void *dy, const void *x, const void *mean, const void *p,
                                 const void *q, const void *r, int64_t rows, int64_t n, void *dx) {
  const REAL *d = dy, *from = x, *m = mean, *a = p, *b = q, *k = r;
  REAL *to = dx;
  int64_t c = 0;
  for (; c + LANES <= n; c += LANES)
    NAME(combine_columns)(d + c, from + c, m + c, a + c, b + c, k + c, rows, n, to + c, LANES);
  if (c < n)
    NAME(combine_columns)(d + c, from + c, m + c, a + c, b + c, k + c, rows, n, to + c, n - c);
}
