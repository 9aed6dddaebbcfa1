/* Reverse-mode differentiation, graph to graph: gradients are ordinary nodes. */
#ifndef IPULUA_TRANSFORM_AUTODIFF_H
#define IPULUA_TRANSFORM_AUTODIFF_H
#include "graph/graph.h"

/* dx[i] becomes d(sum of ys · dys) / d xs[i], or NULL where there is no path. dys may be NULL, and so may its elements: ones.
 * All values are g's. */
Status autodiff(Graph *g, Value *const *ys, Value *const *dys, int y_count, Value *const *xs, int x_count, Value **dx);
/* The same, where what arrives at an x goes no further: the xs are readings of one variable, and none counts through another. */
Status autodiff_apart(Graph *g, Value *const *ys, Value *const *dys, int y_count, Value *const *xs, int x_count, Value **dx);
#endif
