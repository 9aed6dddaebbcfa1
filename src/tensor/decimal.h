/* Decimal digits of floats of any dtype: the shortest that read back as the same number, or a given
 * count, correctly rounded. Independent of the locale. */
#ifndef IPULUA_TENSOR_DECIMAL_H
#define IPULUA_TENSOR_DECIMAL_H
#include "tensor/dtype.h"

enum { DECIMAL_DIGITS = 40, DECIMAL_TEXT = 64 };

/* digit[0].digit[1]digit[2]… × 10^exponent, without zeros at the end; zero is 0 × 10^0. */
typedef struct Decimal {
  bool negative;
  int exponent, count;
  char digit[DECIMAL_DIGITS]; /* '0' … '9' */
} Decimal;

/* The number of digits. fraction: counted after the decimal point, otherwise after the first digit.
 * At least min digits, then as many as the shortest form that reads back has. At most max digits,
 * rounded half to even. */
typedef struct DecimalLimit {
  bool fraction;
  int min, max;
} DecimalLimit;
extern const DecimalLimit decimal_shortest;

/* The digits of element index, which must be finite. */
Decimal decimal_of(Dtype d, const void *data, int64_t index, DecimalLimit limit);
/* The text of a scalar as NumPy writes it: 0.1, 1e+16, nan, -inf. Returns buffer. */
char *decimal_text(Dtype d, const void *data, int64_t index, char buffer[DECIMAL_TEXT]);
#endif
