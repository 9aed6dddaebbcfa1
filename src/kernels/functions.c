/* Elementwise kernels around exp, log, tanh, erf, sin …: vectors for float32, the C library for
 * float64 and for the rare ones. */
#include "kernels/fill.h"
#include "kernels/vmath.h"

typedef f32v (*Function1)(f32v x, f32v p0);
typedef f32v (*Function2)(f32v x, f32v y, f32v p0);

INLINE f32v parameter(const double *p) { return splat_f32(p ? (float)p[0] : 0); }

INLINE void map_1(Function1 f, const void *const *in, unsigned single, void *out, int64_t n,
                  const double *p) {
  const float *x = in[0];
  float *y = out;
  f32v p0 = parameter(p);
  int64_t i = 0;
  if (single & 1 && n > 0) {
    f32v v = f(splat_f32(x[0]), p0);
    for (; i + F32_LANES <= n; i += F32_LANES) store_f32(y + i, v);
    store_some_f32(y + i, n - i, v);
    return;
  }
  for (; i + F32_LANES <= n; i += F32_LANES) store_f32(y + i, f(load_f32(x + i), p0));
  if (i < n) store_some_f32(y + i, n - i, f(load_some_f32(x + i, n - i), p0));
}

/* An operand that is one element for all is broadcast first. */
INLINE f32v operand(const float *x, bool single, int64_t i) {
  return single ? splat_f32(x[0]) : load_f32(x + i);
}
INLINE f32v some_operand(const float *x, bool single, int64_t i, int64_t n) {
  return single ? splat_f32(x[0]) : load_some_f32(x + i, n);
}
INLINE void map_2(Function2 f, const void *const *in, unsigned single, void *out, int64_t n,
                  const double *p) {
  const float *a = in[0], *b = in[1];
  float *y = out;
  f32v p0 = parameter(p);
  bool one_a = single & 1, one_b = single & 2;
  int64_t i = 0;
  if (!one_a && !one_b)
    for (; i + F32_LANES <= n; i += F32_LANES)
      store_f32(y + i, f(load_f32(a + i), load_f32(b + i), p0));
  for (; i + F32_LANES <= n; i += F32_LANES)
    store_f32(y + i, f(operand(a, one_a, i), operand(b, one_b, i), p0));
  if (i < n)
    store_some_f32(y + i, n - i,
                   f(some_operand(a, one_a, i, n - i), some_operand(b, one_b, i, n - i), p0));
}

INLINE void map_1_f64(double (*f)(double, double), const void *const *in, unsigned single,
                      void *out, int64_t n, const double *p) {
  const double *x = in[0];
  double *y = out, p0 = p ? p[0] : 0;
  int64_t step = single & 1 ? 0 : 1;
  for (int64_t i = 0; i < n; i++) y[i] = f(x[i * step], p0);
}
INLINE void map_2_f64(double (*f)(double, double, double), const void *const *in, unsigned single,
                      void *out, int64_t n, const double *p) {
  const double *a = in[0], *b = in[1];
  double *y = out, p0 = p ? p[0] : 0;
  int64_t step_a = single & 1 ? 0 : 1, step_b = single & 2 ? 0 : 1;
  for (int64_t i = 0; i < n; i++) y[i] = f(a[i * step_a], b[i * step_b], p0);
}
INLINE void each_1(float (*f)(float), const void *const *in, unsigned single, void *out,
                   int64_t n) {
  const float *x = in[0];
  float *y = out;
  int64_t step = single & 1 ? 0 : 1;
  for (int64_t i = 0; i < n; i++) y[i] = f(x[i * step]);
}
INLINE void each_2(float (*f)(float, float), const void *const *in, unsigned single, void *out,
                   int64_t n) {
  const float *a = in[0], *b = in[1];
  float *y = out;
  int64_t step_a = single & 1 ? 0 : 1, step_b = single & 2 ? 0 : 1;
  for (int64_t i = 0; i < n; i++) y[i] = f(a[i * step_a], b[i * step_b]);
}

/* The constants of SELU (Klambauer et al., "Self-normalizing neural networks", 2017). */
#define SELU_SCALE 1.0507009873554804934193349852946
#define SELU_ALPHA 1.6732632423543772848170429916717
#define SQRT_HALF 0.70710678118654752440
#define SQRT_2_OVER_PI 0.79788456080286535588
#define INVERSE_SQRT_2PI 0.39894228040143267794
#define GELU_CUBIC 0.044715

INLINE f32v zero(void) { return (f32v){0}; }
INLINE f32v softplus_f32v(f32v x) { return max_f32(zero(), x) + log1p_f32v(exp_f32v(-abs_f32(x))); }
INLINE f32v gelu_tanh_inner(f32v x) {
  return (float)SQRT_2_OVER_PI * (x + (float)GELU_CUBIC * (x * x * x));
}
INLINE f32v gelu_grad_f32v(f32v dy, f32v x) {
  f32v cumulative = 0.5f * (1 + erf_f32v(x * (float)SQRT_HALF));
  f32v density = (float)INVERSE_SQRT_2PI * exp_f32v(-0.5f * (x * x));
  f32v slope = select_equal_f32(density, zero(), zero(), x * density); /* no 0 * infinity */
  return dy * (cumulative + slope);
}
/* 0.5 (1 + tanh u) = 1 / (1 + exp(-2 u)), without the cancellation far left. */
INLINE f32v gelu_tanh_f32v(f32v x) { return x / (exp_f32v(-2 * gelu_tanh_inner(x)) + 1); }
INLINE f32v gelu_tanh_grad_f32v(f32v dy, f32v x) {
  f32v s = 1 / (exp_f32v(-2 * gelu_tanh_inner(x)) + 1);
  f32v inner = (float)SQRT_2_OVER_PI * (1 + 3 * (float)GELU_CUBIC * (x * x));
  f32v bend = s * (1 - s);
  f32v slope = select_equal_f32(bend, zero(), zero(), 2 * x * bend * inner);
  return dy * (s + slope);
}
INLINE f32v swish_f32v(f32v x) { return x * sigmoid_f32v(x); }
INLINE f32v swish_grad_f32v(f32v dy, f32v x) {
  f32v s = sigmoid_f32v(x);
  return dy * (s + x * s * (1 - s));
}

static double sigmoid_f64(double x) {
  double e = exp(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
static double softplus_f64(double x) { return (x < 0 ? 0 : x) + log1p(exp(-fabs(x))); }
static double gelu_tanh_inner_f64(double x) {
  return SQRT_2_OVER_PI * (x + GELU_CUBIC * (x * x * x));
}
static double gelu_grad_f64(double dy, double x) {
  double density = INVERSE_SQRT_2PI * exp(-0.5 * (x * x));
  return dy * (0.5 * (1 + erf(x * SQRT_HALF)) + (density == 0 ? 0 : x * density));
}
static double gelu_tanh_grad_f64(double dy, double x) {
  double t = tanh(gelu_tanh_inner_f64(x)), bend = 1 - t * t;
  double inner = SQRT_2_OVER_PI * (1 + 3 * GELU_CUBIC * (x * x));
  return dy * (0.5 * (1 + t) + (bend == 0 ? 0 : 0.5 * x * bend * inner));
}
static double swish_grad_f64(double dy, double x) {
  double s = sigmoid_f64(x);
  return dy * (s + x * s * (1 - s));
}

/* Kernel, float32 vectors, float64. */
/* clang-format off */
#define FUNCTIONS_1(X)                                                                                      \
  X(EXP, exp_f32v(x), exp(x))                                                                               \
  X(EXPM1, expm1_f32v(x), expm1(x))                                                                         \
  X(LOG, log_f32v(x), log(x))                                                                               \
  X(LOG1P, log1p_f32v(x), log1p(x))                                                                         \
  X(SIN, sin_f32v(x), sin(x))                                                                               \
  X(COS, cos_f32v(x), cos(x))                                                                               \
  X(TAN, tan_f32v(x), tan(x))                                                                               \
  X(TANH, tanh_f32v(x), tanh(x))                                                                            \
  X(SIGMOID, sigmoid_f32v(x), sigmoid_f64(x))                                                               \
  X(ERF, erf_f32v(x), erf(x))                                                                               \
  X(ELU, select_less_f32(zero(), x, x, p0 * expm1_f32v(x)), x > 0 ? x : p0 * expm1(x))                      \
  X(SELU, (float)SELU_SCALE * select_less_f32(zero(), x, x, (float)SELU_ALPHA * expm1_f32v(x)),             \
    SELU_SCALE * (x > 0 ? x : SELU_ALPHA * expm1(x)))                                                       \
  X(SOFTPLUS, softplus_f32v(x), softplus_f64(x))                                                            \
  X(SWISH, swish_f32v(x), x * sigmoid_f64(x))                                                               \
  X(GELU, 0.5f * x * (1 + erf_f32v(x * (float)SQRT_HALF)), 0.5 * x * (1 + erf(x * SQRT_HALF)))              \
  X(GELU_TANH, gelu_tanh_f32v(x), 0.5 * x * (1 + tanh(gelu_tanh_inner_f64(x))))
#define FUNCTIONS_2(X)                                                                                      \
  X(SOFTPLUS_GRAD, x * sigmoid_f32v(y), x * sigmoid_f64(y))                                                 \
  X(SWISH_GRAD, swish_grad_f32v(x, y), swish_grad_f64(x, y))                                                \
  X(GELU_GRAD, gelu_grad_f32v(x, y), gelu_grad_f64(x, y))                                                   \
  X(GELU_TANH_GRAD, gelu_tanh_grad_f32v(x, y), gelu_tanh_grad_f64(x, y))
/* clang-format on */
/* Kernel and the C library's function. */
#define LIBRARY_1(X) X(ASIN, asin) X(ACOS, acos) X(ATAN, atan) X(SINH, sinh) X(COSH, cosh)
#define LIBRARY_2(X) X(POW, pow) X(ATAN2, atan2)

#define STRIP(name) \
  static void name(const void *const *in, unsigned single, void *out, int64_t n, const double *p)
#define X(id, vector, scalar)                                                 \
  INLINE f32v at_f32_##id(f32v x, f32v p0) { return (void)p0, vector; }       \
  INLINE double at_f64_##id(double x, double p0) { return (void)p0, scalar; } \
  STRIP(f32_##id) { map_1(at_f32_##id, in, single, out, n, p); }              \
  STRIP(f64_##id) { map_1_f64(at_f64_##id, in, single, out, n, p); }
FUNCTIONS_1(X)
#undef X
#define X(id, vector, scalar)                                                           \
  INLINE f32v at_f32_##id(f32v x, f32v y, f32v p0) { return (void)p0, vector; }         \
  INLINE double at_f64_##id(double x, double y, double p0) { return (void)p0, scalar; } \
  STRIP(f32_##id) { map_2(at_f32_##id, in, single, out, n, p); }                        \
  STRIP(f64_##id) { map_2_f64(at_f64_##id, in, single, out, n, p); }
FUNCTIONS_2(X)
#undef X
#define X(id, function)                                                            \
  INLINE double at_f64_##id(double x, double p0) { return (void)p0, function(x); } \
  STRIP(f32_##id) { (void)p, each_1(function##f, in, single, out, n); }            \
  STRIP(f64_##id) { map_1_f64(at_f64_##id, in, single, out, n, p); }
LIBRARY_1(X)
#undef X
#define X(id, function)                                                                         \
  INLINE double at_f64_##id(double x, double y, double p0) { return (void)p0, function(x, y); } \
  STRIP(f32_##id) { (void)p, each_2(function##f, in, single, out, n); }                         \
  STRIP(f64_##id) { map_2_f64(at_f64_##id, in, single, out, n, p); }
LIBRARY_2(X)
#undef X

void FILL(functions)(Kernels *k) {
#define X(id, vector, scalar) k->strip[EW_##id][F32] = f32_##id, k->strip[EW_##id][F64] = f64_##id;
  FUNCTIONS_1(X)
  FUNCTIONS_2(X)
#undef X
#define X(id, function) k->strip[EW_##id][F32] = f32_##id, k->strip[EW_##id][F64] = f64_##id;
  LIBRARY_1(X) LIBRARY_2(X)
#undef X
}
