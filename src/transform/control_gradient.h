/* Gradients of nodes that hold regions (graph/control.h), as nodes of the same kinds. */
#ifndef IPULUA_TRANSFORM_CONTROL_GRADIENT_H
#define IPULUA_TRANSFORM_CONTROL_GRADIENT_H
#include "graph/graph.h"

/* As OpDef.grad. wanted [n->in_count] selects the inputs whose gradients are needed. */
void control_gradient(Graph *g, const Node *n, Value *const *dy, const bool *wanted, Value **dx);
#endif
