/* Stochastic rounding only of values that all replicas compute alike
 * (StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY). */
#ifndef IPULUA_PROGRAM_IDENTICAL_H
#define IPULUA_PROGRAM_IDENTICAL_H
#include "program/program.h"

/* Sets nodes of p's graph whose results may differ between replicas to round to nearest, unless a
 * scope has set their rounding. */
Status program_round_identical(Error *e, Program *p);
/* For each output of p's graph: whether it depends on a replica's own values, arguments included,
 * without a collective in between. NULL: memory is out. */
bool *program_find_unsummed(const Program *p, Arena *arena);
#endif
