/* While tensors are computed, numbers below the normal range (1.2e-38 in float32, 2.2e-308 in
 * float64) count as zero, read and written, on every thread that takes part: as TensorFlow has
 * it in its threads. Intel's processors take over a hundred cycles for each of them, and
 * averages that decay (momentum where no gradient comes any more) would soon be full of them.
 * float16's own small numbers are normal ones of float32, and stay. */
#ifndef IPULUA_BASE_SUBNORMAL_H
#define IPULUA_BASE_SUBNORMAL_H

#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>

enum { SUBNORMAL_FLUSH = 0x8000 | 0x0040 }; /* MXCSR: results to zero, operands as zero */
static inline uint64_t subnormal_mode(void) { return _mm_getcsr() & SUBNORMAL_FLUSH; }
static inline void subnormal_set(uint64_t mode) {
  _mm_setcsr((_mm_getcsr() & ~(unsigned)SUBNORMAL_FLUSH) | (unsigned)mode);
}

#elif defined(__aarch64__)

enum { SUBNORMAL_FLUSH = 1 << 24 }; /* FPCR: both */
static inline uint64_t subnormal_control(void) {
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}
static inline uint64_t subnormal_mode(void) { return subnormal_control() & SUBNORMAL_FLUSH; }
static inline void subnormal_set(uint64_t mode) {
  uint64_t control = (subnormal_control() & ~(uint64_t)SUBNORMAL_FLUSH) | mode;
  __asm__ volatile("msr fpcr, %0" : : "r"(control));
}

#else

enum { SUBNORMAL_FLUSH = 0 };
static inline uint64_t subnormal_mode(void) { return 0; }
static inline void subnormal_set(uint64_t mode) { (void)mode; }

#endif

/* On the calling thread; what it was before, for subnormal_restore when the computation is over. */
static inline uint64_t subnormal_flush(void) {
  uint64_t before = subnormal_mode();
  if (before != SUBNORMAL_FLUSH) subnormal_set(SUBNORMAL_FLUSH);
  return before;
}

static inline void subnormal_restore(uint64_t before) {
  if (before != SUBNORMAL_FLUSH) subnormal_set(before);
}

#endif
