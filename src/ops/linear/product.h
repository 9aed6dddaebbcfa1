/* Matrix products inside of bodies. */
#ifndef IPULUA_OPS_LINEAR_PRODUCT_H
#define IPULUA_OPS_LINEAR_PRODUCT_H
#include "ops/support.h"

/* C = A B for a batch of matrices in float32 or float64 (dtype of the buffers). */
typedef struct Product {
  Dtype dtype;
  Gemm gemm; /* of the first matrices; shared, slots and slot_bytes are set by product_run */
  int rank;  /* dimensions of the batch */
  int64_t extent[MAX_RANK], a_step[MAX_RANK], b_step[MAX_RANK]; /* steps in elements; 0 repeats */
  int64_t c_step;                                               /* from a matrix of C to the next */
} Product;
size_t product_scratch(const Product *p);
void product_run(const Call *c, const Product *p, void *scratch);
#endif
