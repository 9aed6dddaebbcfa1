/* Copies of nodes, regions and graphs. */
#ifndef IPULUA_TRANSFORM_CLONE_H
#define IPULUA_TRANSFORM_CLONE_H
#include "graph/trace.h"

/* The same op, place, name and line on other operands, of the same types. NULL with to's error
 * set. */
Node *clone_node(Graph *to, const Node *n, Value *const *in);
/* The same without the effects of its regions, as for a gradient: refused where a value comes of
 * one. */
Node *clone_pure(Graph *to, const Node *n, Value *const *in);
/* An input with its place, or a constant. */
Value *clone_leaf(Graph *to, const Node *n);
/* The same of a control node, over regions of `to` where those are given. */
Node *clone_control(Graph *to, const Node *n, Value *const *in, Graph *const region[2]);
/* A region, or any other graph, node by node. NULL when memory is out. */
Graph *graph_copy(const Graph *g);
/* What g's outputs need, appended to `to`, where inputs[i] stands for g's input i; needed (NULL:
 * all) says which outputs. Effects stay behind, and a value that comes of one (an element of a
 * queue) is refused: it can't be had a second time. Those nodes are of the backward pass when
 * to->scope is. */
Status graph_inline(Graph *to, const Graph *g, Value *const *inputs, const bool *needed,
                    Value **outputs);
/* All of g, with its effects: it happens here and nowhere else. */
Status graph_inline_whole(Graph *to, const Graph *g, Value *const *inputs, Value **outputs);
/* Put the nodes of a region into the trace `to`, as if they had been traced there: in place of
 * its arguments stand the given values, in place of captured ones (region->extra without
 * variables, in order) those of captured. Variables are `to`'s. */
Status clone_region(const Trace *region, Value *const *arguments, Value *const *captured,
                    Trace *to);
#endif
