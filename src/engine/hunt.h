/* Looking for the op that makes the first NaN or infinity: what its operands held, and what came
 * of it. */
#ifndef IPULUA_ENGINE_HUNT_H
#define IPULUA_ENGINE_HUNT_H
#include "graph/graph.h"

enum { HUNT_OPERANDS = 16 };

typedef struct HuntRange {
  double least, most; /* of the finite ones */
  int64_t count, nan, infinite;
} HuntRange;

typedef struct Hunt {
  HuntRange operand[HUNT_OPERANDS]; /* seen before the op ran: it may write over them */
  int count;
} Hunt;

void hunt_operands(Hunt *h, const Call *c);
/* An error at the node's line when results are NaN or infinite and nothing in the operands
 * explains it. */
Status hunt_results(const Hunt *h, const Call *c, Error *e);
#endif
