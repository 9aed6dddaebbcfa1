/* Tensors that a graph and its regions hold as constants become inputs, so that it can be
 * differentiated by them. */
#ifndef IPULUA_TRANSFORM_LIFT_H
#define IPULUA_TRANSFORM_LIFT_H
#include "graph/graph.h"

typedef struct TensorList {
  Tensor **tensor; /* each once, by address; what the graph holds */
  int count, capacity;
} TensorList;

/* Adds the floating-point tensors among the constants of g and of all regions inside of it. */
Status lift_find(Error *e, const Graph *g, TensorList *list);
/* In place of each constant of g's nodes that is one of the list's stands value[i], a value of g,
 * also inside of regions: control nodes hand it over. What a list has no value for (NULL) stays. */
Status lift_constants(Graph *g, const TensorList *list, Value *const *value);
#endif
