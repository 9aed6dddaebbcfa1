/* Cholesky factors and triangular systems: our own loops, and LAPACK's for large ones. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "ops/linalg/linalg.h"

/* ---- Cholesky ---- */

/* Row by row, in double; both triangles are read, their mean counts. False: pivot *row isn't
 * positive. */
static bool factorise(Dtype d, const void *a, void *l, int64_t first, int64_t n, int64_t *row,
                      double *pivot) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      double sum = 0.5 * (dtype_get(d, a, first + i * n + j) + dtype_get(d, a, first + j * n + i));
      for (int64_t k = 0; k < j; k++)
        sum -= dtype_get(d, l, first + i * n + k) * dtype_get(d, l, first + j * n + k);
      if (i == j && !(sum > 0)) {
        *row = i, *pivot = sum;
        return false;
      }
      dtype_set(d, l, first + i * n + j,
                i == j ? sqrt(sum) : sum / dtype_get(d, l, first + j * n + j));
    }
  return true;
}

/* By LAPACK: a row-major L is an upper triangle there. False: not positive definite, or nearly
 * so. */
static bool factorise_large(Lapack l, const void *a, void *to, int64_t n) {
  Dtype d = l.dtype;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++)
      dtype_set(d, to, i * n + j,
                j > i ? 0 : 0.5 * (dtype_get(d, a, i * n + j) + dtype_get(d, a, j * n + i)));
  return lapack_cholesky(l, n, to) == 0;
}

/* Matrices that are at least so large are LAPACK's. It is faster from 16 rows on, by half; below
 * these, opening it would take longer than most programs can gain. */
enum { LARGE_CHOLESKY = 32, LARGE_SOLVE = 32 };

static bool is_large(const Call *c, int64_t n, int64_t min, Lapack *l) {
  if (n < min || c->kernels->products == PRODUCTS_OWN) return false;
  *l = lapack_for(c->in_type[0]->dtype);
  return l->blas != NULL;
}

typedef struct Factors {
  const Call *call;
  Lapack lapack;
  bool large;
  int64_t n;
  _Atomic int64_t failed; /* the first matrix that isn't positive definite; INT64_MAX: none */
} Factors;

static bool factorise_one(const Factors *f, int64_t index, int64_t *row, double *pivot) {
  const Type *a = f->call->in_type[0];
  int64_t n = f->n, first = index * n * n, bytes = first * (int64_t)dtype_size(a->dtype);
  const char *from = (const char *)f->call->in[0] + bytes;
  char *to = (char *)f->call->out[0] + bytes;
  if (f->large && factorise_large(f->lapack, from, to, n)) return true;
  if (f->large) memset(to, 0, (size_t)(n * n) * dtype_size(a->dtype));
  return factorise(a->dtype, f->call->in[0], f->call->out[0], first, n, row, pivot);
}

static void factorise_some(void *context, int64_t begin, int64_t end) {
  Factors *f = context;
  int64_t row;
  double pivot;
  for (int64_t i = begin; i < end; i++) {
    int64_t before = f->failed;
    if (factorise_one(f, i, &row, &pivot)) continue;
    while (i < before && !atomic_compare_exchange_weak(&f->failed, &before, i)) {
    }
  }
}

static Status body_cholesky(const Call *c) {
  const Type *a = c->in_type[0];
  int64_t n = matrix_cols(a), row;
  double pivot;
  Factors f = {.call = c, .n = n, .failed = INT64_MAX};
  f.large = is_large(c, n, LARGE_CHOLESKY, &f.lapack);
  fill_zero(c, c->out[0], type_bytes(a));
  parallel_for(c, n ? matrix_count(a) : 0, (1 << 15) / max(n * n * n, 1), factorise_some, &f);
  if (f.failed == INT64_MAX) return OK;
  f.large = false;
  if (factorise_one(&f, f.failed, &row, &pivot)) return OK;
  return fail_at(c->error, c->source, ERR_VALUE,
                 "%s: matrix %lld of %s is not positive definite: pivot %lld is %g",
                 c->node->op->name, (long long)f.failed, c->node->op->inputs[0], (long long)row,
                 pivot);
}
static Status eval_cholesky(const Call *c) { return eval_wide(c, body_cholesky); }

/* 1 in one triangle, diagonal in the middle, 0 elsewhere. */
static Value *triangle(Graph *g, const Type *like, bool lower, double diagonal) {
  int64_t n = like->shape[like->rank - 1];
  Type type = {.dtype = like->dtype, .rank = 2, .shape = {n, n}};
  Tensor *t = tensor_new(&g->error, &type);
  for (int64_t i = 0; t && i < n; i++)
    for (int64_t j = 0; j < n; j++)
      dtype_set(type.dtype, t->data, i * n + j, i == j ? diagonal : (j < i) == lower);
  return graph_take_constant(g, t);
}

/* Sym(L^-T Phi(L^T dL) L^-1), where Phi keeps the lower triangle and halves the diagonal (Murray,
 * "Differentiation of the Cholesky decomposition", 2016, equation 10). */
static void grad_cholesky(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *l = (Value *)&n->out[0];
  Value *phi = ops_mul(g, ops_matmul(g, l, dy[0], true, false), triangle(g, &l->type, true, 0.5));
  Value *left = grad_solve_triangle(g, l, phi, true, true);
  Value *both = grad_turn(g, grad_solve_triangle(g, l, grad_turn(g, left), true, true));
  dx[0] = ops_scale(g, ops_add(g, both, grad_turn(g, both)), 0.5);
}

/* ---- triangular systems ---- */

enum { LOWER, ADJOINT };

static Status infer_triangular(Error *e, Node *n) {
  Status s = infer_square(e, &n->in[0]->type);
  if (s == OK) s = infer_sides(e, "b", &n->in[0]->type, &n->in[1]->type);
  if (s == OK) n->out[0].type = n->in[1]->type;
  return s;
}

/* Substitution, row by row of the unknowns. Element (i, k) of the system is a's, or, for the
 * adjoint, (k, i).
 * */
#define SUBSTITUTE(id, T)                                                            \
  static void substitute_##id(const T *a, T *x, int64_t n, int64_t cols, bool lower, \
                              bool adjoint) {                                        \
    bool forward = lower != adjoint;                                                 \
    for (int64_t s = 0; s < n; s++) {                                                \
      int64_t i = forward ? s : n - 1 - s;                                           \
      T *row = x + i * cols;                                                         \
      for (int64_t t = 0; t < s; t++) {                                              \
        int64_t k = forward ? t : n - 1 - t;                                         \
        T factor = adjoint ? a[k * n + i] : a[i * n + k];                            \
        for (int64_t j = 0; j < cols; j++) row[j] -= factor * x[k * cols + j];       \
      }                                                                              \
      for (int64_t j = 0; j < cols; j++) row[j] /= a[i * n + i];                     \
    }                                                                                \
  }
SUBSTITUTE(f32, float)
SUBSTITUTE(f64, double)

/* Systems of a batch, solved in place of the right-hand sides. */
typedef struct Systems {
  const Call *call;
  Lapack lapack;
  bool large, lower, adjoint;
  int64_t n, cols;
} Systems;

/* Rows of x are columns to LAPACK: xᵀ = bᵀ a⁻ᵀ. */
static void solve_large(const Systems *s, const void *a, void *x) {
  Triangular t = {.right = true, .upper = s->lower, .turned = s->adjoint, .a_apart = s->n};
  lapack_triangular(s->lapack, &t, s->cols, s->n, a, x);
}

static void solve_some(void *context, int64_t begin, int64_t end) {
  const Systems *s = context;
  const Call *c = s->call;
  Dtype d = c->in_type[0]->dtype;
  for (int64_t i = begin; i < end; i++) {
    const void *a = (const char *)c->in[0] + (size_t)(i * s->n * s->n) * dtype_size(d);
    void *x = (char *)c->out[0] + (size_t)(i * s->n * s->cols) * dtype_size(d);
    if (s->large) solve_large(s, a, x);
    else if (d == F64) substitute_f64(a, x, s->n, s->cols, s->lower, s->adjoint);
    else substitute_f32(a, x, s->n, s->cols, s->lower, s->adjoint);
  }
}

static void solve_systems(const Call *c, bool lower, bool adjoint) {
  const Type *b = c->in_type[1];
  Systems s = {
      .call = c, .lower = lower, .adjoint = adjoint, .n = matrix_rows(b), .cols = matrix_cols(b)};
  s.large = is_large(c, s.n, LARGE_SOLVE, &s.lapack);
  parallel_for(c, matrix_count(b), (1 << 15) / max(s.n * s.n * s.cols, 1), solve_some, &s);
}

static Status body_solve(const Call *c) {
  const Type *b = c->in_type[1];
  if (!type_count(b)) return OK;
  copy_bytes(c, c->out[0], c->in[1], type_bytes(b));
  solve_systems(c, c->attr[LOWER].i, c->attr[ADJOINT].i);
  return OK;
}
static Status eval_solve(const Call *c) { return eval_wide(c, body_solve); }

/* db solves the adjoint system; da is minus the outer product of both solutions, in the triangle
 * that was read. */
static void grad_solve(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  bool lower = n->attr[LOWER].i, adjoint = n->attr[ADJOINT].i;
  Value *x = (Value *)&n->out[0], *db = grad_solve_triangle(g, n->in[0], dy[0], lower, !adjoint);
  Value *da = adjoint ? ops_matmul(g, x, db, false, true) : ops_matmul(g, db, x, false, true);
  dx[0] = ops_neg(g, ops_mul(g, da, triangle(g, &n->in[0]->type, lower, 1)));
  dx[1] = db;
}

/* ---- systems of Cholesky factors ---- */

static Status body_cholesky_solve(const Call *c) {
  const Type *b = c->in_type[1];
  if (!type_count(b)) return OK;
  copy_bytes(c, c->out[0], c->in[1], type_bytes(b));
  solve_systems(c, true, false);
  solve_systems(c, true, true);
  return OK;
}
static Status eval_cholesky_solve(const Call *c) { return eval_wide(c, body_cholesky_solve); }

/* drhs solves the same system. The gradient by a = L Lᵀ is -drhs xᵀ. The gradient by L is that
 * matrix plus its transpose, times L, below the diagonal. */
static void grad_cholesky_solve(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *l = grad_wide(g, n->in[0]), *x = grad_wide(g, &n->out[0]);
  Value *sides = op2(g, "linalg.cholesky_solve", l, grad_wide(g, dy[0]));
  Value *whole = grad_product_by_turned(g, sides, x);
  whole = ops_add(g, whole, grad_turn(g, whole));
  whole = grad_product(g, whole, grad_triangle(g, l, true, 0));
  dx[0] = grad_narrow(g, ops_neg(g, grad_triangle(g, whole, true, 0)), n->in[0]);
  dx[1] = grad_narrow(g, sides, n->in[1]);
}

/* ---- rows ---- */

const OpDef ops_triangular[] = {
    {.name = "cholesky",
     .family = FAMILY_CHOLESKY,
     .summary =
         "The lower triangular L with L L^T = a, for symmetric positive definite matrices; of others (a + a^T) / 2 counts.",
     .shapes = "[…, n, n] → […, n, n]",
     .inputs = {"a"},
     .infer = infer_of_square,
     .cost = cost_of_cholesky,
     .eval = eval_cholesky,
     .scratch = scratch_wide,
     .grad = grad_cholesky,
     .sample = "M[3,3] | M[2,4,4] | M[1,1] | M[0,0]"},
    {.name = "triangular_solve",
     .family = FAMILY_TRIANGULAR,
     .summary = "x with a x = b, or a^T x = b, where a's one triangle counts.",
     .shapes = "[…, n, n], […, n, m] → […, n, m]",
     .inputs = {"a", "b"},
     .attrs = {{"lower", ATTR_BOOL, "true", NULL, "a's lower triangle counts, else its upper one"},
               {"adjoint", ATTR_BOOL, "false", NULL, "solve with a transposed"}},
     .infer = infer_triangular,
     .cost = cost_of_solve,
     .eval = eval_solve,
     .scratch = scratch_wide,
     .grad = grad_solve,
     .sample =
         "M[3,3] F[3,2] | M[2,3,3] F[2,3,4] {lower = false} | M[3,3] F[3,1] {adjoint = true} | M[3,3] "
         "F[3,2] {lower = false, adjoint = true}"},
    {.name = "linalg.cholesky_solve",
     .summary = "x with L Lᵀ x = rhs, of the lower triangular L that cholesky gives; what stands "
                "above its diagonal isn't read.",
     .shapes = "[…, n, n], […, n, k] → […, n, k]",
     .inputs = {"chol", "rhs"},
     .infer = infer_solution,
     .cost = cost_of_cholesky_solve,
     .eval = eval_cholesky_solve,
     .scratch = scratch_wide,
     .grad = grad_cholesky_solve,
     .sample = "W[3,3] F[3,2] | W[2,4,4] F[2,4,1] | W[0,0] F[0,2]"},
    {0}};
