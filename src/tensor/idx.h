#ifndef IPULUA_TENSOR_IDX_H
#define IPULUA_TENSOR_IDX_H
#include "tensor/tensor.h"
/* IDX files (MNIST), gzipped or not. i16 becomes int32; other types are kept. For truncated and
 * oversized files and a wrong magic number, the message names file and byte offset. */
Status idx_read(Error *e, const char *path, Tensor **out);
Status idx_parse(Error *e, const char *path, const void *data, size_t bytes, Tensor **out);
#endif
