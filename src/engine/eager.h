/* Ops one at a time. */
#ifndef IPULUA_ENGINE_EAGER_H
#define IPULUA_ENGINE_EAGER_H
#include "engine/engine.h"

/* One op at once. attrs as graph_node. *out is a list of *out_count new tensors; both the list
 * (free) and they are yours. */
Status eager_apply(Engine *g, const OpDef *op, Tensor *const *in, int in_count, const Attr *attrs,
                   const char *source, Tensor ***out, int *out_count, Error *e);
#endif
