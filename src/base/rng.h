/* Counter-based random bits (Philox 4x32-10; Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC'11): a number is a pure function of (seed, stream, step, index), so threads,
 * schedules and recomputation can't move it. */
#ifndef IPULUA_BASE_RNG_H
#define IPULUA_BASE_RNG_H
#include <stdint.h>

typedef struct RngKey {
  uint64_t seed;   /* the user's */
  uint32_t stream; /* which random op */
  uint64_t step;   /* how often it has run */
} RngKey;
/* A bit of stream: rounding and random ops, which may have one seed, draw from different halves. */
#define RNG_ROUNDING (UINT32_C(1) << 31)

/* Four words for block index; element i uses word i % 4 of block i / 4. */
void rng_block(const RngKey *key, uint64_t block, uint32_t out[4]);
uint32_t rng_bits(const RngKey *key, uint64_t index);
/* In [0, 1): 24 bits. */
float rng_uniform(const RngKey *key, uint64_t index);
/* Below n > 0, without visible bias. */
uint64_t rng_below(const RngKey *key, uint64_t index, uint64_t n);
/* A seed for the part of a work that has this number. */
uint64_t rng_part(uint64_t seed, uint64_t number);
/* A seed from the system's entropy, for runs without one. */
uint64_t rng_system_seed(void);
/* Where the counters of random ops in programs begin: they speak for the seed, so that programs
 * can be seeded anew. */
int64_t rng_counter_start(uint64_t seed);
#endif
