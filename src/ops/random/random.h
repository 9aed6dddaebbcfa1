/* Functions shared by ops of random numbers (random.c). The last input is the counter of
 * executions; the last two attributes are seed and stream. */
#ifndef IPULUA_OPS_RANDOM_RANDOM_H
#define IPULUA_OPS_RANDOM_RANDOM_H
#include "ops/support.h"

/* Elements made at a time; chunks are whole batches. */
enum { RANDOM_BATCH = 1024, RANDOM_CHUNK = 8 * RANDOM_BATCH };

RngKey random_key(const Call *c);
Status random_check_counter(Error *e, const Node *n);
/* 53 bits of words 2 i and 2 i + 1. */
static inline double random_uniform_53(const uint32_t *w, int64_t i) {
  uint64_t bits = (uint64_t)w[2 * i] << 32 | w[2 * i + 1];
  return (double)(bits >> 11) * 0x1p-53;
}

typedef struct Draw {
  const Call *call;
  RngKey key;
  Dtype dtype; /* of the buffer */
  int bits;    /* of a uniform number */
} Draw;

/* All elements of the result, in parts. */
Status random_draw(const Call *c, void (*part)(void *draw, int64_t begin, int64_t end));
/* Calls part for each batch of [begin, end). words are the random words of elements first, first +
 * 1 …, `per` for each. Chunks begin at multiples of RANDOM_BATCH. */
typedef void (*RandomBatch)(const Draw *d, const uint32_t *words, int64_t first, int64_t n);
void random_each_batch(const Draw *d, int per, int64_t begin, int64_t end, RandomBatch part);

#define RANDOM_SEED                              \
  {"seed", ATTR_INT, "nil", NULL, "of this op"}, \
      {"stream", ATTR_INT, "0", NULL, "which random op of a program it is"}
#endif
