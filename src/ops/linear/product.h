/* Matrix products inside of bodies. */
#ifndef IPULUA_OPS_LINEAR_PRODUCT_H
#define IPULUA_OPS_LINEAR_PRODUCT_H
#include "ops/support.h"

/* C = A B for a batch of matrices in float32 or float64, the dtype of the buffers;
 * product_run_half has float16. */
typedef struct Product {
  Dtype dtype;
  Gemm gemm; /* of the first matrices; shared, slots and slot_bytes are set by product_run */
  int rank;  /* dimensions of the batch */
  int64_t extent[MAX_RANK], a_step[MAX_RANK], b_step[MAX_RANK]; /* steps in elements; 0 repeats */
  int64_t c_step;                                               /* from a matrix of C to the next */
  uint64_t draw; /* of product_run_half: the first of its random numbers */
} Product;
size_t product_scratch(const Product *p);
void product_run(const Call *c, const Product *p, void *scratch);

/* Calls one(…) for each matrix of the batch: where it begins in A, B and C, in elements. */
typedef void (*OneProduct)(const Call *c, const Product *p, int64_t a, int64_t b, int64_t first);
void product_each(const Call *c, const Product *p, OneProduct one);

/* Whether the node's operands are float16 and add up in float16 (partialsType half,
 * partials_type); c's may have been widened. */
bool product_sums_half(const Call *c);
/* The same of float16 or float32 buffers, whose partial sums are float16: one rounding a step. */
void product_run_half(const Call *c, const Product *p);
/* The kernels panel_mul and panel_outer of float32 buffers, with partial sums in float16. draw: the
 * first of the random numbers, one for each element of y and step. */
void product_panel_half(const Call *c, const PanelMul *p, uint64_t draw);
void product_outer_half(const Call *c, const PanelOuter *p, uint64_t draw);
uint64_t product_draws(const Product *p); /* how many random numbers that takes */
#endif
