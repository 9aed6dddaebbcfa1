/* What of a program lives in streaming memory between its uses, and what replicas share out
 * among them. */
#ifndef IPULUA_GRAPH_OFFLOAD_H
#define IPULUA_GRAPH_OFFLOAD_H
#include <stdbool.h>
#include <stddef.h>

typedef struct Offload {
  bool state;                      /* what an optimizer keeps beside the weights */
  bool weights;                    /* those that a pipeline's stages read */
  bool activations;                /* kept by a pipeline's forward passes for its backward ones */
  bool accumulators;               /* of a pipeline's gradients */
  bool shard_state, shard_weights; /* each replica has a share */
  size_t min;                      /* bytes of the smallest tensor that is moved */
} Offload;
#endif
