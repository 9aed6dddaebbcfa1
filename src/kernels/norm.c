/* Layer normalisation along rows of n. Mean and variance in two passes, in the partial sums of
 * rows.h. */
#include "kernels/fill.h"
#include "kernels/rows.h"

#include <math.h>

enum { TOGETHER = 8 }; /* rows */

/* y = (x - mean) inverse gamma + beta */
INLINE f32v normalised(f32v x, f32v mean, f32v inverse, bool with_gamma, f32v gamma, bool with_beta,
                       f32v beta) {
  f32v y = (x - mean) * inverse;
  if (with_gamma) y *= gamma;
  return with_beta ? y + beta : y;
}

INLINE void norm_row_f32(bool with_gamma, bool with_beta, const float *x, const float *gamma,
                         const float *beta, float mean, float inverse, int64_t n, float *y) {
  f32v m = splat_f32(mean), v = splat_f32(inverse), none = {0};
  int64_t e = 0;
  for (; e + F32_LANES <= n; e += F32_LANES)
    store_f32(y + e,
              normalised(load_f32(x + e), m, v, with_gamma, with_gamma ? load_f32(gamma + e) : none,
                         with_beta, with_beta ? load_f32(beta + e) : none));
  int64_t left = n - e;
  if (left)
    store_some_f32(y + e, left,
                   normalised(load_some_f32(x + e, left), m, v, with_gamma,
                              with_gamma ? load_some_f32(gamma + e, left) : none, with_beta,
                              with_beta ? load_some_f32(beta + e, left) : none));
}

/* Several rows go through each pass together: the chain of one row's sum, division and root is
 * long, theirs overlap. */
INLINE void norm_rows_f32(bool with_gamma, bool with_beta, const float *x, const float *gamma,
                          const float *beta, float epsilon, int64_t rows, int64_t n, float *y,
                          float *mean, float *inverse) {
  for (int64_t r = 0; r < rows; r += TOGETHER) {
    int64_t end = rows - r < TOGETHER ? rows : r + TOGETHER;
    for (int64_t i = r; i < end; i++)
      mean[i] = row_sum(term_itself, (Row){.a = x + i * n}, n) / (float)n;
    for (int64_t i = r; i < end; i++) {
      float variance =
          row_sum(term_square, (Row){.a = x + i * n, .s = splat_f32(mean[i])}, n) / (float)n;
      inverse[i] = 1 / sqrtf(variance + epsilon);
    }
    for (int64_t i = r; i < end; i++)
      norm_row_f32(with_gamma, with_beta, x + i * n, gamma, beta, mean[i], inverse[i], n,
                   y + i * n);
  }
}

static void layer_norm_f32(const void *x, const void *gamma, const void *beta, double epsilon,
                           int64_t rows, int64_t n, void *y, void *mean, void *inverse) {
  if (gamma && beta)
    norm_rows_f32(true, true, x, gamma, beta, (float)epsilon, rows, n, y, mean, inverse);
  else norm_rows_f32(gamma, beta, x, gamma, beta, (float)epsilon, rows, n, y, mean, inverse);
}

/* With g = dy gamma and h = (x - mean) inverse: dx = inverse (g - mean of g - h mean of g h). */
INLINE void norm_grad_row_f32(bool with_gamma, const float *dy, const float *x, const float *gamma,
                              float mean, float inverse, float mean_g, float mean_gh, int64_t n,
                              float *dx) {
  INDEPENDENT for (int64_t c = 0; c < n; c++) {
    float g = with_gamma ? dy[c] * gamma[c] : dy[c];
    dx[c] = inverse * (g - mean_g - (x[c] - mean) * inverse * mean_gh);
  }
}
static void layer_norm_grad_f32(const void *dys, const void *xs, const void *gammas,
                                const void *means, const void *inverses, int64_t rows, int64_t n,
                                void *dxs) {
  const float *dy = dys, *x = xs, *gamma = gammas, *mean = means, *inverse = inverses;
  float *dx = dxs, sum[TOGETHER], dot[TOGETHER];
  for (int64_t r = 0; r < rows; r += TOGETHER) {
    int64_t count = rows - r < TOGETHER ? rows - r : TOGETHER, at = r * n;
    for (int64_t i = 0; i < count; i++) {
      Row row = {dy + at + i * n, x + at + i * n, gamma, splat_f32(mean[r + i]),
                 splat_f32(inverse[r + i])};
      Row plain = {.a = row.a, .b = gamma};
      sum[i] =
          (gamma ? row_sum(term_product, plain, n) : row_sum(term_itself, plain, n)) / (float)n;
      dot[i] = (gamma ? row_sum(term_weighted, row, n) : row_sum(term_scaled, row, n)) / (float)n;
    }
    for (int64_t i = 0; i < count; i++, at += n)
      if (gamma)
        norm_grad_row_f32(true, dy + at, x + at, gamma, mean[r + i], inverse[r + i], sum[i], dot[i],
                          n, dx + at);
      else
        norm_grad_row_f32(false, dy + at, x + at, NULL, mean[r + i], inverse[r + i], sum[i], dot[i],
                          n, dx + at);
  }
}

/* dgamma = sum over rows of dy h, dbeta = sum of dy: a strip of columns at a time, blocks of
 * rows added to the total. */
#define NORM_SUMS(s, T)                                                                         \
  static void layer_norm_sums_##s(const void *dys, const void *xs, const void *means,           \
                                  const void *inverses, int64_t rows, int64_t n, void *dgammas, \
                                  void *dbetas) {                                               \
    enum { STRIP = 64, BLOCK = 64 };                                                            \
    const T *mean = means, *inverse = inverses;                                                 \
    T *dgamma = dgammas, *dbeta = dbetas;                                                       \
    for (int64_t c = 0; c < n; c += STRIP) {                                                    \
      int64_t cols = n - c < STRIP ? n - c : STRIP;                                             \
      T total_g[STRIP] = {0}, total_b[STRIP] = {0};                                             \
      for (int64_t block = 0; block < rows; block += BLOCK) {                                   \
        T sum_g[STRIP] = {0}, sum_b[STRIP] = {0};                                               \
        int64_t end = rows - block < BLOCK ? rows : block + BLOCK;                              \
        for (int64_t r = block; r < end; r++) {                                                 \
          const T *dy = (const T *)dys + r * n + c, *x = (const T *)xs + r * n + c;             \
          T m = mean[r], v = inverse[r];                                                        \
          for (int64_t l = 0; l < cols; l++) {                                                  \
            sum_g[l] += dy[l] * ((x[l] - m) * v);                                               \
            sum_b[l] += dy[l];                                                                  \
          }                                                                                     \
        }                                                                                       \
        for (int l = 0; l < STRIP; l++) total_g[l] += sum_g[l], total_b[l] += sum_b[l];         \
      }                                                                                         \
      memcpy(dgamma + c, total_g, (size_t)cols * sizeof(T));                                    \
      memcpy(dbeta + c, total_b, (size_t)cols * sizeof(T));                                     \
    }                                                                                           \
  }
NORM_SUMS(f32, float)
NORM_SUMS(f64, double)

static double fold_f64(double sum[SUMS]) {
  for (int half = SUMS / 2; half > 0; half /= 2)
    for (int l = 0; l < half; l++) sum[l] += sum[l + half];
  return sum[0];
}

static void layer_norm_f64(const void *xs, const void *gammas, const void *betas, double epsilon,
                           int64_t rows, int64_t n, void *ys, void *means, void *inverses) {
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

static void layer_norm_grad_f64(const void *dys, const void *xs, const void *gammas,
                                const void *means, const void *inverses, int64_t rows, int64_t n,
                                void *dxs) {
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
