/* The graph that a program is lowered from and priced by: what was traced, with recomputation
 * and every transfer between streaming memory and tiles as nodes of it. No transfer changes a
 * bit. */
#ifndef IPULUA_PROGRAM_OFFLOAD_H
#define IPULUA_PROGRAM_OFFLOAD_H
#include "program/program.h"

/* What to do to a graph, beside what was done to it before. */
typedef struct OffloadRequest {
  Offload offload;
  Recomputation recompute;
  int replicas;             /* that share out what the offload says */
  const PipelinePlan *plan; /* of the loop with stages; NULL: there is none */
} OffloadRequest;

/* The plan of the graph's pipeline; NULL: it has none. */
const PipelinePlan *graph_plan(const Graph *g);
/* A new graph in which that is done to p's, the caller's to free. NULL: nothing is to be done,
 * or e is filled. */
Graph *offload_graph(Error *e, const Program *p, const OffloadRequest *q);
#endif
