/* Philox 4x32-10, as base/rng.c has it, for many blocks at a time: a lane each. */
#include "base/rng.h"
#include "kernels/fill.h"

enum { LANES = 64, ROUNDS = 10 };

static const uint32_t MULTIPLIER_0 = 0xD2511F53u, MULTIPLIER_1 = 0xCD9E8D57u;
static const uint32_t WEYL_0 = 0x9E3779B9u, WEYL_1 = 0xBB67AE85u;

static void run_round(uint32_t *restrict c0, uint32_t *restrict c1, uint32_t *restrict c2,
                      uint32_t *restrict c3, uint32_t k0, uint32_t k1) {
  for (int i = 0; i < LANES; i++) {
    uint32_t high0 = (uint32_t)((uint64_t)MULTIPLIER_0 * c0[i] >> 32), low0 = MULTIPLIER_0 * c0[i];
    uint32_t high1 = (uint32_t)((uint64_t)MULTIPLIER_1 * c2[i] >> 32), low1 = MULTIPLIER_1 * c2[i];
    c0[i] = high1 ^ c1[i] ^ k0, c2[i] = high0 ^ c3[i] ^ k1;
    c1[i] = low1, c3[i] = low0;
  }
}

/* Words of LANES blocks, [word][lane]. */
static void make_words(const RngKey *key, uint64_t block, uint32_t c[4][LANES]) {
  uint32_t k0 = (uint32_t)key->seed, k1 = (uint32_t)(key->seed >> 32),
           high = (uint32_t)((key->step >> 32) << 8);
  for (int i = 0; i < LANES; i++) {
    uint64_t b = block + (uint64_t)i;
    c[0][i] = (uint32_t)b, c[1][i] = (uint32_t)(b >> 32) ^ high;
    c[2][i] = key->stream, c[3][i] = (uint32_t)key->step;
  }
  for (int round = 0; round < ROUNDS; round++, k0 += WEYL_0, k1 += WEYL_1)
    run_round(c[0], c[1], c[2], c[3], k0, k1);
}

static void random_words(const RngKey *key, uint64_t block, int64_t count, uint32_t *out) {
  _Alignas(64) uint32_t c[4][LANES];
  for (int64_t done = 0; done < count; done += LANES) {
    int64_t n = count - done < LANES ? count - done : LANES;
    make_words(key, block + (uint64_t)done, c);
    for (int64_t i = 0; i < n; i++)
      for (int w = 0; w < 4; w++) out[4 * (done + i) + w] = c[w][i];
  }
}

void FILL(random)(Kernels *k) { k->random_words = random_words; }
