/* Selections by diagonals, and what is rolled along axes. */
#include <string.h>

#include "ops/support.h"
#include "target/cost.h"

/* ---- triangles ---- */

enum { DIAGONAL };

static Status infer_triangle(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  char text[TYPE_TEXT];
  if (x->rank < 2)
    return fail(e, ERR_INVALID_ARGUMENT, "wants matrices, got %s", shape_text(x, text));
  return infer_same(e, n);
}

typedef struct Selection {
  const Call *call;
  bool lower;
  int64_t rows, cols, k;
} Selection;

/* Of row i the lower triangle keeps the columns up to i + k, the upper one those from there on. */
static void select_rows(void *context, int64_t begin, int64_t end) {
  const Selection *s = context;
  const Type *x = s->call->in_type[0];
  size_t size = dtype_size(x->dtype);
  const char *from = s->call->in[0];
  char *to = s->call->out[0];
  for (int64_t r = begin; r < end; r++) {
    int64_t row = r % s->rows, border;
    /* row + k (+ 1) within [0, cols] */
    if (s->k >= s->cols) border = s->cols;
    else if (s->k < -s->rows) border = 0;
    else border = least(most(row + s->k + s->lower, 0), s->cols);
    size_t kept = (size_t)(s->lower ? border : s->cols - border) * size;
    size_t at = (size_t)(r * s->cols) * size, begin_kept = s->lower ? 0 : (size_t)border * size;
    if (from != to) memcpy(to + at + begin_kept, from + at + begin_kept, kept);
    memset(to + at + (s->lower ? kept : 0), 0, (size_t)s->cols * size - kept);
  }
}

static Status select_triangle(const Call *c, bool lower) {
  const Type *x = c->in_type[0];
  Selection s = {.call = c,
                 .lower = lower,
                 .rows = x->shape[x->rank - 2],
                 .cols = x->shape[x->rank - 1],
                 .k = c->attr[DIAGONAL].i};
  if (!type_count(x)) return OK;
  parallel_for(c, type_count(x) / s.cols, (1 << 16) / most(s.cols, 1), select_rows, &s);
  return OK;
}
static Status eval_tril(const Call *c) { return select_triangle(c, true); }
static Status eval_triu(const Call *c) { return select_triangle(c, false); }

static void grad_triangle(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, n->op->name, &dy[0], 1, n->attr);
}

/* A selection by position. */
static void cost_of_triangle(const Target *t, const Node *n, Cost *cost) {
  Dtype d = n->in[0]->type.dtype;
  *cost = cost_elementwise(t, d, type_count(&n->in[0]->type), 1, VECTOR(SELECT, d));
}

/* ---- rolling ---- */

enum { SHIFT, AXIS };

static Status infer_roll(Error *e, Node *n) {
  const Attr *shift = &n->attr[SHIFT], *axis = &n->attr[AXIS];
  int rank = n->in[0]->type.rank;
  int64_t along[2 * MAX_RANK];
  if (shift->ints.n != axis->ints.n)
    return fail(e, ERR_VALUE, "shift and axis must have the same length, got %d and %d",
                shift->ints.n, axis->ints.n);
  if (axis->ints.n > 2 * MAX_RANK)
    return fail(e, ERR_VALUE, "axis must list at most %d axes, got %d", 2 * MAX_RANK, axis->ints.n);
  for (int i = 0; i < axis->ints.n; i++) {
    along[i] = axis->ints.v[i];
    if (along[i] < -rank || along[i] >= rank)
      return fail(e, ERR_VALUE, "axis %lld is outside of %d dimensions", (long long)along[i], rank);
    if (along[i] < 0) along[i] += rank;
  }
  Status s = set_ints(e, n, AXIS, along, axis->ints.n);
  return s == OK ? infer_same(e, n) : s;
}

/* How far each axis is rolled, from 0 to below its extent: shifts of one axis add up. */
static void read_shifts(const Node *n, int64_t total[MAX_RANK]) {
  const Type *x = &n->in[0]->type;
  for (int i = 0; i < x->rank; i++) total[i] = 0;
  for (int i = 0; i < n->attr[AXIS].ints.n; i++) {
    int64_t axis = n->attr[AXIS].ints.v[i], extent = x->shape[axis];
    if (!extent) continue;
    int64_t shift = n->attr[SHIFT].ints.v[i] % extent;
    total[axis] = (total[axis] + shift + extent) % extent;
  }
}

/* Each axis is two pieces, which change places: of all axes 2^rank blocks. */
static Status eval_roll(const Call *c) {
  const Type *x = c->in_type[0];
  int64_t total[MAX_RANK], apart[MAX_RANK], step = 1;
  size_t size = dtype_size(x->dtype);
  if (!type_count(x)) return OK;
  read_shifts(c->node, total);
  for (int i = x->rank - 1; i >= 0; i--) apart[i] = step, step *= x->shape[i];
  for (unsigned block = 0; block < 1u << x->rank; block++) {
    Strided s = {0};
    int64_t from = 0, to = 0;
    bool empty = false;
    for (int i = 0; i < x->rank; i++) {
      bool wrapped = block >> i & 1; /* the piece that comes to the front */
      int64_t extent = wrapped ? total[i] : x->shape[i] - total[i];
      from += wrapped ? (x->shape[i] - total[i]) * apart[i] : 0;
      to += wrapped ? 0 : total[i] * apart[i];
      empty = empty || !extent;
      strided_add(&s, extent, apart[i], apart[i]);
    }
    if (!empty)
      copy_strided(c, size, &s, (const char *)c->in[0] + (size_t)from * size,
                   (char *)c->out[0] + (size_t)to * size);
  }
  return OK;
}

static void grad_roll(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  int64_t back[2 * MAX_RANK];
  const Attr *shift = &n->attr[SHIFT];
  for (int i = 0; i < shift->ints.n; i++) {
    int64_t extent = n->in[0]->type.shape[n->attr[AXIS].ints.v[i]];
    back[i] = extent ? -(shift->ints.v[i] % extent) : 0;
  }
  Attr attrs[] = {attr_ints(back, shift->ints.n), n->attr[AXIS]};
  dx[0] = op_with(g, "roll", &dy[0], 1, attrs);
}

/* ---- outer products ---- */

static Status infer_outer(Error *e, Node *n) {
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type;
  char ta[TYPE_TEXT], tb[TYPE_TEXT];
  if (a->dtype == BOOL) return fail(e, ERR_TYPE, "wants numbers, got bool");
  Status s = want_same_dtype(e, "b", b, a->dtype);
  if (s != OK) return s;
  if (a->rank != 1 || b->rank != 1)
    return fail(e, ERR_INVALID_ARGUMENT, "wants two vectors, got %s and %s", shape_text(a, ta),
                shape_text(b, tb));
  n->out[0].type = (Type){.dtype = a->dtype, .rank = 2, .shape = {a->shape[0], b->shape[0]}};
  return OK;
}

static Status body_outer(const Call *c) {
  Type column = *c->in_type[0];
  column.rank = 2, column.shape[1] = 1;
  const Type *types[] = {&column, c->in_type[1]};
  double none[4] = {0};
  if (type_count(c->out_type[0]))
    run_kernel(c, EW_MUL, 2, types, c->in, c->out_type[0], c->out[0], none);
  return OK;
}
static Status eval_outer(const Call *c) { return eval_wide(c, body_outer); }

static Value *product_of(Graph *g, Value *dy, Value *vector, bool turned) {
  if (!dy || !vector) return NULL;
  int64_t n = vector->type.shape[0];
  Type column = {.dtype = vector->type.dtype, .rank = 2, .shape = {n, 1}};
  Type flat = {.dtype = vector->type.dtype, .rank = 1, .shape = {dy->type.shape[turned ? 1 : 0]}};
  return ops_reshape(g, ops_matmul(g, dy, ops_reshape(g, vector, &column), turned, false), &flat);
}

static void grad_outer(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = product_of(g, dy[0], n->in[1], false);
  dx[1] = product_of(g, dy[0], n->in[0], true);
}

static void cost_of_outer(const Target *t, const Node *n, Cost *cost) {
  Dtype d = n->in[0]->type.dtype;
  int64_t small = most(n->in[0]->type.shape[0], n->in[1]->type.shape[0]);
  *cost = cost_broadcast(t, d, type_count(&n->out[0].type), small, VECTOR(MUL, d));
}

/* ---- rows ---- */

#define DIAGONAL_ATTR(what) \
  {"k", ATTR_INT, "0", NULL, what "; 0 is the main one, positive ones lie above it"}

const OpDef ops_diagonals[] = {
    {.name = "tril",
     .summary = "Each matrix up to a diagonal; above it 0 (false).",
     .shapes = "[…, m, n] → […, m, n]",
     .inputs = {"x"},
     .attrs = {DIAGONAL_ATTR("the last diagonal that is kept")},
     .traits = IN_PLACE(0),
     .infer = infer_triangle,
     .cost = cost_of_triangle,
     .eval = eval_tril,
     .grad = grad_triangle,
     .sample = "F[3,3] | F[2,3,4] {k = 1} | F[4,2] {k = -1} | I9[3,3] | B[3,3] | F[3,3] {k = -5} | "
               "F[2,3] {k = 9} | F[0,3] | F[2,70,65] {k = 3}"},
    {.name = "triu",
     .summary = "Each matrix from a diagonal on; below it 0 (false).",
     .shapes = "[…, m, n] → […, m, n]",
     .inputs = {"x"},
     .attrs = {DIAGONAL_ATTR("the first diagonal that is kept")},
     .traits = IN_PLACE(0),
     .infer = infer_triangle,
     .cost = cost_of_triangle,
     .eval = eval_triu,
     .grad = grad_triangle,
     .sample = "F[3,3] | F[2,3,4] {k = 1} | F[4,2] {k = -1} | I9[3,3] | B[3,3] | F[3,3] {k = -5} | "
               "F[2,3] {k = 9} | F[0,3] | F[2,70,65] {k = -3}"},
    {.name = "roll",
     .summary = "Elements moved along axes; what leaves at the end comes in at the beginning.",
     .shapes = "[...] → [...]",
     .inputs = {"x"},
     .attrs = {{"shift", ATTR_INTS, NULL, NULL,
                "how far, along each axis; those of one axis add up"},
               {"axis", ATTR_INTS, NULL, NULL, "the axes"}},
     .infer = infer_roll,
     .cost = cost_of_copy,
     .eval = eval_roll,
     .grad = grad_roll,
     .sample = "F[5] {shift = 2, axis = 0} | F[2,3,4] {shift = {1, -2}, axis = {0, -1}} | "
               "I9[4,3] {shift = {1, 5}, axis = {1, 1}} | B[6] {shift = -1, axis = 0} | "
               "F[0,3] {shift = 1, axis = 0} | F[3] {shift = {}, axis = {}}"},
    {.name = "outer",
     .summary = "The product of each element of a with each of b.",
     .shapes = "[n], [m] → [n, m]",
     .inputs = {"a", "b"},
     .infer = infer_outer,
     .cost = cost_of_outer,
     .eval = eval_outer,
     .scratch = scratch_wide,
     .grad = grad_outer,
     .sample = "F[3] F[4] | I9[3] I9[2] | F[0] F[3] | F[1] F[1]"},
    {0}};
