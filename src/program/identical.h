/* Stochastic rounding of what all replicas compute alike, and of nothing else
 * (StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY). */
#ifndef IPULUA_PROGRAM_IDENTICAL_H
#define IPULUA_PROGRAM_IDENTICAL_H
#include "program/program.h"

/* Nodes of p's graph whose results may differ between replicas round to the nearest, but where a
 * scope says otherwise. */
Status program_round_identical(Error *e, Program *p);
/* Of each output of p's graph: does what each replica is given (arguments, too) reach it without
 * any collective, which would have joined it with the others'? NULL: memory is out. */
bool *program_find_unsummed(const Program *p, Arena *arena);
#endif
