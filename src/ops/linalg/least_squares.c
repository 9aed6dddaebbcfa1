/* Least squares, pseudo-inverses, ranks: by QR and by singular values. */
#include <math.h>
#include <string.h>

#include "ops/linalg/linalg.h"

static double extents_product(const Type *x) {
  double m = (double)matrix_rows(x), n = (double)matrix_cols(x);
  return m * n * (m < n ? m : n);
}

static double epsilon_of(Dtype d) { return d == F64 ? 0x1p-52 : 0x1p-23; }

/* ---- least squares ---- */

enum { L2_REGULARIZER };

static Status infer_lstsq(Error *e, Node *n) {
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type;
  Status s = infer_matrices(e, a);
  if (s == OK) s = infer_sides(e, "rhs", a, b);
  if (s != OK) return s;
  double l2 = n->attr[L2_REGULARIZER].f;
  if (!(l2 >= 0 && isfinite(l2)))
    return fail(e, ERR_VALUE, "l2_regularizer must be at least 0, got %g", l2);
  n->out[0].type = *b;
  n->out[0].type.shape[b->rank - 2] = matrix_cols(a);
  return OK;
}

/* A system [m, n] with k right-hand sides. It takes the QR of a, or of aᵀ if a is wide. A
 * regulariser appends the rows of a multiple of the identity. In the first case x = R⁻¹ Qᵀ b. In
 * the second case Q's first rows are Q₁ = aᵀ R⁻¹ with Rᵀ R = a aᵀ + λ I, and x = Q₁ R⁻ᵀ b. */
typedef struct Sizes {
  int64_t m, n, k, rows, cols; /* rows, cols: of the matrix that is factorised */
  bool wide;
  double root; /* of the regulariser */
} Sizes;

static Sizes sizes_of(const Type *a, const Type *b, double l2) {
  Sizes s = {.m = matrix_rows(a), .n = matrix_cols(a), .k = matrix_cols(b), .root = sqrt(l2)};
  s.wide = s.m < s.n;
  s.cols = s.wide ? s.m : s.n;
  s.rows = (s.wide ? s.n : s.m) + (l2 > 0 ? s.cols : 0);
  return s;
}

typedef struct MinPieces {
  void *a, *r, *tau, *sides, *x, *work;
} MinPieces;

static size_t take_min(MinPieces *p, char *scratch, Dtype d, const Sizes *s, int64_t work) {
  size_t size = dtype_size(d);
  Scratch at = {.base = scratch};
  p->a = scratch_take(&at, s->rows * s->cols, size);
  p->r = scratch_take(&at, s->cols * s->cols, size);
  p->tau = scratch_take(&at, s->cols, size);
  p->sides = scratch_take(&at, s->rows * s->k, size);
  p->x = scratch_take(&at, s->rows * s->k, size);
  p->work = scratch_take(&at, work, size);
  return at.used;
}

/* The columns of a row-major x [from, cols], or its rows, `apart` elements from one to the next; 0
 * in between. */
static void put_columns(Dtype d, const void *x, int64_t from, int64_t cols, bool rows,
                        int64_t apart, void *to) {
  int64_t count = rows ? from : cols, length = rows ? cols : from;
  if (count && apart) memset(to, 0, (size_t)(count * apart) * dtype_size(d));
  for (int64_t j = 0; j < count; j++)
    for (int64_t i = 0; i < length; i++)
      dtype_set(d, to, j * apart + i, dtype_get(d, x, rows ? j * cols + i : i * cols + j));
}

static Sizes batch_sizes(const Batch *b) {
  return sizes_of(b->c->in_type[0], b->c->in_type[1], b->c->attr[L2_REGULARIZER].f);
}

static int64_t solve_min(const Batch *b, int64_t index, char *scratch) {
  Sizes s = batch_sizes(b);
  Lapack l = b->lapack;
  Dtype d = l.dtype;
  size_t size = dtype_size(d);
  MinPieces p;
  take_min(&p, scratch, d, &s, b->work_count);
  const char *a = matrix_in(b, 0, index), *rhs = matrix_in(b, 1, index);
  if (!all_finite(d, a, s.m * s.n) || !all_finite(d, rhs, s.m * s.k)) return NOT_FINITE;
  put_columns(d, a, s.m, s.n, s.wide, s.rows, p.a);
  for (int64_t j = 0; s.root > 0 && j < s.cols; j++)
    dtype_set(d, p.a, j * s.rows + s.rows - s.cols + j, s.root);
  put_columns(d, rhs, s.m, s.k, false, s.wide ? s.m : s.rows, p.sides);
  lapack_qr(l, s.rows, s.cols, p.a, p.tau, p.work, b->work_count);
  for (int64_t j = 0; j < s.cols; j++)
    memcpy((char *)p.r + (size_t)(j * s.cols) * size, (char *)p.a + (size_t)(j * s.rows) * size,
           (size_t)s.cols * size);
  lapack_q_of(l, s.rows, s.cols, p.a, p.tau, p.work, b->work_count);
  Triangular t = {.upper = true, .turned = s.wide, .a_apart = s.cols};
  if (s.wide) {
    lapack_triangular(l, &t, s.cols, s.k, p.r, p.sides);
    lapack_product(l, false, false, s.rows, s.k, s.m, p.a, p.sides, p.x);
  } else {
    lapack_product(l, true, false, s.n, s.k, s.rows, p.a, p.sides, p.x);
    lapack_triangular(l, &t, s.n, s.k, p.r, p.x);
  }
  int64_t apart = s.wide ? s.rows : s.n;
  char *x = matrix_out(b, 0, index);
  for (int64_t i = 0; i < s.n; i++)
    for (int64_t j = 0; j < s.k; j++)
      dtype_set(d, x, i * s.k + j, dtype_get(d, p.x, j * apart + i));
  return 0;
}

static int64_t min_work(Lapack l, const Sizes *s) {
  return l.blas && s->rows && s->cols ? lapack_qr_work(l, s->rows, s->cols) : 0;
}

static Status body_lstsq(const Call *c) {
  const Type *a = c->in_type[0];
  Batch b = {.c = c, .lapack = lapack_for(a->dtype), .task = solve_min};
  Sizes s = batch_sizes(&b);
  MinPieces p;
  if (!type_count(c->out_type[0])) return OK;
  if (!s.rows || !s.cols) { /* nothing is asked of x: the least one */
    fill_zero(c, c->out[0], type_bytes(c->out_type[0]));
    return OK;
  }
  b.count = matrix_count(a);
  b.work_count = min_work(b.lapack, &s);
  b.task_bytes = take_min(&p, NULL, b.lapack.dtype, &s, b.work_count);
  b.work = 3 * extents_product(a);
  return batch_run(&b);
}
static Status eval_lstsq(const Call *c) { return eval_wide(c, body_lstsq); }

static size_t scratch_lstsq(const Node *n) {
  const Type *a = &n->in[0]->type;
  Sizes s = sizes_of(a, &n->in[1]->type, n->attr[L2_REGULARIZER].f);
  Lapack l = lapack_for(a->dtype);
  MinPieces p;
  size_t task = take_min(&p, NULL, l.dtype, &s, min_work(l, &s));
  return wide_scratch(n, batch_scratch(matrix_count(a), task));
}

/* x with `rows` more rows below; each matrix of the batch has `value` on the diagonal of these. */
static Value *with_rows(Graph *g, Value *x, int64_t rows, double value) {
  if (!x) return NULL;
  Type below = x->type, square = {.dtype = x->type.dtype, .rank = 2};
  below.shape[below.rank - 2] = rows;
  Value *added = ops_zeros(g, &below);
  if (value != 0) {
    square.shape[0] = square.shape[1] = rows;
    added = ops_broadcast(g, ops_scale(g, grad_identity(g, square.dtype, rows), value), &below);
  }
  return op_with(g, "concat", (Value *[]){x, added}, 2, (Attr[]){attr_int(-2)});
}

static Value *first_rows(Graph *g, Value *x, int64_t rows) {
  if (!x) return NULL;
  int64_t begin[MAX_RANK] = {0}, size[MAX_RANK];
  for (int i = 0; i < x->type.rank; i++) size[i] = x->type.shape[i];
  size[x->type.rank - 2] = rows;
  Attr attrs[] = {attr_ints(begin, x->type.rank), attr_ints(size, x->type.rank)};
  return op_with(g, "slice", &x, 1, attrs);
}

static void factor(Graph *g, Value *x, Value **q, Value **r) {
  Node *n = x ? graph_node(g, op_find("linalg.qr"), &x, 1, NULL) : NULL;
  *q = n ? &n->out[0] : NULL, *r = n ? &n->out[1] : NULL;
}

static void compose_lstsq(Graph *g, const Node *n, Value **out) {
  Value *a = grad_wide(g, n->in[0]), *b = grad_wide(g, n->in[1]), *q, *r, *x;
  Sizes s = sizes_of(&n->in[0]->type, &n->in[1]->type, n->attr[L2_REGULARIZER].f);
  if (s.wide) a = grad_turn(g, a);
  if (s.root > 0) a = with_rows(g, a, s.cols, s.root);
  factor(g, a, &q, &r);
  if (s.wide) {
    x = grad_product(g, first_rows(g, q, s.n), grad_solve_triangle(g, r, b, false, true));
  } else {
    if (s.root > 0) b = with_rows(g, b, s.cols, 0);
    x = grad_solve_triangle(g, r, grad_product_turned(g, q, b), false, false);
  }
  out[0] = grad_narrow(g, x, n->in[0]);
}

/* ---- by singular values ---- */

typedef struct ValuesPieces {
  void *a, *s, *u, *v, *work;
  int *whole;
} ValuesPieces;

static size_t take_values(ValuesPieces *p, char *scratch, Dtype d, bool vectors, int64_t m,
                          int64_t n, int64_t work) {
  int64_t k = min(m, n);
  size_t size = dtype_size(d);
  Scratch at = {.base = scratch};
  p->a = scratch_take(&at, m * n, size);
  p->s = scratch_take(&at, k, size);
  p->u = scratch_take(&at, vectors ? m * k : 1, size);
  p->v = scratch_take(&at, vectors ? n * k : 1, size);
  p->work = scratch_take(&at, work, size);
  p->whole = scratch_take(&at, 8 * k, sizeof *p->whole);
  return at.used;
}

/* Works on xᵀ, as LAPACK sees x: v [n, k] and u [k, m], column by column. Returns 0, or LAPACK's
 * code. */
static int64_t decompose(const Batch *b, int64_t index, const ValuesPieces *p, bool vectors) {
  const Type *x = b->c->in_type[0];
  int64_t m = matrix_rows(x), n = matrix_cols(x);
  Dtype d = b->lapack.dtype;
  const char *in = matrix_in(b, 0, index);
  if (!all_finite(d, in, m * n)) return NOT_FINITE;
  copy_numbers(p->a, in, (size_t)(m * n) * dtype_size(d));
  return lapack_svd(b->lapack, vectors, n, m, p->a, p->s, p->v, p->u, p->work, b->work_count,
                    p->whole)
             ? NOT_CONVERGED
             : 0;
}

static int64_t values_work(Lapack l, bool vectors, int64_t m, int64_t n) {
  return l.blas && m && n ? lapack_svd_work(l, vectors, n, m) : 0;
}

static Status run_values(const Call *c, bool vectors, MatrixTask task) {
  const Type *x = c->in_type[0];
  int64_t m = matrix_rows(x), n = matrix_cols(x);
  ValuesPieces p;
  Batch b = {.c = c, .lapack = lapack_for(x->dtype), .count = matrix_count(x), .task = task};
  if (!m || !n) {
    fill_zero(c, c->out[0], type_bytes(c->out_type[0]));
    return OK;
  }
  b.work_count = values_work(b.lapack, vectors, m, n);
  b.task_bytes = take_values(&p, NULL, b.lapack.dtype, vectors, m, n, b.work_count);
  b.work = 20 * extents_product(x);
  return batch_run(&b);
}

static size_t scratch_values(const Node *n, bool vectors) {
  const Type *x = &n->in[0]->type;
  int64_t rows = matrix_rows(x), cols = matrix_cols(x);
  Lapack l = lapack_for(x->dtype);
  ValuesPieces p;
  size_t task =
      take_values(&p, NULL, l.dtype, vectors, rows, cols, values_work(l, vectors, rows, cols));
  return wide_scratch(n, batch_scratch(matrix_count(x), task));
}

enum { TOLERANCE }; /* rcond, tol */

static Status infer_pinv(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  Status s = infer_matrices(e, x);
  if (s != OK) return s;
  n->out[0].type = *x;
  n->out[0].type.shape[x->rank - 2] = matrix_cols(x);
  n->out[0].type.shape[x->rank - 1] = matrix_rows(x);
  return OK;
}

/* v diag(1 / s) uᵀ; as LAPACK sees a row-major result, its transpose uᵀᵀ diag(1 / s) vᵀ. */
static int64_t invert_values(const Batch *b, int64_t index, char *scratch) {
  const Type *x = b->c->in_type[0];
  int64_t m = matrix_rows(x), n = matrix_cols(x), k = min(m, n);
  Dtype d = b->lapack.dtype;
  const Attr *given = &b->c->attr[TOLERANCE];
  double rcond = attr_given(given) ? given->f : 10 * (double)max(m, n) * epsilon_of(d);
  ValuesPieces p;
  take_values(&p, scratch, d, true, m, n, b->work_count);
  int64_t failed = decompose(b, index, &p, true);
  if (failed) return failed;
  double limit = rcond * dtype_get(d, p.s, 0);
  for (int64_t j = 0; j < k; j++) {
    double s = dtype_get(d, p.s, j), factor = s > limit ? 1 / s : 0;
    for (int64_t i = 0; i < n; i++)
      dtype_set(d, p.v, j * n + i, dtype_get(d, p.v, j * n + i) * factor);
  }
  lapack_product(b->lapack, true, true, m, n, k, p.u, p.v, matrix_out(b, 0, index));
  return 0;
}

static Status body_pinv(const Call *c) { return run_values(c, true, invert_values); }
static Status eval_pinv(const Call *c) { return eval_wide(c, body_pinv); }
static size_t scratch_pinv(const Node *n) { return scratch_values(n, true); }

/* With P of constant rank: -Pᵀ G Pᵀ + (I - A P) Gᵀ P Pᵀ + Pᵀ P Gᵀ (I - P A) (Golub, Pereyra,
 * 1973). */
static void grad_pinv(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *a = grad_wide(g, n->in[0]), *p = grad_wide(g, &n->out[0]), *d = grad_wide(g, dy[0]);
  Value *first =
      ops_neg(g, grad_product_by_turned(g, grad_product_turned(g, p, d), p)); /* [m, n]: Pᵀ G Pᵀ */
  Value *left = grad_product(g, grad_turn(g, d), grad_product_by_turned(g, p, p)); /* Gᵀ P Pᵀ */
  left = ops_sub(g, left, grad_product(g, a, grad_product(g, p, left)));
  Value *right = grad_product_by_turned(g, grad_product_turned(g, p, p), d); /* Pᵀ P Gᵀ */
  right = ops_sub(g, right, grad_product(g, grad_product(g, right, p), a));
  dx[0] = grad_narrow(g, ops_add(g, first, ops_add(g, left, right)), n->in[0]);
}

static Status infer_rank(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  Status s = infer_matrices(e, x);
  n->out[0].type = *x;
  n->out[0].type.rank = x->rank < 2 ? 0 : x->rank - 2;
  n->out[0].type.dtype = I32;
  return s;
}

static int64_t count_values(const Batch *b, int64_t index, char *scratch) {
  const Type *x = b->c->in_type[0];
  int64_t m = matrix_rows(x), n = matrix_cols(x), k = min(m, n);
  Dtype d = b->lapack.dtype;
  const Attr *given = &b->c->attr[TOLERANCE];
  ValuesPieces p;
  take_values(&p, scratch, d, false, m, n, b->work_count);
  int64_t failed = decompose(b, index, &p, false);
  if (failed) return failed;
  double tol =
      attr_given(given) ? given->f : (double)max(m, n) * epsilon_of(d) * dtype_get(d, p.s, 0);
  int32_t rank = 0;
  for (int64_t i = 0; i < k; i++) rank += dtype_get(d, p.s, i) > tol;
  ((int32_t *)b->c->out[0])[index] = rank;
  return 0;
}

static Status body_rank(const Call *c) { return run_values(c, false, count_values); }
static Status eval_rank(const Call *c) { return eval_wide(c, body_rank); }
static size_t scratch_rank(const Node *n) { return scratch_values(n, false); }

/* ---- rows ---- */

const OpDef ops_least_squares[] = {
    {.name = "linalg.lstsq",
     .summary = "x with the least ‖matrix x - rhs‖² + l2_regularizer ‖x‖²; of fewer rows than "
                "columns the least x. Full rank is expected: pinv takes any.",
     .shapes = "[…, m, n], […, m, k] → […, n, k]",
     .inputs = {"matrix", "rhs"},
     .attrs = {{"l2_regularizer", ATTR_FLOAT, "0", NULL, "the weight of x's own size"}},
     .infer = infer_lstsq,
     .cost = cost_of_lstsq,
     .eval = eval_lstsq,
     .scratch = scratch_lstsq,
     .compose = compose_lstsq,
     .sample =
         "F[4,3] F[4,2] | W[2,3,3] F[2,3,1] | F[2,4] F[2,2] | F[4,3] F[4,2] {l2_regularizer = 0.5} | "
         "F[2,3] F[2,1] {l2_regularizer = 0.1} | F[0,3] F[0,2]"},
    {.name = "linalg.pinv",
     .summary = "The pseudo-inverse: singular values up to rcond times the greatest count as 0.",
     .shapes = "[…, m, n] → […, n, m]",
     .source = "the gradient: Golub, Pereyra, SIAM Journal on Numerical Analysis 10, 1973",
     .inputs = {"a"},
     .attrs = {{"rcond", ATTR_FLOAT, "nil", NULL, "10 max(m, n) times the precision by default"}},
     .infer = infer_pinv,
     .cost = cost_of_pinv,
     .eval = eval_pinv,
     .scratch = scratch_pinv,
     .grad = grad_pinv,
     .sample = "F[4,3] | W[2,3,3] | F[2,4] | F[3,2] {rcond = 0.001} | F[0,3]"},
    {.name = "linalg.matrix_rank",
     .summary = "How many singular values are greater than tol.",
     .shapes = "[…, m, n] → […]",
     .inputs = {"a"},
     .attrs = {{"tol", ATTR_FLOAT, "nil", NULL,
                "max(m, n) times the precision times the greatest singular value by default"}},
     .traits = NO_GRADIENT,
     .infer = infer_rank,
     .cost = cost_of_svd,
     .eval = eval_rank,
     .scratch = scratch_rank,
     .sample = "F[4,3] | W[2,3,3] | F[2,4] {tol = 0.5} | F[0,3]"},
    {0}};
