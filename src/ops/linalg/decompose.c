/* QR, singular values, eigenvectors. Factors are made unique, so that they don't depend on the
 * library. R's diagonal isn't negative. The greatest entry of each column of U is positive, and for
 * eigenvectors of each column of V. */
#include <math.h>
#include <string.h>

#include "ops/linalg/linalg.h"

static int64_t min_extent(const Type *x) { return min(matrix_rows(x), matrix_cols(x)); }

static double product_of_extents(const Type *x) {
  return (double)matrix_rows(x) * (double)matrix_cols(x) * (double)min_extent(x);
}

/* Column j of a row-major matrix of `cols` columns becomes its negative. */
static void negate_column(Dtype d, void *x, int64_t rows, int64_t cols, int64_t j) {
  for (int64_t i = 0; i < rows; i++) dtype_set(d, x, i * cols + j, -dtype_get(d, x, i * cols + j));
}

/* Entries that differ by rounding alone count as equal: the first of them decides. */
static bool leads_negative(Dtype d, const void *x, int64_t rows, int64_t cols, int64_t j) {
  double slack = 1 + 64 * (d == F64 ? 0x1p-52 : 0x1p-23), greatest = 0;
  bool negative = false;
  for (int64_t i = 0; i < rows; i++) {
    double v = dtype_get(d, x, i * cols + j);
    if (fabs(v) > greatest * slack) greatest = fabs(v), negative = v < 0;
  }
  return negative;
}

/* Gives the columns of `lead` their sign; the columns of `follow` (NULL: none) change with them. */
static void fix_signs(Dtype d, void *lead, int64_t rows, int64_t cols, void *follow,
                      int64_t follow_rows) {
  for (int64_t j = 0; j < cols; j++) {
    if (!leads_negative(d, lead, rows, cols, j)) continue;
    negate_column(d, lead, rows, cols, j);
    if (follow) negate_column(d, follow, follow_rows, cols, j);
  }
}

/* ---- QR ---- */

static Status infer_qr(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  Status s = infer_matrices(e, x);
  if (s != OK) return s;
  int64_t k = min_extent(x);
  n->out[0].type = n->out[1].type = *x;
  n->out[0].type.shape[x->rank - 1] = k;
  n->out[1].type.shape[x->rank - 2] = k;
  return OK;
}

typedef struct QrPieces {
  void *a, *tau, *work;
} QrPieces;

static size_t take_qr(QrPieces *p, char *scratch, Dtype d, int64_t m, int64_t n, int64_t work) {
  Scratch at = {.base = scratch};
  p->a = scratch_take(&at, m * n, dtype_size(d));
  p->tau = scratch_take(&at, min(m, n), dtype_size(d));
  p->work = scratch_take(&at, work, dtype_size(d));
  return at.used;
}

static int64_t factorise_qr(const Batch *b, int64_t index, char *scratch) {
  const Type *x = b->c->in_type[0];
  int64_t m = matrix_rows(x), n = matrix_cols(x), k = min(m, n);
  Dtype d = b->lapack.dtype;
  QrPieces p;
  take_qr(&p, scratch, d, m, n, b->work_count);
  char *q = matrix_out(b, 0, index), *r = matrix_out(b, 1, index);
  transpose_matrix(b, matrix_in(b, 0, index), m, n, p.a);
  lapack_qr(b->lapack, m, n, p.a, p.tau, p.work, b->work_count);
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = 0; j < n; j++)
      dtype_set(d, r, i * n + j, j < i ? 0 : dtype_get(d, p.a, j * m + i));
  lapack_q_of(b->lapack, m, k, p.a, p.tau, p.work, b->work_count);
  transpose_matrix(b, p.a, k, m, q);
  for (int64_t i = 0; i < k; i++) {
    if (!(dtype_get(d, r, i * n + i) < 0)) continue;
    negate_column(d, q, m, k, i);
    for (int64_t j = i; j < n; j++) dtype_set(d, r, i * n + j, -dtype_get(d, r, i * n + j));
  }
  return 0;
}

static int64_t qr_work(Lapack l, int64_t m, int64_t n) {
  return l.blas && m && n ? lapack_qr_work(l, m, n) : 0;
}

static Status body_qr(const Call *c) {
  const Type *x = c->in_type[0];
  int64_t m = matrix_rows(x), n = matrix_cols(x);
  QrPieces p;
  Batch b = {.c = c, .lapack = lapack_for(x->dtype), .count = m && n ? matrix_count(x) : 0};
  b.work_count = qr_work(b.lapack, m, n);
  b.task_bytes = take_qr(&p, NULL, b.lapack.dtype, m, n, b.work_count);
  b.work = 2 * product_of_extents(x), b.task = factorise_qr;
  return batch_run(&b);
}
static Status eval_qr(const Call *c) { return eval_wide(c, body_qr); }

static size_t scratch_qr(const Node *n) {
  const Type *x = &n->in[0]->type;
  int64_t rows = matrix_rows(x), cols = matrix_cols(x);
  Lapack l = lapack_for(x->dtype);
  QrPieces p;
  size_t task = take_qr(&p, NULL, l.dtype, rows, cols, qr_work(l, rows, cols));
  return wide_scratch(n, batch_scratch(matrix_count(x), task));
}

/* The lower triangle of x, mirrored. */
static Value *mirrored(Graph *g, Value *x) {
  return ops_add(g, grad_triangle(g, x, true, 0), grad_turn(g, grad_triangle(g, x, true, -1)));
}

/* Columns [begin, end) of x. */
static Value *columns_of(Graph *g, Value *x, int64_t begin, int64_t end) {
  if (!x) return NULL;
  int64_t first[MAX_RANK] = {0}, size[MAX_RANK];
  int rank = x->type.rank;
  for (int i = 0; i < rank; i++) size[i] = x->type.shape[i];
  first[rank - 1] = begin, size[rank - 1] = end - begin;
  Attr attrs[] = {attr_ints(first, rank), attr_ints(size, rank)};
  return op_with(g, "slice", &x, 1, attrs);
}

static Value *beside(Graph *g, Value *left, Value *right) {
  return op_with(g, "concat", (Value *[]){left, right}, 2, (Attr[]){attr_int(-1)});
}

/* Of a tall or square matrix: (dQ + Q sym(R dRᵀ - dQᵀ Q)) R⁻ᵀ, where sym mirrors the lower
 * triangle. */
static Value *grad_tall_qr(Graph *g, Value *q, Value *r, Value *dq, Value *dr) {
  Value *inner = NULL, *sum = dq;
  if (dr) inner = grad_product_by_turned(g, r, dr);
  if (dq) {
    Value *turned = grad_product_turned(g, dq, q);
    inner = inner ? ops_sub(g, inner, turned) : ops_neg(g, turned);
  }
  Value *through = grad_product(g, q, mirrored(g, inner));
  sum = sum ? ops_add(g, sum, through) : through;
  return grad_turn(g, grad_solve_triangle(g, r, grad_turn(g, sum), false, false));
}

/* A wide one is [X, Y] with X = Q U, Y = Q V, R = [U, V]: V = Qᵀ Y gives gradients to Q and Y. */
static void grad_qr(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *q = grad_wide(g, &n->out[0]), *r = grad_wide(g, &n->out[1]), *x = grad_wide(g, n->in[0]);
  Value *dq = grad_wide(g, dy[0]), *dr = grad_wide(g, dy[1]), *whole;
  int64_t m = matrix_rows(&n->in[0]->type), cols = matrix_cols(&n->in[0]->type);
  if (m >= cols) {
    whole = grad_tall_qr(g, q, r, dq, dr);
  } else {
    Value *du = columns_of(g, dr, 0, m), *dv = columns_of(g, dr, m, cols);
    if (dv) {
      Value *more = grad_product_by_turned(g, columns_of(g, x, m, cols), dv);
      dq = dq ? ops_add(g, dq, more) : more;
    }
    Value *left = grad_tall_qr(g, q, columns_of(g, r, 0, m), dq, du);
    Value *none = ops_zeros_of(g, columns_of(g, x, m, cols));
    whole = beside(g, left, dv ? grad_product(g, q, dv) : none);
  }
  dx[0] = grad_narrow(g, whole, n->in[0]);
}

/* ---- singular values ---- */

enum { COMPUTE_UV };

static Status infer_svd(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  Status s = infer_matrices(e, x);
  if (s != OK) return s;
  int64_t k = min_extent(x);
  n->out_count = n->attr[COMPUTE_UV].i ? 3 : 1;
  Type values = *x, u = *x, v = *x;
  values.rank--, values.shape[values.rank - 1] = k;
  u.shape[u.rank - 1] = k;
  v.shape[v.rank - 2] = matrix_cols(x), v.shape[v.rank - 1] = k;
  n->out[0].type = values;
  if (n->out_count == 3) n->out[1].type = u, n->out[2].type = v;
  return OK;
}

typedef struct SvdPieces {
  void *a, *v, *work; /* v [k, n], row by row */
  int *whole;
} SvdPieces;

static size_t take_svd(SvdPieces *p, char *scratch, Dtype d, int64_t m, int64_t n, int64_t work) {
  int64_t k = min(m, n);
  Scratch at = {.base = scratch};
  p->a = scratch_take(&at, m * n, dtype_size(d));
  p->v = scratch_take(&at, k * n, dtype_size(d));
  p->work = scratch_take(&at, work, dtype_size(d));
  p->whole = scratch_take(&at, 8 * k, sizeof *p->whole);
  return at.used;
}

/* x is xᵀ to LAPACK, whose U is our V and whose Vᵀ, column by column, our U row by row. */
static int64_t factorise_svd(const Batch *b, int64_t index, char *scratch) {
  const Type *x = b->c->in_type[0];
  int64_t m = matrix_rows(x), n = matrix_cols(x), k = min(m, n);
  Dtype d = b->lapack.dtype;
  size_t size = dtype_size(d);
  bool vectors = b->c->out_count == 3;
  SvdPieces p;
  take_svd(&p, scratch, d, m, n, b->work_count);
  const void *in = matrix_in(b, 0, index);
  if (!all_finite(d, in, m * n)) return NOT_FINITE;
  copy_numbers(p.a, in, (size_t)(m * n) * size);
  char *s = (char *)b->c->out[0] + (size_t)(index * k) * size;
  char *u = vectors ? matrix_out(b, 1, index) : p.v;
  if (lapack_svd(b->lapack, vectors, n, m, p.a, s, p.v, u, p.work, b->work_count, p.whole))
    return NOT_CONVERGED;
  if (!vectors) return 0;
  char *v = matrix_out(b, 2, index);
  transpose_matrix(b, p.v, k, n, v);
  fix_signs(d, u, m, k, v, n);
  return 0;
}

static int64_t svd_work(Lapack l, bool vectors, int64_t m, int64_t n) {
  return l.blas && m && n ? lapack_svd_work(l, vectors, n, m) : 0;
}

static Status body_svd(const Call *c) {
  const Type *x = c->in_type[0];
  int64_t m = matrix_rows(x), n = matrix_cols(x);
  SvdPieces p;
  Batch b = {.c = c, .lapack = lapack_for(x->dtype), .count = m && n ? matrix_count(x) : 0};
  b.work_count = svd_work(b.lapack, c->out_count == 3, m, n);
  b.task_bytes = take_svd(&p, NULL, b.lapack.dtype, m, n, b.work_count);
  b.work = 20 * product_of_extents(x), b.task = factorise_svd;
  return batch_run(&b);
}
static Status eval_svd(const Call *c) { return eval_wide(c, body_svd); }

static size_t scratch_svd(const Node *n) {
  const Type *x = &n->in[0]->type;
  int64_t rows = matrix_rows(x), cols = matrix_cols(x);
  Lapack l = lapack_for(x->dtype);
  SvdPieces p;
  size_t task = take_svd(&p, NULL, l.dtype, rows, cols, svd_work(l, n->out_count == 3, rows, cols));
  return wide_scratch(n, batch_scratch(matrix_count(x), task));
}

static Value *where_nonzero(Graph *g, Value *zero, Value *x, double otherwise) {
  return ops_where(g, zero, ops_number(g, x, otherwise), x);
}

/* 1 / (b_j - b_i), times 1 / (b_j + b_i) for squares; 0 where both are equal but for rounding.
 * greatest: [..., 1, 1]. */
static Value *inverse_gaps(Graph *g, Value *values, Value *greatest, bool squares) {
  if (!values) return NULL;
  Value *row = grad_as_row(g, values), *column = grad_as_column(g, values);
  Value *gap = ops_sub(g, row, column), *sum = ops_add(g, row, column);
  int64_t n = values->type.shape[values->type.rank - 1];
  double slack = 4 * (double)n * (values->type.dtype == F64 ? 0x1p-52 : 0x1p-23);
  Value *equal = op2(g, "less_equal", op1(g, "abs", gap), ops_scale(g, greatest, slack));
  if (squares) gap = ops_mul(g, gap, sum);
  Value *inverse = op1(g, "reciprocal", where_nonzero(g, equal, gap, 1));
  return where_nonzero(g, equal, inverse, 0);
}

/* xᵀ dx - dxᵀ x, weighed. */
static Value *turning(Graph *g, Value *weights, Value *x, Value *dx) {
  Value *inner = grad_product_turned(g, x, dx);
  return ops_mul(g, weights, ops_sub(g, inner, grad_turn(g, inner)));
}

static Value *plus(Graph *g, Value *a, Value *b) { return !a ? b : !b ? a : ops_add(g, a, b); }

/* The part outside of the columns of x: dx - x xᵀ dx. */
static Value *outside(Graph *g, Value *x, Value *dx) {
  return ops_sub(g, dx, grad_product(g, x, grad_product_turned(g, x, dx)));
}

/* The singular vectors, which svd{compute_uv = false} doesn't give. */
static void vectors_of(Graph *g, const Node *n, Value **s, Value **u, Value **v) {
  if (n->out_count == 3) {
    *s = grad_wide(g, &n->out[0]), *u = grad_wide(g, &n->out[1]), *v = grad_wide(g, &n->out[2]);
    return;
  }
  Value *x = grad_wide(g, n->in[0]);
  Node *again = x ? graph_node(g, n->op, &x, 1, (Attr[]){attr_bool(true)}) : NULL;
  *s = again ? &again->out[0] : NULL, *u = again ? &again->out[1] : NULL;
  *v = again ? &again->out[2] : NULL;
}

/* dA = U (diag(ds) + (F ∘ (Uᵀ dU - dUᵀ U)) S + S (F ∘ (Vᵀ dV - dVᵀ V))) Vᵀ, where F_ij = 1 / (s_j²
 * - s_i²). The parts of dU and dV outside of the columns of U and V are added. */
static void grad_svd(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  bool vectors = n->out_count == 3;
  Value *s, *u, *v, *core = NULL, *left = NULL, *right = NULL;
  vectors_of(g, n, &s, &u, &v);
  Value *ds = grad_wide(g, dy[0]), *du = vectors ? grad_wide(g, dy[1]) : NULL,
        *dv = vectors ? grad_wide(g, dy[2]) : NULL;
  if (graph_error(g) != OK) return;
  int64_t m = matrix_rows(&n->in[0]->type), cols = matrix_cols(&n->in[0]->type), k = min(m, cols);
  Value *row = grad_as_row(g, s), *column = grad_as_column(g, s);
  Value *greatest = grad_as_column(g, columns_of(g, s, 0, min(k, 1)));
  if (ds) core = ops_mul(g, ops_identity(g, s->type.dtype, k), grad_as_row(g, ds));
  Value *gaps = du || dv ? inverse_gaps(g, s, greatest, true) : NULL;
  if (du) core = plus(g, core, ops_mul(g, turning(g, gaps, u, du), row));
  if (dv) core = plus(g, core, ops_mul(g, column, turning(g, gaps, v, dv)));
  Value *zero = op2(g, "equal", row, ops_number(g, row, 0));
  Value *inverse = where_nonzero(g, zero, op1(g, "reciprocal", where_nonzero(g, zero, row, 1)), 0);
  if (du && m > k) left = ops_mul(g, outside(g, u, du), inverse);
  if (dv && cols > k) right = ops_mul(g, outside(g, v, dv), inverse);
  Value *sum = core ? grad_product(g, u, core) : NULL;
  sum = plus(g, sum, left);
  sum = sum ? grad_product_by_turned(g, sum, v) : NULL;
  if (right) sum = plus(g, sum, grad_product_by_turned(g, u, right));
  dx[0] = grad_narrow(g, sum, n->in[0]);
}

/* ---- eigenvectors of symmetric matrices ---- */

static Status infer_eigh(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  Status s = infer_square(e, x);
  if (s != OK) return s;
  n->out[0].type = n->out[1].type = *x;
  n->out[0].type.rank--;
  return OK;
}

typedef struct EighPieces {
  void *a, *work;
  int *whole;
} EighPieces;

static size_t take_eigh(EighPieces *p, char *scratch, Dtype d, int64_t n, int64_t work,
                        int64_t whole) {
  Scratch at = {.base = scratch};
  p->a = scratch_take(&at, n * n, dtype_size(d));
  p->work = scratch_take(&at, work, dtype_size(d));
  p->whole = scratch_take(&at, whole, sizeof *p->whole);
  return at.used;
}

static int64_t factorise_eigh(const Batch *b, int64_t index, char *scratch) {
  int64_t n = matrix_cols(b->c->in_type[0]);
  Dtype d = b->lapack.dtype;
  EighPieces p;
  take_eigh(&p, scratch, d, n, b->work_count, b->whole_count);
  const void *x = matrix_in(b, 0, index);
  if (!all_finite(d, x, n * n)) return NOT_FINITE;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++)
      dtype_set(d, p.a, j * n + i,
                0.5 * dtype_get(d, x, i * n + j) + 0.5 * dtype_get(d, x, j * n + i));
  char *w = (char *)b->c->out[0] + (size_t)(index * n) * dtype_size(d);
  if (lapack_eigh(b->lapack, n, p.a, w, p.work, b->work_count, p.whole, b->whole_count))
    return NOT_CONVERGED;
  char *v = matrix_out(b, 1, index);
  transpose_matrix(b, p.a, n, n, v);
  fix_signs(d, v, n, n, NULL, 0);
  return 0;
}

static int64_t eigh_work(Lapack l, int64_t n, int64_t *whole) {
  *whole = 0;
  return l.blas && n ? lapack_eigh_work(l, n, whole) : 0;
}

static Status body_eigh(const Call *c) {
  const Type *x = c->in_type[0];
  int64_t n = matrix_cols(x);
  EighPieces p;
  Batch b = {.c = c, .lapack = lapack_for(x->dtype), .count = n ? matrix_count(x) : 0};
  b.work_count = eigh_work(b.lapack, n, &b.whole_count);
  b.task_bytes = take_eigh(&p, NULL, b.lapack.dtype, n, b.work_count, b.whole_count);
  b.work = 9 * product_of_extents(x), b.task = factorise_eigh;
  return batch_run(&b);
}
static Status eval_eigh(const Call *c) { return eval_wide(c, body_eigh); }

static size_t scratch_eigh(const Node *n) {
  const Type *x = &n->in[0]->type;
  Lapack l = lapack_for(x->dtype);
  int64_t whole, work = eigh_work(l, matrix_cols(x), &whole);
  EighPieces p;
  size_t task = take_eigh(&p, NULL, l.dtype, matrix_cols(x), work, whole);
  return wide_scratch(n, batch_scratch(matrix_count(x), task));
}

/* V (diag(de) + F ∘ (Vᵀ dV)) Vᵀ, F_ij = 1 / (e_j - e_i), made symmetric. */
static void grad_eigh(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *e = grad_wide(g, &n->out[0]), *v = grad_wide(g, &n->out[1]), *core = NULL;
  Value *de = grad_wide(g, dy[0]), *dv = grad_wide(g, dy[1]);
  int64_t extent = matrix_cols(&n->in[0]->type);
  if (de) core = ops_mul(g, ops_identity(g, e->type.dtype, extent), grad_as_row(g, de));
  if (dv && extent) {
    Value *last = op1(g, "abs", columns_of(g, e, extent - 1, extent));
    Value *greatest = op2(g, "maximum", op1(g, "abs", columns_of(g, e, 0, 1)), last);
    Value *gaps = inverse_gaps(g, e, grad_as_column(g, greatest), false);
    core = plus(g, core, ops_mul(g, gaps, grad_product_turned(g, v, dv)));
  }
  if (!core) return;
  Value *both = grad_product(g, v, grad_product_by_turned(g, core, v));
  both = ops_scale(g, ops_add(g, both, grad_turn(g, both)), 0.5);
  dx[0] = grad_narrow(g, both, n->in[0]);
}

/* ---- rows ---- */

const OpDef ops_decompose[] = {
    {.name = "linalg.qr",
     .summary = "x = q r with columns of q that are orthonormal and an upper triangular r, whose "
                "diagonal isn't negative.",
     .shapes = "[…, m, n] → […, m, min(m, n)], […, min(m, n), n]",
     .inputs = {"x"},
     .outputs = 2,
     .infer = infer_qr,
     .cost = cost_of_qr,
     .eval = eval_qr,
     .scratch = scratch_qr,
     .grad = grad_qr,
     .sample = "F[4,3] | W[2,3,3] | F[2,4] | F[5,1] | F[1,3] | F[0,3] | F[3,0]"},
    {.name = "linalg.svd",
     .summary = "x = u diag(s) vᵀ, s falling; the greatest entry of each column of u is positive.",
     .shapes = "[…, m, n] → […, min(m, n)], […, m, min(m, n)], […, n, min(m, n)]",
     .inputs = {"x"},
     .attrs = {{"compute_uv", ATTR_BOOL, "true", NULL, "false: s alone"}},
     .outputs = -1,
     .infer = infer_svd,
     .cost = cost_of_svd,
     .eval = eval_svd,
     .scratch = scratch_svd,
     .grad = grad_svd,
     .sample = "F[4,3] | W[2,3,3] | F[2,4] | F[4,3] {compute_uv = false} | F[1,1] | F[0,3]"},
    {.name = "linalg.eigh",
     .summary =
         "The eigenvalues of symmetric matrices, rising, and their eigenvectors, the columns "
         "of v, whose greatest entry is positive; of others (x + xᵀ) / 2 counts.",
     .shapes = "[…, n, n] → […, n], […, n, n]",
     .inputs = {"x"},
     .outputs = 2,
     .infer = infer_eigh,
     .cost = cost_of_eigen,
     .eval = eval_eigh,
     .scratch = scratch_eigh,
     .grad = grad_eigh,
     .sample = "F[3,3] | F[2,4,4] | M[1,1] | M[0,0]"},
    {0}};
