/* The type of a tensor: a dtype and extents. */
#ifndef IPULUA_TENSOR_TYPE_H
#define IPULUA_TENSOR_TYPE_H
#include "base/status.h"
#include "tensor/dtype.h"

enum { MAX_RANK = 8, TYPE_TEXT = 256 };

typedef struct Type {
  Dtype dtype;
  int rank;
  int64_t shape[MAX_RANK]; /* extents; -1 is unknown, in placeholders and dataset specs only */
} Type;

Type type_make(Dtype d, int rank, const int64_t *shape);
Type type_scalar(Dtype d);
bool type_equal(const Type *a, const Type *b);
bool shape_equal(const Type *a, const Type *b);
/* Number of elements (1 for rank 0). Types that passed type_check can't overflow here. */
int64_t type_count(const Type *t);
size_t type_bytes(const Type *t);
/* Refuses negative extents and sizes beyond 2^47 bytes. Messages begin with `what`, the op or
 * argument. */
Status type_check(Error *e, const char *what, const Type *t);
bool type_is_static(const Type *t); /* no extent is -1 */
/* "float32[2, 3]" and "[2, 3]"; the text is cut at TYPE_TEXT bytes. Both return buffer. */
char *type_text(const Type *t, char buffer[TYPE_TEXT]);
char *shape_text(const Type *t, char buffer[TYPE_TEXT]);
/* Broadcasts the shapes as NumPy does; the dtype is a's. False if the shapes don't fit. */
bool type_broadcast(const Type *a, const Type *b, Type *out);
/* Row-major strides in elements. */
void type_strides(const Type *t, int64_t stride[MAX_RANK]);
/* Maps an axis of -rank … rank-1 to 0 … rank-1. */
Status axis_check(Error *e, const char *what, int64_t axis, int rank, int *out);
#endif
