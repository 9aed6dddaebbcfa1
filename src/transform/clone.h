/* Copies of nodes, regions and graphs. */
#ifndef IPULUA_TRANSFORM_CLONE_H
#define IPULUA_TRANSFORM_CLONE_H
#include "graph/trace.h"

/* A copy of n with its op, placement, name and line, on other operands of the same types. NULL with
 * to's error set. */
Node *clone_node(Graph *to, const Node *n, Value *const *in);
/* The same without the effects of its regions, as for a gradient. It is refused if a value depends
 * on one. */
Node *clone_pure(Graph *to, const Node *n, Value *const *in);
/* A copy of an input, with its placement, or of a constant. */
Value *clone_leaf(Graph *to, const Node *n);
/* A copy of a control node, over the given regions of `to`. */
Node *clone_control(Graph *to, const Node *n, Value *const *in, Graph *const region[2]);
/* A region, or any other graph, node by node. NULL when memory is out. */
Graph *graph_copy(const Graph *g);
/* Appends to `to` the nodes that g's outputs need. inputs[i] replaces g's input i. needed selects
 * outputs (NULL: all). Effects are left out. A value that depends on one, such as a queue's
 * element, is refused, as it can't be made twice. The nodes belong to the backward pass if
 * to->scope does. */
Status graph_inline(Graph *to, const Graph *g, Value *const *inputs, const bool *needed,
                    Value **outputs);
/* Appends all of g, with its effects, which must not run elsewhere. */
Status graph_inline_whole(Graph *to, const Graph *g, Value *const *inputs, Value **outputs);
/* Appends the nodes of a region to the trace `to`, as if they had been traced there. The given
 * values replace its arguments. `captured` replaces its captured values: region->extra without
 * variables, in order. Variables are `to`'s. */
Status clone_region(const Trace *region, Value *const *arguments, Value *const *captured,
                    Trace *to);
#endif
