/* The derivative of normalisation's derivative, which layer, batch and group normalisation
 * share. */
#ifndef IPULUA_OPS_NORM_NORM_H
#define IPULUA_OPS_NORM_NORM_H
#include "ops/nn.h"

/* dx = inverse (g - mean of g - h mean of g h), dgamma = sum dy h, dbeta = sum dy, where g = dy
 * gamma and h = (x - mean) inverse; means are over axes. All values have x's rank and broadcast
 * to it; gamma may be NULL (1), and so may what comes from above: u of dx, ug of dgamma, ub of
 * dbeta. */
typedef struct NormGrad {
  Value *dy, *x, *mean, *inverse, *gamma, *u, *ug, *ub;
  const int64_t *axes;
  int axis_count;
} NormGrad;
/* Gradients in x's shape, to be summed to their operands' shapes; NULL where nothing arrives. */
typedef struct NormSecond {
  Value *dy, *x, *mean, *inverse, *gamma;
} NormSecond;
NormSecond norm_second(Graph *g, const NormGrad *n);
/* What the gradients of the outputs mean and inverse add to dx. Operands as above. NULL when
 * both are. */
Value *norm_statistics_grad(Graph *g, Value *x, Value *mean, Value *inverse, Value *dmean,
                            Value *dinverse, double count);
#endif
