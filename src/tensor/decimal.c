#include "tensor/decimal.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

/* Digits by long division of exact integers, after Steele and White, "How to print floating-point
 * numbers accurately" (PLDI 1990). The value is remainder / scale. The margins are half the
 * distances to the neighbouring floats. The digits end when the remainder is within a margin of
 * zero or of a whole digit. */

/* Unsigned integers of up to 1280 bits: a double's 2^1024 or 10^324, twice and ten times that,
 * and room. */
enum { WORDS = 40 };
typedef struct Big {
  int used;
  uint32_t word[WORDS]; /* the lowest first */
} Big;

const DecimalLimit decimal_shortest = {.min = 0, .max = INT_MAX};

static void big_trim(Big *a) {
  while (a->used && a->word[a->used - 1] == 0) a->used--;
}

static Big big_of(uint64_t x) {
  Big a = {.used = 2, .word = {(uint32_t)x, (uint32_t)(x >> 32)}};
  big_trim(&a);
  return a;
}

static void big_scale(Big *a, uint32_t factor) {
  uint64_t carry = 0;
  for (int i = 0; i < a->used; i++) {
    carry += (uint64_t)a->word[i] * factor;
    a->word[i] = (uint32_t)carry;
    carry >>= 32;
  }
  if (carry && a->used < WORDS) a->word[a->used++] = (uint32_t)carry;
}

static void big_shift(Big *a, int bits) {
  for (; bits >= 31; bits -= 31) big_scale(a, UINT32_C(1) << 31);
  big_scale(a, UINT32_C(1) << bits);
}

static void big_scale_ten(Big *a, int power) {
  for (; power >= 9; power -= 9) big_scale(a, 1000000000);
  for (; power > 0; power--) big_scale(a, 10);
}

static int big_compare(const Big *a, const Big *b) {
  if (a->used != b->used) return a->used < b->used ? -1 : 1;
  for (int i = a->used - 1; i >= 0; i--)
    if (a->word[i] != b->word[i]) return a->word[i] < b->word[i] ? -1 : 1;
  return 0;
}

static void big_add(Big *a, const Big *b) {
  uint64_t carry = 0;
  int n = a->used > b->used ? a->used : b->used;
  for (int i = 0; i < n; i++) {
    carry += (uint64_t)(i < a->used ? a->word[i] : 0) + (i < b->used ? b->word[i] : 0);
    a->word[i] = (uint32_t)carry;
    carry >>= 32;
  }
  a->used = n;
  if (carry && n < WORDS) a->word[a->used++] = (uint32_t)carry;
}

static void big_subtract(Big *a, const Big *b) { /* a >= b */
  int64_t borrow = 0;
  for (int i = 0; i < a->used; i++) {
    borrow += (int64_t)a->word[i] - (i < b->used ? b->word[i] : 0);
    a->word[i] = (uint32_t)borrow;
    borrow >>= 32;
  }
  big_trim(a);
}

/* |x| = mantissa × 2^exponent. uneven: the next float below is half as far away as the one
 * above. */
typedef struct Binary {
  bool negative, uneven;
  uint64_t mantissa;
  int exponent;
} Binary;

static Binary binary_of(Dtype d, const void *data, int64_t i) {
  static const struct {
    int fraction_bits, exponent_bits;
  } layout[DTYPE_COUNT] = {[F16] = {10, 5}, [BF16] = {7, 8}, [F32] = {23, 8}, [F64] = {52, 11}};
  uint64_t bits = 0;
  size_t size = dtype_size(d);
  if (size == 2) bits = ((const uint16_t *)data)[i];
  else if (size == 4) bits = ((const uint32_t *)data)[i];
  else bits = ((const uint64_t *)data)[i];
  int f = layout[d].fraction_bits, e = layout[d].exponent_bits;
  uint64_t fraction = bits & ((UINT64_C(1) << f) - 1), field = bits >> f & ((UINT64_C(1) << e) - 1);
  int bias = (1 << (e - 1)) - 1 + f;
  return (Binary){.negative = bits >> (f + e) & 1,
                  .uneven = fraction == 0 && field > 1,
                  .mantissa = fraction | (uint64_t)(field > 0) << f,
                  .exponent = (field ? (int)field : 1) - bias};
}

typedef struct Division {
  Big remainder, scale, below, above; /* the margins: half the way to the neighbours */
  int exponent;                       /* of the digit that comes next */
} Division;

/* All four in units that make the margins whole numbers, divided by the power of ten of the
 * first digit. */
static void division_begin(Division *v, const Binary *b) {
  int up = b->exponent > 0 ? b->exponent : 0, down = b->exponent < 0 ? -b->exponent : 0;
  int top = 63 - __builtin_clzll(b->mantissa) + b->exponent;
  v->exponent = (int)floor(top * 0.30102999566398120); /* log10(2): right or one too small */
  v->remainder = big_of(b->mantissa);
  v->scale = v->below = big_of(1);
  big_shift(&v->remainder, up + 1 + b->uneven);
  big_shift(&v->scale, down + 1 + b->uneven);
  big_shift(&v->below, up);
  if (v->exponent > 0) big_scale_ten(&v->scale, v->exponent);
  if (v->exponent < 0)
    big_scale_ten(&v->remainder, -v->exponent), big_scale_ten(&v->below, -v->exponent);
  v->above = v->below;
  if (b->uneven) big_shift(&v->above, 1);
  Big ten = v->scale;
  big_scale(&ten, 10);
  if (big_compare(&v->remainder, &ten) >= 0) v->scale = ten, v->exponent++;
}

static int division_digit(Division *v) {
  int digit = 0;
  for (; big_compare(&v->remainder, &v->scale) >= 0; digit++)
    big_subtract(&v->remainder, &v->scale);
  return digit;
}

static void round_up(Decimal *out) {
  int i = out->count - 1;
  for (; i >= 0 && out->digit[i] == '9'; i--) out->digit[i] = '0';
  if (i >= 0) out->digit[i]++;
  else out->digit[0] = '1', out->exponent++; /* 9.99 → 10.0: the zeros after it are there already */
}

/* Compare the remainder with half a unit of the last digit. */
static bool rounds_up(Division *v, char last) {
  big_scale(&v->remainder, 2);
  int order = big_compare(&v->remainder, &v->scale);
  return order > 0 || (order == 0 && (last - '0') % 2 == 1);
}

static void divide(Division *v, const Binary *b, DecimalLimit limit, Decimal *out) {
  /* an even float owns the points half-way to its neighbours */
  bool even = b->mantissa % 2 == 0, low, high;
  int behind = limit.fraction ? 0 : out->exponent;
  for (;; v->exponent--) {
    out->digit[out->count++] = (char)('0' + division_digit(v));
    Big reached = v->remainder;
    big_add(&reached, &v->above);
    int to_low = big_compare(&v->remainder, &v->below), to_high = big_compare(&reached, &v->scale);
    low = even ? to_low <= 0 : to_low < 0;
    high = even ? to_high >= 0 : to_high > 0;
    int digits = behind - v->exponent; /* so far, counted as limit does */
    if (((low || high) && digits >= limit.min) || digits >= limit.max ||
        out->count == DECIMAL_DIGITS)
      break;
    big_scale(&v->remainder, 10);
    big_scale(&v->below, 10);
    big_scale(&v->above, 10);
  }
  bool up = low == high ? rounds_up(v, out->digit[out->count - 1]) : high;
  if (up) round_up(out);
}

Decimal decimal_of(Dtype d, const void *data, int64_t index, DecimalLimit limit) {
  Binary b = binary_of(d, data, index);
  Decimal out = {.negative = b.negative, .count = 0};
  if (b.mantissa == 0) {
    out.digit[out.count++] = '0';
    return out;
  }
  Division v;
  division_begin(&v, &b);
  out.exponent = v.exponent;
  divide(&v, &b, limit, &out);
  while (out.count > 1 && out.digit[out.count - 1] == '0') out.count--;
  return out;
}

/* Python's choice: 16 digits before the point at most, four zeros after it. */
static char *plain_text(const Decimal *x, char *p) {
  if (x->exponent < 0) *p++ = '0';
  for (int i = 0; i <= x->exponent; i++) *p++ = i < x->count ? x->digit[i] : '0';
  *p++ = '.';
  for (int i = -1; i > x->exponent; i--) *p++ = '0';
  int first = x->exponent < 0 ? 0 : x->exponent + 1;
  if (first >= x->count) *p++ = '0';
  for (int i = first; i < x->count; i++) *p++ = x->digit[i];
  return p;
}

static char *exponent_text(const Decimal *x, char *p) {
  *p++ = x->digit[0];
  if (x->count > 1) *p++ = '.';
  for (int i = 1; i < x->count; i++) *p++ = x->digit[i];
  return p + snprintf(p, 8, "e%c%02d", x->exponent < 0 ? '-' : '+',
                      x->exponent < 0 ? -x->exponent : x->exponent);
}

char *decimal_text(Dtype d, const void *data, int64_t index, char buffer[DECIMAL_TEXT]) {
  double value = dtype_get(d, data, index), size = fabs(value);
  if (isnan(value)) return memcpy(buffer, "nan", 4);
  char *p = buffer;
  if (signbit(value)) *p++ = '-';
  if (isinf(value)) return memcpy(p, "inf", 4), buffer;
  Decimal x = decimal_of(d, data, index, decimal_shortest);
  p = size == 0 || (size >= 1e-4 && size < 1e16) ? plain_text(&x, p) : exponent_text(&x, p);
  *p = 0;
  return buffer;
}
