/* LAPACK for either element type, in place on column-major matrices whose columns lie one after the
 * other; a row-major matrix is its transpose there. Each call runs on the calling thread. Extents
 * fit an int. Functions return LAPACK's info, if the routine has one. 0 means success, and k > 0 a
 * failure at the kth position, counted from 1. Counts of work are in elements. */
#ifndef IPULUA_KERNELS_LAPACK_H
#define IPULUA_KERNELS_LAPACK_H
#include <stdint.h>

#include "kernels/blas.h"
#include "tensor/dtype.h"

typedef struct Lapack {
  const Blas *blas;
  Dtype dtype; /* F32 or F64 */
} Lapack;

/* a [n, n] becomes its factors; row i was exchanged with pivot[i] - 1. */
int lapack_lu(Lapack l, int64_t n, void *a, int *pivot);
/* b [n, columns] becomes the solution for lu's matrix, or for its transpose. */
void lapack_lu_solve(Lapack l, bool turned, int64_t n, int64_t columns, const void *lu,
                     const int *pivot, void *b);
int64_t lapack_inverse_work(Lapack l, int64_t n);
void lapack_inverse(Lapack l, int64_t n, void *lu, const int *pivot, void *work, int64_t count);

/* a [m, n]: R above, reflections below; tau [min(m, n)]. Then the first k columns of Q in place of
 * a's, of as many reflections. */
int64_t lapack_qr_work(Lapack l, int64_t m, int64_t n);
void lapack_qr(Lapack l, int64_t m, int64_t n, void *a, void *tau, void *work, int64_t count);
void lapack_q_of(Lapack l, int64_t m, int64_t k, void *a, const void *tau, void *work,
                 int64_t count);

/* a [m, n] → s [k], u [m, k], vt [k, n], k = min(m, n), s falling; a is lost. Without vectors u and
 * vt aren't touched. whole [8 k]. */
int64_t lapack_svd_work(Lapack l, bool vectors, int64_t m, int64_t n);
int lapack_svd(Lapack l, bool vectors, int64_t m, int64_t n, void *a, void *s, void *u, void *vt,
               void *work, int64_t count, int *whole);

/* Symmetric a [n, n], its lower triangle being read, becomes the eigenvectors; w [n], rising. */
int64_t lapack_eigh_work(Lapack l, int64_t n, int64_t *whole_count);
int lapack_eigh(Lapack l, int64_t n, void *a, void *w, void *work, int64_t count, int *whole,
                int64_t whole_count);

/* The upper triangle of a [n, n] becomes R with R' R = a. */
int lapack_cholesky(Lapack l, int64_t n, void *a);
/* b [m, n] := op(a)⁻¹ b, or b op(a)⁻¹ (from the right), for a triangular a. */
typedef struct Triangular {
  bool right, upper, turned;
  int64_t a_apart; /* of a's columns */
} Triangular;
void lapack_triangular(Lapack l, const Triangular *t, int64_t m, int64_t n, const void *a, void *b);
/* c [m, n] = op(a) op(b), k terms each. */
void lapack_product(Lapack l, bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k,
                    const void *a, const void *b, void *c);
#endif
