/* How the parts of a Kernels table come together: each kernel file fills its fields, once per
 * instruction set. */
#ifndef IPULUA_KERNELS_FILL_H
#define IPULUA_KERNELS_FILL_H
#include "kernels/kernels.h"

/* The instruction sets that this build has, the best last; the Makefile compiles the same ones. */
#if defined(__x86_64__)
#define KERNEL_ISAS(X) X(base) X(avx2) X(avx512)
#else
#define KERNEL_ISAS(X) X(base)
#endif

/* The files that fill, in no order. */
/* clang-format off */
#define KERNEL_FILES(X, isa)                                                                                    \
  X(cast, isa) X(cells, isa) X(columns, isa) X(elementwise, isa) X(functions, isa) X(matmul, isa) X(norm, isa)   \
  X(panel, isa) X(pooling, isa) X(random, isa) X(reduce, isa) X(softmax, isa) X(transpose, isa)
/* clang-format on */

#define DECLARE(file, isa) void kernels_fill_##file##_##isa(Kernels *k);
#define DECLARE_ALL(isa) KERNEL_FILES(DECLARE, isa)
KERNEL_ISAS(DECLARE_ALL)
#undef DECLARE
#undef DECLARE_ALL

/* kernels_fill_<file>_<isa> for the instruction set being compiled. */
#define FILL_NAME_(file, isa) kernels_fill_##file##_##isa
#define FILL_NAME(file, isa) FILL_NAME_(file, isa)
#define FILL(file) FILL_NAME(file, KERNEL_ISA)
#endif
