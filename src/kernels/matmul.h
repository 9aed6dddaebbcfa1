/* The part of matmul.c that is compiled for each element type, with the macros of real_f32.h and
 * real_f64.h. NAME(x) is x_f32 or x_f64. */

/* k steps, in which a advances by a_col and b by b_row. The last vector of b has `last` lanes. Each
 * step prefetches one cache line from `ahead` on, unless it is NULL. */
INLINE void NAME(tile_steps)(int rows, int vectors, bool partial, int64_t k, const REAL *a,
                             int64_t a_row, int64_t a_col, const REAL *b, int64_t b_row,
                             int64_t last, VECTOR sum[PANEL][WIDE], const char *ahead) {
  for (int64_t p = 0; p < k; p++, a += a_col, b += b_row) {
    VECTOR row[WIDE];
    if (ahead) __builtin_prefetch(ahead + p * LINE_BYTES, 0, 2);
    UNROLL for (int j = 0; j < vectors; j++) row[j] =
        partial && j == vectors - 1 ? LOAD_SOME(b + j * LANES, last) : LOAD(b + j * LANES);
    UNROLL for (int i = 0; i < rows; i++) {
      VECTOR x = SPLAT(a[i * a_row]);
      UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = FMA(x, row[j], sum[i][j]);
    }
  }
}

/* The last vector of C has `last` lanes, too. `lines` cache lines from `ahead` on are prefetched
 * meanwhile. */
INLINE void NAME(tile)(int rows, int vectors, bool partial, int64_t k, const REAL *a, int64_t a_row,
                       int64_t a_col, const REAL *b, int64_t b_row, REAL *c, int64_t c_row,
                       int64_t last, bool add, const char *ahead, int64_t lines) {
  VECTOR sum[PANEL][WIDE];
  UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) sum[i][j] =
      (VECTOR){0};
  if (add)
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++)
        __builtin_prefetch(c + i * c_row + j * LANES);
  if (lines > k) lines = k;
  if (lines > 0)
    NAME(tile_steps)(rows, vectors, partial, lines, a, a_row, a_col, b, b_row, last, sum, ahead);
  NAME(tile_steps)(rows, vectors, partial, k - lines, a + lines * a_col, a_row, a_col,
                   b + lines * b_row, b_row, last, sum, NULL);
  UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) {
    REAL *to = c + i * c_row + j * LANES;
    if (partial && j == vectors - 1)
      STORE_SOME(to, last, add ? LOAD_SOME(to, last) + sum[i][j] : sum[i][j]);
    else STORE(to, add ? LOAD(to) + sum[i][j] : sum[i][j]);
  }
}

#define TILE(rows, vectors)                                                                    \
  static void NAME(full_##rows##_##vectors)(                                                   \
      int64_t k, const void *a, int64_t a_row, int64_t a_col, const void *b, int64_t b_row,    \
      void *c, int64_t c_row, int64_t last, bool add, const char *ahead, int64_t lines) {      \
    NAME(tile)(rows, vectors, false, k, a, a_row, a_col, b, b_row, c, c_row, last, add, ahead, \
               lines);                                                                         \
  }                                                                                            \
  static void NAME(part_##rows##_##vectors)(                                                   \
      int64_t k, const void *a, int64_t a_row, int64_t a_col, const void *b, int64_t b_row,    \
      void *c, int64_t c_row, int64_t last, bool add, const char *ahead, int64_t lines) {      \
    NAME(tile)(rows, vectors, true, k, a, a_row, a_col, b, b_row, c, c_row, last, add, ahead,  \
               lines);                                                                         \
  }
TILES_1(TILE)
TILES_2(TILE)
TILES_3(TILE)
#undef TILE

/* Both operands run along k: lanes of partial sums, folded at the end. */
INLINE void NAME(dots)(int rows, int cols, int64_t k, const REAL *a, int64_t a_row, const REAL *b,
                       int64_t b_col, REAL *c, int64_t c_row, bool add) {
  VECTOR sum[DOT][DOT];
  UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < cols; j++) sum[i][j] =
      (VECTOR){0};
  int64_t p = 0;
  for (; p + LANES <= k; p += LANES) {
    VECTOR y[DOT];
    UNROLL for (int j = 0; j < cols; j++) y[j] = LOAD(b + j * b_col + p);
    UNROLL for (int i = 0; i < rows; i++) {
      VECTOR x = LOAD(a + i * a_row + p);
      UNROLL for (int j = 0; j < cols; j++) sum[i][j] = FMA(x, y[j], sum[i][j]);
    }
  }
  if (p < k) UNROLL for (int i = 0; i < rows; i++) {
      VECTOR x = LOAD_SOME(a + i * a_row + p, k - p);
      UNROLL for (int j = 0; j < cols; j++) sum[i][j] =
          FMA(x, LOAD_SOME(b + j * b_col + p, k - p), sum[i][j]);
    }
  UNROLL for (int i = 0; i < rows; i++) {
    REAL dot[DOT];
    NAME(fold_row)(cols, sum[i], dot);
    UNROLL for (int j = 0; j < cols; j++) c[i * c_row + j] =
        add ? c[i * c_row + j] + dot[j] : dot[j];
  }
}

#define X(r, n)                                                                            \
  static void NAME(dots_##r##_##n)(int64_t k, const void *a, int64_t a_row, const void *b, \
                                   int64_t b_col, void *c, int64_t c_row, bool add) {      \
    NAME(dots)(r, n, k, a, a_row, b, b_col, c, c_row, add);                                \
  }
DOTS(X)
#undef X

/* to[i] (+)= the sum over parts of part[p * apart + i]. */
static void NAME(sum_parts)(REAL *to, const REAL *part, int64_t parts, int64_t apart, int64_t n,
                            bool add) {
  for (int64_t i = 0; i < n; i += LANES) {
    int64_t left = n - i;
    bool whole = left >= LANES;
    const REAL *first = add ? to + i : part + i;
    VECTOR sum = whole ? LOAD(first) : LOAD_SOME(first, left);
    for (int64_t p = !add; p < parts; p++)
      sum += whole ? LOAD(part + p * apart + i) : LOAD_SOME(part + p * apart + i, left);
    if (whole) STORE(to + i, sum);
    else STORE_SOME(to + i, left, sum);
  }
}
