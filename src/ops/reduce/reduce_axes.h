/* Reductions inside of bodies: sums, extremes and others over some axes. */
#ifndef IPULUA_OPS_REDUCE_REDUCE_AXES_H
#define IPULUA_OPS_REDUCE_REDUCE_AXES_H
#include "ops/support.h"

/* Reduce some axes of a dense x (no narrow dtype) to out, dense. scratch: reduce_bytes. */
void reduce_axes(const Call *c, Reduction r, const Type *x, const void *data, int count,
                 const int *axes, void *out, void *scratch);
size_t reduce_bytes(const Type *x, int count, const int *axes); /* x's dtype as computed with */
#endif
