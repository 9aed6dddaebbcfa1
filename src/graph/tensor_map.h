/* A map from tensors to values, for tapes and traces. A tensor in a map is retained, so that no
 * other one gets its address. */
#ifndef IPULUA_GRAPH_TENSOR_MAP_H
#define IPULUA_GRAPH_TENSOR_MAP_H
#include "graph/graph.h"
#include "graph/variable.h"

typedef struct TensorSlot {
  Tensor *tensor; /* NULL: free */
  Value *value;
  /* the variable whose value the tensor is; NULL: it is the script's own */
  const Variable *variable;
} TensorSlot;

typedef struct TensorMap {
  TensorSlot *slot;
  size_t slots, used; /* slots: a power of two, at most half of them used */
} TensorMap;

const TensorSlot *tensor_map_find(const TensorMap *m, const Tensor *t); /* NULL: it isn't there */
/* Adds or replaces an entry; false: memory is out. */
bool tensor_map_put(TensorMap *m, Tensor *t, Value *value, const Variable *variable);
void tensor_map_clear(TensorMap *m);
#endif
