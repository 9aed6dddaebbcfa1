/* The behaviour of float16 beyond its range, and the floating-point events that trap. */
#ifndef IPULUA_KERNELS_NUMERICS_H
#define IPULUA_KERNELS_NUMERICS_H
#include "base/rng.h"
#include "tensor/dtype.h"

/* The options of IPUConfig.floating_point_behaviour and of rounding. */
typedef struct Numerics {
  bool nan_on_overflow;     /* float16 overflow gives NaN; otherwise it clips to 65504 */
  bool stochastic_rounding; /* of float16 results */
  /* in programs for several replicas: only values that all replicas compute alike are rounded so */
  bool identical_only;
  bool trap_invalid, trap_divide, trap_overflow;
  bool half_products, half_convolutions; /* of float16 accumulate in float16 */
  bool fast_math;                        /* rewrites may change how results are rounded */
  /* programs run op by op and stop at the first that makes a NaN or an infinity */
  bool check_finite;
} Numerics;

/* Floating-point events, as bits. */
enum { EVENT_INVALID = 1, EVENT_DIVIDE = 2, EVENT_OVERFLOW = 4 };

static inline int numerics_trapped(const Numerics *n) {
  return n ? (n->trap_invalid ? EVENT_INVALID : 0) | (n->trap_divide ? EVENT_DIVIDE : 0) |
                 (n->trap_overflow ? EVENT_OVERFLOW : 0)
           : 0;
}
/* The gravest of these events that traps, in words; NULL: none does. */
static inline const char *numerics_trap(const Numerics *n, int events) {
  events &= numerics_trapped(n);
  return events & EVENT_INVALID  ? "an invalid operation (inv)"
         : events & EVENT_DIVIDE ? "a division by zero (div0)"
         : events                ? "an overflow (oflo)"
                                 : NULL;
}

/* Rounds n float32 results to float16 as the machine does. Rounding is to nearest even, or
 * stochastic, by key and the element's index. A finite value beyond 65504 clips or becomes NaN.
 * Infinities stay infinities. numerics may be NULL: clip. */
void narrow_f16(const float *x, f16 *y, int64_t n, const Numerics *numerics, const RngKey *key,
                uint64_t index);
/* The same bits for many elements, by k's cast. Only values beyond the range and stochastic
 * rounding are done one by one. Returns whether a result is infinite. */
struct Kernels;
bool narrow_f16_by(const struct Kernels *k, const float *x, f16 *y, int64_t n,
                   const Numerics *numerics, const RngKey *key, uint64_t index);

/* The same for n results y of a cast from x of dtype `from`: values beyond the range clip or become
 * NaN. single: x is one element. Returns EVENT_OVERFLOW if there is such a value and numerics traps
 * it; else 0. */
int clip_cast(Dtype from, const void *x, bool single, f16 *y, int64_t n, const Numerics *numerics);
/* Sets element i of data to x, with the conversion and the events of a cast. */
int set_cast(Dtype d, void *data, int64_t i, double x, const Numerics *numerics);
#endif
