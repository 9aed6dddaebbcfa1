/* Softmax and its logarithm. Rows lie along one axis; when that is not the last one, they are
 * transposed into scratch, done there, and put back. The greatest element is always subtracted
 * first. */
#include "ops/nn.h"
#include "target/cost.h"

typedef void (*RowMap)(const void *x, int64_t rows, int64_t n, void *y);
typedef void (*RowMap2)(const void *dy, const void *y, int64_t rows, int64_t n, void *dx);

static Status infer(Error *e, Node *n) {
  int axis, inputs = n->in_count;
  Status s = nn_want_float(e, n, 0, inputs);
  if (s == OK && n->in[0]->type.rank == 0)
    return fail(e, ERR_INVALID_ARGUMENT, "x must have at least one axis, got []");
  if (s == OK) s = axis_check(e, "axis", n->attr[0].i, n->in[0]->type.rank, &axis);
  if (s != OK) return s;
  n->attr[0].i = axis;
  n->out[0].type = n->in[0]->type;
  return OK;
}

static Status infer_grad(Error *e, Node *n) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  const Type *dy = &n->in[0]->type, *y = &n->in[1]->type;
  if (type_equal(dy, y)) return infer(e, n);
  return fail(e, ERR_INVALID_ARGUMENT, "dy %s must be like y %s", type_text(dy, a),
              type_text(y, b));
}

typedef struct Rows {
  RowMap map;
  RowMap2 map2;
  const char *a, *b;
  char *y;
  int64_t n;
  size_t size;
} Rows;

static void run_rows(void *context, int64_t begin, int64_t end) {
  const Rows *r = context;
  size_t at = (size_t)(begin * r->n) * r->size;
  if (r->map) r->map(r->a + at, end - begin, r->n, r->y + at);
  else r->map2(r->a + at, r->b + at, end - begin, r->n, r->y + at);
}

enum { ROWS_GRAIN = 8192 }; /* elements of a chunk: a few microseconds */

static Status eval_rows(const Call *c, RowMap map, RowMap2 map2) {
  const Type *t = c->in_type[0];
  Around a = around_axis(t, (int)c->attr[0].i);
  if (type_count(t) == 0) return OK;
  Rows r = {map, map2, c->in[0], map2 ? c->in[1] : NULL, c->out[0], a.extent, dtype_size(t->dtype)};
  if (a.inner > 1) {
    Room room = {c->scratch, 0};
    char *x = room_take(&room, type_bytes(t));
    c->kernels->transpose(r.size, c->in[0], a.outer, a.extent, a.inner, x);
    r.a = x;
    r.y = x; /* the kernels work in place */
    if (map2) {
      char *y = room_take(&room, type_bytes(t));
      c->kernels->transpose(r.size, c->in[1], a.outer, a.extent, a.inner, y);
      r.b = y;
    }
  }
  parallel_for(c, a.outer * a.inner, ROWS_GRAIN / a.extent, run_rows, &r);
  if (a.inner > 1) c->kernels->transpose(r.size, r.y, a.outer, a.inner, a.extent, c->out[0]);
  return OK;
}

static size_t scratch(const Node *n) {
  const Type *t = &n->in[0]->type;
  size_t bytes = round_to_line(compute_bytes(t));
  bool last = n->attr[0].i == t->rank - 1;
  return wide_scratch(n, last ? 0 : bytes * (size_t)n->in_count);
}

#define EVAL(id, first, second)                                                   \
  static Status inner_##id(const Call *c) { return eval_rows(c, first, second); } \
  static Status eval_##id(const Call *c) { return eval_wide(c, inner_##id); }
EVAL(softmax, c->kernels->softmax[c->in_type[0]->dtype], NULL)
EVAL(log_softmax, c->kernels->log_softmax[c->in_type[0]->dtype], NULL)
EVAL(softmax_grad, NULL, c->kernels->softmax_grad[c->in_type[0]->dtype])
EVAL(log_softmax_grad, NULL, c->kernels->log_softmax_grad[c->in_type[0]->dtype])
#undef EVAL

static Value *with_axis(Graph *g, const Node *n, const char *name, Value *a, Value *b) {
  return op_with(g, name, (Value *[]){a, b}, 2, (Attr[MAX_ATTRS]){n->attr[0]});
}
static Value *row_sum(Graph *g, const Node *n, Value *x) {
  return ops_sum(g, x, &n->attr[0].i, 1, true);
}

static void grad_softmax(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = with_axis(g, n, "nn.softmax_grad", dy[0], &n->out[0]);
}
static void grad_log_softmax(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = with_axis(g, n, "nn.log_softmax_grad", dy[0], &n->out[0]);
}

/* The gradient of y (dy - sum dy y), with u from above. In dy the map is its own transpose. By y it
 * is u (dy - sum dy y) - dy sum u y. */
static void grad_softmax_grad(Graph *g, const Node *n, Value *const *u, Value **dx) {
  Value *dy = n->in[0], *y = n->in[1];
  dx[0] = with_axis(g, n, "nn.softmax_grad", u[0], y);
  Value *centred = ops_sub(g, dy, row_sum(g, n, ops_mul(g, dy, y)));
  dx[1] = ops_sub(g, ops_mul(g, u[0], centred), ops_mul(g, dy, row_sum(g, n, ops_mul(g, u[0], y))));
}

/* dy - e^y sum dy. */
static void grad_log_softmax_grad(Graph *g, const Node *n, Value *const *u, Value **dx) {
  Value *dy = n->in[0], *weighted = ops_mul(g, u[0], op1(g, "exp", n->in[1]));
  dx[0] = ops_sub(g, u[0], row_sum(g, n, weighted));
  dx[1] = ops_neg(g, ops_mul(g, weighted, row_sum(g, n, dy)));
}

static void cost(const Target *t, const Node *n, Cost *c) {
  const Type *x = &n->in[0]->type;
  Around a = around_axis(x, (int)n->attr[0].i);
  *c = cost_softmax(t, x->dtype, a.outer * a.inner, a.extent, n->op->traits & INTERNAL);
}

#define AXIS         \
  {.name = "axis",   \
   .kind = ATTR_INT, \
   .fallback = "-1", \
   .summary = "The axis whose elements sum to 1."}
#define STABLE         \
  {.name = "stable",   \
   .kind = ATTR_BOOL,  \
   .fallback = "true", \
   .summary = "Accepted; the greatest element is always subtracted."}

const OpDef ops_softmax[] = {{.name = "nn.softmax",
                              .summary = "e^x divided by its sum along an axis.",
                              .shapes = "any",
                              .inputs = {"x"},
                              .attrs = {AXIS, STABLE},
                              .traits = IN_PLACE(0),
                              .infer = infer,
                              .eval = eval_softmax,
                              .scratch = scratch,
                              .cost = cost,
                              .grad = grad_softmax,
                              .sample = "F[3,5] | F[2,3,4] {axis = 1}"},
                             {.name = "nn.log_softmax",
                              .summary = "The logarithm of softmax.",
                              .shapes = "any",
                              .inputs = {"x"},
                              .attrs = {AXIS},
                              .traits = IN_PLACE(0),
                              .infer = infer,
                              .eval = eval_log_softmax,
                              .scratch = scratch,
                              .cost = cost,
                              .grad = grad_log_softmax,
                              .sample = "F[3,5] | F[2,3,4] {axis = 0}"},
                             {.name = "nn.softmax_grad",
                              .summary = "y (dy - sum of dy y).",
                              .shapes = "[…], […] → […]",
                              .inputs = {"dy", "y"},
                              .attrs = {AXIS},
                              .traits = INTERNAL,
                              .infer = infer_grad,
                              .eval = eval_softmax_grad,
                              .scratch = scratch,
                              .cost = cost,
                              .grad = grad_softmax_grad,
                              .sample = "F[3,5] U[3,5] | F[2,3,4] U[2,3,4] {axis = 1}"},
                             {.name = "nn.log_softmax_grad",
                              .summary = "dy - e^y sum of dy.",
                              .shapes = "[…], […] → […]",
                              .inputs = {"dy", "y"},
                              .attrs = {AXIS},
                              .traits = INTERNAL,
                              .infer = infer_grad,
                              .eval = eval_log_softmax_grad,
                              .scratch = scratch,
                              .cost = cost,
                              .grad = grad_log_softmax_grad,
                              .sample = "F[3,5] U[3,5] | F[2,3,4] U[2,3,4] {axis = 1}"},
                             {0}};
