/* Counter-based random bits: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1,
 * 2, 3", SC'11). Each number is a pure function of (seed, stream, step, index), so threads,
 * schedules and recomputation don't change it. */
#ifndef IPULUA_BASE_RNG_H
#define IPULUA_BASE_RNG_H
#include <stdint.h>

typedef struct RngKey {
  uint64_t seed;   /* the user's */
  uint32_t stream; /* the number of the random op */
  uint64_t step;   /* the number of its execution */
} RngKey;
/* A bit of stream. Rounding and random ops may have the same seed, and so use different halves of
 * the streams. */
#define RNG_ROUNDING (UINT32_C(1) << 31)

/* Four words for block index; element i uses word i % 4 of block i / 4. */
void rng_block(const RngKey *key, uint64_t block, uint32_t out[4]);
uint32_t rng_bits(const RngKey *key, uint64_t index);
/* In [0, 1): 24 bits. */
float rng_uniform(const RngKey *key, uint64_t index);
/* Below n > 0, without visible bias. */
uint64_t rng_below(const RngKey *key, uint64_t index, uint64_t n);
/* A seed for the numbered part of a piece of work. */
uint64_t rng_part(uint64_t seed, uint64_t number);
/* A seed from the system's entropy, for runs without one. */
uint64_t rng_system_seed(void);
/* The initial value of the counters of random ops in programs. It depends on the seed, so that
 * compiled programs can be seeded anew. */
int64_t rng_counter_start(uint64_t seed);
#endif
