/* Elementwise kernels that the compiler vectorises by itself: one expression each, for each
 * class of types. The functions of analysis are in functions.c. */
#include "kernels/fill.h"
#include "kernels/simd.h"

#include <tgmath.h>

#define ARGUMENTS const void *const *in, unsigned single, void *out, int64_t n, const double *p

/* Parameters in the element's type; integers saturate. */
INLINE float as_f32(double p) { return (float)p; }
INLINE double as_f64(double p) { return p; }
#define SATURATE(name, T, low, high)                                                      \
  INLINE T name(double p) {                                                               \
    return p != p ? 0 : p <= (double)(low) ? (low) : p >= (double)(high) ? (high) : (T)p; \
  }
SATURATE(as_i8, int8_t, INT8_MIN, INT8_MAX)
SATURATE(as_u8, uint8_t, 0, UINT8_MAX)
SATURATE(as_i32, int32_t, INT32_MIN, INT32_MAX)
SATURATE(as_i64, int64_t, INT64_MIN, INT64_MAX)

/* Loops for one operand and for two of type T, result R. The element functions see the
 * parameters p0 and p1. */
#define LOOP_1(name, T, R, as)                                            \
  INLINE void name(R (*f)(T, T, T), ARGUMENTS) {                          \
    const T *a = in[0];                                                   \
    R *y = out;                                                           \
    T p0 = as(p ? p[0] : 0), p1 = as(p ? p[1] : 0);                       \
    if (single & 1) {                                                     \
      T x = a[0];                                                         \
      INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = f(x, p0, p1);    \
    } else {                                                              \
      INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = f(a[i], p0, p1); \
    }                                                                     \
  }
#define LOOP_2(name, T, R, as)                                                  \
  INLINE void name(R (*f)(T, T, T, T), ARGUMENTS) {                             \
    const T *a = in[0], *b = in[1];                                             \
    R *y = out;                                                                 \
    T p0 = as(p ? p[0] : 0), p1 = as(p ? p[1] : 0);                             \
    if ((single & 3) == 3) {                                                    \
      T s = a[0], t = b[0];                                                     \
      INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = f(s, t, p0, p1);       \
    } else if (single & 1) {                                                    \
      T s = a[0];                                                               \
      INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = f(s, b[i], p0, p1);    \
    } else if (single & 2) {                                                    \
      T t = b[0];                                                               \
      INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = f(a[i], t, p0, p1);    \
    } else {                                                                    \
      INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = f(a[i], b[i], p0, p1); \
    }                                                                           \
  }
/* where: the choice is a byte; operands of type T. */
#define LOOP_WHERE(name, T)                                              \
  static void name(ARGUMENTS) {                                          \
    const uint8_t *c = in[0];                                            \
    const T *a = in[1], *b = in[2];                                      \
    T *y = out;                                                          \
    (void)p;                                                             \
    if (n <= 0) return;                                                  \
    if (single & 1) {                                                    \
      const T *from = c[0] ? a : b;                                      \
      int64_t step = single & (c[0] ? 2 : 4) ? 0 : 1;                    \
      INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = from[i * step]; \
    } else if ((single & 6) == 6) {                                      \
      T s = a[0], t = b[0];                                              \
      INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = c[i] ? s : t;   \
    } else if (single & 2) {                                             \
      T s = a[0];                                                        \
      INDEPENDENT for (int64_t i = 0; i < n; i++) {                      \
        T t = b[i];                                                      \
        y[i] = c[i] ? s : t;                                             \
      }                                                                  \
    } else if (single & 4) {                                             \
      T t = b[0];                                                        \
      INDEPENDENT for (int64_t i = 0; i < n; i++) {                      \
        T s = a[i];                                                      \
        y[i] = c[i] ? s : t;                                             \
      }                                                                  \
    } else {                                                             \
      INDEPENDENT for (int64_t i = 0; i < n; i++) {                      \
        T s = a[i], t = b[i];                                            \
        y[i] = c[i] ? s : t;                                             \
      }                                                                  \
    }                                                                    \
  }

/* clang-format off */
#define TYPES(X)                                                                                      \
  X(f32, F32, float) X(f64, F64, double) X(i8, I8, int8_t) X(u8, U8, uint8_t) X(i32, I32, int32_t) X(i64, I64, int64_t)
/* clang-format on */
#define X(s, dtype, T)            \
  LOOP_1(map_1_##s, T, T, as_##s) \
  LOOP_2(map_2_##s, T, T, as_##s) \
  LOOP_2(compare_##s, T, uint8_t, as_##s)
TYPES(X)
#undef X
LOOP_1(test_f32, float, uint8_t, as_f32)
LOOP_1(test_f64, double, uint8_t, as_f64)
LOOP_WHERE(where_1, uint8_t)
LOOP_WHERE(where_4, uint32_t)
LOOP_WHERE(where_8, uint64_t)

#define SELU_SCALE 1.0507009873554804934193349852946
#define SELU_ALPHA 1.6732632423543772848170429916717

/* The sign of the divisor, as Python's %. */
INLINE double floor_mod_f64(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
INLINE float floor_mod_f32(float a, float b) {
  float r = fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/* A function, since for unsigned types the question itself draws a warning. */
INLINE bool negative(int64_t x) { return x < 0; }
/* Division by zero gives 0; the one quotient that overflows wraps. */
#define INTEGER_DIVISION(s, T, U)                                                                 \
  INLINE T floor_mod_##s(T a, T b) {                                                              \
    if (b == 0 || b == (T) - 1) return (T)(b == 0 || (T) - 1 < 0 ? 0 : a % b);                    \
    T r = (T)(a % b);                                                                             \
    return (T)(r != 0 && negative(r) != negative(b) ? r + b : r);                                 \
  }                                                                                               \
  INLINE T floor_div_##s(T a, T b) {                                                              \
    if (b == 0) return 0;                                                                         \
    if ((T) - 1 < 0 && b == (T) - 1) return (T)(0 - (U)a);                                        \
    T q = (T)(a / b);                                                                             \
    return (T)(a % b != 0 && negative(a) != negative(b) ? q - 1 : q);                             \
  }                                                                                               \
  /* By squaring, wrapping; a negative exponent truncates the fraction. */                        \
  INLINE T power_##s(T a, T b) {                                                                  \
    if (negative(b)) return (T)(a == 1 ? 1 : (T) - 1 < 0 && a == (T) - 1 ? (b % 2 ? -1 : 1) : 0); \
    U x = (U)a, y = 1;                                                                            \
    for (T e = b; e > 0; e = (T)(e / 2)) {                                                        \
      if (e % 2) y = (U)(y * x);                                                                  \
      x = (U)(x * x);                                                                             \
    }                                                                                             \
    return (T)y;                                                                                  \
  }
INTEGER_DIVISION(i8, int8_t, uint32_t)
INTEGER_DIVISION(u8, uint8_t, uint32_t)
INTEGER_DIVISION(i32, int32_t, uint32_t)
INTEGER_DIVISION(i64, int64_t, uint64_t)

/* One operand x of floating type T. A NaN stays one. */
/* clang-format off */
#define FLOATS_1(X, s, T)                                                               \
  X(IDENTITY, s, T, x)                                                                  \
  X(ABS, s, T, fabs(x))                                                                 \
  X(NEG, s, T, -x)                                                                      \
  X(SIGN, s, T, x > 0 ? 1 : x < 0 ? -1 : x)                                             \
  X(CEIL, s, T, ceil(x))                                                                \
  X(FLOOR, s, T, floor(x))                                                              \
  X(ROUND, s, T, rint(x))                                                               \
  X(SQRT, s, T, sqrt(x))                                                                \
  X(RSQRT, s, T, 1 / sqrt(x))                                                           \
  X(SQUARE, s, T, x * x)                                                                \
  X(RECIPROCAL, s, T, 1 / x)                                                            \
  X(RELU, s, T, x <= 0 ? 0 : x)                                                         \
  X(RELU6, s, T, x <= 0 ? 0 : x > 6 ? 6 : x)                                            \
  X(LEAKY_RELU, s, T, x >= 0 ? x : p0 * x)                                              \
  X(SOFTSIGN, s, T, x / (1 + fabs(x)))                                                  \
  X(HARD_SIGMOID, s, T, clip_##s((T)0.2 * x + (T)0.5, 0, 1))                            \
  X(CLIP, s, T, clip_##s(x, p0, p1))
#define TESTS(X, s, T)                                                                  \
  X(IS_NAN, s, T, x != x)                                                               \
  X(IS_INF, s, T, fabs(x) == (T)INFINITY)                                               \
  X(IS_FINITE, s, T, fabs(x) < (T)INFINITY)
/* clang-format on */
/* Two operands a and b. */
/* clang-format off */
#define FLOATS_2(X, s, T)                                                               \
  X(ADD, s, T, a + b)                                                                   \
  X(SUB, s, T, a - b)                                                                   \
  X(MUL, s, T, a * b)                                                                   \
  X(DIV, s, T, a / b)                                                                   \
  X(MAXIMUM, s, T, ((a > b) | (a != a)) ? a : b)                                        \
  X(MINIMUM, s, T, ((a < b) | (a != a)) ? a : b)                                        \
  X(MOD, s, T, floor_mod_##s(a, b))                                                     \
  X(FLOORDIV, s, T, floor(a / b))                                                       \
  X(SQUARED_DIFFERENCE, s, T, (a - b) * (a - b))                                        \
  X(RELU_GRAD, s, T, b > 0 ? a : 0)                                                     \
  X(RELU6_GRAD, s, T, ((b > 0) & (b < 6)) ? a : 0)                                      \
  X(LEAKY_RELU_GRAD, s, T, b >= 0 ? a : p0 * a)                                         \
  X(ELU_GRAD, s, T, b > 0 ? a : a * (b + p0))                                           \
  X(SELU_GRAD, s, T, a * (b > 0 ? (T)SELU_SCALE : b + (T)(SELU_SCALE * SELU_ALPHA)))    \
  X(SIGMOID_GRAD, s, T, a * b * (1 - b))                                                \
  X(TANH_GRAD, s, T, a * (1 - b * b))                                                   \
  X(SOFTSIGN_GRAD, s, T, a / ((1 + fabs(b)) * (1 + fabs(b))))                           \
  X(HARD_SIGMOID_GRAD, s, T, fabs(b) < (T)2.5 ? (T)0.2 * a : 0)                         \
  X(CLIP_GRAD, s, T, ((p0 <= b) & (b <= p1)) ? a : 0)                                   \
  X(SQRT_GRAD, s, T, (T)0.5 * a / b)                                                    \
  X(RSQRT_GRAD, s, T, (T)-0.5 * a * b * b * b)                                          \
  X(RECIPROCAL_GRAD, s, T, -a * b * b)
/* clang-format on */
/* Integers wrap: their arithmetic is done in the unsigned type U. */
/* clang-format off */
#define INTEGERS_1(X, s, T, U)                                                          \
  X(IDENTITY, s, T, x)                                                                  \
  X(ABS, s, T, (T)(negative(x) ? 0 - (U)x : (U)x))                                            \
  X(NEG, s, T, (T)(0 - (U)x))                                                           \
  X(SIGN, s, T, (T)((x > 0) - negative(x)))                                               \
  X(CEIL, s, T, x)                                                                      \
  X(FLOOR, s, T, x)                                                                     \
  X(ROUND, s, T, x)                                                                     \
  X(SQUARE, s, T, (T)((U)x * (U)x))                                                     \
  X(RELU, s, T, negative(x) ? 0 : x)                                                          \
  X(RELU6, s, T, negative(x) ? 0 : x > 6 ? 6 : x)                                             \
  X(CLIP, s, T, clip_##s(x, p0, p1))
#define INTEGERS_2(X, s, T, U)                                                          \
  X(ADD, s, T, (T)((U)a + (U)b))                                                        \
  X(SUB, s, T, (T)((U)a - (U)b))                                                        \
  X(MUL, s, T, (T)((U)a * (U)b))                                                        \
  X(POW, s, T, power_##s(a, b))                                                         \
  X(MAXIMUM, s, T, a > b ? a : b)                                                       \
  X(MINIMUM, s, T, a < b ? a : b)                                                       \
  X(MOD, s, T, floor_mod_##s(a, b))                                                     \
  X(FLOORDIV, s, T, floor_div_##s(a, b))                                                \
  X(SQUARED_DIFFERENCE, s, T, (T)(((U)a - (U)b) * ((U)a - (U)b)))
#define COMPARISONS(X, s, T)                                                            \
  X(EQUAL, s, T, a == b)                                                                \
  X(NOT_EQUAL, s, T, a != b)                                                            \
  X(LESS, s, T, a < b)                                                                  \
  X(LESS_EQUAL, s, T, a <= b)                                                           \
  X(GREATER, s, T, a > b)                                                               \
  X(GREATER_EQUAL, s, T, a >= b)
#define LOGIC(X, s, T)                                                                  \
  X(LOGICAL_AND, s, T, (a != 0) & (b != 0))                                             \
  X(LOGICAL_OR, s, T, (a != 0) | (b != 0))                                              \
  X(LOGICAL_XOR, s, T, (a != 0) ^ (b != 0))
/* clang-format on */

#define CLIP(s, dtype, T)                 \
  INLINE T clip_##s(T x, T low, T high) { \
    T y = x < low ? low : x;              \
    return y > high ? high : y;           \
  }
TYPES(CLIP)
#undef CLIP

#define ONE(id, s, T, R, loop, e)                                                         \
  INLINE R at_##s##_##id(T x, T p0, T p1) { return (void)x, (void)p0, (void)p1, (R)(e); } \
  static void s##_##id(ARGUMENTS) { loop(at_##s##_##id, in, single, out, n, p); }
#define TWO(id, s, T, R, loop, e)                                                     \
  INLINE R at_##s##_##id(T a, T b, T p0, T p1) { return (void)p0, (void)p1, (R)(e); } \
  static void s##_##id(ARGUMENTS) { loop(at_##s##_##id, in, single, out, n, p); }

#define MAP_1(id, s, T, e) ONE(id, s, T, T, map_1_##s, e)
#define MAP_2(id, s, T, e) TWO(id, s, T, T, map_2_##s, e)
#define TEST(id, s, T, e) ONE(id, s, T, uint8_t, test_##s, e)
#define COMPARE(id, s, T, e) TWO(id, s, T, uint8_t, compare_##s, e)
/* clang-format off */
FLOATS_1(MAP_1, f32, float) FLOATS_2(MAP_2, f32, float) TESTS(TEST, f32, float) COMPARISONS(COMPARE, f32, float)
FLOATS_1(MAP_1, f64, double) FLOATS_2(MAP_2, f64, double) TESTS(TEST, f64, double) COMPARISONS(COMPARE, f64, double)
#define INTEGERS(s, T, U) INTEGERS_1(MAP_1, s, T, U) INTEGERS_2(MAP_2, s, T, U) COMPARISONS(COMPARE, s, T)
INTEGERS(i8, int8_t, uint8_t)
INTEGERS(u8, uint8_t, uint8_t)
INTEGERS(i32, int32_t, uint32_t)
INTEGERS(i64, int64_t, uint64_t)
LOGIC(MAP_2, u8, uint8_t)
MAP_1(LOGICAL_NOT, u8, uint8_t, x == 0)
    /* clang-format on */

    void FILL(elementwise)(Kernels *k) {
  /* clang-format off */
#define F32_ROW(id, s, T, e) k->strip[EW_##id][F32] = s##_##id;
  FLOATS_1(F32_ROW, f32, ) FLOATS_2(F32_ROW, f32, ) TESTS(F32_ROW, f32, ) COMPARISONS(F32_ROW, f32, )
#define F64_ROW(id, s, T, e) k->strip[EW_##id][F64] = s##_##id;
  FLOATS_1(F64_ROW, f64, ) FLOATS_2(F64_ROW, f64, ) TESTS(F64_ROW, f64, ) COMPARISONS(F64_ROW, f64, )
#define I8_ROW(id, s, T, e) k->strip[EW_##id][I8] = s##_##id;
  INTEGERS_1(I8_ROW, i8, , ) INTEGERS_2(I8_ROW, i8, , ) COMPARISONS(I8_ROW, i8, )
#define U8_ROW(id, s, T, e) k->strip[EW_##id][U8] = s##_##id;
  INTEGERS_1(U8_ROW, u8, , ) INTEGERS_2(U8_ROW, u8, , ) COMPARISONS(U8_ROW, u8, )
#define I32_ROW(id, s, T, e) k->strip[EW_##id][I32] = s##_##id;
  INTEGERS_1(I32_ROW, i32, , ) INTEGERS_2(I32_ROW, i32, , ) COMPARISONS(I32_ROW, i32, )
#define I64_ROW(id, s, T, e) k->strip[EW_##id][I64] = s##_##id;
  INTEGERS_1(I64_ROW, i64, , ) INTEGERS_2(I64_ROW, i64, , ) COMPARISONS(I64_ROW, i64, )
/* A bool is a byte 0 or 1. */
#define BOOL_ROW(id, s, T, e) k->strip[EW_##id][BOOL] = s##_##id;
  COMPARISONS(BOOL_ROW, u8, ) LOGIC(BOOL_ROW, u8, ) BOOL_ROW(LOGICAL_NOT, u8, , )
  BOOL_ROW(IDENTITY, u8, , ) BOOL_ROW(MAXIMUM, u8, , ) BOOL_ROW(MINIMUM, u8, , )
      /* clang-format on */
      k->strip[EW_WHERE][BOOL] = k->strip[EW_WHERE][I8] = k->strip[EW_WHERE][U8] = where_1;
  k->strip[EW_WHERE][F32] = k->strip[EW_WHERE][I32] = where_4;
  k->strip[EW_WHERE][F64] = k->strip[EW_WHERE][I64] = where_8;
}
