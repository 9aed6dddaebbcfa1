/* Every kernel on every instruction set of this CPU against a naive twin. Prints what fails;
 * exit status 1 then. usage: kernels_check [-v] (-v: the largest error of each elementwise
 * kernel) */
#include "instruction_sets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/products.h"

static const Kernels *kernels;
static bool verbose;
static int failures;
static int passed, failed; /* cases */
static uint64_t state = 1;

static void complain(const char *what, const char *format, double got, double want, int64_t index) {
  if (failures++ < 60) {
    printf("%s: %s: ", kernels->name, what);
    printf(format, got, want, (long long)index);
    printf("\n");
  }
}
#define COMPLAIN(what, got, want, index) \
  complain(what, "got %.9g, wanted %.9g at %lld", got, want, index)

/* The end of a case. */
static void finish(void) {
  static int before;
  if (failures > before) failed++;
  else passed++;
  before = failures;
}

static uint64_t bits64(void) {
  state += 0x9e3779b97f4a7c15u;
  uint64_t z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
static double uniform(void) { return (double)(bits64() >> 11) * 0x1p-53; }

static double real_get(Dtype d, const void *data, int64_t i) {
  switch (d) {
    case F32:
      return (double)((const float *)data)[i];
    case F64:
      return ((const double *)data)[i];
    default:
      return 0;
  }
}
static int64_t integer_get(Dtype d, const void *data, int64_t i) {
  switch (d) {
    case I8:
      return ((const int8_t *)data)[i];
    case U8:
    case BOOL:
      return ((const uint8_t *)data)[i];
    case I32:
      return ((const int32_t *)data)[i];
    case I64:
      return ((const int64_t *)data)[i];
    default:
      return 0;
  }
}
static size_t bytes_of(Dtype d) {
  return d == F64 || d == I64 ? 8 : d == F32 || d == I32 ? 4 : d == F16 || d == BF16 ? 2 : 1;
}
static bool is_real(Dtype d) { return d == F32 || d == F64; }
static const char *const dtype_names[] = {"f32", "f64", "f16", "bf16", "i8",
                                          "u8",  "i32", "i64", "bool"};

static void real_set(Dtype d, void *data, int64_t i, double v) {
  if (d == F32) ((float *)data)[i] = (float)v;
  else ((double *)data)[i] = v;
}

static const double specials[] = {0.0,   -0.0,   1,     -1,   0.5,   -0.5, 2,     6,    -6,
                                  3.5,   2.5,    -2.5,  88.8, -88.8, 104,  -104,  90,   -90,
                                  1e-30, -1e-30, 1e-40, 3e38, -3e38, 1e10, -1e10, 1e-8, -1e-8,
                                  8192,  8193,   20,    -20,  4,     -4,   3.95,  128,  -128};

static void fill_real(Dtype d, void *data, int64_t n, bool wild) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t pick = bits64() % 16;
    double v = (uniform() - 0.5) * (pick < 4     ? 1
                                    : pick < 8   ? 8
                                    : pick < 12  ? 40
                                    : pick == 12 ? 1e-3
                                    : pick == 13 ? 1e4
                                                 : 2);
    if (wild && pick == 14) v = specials[bits64() % (sizeof specials / sizeof *specials)];
    if (wild && pick == 15) {
      uint64_t what = bits64() % 4;
      v = what == 0   ? (double)NAN
          : what == 1 ? (double)INFINITY
          : what == 2 ? -(double)INFINITY
                      : v;
    }
    real_set(d, data, i, v);
  }
}
static void fill_integer(Dtype d, void *data, int64_t n) {
  unsigned char *p = data;
  size_t size = bytes_of(d);
  for (int64_t i = 0; i < n; i++) {
    uint64_t r = bits64();
    int64_t v = (int64_t)r;
    if (r % 4 == 0) v = (int64_t)(r >> 8 & 15) - 7;
    if (r % 16 == 1) v = d == I8 ? INT8_MIN : d == I32 ? INT32_MIN : INT64_MIN;
    if (r % 16 == 2) v = -1;
    if (r % 16 == 3) v = 0;
    if (d == BOOL) v &= 1;
    memcpy(p + (size_t)i * size, &v, size); /* low bytes first */
  }
}
static void fill_any(Dtype d, void *data, int64_t n, bool wild) {
  if (is_real(d)) fill_real(d, data, n, wild);
  else fill_integer(d, data, n);
}

static double twin_sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }

/* The twins of the elementwise kernels, in double; a result from float operands is rounded by
 * the caller. */
static double twin_real(Elementwise id, double a, double b, const double *p) {
  const double scale = 1.0507009873554805, alpha = 1.6732632423543772, h = 0.70710678118654752440;
  const double tanh_inner_a = 0.79788456080286535588 * (a + 0.044715 * a * a * a);
  double s = twin_sigmoid(b), t;
  switch (id) {
    case EW_IDENTITY:
      return a;
    case EW_ABS:
      return fabs(a);
    case EW_NEG:
      return -a;
    case EW_SIGN:
      return a > 0 ? 1 : a < 0 ? -1 : a;
    case EW_CEIL:
      return ceil(a);
    case EW_FLOOR:
      return floor(a);
    case EW_ROUND:
      return nearbyint(a);
    case EW_EXP:
      return exp(a);
    case EW_EXPM1:
      return expm1(a);
    case EW_LOG:
      return log(a);
    case EW_LOG1P:
      return log1p(a);
    case EW_SQRT:
      return sqrt(a);
    case EW_RSQRT:
      return 1 / sqrt(a);
    case EW_SQUARE:
      return a * a;
    case EW_RECIPROCAL:
      return 1 / a;
    case EW_SIN:
      return sin(a);
    case EW_COS:
      return cos(a);
    case EW_TAN:
      return tan(a);
    case EW_ASIN:
      return asin(a);
    case EW_ACOS:
      return acos(a);
    case EW_ATAN:
      return atan(a);
    case EW_SINH:
      return sinh(a);
    case EW_COSH:
      return cosh(a);
    case EW_TANH:
      return tanh(a);
    case EW_SIGMOID:
      return twin_sigmoid(a);
    case EW_ERF:
      return erf(a);
    case EW_RELU:
      return a != a ? a : a > 0 ? a : 0;
    case EW_RELU6:
      return a != a ? a : a > 6 ? 6 : a > 0 ? a : 0;
    case EW_LEAKY_RELU:
      return a >= 0 ? a : p[0] * a;
    case EW_ELU:
      return a > 0 ? a : p[0] * expm1(a);
    case EW_SELU:
      return a > 0 ? scale * a : scale * alpha * expm1(a);
    case EW_SOFTPLUS:
      return (a < 0 ? 0 : a) + log1p(exp(-fabs(a)));
    case EW_SOFTSIGN:
      return a / (1 + fabs(a));
    case EW_SWISH:
      return a == -(double)INFINITY ? (double)NAN : a * twin_sigmoid(a);
    case EW_GELU:
      return 0.5 * a * (1 + erf(a * h));
    case EW_GELU_TANH:
      return 0.5 * a * (1 + tanh(tanh_inner_a));
    case EW_HARD_SIGMOID:
      t = 0.2 * a + 0.5;
      return t < 0 ? 0 : t > 1 ? 1 : t;
    case EW_CLIP:
      return a < p[0] ? p[0] : a > p[1] ? p[1] : a;
    case EW_IS_NAN:
      return a != a;
    case EW_IS_INF:
      return fabs(a) == (double)INFINITY;
    case EW_IS_FINITE:
      return fabs(a) < (double)INFINITY;
    case EW_ADD:
      return a + b;
    case EW_SUB:
      return a - b;
    case EW_MUL:
      return a * b;
    case EW_DIV:
      return a / b;
    case EW_POW:
      return pow(a, b);
    case EW_MAXIMUM:
      return a != a ? a : b != b ? b : a > b ? a : b;
    case EW_MINIMUM:
      return a != a ? a : b != b ? b : a < b ? a : b;
    case EW_MOD:
      t = fmod(a, b);
      return t != 0 && (t < 0) != (b < 0) ? t + b : t;
    case EW_FLOORDIV:
      return floor(a / b);
    case EW_SQUARED_DIFFERENCE:
      return (a - b) * (a - b);
    case EW_ATAN2:
      return atan2(a, b);
    case EW_EQUAL:
      return a == b;
    case EW_NOT_EQUAL:
      return a != b;
    case EW_LESS:
      return a < b;
    case EW_LESS_EQUAL:
      return a <= b;
    case EW_GREATER:
      return a > b;
    case EW_GREATER_EQUAL:
      return a >= b;
    case EW_RELU_GRAD:
      return b > 0 ? a : 0;
    case EW_RELU6_GRAD:
      return b > 0 && b < 6 ? a : 0;
    case EW_LEAKY_RELU_GRAD:
      return b >= 0 ? a : p[0] * a;
    case EW_ELU_GRAD:
      return b > 0 ? a : a * (b + p[0]);
    case EW_SELU_GRAD:
      return b > 0 ? a * scale : a * (b + scale * alpha);
    case EW_SIGMOID_GRAD:
      return a * b * (1 - b);
    case EW_TANH_GRAD:
      return a * (1 - b * b);
    case EW_SOFTPLUS_GRAD:
      return a * s;
    case EW_SOFTSIGN_GRAD:
      return a / ((1 + fabs(b)) * (1 + fabs(b)));
    case EW_SWISH_GRAD:
      return a * (s + b * s * (1 - s));
    case EW_GELU_GRAD:
      t = exp(-0.5 * b * b) * 0.39894228040143267794;
      return a * (0.5 * (1 + erf(b * h)) + (t == 0 ? 0 : b * t));
    case EW_GELU_TANH_GRAD:
      t = tanh(0.79788456080286535588 * (b + 0.044715 * b * b * b));
      return a * (0.5 * (1 + t) + (t * t == 1 ? 0
                                              : 0.5 * b * (1 - t * t) * 0.79788456080286535588 *
                                                    (1 + 3 * 0.044715 * b * b)));
    case EW_HARD_SIGMOID_GRAD:
      return fabs(b) < 2.5 ? 0.2 * a : 0;
    case EW_CLIP_GRAD:
      return p[0] <= b && b <= p[1] ? a : 0;
    case EW_SQRT_GRAD:
      return 0.5 * a / b;
    case EW_RSQRT_GRAD:
      return -0.5 * a * b * b * b;
    case EW_RECIPROCAL_GRAD:
      return -a * b * b;
    default:
      return 0;
  }
}

/* Allowed errors of a float32 result: relative to the exact one, and absolute per unit of scale. */
typedef struct Tolerance {
  double relative, absolute;
} Tolerance;
static Tolerance tolerance_of(Elementwise id, double a, double b) {
  switch (id) {
    case EW_GELU:
    case EW_GELU_TANH:
      return (Tolerance){1e-6, 3e-7 * fabs(a)}; /* 1 + erf cancels */
    case EW_GELU_GRAD:
    case EW_GELU_TANH_GRAD:
      return (Tolerance){2e-6, 1e-6 * fabs(a) * (1 + (fabs(b) < 10 ? fabs(b) : 0))};
    case EW_SWISH_GRAD:
      return (Tolerance){1e-6, 1e-6 * fabs(a)};
    case EW_HARD_SIGMOID:
      return (Tolerance){1e-6, 1e-7};
    case EW_SQUARED_DIFFERENCE:
      return (Tolerance){1e-6, 0};
    case EW_SIGMOID_GRAD:
    case EW_TANH_GRAD:
      return (Tolerance){1e-6, 3e-7 * fabs(a) * (1 + b * b)};
    case EW_ELU_GRAD:
    case EW_SELU_GRAD:
      return (Tolerance){1e-6, 3e-7 * fabs(a) * (1 + fabs(b))};
    case EW_RSQRT:
    case EW_SQRT:
    case EW_DIV:
    case EW_RECIPROCAL:
      return (Tolerance){1.3e-7, 0};
    case EW_SIN:
    case EW_COS:
      return (Tolerance){4e-7, 1e-9};
    default:
      return (Tolerance){5e-7, 0};
  }
}
/* Kernels whose float32 result is the rounded exact one. */
static bool is_exact(Elementwise id) {
  return id <= EW_ROUND || id == EW_RELU || id == EW_RELU6 || id == EW_CLIP ||
         (id >= EW_IS_NAN && id <= EW_MUL) || id == EW_MAXIMUM || id == EW_MINIMUM ||
         (id >= EW_EQUAL && id <= EW_RELU6_GRAD) || id == EW_CLIP_GRAD;
}
static bool same(double got, double want, double relative, double absolute) {
  if (want != want) return got != got;
  if (got == want) return true;
  return fabs(got - want) <= relative * fabs(want) + absolute; /* false for infinities and NaN */
}

/* Integers: in 128 bits, then wrapped. */
__extension__ typedef __int128 Wide;
static int64_t wrap(Dtype d, Wide v) {
  return d == I8                ? (int8_t)v
         : d == U8 || d == BOOL ? (uint8_t)v
         : d == I32             ? (int32_t)v
                                : (int64_t)v;
}
static int64_t twin_integer(Elementwise id, Dtype d, int64_t x, int64_t y) {
  Wide a = x, b = y, q, power = 1;
  switch (id) {
    case EW_IDENTITY:
    case EW_CEIL:
    case EW_FLOOR:
    case EW_ROUND:
      return x;
    case EW_ABS:
      return wrap(d, a < 0 ? -a : a);
    case EW_NEG:
      return wrap(d, -a);
    case EW_SIGN:
      return (x > 0) - (x < 0);
    case EW_SQUARE:
      return wrap(d, a * a);
    case EW_RELU:
      return x < 0 ? 0 : x;
    case EW_RELU6:
      return x < 0 ? 0 : x > 6 ? 6 : x;
    case EW_CLIP:
      return x < 0 ? 0 : x > 3 ? 3 : x; /* check_elementwise passes 0.25 and 3.5 */
    case EW_LOGICAL_NOT:
      return !x;
    case EW_ADD:
      return wrap(d, a + b);
    case EW_SUB:
      return wrap(d, a - b);
    case EW_MUL:
      return wrap(d, a * b);
    case EW_POW:
      if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
      for (uint64_t e = (uint64_t)y, s = (uint64_t)x; e; e >>= 1, s *= s)
        if (e & 1) power = (Wide)(int64_t)((uint64_t)power * s);
      return wrap(d, power);
    case EW_MAXIMUM:
      return x > y ? x : y;
    case EW_MINIMUM:
      return x < y ? x : y;
    case EW_FLOORDIV:
    case EW_MOD:
      if (y == 0) return 0;
      q = a / b;
      if (a % b != 0 && (a < 0) != (b < 0)) q--;
      return wrap(d, id == EW_MOD ? a - q * b : q);
    case EW_SQUARED_DIFFERENCE:
      return wrap(d, (int64_t)wrap(d, a - b) * (Wide)wrap(d, a - b));
    case EW_EQUAL:
      return x == y;
    case EW_NOT_EQUAL:
      return x != y;
    case EW_LESS:
      return x < y;
    case EW_LESS_EQUAL:
      return x <= y;
    case EW_GREATER:
      return x > y;
    case EW_GREATER_EQUAL:
      return x >= y;
    case EW_LOGICAL_AND:
      return x && y;
    case EW_LOGICAL_OR:
      return x || y;
    case EW_LOGICAL_XOR:
      return !x != !y;
    default:
      return 0;
  }
}
static bool gives_bool(Elementwise id) {
  return (id >= EW_IS_NAN && id <= EW_LOGICAL_NOT) || (id >= EW_EQUAL && id <= EW_LOGICAL_XOR);
}

static const char *const names[] = {
#define X(id, arity) #id,
    ELEMENTWISE(X)
#undef X
};
static const int arities[] = {
#define X(id, arity) arity,
    ELEMENTWISE(X)
#undef X
};
static const int64_t sizes[] = {0, 1, 2, 15, 16, 17, 31, 33, 63, 64, 1000};
enum { SIZES = sizeof sizes / sizeof *sizes, ROOM = 1100, GUARD = 64 };

static double worst; /* of the kernel at hand, in units in the last place of float32 */

static void compare_strip(Elementwise id, Dtype d, const char *what, void *const copies[3],
                          unsigned single, const void *out, int64_t n, const double *p) {
  for (int64_t i = 0; i < n; i++) {
    int64_t at[3];
    for (int o = 0; o < 3; o++) at[o] = single >> o & 1 ? 0 : i;
    if (id == EW_WHERE) {
      size_t size = bytes_of(d);
      bool first = ((const uint8_t *)copies[0])[at[0]];
      const char *want = (const char *)copies[first ? 1 : 2] + (size_t)at[first ? 1 : 2] * size;
      if (memcmp((const char *)out + (size_t)i * size, want, size)) COMPLAIN(what, 0, 1, i);
    } else if (is_real(d)) {
      double a = real_get(d, copies[0], at[0]),
             b = arities[id] > 1 ? real_get(d, copies[1], at[1]) : 0;
      double want = twin_real(id, a, b, p);
      double got = gives_bool(id) ? ((const uint8_t *)out)[i] : real_get(d, out, i);
      Tolerance t = tolerance_of(id, a, b);
      if (is_exact(id)) t = (Tolerance){0, 0};
      if (d == F64) t.relative = is_exact(id) ? 0 : 1e-12, t.absolute *= 1e-6;
      if (d == F32 && !gives_bool(id)) {
        want = (double)(float)want;
        if (!is_exact(id))
          t.absolute += 3e-45 * (1 + fmin(fabs(a), 1e10)) + (fabs(want) < 2e-38 ? 1e-44 : 0);
        /* products that overflow or underflow on the way, and quotients whose floor hangs on the
         * last bit */
        bool far = fabs(a) > 1e17 || fabs(b) > 1e12 || (fabs(a) < 1e-17 && a != 0) ||
                   (fabs(b) < 1e-12 && b != 0);
        if (far && (id >= EW_RELU_GRAD || id == EW_SQUARED_DIFFERENCE || id == EW_GELU ||
                    id == EW_GELU_TANH))
          continue;
        if (id == EW_FLOORDIV && fabs(got - want) <= 1 + 1e-6 * fabs(want)) continue;
        if (id == EW_MOD && fabs(fabs(got - want) - fabs(b)) <= 1e-6 * fabs(b)) continue;
      }
      if (!same(got, want, t.relative, t.absolute)) COMPLAIN(what, got, want, i);
      double error = fabs(got - want) / (fabs(want) * 0x1p-24 + 1e-45);
      if (d == F32 && isfinite(want) && fabs(want) > 1e-37 && error > worst) worst = error;
    } else {
      int64_t want = twin_integer(id, d, integer_get(d, copies[0], at[0]),
                                  arities[id] > 1 ? integer_get(d, copies[1], at[1]) : 0);
      int64_t got = gives_bool(id) ? ((const uint8_t *)out)[i] : integer_get(d, out, i);
      if (got != want) COMPLAIN(what, (double)got, (double)want, i);
    }
  }
}

static void check_strip(Elementwise id, Dtype d) {
  static _Alignas(64) unsigned char operands[3][ROOM * 8], copies[3][ROOM * 8], out[ROOM * 8];
  const double p[4] = {0.25, 3.5, 0, 0};
  size_t size = bytes_of(d), out_size = gives_bool(id) ? 1 : size;
  char what[96];
  worst = 0;
  for (int s = 0; s < SIZES; s++)
    for (unsigned single = 0; single < 1u << arities[id]; single++)
      /* -1: apart; else in place of that operand */
      for (int place = -1; place < arities[id]; place++) {
        int64_t n = sizes[s];
        if (place >= 0 && (single >> place & 1 || gives_bool(id) || (id == EW_WHERE && place == 0)))
          continue;
        for (int o = 0; o < 3; o++) {
          fill_any(id == EW_WHERE && o == 0 ? BOOL : d, operands[o], ROOM, true);
          memcpy(copies[o], operands[o], sizeof copies[o]);
        }
        memset(out, 0xa5, sizeof out);
        unsigned char *to = place < 0 ? out + size : operands[place] + (id == EW_WHERE ? 0 : size);
        const void *in[3];
        void *kept[3];
        for (int o = 0; o < 3; o++) {
          size_t shift = id == EW_WHERE ? 0 : size; /* not aligned to a vector */
          in[o] = operands[o] + shift;
          kept[o] = copies[o] + shift;
        }
        snprintf(what, sizeof what, "%s %s n %d single %u in place %d", names[id], dtype_names[d],
                 (int)n, single, place);
        kernels->strip[id][d](in, single, to, n, p);
        compare_strip(id, d, what, kept, single, to, n, p);
        if (place < 0)
          for (size_t i = 0; i < GUARD; i++)
            if (to[(size_t)n * out_size + i] != 0xa5 || (i < size && out[i] != 0xa5)) {
              COMPLAIN(what, 1, 0, n);
              break;
            }
      }
  if (verbose && d == F32) printf("  %-20s %8.2f half ulp\n", names[id], worst);
}

/* Limits beyond an integer type are its ends, and a NaN is 0. */
static void check_clip_limits(Dtype d) {
  static const double limits[][2] = {{-1e30, 1e30},    {-1e30, 2.75}, {-2.75, 1e30},
                                     {(double)NAN, 5}, {1e30, 1e30},  {-1e30, -1e30}};
  enum { LIMITS = sizeof limits / sizeof *limits, COUNT = 50 };
  unsigned char x[COUNT * 8], y[COUNT * 8];
  const int64_t min = d == I8    ? INT8_MIN
                      : d == U8  ? 0
                      : d == I32 ? INT32_MIN
                                 : INT64_MIN,
                max = d == I8    ? INT8_MAX
                      : d == U8  ? UINT8_MAX
                      : d == I32 ? INT32_MAX
                                 : INT64_MAX;
  fill_integer(d, x, COUNT);
  for (int l = 0; l < LIMITS; l++) {
    int64_t end[2];
    for (int k = 0; k < 2; k++) {
      double p = limits[l][k];
      end[k] = isnan(p) ? 0 : p <= (double)min ? min : p >= (double)max ? max : (int64_t)p;
    }
    kernels->strip[EW_CLIP][d]((const void *[]){x}, 0, y, COUNT, limits[l]);
    for (int64_t i = 0; i < COUNT; i++) {
      int64_t v = integer_get(d, x, i), want = v < end[0] ? end[0] : v > end[1] ? end[1] : v;
      if (integer_get(d, y, i) != want)
        COMPLAIN("clip by limits", (double)integer_get(d, y, i), (double)want, i);
    }
  }
  finish();
}

static void check_elementwise(void) {
  for (int d = I8; d <= I64; d++) check_clip_limits((Dtype)d);
  for (int id = 0; id < ELEMENTWISE_COUNT; id++) {
    bool some = false;
    for (int d = 0; d < DTYPE_COUNT; d++)
      if (kernels->strip[id][d]) {
        some = true;
        check_strip((Elementwise)id, (Dtype)d);
        finish();
      }
    if (!some) COMPLAIN(names[id], 0, 1, 0);
  }
}

/* float16 and bfloat16 by searching: the value nearest to x, ties to even. */
static double half_value(Dtype d, uint16_t h) {
  int exponent_bits = d == F16 ? 5 : 8, fraction_bits = d == F16 ? 10 : 7;
  int exponent = h >> fraction_bits & ((1 << exponent_bits) - 1),
      fraction = h & ((1 << fraction_bits) - 1);
  int bias = (1 << (exponent_bits - 1)) - 1;
  double v = exponent == (1 << exponent_bits) - 1 ? (fraction ? (double)NAN : (double)INFINITY)
             : exponent ? ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits)
                        : ldexp(fraction, 1 - bias - fraction_bits);
  return h & 0x8000 ? -v : v;
}
static uint16_t half_nearest(Dtype d, long double x) {
  uint16_t infinity = d == F16 ? 0x7c00 : 0x7f80, low = 0, high = infinity;
  long double v = fabsl(x);
  if (x != x) return (uint16_t)(infinity + 1);
  while (high - low > 1) {
    uint16_t middle = (uint16_t)((low + high) / 2);
    if ((long double)half_value(d, middle) <= v) low = middle;
    else high = middle;
  }
  long double below = half_value(d, low),
              above = high == infinity ? (d == F16 ? 65536 : 0x1p128L) : half_value(d, high);
  uint16_t nearest = v - below < above - v   ? low
                     : v - below > above - v ? high
                     : low & 1               ? high
                                             : low;
  if (v >= (d == F16 ? 65536 : 0x1p128L)) nearest = infinity;
  return (uint16_t)(nearest | (signbit(x) ? 0x8000 : 0));
}

static double cast_source(Dtype d, const void *data, int64_t i) {
  if (d == F16 || d == BF16) return half_value(d, ((const uint16_t *)data)[i]);
  return is_real(d) ? real_get(d, data, i) : (double)integer_get(d, data, i);
}
static bool cast_is_right(Dtype from, Dtype to, const void *data, int64_t i, const void *out,
                          int64_t o) {
  double x = cast_source(from, data, i);
  bool whole = !is_real(from) && from != F16 && from != BF16;
  if (to == BOOL) return ((const uint8_t *)out)[o] == (x != 0);
  if (to == F64) return same(real_get(F64, out, o), x, 0, 0);
  if (to == F32) {
    float want = whole ? (float)integer_get(from, data, i) : (float)x;
    return same(real_get(F32, out, o), (double)want, 0, 0);
  }
  if (to == F16 || to == BF16) {
    uint16_t got = ((const uint16_t *)out)[o];
    if (x != x) return half_value(to, got) != half_value(to, got);
    return got ==
           half_nearest(to, whole ? (long double)integer_get(from, data, i) : (long double)x);
  }
  int64_t got = integer_get(to, out, o);
  if (whole)
    return got ==
           wrap(to, from == BOOL ? integer_get(from, data, i) != 0 : integer_get(from, data, i));
  /* narrow types by way of int32 */
  double low = to == I64 ? -0x1p63 : -2147483648.0, beyond = -low;
  int64_t min = to == I64 ? INT64_MIN : INT32_MIN, max = to == I64 ? INT64_MAX : INT32_MAX;
  return got == wrap(to, x != x || x <= low ? min : x >= beyond ? max : (int64_t)x);
}

/* All bytes by each divisor, among them those whose quotients a product with the reciprocal
 * misses. */
static void check_divided_bytes(void) {
  uint8_t bytes[256];
  float got[256],
      divisors[4000] = {255, -255,          256,           127.5f,   3,       -7,     0.1f,
                        1,   0x1.fffffep0f, 0x1.000002p0f, 0x1p-60f, 0x1p60f, 1e-30f, 1e30f,
                        0,   -0.0f,         INFINITY,      NAN,      1e-40f};
  for (int i = 0; i < 256; i++) bytes[i] = (uint8_t)i;
  for (int i = 19; i < 4000; i++)
    divisors[i] = (float)exp(120 * uniform() - 60) * (i % 2 ? 1.0f : -1.0f);
  for (int d = 0; d < 4000; d++)
    for (int n = 256; n > 0; n -= 41) {
      kernels->divide_bytes(bytes, divisors[d], got, n);
      for (int i = 0; i < n; i++) {
        float want = (float)i / divisors[d];
        if (memcmp(&got[i], &want, sizeof want) && !(isnan(want) && isnan(got[i]))) {
          COMPLAIN("divide_bytes", (double)got[i], (double)want, (long long)i);
          break;
        }
      }
    }
  finish();
}

static void check_casts(void) {
  static _Alignas(64) unsigned char from_data[70000 * 8], out[70000 * 8];
  static const int64_t cast_sizes[] = {0, 1, 15, 16, 17, 1000, 65536};
  char what[64];
  for (int from = 0; from < DTYPE_COUNT; from++)
    for (int to = 0; to < DTYPE_COUNT; to++) {
      snprintf(what, sizeof what, "cast %s to %s", dtype_names[from], dtype_names[to]);
      if (!kernels->cast[from][to]) {
        COMPLAIN(what, 0, 1, 0);
        continue;
      }
      for (size_t s = 0; s < sizeof cast_sizes / sizeof *cast_sizes; s++)
        for (unsigned single = 0; single < 2; single++) {
          int64_t n = cast_sizes[s];
          if (from == F16 || from == BF16)
            for (int64_t i = 0; i < 65536; i++)
              ((uint16_t *)(void *)from_data)[i] = (uint16_t)(n == 65536 ? i : (int64_t)bits64());
          else if (from == F32 && bits64() % 2) /* all magnitudes */
            for (int64_t i = 0; i < 65536; i++)
              ((uint32_t *)(void *)from_data)[i] = (uint32_t)bits64();
          else fill_any((Dtype)from, from_data, 65536, true);
          if (is_real((Dtype)from) && bits64() % 2)
            for (int64_t i = 0; i < 65536; i++)
              real_set((Dtype)from, from_data, i,
                       (uniform() - 0.5) * pow(2, (double)(bits64() % 72) - 4));
          memset(out, 0xa5, sizeof out);
          kernels->cast[from][to]((const void *[]){from_data}, single, out, n, NULL);
          for (int64_t i = 0; i < n; i++)
            if (!cast_is_right((Dtype)from, (Dtype)to, from_data, single ? 0 : i, out, i)) {
              COMPLAIN(what, 0, cast_source((Dtype)from, from_data, single ? 0 : i), i);
              break;
            }
          if (out[(size_t)n * bytes_of((Dtype)to)] != 0xa5) COMPLAIN(what, 1, 0, n);
        }
      finish();
    }
}

/* product. */
typedef struct Seen {
  const Gemm *g;
  bool f64;
  double *c;            /* blocks copied here, m x n */
  unsigned char *count; /* how often an element was shown */
  int wrong;
} Seen;
static void see_block(void *context, void *block, int64_t block_row, int64_t row, int64_t rows,
                      int64_t col, int64_t cols, int slot) {
  Seen *s = context;
  if (row < 0 || col < 0 || row + rows > s->g->m || col + cols > s->g->n || slot < 0) {
    s->wrong++;
    return;
  }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      s->c[(row + r) * s->g->n + col + c] = real_get(s->f64 ? F64 : F32, block, r * block_row + c);
      s->count[(row + r) * s->g->n + col + c]++;
    }
}

/* A tile that is about to be computed lies in C. */
static void see_ahead(void *context, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  Seen *s = context;
  if (row < 0 || col < 0 || row + rows > s->g->m || col + cols > s->g->n) s->wrong++;
}

/* sum and mass (m x n) += A B and |A| |B|, term by term in float64. Only this thread is at work:
 * watching each of its loads would cost the thread sanitizer most of its run. */
__attribute__((no_sanitize("thread"))) static void multiply(Dtype d, const Gemm *g, double *sum,
                                                            double *mass) {
  double *row = malloc((size_t)(g->n + 1) * sizeof *row);
  for (int64_t p = 0; p < g->k; p++) {
    for (int64_t j = 0; j < g->n; j++) row[j] = real_get(d, g->b, p * g->b_row + j * g->b_col);
    for (int64_t r = 0; r < g->m; r++) {
      double x = real_get(d, g->a, r * g->a_row + p * g->a_col);
      double *s = sum + r * g->n, *t = mass + r * g->n;
      for (int64_t j = 0; j < g->n; j++) s[j] += x * row[j], t[j] += fabs(x * row[j]);
    }
  }
  free(row);
}

static ProductUse use = PRODUCTS_OWN;

static void check_gemm_case(Dtype d, int64_t m, int64_t n, int64_t k, bool a_turned, bool b_turned,
                            bool accumulate, bool epilogue, bool no_c, int64_t pad) {
  char what[128];
  size_t size = bytes_of(d);
  snprintf(what, sizeof what, "gemm %s %dx%dx%d%s%s%s%s%s", dtype_names[d], (int)m, (int)n, (int)k,
           a_turned ? " A'" : "", b_turned ? " B'" : "", accumulate ? " +=" : "",
           epilogue ? " epilogue" : "", no_c ? " no c" : "");
  Gemm g = {.m = m, .n = n, .k = k, .accumulate = accumulate};
  g.a_row = a_turned ? 1 : k + pad, g.a_col = a_turned ? m + pad : 1;
  g.b_row = b_turned ? 1 : n + pad, g.b_col = b_turned ? k + pad : 1;
  g.c_row = n + pad;
  int64_t a_count = (a_turned ? k : m) * (a_turned ? m + pad : k + pad) + 1;
  int64_t b_count = (b_turned ? n : k) * (b_turned ? k + pad : n + pad) + 1,
          c_count = m * (n + pad) + 1;
  void *a = malloc((size_t)a_count * size), *b = malloc((size_t)b_count * size),
       *c = malloc((size_t)c_count * size);
  double *start = malloc((size_t)c_count * 8), *shown = malloc((size_t)(m * n + 1) * 8);
  unsigned char *count = calloc((size_t)(m * n + 1), 1);
  for (int64_t i = 0; i < a_count; i++) real_set(d, a, i, uniform() - 0.5);
  for (int64_t i = 0; i < b_count; i++) real_set(d, b, i, uniform() - 0.5);
  for (int64_t i = 0; i < c_count; i++)
    real_set(d, c, i, uniform() - 0.5), start[i] = real_get(d, c, i);
  g.a = a, g.b = b, g.c = no_c ? NULL : c;
  Seen seen = {.g = &g, .f64 = d == F64, .c = shown, .count = count};
  g.context = &seen;
  if (epilogue) g.epilogue = see_block;
  /* Prefetching for a later product, here of another shape, changes nothing. */
  Gemm next = {.m = 7, .n = 1 + (int64_t)(bits64() % 200), .k = 1 + (int64_t)(bits64() % 200)};
  void *next_b = calloc((size_t)(next.n * next.k), size);
  next.b = next_b;
  if (bits64() & 1) g.next = &next, g.ahead = see_ahead;
  const Kernels *k_use = kernels_with_products(kernels, use);
  GemmPlan plan = product_plan(k_use, d, &g);
  void *shared = aligned_alloc(64, (plan.shared_bytes + 64) & ~(size_t)63),
       *slots = aligned_alloc(64, (2 * plan.slot_bytes + 64) & ~(size_t)63);
  memset(slots, 0xff, 2 * plan.slot_bytes);
  memset(shared, 0xff, plan.shared_bytes);
  g.shared = shared, g.slots = slots, g.slot_bytes = plan.slot_bytes;
  for (int64_t i = plan.pack_chunks - 1; i >= 0; i--) product_pack(k_use, &plan, d, &g, i);
  for (int64_t i = plan.chunks - 1; i >= 0; i--)
    product_chunk(k_use, &plan, d, &g, i, (int)(i % 2));
  for (int64_t i = plan.finish_chunks - 1; i >= 0; i--)
    product_finish(k_use, &plan, d, &g, i, (int)(i % 2));
  if (seen.wrong) COMPLAIN(what, seen.wrong, 0, 0);
  double step = d == F64 ? 1e-15 : 3e-7, *sums = calloc((size_t)(m * n + 1), sizeof *sums),
         *masses = calloc((size_t)(m * n + 1), sizeof *masses);
  for (int64_t i = 0; accumulate && i < m * n; i++)
    sums[i] = start[i / n * g.c_row + i % n], masses[i] = fabs(sums[i]);
  multiply(d, &g, sums, masses);
  for (int64_t r = 0; r < m; r++)
    for (int64_t j = 0; j < n; j++) {
      double sum = sums[r * n + j], mass = masses[r * n + j];
      double limit = step * mass * (1 + sqrt((double)k) / 8);
      if (!no_c && fabs(real_get(d, c, r * g.c_row + j) - sum) > limit)
        COMPLAIN(what, real_get(d, c, r * g.c_row + j), sum, r * n + j);
      if (epilogue && (count[r * n + j] != 1 || fabs(shown[r * n + j] - sum) > limit))
        COMPLAIN(what, shown[r * n + j], sum, r * n + j);
    }
  if (!no_c)
    for (int64_t r = 0; r < m; r++)
      for (int64_t j = n; j < n + pad; j++)
        if (real_get(d, c, r * g.c_row + j) != start[r * g.c_row + j]) COMPLAIN(what, 1, 0, r);
  finish();
  free(a), free(b), free(c), free(start), free(shown), free(count), free(shared), free(slots),
      free(sums), free(masses), free(next_b);
}

static void check_gemm(void) {
  static const int64_t few[] = {1, 2, 3, 5, 8, 10, 16, 17, 31, 33, 48, 65, 100};
  enum { FEW = sizeof few / sizeof *few };
  for (int d = F32; d <= F64; d++) {
    for (int turn = 0; turn < 4; turn++)
      for (int i = 0; i < 220; i++) {
        uint64_t r = bits64();
        bool no_c = r >> 40 & 1 && r >> 41 & 1;
        check_gemm_case((Dtype)d, few[r % FEW], few[r / 64 % FEW], few[r / 4096 % FEW], turn & 1,
                        turn & 2, !no_c && r >> 42 & 1, no_c || r >> 43 & 1, no_c,
                        (int64_t)(r >> 44 & 3));
      }
    for (int turn = 0; turn < 4; turn++) {
      bool a = turn & 1, b = turn & 2;
      check_gemm_case((Dtype)d, 9, 11, 0, a, b, false, true, false, 0);
      check_gemm_case((Dtype)d, 9, 11, 0, a, b, true, true, false, 0);
      check_gemm_case((Dtype)d, 0, 11, 4, a, b, false, true, false, 0);
      check_gemm_case((Dtype)d, 32, 10, 1300, a, b, true, true, false, 3);
      check_gemm_case((Dtype)d, 33, 700, 130, a, b, false, true, true, 1);
      check_gemm_case((Dtype)d, 300, 33, 60, a, b, false, true, false, 1);
      check_gemm_case((Dtype)d, 20, 70, 600, a, b, false, true, true, 1);
      check_gemm_case((Dtype)d, 1, 500, 300, a, b, false, true, false, 1);
      check_gemm_case((Dtype)d, 500, 1, 300, a, b, false, true, false, 0);
      check_gemm_case((Dtype)d, 500, 1, 300, a, b, true, true, false, 1);
      check_gemm_case((Dtype)d, 500, 1, 70, a, b, false, true, true, 1);
      check_gemm_case((Dtype)d, 530, 300, 1300, a, b, a, true, b, 1); /* packed */
      /* dense layers with a short batch */
      check_gemm_case((Dtype)d, 17, 100, 401, a, b, a, b, !a && b, 2);
      check_gemm_case((Dtype)d, 9, 600, 300, a, b, b, !a, !a && !b, 0);
      check_gemm_case((Dtype)d, 523, 70, 20, a, b, a, b, !a && b, 1);
    }
  }
}

/* By OpenBLAS, in the same form: chunks, into C or a slot, with and without what C holds. Where the
 * library lacks, our own kernels compute these. */
static void check_other_products(void) {
  static const int64_t shapes[][3] = {{1, 1, 1}, {17, 33, 5}, {64, 700, 40}, {300, 300, 64}};
  use = PRODUCTS_OPENBLAS;
  for (int d = F32; d <= F64; d++)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
      for (int turn = 0; turn < 4; turn++)
        for (int form = 0; form < 4; form++)
          check_gemm_case((Dtype)d, shapes[i][0], shapes[i][1], shapes[i][2], turn & 1, turn & 2,
                          form == 1, form > 0, form == 2, form == 2 ? 0 : 3);
  use = PRODUCTS_OWN;
}

/* Reductions. */
static void check_reduce(void) {
  static const int64_t extents[] = {0, 1, 3, 15, 16, 17, 64, 65, 100, 1000, 3000},
                       inners[] = {1, 3, 16, 17, 64, 100};
  char what[96];
  for (int op = 0; op < REDUCTION_COUNT; op++)
    for (int d = 0; d < DTYPE_COUNT; d++) {
      if (!kernels->reduce[op][d]) continue;
      for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
        for (size_t i = 0; i < sizeof inners / sizeof *inners; i++) {
          int64_t outer = 2, extent = extents[e], inner = inners[i];
          size_t size = bytes_of((Dtype)d);
          void *x = malloc((size_t)(outer * extent * inner + 1) * size),
               *y = malloc((size_t)(outer * inner) * size);
          fill_any((Dtype)d, x, outer * extent * inner, false);
          bool nan = is_real((Dtype)d) && extent > 2 && bits64() % 4 == 0;
          if (nan)
            real_set((Dtype)d, x, (int64_t)(bits64() % (uint64_t)(outer * extent * inner)),
                     (double)NAN);
          if (op == REDUCE_PROD && is_real((Dtype)d))
            for (int64_t q = 0; q < outer * extent * inner; q++)
              real_set((Dtype)d, x, q, 1 + (uniform() - 0.5) * 0.02);
          kernels->reduce[op][d](x, outer, extent, inner, y);
          snprintf(what, sizeof what, "reduce %d %s [2, %d, %d]", op, dtype_names[d], (int)extent,
                   (int)inner);
          for (int64_t o = 0; o < outer; o++)
            for (int64_t c = 0; c < inner; c++) {
              double v = op == REDUCE_MAX   ? -(double)INFINITY
                         : op == REDUCE_MIN ? (double)INFINITY
                                            : op == REDUCE_PROD,
                     mass = 0;
              int64_t w = d == BOOL           ? op == REDUCE_ALL || op == REDUCE_MIN
                          : op == REDUCE_PROD ? 1
                          : op == REDUCE_MAX  ? (d == I8    ? INT8_MIN
                                                 : d == U8  ? 0
                                                 : d == I32 ? INT32_MIN
                                                            : INT64_MIN)
                          : op == REDUCE_MIN  ? (d == I8    ? INT8_MAX
                                                 : d == U8  ? UINT8_MAX
                                                 : d == I32 ? INT32_MAX
                                                            : INT64_MAX)
                                              : 0;
              for (int64_t q = 0; q < extent; q++) {
                int64_t at = (o * extent + q) * inner + c;
                double u = real_get((Dtype)d, x, at);
                int64_t n = integer_get((Dtype)d, x, at);
                mass += fabs(u);
                if (op == REDUCE_SUM) v += u, w = (int64_t)((uint64_t)w + (uint64_t)n);
                if (op == REDUCE_PROD) v *= u, w = (int64_t)((uint64_t)w * (uint64_t)n);
                if (op == REDUCE_MAX)
                  v = v != v || u != u ? (double)NAN : u > v ? u : v, w = n > w ? n : w;
                if (op == REDUCE_MIN)
                  v = v != v || u != u ? (double)NAN : u < v ? u : v, w = n < w ? n : w;
                if (op == REDUCE_ANY) w |= n;
                if (op == REDUCE_ALL) w &= n;
              }
              int64_t at = o * inner + c;
              if (!is_real((Dtype)d)) {
                if (integer_get((Dtype)d, y, at) != wrap((Dtype)d, w))
                  COMPLAIN(what, (double)integer_get((Dtype)d, y, at), (double)w, at);
              } else if (!same(real_get((Dtype)d, y, at), v, op == REDUCE_PROD ? 1e-5 : 0,
                               op == REDUCE_SUM ? 1e-6 * mass : 0)) {
                COMPLAIN(what, real_get((Dtype)d, y, at), v, at);
              }
            }
          finish();
          free(x), free(y);
        }
    }
  enum { MILLION = 1000000 };
  float *ones = malloc(MILLION * sizeof *ones), total;
  for (int i = 0; i < MILLION; i++) ones[i] = 1;
  kernels->reduce[REDUCE_SUM][F32](ones, 1, MILLION, 1, &total);
  if (total != MILLION) COMPLAIN("a million ones", (double)total, MILLION, 0);
  float columns[10];
  kernels->reduce[REDUCE_SUM][F32](ones, 1, MILLION / 10, 10, columns);
  if (columns[9] != MILLION / 10) COMPLAIN("ones in columns", (double)columns[9], MILLION / 10, 0);
  free(ones);
}

/* Rows. */
static void check_rows_case(Dtype d, int64_t rows, int64_t n, bool in_place) {
  char what[96];
  size_t size = bytes_of(d), total = (size_t)(rows * n + 1) * size;
  double step = d == F64 ? 1e-12 : 2e-6;
  void *x = malloc(total), *dy = malloc(total), *y = malloc(total), *z = malloc(total),
       *keep = malloc(total);
  void *loss = malloc((size_t)(rows + 1) * size), *mean = malloc((size_t)(rows + 1) * size),
       *inverse = malloc((size_t)(rows + 1) * size);
  int32_t *labels = malloc((size_t)(rows + 1) * sizeof *labels);
  for (int64_t i = 0; i < rows * n; i++)
    real_set(d, x, i, (uniform() - 0.5) * 10), real_set(d, dy, i, uniform() - 0.5);
  for (int64_t r = 0; r < rows; r++) labels[r] = (int32_t)(bits64() % (uint64_t)n);
  if (rows > 2) labels[1] = (int32_t)n, labels[2] = -1;
  memcpy(keep, x, total);
  snprintf(what, sizeof what, "softmax %s %dx%d%s", dtype_names[d], (int)rows, (int)n,
           in_place ? " in place" : "");
  void *s = in_place ? x : y;
  kernels->softmax[d](x, rows, n, s);
  if (in_place) memcpy(y, x, total), memcpy(x, keep, total);
  memcpy(z, x, total);
  kernels->log_softmax[d](in_place ? z : x, rows, n, z);
  kernels->sparse_xent[d](x, labels, rows, n, loss, NULL);
  for (int64_t r = 0; r < rows; r++) {
    double max = -(double)INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = fmax(max, real_get(d, x, r * n + i));
    for (int64_t i = 0; i < n; i++) sum += exp(real_get(d, x, r * n + i) - max);
    for (int64_t i = 0; i < n; i++) {
      double v = real_get(d, x, r * n + i) - max;
      if (!same(real_get(d, y, r * n + i), exp(v) / sum, step, 0))
        COMPLAIN(what, real_get(d, y, r * n + i), exp(v) / sum, i);
      if (!same(real_get(d, z, r * n + i), v - log(sum), step, step))
        COMPLAIN("log_softmax", real_get(d, z, r * n + i), v - log(sum), i);
    }
    bool valid = labels[r] >= 0 && labels[r] < n;
    double want = valid ? log(sum) + max - real_get(d, x, r * n + labels[r]) : (double)NAN;
    if (!same(real_get(d, loss, r), want, step, step))
      COMPLAIN("sparse_xent loss", real_get(d, loss, r), want, r);
  }
  void *slope = malloc(total);
  memcpy(slope, x, total);
  kernels->sparse_xent[d](slope, labels, rows, n, loss, slope);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i++) {
      bool valid = labels[r] >= 0 && labels[r] < n;
      double want = valid ? real_get(d, y, r * n + i) - (labels[r] == i) : (double)NAN;
      if (!same(real_get(d, slope, r * n + i), want, step, step))
        COMPLAIN("sparse_xent slope", real_get(d, slope, r * n + i), want, i);
    }
  free(slope);
  void *dx = malloc(total), *dz = malloc(total);
  memcpy(dz, dy, total);
  kernels->softmax_grad[d](dy, y, rows, n, dx);
  kernels->log_softmax_grad[d](in_place ? dz : dy, z, rows, n, dz);
  for (int64_t r = 0; r < rows; r++) {
    double dot = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
      dot += real_get(d, dy, r * n + i) * real_get(d, y, r * n + i),
          sum += real_get(d, dy, r * n + i);
    for (int64_t i = 0; i < n; i++) {
      int64_t at = r * n + i;
      double want = real_get(d, y, at) * (real_get(d, dy, at) - dot);
      if (!same(real_get(d, dx, at), want, step, step))
        COMPLAIN("softmax_grad", real_get(d, dx, at), want, at);
      want = real_get(d, dy, at) - exp(real_get(d, z, at)) * sum;
      if (!same(real_get(d, dz, at), want, step, step * (1 + fabs(sum))))
        COMPLAIN("log_softmax_grad", real_get(d, dz, at), want, at);
    }
  }
  finish();
  free(dx), free(dz), free(x), free(dy), free(y), free(z), free(keep), free(loss), free(mean),
      free(inverse), free(labels);
}

static void check_norm_case(Dtype d, int64_t rows, int64_t n, bool with_gamma, bool with_beta) {
  char what[96];
  size_t size = bytes_of(d), total = (size_t)(rows * n + 1) * size, row = (size_t)n * size,
         column = (size_t)(rows + 1) * size;
  double step = d == F64 ? 1e-11 : 1e-5, epsilon = 1e-3;
  void *x = malloc(total), *y = malloc(total), *dy = malloc(total), *dx = malloc(total),
       *gamma = malloc(row), *beta = malloc(row);
  void *mean = malloc(column), *inverse = malloc(column), *dgamma = malloc(row),
       *dbeta = malloc(row);
  for (int64_t i = 0; i < rows * n; i++)
    real_set(d, x, i, uniform() * 3 + 1), real_set(d, dy, i, uniform() - 0.5);
  for (int64_t i = 0; i < n; i++)
    real_set(d, gamma, i, uniform() + 0.5), real_set(d, beta, i, uniform());
  snprintf(what, sizeof what, "layer_norm %s %dx%d %d%d", dtype_names[d], (int)rows, (int)n,
           with_gamma, with_beta);
  kernels->layer_norm[d](x, with_gamma ? gamma : NULL, with_beta ? beta : NULL, epsilon, rows, n, y,
                         mean, inverse);
  kernels->layer_norm_grad[d](dy, x, with_gamma ? gamma : NULL, mean, inverse, rows, n, dx);
  kernels->layer_norm_sums[d](dy, x, mean, inverse, rows, n, dgamma, dbeta);
  double *sum_g = calloc((size_t)n, 8), *sum_b = calloc((size_t)n, 8);
  for (int64_t r = 0; r < rows; r++) {
    double m = 0, v = 0, mg = 0, mgh = 0;
    for (int64_t i = 0; i < n; i++) m += real_get(d, x, r * n + i) / (double)n;
    for (int64_t i = 0; i < n; i++) v += pow(real_get(d, x, r * n + i) - m, 2) / (double)n;
    double scale = 1 / sqrt(v + epsilon);
    if (!same(real_get(d, mean, r), m, step, step) ||
        !same(real_get(d, inverse, r), scale, step, step))
      COMPLAIN(what, real_get(d, mean, r), m, r);
    for (int64_t i = 0; i < n; i++) {
      double h = (real_get(d, x, r * n + i) - m) * scale,
             g = real_get(d, dy, r * n + i) * (with_gamma ? real_get(d, gamma, i) : 1);
      mg += g / (double)n, mgh += g * h / (double)n;
      sum_g[i] += real_get(d, dy, r * n + i) * h, sum_b[i] += real_get(d, dy, r * n + i);
      double want =
          h * (with_gamma ? real_get(d, gamma, i) : 1) + (with_beta ? real_get(d, beta, i) : 0);
      if (!same(real_get(d, y, r * n + i), want, step, step))
        COMPLAIN(what, real_get(d, y, r * n + i), want, i);
    }
    for (int64_t i = 0; i < n; i++) {
      double h = (real_get(d, x, r * n + i) - m) * scale,
             g = real_get(d, dy, r * n + i) * (with_gamma ? real_get(d, gamma, i) : 1);
      double want = scale * (g - mg - h * mgh);
      if (!same(real_get(d, dx, r * n + i), want, step, step * scale))
        COMPLAIN("layer_norm_grad", real_get(d, dx, r * n + i), want, i);
    }
  }
  for (int64_t i = 0; i < n; i++) {
    if (!same(real_get(d, dgamma, i), sum_g[i], step, step * (double)rows))
      COMPLAIN("layer_norm_sums gamma", real_get(d, dgamma, i), sum_g[i], i);
    if (!same(real_get(d, dbeta, i), sum_b[i], step, step * (double)rows))
      COMPLAIN("layer_norm_sums beta", real_get(d, dbeta, i), sum_b[i], i);
  }
  finish();
  free(sum_g), free(sum_b), free(x), free(y), free(dy), free(dx), free(gamma), free(beta),
      free(mean), free(inverse), free(dgamma), free(dbeta);
}

static void check_rows(void) {
  static const int64_t widths[] = {1, 2, 10, 15, 16, 17, 33, 65, 80, 300};
  for (int d = F32; d <= F64; d++)
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
      for (int rows = 0; rows < 6; rows += 1) check_rows_case((Dtype)d, rows, widths[w], rows & 1);
      for (int i = 0; i < 4; i++)
        check_norm_case((Dtype)d, i == 0 ? 150 : i, widths[w], i & 1, i & 2);
    }
}

static void check_transpose(void) {
  static const int64_t sides[] = {1, 3, 7, 8, 15, 16, 17, 33, 64, 70, 130};
  enum { SIDES = sizeof sides / sizeof *sides };
  char what[64];
  for (size_t size = 1; size <= 8; size *= 2)
    for (int i = 0; i < SIDES; i++)
      for (int j = 0; j < SIDES; j++) {
        int64_t rows = sides[i], cols = sides[j], batch = 2;
        size_t bytes = (size_t)(batch * rows * cols) * size;
        unsigned char *x = malloc(bytes), *y = malloc(bytes + GUARD);
        for (size_t b = 0; b < bytes; b++) x[b] = (unsigned char)bits64();
        memset(y + bytes, 0xa5, GUARD);
        kernels->transpose(size, x, batch, rows, cols, y);
        snprintf(what, sizeof what, "transpose of %d bytes %dx%d", (int)size, (int)rows, (int)cols);
        for (int64_t b = 0; b < batch; b++)
          for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < cols; c++)
              if (memcmp(x + (size_t)((b * rows + r) * cols + c) * size,
                         y + (size_t)((b * cols + c) * rows + r) * size, size))
                COMPLAIN(what, (double)r, (double)c, b);
        for (int g = 0; g < GUARD; g++)
          if (y[bytes + (size_t)g] != 0xa5) COMPLAIN(what, 1, 0, g);
        finish();
        free(x), free(y);
      }
}

/* Sums are the same on every instruction set. */
/* Large products leave work for four threads, a gradient of weights (few rows and columns, a long
 * sum) too. Our own kernels cut the sum then, OpenBLAS's callers cut rows and columns. */
static void check_shares(const Kernels *table) {
  kernels = table;
  static const int64_t shapes[][3] = {
      {128, 512, 2048}, {512, 128, 2048}, {128, 384, 4096}, {256, 256, 1024}, {2048, 384, 128}};
  for (int chosen = PRODUCTS_BY_TABLE; chosen <= PRODUCTS_OPENBLAS; chosen++) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      const int64_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
      Kernels k_table = *table;
      k_table.products = (ProductUse)chosen;
      const float any = 0;
      float c = 0;
      Gemm g = {.m = m,
                .n = n,
                .k = k,
                .a = &any,
                .b = &any,
                .c = &c,
                .a_row = 1,
                .a_col = m,
                .b_row = n,
                .b_col = 1,
                .c_row = n};
      int64_t chunks = product_plan(&k_table, F32, &g).chunks;
      if (chunks < 4) COMPLAIN("chunks of a large product", (double)chunks, 4.0, (int64_t)i);
      finish();
    }
  }
}

static void check_agreement(const Kernels *const *tables, int count) {
  enum { N = 5000 };
  static float x[N];
  for (int i = 0; i < N; i++) x[i] = (float)(uniform() - 0.4);
  for (int64_t n = 1; n < N; n += 61)
    for (int t = 1; t < count; t++) {
      float first[64], other[64];
      kernels = tables[t];
      tables[0]->reduce[REDUCE_SUM][F32](x, 1, n, 1, first);
      tables[t]->reduce[REDUCE_SUM][F32](x, 1, n, 1, other);
      if (first[0] != other[0]) COMPLAIN("sum differs", (double)other[0], (double)first[0], n);
      tables[0]->reduce[REDUCE_SUM][F32](x, 1, n / 50, 50, first);
      tables[t]->reduce[REDUCE_SUM][F32](x, 1, n / 50, 50, other);
      if (memcmp(first, other, 50 * sizeof *first))
        COMPLAIN("column sum differs", (double)other[0], (double)first[0], n);
      float mean[2], inverse[2];
      static float a[N], b[N];
      tables[0]->layer_norm[F32](x, NULL, NULL, 1e-5, 1, n, a, mean, inverse);
      tables[t]->layer_norm[F32](x, NULL, NULL, 1e-5, 1, n, b, mean + 1, inverse + 1);
      if (memcmp(a, b, (size_t)n * sizeof *a))
        COMPLAIN("layer_norm differs", (double)mean[1], (double)mean[0], n);
    }
}

int main(int argc, char **argv) {
  verbose = argc > 1 && !strcmp(argv[1], "-v");
  const Kernels *tables[INSTRUCTION_SETS];
  int count = 0, each = 0;
  for (int i = 0; i < INSTRUCTION_SETS; i++) {
    int before = passed + failed;
    kernels = table_or_pending(instruction_sets[i], &failed);
    if (!kernels) continue;
    tables[count++] = kernels;
    if (verbose) printf("%s\n", kernels->name);
    check_elementwise();
    check_casts();
    check_divided_bytes();
    check_gemm();
    check_other_products();
    check_reduce();
    check_rows();
    check_transpose();
    if (i == 0) each = passed + failed;
    else if (passed + failed - before != each) failures++; /* all are asked the same */
  }
  check_agreement(tables, count);
  for (int i = 0; i < count; i++) check_shares(tables[i]);
  if (kernels_select() != tables[count - 1] || kernels_find("other")) failures++;
  finish();
  printf("%d passed, %d failed\n", passed, failed);
  return failed > 0;
}
