/* The words of a kernel text that is read once per element type: float64. No guard, on purpose. */
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
