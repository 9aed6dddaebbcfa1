/* Layer normalisation along rows of n. Mean and variance in two passes, each in SUMS partial sums. */
#include "kernels/fill.h"
#include "kernels/simd.h"

#include <math.h>

INLINE int64_t part_size(int64_t e, int i, int64_t n) {
  int64_t left = n - e - i * F32_LANES;
  return left < 0 ? 0 : left > F32_LANES ? F32_LANES : left;
}

INLINE float row_sum_f32(const float *x, int64_t n) {
  f32v sum[F32_PARTS];
  int64_t e = 0;
  UNROLL for (int i = 0; i < F32_PARTS; i++) sum[i] = (f32v){0};
  for (; e + SUMS <= n; e += SUMS)
    UNROLL for (int i = 0; i < F32_PARTS; i++) sum[i] += load_f32(x + e + i * F32_LANES);
  if (e < n)
    UNROLL for (int i = 0; i < F32_PARTS; i++) sum[i] += load_some_f32(x + e + i * F32_LANES, part_size(e, i, n));
  return fold_sum_f32(sum);
}

/* sum (x - mean)^2 */
INLINE float row_squares_f32(const float *x, int64_t n, float mean) {
  f32v sum[F32_PARTS], middle = splat_f32(mean);
  int64_t e = 0;
  UNROLL for (int i = 0; i < F32_PARTS; i++) sum[i] = (f32v){0};
  for (; e + SUMS <= n; e += SUMS)
    UNROLL for (int i = 0; i < F32_PARTS; i++) {
      f32v d = load_f32(x + e + i * F32_LANES) - middle;
      sum[i] += d * d;
    }
  for (int i = 0; e < n && i < F32_PARTS; i++) {
    int64_t size = part_size(e, i, n);
    float kept[F32_LANES] = {0};
    store_some_f32(kept, size, load_some_f32(x + e + i * F32_LANES, size) - middle);
    sum[i] += load_f32(kept) * load_f32(kept);
  }
  return fold_sum_f32(sum);
}

static void layer_norm_f32(const void *xs, const void *gammas, const void *betas, double epsilon, int64_t rows, int64_t n,
                           void *ys, void *means, void *inverses) {
  const float *gamma = gammas, *beta = betas;
  for (int64_t r = 0; r < rows; r++) {
    const float *x = (const float *)xs + r * n;
    float *y = (float *)ys + r * n;
    float mean = row_sum_f32(x, n) / (float)n;
    float inverse = 1 / sqrtf(row_squares_f32(x, n, mean) / (float)n + (float)epsilon);
    ((float *)means)[r] = mean;
    ((float *)inverses)[r] = inverse;
    if (gamma && beta)
      INDEPENDENT for (int64_t e = 0; e < n; e++) y[e] = (x[e] - mean) * inverse * gamma[e] + beta[e];
    else if (gamma)
      INDEPENDENT for (int64_t e = 0; e < n; e++) y[e] = (x[e] - mean) * inverse * gamma[e];
    else if (beta)
      INDEPENDENT for (int64_t e = 0; e < n; e++) y[e] = (x[e] - mean) * inverse + beta[e];
    else
      INDEPENDENT for (int64_t e = 0; e < n; e++) y[e] = (x[e] - mean) * inverse;
  }
}

/* With g = dy gamma and h = (x - mean) inverse: dx = inverse (g - mean of g - h mean of g h). */
static void layer_norm_grad_f32(const void *dys, const void *xs, const void *gammas, const void *means, const void *inverses,
                                int64_t rows, int64_t n, void *dxs) {
  const float *gamma = gammas;
  for (int64_t r = 0; r < rows; r++) {
    const float *dy = (const float *)dys + r * n, *x = (const float *)xs + r * n;
    float *dx = (float *)dxs + r * n;
    float mean = ((const float *)means)[r], inverse = ((const float *)inverses)[r];
    f32v middle = splat_f32(mean), scale = splat_f32(inverse), sum[F32_PARTS], dot[F32_PARTS];
    UNROLL for (int i = 0; i < F32_PARTS; i++) sum[i] = dot[i] = (f32v){0};
    int64_t e = 0;
    for (; e + SUMS <= n; e += SUMS)
      UNROLL for (int i = 0; i < F32_PARTS; i++) {
        int64_t at = e + i * F32_LANES;
        f32v g = gamma ? load_f32(dy + at) * load_f32(gamma + at) : load_f32(dy + at);
        sum[i] += g;
        dot[i] += g * ((load_f32(x + at) - middle) * scale);
      }
    for (int i = 0; e < n && i < F32_PARTS; i++) {
      int64_t at = e + i * F32_LANES, size = part_size(e, i, n);
      f32v g = load_some_f32(dy + at, size); /* zero beyond the row */
      if (gamma) g *= load_some_f32(gamma + at, size);
      sum[i] += g;
      dot[i] += g * ((load_some_f32(x + at, size) - middle) * scale);
    }
    float mean_g = fold_sum_f32(sum) / (float)n, mean_gh = fold_sum_f32(dot) / (float)n;
    if (gamma)
      INDEPENDENT for (int64_t c = 0; c < n; c++)
        dx[c] = inverse * (dy[c] * gamma[c] - mean_g - (x[c] - mean) * inverse * mean_gh);
    else
      INDEPENDENT for (int64_t c = 0; c < n; c++) dx[c] = inverse * (dy[c] - mean_g - (x[c] - mean) * inverse * mean_gh);
  }
}

/* dgamma = sum over rows of dy h, dbeta = sum of dy: a strip of columns at a time, blocks of rows added to the total. */
#define NORM_SUMS(s, T)                                                                                            \
  static void layer_norm_sums_##s(const void *dys, const void *xs, const void *means, const void *inverses,        \
                                  int64_t rows, int64_t n, void *dgammas, void *dbetas) {                          \
    enum { STRIP = 64, BLOCK = 64 };                                                                               \
    const T *mean = means, *inverse = inverses;                                                                    \
    T *dgamma = dgammas, *dbeta = dbetas;                                                                          \
    for (int64_t c = 0; c < n; c += STRIP) {                                                                       \
      int64_t cols = n - c < STRIP ? n - c : STRIP;                                                                \
      T total_g[STRIP] = {0}, total_b[STRIP] = {0};                                                                \
      for (int64_t block = 0; block < rows; block += BLOCK) {                                                      \
        T sum_g[STRIP] = {0}, sum_b[STRIP] = {0};                                                                  \
        int64_t end = rows - block < BLOCK ? rows : block + BLOCK;                                                 \
        for (int64_t r = block; r < end; r++) {                                                                    \
          const T *dy = (const T *)dys + r * n + c, *x = (const T *)xs + r * n + c;                                \
          T m = mean[r], v = inverse[r];                                                                           \
          for (int64_t l = 0; l < cols; l++) {                                                                     \
            sum_g[l] += dy[l] * ((x[l] - m) * v);                                                                  \
            sum_b[l] += dy[l];                                                                                     \
          }                                                                                                        \
        }                                                                                                          \
        for (int l = 0; l < STRIP; l++) total_g[l] += sum_g[l], total_b[l] += sum_b[l];                            \
      }                                                                                                            \
      if (dgamma) memcpy(dgamma + c, total_g, (size_t)cols * sizeof(T));                                           \
      if (dbeta) memcpy(dbeta + c, total_b, (size_t)cols * sizeof(T));                                             \
    }                                                                                                              \
  }
NORM_SUMS(f32, float)
NORM_SUMS(f64, double)

static double fold_f64(double sum[SUMS]) {
  for (int half = SUMS / 2; half > 0; half /= 2)
    for (int l = 0; l < half; l++) sum[l] += sum[l + half];
  return sum[0];
}

static void layer_norm_f64(const void *xs, const void *gammas, const void *betas, double epsilon, int64_t rows, int64_t n,
                           void *ys, void *means, void *inverses) {
  const double *gamma = gammas, *beta = betas;
  for (int64_t r = 0; r < rows; r++) {
    const double *x = (const double *)xs + r * n;
    double *y = (double *)ys + r * n, sum[SUMS] = {0}, squares[SUMS] = {0};
    for (int64_t e = 0; e < n; e++) sum[e % SUMS] += x[e];
    double mean = fold_f64(sum) / (double)n;
    for (int64_t e = 0; e < n; e++) squares[e % SUMS] += (x[e] - mean) * (x[e] - mean);
    double inverse = 1 / sqrt(fold_f64(squares) / (double)n + epsilon);
    ((double *)means)[r] = mean;
    ((double *)inverses)[r] = inverse;
    for (int64_t e = 0; e < n; e++) {
      double v = (x[e] - mean) * inverse;
      if (gamma) v *= gamma[e];
      y[e] = beta ? v + beta[e] : v;
    }
  }
}

static void layer_norm_grad_f64(const void *dys, const void *xs, const void *gammas, const void *means, const void *inverses,
                                int64_t rows, int64_t n, void *dxs) {
  const double *gamma = gammas;
  for (int64_t r = 0; r < rows; r++) {
    const double *dy = (const double *)dys + r * n, *x = (const double *)xs + r * n;
    double *dx = (double *)dxs + r * n, sum[SUMS] = {0}, dot[SUMS] = {0};
    double mean = ((const double *)means)[r], inverse = ((const double *)inverses)[r];
    for (int64_t e = 0; e < n; e++) {
      double g = gamma ? dy[e] * gamma[e] : dy[e];
      sum[e % SUMS] += g;
      dot[e % SUMS] += g * ((x[e] - mean) * inverse);
    }
    double mean_g = fold_f64(sum) / (double)n, mean_gh = fold_f64(dot) / (double)n;
    for (int64_t e = 0; e < n; e++) {
      double g = gamma ? dy[e] * gamma[e] : dy[e];
      dx[e] = inverse * (g - mean_g - (x[e] - mean) * inverse * mean_gh);
    }
  }
}

void FILL(norm)(Kernels *k) {
  k->layer_norm[F32] = layer_norm_f32, k->layer_norm[F64] = layer_norm_f64;
  k->layer_norm_grad[F32] = layer_norm_grad_f32, k->layer_norm_grad[F64] = layer_norm_grad_f64;
  k->layer_norm_sums[F32] = layer_norm_sums_f32, k->layer_norm_sums[F64] = layer_norm_sums_f64;
}
