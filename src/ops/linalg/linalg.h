/* Batches of matrices, which are the last two axes. LAPACK is called on one thread for each matrix.
 * The division of matrices among threads depends on their number alone. */
#ifndef IPULUA_OPS_LINALG_H
#define IPULUA_OPS_LINALG_H
#include <string.h>

#include "kernels/lapack.h"
#include "ops/support.h"

/* ---- infer ---- */
Status infer_matrices(Error *e,
                      const Type *a); /* floating point, two axes or more, extents of an int */
Status infer_square(Error *e, const Type *a); /* the same, and square */
/* Right-hand sides of a's systems: a's dtype, batches and rows. */
Status infer_sides(Error *e, const char *what, const Type *a, const Type *b);
Status infer_of_square(Error *e, Node *n); /* a square matrix of one */
/* of a system with a square matrix: the right-hand side's type */
Status infer_solution(Error *e, Node *n);

/* Rows and columns of the last two axes; how many such matrices the leading axes hold. */
static inline int64_t matrix_rows(const Type *t) { return t->shape[t->rank - 2]; }
static inline int64_t matrix_cols(const Type *t) { return t->shape[t->rank - 1]; }
int64_t matrix_count(const Type *t);

/* ---- evaluation ---- */

/* A task's result: 0, the number (from 1) of a pivot that is 0, or one of these. */
enum { NOT_FINITE = -1, NOT_CONVERGED = -2 };

typedef struct Batch Batch;
typedef int64_t (*MatrixTask)(const Batch *b, int64_t index, char *scratch);
struct Batch {
  const Call *c; /* a wide one */
  Lapack lapack;
  int64_t count;     /* matrices */
  size_t task_bytes; /* scratch of a task */
  double work;       /* multiply-adds of a matrix, about */
  MatrixTask task;
  int64_t work_count, whole_count; /* for LAPACK */
};

size_t batch_scratch(int64_t count, size_t task_bytes);
/* Runs the tasks; the first matrix that fails gives the error. */
Status batch_run(Batch *b);
/* LAPACK in the dtype that d is computed in; without the library blas is NULL. */
Lapack lapack_for(Dtype d);

/* Scratch is taken piece by piece. Without a base the pieces are only measured. */
typedef struct Scratch {
  char *base;
  size_t used;
} Scratch;
static inline void *scratch_take(Scratch *s, int64_t count, size_t size) {
  char *piece = s->base ? s->base + s->used : NULL;
  s->used += round_to_line((size_t)count * size);
  return piece;
}
/* Matrix i of an operand or a result. */
const char *matrix_in(const Batch *b, int operand, int64_t index);
char *matrix_out(const Batch *b, int result, int64_t index);
bool all_finite(Dtype d, const void *x, int64_t count);
void transpose_matrix(const Batch *b, const void *x, int64_t rows, int64_t cols, void *y);

/* ---- gradients ---- */

/* Narrow floats are widened before the first of several ops, and rounded after the last. */
Value *grad_wide(Graph *g, const Value *x);
Value *grad_narrow(Graph *g, Value *x, const Value *like);
Value *grad_product(Graph *g, Value *a, Value *b);               /* a b */
Value *grad_product_turned(Graph *g, Value *a, Value *b);        /* aᵀ b */
Value *grad_product_by_turned(Graph *g, Value *a, Value *b);     /* a bᵀ */
Value *grad_turn(Graph *g, Value *x);                            /* xᵀ */
Value *grad_triangle(Graph *g, Value *x, bool lower, int64_t k); /* tril or triu */
Value *grad_solve_triangle(Graph *g, Value *a, Value *b, bool lower, bool adjoint);
Value *grad_as_row(Graph *g, Value *x);    /* [..., n] → [..., 1, n] */
Value *grad_as_column(Graph *g, Value *x); /* [..., n] → [..., n, 1] */

/* ---- cost on the machine ---- */
#define LINALG_COSTS(X) \
  X(cholesky_solve) X(lu) X(lu_solve) X(inverse) X(qr) X(eigen) X(svd) X(lstsq) X(pinv) X(expm)
#define X(id) void cost_of_##id(const struct Target *t, const Node *n, struct Cost *cost);
LINALG_COSTS(X)
#undef X
/* Of an empty matrix either pointer may be NULL, which memcpy doesn't take. */
static inline void copy_numbers(void *to, const void *from, size_t bytes) {
  if (bytes) memcpy(to, from, bytes);
}
#endif
