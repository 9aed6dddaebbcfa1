/* Attributes of ops as JSON: {"axis": [0, -1], "keepdims": true}. */
#ifndef IPULUA_API_ATTRIBUTES_H
#define IPULUA_API_ATTRIBUTES_H
#include "graph/op.h"

typedef struct Attributes {
  Attr attr[MAX_ATTRS];
  void *document; /* owns the strings */
  int64_t *lists; /* owns the integers; `used` counts them */
  size_t used;
} Attributes;

/* An op that callers may use, checked for its count of tensors. NULL with e filled when there is
 * none. */
const OpDef *attributes_op(Error *e, const char *name, int input_count);
/* text NULL or "": all defaults. Attributes without a default must be there. */
Status attributes_read(Error *e, const OpDef *op, const char *text, Attributes *out);
void attributes_clear(Attributes *a);
#endif
