/* The table of file formats for tensors, searched by the ending of a path. */
#ifndef IPULUA_TENSOR_FORMATS_H
#define IPULUA_TENSOR_FORMATS_H
#include "tensor/named.h"

typedef struct TensorFormat {
  const char *ending; /* ".npz" */
  Status (*read)(Error *e, const char *path, NamedTensors *out);
  Status (*write)(Error *e, const char *path, const NamedTensors *tensors);
  bool one;      /* a file holds one tensor, which has no name: "" */
  bool metadata; /* a file holds texts beside the tensors */
} TensorFormat;

/* The row at index; NULL after the last one. */
const TensorFormat *tensor_format_at(int index);
/* The row for a path's ending; NULL: there is none. */
const TensorFormat *tensor_format(const char *path);

enum { FORMAT_ENDINGS_TEXT = 128 };
/* ".safetensors, .npz or .npy", into text of that size; returns text. */
const char *tensor_format_endings(char *text);
#endif
