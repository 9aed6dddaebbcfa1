#ifndef IPULUA_TENSOR_NPY_H
#define IPULUA_TENSOR_NPY_H
#include "tensor/named.h"
Status npy_parse(Error *e, const char *path, const void *data, size_t bytes, Tensor **out);
Status npy_read(Error *e, const char *path, Tensor **out);
Status npy_write(Error *e, const char *path, const Tensor *t); /* v1, little-endian, C order; atomic */
Status npz_read(Error *e, const char *path, NamedTensors *out);
Status npz_write(Error *e, const char *path, const NamedTensors *tensors);
#endif
