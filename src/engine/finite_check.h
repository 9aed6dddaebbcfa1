/* The check that finds the op which makes the first NaN or infinity. It compares an op's operands,
 * summarized before the op runs, with its results. */
#ifndef IPULUA_ENGINE_FINITE_CHECK_H
#define IPULUA_ENGINE_FINITE_CHECK_H
#include "graph/graph.h"

enum { FINITE_CHECK_OPERANDS = 16 };

typedef struct FiniteRange {
  double min, max; /* of the finite ones */
  int64_t count, nan, infinite;
  int64_t first_nan, first_infinite; /* positions of the first ones */
} FiniteRange;

typedef struct FiniteCheck {
  FiniteRange operand[FINITE_CHECK_OPERANDS]; /* seen before the op ran: it may write over them */
  int count;
} FiniteCheck;

void finite_check_operands(FiniteCheck *check, const Call *c);
/* An error at the node's line when results are NaN or infinite and nothing in the operands
 * explains it. */
Status finite_check_results(const FiniteCheck *check, const Call *c, Error *e);
#endif
