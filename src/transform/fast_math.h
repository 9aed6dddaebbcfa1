/* Rewrites that are equal in real numbers, but round differently
 * (IPUConfig.optimizations.math.fast). */
#ifndef IPULUA_TRANSFORM_FAST_MATH_H
#define IPULUA_TRANSFORM_FAST_MATH_H
#include "graph/graph.h"

/* In place, with the regions of its nodes, of float32 and float64:
 *   x / c            →  x * (1 / c)            c a constant
 *   (x * a) * b      →  x * (a * b)            a, b constant numbers
 *   x / sqrt(y)      →  x * rsqrt(y)           where nobody else reads the root
 * A constant that would leave the normal range is not made. */
Status graph_fast_math(Error *e, Graph *g);
#endif
