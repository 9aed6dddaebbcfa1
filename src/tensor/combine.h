/* Sums of tensors of one type in their order: floats narrower than 32 bits in float32, integers in
 * int64. */
#ifndef IPULUA_TENSOR_COMBINE_H
#define IPULUA_TENSOR_COMBINE_H
#include "tensor/type.h"

/* out = from[0] + from[1] + …; mean: divided by their number, integers toward zero, before
 * narrowing. */
void tensor_combine(const Type *t, const void *const *from, int count, bool mean, void *out);
#endif
