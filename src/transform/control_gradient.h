/* Gradients of nodes that hold regions (graph/control.h), as nodes of the same kinds. */
#ifndef IPULUA_TRANSFORM_CONTROL_GRADIENT_H
#define IPULUA_TRANSFORM_CONTROL_GRADIENT_H
#include "graph/graph.h"

/* As OpDef.grad; wanted [n->in_count] says whose gradients are asked for. */
void control_gradient(Graph *g, const Node *n, Value *const *dy, const bool *wanted, Value **dx);
#endif
