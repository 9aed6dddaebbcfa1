/* Makes a graph compute the same bits with fewer nodes. It merges equal nodes, replaces nodes that
 * equal an operand or a constant, and removes unread nodes. */
#ifndef IPULUA_TRANSFORM_SIMPLIFY_H
#define IPULUA_TRANSFORM_SIMPLIFY_H
#include "graph/graph.h"

/* In place, with the regions of its nodes. Effects and random numbers keep their order. Equal nodes
 * in two passes, in two stages or on two IPUs are not merged. Of equal nodes the first stays, with
 * its line. */
Status graph_simplify(Error *e, Graph *g, const Kernels *kernels, const Numerics *numerics);
#endif
