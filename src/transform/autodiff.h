/* Reverse-mode differentiation, graph to graph: gradients are ordinary nodes. */
#ifndef IPULUA_TRANSFORM_AUTODIFF_H
#define IPULUA_TRANSFORM_AUTODIFF_H
#include "graph/graph.h"

/* dx[i] becomes d(sum of ys · dys) / d xs[i], or NULL where there is no path. dys may be NULL,
 * and so may its elements: ones. All values are g's. */
Status autodiff(Graph *g, Value *const *ys, Value *const *dys, int y_count, Value *const *xs,
                int x_count, Value **dx);
/* The same by a variable (its serial number), of which xs are values that it had first: each of
 * its readings counts, and none through what was assigned to it. Variables that are never
 * assigned need no run of their own. */
Status autodiff_by(Graph *g, int64_t variable, Value *const *ys, Value *const *dys, int y_count,
                   Value *const *xs, int x_count, Value **dx);
/* The same through the nodes first … end-1, and those from late on, alone; variable 0: by none in
 * particular. */
Status autodiff_within(Graph *g, int first, int end, int late, int64_t variable, Value *const *ys,
                       Value *const *dys, int y_count, Value *const *xs, int x_count, Value **dx);
#endif
