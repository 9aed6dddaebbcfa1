/* The values of a program that are in streaming memory between their uses, and the values that
 * replicas share. */
#ifndef IPULUA_GRAPH_OFFLOAD_H
#define IPULUA_GRAPH_OFFLOAD_H
#include <stdbool.h>
#include <stddef.h>

typedef struct Offload {
  bool state;                      /* the optimizer's state */
  bool weights;                    /* weights of a pipeline's stages */
  bool activations;                /* kept by a pipeline's forward passes for its backward ones */
  bool accumulators;               /* of a pipeline's gradients */
  bool shard_state, shard_weights; /* each replica has a share */
  size_t min;                      /* minimum bytes of a tensor to be moved */
} Offload;
#endif
