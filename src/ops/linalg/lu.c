/* Inverses, determinants and solutions by LU factors. LAPACK reads a row-major matrix as its
 * transpose, and so factors xᵀ. Its determinant is x's, and its inverse the transpose of x's. */
#include <math.h>
#include <string.h>

#include "ops/linalg/linalg.h"

enum { ADJOINT };

static bool is_adjoint(const Batch *b) { return b->c->attr[ADJOINT].i; }

/* The pieces of a task's scratch. */
typedef struct Pieces {
  void *lu;
  int *pivot;
  void *work; /* or right-hand sides */
} Pieces;

static size_t take_pieces(Pieces *p, char *scratch, Dtype d, int64_t matrix, int64_t n,
                          int64_t work) {
  Scratch at = {.base = scratch};
  p->lu = scratch_take(&at, matrix, dtype_size(d));
  p->pivot = scratch_take(&at, n, sizeof *p->pivot);
  p->work = scratch_take(&at, work, dtype_size(d));
  return at.used;
}

static size_t pieces_bytes(Dtype d, int64_t matrix, int64_t n, int64_t work) {
  Pieces p;
  return take_pieces(&p, NULL, d, matrix, n, work);
}

static double cube(const Type *t) {
  double n = (double)matrix_cols(t);
  return n * n * n;
}

/* ---- inverses ---- */

/* A buffer inverted in place is inverted whichever way its rows run. */
static int64_t invert(const Batch *b, int64_t index, char *scratch) {
  int64_t n = matrix_cols(b->c->in_type[0]);
  Dtype d = b->lapack.dtype;
  Pieces p;
  take_pieces(&p, scratch, d, 0, n, b->work_count);
  char *y = matrix_out(b, 0, index);
  if (is_adjoint(b)) transpose_matrix(b, matrix_in(b, 0, index), n, n, y);
  else copy_numbers(y, matrix_in(b, 0, index), (size_t)(n * n) * dtype_size(d));
  int info = lapack_lu(b->lapack, n, y, p.pivot);
  if (!info) lapack_inverse(b->lapack, n, y, p.pivot, p.work, b->work_count);
  return info;
}

static int64_t inverse_work(Lapack l, int64_t n) {
  return l.blas && n ? lapack_inverse_work(l, n) : 0;
}

static Status body_inv(const Call *c) {
  const Type *x = c->in_type[0];
  int64_t n = matrix_cols(x);
  Batch b = {.c = c, .lapack = lapack_for(x->dtype), .count = n ? matrix_count(x) : 0};
  b.work_count = inverse_work(b.lapack, n);
  b.task_bytes = pieces_bytes(b.lapack.dtype, 0, n, b.work_count);
  b.work = 2 * cube(x), b.task = invert;
  return batch_run(&b);
}
static Status eval_inv(const Call *c) { return eval_wide(c, body_inv); }

static size_t scratch_inv(const Node *n) {
  const Type *x = &n->in[0]->type;
  Lapack l = lapack_for(x->dtype);
  int64_t extent = matrix_cols(x);
  size_t task = pieces_bytes(l.dtype, 0, extent, inverse_work(l, extent));
  return wide_scratch(n, batch_scratch(matrix_count(x), task));
}

/* Of y = x⁻¹: -yᵀ dy yᵀ; of y = x⁻ᵀ: -y dyᵀ y. */
static void grad_inv(Graph *g, const Node *n, Value *const *dys, Value **dx) {
  Value *y = grad_wide(g, &n->out[0]), *dy = grad_wide(g, dys[0]), *turned = grad_turn(g, y);
  Value *both = n->attr[ADJOINT].i ? grad_product(g, grad_product_by_turned(g, y, dy), y)
                                   : grad_product(g, grad_product_turned(g, y, dy), turned);
  dx[0] = grad_narrow(g, ops_neg(g, both), n->in[0]);
}

static Value *inverse_turned(Graph *g, Value *x) {
  return op_with(g, "linalg.inv", &x, 1, (Attr[]){attr_bool(true)});
}

/* ---- determinants ---- */

static Status infer_det(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  Status s = infer_square(e, x);
  if (s != OK) return s;
  Type out = *x;
  out.rank -= 2;
  for (int i = 0; i < n->out_count; i++) n->out[i].type = out;
  return OK;
}

static const void *factorise(const Batch *b, int64_t index, char *scratch, Pieces *p, bool *odd,
                             bool *singular) {
  int64_t n = matrix_cols(b->c->in_type[0]);
  Dtype d = b->lapack.dtype;
  take_pieces(p, scratch, d, n * n, n, 0);
  copy_numbers(p->lu, matrix_in(b, 0, index), (size_t)(n * n) * dtype_size(d));
  *singular = n && lapack_lu(b->lapack, n, p->lu, p->pivot) > 0;
  *odd = false;
  for (int64_t i = 0; i < n; i++) {
    *odd ^= p->pivot[i] != i + 1;
    *singular = *singular && !isnan(dtype_get(d, p->lu, i * n + i));
  }
  return p->lu;
}

static int64_t determinant(const Batch *b, int64_t index, char *scratch) {
  int64_t n = matrix_cols(b->c->in_type[0]);
  Dtype d = b->lapack.dtype;
  bool odd, singular;
  Pieces p;
  const void *lu = factorise(b, index, scratch, &p, &odd, &singular);
  double det = singular ? 0 : odd ? -1 : 1;
  for (int64_t i = 0; i < n && !singular; i++) det *= dtype_get(d, lu, i * n + i);
  dtype_set(d, b->c->out[0], index, det);
  return 0;
}

static int64_t log_determinant(const Batch *b, int64_t index, char *scratch) {
  int64_t n = matrix_cols(b->c->in_type[0]);
  Dtype d = b->lapack.dtype;
  bool odd, singular;
  Pieces p;
  const void *lu = factorise(b, index, scratch, &p, &odd, &singular);
  double sign = singular ? 0 : odd ? -1 : 1, log_of = singular ? -INFINITY : 0;
  for (int64_t i = 0; i < n && !singular; i++) {
    double u = dtype_get(d, lu, i * n + i);
    sign = isnan(u) ? NAN : u < 0 ? -sign : sign;
    log_of += log(fabs(u));
  }
  dtype_set(d, b->c->out[0], index, sign);
  dtype_set(d, b->c->out[1], index, log_of);
  return 0;
}

static Status body_of(const Call *c, MatrixTask task) {
  const Type *x = c->in_type[0];
  int64_t n = matrix_cols(x);
  Batch b = {.c = c, .lapack = lapack_for(x->dtype), .count = matrix_count(x), .task = task};
  b.task_bytes = pieces_bytes(b.lapack.dtype, n * n, n, 0);
  b.work = cube(x);
  return batch_run(&b);
}
static Status body_det(const Call *c) { return body_of(c, determinant); }
static Status body_slogdet(const Call *c) { return body_of(c, log_determinant); }
static Status eval_det(const Call *c) { return eval_wide(c, body_det); }
static Status eval_slogdet(const Call *c) { return eval_wide(c, body_slogdet); }

static size_t scratch_det(const Node *n) {
  const Type *x = &n->in[0]->type;
  int64_t extent = matrix_cols(x);
  size_t task = pieces_bytes(dtype_to_compute(x->dtype), extent * extent, extent, 0);
  return wide_scratch(n, batch_scratch(matrix_count(x), task));
}

/* A number for each matrix times its x⁻ᵀ. */
static Value *times_inverse(Graph *g, const Node *n, Value *factor) {
  Value *each = grad_as_column(g, grad_as_column(g, factor));
  Value *inverse = inverse_turned(g, grad_wide(g, n->in[0]));
  return grad_narrow(g, ops_mul(g, each, inverse), n->in[0]);
}

static void grad_det(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = times_inverse(g, n, ops_mul(g, grad_wide(g, dy[0]), grad_wide(g, &n->out[0])));
}

static void grad_slogdet(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = dy[1] ? times_inverse(g, n, grad_wide(g, dy[1])) : ops_zeros_of(g, n->in[0]);
}

/* ---- solutions ---- */

/* rhs is passed, and returned, with its columns one after the other. */
static int64_t solve(const Batch *b, int64_t index, char *scratch) {
  int64_t n = matrix_cols(b->c->in_type[0]), columns = matrix_cols(b->c->in_type[1]);
  Dtype d = b->lapack.dtype;
  Pieces p;
  take_pieces(&p, scratch, d, n * n, n, n * columns);
  copy_numbers(p.lu, matrix_in(b, 0, index), (size_t)(n * n) * dtype_size(d));
  int info = lapack_lu(b->lapack, n, p.lu, p.pivot);
  if (info) return info;
  transpose_matrix(b, matrix_in(b, 1, index), n, columns, p.work);
  lapack_lu_solve(b->lapack, !is_adjoint(b), n, columns, p.lu, p.pivot, p.work);
  transpose_matrix(b, p.work, columns, n, matrix_out(b, 0, index));
  return 0;
}

static Status body_solve(const Call *c) {
  const Type *a = c->in_type[0], *rhs = c->in_type[1];
  int64_t n = matrix_cols(a), columns = matrix_cols(rhs);
  Batch b = {.c = c, .lapack = lapack_for(a->dtype), .count = n ? matrix_count(a) : 0};
  b.task_bytes = pieces_bytes(b.lapack.dtype, n * n, n, n * columns);
  b.work = cube(a) + (double)n * (double)n * (double)columns, b.task = solve;
  return batch_run(&b);
}
static Status eval_solve(const Call *c) { return eval_wide(c, body_solve); }

static size_t scratch_solve(const Node *n) {
  const Type *a = &n->in[0]->type;
  int64_t extent = matrix_cols(a), columns = matrix_cols(&n->in[1]->type);
  size_t task = pieces_bytes(dtype_to_compute(a->dtype), extent * extent, extent, extent * columns);
  return wide_scratch(n, batch_scratch(matrix_count(a), task));
}

static void grad_solve(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  bool adjoint = n->attr[ADJOINT].i;
  Value *a = grad_wide(g, n->in[0]), *x = grad_wide(g, &n->out[0]);
  Value *sides = op_with(g, "linalg.solve", (Value *[]){a, grad_wide(g, dy[0])}, 2,
                         (Attr[]){attr_bool(!adjoint)});
  Value *outer =
      adjoint ? grad_product_by_turned(g, x, sides) : grad_product_by_turned(g, sides, x);
  dx[0] = grad_narrow(g, ops_neg(g, outer), n->in[0]);
  dx[1] = grad_narrow(g, sides, n->in[1]);
}

/* ---- rows ---- */

const OpDef ops_lu[] = {
    {.name = "linalg.inv",
     .summary = "The inverse of each matrix; a singular one is an error.",
     .shapes = "[…, n, n] → […, n, n]",
     .inputs = {"x"},
     .attrs = {{"adjoint", ATTR_BOOL, "false", NULL, "of the transposed matrix"}},
     .infer = infer_of_square,
     .cost = cost_of_inverse,
     .eval = eval_inv,
     .scratch = scratch_inv,
     .grad = grad_inv,
     .sample = "W[3,3] | W[2,4,4] | W[3,3] {adjoint = true} | W[1,1] | W[0,0]"},
    {.name = "linalg.det",
     .summary = "The determinant of each matrix; the gradient at a singular one is an error.",
     .shapes = "[…, n, n] → […]",
     .inputs = {"x"},
     .infer = infer_det,
     .cost = cost_of_lu,
     .eval = eval_det,
     .scratch = scratch_det,
     .grad = grad_det,
     .sample = "W[3,3] | W[2,4,4] | W[1,1]"},
    {.name = "linalg.slogdet",
     .summary = "The sign and the logarithm of the magnitude of each determinant; 0 and -inf of "
                "singular matrices, at which the gradient is an error.",
     .shapes = "[…, n, n] → […], […]",
     .inputs = {"x"},
     .outputs = 2,
     .infinite = true,
     .infer = infer_det,
     .cost = cost_of_lu,
     .eval = eval_slogdet,
     .scratch = scratch_det,
     .grad = grad_slogdet,
     .sample = "W[3,3] | W[2,4,4] | W[1,1]"},
    {.name = "linalg.solve",
     .summary = "x with matrix x = rhs, by elimination; a singular matrix is an error.",
     .shapes = "[…, n, n], […, n, k] → […, n, k]",
     .inputs = {"matrix", "rhs"},
     .attrs = {{"adjoint", ATTR_BOOL, "false", NULL, "solve with the transposed matrix"}},
     .infer = infer_solution,
     .cost = cost_of_lu_solve,
     .eval = eval_solve,
     .scratch = scratch_solve,
     .grad = grad_solve,
     .sample = "W[3,3] F[3,2] | W[2,4,4] F[2,4,3] | W[3,3] F[3,1] {adjoint = true} | "
               "W[0,0] F[0,2] | W[3,3] F[3,0]"},
    {0}};
