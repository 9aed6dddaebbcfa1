/* The macros with which a kernel header is compiled for float32. No include guard, because it is
 * included once for each header. */
#include "kernels/real_none.h"
#define REAL float
#define VECTOR f32v
#define INTEGERS i32v
#define LANES F32_LANES
#define NAME(x) x##_f32
#define LOAD load_f32
#define STORE store_f32
#define LOAD_SOME load_some_f32
#define STORE_SOME store_some_f32
#define SPLAT splat_f32
#define FMA fma_f32
