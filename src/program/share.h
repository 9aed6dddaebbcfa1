/* Optimizer state and weights shared among replicas: each replica loads, updates and stores its own
 * share. Gradients that all replicas sum are reduce-scattered to the shares. For other readers a
 * shared tensor is gathered. */
#ifndef IPULUA_PROGRAM_SHARE_H
#define IPULUA_PROGRAM_SHARE_H
#include "program/program.h"

/* A copy of p's graph g, which has its transfers already, with shares for the replicas. The caller
 * frees it. NULL: an update reads values that differ between replicas, so nothing can be shared; or
 * e is filled. */
Graph *share_graph(Error *e, const Program *p, const Graph *g, const Offload *o, int replicas);
/* Sets shares[input_count], which holds zeros, to the number of shares in which each input of the
 * region g is loaded. 0: no transfer reads it. False when memory is out. */
bool load_shares_of_inputs(const Graph *g, int *shares);
#endif
