/* Flushing of subnormal numbers: below 1.2e-38 in float32 and 2.2e-308 in float64. While tensors
 * are computed, they count as zero as operands and as results, on every thread involved.
 * TensorFlow's threads do the same.
 *
 * Intel's processors take over a hundred cycles for each of them. Decaying averages, such as
 * momentum without further gradients, would soon consist of them. Subnormal numbers of float16 are
 * normal in float32, and stay. */
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

/* Sets the mode of the calling thread. Returns the former one, for subnormal_restore after the
 * computation. */
static inline uint64_t subnormal_flush(void) {
  uint64_t before = subnormal_mode();
  if (before != SUBNORMAL_FLUSH) subnormal_set(SUBNORMAL_FLUSH);
  return before;
}

static inline void subnormal_restore(uint64_t before) {
  if (before != SUBNORMAL_FLUSH) subnormal_set(before);
}

#endif
