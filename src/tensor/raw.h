/* Elements in files, which have more types than tensors, and either byte order. */
#ifndef IPULUA_TENSOR_RAW_H
#define IPULUA_TENSOR_RAW_H
#include "base/file.h"
#include "tensor/tensor.h"

typedef struct RawType {
  char kind; /* f float, h upper half of a float32, i signed, u unsigned, b bool */
  int bytes;
  bool big_endian;
} RawType;

/* The smallest dtype that holds r's values: its own, or the next wider integer. uint64 becomes
 * int64, and raw_read refuses the values that don't fit. False: r is no known type. */
bool raw_dtype(RawType r, Dtype *out);
/* Fill the dense tensor t, of dtype raw_dtype(r), from count × r.bytes bytes. Messages begin with
 * `what`. */
Status raw_read(Error *e, const char *what, RawType r, const void *data, Tensor *t);
/* Append t's elements, row-major, packed, little-endian. */
Status raw_write(Error *e, FileWriter *w, const Tensor *t);
#endif
