/* Steps of a pipelined loop. */
#ifndef IPULUA_PROGRAM_PIPELINE_H
#define IPULUA_PROGRAM_PIPELINE_H
#include "program/lower.h"

/* The passes of that loop, whose step s is. */
void lower_pipeline(Lower *l, Step *s, const int *inputs, const int *targets);
#endif
