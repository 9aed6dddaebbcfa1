/* NumPy's files: .npy holds one array, .npz a zip of them. Reading accepts either byte order, and C
 * or Fortran order. uint16 and uint32 become the next wider integer, and uint64 becomes int64.
 * Values beyond int64, objects, structures, text and complex numbers are refused. */
#ifndef IPULUA_TENSOR_NPY_H
#define IPULUA_TENSOR_NPY_H
#include "base/text.h"
#include "tensor/named.h"
Status npy_parse(Error *e, const char *path, const void *data, size_t bytes, Tensor **out);
Status npy_read(Error *e, const char *path, Tensor **out);
/* Writes version 1, little-endian, in C order. The file is replaced atomically. */
Status npy_write(Error *e, const char *path, const Tensor *t);
/* Adds the header to text, which is empty. It is padded, so that elements begin at a multiple of 64
 * bytes. */
Status npy_header(Error *e, const char *path, const Type *type, Text *text);
Status npz_read(Error *e, const char *path, NamedTensors *out); /* names without their .npy */
/* Members are stored uncompressed, in the given order and without times, so equal input gives equal
 * bytes. The file is replaced atomically. The format has no metadata: any is an error. */
Status npz_write(Error *e, const char *path, const NamedTensors *tensors);
/* The library that reads and writes them: "libzip.so.4", or "none; …" with the name of its
 * package. */
const char *npz_library(void);
#endif
