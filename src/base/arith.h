/* Minimum and maximum of integers, and division and multiples rounded up. */
#ifndef IPULUA_BASE_ARITH_H
#define IPULUA_BASE_ARITH_H
#include <stddef.h>
#include <stdint.h>

static inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int int_min(int a, int b) { return a < b ? a : b; }
static inline int int_max(int a, int b) { return a > b ? a : b; }
static inline size_t size_min(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t size_max(size_t a, size_t b) { return a > b ? a : b; }

/* For a >= 0 and b >= 1. */
static inline int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }
static inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
static inline size_t size_round_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}
#endif
