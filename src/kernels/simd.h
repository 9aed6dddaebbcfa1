/* The vector types of kernels. This is the only file that knows instruction sets. A vector has the
 * width of the hardware's registers, F32_LANES or F64_LANES lanes, as wider ones would be spilled
 * to memory. The sixteen partial sums, which must not depend on the width, are PARTS vectors. */
#ifndef IPULUA_KERNELS_SIMD_H
#define IPULUA_KERNELS_SIMD_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

typedef float f32v __attribute__((vector_size(VECTOR_BYTES)));
typedef double f64v __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t i32v __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t u32v __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t i64v __attribute__((vector_size(VECTOR_BYTES)));
/* The same, at any address of an element. */
typedef float f32v_any __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef double f64v_any __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));

enum {
  F32_LANES = VECTOR_BYTES / 4,
  F64_LANES = VECTOR_BYTES / 8,
  SUMS = 16,                    /* partial sums of a reduction, on every instruction set */
  F32_PARTS = SUMS / F32_LANES, /* vectors that hold them */
  F64_PARTS = SUMS / F64_LANES
};

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* these are permissions, not demands */
#define UNROLL _Pragma("clang loop unroll(full)")
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#define INDEPENDENT \
  _Pragma("GCC ivdep") /* no iteration reads what another writes: out is an operand or disjoint */
#endif

/* Register tiles of products: X(rows, vectors), each so that accumulators, operands and nothing
 * else fill the registers. */
#if defined(__AVX512F__)
enum { TILE_ROWS_1 = 16, TILE_ROWS_2 = 14, TILE_ROWS_3 = 9 };
/* clang-format off */
#define TILES_1(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1) X(7, 1) X(8, 1) X(9, 1) X(10, 1) X(11, 1) X(12, 1) \
  X(13, 1) X(14, 1) X(15, 1) X(16, 1)
/* clang-format on */
#define TILES_2(X) \
  X(1, 2)          \
  X(2, 2)          \
  X(3, 2)          \
  X(4, 2) X(5, 2) X(6, 2) X(7, 2) X(8, 2) X(9, 2) X(10, 2) X(11, 2) X(12, 2) X(13, 2) X(14, 2)
#define TILES_3(X) X(1, 3) X(2, 3) X(3, 3) X(4, 3) X(5, 3) X(6, 3) X(7, 3) X(8, 3) X(9, 3)
#else
enum { TILE_ROWS_1 = 8, TILE_ROWS_2 = 6, TILE_ROWS_3 = 4 };
#define TILES_1(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1) X(7, 1) X(8, 1)
#define TILES_2(X) X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2)
#define TILES_3(X) X(1, 3) X(2, 3) X(3, 3) X(4, 3)
#endif

INLINE f32v load_f32(const float *p) { return *(const f32v_any *)p; }
INLINE void store_f32(float *p, f32v v) { *(f32v_any *)p = v; }
INLINE f64v load_f64(const double *p) { return *(const f64v_any *)p; }
INLINE void store_f64(double *p, f64v v) { *(f64v_any *)p = v; }

/* The first n lanes, 0 <= n <= the lane count; the others are zero, their memory isn't touched. A
 * count that the compiler knows to be whole is an ordinary load or store. On AVX2 no lane may pass
 * through memory: a vector load has to wait for eight stores of a lane each. */
#if defined(__AVX512F__)
INLINE __mmask16 first_f32(int64_t n) { return (__mmask16)((1u << n) - 1); }
INLINE __mmask8 first_f64(int64_t n) { return (__mmask8)((1u << n) - 1); }
INLINE f32v load_first_f32(const float *p, int64_t n) {
  return (f32v)_mm512_maskz_loadu_ps(first_f32(n), p);
}
INLINE void store_first_f32(float *p, int64_t n, f32v v) {
  _mm512_mask_storeu_ps(p, first_f32(n), (__m512)v);
}
INLINE f64v load_first_f64(const double *p, int64_t n) {
  return (f64v)_mm512_maskz_loadu_pd(first_f64(n), p);
}
INLINE void store_first_f64(double *p, int64_t n, f64v v) {
  _mm512_mask_storeu_pd(p, first_f64(n), (__m512d)v);
}
#elif defined(__AVX2__)
INLINE i32v first_f32(int64_t n) { return (i32v){0, 1, 2, 3, 4, 5, 6, 7} < (int32_t)n; }
INLINE i64v first_f64(int64_t n) { return (i64v){0, 1, 2, 3} < n; }
INLINE f32v load_first_f32(const float *p, int64_t n) {
  return (f32v)_mm256_maskload_ps(p, (__m256i)first_f32(n));
}
INLINE f64v load_first_f64(const double *p, int64_t n) {
  return (f64v)_mm256_maskload_pd(p, (__m256i)first_f64(n));
}
/* Not the masked store, which takes many times as long as one whole on some processors. */
INLINE void store_first_f32(float *p, int64_t n, f32v v) {
  __m128 part = _mm256_castps256_ps128((__m256)v);
  if (n & 8) {
    _mm256_storeu_ps(p, (__m256)v);
    return;
  }
  if (n & 4) {
    _mm_storeu_ps(p, part);
    part = _mm256_extractf128_ps((__m256)v, 1);
    p += 4;
  }
  if (n & 2) {
    _mm_storel_pi((__m64 *)(void *)p, part);
    part = _mm_movehl_ps(part, part);
    p += 2;
  }
  if (n & 1) _mm_store_ss(p, part);
}
INLINE void store_first_f64(double *p, int64_t n, f64v v) {
  __m128d part = _mm256_castpd256_pd128((__m256d)v);
  if (n & 4) {
    _mm256_storeu_pd(p, (__m256d)v);
    return;
  }
  if (n & 2) {
    _mm_storeu_pd(p, part);
    part = _mm256_extractf128_pd((__m256d)v, 1);
    p += 2;
  }
  if (n & 1) _mm_store_sd(p, part);
}
#else
INLINE i32v first_f32(int64_t n) { return (i32v){0, 1, 2, 3} < (int32_t)n; }
INLINE f32v load_first_f32(const float *p, int64_t n) {
  f32v v = {0};
  for (int64_t l = 0; l < n; l++) v[l] = p[l];
  return v;
}
INLINE void store_first_f32(float *p, int64_t n, f32v v) {
  for (int64_t l = 0; l < n; l++) p[l] = v[l];
}
INLINE f64v load_first_f64(const double *p, int64_t n) {
  f64v v = {0};
  for (int64_t l = 0; l < n; l++) v[l] = p[l];
  return v;
}
INLINE void store_first_f64(double *p, int64_t n, f64v v) {
  for (int64_t l = 0; l < n; l++) p[l] = v[l];
}
#endif

#define IS_WHOLE(n, lanes) (__builtin_constant_p(n) && (n) == (lanes))
INLINE f32v load_some_f32(const float *p, int64_t n) {
  return IS_WHOLE(n, F32_LANES) ? load_f32(p) : load_first_f32(p, n);
}
INLINE f64v load_some_f64(const double *p, int64_t n) {
  return IS_WHOLE(n, F64_LANES) ? load_f64(p) : load_first_f64(p, n);
}
INLINE void store_some_f32(float *p, int64_t n, f32v v) {
  if (IS_WHOLE(n, F32_LANES)) store_f32(p, v);
  else store_first_f32(p, n, v);
}
INLINE void store_some_f64(double *p, int64_t n, f64v v) {
  if (IS_WHOLE(n, F64_LANES)) store_f64(p, v);
  else store_first_f64(p, n, v);
}

/* The first n lanes from memory, the others from v. */
INLINE f32v load_some_over_f32(const float *p, int64_t n, f32v v) {
#if defined(__AVX512F__)
  return (f32v)_mm512_mask_loadu_ps((__m512)v, first_f32(n), p);
#else
  i32v first = first_f32(n);
  return (f32v)(((i32v)load_some_f32(p, n) & first) | ((i32v)v & ~first));
#endif
}
/* The first n lanes of v, zero in the others. */
INLINE f32v keep_some_f32(f32v v, int64_t n) {
#if defined(__AVX512F__)
  return (f32v)_mm512_maskz_mov_ps(first_f32(n), (__m512)v);
#else
  return (f32v)((i32v)v & first_f32(n));
#endif
}

INLINE f32v splat_f32(float x) { return x - (f32v){0}; }
INLINE f64v splat_f64(double x) { return x - (f64v){0}; }
INLINE i32v splat_i32(int32_t x) { return x - (i32v){0}; }

/* a b + c: in one rounding where the instruction set has it. */
#if defined(__AVX512F__)
INLINE f32v fma_f32(f32v a, f32v b, f32v c) {
  return (f32v)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
INLINE f64v fma_f64(f64v a, f64v b, f64v c) {
  return (f64v)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
#elif defined(__AVX2__)
INLINE f32v fma_f32(f32v a, f32v b, f32v c) {
  return (f32v)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
INLINE f64v fma_f64(f64v a, f64v b, f64v c) {
  return (f64v)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#else
INLINE f32v fma_f32(f32v a, f32v b, f32v c) { return a * b + c; }
INLINE f64v fma_f64(f64v a, f64v b, f64v c) { return a * b + c; }
#endif

/* a < b ? yes : no, in each lane; a NaN says no. */
INLINE f32v select_less_f32(f32v a, f32v b, f32v yes, f32v no) {
#if defined(__AVX512F__)
  return (f32v)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ),
                                    (__m512)no, (__m512)yes);
#else
  i32v m = a < b;
  return (f32v)((m & (i32v)yes) | (~m & (i32v)no));
#endif
}
INLINE f32v select_equal_f32(f32v a, f32v b, f32v yes, f32v no) {
#if defined(__AVX512F__)
  return (f32v)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ),
                                    (__m512)no, (__m512)yes);
#else
  i32v m = a == b;
  return (f32v)((m & (i32v)yes) | (~m & (i32v)no));
#endif
}
/* max is a > b ? a : b, and min is a < b ? a : b. With a NaN the result is b. So the operand whose
 * NaN must survive is the second. */
INLINE f32v max_f32(f32v a, f32v b) {
#if defined(__AVX512F__)
  return (f32v)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (f32v)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return select_less_f32(b, a, a, b);
#endif
}
INLINE f32v min_f32(f32v a, f32v b) {
#if defined(__AVX512F__)
  return (f32v)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (f32v)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return select_less_f32(a, b, a, b);
#endif
}
INLINE f32v abs_f32(f32v x) { return (f32v)((i32v)x & 0x7fffffff); }
/* The magnitude of x (which is not negative) with the sign of s. */
INLINE f32v with_sign_f32(f32v x, f32v s) { return (f32v)((i32v)x | ((i32v)s & INT32_MIN)); }

/* The nearest integer, half to even; |x| < 2^22. */
INLINE f32v nearest_f32(f32v x) {
#if defined(__AVX512F__)
  return (f32v)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
  return (f32v)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  /* 1.5 * 2^23: adding it leaves no bit for the fraction */
  const f32v magic = splat_f32(12582912.0f);
  return (x + magic) - magic;
#endif
}
INLINE i32v to_i32(f32v x) { return __builtin_convertvector(x, i32v); } /* towards zero; in range */
INLINE f32v to_f32(i32v x) { return __builtin_convertvector(x, f32v); }

/* x 2^n for an integral n, |n| < 252, with one rounding. x is about 1: in [0.5, 2) or near. */
INLINE f32v scale_f32(f32v x, f32v n) {
#if defined(__AVX512F__)
  return (f32v)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
  i32v e = to_i32(n), half = e >> 1;
  f32v first = (f32v)((half + 127) << 23), second = (f32v)((e - half + 127) << 23);
  return x * first * second;
#endif
}
/* Whether a > b in some lane. */
INLINE bool any_greater_f32(f32v a, f32v b) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GT_OQ)) != 0;
#else
  i32v m = a > b;
  int32_t any = 0;
  for (int l = 0; l < F32_LANES; l++) any |= m[l];
  return any != 0;
#endif
}

/* The sum and the maximum of SUMS lanes held in parts: halves onto halves, the same order on
 * every instruction set. */
#if VECTOR_BYTES == 64
#define HALVES(V, v, f)                                                                            \
  V w = f(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, \
                                     15));                                                         \
  w = f(w, __builtin_shufflevector(w, w, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7));         \
  w = f(w, __builtin_shufflevector(w, w, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3));         \
  return f(w, __builtin_shufflevector(w, w, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1))[0];
#elif VECTOR_BYTES == 32
#define HALVES(V, v, f)                                              \
  V w = f(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7)); \
  w = f(w, __builtin_shufflevector(w, w, 2, 3, 2, 3, 2, 3, 2, 3));   \
  return f(w, __builtin_shufflevector(w, w, 1, 1, 1, 1, 1, 1, 1, 1))[0];
#else
#define HALVES(V, v, f)                                  \
  V w = f(v, __builtin_shufflevector(v, v, 2, 3, 2, 3)); \
  return f(w, __builtin_shufflevector(w, w, 1, 1, 1, 1))[0];
#endif
INLINE f32v add_f32(f32v a, f32v b) { return a + b; }
INLINE float lanes_sum_f32(f32v v){HALVES(f32v, v, add_f32)} INLINE
    float lanes_max_f32(f32v v){HALVES(f32v, v, max_f32)} INLINE
    float fold_sum_f32(const f32v *parts) {
  f32v p[F32_PARTS];
  UNROLL for (int i = 0; i < F32_PARTS; i++) p[i] = parts[i];
  UNROLL for (int half = F32_PARTS / 2; half > 0; half /= 2) UNROLL for (int i = 0; i < half; i++)
      p[i] += p[i + half];
  return lanes_sum_f32(p[0]);
}

/* float16 in memory, float32 in lanes. A NaN keeps its sign and the upper bits of its payload,
 * and is quiet. */
INLINE float widen_one_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023, bits;
  if (exponent == 31) bits = 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0);
  else if (exponent) bits = (exponent + 112) << 23 | fraction << 13;
  else {
    float small = (float)fraction * 0x1p-24f;
    memcpy(&bits, &small, sizeof bits);
  }
  bits |= sign;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}
INLINE uint16_t narrow_one_f16(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and more */
  /* below 2^-14: in steps of 2^-24 */
  if (magnitude < 0x38800000) {
    float small;
    memcpy(&small, &magnitude, sizeof small);
    small += 0.5f; /* whose steps are 2^-24 */
    memcpy(&magnitude, &small, sizeof magnitude);
    return (uint16_t)(sign | (magnitude - 0x3f000000));
  }
  return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
}
INLINE f32v load_f16(const uint16_t *h) {
#if defined(__AVX512F__)
  return (f32v)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)h));
#elif defined(__AVX2__)
  return (f32v)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)h));
#else
  f32v v;
  for (int l = 0; l < F32_LANES; l++) v[l] = widen_one_f16(h[l]);
  return v;
#endif
}
INLINE void store_f16(uint16_t *h, f32v v) {
#if defined(__AVX512F__)
  _mm256_storeu_si256((__m256i *)(void *)h,
                      _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__AVX2__)
  _mm_storeu_si128((__m128i *)(void *)h, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#else
  for (int l = 0; l < F32_LANES; l++) h[l] = narrow_one_f16(v[l]);
#endif
}

/* F32_LANES vectors as rows of a square matrix, transposed in place. Blocks of one, two, four …
 * elements change sides in each step. */
#if VECTOR_BYTES == 64
INLINE f32v low_1(f32v a, f32v b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
INLINE f32v high_1(f32v a, f32v b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
INLINE f32v low_2(f32v a, f32v b) {
  return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
}
INLINE f32v high_2(f32v a, f32v b) {
  return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
INLINE f32v even_quarters(f32v a, f32v b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
}
INLINE f32v odd_quarters(f32v a, f32v b) {
  return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}
#elif VECTOR_BYTES == 32
INLINE f32v low_1(f32v a, f32v b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
}
INLINE f32v high_1(f32v a, f32v b) {
  return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}
INLINE f32v low_2(f32v a, f32v b) {
  return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
}
INLINE f32v high_2(f32v a, f32v b) {
  return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}
#else
INLINE f32v low_1(f32v a, f32v b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
INLINE f32v high_1(f32v a, f32v b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
INLINE f32v low_2(f32v a, f32v b) { return __builtin_shufflevector(a, b, 0, 1, 4, 5); }
INLINE f32v high_2(f32v a, f32v b) { return __builtin_shufflevector(a, b, 2, 3, 6, 7); }
#endif
/* The sum of all 128-bit parts, in the first. */
INLINE f32v fold_parts_f32(f32v v) {
#if VECTOR_BYTES == 64
  v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
#elif VECTOR_BYTES == 32
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7);
#endif
  return v;
}
/* Four rows: within each 128-bit part, the 4 x 4 block is transposed. */
INLINE void transpose_parts(f32v r[4]) {
  f32v a = low_1(r[0], r[1]), b = high_1(r[0], r[1]), c = low_1(r[2], r[3]), d = high_1(r[2], r[3]);
  r[0] = low_2(a, c);
  r[1] = high_2(a, c);
  r[2] = low_2(b, d);
  r[3] = high_2(b, d);
}
INLINE void transpose_square_f32(f32v r[F32_LANES]) {
  UNROLL for (int i = 0; i < F32_LANES; i += 4) transpose_parts(r + i);
#if VECTOR_BYTES == 64
  UNROLL for (int i = 0; i < 4; i++) {
    f32v a = even_quarters(r[i], r[i + 4]), b = odd_quarters(r[i], r[i + 4]);
    f32v c = even_quarters(r[i + 8], r[i + 12]), d = odd_quarters(r[i + 8], r[i + 12]);
    r[i] = even_quarters(a, c);
    r[i + 8] = odd_quarters(a, c);
    r[i + 4] = even_quarters(b, d);
    r[i + 12] = odd_quarters(b, d);
  }
#elif VECTOR_BYTES == 32
  UNROLL for (int i = 0; i < 4; i++) {
    f32v a = r[i], b = r[i + 4];
    r[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    r[i + 4] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  }
#endif
}
#endif
