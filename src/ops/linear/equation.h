/* The equation of an einsum: which indices each operand has, and their extents. */
#ifndef IPULUA_OPS_LINEAR_EQUATION_H
#define IPULUA_OPS_LINEAR_EQUATION_H
#include "graph/graph.h"

/* Indices: 52 letters, then the dimensions of "...", counted from the last. */
enum { LETTERS = 52, INDICES = LETTERS + MAX_RANK, VIEW_RANK = 2 * MAX_RANK };

typedef struct Term {
  int rank;
  uint8_t index[MAX_RANK];
} Term;

typedef struct Equation {
  int count;
  Term in[MAX_INPUTS], out;
  int64_t extent[INDICES]; /* 0: not used (or empty) */
  bool used[INDICES];
} Equation;

Status equation_read(Error *e, const char *s, int count, Value *const *in, Equation *q);
#endif
