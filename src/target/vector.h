/* A worker's cycles for one pass over elements, from PL popopsCycleEstimators. f32 is the cycles
 * for f32_elements elements, and f16 for f16_elements. Integers have no vector forms. */
#ifndef IPULUA_TARGET_VECTOR_H
#define IPULUA_TARGET_VECTOR_H
#include "tensor/dtype.h"

typedef struct VectorCycles {
  double f32, f32_elements, f16, f16_elements;
  double integer; /* of one element; 0: as plain arithmetic */
} VectorCycles;

/* Cycles of a worker for a vector of 8 bytes. */
double vector_cycles(VectorCycles v, Dtype d);
/* The same for a row of the list below: VECTOR(ADD, F32). */
#define VECTOR(id, d) vector_cycles((VectorCycles)VECTOR_##id, d)

/* PL's estimators, in its own units, for rows of elementwise ops and for passes inside of plans. */
#define VECTOR_ADD {3, 2, 3, 4, 0} /* sub, mul, scaledAdd too */
#define VECTOR_SUB VECTOR_ADD
#define VECTOR_MUL VECTOR_ADD
#define VECTOR_DIV {10, 2, 21, 4, VECTOR_INTEGER_DIVISION}
#define VECTOR_EXTREME {3, 2, 4, 4, 0}  /* minimum, maximum */
#define VECTOR_COMPARE {14, 4, 9, 4, 0} /* equal and the orders */
#define VECTOR_SIMPLE {2, 2, 2, 4, 0}   /* neg, square, abs, floor, ceil, round */
#define VECTOR_SQUARE VECTOR_SIMPLE
#define VECTOR_TEST {5, 2, 5, 4, 0} /* sign, isfinite and its kin */
#define VECTOR_LOGIC {5, 4, 5, 4, 0}
#define VECTOR_SELECT {5, 1, 5, 1, 0}
#define VECTOR_CLAMP VECTOR_SELECT
#define VECTOR_EXP {6, 2, 4, 4, 0}
#define VECTOR_TANH {12, 2, 4, 4, 0}
#define VECTOR_SIGMOID {12, 2, 6, 4, 0}
#define VECTOR_RECIPROCAL {6, 2, 15, 4, 0}
#define VECTOR_SOFTPLUS {18, 2, 8, 4, 0}
#define VECTOR_GRADIENT {3, 2, 3, 4, 0} /* of relu, sigmoid, tanh by their results */
#define VECTOR_MOVE {1, 2, 1, 4, 0}     /* casts, copies, fills */
/* Any other function of an element. */
#define VECTOR_FUNCTION {12, 2, 16, 4, 0}
#define VECTOR_INTEGER_DIVISION 277

/* Functions without a vertex in PL are several operations in one, as popops::map makes them. Their
 * cycles add up, less a load and a store (2 cycles) for each intermediate result. Both numbers are
 * for a vector: 2 elements of float32, 4 of float16. */
#define FUSED(f32, f16) {f32, 2, f16, 4, 0}
#endif
