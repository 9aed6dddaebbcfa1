/* Copies out of a deferred trace (graph/trace.h): what a session fetches becomes a root trace of its own, with the shapes
 * that are fed. */
#ifndef IPULUA_TRANSFORM_CLONE_H
#define IPULUA_TRANSFORM_CLONE_H
#include "graph/trace.h"

/* What is given from outside: any value of the trace. */
typedef struct Fed {
  Value *value;
  Type type; /* as fed */
} Fed;

/* Copy what the fetched values need into the empty root trace `to`: the fed values become its arguments, in that order. Effects whose
 * triggers are needed are needed too, and happen in their order. result[i] is the copy of fetched[i]. The message of a
 * failure is in to->graph->error. */
Status clone_fetched(const Trace *from, const Fed *fed, int fed_count, Value *const *fetched, int fetched_count, Trace *to,
                     Value **result);
/* A region, or any other graph, node by node. NULL when memory is out. */
Graph *graph_copy(const Graph *g);
/* One node, with operands of the types that it has. */
Node *graph_copy_node(Graph *to, const Node *n, Value *const *in);
/* What g's outputs need, appended to `to`, where inputs[i] stands for g's input i; needed (NULL: all) says which outputs. Effects
 * stay behind, and a value that comes of one (an element of a queue) is refused: it can't be had a second time. Those nodes are
 * of the backward pass when to->scope is. */
Status graph_inline(Graph *to, const Graph *g, Value *const *inputs, const bool *needed, Value **outputs);
/* v's type with -1 for each extent that depends on what is fed. */
Type clone_declared_type(const Trace *from, Value *v);
#endif
