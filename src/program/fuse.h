/* Which nodes of a graph run together. */
#ifndef IPULUA_PROGRAM_FUSE_H
#define IPULUA_PROGRAM_FUSE_H
#include "kernels/numerics.h"
#include "program/region.h"

/* Finds readers and liveness, and groups if fuse is set. Nodes of different passes are never
 * grouped. False: out of memory. */
bool region_analyse(Region *r, const Graph *g, const int *pass, const Numerics *numerics,
                    Arena *scratch);
#endif
