/* exp, log and their kin for vectors of float32, within about 2 ulp. The coefficients are our
 * own minimax fits (weighted least squares, reweighted until the errors level out); the error of
 * the fit stands beside each. */
#ifndef IPULUA_KERNELS_VMATH_H
#define IPULUA_KERNELS_VMATH_H
#include "kernels/simd.h"

#include <math.h>

/* Returns p and n of exp(x) - 1 = 2^n (p + 1) - 1. p is exp(r) - 1, with |r| <= ln2 / 2. x is
 * within the limits of clamp_exp. */
INLINE f32v exp_parts(f32v x, f32v *n) {
  const f32v log2_e = splat_f32(0x1.715476p+0f), ln2_high = splat_f32(-0x1.63p-1f),
             ln2_low = splat_f32(0x1.bd0106p-13f);
  *n = nearest_f32(x * log2_e);
  f32v r = fma_f32(*n, ln2_low, fma_f32(*n, ln2_high, x));
  f32v q = splat_f32(0x1.6a2350p-10f); /* (exp(r) - 1 - r) / r^2: 3e-9 of exp(r) */
  q = fma_f32(q, r, splat_f32(0x1.123a6cp-7f));
  q = fma_f32(q, r, splat_f32(0x1.5558f4p-5f));
  q = fma_f32(q, r, splat_f32(0x1.555490p-3f));
  q = fma_f32(q, r, splat_f32(0x1.fffffcp-2f));
  return fma_f32(q, r * r, r);
}
/* Beyond these exp is infinite or zero whatever x is; a NaN passes. */
INLINE f32v clamp_exp(f32v x) { return min_f32(splat_f32(89.0f), max_f32(splat_f32(-104.0f), x)); }
INLINE f32v exp_f32v(f32v x) {
  f32v n, p = exp_parts(clamp_exp(x), &n);
  return scale_f32(p + 1, n);
}
/* For x within the limits. */
INLINE f32v expm1_inside(f32v x) {
  f32v n, p = exp_parts(x, &n);
  f32v half = scale_f32(splat_f32(1), n - 1); /* of 2^n: n may be 128 */
  f32v y = fma_f32(half, p, half - 0.5f);
  return y + y;
}
INLINE f32v expm1_f32v(f32v x) { return expm1_inside(clamp_exp(x)); }

/* x = 2^e m, m in [sqrt(1/2), sqrt(2)); log x = e ln2 + log m. */
INLINE f32v log_f32v(f32v x) {
  f32v tiny = splat_f32(0x1p-126f);
  f32v normal = select_less_f32(x, tiny, x * 0x1p25f, x);
  f32v bias = select_less_f32(x, tiny, splat_f32(-25), splat_f32(0));
  i32v exponent = (i32v)((u32v)normal - 0x3f3504f3u) >> 23; /* counted from sqrt(1/2) */
  f32v f = (f32v)((u32v)normal - ((u32v)exponent << 23)) - 1;
  f32v e = to_f32(exponent) + bias;
  f32v p = splat_f32(0x1.1457a2p-4f); /* (log(1 + f) - f + f^2 / 2) / f^3: 7e-10 of the log */
  p = fma_f32(p, f, splat_f32(-0x1.de3c14p-4f));
  p = fma_f32(p, f, splat_f32(0x1.e6f06cp-4f));
  p = fma_f32(p, f, splat_f32(-0x1.fc2208p-4f));
  p = fma_f32(p, f, splat_f32(0x1.233768p-3f));
  p = fma_f32(p, f, splat_f32(-0x1.555c4ep-3f));
  p = fma_f32(p, f, splat_f32(0x1.99a4b6p-3f));
  p = fma_f32(p, f, splat_f32(-0x1.000006p-2f));
  p = fma_f32(p, f, splat_f32(0x1.555548p-2f));
  f32v square = f * f;
  p = fma_f32(square * f, p, e * -0x1.bd0106p-13f);
  f32v y = fma_f32(e, splat_f32(0x1.63p-1f), fma_f32(square, splat_f32(-0.5f), p) + f);
  y = select_less_f32(x, splat_f32(INFINITY), y, x); /* inf, NaN */
  y = select_equal_f32(x, splat_f32(0), splat_f32(-INFINITY), y);
  return select_less_f32(x, splat_f32(0), splat_f32(NAN), y);
}
/* log(1 + x) = log u + (x - (u - 1)) / u, where u is 1 + x rounded. */
INLINE f32v log1p_f32v(f32v x) {
  f32v u = x + 1, lost = (x - (u - 1)) / u;
  f32v y = log_f32v(u) + lost;
  y = select_equal_f32(u, splat_f32(0), splat_f32(-INFINITY), y);
  y = select_equal_f32(x, splat_f32(INFINITY), x, y);
  return select_equal_f32(u, splat_f32(1), x, y);
}

/* 1 / (1 + exp(-x)), as exp(x) / (exp(x) + 1) for negative x: exact far out too. */
INLINE f32v sigmoid_f32v(f32v x) {
  f32v e = exp_f32v((f32v)((i32v)x | INT32_MIN)); /* exp(-|x|) */
  return select_less_f32(x, splat_f32(0), e, splat_f32(1)) / (e + 1);
}
INLINE f32v tanh_f32v(f32v x) {
  f32v t = expm1_inside(min_f32(splat_f32(20), 2 * abs_f32(x)));
  return with_sign_f32(t / (t + 2), x);
}

/* x P(x^2) / Q(x^2): 2e-8; 1 from 3.95 on. */
INLINE f32v erf_f32v(f32v x) {
  f32v a = min_f32(splat_f32(3.95f), abs_f32(x)), z = a * a;
  f32v p = splat_f32(0x1.0fe9b0p-19f), q = splat_f32(0x1.3d5b1ap-15f);
  p = fma_f32(p, z, splat_f32(0x1.2a8414p-12f));
  q = fma_f32(q, z, splat_f32(0x1.32e5aep-10f));
  p = fma_f32(p, z, splat_f32(0x1.f323f0p-9f));
  q = fma_f32(q, z, splat_f32(0x1.ed52dep-7f));
  p = fma_f32(p, z, splat_f32(0x1.b127b2p-5f));
  q = fma_f32(q, z, splat_f32(0x1.d53c42p-4f));
  p = fma_f32(p, z, splat_f32(0x1.884b46p-3f));
  q = fma_f32(q, z, splat_f32(0x1.0194ecp-1f));
  p = fma_f32(p, z, splat_f32(0x1.20dd74p+0f));
  q = fma_f32(q, z, splat_f32(1));
  return with_sign_f32(min_f32(splat_f32(1), a * p / q), x);
}

/* Quarter turns n and the remainder r of x, |x| <= TURN_LIMIT. Each part of pi / 2 has so few
 * bits that n times it is exact, with and without a fused multiply-add. */
#define TURN_LIMIT 8192.0f
INLINE f32v quarter_turns(f32v x, i32v *n) {
  f32v turns = nearest_f32(x * 0x1.45f306p-1f);
  *n = to_i32(turns);
  f32v r = fma_f32(turns, splat_f32(-0x1.92p+0f), x);
  r = fma_f32(turns, splat_f32(-0x1.fb4p-12f), r);
  r = fma_f32(turns, splat_f32(-0x1.444p-24f), r);
  return fma_f32(turns, splat_f32(-0x1.68c234p-39f), r);
}
/* sin and cos for |r| <= pi / 4: 4e-9 and 1e-10. */
INLINE f32v sin_quarter(f32v r) {
  f32v z = r * r;
  f32v s = fma_f32(splat_f32(-0x1.994064p-13f), z, splat_f32(0x1.110730p-7f));
  s = fma_f32(s, z, splat_f32(-0x1.555546p-3f));
  return fma_f32(s * z, r, r);
}
INLINE f32v cos_quarter(f32v r) {
  f32v z = r * r;
  f32v c = fma_f32(splat_f32(0x1.99e86ap-16f), z, splat_f32(-0x1.6c0c28p-10f));
  c = fma_f32(c, z, splat_f32(0x1.55554ap-5f));
  return fma_f32(c, z * z, fma_f32(splat_f32(-0.5f), z, splat_f32(1)));
}
/* Lanes beyond TURN_LIMIT one by one: they are rare, and only they change, so a lane's bits
 * don't depend on others. */
INLINE f32v mend_far(f32v y, f32v x, float (*f)(float)) {
  if (!any_greater_f32(abs_f32(x), splat_f32(TURN_LIMIT))) return y;
  for (int l = 0; l < F32_LANES; l++)
    if (fabsf(x[l]) > TURN_LIMIT) y[l] = f(x[l]);
  return y;
}
INLINE f32v near_only(f32v x) {
  return select_less_f32(splat_f32(TURN_LIMIT), abs_f32(x), splat_f32(0), x);
}
INLINE f32v sine_of(f32v x, int32_t turn, float (*f)(float)) {
  i32v n;
  f32v r = quarter_turns(near_only(x), &n);
  n += turn;
  f32v odd = to_f32(n & 1);
  f32v y = select_equal_f32(odd, splat_f32(1), cos_quarter(r), sin_quarter(r));
  return mend_far((f32v)((i32v)y ^ ((n & 2) << 30)), x, f);
}
INLINE f32v sin_f32v(f32v x) { return sine_of(x, 0, sinf); }
INLINE f32v cos_f32v(f32v x) { return sine_of(x, 1, cosf); }
INLINE f32v tan_f32v(f32v x) {
  i32v n;
  f32v r = quarter_turns(near_only(x), &n);
  f32v s = sin_quarter(r), c = cos_quarter(r), odd = to_f32(n & 1);
  f32v y = select_equal_f32(odd, splat_f32(1), -c, s) / select_equal_f32(odd, splat_f32(1), s, c);
  return mend_far(y, x, tanf);
}
#endif
