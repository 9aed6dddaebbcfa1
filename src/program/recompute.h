/* Recomputation of what a pipeline's stages keep. */
#ifndef IPULUA_PROGRAM_RECOMPUTE_H
#define IPULUA_PROGRAM_RECOMPUTE_H
#include "program/timetable.h"

/* The body with each stage's forward values made again in its backward pass, instead of kept; a
 * new graph. Stage inputs, checkpoints and results of ops with an effect are kept. pass: as
 * assign_passes has found. NULL when memory is out. */
Graph *recompute_forward(const Graph *g, const PipelinePlan *plan, Recomputation mode,
                         const int *pass);
#endif
