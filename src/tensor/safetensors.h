#ifndef IPULUA_TENSOR_SAFETENSORS_H
#define IPULUA_TENSOR_SAFETENSORS_H
#include "tensor/named.h"
/* The reader trusts nothing; messages name file, offset and field. Writing goes to a temporary
 * sibling, is fsynced and renamed: the old file or the new one is there, never half of one.
 * Equal input gives equal bytes. */
Status safetensors_read(Error *e, const char *path, NamedTensors *out);
Status safetensors_parse(Error *e, const char *path, const void *data, size_t bytes,
                         NamedTensors *out);
Status safetensors_write(Error *e, const char *path, const NamedTensors *tensors);
#endif
