/* How the parts of a Kernels table come together: each kernel file fills its fields, once per instruction set. */
#ifndef IPULUA_KERNELS_FILL_H
#define IPULUA_KERNELS_FILL_H
#include "kernels/kernels.h"

/* The instruction sets that this build has, the best last; the Makefile compiles the same ones. */
#if defined(__x86_64__)
#define KERNEL_ISAS(X) X(base) X(avx2) X(avx512)
#else
#define KERNEL_ISAS(X) X(base)
#endif

#define FILLS(isa)                                    \
  void kernels_fill_elementwise_##isa(Kernels *k);    \
  void kernels_fill_functions_##isa(Kernels *k);      \
  void kernels_fill_cast_##isa(Kernels *k);           \
  void kernels_fill_matmul_##isa(Kernels *k);         \
  void kernels_fill_reduce_##isa(Kernels *k);         \
  void kernels_fill_softmax_##isa(Kernels *k);        \
  void kernels_fill_norm_##isa(Kernels *k);           \
  void kernels_fill_transpose_##isa(Kernels *k);
KERNEL_ISAS(FILLS)
#undef FILLS

/* kernels_fill_<file>_<isa> for the instruction set being compiled. */
#define FILL_NAME_(file, isa) kernels_fill_##file##_##isa
#define FILL_NAME(file, isa) FILL_NAME_(file, isa)
#define FILL(file) FILL_NAME(file, KERNEL_ISA)
#endif
