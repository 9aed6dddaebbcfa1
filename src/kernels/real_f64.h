/* The macros with which a kernel header is compiled for float64. No include guard, because it is
 * included once for each header. */
#include "kernels/real_none.h"
#define REAL double
#define VECTOR f64v
#define INTEGERS i64v
#define LANES F64_LANES
#define NAME(x) x##_f64
#define LOAD load_f64
#define STORE store_f64
#define LOAD_SOME load_some_f64
#define STORE_SOME store_some_f64
#define SPLAT splat_f64
#define FMA fma_f64
