#include "base/rng.h"

#include <stdio.h>
#include <time.h>

/* Multipliers and Weyl constants of Philox 4x32 (paper, table 2; Random123). */
static const uint32_t MULTIPLIER_0 = 0xD2511F53u, MULTIPLIER_1 = 0xCD9E8D57u;
static const uint32_t WEYL_0 = 0x9E3779B9u, WEYL_1 = 0xBB67AE85u;

void rng_block(const RngKey *key, uint64_t block, uint32_t out[4]) {
  /* The counter holds block (40 bits are plenty), stream and step; the key is the seed. Steps
   * beyond 2^32 spill into the block's high word. */
  uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32) ^ (uint32_t)((key->step >> 32) << 8);
  uint32_t c2 = key->stream, c3 = (uint32_t)key->step;
  uint32_t k0 = (uint32_t)key->seed, k1 = (uint32_t)(key->seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)MULTIPLIER_0 * c0, p1 = (uint64_t)MULTIPLIER_1 * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1, c3 = (uint32_t)p0, c0 = n0, c2 = n2;
    k0 += WEYL_0, k1 += WEYL_1;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

uint32_t rng_bits(const RngKey *key, uint64_t index) {
  uint32_t w[4];
  rng_block(key, index / 4, w);
  return w[index % 4];
}

float rng_uniform(const RngKey *key, uint64_t index) {
  return (float)(rng_bits(key, index) >> 8) * 0x1p-24f;
}

uint64_t rng_below(const RngKey *key, uint64_t index, uint64_t n) {
  uint32_t w[4];
  rng_block(key, index, w);
  uint64_t bits = ((uint64_t)w[0] << 32) | w[1];
  return (uint64_t)(((__uint128_t)bits * n) >> 64);
}

uint64_t rng_part(uint64_t seed, uint64_t number) {
  RngKey key = {.seed = seed, .stream = RNG_ROUNDING - 1, .step = number};
  uint32_t w[4];
  rng_block(&key, 0, w);
  return (uint64_t)w[0] << 32 | w[1];
}

uint64_t rng_system_seed(void) {
  uint64_t seed = 0;
  FILE *f = fopen("/dev/urandom", "rb");
  if (f) {
    if (fread(&seed, sizeof seed, 1, f) != 1) seed = 0;
    fclose(f);
  }
  return seed ? seed : (uint64_t)time(NULL) * 0x9E3779B97F4A7C15u;
}

int64_t rng_counter_start(uint64_t seed) {
  RngKey key = {.seed = seed};
  uint32_t words[4];
  rng_block(&key, 0, words);
  return (int64_t)(((uint64_t)words[0] << 31 | words[1]) & INT64_MAX);
}
