/* NumPy's files: .npy holds one array, .npz a zip of them. Reading accepts either byte order and
 * C or Fortran order; unsigned integers of 16 and 32 bits become the next wider integer, those
 * of 64 bits int64 where they fit. Larger ones, objects, structures, text, complex numbers are
 * refused. */
#ifndef IPULUA_TENSOR_NPY_H
#define IPULUA_TENSOR_NPY_H
#include "base/text.h"
#include "tensor/named.h"
Status npy_parse(Error *e, const char *path, const void *data, size_t bytes, Tensor **out);
Status npy_read(Error *e, const char *path, Tensor **out);
/* v1, little-endian, C order; atomic */
Status npy_write(Error *e, const char *path, const Tensor *t);
/* What stands before the elements, padded so that they begin at a multiple of 64; added to text,
 * which is empty. */
Status npy_header(Error *e, const char *path, const Type *type, Text *text);
Status npz_read(Error *e, const char *path, NamedTensors *out); /* names without their .npy */
/* Stored, not compressed, in the given order, without times: equal input gives equal bytes.
 * Atomic. The format holds no metadata: any is an error. */
Status npz_write(Error *e, const char *path, const NamedTensors *tensors);
/* What reads and writes them: "libzip.so.4"; "none; …", which names the package that brings it. */
const char *npz_library(void);
#endif
