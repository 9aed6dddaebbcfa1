/* Reference-counted host tensors. A Tensor is a view of a reference-counted Storage: a type,
 * strides and the first element. Several tensors may share one storage. Data is aligned to 64 bytes
 * when the library allocated it. */
#ifndef IPULUA_TENSOR_TENSOR_H
#define IPULUA_TENSOR_TENSOR_H
#include <stdatomic.h>

#include "tensor/type.h"

typedef struct Storage Storage;
typedef struct Tensor {
  _Atomic int references;
  Type type;
  int64_t stride[MAX_RANK]; /* in elements; 0 repeats */
  char *data;               /* the first element */
  Storage *storage;
} Tensor;

/* A new tensor of zeros; NULL on failure, with e filled. The caller calls tensor_release once for
 * each new, view and retain. */
Tensor *tensor_new(Error *e, const Type *type);
Tensor *tensor_new_uninitialised(Error *e, const Type *type);
Tensor *tensor_from(Error *e, const Type *type, const void *data); /* copies */
/* A tensor of borrowed memory. release_data(context), which may be NULL, is called when the last
 * view is released. */
Tensor *tensor_wrap(Error *e, const Type *type, void *data, void (*release_data)(void *),
                    void *context);
Tensor *tensor_retain(Tensor *t);
void tensor_release(Tensor *t); /* NULL is fine */

/* Views share the storage. offset is in elements of t, stride in elements. */
Tensor *tensor_view(Error *e, Tensor *t, const Type *type, const int64_t *stride, int64_t offset);
Tensor *tensor_row(Error *e, Tensor *t, int64_t index); /* t[index], one rank less; 0-based */
bool tensor_is_dense(const Tensor *t);                  /* row-major without gaps */
Tensor *tensor_dense(Error *e, Tensor *t);              /* t itself (retained) or a packed copy */
/* there is another reference to t or its storage */
bool tensor_is_shared(const Tensor *t);
/* Whether the only reference to t and its storage is the caller's, and the library allocated it. */
bool tensor_is_writable(const Tensor *t);
/* Takes over t. Returns t itself if there is no other reference, else a copy. */
Tensor *tensor_own(Error *e, Tensor *t);
/* Copy src's elements into dst, row-major and dense; bytes = type_bytes(&src->type). */
void tensor_copy_out(const Tensor *src, void *dst);
double tensor_get(const Tensor *t, int64_t index); /* element number index in row-major order */
int64_t storage_bytes_alive(void); /* of all tensors, for leak checks and memory reports */
#endif
