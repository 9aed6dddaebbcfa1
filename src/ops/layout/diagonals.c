/* Selections by diagonals. */
#include <string.h>

#include "ops/support.h"
#include "target/cost.h"

/* ---- triangles ---- */

enum { DIAGONAL };

static Status infer_triangle(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  char text[TYPE_TEXT];
  if (x->rank < 2)
    return fail(e, ERR_INVALID_ARGUMENT, "operands must be matrices, got %s", shape_text(x, text));
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
    else border = min(max(row + s->k + s->lower, 0), s->cols);
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
  parallel_for(c, type_count(x) / s.cols, (1 << 16) / max(s.cols, 1), select_rows, &s);
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
    {0}};
