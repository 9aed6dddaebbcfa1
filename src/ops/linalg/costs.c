/* The costs of linear algebra on the machine, as parallel algorithms of products, passes,
 * reductions and exchanges. */
#include "ops/linalg/linalg.h"
#include "target/cost.h"

static const double SWEEPS = 8, WIDE_SWEEPS = 10; /* of Jacobi rotations: float32, float64 */
enum { PANEL = 32 };                              /* columns that QR reflects together */
static const double SQUARINGS = 8;                /* of expm: a program on the machine is static */

typedef struct Matrices {
  Dtype d;
  int64_t count, rows, cols, size; /* bytes of an element */
} Matrices;

static Matrices matrices_of(const Value *v) {
  const Type *x = &v->type;
  return (Matrices){x->dtype, matrix_count(x), matrix_rows(x), matrix_cols(x),
                    (int64_t)dtype_size(x->dtype)};
}

static bool is_empty(const Matrices *x) { return !x->count || !x->rows || !x->cols; }

static void then(Cost *c, Cost next) { cost_then(c, &next); }
static void then_times(Cost *c, Cost next, double times) {
  cost_repeat(&next, times);
  cost_then(c, &next);
}

static Cost product(const Target *t, const Matrices *x, int64_t m, int64_t k, int64_t n) {
  return m && k && n ? cost_matmul(t, x->d, F32, x->count, m, k, n, NULL) : cost_free();
}

/* Twice a Cholesky factorisation; for each pivot the position of the greatest element of a column,
 * and two rows that are swapped. */
static Cost lu(const Target *t, const Matrices *x) {
  if (is_empty(x)) return cost_free();
  Cost c = cost_cholesky(t, x->d, x->count, x->rows, t->cholesky_block);
  cost_repeat(&c, 2);
  Cost pivot = cost_reduce(t, x->d, COST_ARG, x->count, x->rows, 1);
  then(&pivot, cost_rearrange(t, 2 * x->count * x->cols * x->size, x->cols * x->size));
  then_times(&c, pivot, (double)x->rows);
  return c;
}

static Cost triangular(const Target *t, const Matrices *x, int64_t columns) {
  return is_empty(x) || !columns
             ? cost_free()
             : cost_triangular_solve(t, x->d, x->count, x->rows, columns, t->solve_block);
}

static Cost lu_solve(const Target *t, const Matrices *x, int64_t columns) {
  Cost c = lu(t, x);
  then_times(&c, triangular(t, x, columns), 2);
  return c;
}

/* For each column two reductions. For each panel two products with the columns right of it, which
 * are half of all columns on the average. */
static Cost qr(const Target *t, const Matrices *x) {
  if (is_empty(x)) return cost_free();
  int64_t k = min(x->rows, x->cols), panel = min(k, PANEL), right = max(x->cols / 2, 1);
  Cost c = cost_reduce(t, x->d, COST_SUM, x->count, x->rows, 1);
  cost_repeat(&c, 2 * (double)k);
  Cost both = panel > 1
                  ? product(t, x, panel, x->rows, right)
                  : cost_elementwise(t, x->d, x->count * x->rows * right, 2, 2 * VECTOR(MUL, x->d));
  if (panel > 1) then(&both, product(t, x, x->rows, panel, right));
  then_times(&c, both, (double)ceil_div(k, panel));
  return c;
}

/* Jacobi: sweeps of rounds, one fewer than columns; in each all columns in pairs: dots, a rotation,
 * an exchange. */
static Cost rotations(const Target *t, const Matrices *x, int64_t rows, int64_t cols) {
  if (is_empty(x)) return cost_free();
  int64_t elements = x->count * rows * cols;
  Cost round = cost_elementwise(t, x->d, elements, 2, VECTOR(MUL, x->d));
  then(&round, cost_reduce(t, x->d, COST_SUM, x->count * max(cols / 2, 1), rows, 1));
  then(&round, cost_elementwise(t, x->d, elements, 2, 2 * VECTOR(MUL, x->d)));
  then(&round, cost_rearrange(t, elements * x->size, rows * x->size));
  cost_repeat(&round, (x->d == F64 ? WIDE_SWEEPS : SWEEPS) * (double)max(cols - 1, 1));
  return round;
}

static Cost svd(const Target *t, const Matrices *x) {
  return rotations(t, x, max(x->rows, x->cols), min(x->rows, x->cols));
}

void cost_of_lu(const Target *t, const Node *n, Cost *cost) {
  Matrices x = matrices_of(n->in[0]);
  *cost = lu(t, &x);
}

void cost_of_lu_solve(const Target *t, const Node *n, Cost *cost) {
  Matrices x = matrices_of(n->in[0]);
  *cost = lu_solve(t, &x, matrix_cols(&n->in[1]->type));
}

void cost_of_inverse(const Target *t, const Node *n, Cost *cost) {
  Matrices x = matrices_of(n->in[0]);
  *cost = lu_solve(t, &x, x.cols);
}

void cost_of_cholesky_solve(const Target *t, const Node *n, Cost *cost) {
  Matrices x = matrices_of(n->in[0]);
  *cost = triangular(t, &x, matrix_cols(&n->in[1]->type));
  cost_repeat(cost, 2);
}

void cost_of_qr(const Target *t, const Node *n, Cost *cost) {
  Matrices x = matrices_of(n->in[0]);
  *cost = qr(t, &x);
}

void cost_of_eigen(const Target *t, const Node *n, Cost *cost) {
  Matrices x = matrices_of(n->in[0]);
  *cost = rotations(t, &x, x.rows, x.cols);
}

void cost_of_svd(const Target *t, const Node *n, Cost *cost) {
  Matrices x = matrices_of(n->in[0]);
  *cost = svd(t, &x);
}

void cost_of_lstsq(const Target *t, const Node *n, Cost *cost) {
  Matrices x = matrices_of(n->in[0]);
  int64_t sides = matrix_cols(&n->in[1]->type);
  if (x.rows < x.cols) x.rows = x.cols, x.cols = matrix_rows(&n->in[0]->type);
  *cost = qr(t, &x);
  then(cost, product(t, &x, x.cols, x.rows, sides));
  x.rows = x.cols;
  then(cost, triangular(t, &x, sides));
}

void cost_of_pinv(const Target *t, const Node *n, Cost *cost) {
  Matrices x = matrices_of(n->in[0]);
  *cost = svd(t, &x);
  then(cost, product(t, &x, x.cols, min(x.rows, x.cols), x.rows));
}

/* Six products of the approximant and the products that square; one solution. */
void cost_of_expm(const Target *t, const Node *n, Cost *cost) {
  Matrices x = matrices_of(n->in[0]);
  *cost = lu_solve(t, &x, x.cols);
  if (!is_empty(&x)) then_times(cost, product(t, &x, x.rows, x.cols, x.cols), 6 + SQUARINGS);
}
