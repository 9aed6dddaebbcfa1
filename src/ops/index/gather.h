/* Checks and sums shared by rows with indices (gather.c). */
#ifndef IPULUA_OPS_INDEX_GATHER_H
#define IPULUA_OPS_INDEX_GATHER_H
#include "ops/support.h"

/* target += source, n elements of any dtype but float16 and bfloat16; integers wrap. */
void add_run(Dtype d, void *target, const void *source, int64_t n);
Status infer_index(Error *e, const Node *n, int input); /* operand input holds integers */
bool same_but(const Type *a, const Type *b, int axis);  /* one rank, equal extents but along axis */
#endif
