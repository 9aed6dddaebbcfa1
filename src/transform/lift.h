/* Tensors that a graph and its regions hold as constants become inputs, so that it can be
 * differentiated by them. */
#ifndef IPULUA_TRANSFORM_LIFT_H
#define IPULUA_TRANSFORM_LIFT_H
#include "graph/graph.h"

typedef struct TensorList {
  Tensor **tensor; /* held by the graph; each once, ordered by address */
  int count, capacity;
} TensorList;

/* Adds the floating-point tensors among the constants of g and of all regions inside of it. */
Status lift_find(Error *e, const Graph *g, TensorList *list);
/* Replaces each constant of g that is in the list by value[i], a value of g. Inside of regions,
 * too: control nodes pass it on. Constants whose value[i] is NULL stay. */
Status lift_constants(Graph *g, const TensorList *list, Value *const *value);
#endif
