/* The exponential of matrices: scaling and squaring with a Padé approximant of order 13 (Higham, "The
 * scaling and squaring method for the matrix exponential revisited", 2005). In float64 whatever
 * the dtype: squaring doubles errors. Both the rows and the columns may be taken for rows, since
 * e^(xᵀ) = (e^x)ᵀ. */
#include <math.h>
#include <string.h>

#include "ops/linalg/linalg.h"

/* Up to this 1-norm the approximant is exact to float64's precision (table 2.3). */
static const double GREATEST_NORM = 5.371920351148152;
enum { MAX_SQUARINGS = 1100 }; /* beyond the range of float64 */
static const double pade[] = {64764752532480000,
                              32382376266240000,
                              7771770303897600,
                              1187353796428800,
                              129060195264000,
                              10559470521600,
                              670442572800,
                              33522128640,
                              1323241920,
                              40840800,
                              960960,
                              16380,
                              182,
                              1};

typedef struct Pieces {
  double *a, *power[3], *u, *v, *temporary; /* power: a², a⁴, a⁶ */
  int *pivot;
} Pieces;

static size_t take_pieces(Pieces *p, char *scratch, int64_t n) {
  Scratch at = {.base = scratch};
  p->a = scratch_take(&at, n * n, sizeof(double));
  for (int i = 0; i < 3; i++) p->power[i] = scratch_take(&at, n * n, sizeof(double));
  p->u = scratch_take(&at, n * n, sizeof(double));
  p->v = scratch_take(&at, n * n, sizeof(double));
  p->temporary = scratch_take(&at, n * n, sizeof(double));
  p->pivot = scratch_take(&at, n, sizeof *p->pivot);
  return at.used;
}

/* The greatest sum of magnitudes of a column, or of a row: either norm will do. */
static double norm_of(const double *a, int64_t n) {
  double greatest = 0;
  for (int64_t j = 0; j < n; j++) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fabs(a[j * n + i]);
    if (!(sum <= greatest)) greatest = sum;
  }
  return greatest;
}

static void square(Lapack l, int64_t n, const double *a, double *to) {
  lapack_product(l, false, false, n, n, n, a, a, to);
}

/* to = c₆ a⁶ + c₄ a⁴ + c₂ a² + c₀ */
static void sum_powers(const Pieces *p, int64_t n, double c6, double c4, double c2, double c0,
                       double *to) {
  for (int64_t i = 0; i < n * n; i++)
    to[i] = c6 * p->power[2][i] + c4 * p->power[1][i] + c2 * p->power[0][i];
  for (int64_t i = 0; i < n; i++) to[i * n + i] += c0;
}

static void add(int64_t n, const double *x, double *to) {
  for (int64_t i = 0; i < n * n; i++) to[i] += x[i];
}

/* The approximant's numerator is v + u, its denominator v - u, with an odd u and an even v. */
static void make_approximant(Lapack l, int64_t n, const Pieces *p) {
  square(l, n, p->a, p->power[0]);
  square(l, n, p->power[0], p->power[1]);
  lapack_product(l, false, false, n, n, n, p->power[0], p->power[1], p->power[2]);
  sum_powers(p, n, pade[13], pade[11], pade[9], 0, p->temporary);
  lapack_product(l, false, false, n, n, n, p->power[2], p->temporary, p->v);
  sum_powers(p, n, pade[7], pade[5], pade[3], pade[1], p->temporary);
  add(n, p->temporary, p->v);
  lapack_product(l, false, false, n, n, n, p->a, p->v, p->u);
  sum_powers(p, n, pade[12], pade[10], pade[8], 0, p->temporary);
  lapack_product(l, false, false, n, n, n, p->power[2], p->temporary, p->v);
  sum_powers(p, n, pade[6], pade[4], pade[2], pade[0], p->temporary);
  add(n, p->temporary, p->v);
}

/* Whether more squarings change nothing: the matrix is its own square, as zeros and infinities are,
 * or it is all NaN. */
static bool is_settled(int64_t n, const double *squared, const double *before) {
  bool same = true, lost = true;
  for (int64_t i = 0; i < n * n && (same || lost); i++) {
    same = same && squared[i] == before[i];
    lost = lost && isnan(squared[i]);
  }
  return same || lost;
}

static int64_t exponentiate(const Batch *b, int64_t index, char *scratch) {
  int64_t n = matrix_cols(b->c->in_type[0]);
  Dtype d = b->c->in_type[0]->dtype;
  Pieces p;
  take_pieces(&p, scratch, n);
  const void *x = matrix_in(b, 0, index);
  for (int64_t i = 0; i < n * n; i++) p.a[i] = dtype_get(d, x, i);
  double norm = norm_of(p.a, n), squarings = ceil(log2(norm / GREATEST_NORM));
  int count = squarings > 0 ? (int)fmin(squarings, MAX_SQUARINGS) : 0;
  for (int64_t i = 0; i < n * n; i++) p.a[i] = ldexp(p.a[i], -count);
  make_approximant(b->lapack, n, &p);
  for (int64_t i = 0; i < n * n; i++) {
    double u = p.u[i], v = p.v[i];
    p.u[i] = v + u, p.v[i] = v - u;
  }
  lapack_lu(b->lapack, n, p.v, p.pivot);
  lapack_lu_solve(b->lapack, false, n, n, p.v, p.pivot, p.u);
  double *y = p.u, *other = p.temporary;
  for (int i = 0, settled = 0; i < count && !settled; i++) {
    square(b->lapack, n, y, other);
    settled = is_settled(n, other, y);
    double *before = y;
    y = other, other = before;
  }
  char *out = matrix_out(b, 0, index);
  for (int64_t i = 0; i < n * n; i++) dtype_set(d, out, i, y[i]);
  return 0;
}

static Status body_expm(const Call *c) {
  const Type *x = c->in_type[0];
  int64_t n = matrix_cols(x);
  Pieces p;
  Batch b = {.c = c, .lapack = {.blas = blas_open(), .dtype = F64}, .task = exponentiate};
  b.count = n ? matrix_count(x) : 0;
  b.task_bytes = take_pieces(&p, NULL, n);
  b.work = 14 * (double)n * (double)n * (double)n;
  return batch_run(&b);
}
static Status eval_expm(const Call *c) { return eval_wide(c, body_expm); }

static size_t scratch_expm(const Node *n) {
  const Type *x = &n->in[0]->type;
  Pieces p;
  return wide_scratch(n, batch_scratch(matrix_count(x), take_pieces(&p, NULL, matrix_cols(x))));
}

static Value *joined(Graph *g, Value *a, Value *b, int64_t axis) {
  return op_with(g, "concat", (Value *[]){a, b}, 2, (Attr[]){attr_int(axis)});
}

/* The upper right block of e^[[xᵀ, dy], [0, xᵀ]] (Najfeld, Havel, 1995). */
static void grad_expm(Graph *g, const Node *n, Value *const *dys, Value **dx) {
  Value *turned = grad_turn(g, grad_wide(g, n->in[0])), *dy = grad_wide(g, dys[0]);
  if (!turned || !dy) return;
  Value *below = joined(g, ops_zeros_of(g, turned), turned, -1);
  Value *whole = op1(g, "linalg.expm", joined(g, joined(g, turned, dy, -1), below, -2));
  int rank = n->in[0]->type.rank;
  int64_t begin[MAX_RANK] = {0}, size[MAX_RANK], extent = matrix_cols(&n->in[0]->type);
  for (int i = 0; i < rank; i++) size[i] = n->in[0]->type.shape[i];
  begin[rank - 1] = extent;
  Attr attrs[] = {attr_ints(begin, rank), attr_ints(size, rank)};
  dx[0] = grad_narrow(g, op_with(g, "slice", &whole, 1, attrs), n->in[0]);
}

const OpDef ops_expm[] = {
    {.name = "linalg.expm",
     .summary = "The exponential of each matrix, I + x + x²/2 + x³/6 and so on.",
     .shapes = "[…, n, n] → […, n, n]",
     .source = "Higham, SIAM Journal on Matrix Analysis and Applications 26, 2005",
     .inputs = {"x"},
     .infer = infer_of_square,
     .cost = cost_of_expm,
     .eval = eval_expm,
     .scratch = scratch_expm,
     .grad = grad_expm,
     .sample = "F[3,3] | F[2,4,4] | F[1,1] | F[0,0]"},
    {0}};
