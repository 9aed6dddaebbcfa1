/* The gradient of cond and of call: a node of the same kind, whose regions compute again what they need and then its gradients. */
#ifndef IPULUA_TRANSFORM_BRANCH_H
#define IPULUA_TRANSFORM_BRANCH_H
#include "graph/graph.h"

/* dy by output of n (NULL: none), wanted by operand; fills dx of those. */
void branch_grad(Graph *g, const Node *n, Value *const *dy, const bool *wanted, Value **dx);
#endif
