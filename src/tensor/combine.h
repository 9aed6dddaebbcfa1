/* Sums of several tensors of one type, in order. Floats narrower than 32 bits are added in float32,
 * integers in int64. */
#ifndef IPULUA_TENSOR_COMBINE_H
#define IPULUA_TENSOR_COMBINE_H
#include "tensor/type.h"

/* out = from[0] + from[1] + …. With mean, the sum is divided by count before it is narrowed,
 * integers rounding toward zero. */
void tensor_combine(const Type *t, const void *const *from, int count, bool mean, void *out);
#endif
