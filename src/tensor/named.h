/* A list of named tensors and text metadata, the content of a file of weights. */
#ifndef IPULUA_TENSOR_NAMED_H
#define IPULUA_TENSOR_NAMED_H
#include "tensor/tensor.h"

typedef struct NamedTensors {
  int count, capacity;
  char **name;
  Tensor **tensor;
  int metadata_count, metadata_capacity;
  char **key, **value;
} NamedTensors;

void named_init(NamedTensors *n);
void named_clear(NamedTensors *n); /* frees names, releases tensors */
/* retains t, copies name */
Status named_add(Error *e, NamedTensors *n, const char *name, Tensor *t);
Status named_add_metadata(Error *e, NamedTensors *n, const char *key, const char *value);
Tensor *named_find(const NamedTensors *n, const char *name); /* borrowed; NULL when absent */
#endif
