/* BLAS and LAPACK. The library is opened at its first use, not linked, so a process that needs none
 * pays nothing. Debian's OpenBLAS has both; the reference LAPACK serves for linear algebra. It runs
 * on the calling thread alone, whatever the environment says, as callers divide the work. The
 * interface is Fortran's: matrices are column-major, and every argument is an address. The lengths
 * of character arguments follow the other arguments. */
#ifndef IPULUA_KERNELS_BLAS_H
#define IPULUA_KERNELS_BLAS_H
#include <stdbool.h>
#include <stddef.h>

/* id, parameters; T is the element. The names are LAPACK's without their first letter. */
#define BLAS_ROUTINES(X, T)                                                                        \
  X(gemm, T,                                                                                       \
    (const char *turn_a, const char *turn_b, const int *m, const int *n, const int *k,             \
     const T *alpha, const T *a, const int *lda, const T *b, const int *ldb, const T *beta, T *c,  \
     const int *ldc, size_t, size_t))                                                              \
  X(trsm, T,                                                                                       \
    (const char *side, const char *triangle, const char *turn, const char *diagonal, const int *m, \
     const int *n, const T *alpha, const T *a, const int *lda, T *b, const int *ldb, size_t,       \
     size_t, size_t, size_t))                                                                      \
  X(potrf, T, (const char *triangle, const int *n, T *a, const int *lda, int *info, size_t))       \
  X(getrf, T, (const int *m, const int *n, T *a, const int *lda, int *pivot, int *info))           \
  X(getrs, T,                                                                                      \
    (const char *turn, const int *n, const int *columns, const T *a, const int *lda,               \
     const int *pivot, T *b, const int *ldb, int *info, size_t))                                   \
  X(getri, T,                                                                                      \
    (const int *n, T *a, const int *lda, const int *pivot, T *work, const int *count, int *info))  \
  X(geqrf, T,                                                                                      \
    (const int *m, const int *n, T *a, const int *lda, T *tau, T *work, const int *count,          \
     int *info))                                                                                   \
  X(orgqr, T,                                                                                      \
    (const int *m, const int *n, const int *k, T *a, const int *lda, const T *tau, T *work,        \
     const int *count, int *info))                                                                 \
  X(gesdd, T,                                                                                      \
    (const char *vectors, const int *m, const int *n, T *a, const int *lda, T *s, T *u,            \
     const int *ldu, T *vt, const int *ldvt, T *work, const int *count, int *whole, int *info,     \
     size_t))                                                                                      \
  X(syevd, T,                                                                                      \
    (const char *vectors, const char *triangle, const int *n, T *a, const int *lda, T *w, T *work, \
     const int *count, int *whole, const int *whole_count, int *info, size_t, size_t))

#define BLAS_MEMBER(id, T, parameters) void(*id) parameters;
typedef struct BlasF32 {
  BLAS_ROUTINES(BLAS_MEMBER, float)
} BlasF32;
typedef struct BlasF64 {
  BLAS_ROUTINES(BLAS_MEMBER, double)
} BlasF64;
#undef BLAS_MEMBER

typedef struct Blas {
  BlasF32 f32;
  BlasF64 f64;
  bool is_openblas; /* whose products may be faster than ours */
  const char *file; /* as it was opened */
  const char *core; /* the kernels that OpenBLAS chose, "Haswell"; "" of another library */
  char version[32]; /* "0.3.21"; "" of another library */
} Blas;

/* The library; NULL when there is none. The first call opens it. Any thread may call. */
const Blas *blas_open(void);
/* Sets the core that OpenBLAS uses, one that kernels.h names. The default is the best for this CPU.
 * It has no effect after the library has been opened. */
void blas_choose_core(const char *core);
/* Debian's package of the library, for messages. */
#define BLAS_PACKAGE "libopenblas0"
#endif
