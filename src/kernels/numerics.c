#include "kernels/numerics.h"

#include <math.h>

#include "kernels/kernels.h"

static const float LARGEST = 65504.0f;

/* Stochastic: up with probability equal to the fractional distance between the two neighbours. */
static f16 round_stochastically(float x, const RngKey *key, uint64_t index) {
  float magnitude = fabsf(x);
  f16 sign = x < 0 ? 0x8000 : 0;
  f16 low = f32_to_f16(magnitude);
  if (f16_to_f32(low) > magnitude) low--;
  float below = f16_to_f32(low);
  if (below == magnitude) return sign | low;
  float above = f16_to_f32((f16)(low + 1));
  float fraction = (magnitude - below) / (above - below);
  return sign | (f16)(rng_uniform(key, index) < fraction ? low + 1 : low);
}

void narrow_f16(const float *x, f16 *y, int64_t n, const Numerics *numerics, const RngKey *key,
                uint64_t index) {
  bool stochastic = numerics && numerics->stochastic_rounding && key;
  bool nan_on_overflow = numerics && numerics->nan_on_overflow;
  RngKey own = {0};
  if (stochastic) own = *key, own.stream |= RNG_ROUNDING;
  for (int64_t i = 0; i < n; i++) {
    float v = x[i];
    if (fabsf(v) > LARGEST && isfinite(v)) v = nan_on_overflow ? NAN : copysignf(LARGEST, v);
    y[i] = stochastic && isfinite(v) ? round_stochastically(v, &own, index + (uint64_t)i)
                                     : f32_to_f16(v);
  }
}

/* An infinity in the result came from one in x or from beyond the range. */
static bool any_infinite(const f16 *y, int64_t n) {
  uint16_t found = 0; /* as wide as the elements: whole vectors are compared */
  for (int64_t i = 0; i < n; i++) found |= (uint16_t)((y[i] & 0x7FFF) == 0x7C00);
  return found;
}

static bool any_large(const float *x, int64_t n) {
  int found = 0;
  for (int64_t i = 0; i < n; i++) found |= fabsf(x[i]) > LARGEST;
  return found;
}

bool narrow_f16_by(const struct Kernels *k, const float *x, f16 *y, int64_t n,
                   const Numerics *numerics, const RngKey *key, uint64_t index) {
  enum { PIECE = 1024 };
  bool stochastic = numerics && numerics->stochastic_rounding && key,
       nan_on_overflow = numerics && numerics->nan_on_overflow;
  if (stochastic) {
    narrow_f16(x, y, n, numerics, key, index);
    return any_infinite(y, n);
  }
  bool found = false;
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t count = n - i < PIECE ? n - i : PIECE;
    const void *in[1] = {x + i};
    k->cast[F32][F16](in, 0, y + i, count, NULL);
    if (!(nan_on_overflow ? any_large(x + i, count) : any_infinite(y + i, count))) continue;
    narrow_f16(x + i, y + i, count, numerics, key, index + (uint64_t)i);
    found |= any_infinite(y + i, count);
  }
  return found;
}

int clip_cast(Dtype from, const void *x, bool single, f16 *y, int64_t n, const Numerics *numerics) {
  bool nan_on_overflow = numerics && numerics->nan_on_overflow,
       traps = numerics && numerics->trap_overflow;
  int events = 0;
  if (!nan_on_overflow && !traps && !any_infinite(y, n)) return 0;
  for (int64_t i = 0; i < n; i++) {
    double v = dtype_get(from, x, single ? 0 : i);
    if (!isfinite(v) || fabs(v) <= LARGEST) continue;
    y[i] = f32_to_f16(nan_on_overflow ? NAN : copysignf(LARGEST, (float)v));
    if (traps) events = EVENT_OVERFLOW;
  }
  return events;
}

int set_cast(Dtype d, void *data, int64_t i, double x, const Numerics *numerics) {
  dtype_set(d, data, i, x);
  return d == F16 ? clip_cast(F64, &x, true, (f16 *)data + i, 1, numerics) : 0;
}
