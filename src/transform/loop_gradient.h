/* Gradients of loops, as loops. */
#ifndef IPULUA_TRANSFORM_LOOP_GRADIENT_H
#define IPULUA_TRANSFORM_LOOP_GRADIENT_H
#include "graph/graph.h"

/* As control_gradient, for repeat and while. */
void loop_gradient(Graph *g, const Node *n, Value *const *dy, const bool *wanted, Value **dx);
#endif
