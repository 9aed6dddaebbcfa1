/* Conversions between all element types. float → integer truncates towards zero and saturates; a
 * NaN becomes the smallest int32 or int64. int8 and uint8 take the low bits of that int32, as
 * integer → integer does: -1.0 becomes 255 in uint8. Any type → bool is x != 0. The half types go
 * through float32, without rounding twice. */
#include "kernels/fill.h"
#include "kernels/simd.h"

#include <math.h>

#define ARGUMENTS const void *const *in, unsigned single, void *out, int64_t n, const double *p

/* From a floating type T: below the limits nothing overflows; elements beyond them are corrected
 * after the conversion. */
#define FROM_FLOAT(s, T, below_2_31, below_2_63)                                 \
  INLINE int32_t s##_to_i32(T x) {                                               \
    T safe = x >= (T) - 2147483648.0 ? x : (T) - 2147483648.0;                   \
    int32_t y = (int32_t)(safe > (below_2_31) ? (below_2_31) : safe);            \
    return x >= (T)2147483648.0 ? INT32_MAX : y;                                 \
  }                                                                              \
  INLINE int8_t s##_to_i8(T x) { return (int8_t)s##_to_i32(x); }                 \
  INLINE uint8_t s##_to_u8(T x) { return (uint8_t)s##_to_i32(x); }               \
  INLINE int64_t s##_to_i64(T x) {                                               \
    T safe = x >= (T) - 9223372036854775808.0 ? x : (T) - 9223372036854775808.0; \
    int64_t y = (int64_t)(safe > (below_2_63) ? (below_2_63) : safe);            \
    return x >= (T)9223372036854775808.0 ? INT64_MAX : y;                        \
  }                                                                              \
  INLINE float s##_to_f32(T x) { return (float)x; }                              \
  INLINE double s##_to_f64(T x) { return (double)x; }                            \
  INLINE uint8_t s##_to_truth(T x) { return x != 0; }
FROM_FLOAT(f32, float, 2147483520.0f, 9223371487098961920.0f)
FROM_FLOAT(f64, double, 2147483647.0, 9223372036854774784.0)

#define FROM_INTEGER(s, T)                              \
  INLINE int8_t s##_to_i8(T x) { return (int8_t)x; }    \
  INLINE uint8_t s##_to_u8(T x) { return (uint8_t)x; }  \
  INLINE int32_t s##_to_i32(T x) { return (int32_t)x; } \
  INLINE int64_t s##_to_i64(T x) { return (int64_t)x; } \
  INLINE float s##_to_f32(T x) { return (float)x; }     \
  INLINE double s##_to_f64(T x) { return (double)x; }   \
  INLINE uint8_t s##_to_truth(T x) { return x != 0; }
FROM_INTEGER(i8, int8_t)
FROM_INTEGER(u8, uint8_t)
FROM_INTEGER(i32, int32_t)
FROM_INTEGER(i64, int64_t)
/* A bool is 0 or 1 whatever its byte. */
INLINE int8_t truth_to_i8(uint8_t x) { return x != 0; }
INLINE uint8_t truth_to_u8(uint8_t x) { return x != 0; }
INLINE int32_t truth_to_i32(uint8_t x) { return x != 0; }
INLINE int64_t truth_to_i64(uint8_t x) { return x != 0; }
INLINE float truth_to_f32(uint8_t x) { return x != 0 ? 1 : 0; }
INLINE double truth_to_f64(uint8_t x) { return x != 0 ? 1 : 0; }
INLINE uint8_t truth_to_truth(uint8_t x) { return x != 0; }

/* A float64 on the way to a half type: float32, rounded to odd. Where it can't be exact, it is
 * rounded towards zero and its last bit is set. The second rounding then equals one direct
 * rounding. */
INLINE float f64_to_odd(double x) {
  float f = (float)x;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  bits -= fabs((double)f) > fabs(x); /* from infinity, too */
  bits |= 1;
  float odd;
  memcpy(&odd, &bits, sizeof odd);
  return (double)f == x || x != x ? f : odd;
}
INLINE float i64_to_odd(int64_t x) {
  bool wide = x <= -(INT64_C(1) << 53) || x >= INT64_C(1) << 53; /* more bits than a double has */
  int64_t low = wide ? x & 0x7ff : 0;
  return f64_to_odd((double)(low ? (x - low) | 0x800 : x));
}
INLINE float i32_to_odd(int32_t x) { return f64_to_odd(x); }
INLINE float f32_to_odd(float x) { return x; }
INLINE float i8_to_odd(int8_t x) { return x; }
INLINE float u8_to_odd(uint8_t x) { return x; }
INLINE float truth_to_odd(uint8_t x) { return x != 0 ? 1 : 0; }

#define LOOP(from, T, to, R)                                                   \
  static void from##_##to(ARGUMENTS) {                                         \
    const T *x = in[0];                                                        \
    R *y = out;                                                                \
    (void)p;                                                                   \
    if (single & 1) {                                                          \
      R v = from##_to_##to(x[0]);                                              \
      INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = v;                    \
    } else {                                                                   \
      INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = from##_to_##to(x[i]); \
    }                                                                          \
  }
/* The types that C computes with, as source and as target. */
#define PLAIN(X)      \
  X(f32, F32, float)  \
  X(f64, F64, double) \
  X(i8, I8, int8_t)   \
  X(u8, U8, uint8_t) X(i32, I32, int32_t) X(i64, I64, int64_t) X(truth, BOOL, uint8_t)
/* clang-format off */
#define FROM(from, F, T)                                                                                        \
  LOOP(from, T, f32, float) LOOP(from, T, f64, double) LOOP(from, T, i8, int8_t) LOOP(from, T, u8, uint8_t)      \
  LOOP(from, T, i32, int32_t) LOOP(from, T, i64, int64_t) LOOP(from, T, truth, uint8_t)  \
  LOOP(from, T, odd, float)
/* clang-format on */
PLAIN(FROM)
#undef FROM

static void widen(const f16 *x, float *y, int64_t n) {
  int64_t i = 0;
  for (; i + F32_LANES <= n; i += F32_LANES) store_f32(y + i, load_f16(x + i));
  for (; i < n; i++) y[i] = widen_one_f16(x[i]);
}
static void narrow(const float *x, f16 *y, int64_t n) {
  int64_t i = 0;
  for (; i + F32_LANES <= n; i += F32_LANES) store_f16(y + i, load_f32(x + i));
  for (; i < n; i++) y[i] = narrow_one_f16(x[i]);
}
static void widen_b(const bf16 *x, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)x[i] << 16;
    memcpy(y + i, &bits, sizeof bits);
  }
}
static void narrow_b(const float *x, bf16 *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
    y[i] = (bf16)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
  }
}

/* x / by as a product with 1 / by. If `by` is far from the ends of the range, a fused multiply-add
 * gives the exact remainder of a byte. Corrected by it once, the product is within a unit of its
 * last place. Corrected twice, it is the rounded quotient (Markstein 1990). This takes half of the
 * time of divisions. */
static void divide_bytes(const uint8_t *x, float by, float *y, int64_t n) {
#if defined(__FMA__)
  if (fabsf(by) >= 0x1p-60f && fabsf(by) <= 0x1p60f) {
    float reciprocal = 1 / by;
    INDEPENDENT for (int64_t i = 0; i < n; i++) {
      float byte = x[i], q = byte * reciprocal;
      q = __builtin_fmaf(__builtin_fmaf(-q, by, byte), reciprocal, q);
      y[i] = __builtin_fmaf(__builtin_fmaf(-q, by, byte), reciprocal, q);
    }
    return;
  }
#endif
  INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = (float)x[i] / by;
}

/* Half types by way of blocks of float32. */
enum { BLOCK = 512 };
#define HALF(half, T, widen_half, narrow_half, other, R) \
  static void half##_##other(ARGUMENTS) {                \
    const T *x = in[0];                                  \
    R *y = out;                                          \
    float block[BLOCK];                                  \
    const void *from[1] = {block};                       \
    if (single & 1 && n > 0) {                           \
      widen_half(x, block, 1);                           \
      f32_##other(from, 1, out, n, p);                   \
      return;                                            \
    }                                                    \
    for (int64_t i = 0; i < n; i += BLOCK) {             \
      int64_t count = n - i < BLOCK ? n - i : BLOCK;     \
      widen_half(x + i, block, count);                   \
      f32_##other(from, 0, y + i, count, p);             \
    }                                                    \
  }                                                      \
  static void other##_##half(ARGUMENTS) {                \
    const R *x = in[0];                                  \
    T *y = out;                                          \
    float block[BLOCK];                                  \
    for (int64_t i = 0; i < n; i += BLOCK) {             \
      int64_t count = n - i < BLOCK ? n - i : BLOCK;     \
      const void *from[1] = {single & 1 ? x : x + i};    \
      other##_odd(from, single, block, count, p);        \
      narrow_half(block, y + i, count);                  \
    }                                                    \
  }
/* clang-format off */
#define X(other, D, R)                              \
  HALF(f16, f16, widen, narrow, other, R)           \
  HALF(bf16, bf16, widen_b, narrow_b, other, R)
/* clang-format on */
PLAIN(X)
#undef X
/* Between float32 and a half type no block is needed; between the half types themselves it is. */
#define DIRECT(name, T, R, convert)              \
  static void name##_direct(ARGUMENTS) {         \
    if (single & 1) name(in, single, out, n, p); \
    else convert(in[0], out, n);                 \
  }
DIRECT(f16_f32, f16, float, widen)
DIRECT(f32_f16, float, f16, narrow)
DIRECT(bf16_f32, bf16, float, widen_b)
DIRECT(f32_bf16, float, bf16, narrow_b)
#define BETWEEN(name, T, R, widen_half, narrow_half)             \
  static void name(ARGUMENTS) {                                  \
    const T *x = in[0];                                          \
    R *y = out;                                                  \
    float block[BLOCK];                                          \
    (void)p;                                                     \
    for (int64_t i = 0; i < n; i += BLOCK) {                     \
      int64_t count = n - i < BLOCK ? n - i : BLOCK;             \
      if (single & 1) {                                          \
        widen_half(x, block, 1);                                 \
        for (int64_t j = 1; j < count; j++) block[j] = block[0]; \
      } else {                                                   \
        widen_half(x + i, block, count);                         \
      }                                                          \
      narrow_half(block, y + i, count);                          \
    }                                                            \
  }
BETWEEN(f16_bf16, f16, bf16, widen, narrow_b)
BETWEEN(bf16_f16, bf16, f16, widen_b, narrow)
/* The same half type: bits are kept. */
static void same_half(ARGUMENTS) {
  const uint16_t *x = in[0];
  uint16_t *y = out;
  int64_t step = single & 1 ? 0 : 1;
  (void)p;
  INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = x[i * step];
}

void FILL(cast)(Kernels *k) {
  k->divide_bytes = divide_bytes;
#define X(from, D, T)                                                                          \
  k->cast[D][F32] = from##_f32, k->cast[D][F64] = from##_f64, k->cast[D][I8] = from##_i8,      \
  k->cast[D][U8] = from##_u8;                                                                  \
  k->cast[D][I32] = from##_i32, k->cast[D][I64] = from##_i64, k->cast[D][BOOL] = from##_truth; \
  k->cast[F16][D] = f16_##from, k->cast[D][F16] = from##_f16;                                  \
  k->cast[BF16][D] = bf16_##from, k->cast[D][BF16] = from##_bf16;
  PLAIN(X)
#undef X
  k->cast[F16][F32] = f16_f32_direct, k->cast[F32][F16] = f32_f16_direct;
  k->cast[BF16][F32] = bf16_f32_direct, k->cast[F32][BF16] = f32_bf16_direct;
  k->cast[F16][BF16] = f16_bf16, k->cast[BF16][F16] = bf16_f16;
  k->cast[F16][F16] = k->cast[BF16][BF16] = same_half;
}
