/* A graph that computes the same bits with fewer nodes: one of several equal ones, none of those
 * that are an operand of theirs or a constant, and none that nobody reads. */
#ifndef IPULUA_TRANSFORM_SIMPLIFY_H
#define IPULUA_TRANSFORM_SIMPLIFY_H
#include "graph/graph.h"

/* In place, with the regions of its nodes. Effects and random numbers stay as they are, and in
 * their order; what is equal in two passes, stages or on two IPUs is made in both. Of equal
 * nodes the first stays, with its line. */
Status graph_simplify(Error *e, Graph *g, const Kernels *kernels, const Numerics *numerics);
#endif
