/* The derivative of normalisation's derivative, which layer, batch and group normalisation
 * share. */
#ifndef IPULUA_OPS_NORM_NORM_H
#define IPULUA_OPS_NORM_NORM_H
#include "ops/nn.h"

/* Mean, variance and inverse deviation have the dtype in which x is computed: float32 if x has 16
 * bits. Parameters have either dtype.
 *
 * Fails unless input x and those before it have one float dtype, and the others have this dtype or
 * the statistics' dtype. */
Status norm_want_float(Error *e, const Node *n, int x);
/* The dtype of the gradients of gamma and beta: gamma's, or x's without gamma. */
Dtype norm_parameter_dtype(const Node *n, int x, int gamma);
/* v in the dtype of the statistics. NULL stays NULL. */
Value *norm_wide(Graph *g, Value *v);
/* Each gradient in the dtype of its operand. */
void norm_fit_gradients(Graph *g, const Node *n, Value **dx);

/* The first derivatives, with g = dy gamma and h = (x - mean) inverse, and means over axes.
 *   dx = inverse (g - mean of g - h mean of g h),   dgamma = sum dy h,   dbeta = sum dy
 * All values have x's rank and the dtype of the statistics, and broadcast to x's shape. gamma may
 * be NULL (1). The upstream gradients u of dx, ug of dgamma and ub of dbeta may be NULL (none). */
typedef struct NormGrad {
  Value *dy, *x, *mean, *inverse, *gamma, *u, *ug, *ub;
  const int64_t *axes;
  int axis_count;
} NormGrad;
/* Gradients in x's shape, to be summed to their operands' shapes; NULL for none. */
typedef struct NormSecond {
  Value *dy, *x, *mean, *inverse, *gamma;
} NormSecond;
NormSecond norm_second(Graph *g, const NormGrad *n);
/* The gradients of the operands of n (x, gamma, beta: the first three) by dy, from the op of this
 * name. It takes dy, x, mean, inverse, gamma. False with the graph's error. */
bool norm_first(Graph *g, const char *op, const Node *n, Value *const of_output[3],
                const Attr *attrs, Value **dx);
/* The terms of dx from the gradients of the outputs mean and inverse. Operands as above. NULL if
 * both are. */
Value *norm_statistics_grad(Graph *g, Value *x, Value *mean, Value *inverse, Value *dmean,
                            Value *dinverse, double count);
#endif
