/* The graph that a program is lowered from and priced by. It is the traced graph with added nodes,
 * for recomputation and for transfers between streaming memory and tiles. No transfer changes a
 * bit. */
#ifndef IPULUA_PROGRAM_OFFLOAD_H
#define IPULUA_PROGRAM_OFFLOAD_H
#include "program/program.h"

/* Transformations of a graph, in addition to the ones made before. */
typedef struct OffloadRequest {
  Offload offload;
  Recomputation recompute;
  int replicas;             /* that share the offloaded values */
  const PipelinePlan *plan; /* of the loop with stages; NULL: there is none */
} OffloadRequest;

/* The plan of the graph's pipeline; NULL: it has none. */
const PipelinePlan *graph_plan(const Graph *g);
/* A transformed copy of p's graph, which the caller frees. NULL: there is nothing to do, or e is
 * filled. */
Graph *offload_graph(Error *e, const Program *p, const OffloadRequest *q);
#endif
