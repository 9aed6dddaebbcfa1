/* Steps of a pipelined loop. */
#ifndef IPULUA_PROGRAM_PIPELINE_H
#define IPULUA_PROGRAM_PIPELINE_H
#include "program/lower.h"

/* Lowers the passes of the loop whose step is s. */
void lower_pipeline(Lower *l, Step *s, const int *inputs, const int *targets);
#endif
