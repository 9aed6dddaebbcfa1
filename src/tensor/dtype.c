#include "tensor/dtype.h"

#include <math.h>

#define X(id, name, ctype, class, numpy, safetensors) \
  [id] = {name, sizeof(ctype), class, numpy, safetensors},
const DtypeInfo dtype_info[DTYPE_COUNT] = {DTYPES(X)};
#undef X

bool dtype_find(const char *name, Dtype *out) {
  for (int d = 0; d < DTYPE_COUNT; d++)
    if (strcmp(name, dtype_info[d].name) == 0) return *out = (Dtype)d, true;
  return false;
}

static uint32_t float_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

static float bits_float(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* binary16: 1 sign, 5 exponent (bias 15), 10 fraction; binary32: 1, 8 (bias 127), 23. */
float f16_to_f32(f16 h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
  if (exponent == 31) return bits_float(sign | 0x7f800000 | fraction << 13);
  if (exponent) return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
  float f = (float)fraction * 0x1p-24f; /* zero and the subnormals */
  return sign ? -f : f;
}

f16 f32_to_f16(float f) {
  uint32_t bits = float_bits(f), sign = bits >> 16 & 0x8000, a = bits & 0x7fffffff;
  if (a > 0x7f800000) return (f16)(sign | 0x7e00 | (a >> 13 & 0x3ff));
  if (a >= 0x477ff000) return (f16)(sign | 0x7c00); /* 65520 and more round to infinity */
  if (a < 0x38800000) { /* below 2^-14: count units of 2^-24; the addition rounds to nearest even */
    float units = bits_float(a) + 0.5f;
    return (f16)(sign | (float_bits(units) - float_bits(0.5f)));
  }
  return (f16)(sign | ((a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13));
}

bf16 f32_to_bf16(float f) {
  uint32_t bits = float_bits(f);
  if ((bits & 0x7fffffff) > 0x7f800000) return (bf16)(bits >> 16 | 0x40); /* stays a NaN */
  return (bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Double → float rounded to odd: a second rounding, to a narrower type, then equals one direct
 * rounding. */
static float narrow_to_odd(double x) {
  float f = (float)x;
  if (isnan(x) || isinf(x)) return f;
  double back = (double)f;
  if (back == x) return f;
  uint32_t bits = float_bits(f);
  if (fabs(back) > fabs(x)) bits--; /* towards zero; from infinity to the largest float */
  return bits_float(bits | 1);
}

double dtype_get(Dtype d, const void *data, int64_t i) {
  switch (d) {
    case F32:
      return (double)((const float *)data)[i];
    case F64:
      return ((const double *)data)[i];
    case F16:
      return (double)f16_to_f32(((const f16 *)data)[i]);
    case BF16:
      return (double)bf16_to_f32(((const bf16 *)data)[i]);
    case I8:
      return ((const int8_t *)data)[i];
    case U8:
      return ((const uint8_t *)data)[i];
    case I32:
      return ((const int32_t *)data)[i];
    case I64:
      return (double)((const int64_t *)data)[i];
    case BOOL:
      return ((const uint8_t *)data)[i] != 0;
    case DTYPE_COUNT:
      break;
  }
  return 0;
}

/* Truncated and saturated; NaN → if_nan. 2^63 isn't an int64, so >= there. */
static int64_t saturate(double x, int64_t low, int64_t high, int64_t if_nan) {
  if (isnan(x)) return if_nan;
  if (x >= (double)high) return high;
  if (x <= (double)low) return low;
  return (int64_t)x;
}

void dtype_set(Dtype d, void *data, int64_t i, double x) {
  switch (d) {
    case F32:
      ((float *)data)[i] = (float)x;
      break;
    case F64:
      ((double *)data)[i] = x;
      break;
    case F16:
      ((f16 *)data)[i] = f32_to_f16(narrow_to_odd(x));
      break;
    case BF16:
      ((bf16 *)data)[i] = f32_to_bf16(narrow_to_odd(x));
      break;
    case I8:
    case U8:
      ((uint8_t *)data)[i] = (uint8_t)saturate(x, INT32_MIN, INT32_MAX, INT32_MIN);
      break;
    case I32:
      ((int32_t *)data)[i] = (int32_t)saturate(x, INT32_MIN, INT32_MAX, INT32_MIN);
      break;
    case I64:
      ((int64_t *)data)[i] = saturate(x, INT64_MIN, INT64_MAX, INT64_MIN);
      break;
    case BOOL:
      ((uint8_t *)data)[i] = x != 0;
      break;
    case DTYPE_COUNT:
      break;
  }
}

int64_t dtype_get_integer(Dtype d, const void *data, int64_t i) {
  if (d == I64) return ((const int64_t *)data)[i];
  return saturate(dtype_get(d, data, i), INT64_MIN, INT64_MAX, INT64_MIN);
}

/* An int64 as a double, rounded to odd: beyond 2^53, if any of the low bits is set, the last kept
 * bit is set. A second rounding to 16 bits then equals one direct rounding. */
static double integer_to_odd(int64_t v) {
  if (v > -(INT64_C(1) << 53) && v < INT64_C(1) << 53) return (double)v;
  int64_t low = v & 0x7ff;
  return (double)(low ? (v - low) | 0x800 : v);
}

void dtype_set_integer(Dtype d, void *data, int64_t i, int64_t v) {
  switch (d) {
    case F32:
      ((float *)data)[i] = (float)v;
      break;
    case F64:
      ((double *)data)[i] = (double)v;
      break;
    case F16:
    case BF16:
      dtype_set(d, data, i, integer_to_odd(v));
      break;
    case I8:
    case U8:
      ((uint8_t *)data)[i] = (uint8_t)v;
      break;
    case I32:
      ((uint32_t *)data)[i] = (uint32_t)v;
      break;
    case I64:
      ((int64_t *)data)[i] = v;
      break;
    case BOOL:
      ((uint8_t *)data)[i] = v != 0;
      break;
    case DTYPE_COUNT:
      break;
  }
}
