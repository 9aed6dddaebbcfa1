/* Sums, extremes and products along one axis. The order of a sum depends on the extents alone, and
 * is the same on every instruction set. Contiguous elements are summed in blocks, with four groups
 * of SUMS partial sums. Across rows, each column is summed in blocks of rows. Blocks are added
 * pairwise, so rounding grows with the logarithm of their number. */
#include "kernels/fill.h"
#include "kernels/simd.h"

#include <math.h>

enum {
  GROUPS = 4,                 /* of SUMS partial sums, to overlap the latency of adding */
  BLOCK = 16 * GROUPS * SUMS, /* contiguous elements added without pairing */
  ROWS = 64,                  /* rows added without pairing */
  STRIP = 64,                 /* columns carried along */
  /* pairings of blocks: more than an int64 of elements can need in memory */
  LEVELS = 48
};

/* Blocks added pairwise, as a binary counter adds: level l holds the sum of 2^l blocks. */
typedef struct PairsF32 {
  uint64_t count;
  f32v level[LEVELS][F32_PARTS];
} PairsF32;

static void pairs_add_f32(PairsF32 *p, f32v sum[F32_PARTS]) {
  int l = 0;
  for (uint64_t bits = p->count++; bits & 1; bits >>= 1, l++)
    UNROLL for (int i = 0; i < F32_PARTS; i++) sum[i] = p->level[l][i] + sum[i];
  UNROLL for (int i = 0; i < F32_PARTS; i++) p->level[l][i] = sum[i];
}

/* One block's partial sums; n <= BLOCK. */
INLINE void sum_block_f32(const float *x, int64_t n, f32v sum[F32_PARTS]) {
  f32v group[GROUPS][F32_PARTS];
  UNROLL for (int g = 0; g < GROUPS; g++) UNROLL for (int i = 0; i < F32_PARTS; i++) group[g][i] =
      (f32v){0};
  int64_t e = 0;
  for (; e + GROUPS * SUMS <= n; e += GROUPS * SUMS)
    UNROLL for (int g = 0; g < GROUPS; g++) UNROLL for (int i = 0; i < F32_PARTS; i++)
        group[g][i] += load_f32(x + e + g * SUMS + i * F32_LANES);
  for (; e + SUMS <= n; e += SUMS)
    UNROLL for (int i = 0; i < F32_PARTS; i++) group[0][i] += load_f32(x + e + i * F32_LANES);
  if (e < n) UNROLL for (int i = 0; i < F32_PARTS; i++) {
      int64_t left = n - e - i * F32_LANES;
      group[1][i] += load_some_f32(x + e + i * F32_LANES, left < 0           ? 0
                                                          : left > F32_LANES ? F32_LANES
                                                                             : left);
    }
  UNROLL for (int i = 0; i < F32_PARTS; i++) sum[i] =
      (group[0][i] + group[1][i]) + (group[2][i] + group[3][i]);
}

static float sum_f32(const float *x, int64_t n) {
  f32v sum[F32_PARTS];
  if (n <= BLOCK) {
    sum_block_f32(x, n, sum);
    return fold_sum_f32(sum);
  }
  PairsF32 pairs;
  pairs.count = 0;
  int64_t e = 0;
  for (; e + BLOCK <= n; e += BLOCK) {
    sum_block_f32(x + e, BLOCK, sum);
    pairs_add_f32(&pairs, sum);
  }
  sum_block_f32(x + e, n - e, sum);
  for (int l = 0; pairs.count >> l; l++)
    if (pairs.count >> l & 1)
      UNROLL for (int i = 0; i < F32_PARTS; i++) sum[i] = pairs.level[l][i] + sum[i];
  return fold_sum_f32(sum);
}

/* Row sums of columns [0, cols), cols <= STRIP, over extent rows, pairwise in blocks of ROWS. */
#define SUM_COLUMNS(s, T)                                                                    \
  static void sum_columns_##s(const T *x, int64_t row, int64_t extent, int64_t cols, T *y) { \
    T level[LEVELS][STRIP];                                                                  \
    uint64_t count = 0;                                                                      \
    for (int64_t r = 0; r < extent; r += ROWS) {                                             \
      T sum[STRIP] = {0};                                                                    \
      int64_t end = extent - r < ROWS ? extent : r + ROWS;                                   \
      if (cols == STRIP)                                                                     \
        for (int64_t e = r; e < end; e++)                                                    \
          for (int c = 0; c < STRIP; c++) sum[c] += x[e * row + c];                          \
      else                                                                                   \
        for (int64_t e = r; e < end; e++)                                                    \
          for (int64_t c = 0; c < cols; c++) sum[c] += x[e * row + c];                       \
      int l = 0;                                                                             \
      for (uint64_t bits = count++; bits & 1; bits >>= 1, l++)                               \
        for (int c = 0; c < STRIP; c++) sum[c] = level[l][c] + sum[c];                       \
      memcpy(level[l], sum, sizeof sum);                                                     \
    }                                                                                        \
    T total[STRIP] = {0};                                                                    \
    for (int l = 0; count >> l; l++)                                                         \
      if (count >> l & 1)                                                                    \
        for (int c = 0; c < STRIP; c++) total[c] = level[l][c] + total[c];                   \
    memcpy(y, total, (size_t)cols * sizeof *y);                                              \
  }
SUM_COLUMNS(f64, double)

/* The same with the strip's sums in registers. */
INLINE void sum_rows_f32(const float *x, int64_t row, int64_t rows, f32v sum[STRIP / F32_LANES]) {
  f32v s[STRIP / F32_LANES];
  UNROLL for (int c = 0; c < STRIP / F32_LANES; c++) s[c] = (f32v){0};
  for (int64_t e = 0; e < rows; e++)
    UNROLL for (int c = 0; c < STRIP / F32_LANES; c++) s[c] +=
        load_f32(x + e * row + c * F32_LANES);
  UNROLL for (int c = 0; c < STRIP / F32_LANES; c++) sum[c] = s[c];
}
INLINE void sum_some_rows_f32(const float *x, int64_t row, int64_t rows, int64_t cols,
                              f32v sum[STRIP / F32_LANES]) {
  for (int c = 0; c < STRIP / F32_LANES; c++) {
    f32v s = {0};
    int64_t left = cols - c * F32_LANES;
    if (left >= F32_LANES)
      for (int64_t e = 0; e < rows; e++) s += load_f32(x + e * row + c * F32_LANES);
    else if (left > 0)
      for (int64_t e = 0; e < rows; e++) s += load_some_f32(x + e * row + c * F32_LANES, left);
    sum[c] = s;
  }
}
static void sum_columns_f32(const float *x, int64_t row, int64_t extent, int64_t cols, float *y) {
  enum { VECTORS = STRIP / F32_LANES };
  f32v level[LEVELS][VECTORS], sum[VECTORS];
  uint64_t count = 0;
  for (int64_t r = 0; r < extent; r += ROWS) {
    int64_t rows = extent - r < ROWS ? extent - r : ROWS;
    if (cols == STRIP) sum_rows_f32(x + r * row, row, rows, sum);
    else sum_some_rows_f32(x + r * row, row, rows, cols, sum);
    int l = 0;
    for (uint64_t bits = count++; bits & 1; bits >>= 1, l++)
      for (int c = 0; c < VECTORS; c++) sum[c] = level[l][c] + sum[c];
    for (int c = 0; c < VECTORS; c++) level[l][c] = sum[c];
  }
  float total[STRIP] = {0};
  for (int l = 0; count >> l; l++)
    if (count >> l & 1)
      for (int c = 0; c < VECTORS; c++)
        store_f32(total + c * F32_LANES, level[l][c] + load_f32(total + c * F32_LANES));
  memcpy(y, total, (size_t)cols * sizeof *y);
}

static double sum_f64(const double *x, int64_t n) {
  double total = 0;
  for (int64_t block = 0; block < n; block += 4096) {
    double sum[SUMS] = {0};
    int64_t end = n - block < 4096 ? n : block + 4096, e = block;
    for (; e + SUMS <= end; e += SUMS)
      for (int l = 0; l < SUMS; l++) sum[l] += x[e + l];
    for (int l = 0; e + l < end; l++) sum[l] += x[e + l];
    for (int half = SUMS / 2; half > 0; half /= 2)
      for (int l = 0; l < half; l++) sum[l] += sum[l + half];
    total += sum[0];
  }
  return total;
}

#define REDUCE_SUMS(s, T)                                                                    \
  static void reduce_sum_##s(const void *from, int64_t outer, int64_t extent, int64_t inner, \
                             void *to) {                                                     \
    const T *x = from;                                                                       \
    T *y = to;                                                                               \
    for (int64_t o = 0; o < outer; o++, x += extent * inner, y += inner) {                   \
      if (inner == 1) {                                                                      \
        y[0] = sum_##s(x, extent);                                                           \
        continue;                                                                            \
      }                                                                                      \
      for (int64_t c = 0; c < inner; c += STRIP)                                             \
        sum_columns_##s(x + c, inner, extent, inner - c < STRIP ? inner - c : STRIP, y + c); \
    }                                                                                        \
  }
REDUCE_SUMS(f32, float)
REDUCE_SUMS(f64, double)

/* The other reductions. Only products of floats depend on the order, and use SUMS partial products.
 * A is the accumulator's type, f the operation. */
#define REDUCE(name, T, A, start, f)                                                           \
  INLINE A name##_row(const T *x, int64_t extent, int lanes) {                                 \
    A part[GROUPS * SUMS];                                                                     \
    int64_t e = 0;                                                                             \
    for (int l = 0; l < lanes; l++) part[l] = start;                                           \
    for (; e + lanes <= extent; e += lanes)                                                    \
      for (int l = 0; l < lanes; l++) part[l] = f(part[l], (A)x[e + l]);                       \
    for (int l = 0; e + l < extent; l++) part[l] = f(part[l], (A)x[e + l]);                    \
    for (int half = lanes / 2; half > 0; half /= 2)                                            \
      for (int l = 0; l < half; l++) part[l] = f(part[l], part[l + half]);                     \
    return part[0];                                                                            \
  }                                                                                            \
  static void name(const void *from, int64_t outer, int64_t extent, int64_t inner, void *to) { \
    const T *x = from;                                                                         \
    T *y = to;                                                                                 \
    for (int64_t o = 0; o < outer; o++, x += extent * inner, y += inner) {                     \
      if (inner == 1) {                                                                        \
        y[0] = (T)(extent < 512 ? name##_row(x, extent, SUMS)                                  \
                                : name##_row(x, extent, GROUPS * SUMS));                       \
        continue;                                                                              \
      }                                                                                        \
      for (int64_t c = 0; c < inner; c += STRIP) {                                             \
        int64_t cols = inner - c < STRIP ? inner - c : STRIP;                                  \
        A part[STRIP];                                                                         \
        for (int l = 0; l < STRIP; l++) part[l] = start;                                       \
        for (int64_t e = 0; e < extent; e++)                                                   \
          for (int64_t l = 0; l < cols; l++) part[l] = f(part[l], (A)x[e * inner + c + l]);    \
        for (int64_t l = 0; l < cols; l++) y[c + l] = (T)part[l];                              \
      }                                                                                        \
    }                                                                                          \
  }

/* A NaN among the elements is the result. */
#define FLOAT_COMBINE(s, T)                                               \
  INLINE T larger_##s(T a, T b) { return ((b > a) | (b != b)) ? b : a; }  \
  INLINE T smaller_##s(T a, T b) { return ((b < a) | (b != b)) ? b : a; } \
  INLINE T product_##s(T a, T b) { return a * b; }
FLOAT_COMBINE(f32, float)
FLOAT_COMBINE(f64, double)
INLINE uint64_t product(uint64_t a, uint64_t b) { return a * b; }
INLINE uint64_t sum(uint64_t a, uint64_t b) { return a + b; }
INLINE uint8_t any(uint8_t a, uint8_t b) { return (uint8_t)(a | (b != 0)); }
INLINE uint8_t all(uint8_t a, uint8_t b) { return (uint8_t)(a & (b != 0)); }

REDUCE(columns_max_f32, float, float, -INFINITY, larger_f32)
REDUCE(columns_min_f32, float, float, INFINITY, smaller_f32)
REDUCE(reduce_prod_f32, float, float, 1, product_f32)
REDUCE(reduce_max_f64, double, double, -(double)INFINITY, larger_f64)
REDUCE(reduce_min_f64, double, double, (double)INFINITY, smaller_f64)
REDUCE(reduce_prod_f64, double, double, 1, product_f64)
/* The extremes of rows of float32 in vectors: the compiler leaves the NaNs' loop as it is. */
INLINE f32v larger_f32v(f32v a, f32v b) {
  return select_equal_f32(b, b, select_less_f32(a, b, b, a), b);
}
INLINE f32v smaller_f32v(f32v a, f32v b) {
  return select_equal_f32(b, b, select_less_f32(b, a, b, a), b);
}
INLINE float larger_lane(f32v v){HALVES(f32v, v, larger_f32v)} INLINE
    float smaller_lane(f32v v){HALVES(f32v, v, smaller_f32v)} INLINE
    float extreme_f32(f32v (*f)(f32v, f32v), float (*lane)(f32v), float start, const float *x,
                      int64_t n) {
  f32v max[GROUPS], none = splat_f32(start);
  int64_t e = 0;
  UNROLL for (int g = 0; g < GROUPS; g++) max[g] = none;
  for (; e + GROUPS * F32_LANES <= n; e += GROUPS * F32_LANES)
    UNROLL for (int g = 0; g < GROUPS; g++) max[g] = f(max[g], load_f32(x + e + g * F32_LANES));
  for (; e + F32_LANES <= n; e += F32_LANES) max[0] = f(max[0], load_f32(x + e));
  if (e < n) max[1] = f(max[1], load_some_over_f32(x + e, n - e, none));
  return lane(f(f(max[0], max[1]), f(max[2], max[3])));
}
static void reduce_max_f32(const void *x, int64_t outer, int64_t extent, int64_t inner, void *y) {
  if (inner != 1) columns_max_f32(x, outer, extent, inner, y);
  else
    for (int64_t o = 0; o < outer; o++)
      ((float *)y)[o] =
          extreme_f32(larger_f32v, larger_lane, -INFINITY, (const float *)x + o * extent, extent);
}
static void reduce_min_f32(const void *x, int64_t outer, int64_t extent, int64_t inner, void *y) {
  if (inner != 1) columns_min_f32(x, outer, extent, inner, y);
  else
    for (int64_t o = 0; o < outer; o++)
      ((float *)y)[o] =
          extreme_f32(smaller_f32v, smaller_lane, INFINITY, (const float *)x + o * extent, extent);
}

#define INTEGER_REDUCE(s, T, min, max)                     \
  REDUCE(reduce_sum_##s, T, uint64_t, 0, sum)              \
  REDUCE(reduce_prod_##s, T, uint64_t, 1, product)         \
  INLINE T larger_##s(T a, T b) { return b > a ? b : a; }  \
  INLINE T smaller_##s(T a, T b) { return b < a ? b : a; } \
  REDUCE(reduce_max_##s, T, T, min, larger_##s)            \
  REDUCE(reduce_min_##s, T, T, max, smaller_##s)
INTEGER_REDUCE(i8, int8_t, INT8_MIN, INT8_MAX)
INTEGER_REDUCE(u8, uint8_t, 0, UINT8_MAX)
INTEGER_REDUCE(i32, int32_t, INT32_MIN, INT32_MAX)
INTEGER_REDUCE(i64, int64_t, INT64_MIN, INT64_MAX)
REDUCE(reduce_any, uint8_t, uint8_t, 0, any)
REDUCE(reduce_all, uint8_t, uint8_t, 1, all)

void FILL(reduce)(Kernels *k) {
#define ROW(s, D)                              \
  k->reduce[REDUCE_SUM][D] = reduce_sum_##s;   \
  k->reduce[REDUCE_PROD][D] = reduce_prod_##s; \
  k->reduce[REDUCE_MAX][D] = reduce_max_##s;   \
  k->reduce[REDUCE_MIN][D] = reduce_min_##s;
  ROW(f32, F32)
  ROW(f64, F64)
  ROW(i8, I8)
  ROW(u8, U8)
  ROW(i32, I32)
  ROW(i64, I64) k->reduce[REDUCE_ANY][BOOL] = k->reduce[REDUCE_MAX][BOOL] = reduce_any;
  k->reduce[REDUCE_ALL][BOOL] = k->reduce[REDUCE_MIN][BOOL] = reduce_all;
}
