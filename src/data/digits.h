/* A set of handwritten-looking digits that needs no download: 28 by 28 pixels, drawn from
 * strokes. */
#ifndef IPULUA_DATA_DIGITS_H
#define IPULUA_DATA_DIGITS_H
#include "base/pool.h"
#include "tensor/tensor.h"

enum {
  DIGITS_TRAIN,
  DIGITS_TEST,
  DIGITS_SIZE = 28,
  DIGITS_TRAIN_COUNT = 60000,
  DIGITS_TEST_COUNT = 10000
};

/* count images, u8 [count, 28, 28] (0 is paper, 255 ink), and labels, u8 [count], as many of
 * each digit, shuffled. The same seed and set give the same bytes on any number of threads; the
 * sets of one seed share no image. */
Status digits_draw(Error *e, Pool *pool, uint64_t seed, int set, int64_t count, Tensor **images,
                   Tensor **labels);
#endif
