#ifndef IPULUA_TENSOR_SAFETENSORS_H
#define IPULUA_TENSOR_SAFETENSORS_H
#include "tensor/named.h"
/* The reader checks every field; messages name file, offset and field. A file is written to a
 * temporary sibling, fsynced and renamed. So the old or the new file exists, never half of one.
 * Equal input gives equal bytes. */
Status safetensors_read(Error *e, const char *path, NamedTensors *out);
Status safetensors_parse(Error *e, const char *path, const void *data, size_t bytes,
                         NamedTensors *out);
Status safetensors_write(Error *e, const char *path, const NamedTensors *tensors);
#endif
