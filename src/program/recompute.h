/* Recomputation of the activations of a pipeline's stages. */
#ifndef IPULUA_PROGRAM_RECOMPUTE_H
#define IPULUA_PROGRAM_RECOMPUTE_H
#include "program/timetable.h"

/* A new graph of the body, in which each stage's backward pass computes its forward values again.
 * Stage inputs, checkpoints and results of ops with an effect are kept instead. pass: the result of
 * assign_passes. NULL when memory is out. */
Graph *recompute_forward(const Graph *g, const PipelinePlan *plan, Recomputation mode,
                         const int *pass);
#endif
