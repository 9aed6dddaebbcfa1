/* Softmax and its kin along rows of n. Each row's maximum is subtracted first; sums go through
 * SUMS partial sums. */
#include "kernels/fill.h"
#include "kernels/rows.h"
#include "kernels/vmath.h"

#include <math.h>

/* Vectors of a row, SUMS elements at a time: `left` elements from e on belong to part i. */
INLINE int64_t part_size(int64_t e, int i, int64_t n) {
  int64_t left = n - e - i * F32_LANES;
  return left < 0 ? 0 : left > F32_LANES ? F32_LANES : left;
}

INLINE float row_max_f32(const float *x, int64_t n) {
  f32v max[4];
  f32v min = splat_f32(-INFINITY);
  int64_t e = 0;
  UNROLL for (int g = 0; g < 4; g++) max[g] = min;
  for (; e + 4 * F32_LANES <= n; e += 4 * F32_LANES)
    UNROLL for (int g = 0; g < 4; g++) max[g] = max_f32(load_f32(x + e + g * F32_LANES), max[g]);
  for (; e + F32_LANES <= n; e += F32_LANES) max[0] = max_f32(load_f32(x + e), max[0]);
  if (e < n) max[1] = max_f32(load_some_over_f32(x + e, n - e, min), max[1]);
  return lanes_max_f32(max_f32(max_f32(max[0], max[1]), max_f32(max[2], max[3])));
}

/* y = exp(x - max) if y isn't NULL. Returns the sum. */
INLINE float row_exp_sum_f32(const float *x, int64_t n, float max, float *y) {
  f32v sum[F32_PARTS];
  f32v shift = splat_f32(max);
  int64_t e = 0;
  UNROLL for (int i = 0; i < F32_PARTS; i++) sum[i] = (f32v){0};
  for (; e + SUMS <= n; e += SUMS) UNROLL for (int i = 0; i < F32_PARTS; i++) {
      f32v v = exp_f32v(load_f32(x + e + i * F32_LANES) - shift);
      if (y) store_f32(y + e + i * F32_LANES, v);
      sum[i] += v;
    }
  if (e < n)
    for (int i = 0; i < F32_PARTS; i++) {
      int64_t size = part_size(e, i, n);
      if (!size) break;
      f32v v = exp_f32v(load_some_f32(x + e + i * F32_LANES, size) - shift);
      if (y) store_some_f32(y + e + i * F32_LANES, size, v);
      sum[i] += keep_some_f32(v, size);
    }
  return fold_sum_f32(sum);
}

/* Several rows go through each pass together: the chains of their folds overlap. */
enum { TOGETHER = 4 };
static void softmax_f32(const void *from, int64_t rows, int64_t n, void *to) {
  float max[TOGETHER], scale[TOGETHER];
  for (int64_t r = 0; r < rows; r += TOGETHER) {
    const float *x = (const float *)from + r * n;
    float *y = (float *)to + r * n;
    int64_t count = rows - r < TOGETHER ? rows - r : TOGETHER;
    for (int64_t i = 0; i < count; i++) max[i] = row_max_f32(x + i * n, n);
    for (int64_t i = 0; i < count; i++)
      scale[i] = 1 / row_exp_sum_f32(x + i * n, n, max[i], y + i * n);
    for (int64_t i = 0; i < count; i++) {
      float s = scale[i];
      INDEPENDENT for (int64_t e = i * n; e < (i + 1) * n; e++) y[e] *= s;
    }
  }
}

static void log_softmax_f32(const void *from, int64_t rows, int64_t n, void *to) {
  for (int64_t r = 0; r < rows; r++) {
    const float *x = (const float *)from + r * n;
    float *y = (float *)to + r * n;
    float max = row_max_f32(x, n), log_sum = logf(row_exp_sum_f32(x, n, max, NULL));
    INDEPENDENT for (int64_t e = 0; e < n; e++) y[e] = x[e] - max - log_sum;
  }
}

static void softmax_grad_f32(const void *dys, const void *ys, int64_t rows, int64_t n, void *dxs) {
  for (int64_t r = 0; r < rows; r++) {
    const float *dy = (const float *)dys + r * n, *y = (const float *)ys + r * n;
    float *dx = (float *)dxs + r * n;
    float dot = row_sum(term_product, (Row){.a = dy, .b = y}, n);
    INDEPENDENT for (int64_t e = 0; e < n; e++) dx[e] = y[e] * (dy[e] - dot);
  }
}

static void log_softmax_grad_f32(const void *dys, const void *ys, int64_t rows, int64_t n,
                                 void *dxs) {
  for (int64_t r = 0; r < rows; r++) {
    const float *dy = (const float *)dys + r * n, *y = (const float *)ys + r * n;
    float *dx = (float *)dxs + r * n;
    f32v total = splat_f32(row_sum(term_itself, (Row){.a = dy}, n));
    int64_t e = 0;
    for (; e + F32_LANES <= n; e += F32_LANES)
      store_f32(dx + e, load_f32(dy + e) - exp_f32v(load_f32(y + e)) * total);
    if (e < n)
      store_some_f32(dx + e, n - e,
                     load_some_f32(dy + e, n - e) - exp_f32v(load_some_f32(y + e, n - e)) * total);
  }
}

static void sparse_xent_f32(const void *logits, const int32_t *labels, int64_t rows, int64_t n,
                            void *losses, void *slopes) {
  for (int64_t r = 0; r < rows; r++) {
    const float *x = (const float *)logits + r * n;
    float *loss = (float *)losses + r, *slope = slopes ? (float *)slopes + r * n : NULL;
    bool valid = labels[r] >= 0 && labels[r] < n;
    float max = row_max_f32(x, n), picked = valid ? x[labels[r]] : NAN;
    float total = row_exp_sum_f32(x, n, max, slope);
    *loss = logf(total) - (picked - max);
    if (!slope) continue;
    float scale = valid ? 1 / total : NAN;
    INDEPENDENT for (int64_t e = 0; e < n; e++) slope[e] *= scale;
    if (valid) slope[labels[r]] -= 1;
  }
}

/* float64: the same with the C library's functions. */
static double row_max_f64(const double *x, int64_t n) {
  double max = -(double)INFINITY;
  for (int64_t e = 0; e < n; e++) max = x[e] > max ? x[e] : max;
  return max;
}

static double row_exp_sum_f64(const double *x, int64_t n, double max, double *y) {
  double sum[SUMS] = {0};
  for (int64_t e = 0; e < n; e++) {
    double v = exp(x[e] - max);
    if (y) y[e] = v;
    sum[e % SUMS] += v;
  }
  for (int half = SUMS / 2; half > 0; half /= 2)
    for (int l = 0; l < half; l++) sum[l] += sum[l + half];
  return sum[0];
}

static void softmax_f64(const void *from, int64_t rows, int64_t n, void *to) {
  for (int64_t r = 0; r < rows; r++) {
    const double *x = (const double *)from + r * n;
    double *y = (double *)to + r * n;
    double scale = 1 / row_exp_sum_f64(x, n, row_max_f64(x, n), y);
    for (int64_t e = 0; e < n; e++) y[e] *= scale;
  }
}

static void log_softmax_f64(const void *from, int64_t rows, int64_t n, void *to) {
  for (int64_t r = 0; r < rows; r++) {
    const double *x = (const double *)from + r * n;
    double *y = (double *)to + r * n;
    double max = row_max_f64(x, n), log_sum = log(row_exp_sum_f64(x, n, max, NULL));
    for (int64_t e = 0; e < n; e++) y[e] = x[e] - max - log_sum;
  }
}

static double row_dot_f64(const double *a, const double *b, int64_t n) {
  double sum[SUMS] = {0};
  for (int64_t e = 0; e < n; e++) sum[e % SUMS] += b ? a[e] * b[e] : a[e];
  for (int half = SUMS / 2; half > 0; half /= 2)
    for (int l = 0; l < half; l++) sum[l] += sum[l + half];
  return sum[0];
}

static void softmax_grad_f64(const void *dys, const void *ys, int64_t rows, int64_t n, void *dxs) {
  for (int64_t r = 0; r < rows; r++) {
    const double *dy = (const double *)dys + r * n, *y = (const double *)ys + r * n;
    double *dx = (double *)dxs + r * n, dot = row_dot_f64(dy, y, n);
    for (int64_t e = 0; e < n; e++) dx[e] = y[e] * (dy[e] - dot);
  }
}

static void log_softmax_grad_f64(const void *dys, const void *ys, int64_t rows, int64_t n,
                                 void *dxs) {
  for (int64_t r = 0; r < rows; r++) {
    const double *dy = (const double *)dys + r * n, *y = (const double *)ys + r * n;
    double *dx = (double *)dxs + r * n, total = row_dot_f64(dy, NULL, n);
    for (int64_t e = 0; e < n; e++) dx[e] = dy[e] - exp(y[e]) * total;
  }
}

static void sparse_xent_f64(const void *logits, const int32_t *labels, int64_t rows, int64_t n,
                            void *losses, void *slopes) {
  for (int64_t r = 0; r < rows; r++) {
    const double *x = (const double *)logits + r * n;
    double *loss = (double *)losses + r, *slope = slopes ? (double *)slopes + r * n : NULL;
    bool valid = labels[r] >= 0 && labels[r] < n;
    double max = row_max_f64(x, n), picked = valid ? x[labels[r]] : (double)NAN;
    double total = row_exp_sum_f64(x, n, max, slope);
    *loss = log(total) - (picked - max);
    if (!slope) continue;
    double scale = valid ? 1 / total : (double)NAN;
    for (int64_t e = 0; e < n; e++) slope[e] *= scale;
    if (valid) slope[labels[r]] -= 1;
  }
}

void FILL(softmax)(Kernels *k) {
  k->softmax[F32] = softmax_f32, k->softmax[F64] = softmax_f64;
  k->log_softmax[F32] = log_softmax_f32, k->log_softmax[F64] = log_softmax_f64;
  k->softmax_grad[F32] = softmax_grad_f32, k->softmax_grad[F64] = softmax_grad_f64;
  k->log_softmax_grad[F32] = log_softmax_grad_f32, k->log_softmax_grad[F64] = log_softmax_grad_f64;
  k->sparse_xent[F32] = sparse_xent_f32, k->sparse_xent[F64] = sparse_xent_f64;
}
