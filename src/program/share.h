/* Optimizer state and weights shared out among replicas: each loads, updates and stores a share
 * of its own. Gradients that all replicas sum are reduce-scattered to it; whatever else reads a
 * shared tensor gets all of it, gathered. */
#ifndef IPULUA_PROGRAM_SHARE_H
#define IPULUA_PROGRAM_SHARE_H
#include "program/program.h"

/* p's graph g, whose transfers are placed, for so many replicas; the caller's to free. NULL:
 * nothing can be shared out, since an update reads what replicas don't agree on; or e is filled. */
Graph *share_graph(Error *e, const Program *p, const Graph *g, const Offload *o, int replicas);
/* Of each input of the region g: how many shares it is loaded in, into shares[input_count], which
 * holds zeros; 0: no transfer reads it. False where memory is out. */
bool load_shares_of_inputs(const Graph *g, int *shares);
#endif
