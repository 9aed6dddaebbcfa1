/* Reverse-mode differentiation, graph to graph: gradients are ordinary nodes. */
#ifndef IPULUA_TRANSFORM_AUTODIFF_H
#define IPULUA_TRANSFORM_AUTODIFF_H
#include "graph/graph.h"

/* Sets dx[i] to d(sum of ys · dys) / d xs[i], or to NULL if there is no path. dys, or elements of
 * it, may be NULL, which means ones. All values are g's. */
Status autodiff(Graph *g, Value *const *ys, Value *const *dys, int y_count, Value *const *xs,
                int x_count, Value **dx);
/* The same by a variable, given by its serial number. xs are the first values of that variable.
 * Every reading of it counts, but not paths through values assigned to it. Variables that are never
 * assigned need no run of their own. */
Status autodiff_by(Graph *g, int64_t variable, Value *const *ys, Value *const *dys, int y_count,
                   Value *const *xs, int x_count, Value **dx);
/* The same through the nodes first … end-1 and the nodes from `late` on, and no others. variable 0:
 * by no variable. */
Status autodiff_within(Graph *g, int first, int end, int late, int64_t variable, Value *const *ys,
                       Value *const *dys, int y_count, Value *const *xs, int x_count, Value **dx);
#endif
