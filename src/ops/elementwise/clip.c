/* Norms: losses from them, and tensors scaled by them. */
#include <math.h>
#include <string.h>

#include "ops/reduce/reduce_axes.h"

static Value *square(Graph *g, Value *x) { return op1(g, "square", x); }

/* ---- l2_loss ---- */

static int all_axes(const Type *x, int axes[MAX_RANK]) {
  for (int i = 0; i < x->rank; i++) axes[i] = i;
  return x->rank;
}

static size_t sum_bytes(const Type *x) {
  int axes[MAX_RANK], count = all_axes(x, axes);
  return round_to_line(compute_bytes(x)) + reduce_bytes(x, count, axes);
}

/* The sum of squares of all elements, at y; scratch: sum_bytes. */
static void sum_squares(const Call *c, const Type *x, const void *data, void *y, void *scratch) {
  int axes[MAX_RANK], count = all_axes(x, axes);
  run_kernel(c, EW_SQUARE, 1, &x, &data, x, scratch, NULL);
  reduce_axes(c, REDUCE_SUM, x, scratch, count, axes, y,
              (char *)scratch + round_to_line(type_bytes(x)));
}

static Status infer_loss(Error *e, Node *n) {
  n->out[0].type = type_scalar(n->in[0]->type.dtype);
  return want_float(e, &n->in[0]->type);
}

static Status body_loss(const Call *c) {
  sum_squares(c, c->in_type[0], c->in[0], c->out[0], c->scratch);
  run_number(c, EW_MUL, c->out_type[0], c->out[0], 0.5, c->out[0]);
  return OK;
}
static Status eval_loss(const Call *c) { return eval_wide(c, body_loss); }
static size_t scratch_loss(const Node *n) { return wide_scratch(n, sum_bytes(&n->in[0]->type)); }
static void grad_loss(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = ops_mul(g, n->in[0], dy[0]);
}

/* ---- norms along axes ---- */

typedef struct Norms {
  Type type;
  void *data;
} Norms;

/* Sums of squares, in the call's scratch. */
static Norms squares_along(const Call *c, const Attr *axis) {
  const Type *x = c->in_type[0];
  int count, axes[MAX_RANK];
  infer_axes(c->error, axis, x->rank, &count, axes);
  Type kept = type_reduced(x, count, axes, true);
  char *squares = c->scratch, *sums = squares + round_to_line(type_bytes(x)),
       *rest = sums + round_to_line(type_bytes(&kept));
  run_kernel(c, EW_SQUARE, 1, &x, c->in, x, squares, NULL);
  reduce_axes(c, REDUCE_SUM, x, squares, count, axes, sums, rest);
  return (Norms){kept, sums};
}

static void take_root(const Call *c, const Norms *n) {
  const Type *t = &n->type;
  run_kernel(c, EW_SQRT, 1, &t, (const void *[]){n->data}, t, n->data, NULL);
}

static void divide_by(const Call *c, const Norms *n) {
  const Type *x = c->in_type[0];
  run_kernel(c, EW_DIV, 2, (const Type *[]){x, &n->type}, (const void *[]){c->in[0], n->data}, x,
             c->out[0], NULL);
}

static size_t scratch_norms(const Node *n, const Attr *axis) {
  const Type *x = &n->in[0]->type;
  int count, axes[MAX_RANK];
  infer_axes(NULL, axis, x->rank, &count, axes);
  Type kept = type_reduced(x, count, axes, true);
  return wide_scratch(n, round_to_line(compute_bytes(x)) + round_to_line(compute_bytes(&kept)) +
                             reduce_bytes(x, count, axes));
}

/* ---- l2_normalize ---- */

enum { AXIS, EPSILON };

static Status infer_normalize(Error *e, Node *n) {
  int count, axes[MAX_RANK];
  Status s = infer_float(e, n);
  return s == OK ? infer_axes(e, &n->attr[AXIS], n->in[0]->type.rank, &count, axes) : s;
}

static Status body_normalize(const Call *c) {
  Norms n = squares_along(c, &c->attr[AXIS]);
  run_number(c, EW_MAXIMUM, &n.type, n.data, c->attr[EPSILON].f, n.data);
  take_root(c, &n);
  divide_by(c, &n);
  return OK;
}
static Status eval_normalize(const Call *c) { return eval_wide(c, body_normalize); }
static size_t scratch_normalize(const Node *n) { return scratch_norms(n, &n->attr[AXIS]); }

static Value *sum_kept(Graph *g, Value *x, const Attr *axis) {
  Attr attrs[] = {*axis, attr_bool(true)};
  return x ? op_with(g, "reduce_sum", &x, 1, attrs) : NULL;
}

/* y = x / r with r = sqrt(max(s, epsilon)): dx = (dy - y sum(dy y)) / r, without the sum where
 * epsilon rules. */
static void grad_normalize(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *x = n->in[0], *y = (Value *)&n->out[0], *s = sum_kept(g, square(g, x), &n->attr[AXIS]);
  Value *epsilon = ops_number(g, x, n->attr[EPSILON].f);
  Value *along = sum_kept(g, ops_mul(g, dy[0], y), &n->attr[AXIS]);
  Value *counted = ops_where(g, op2(g, "greater", s, epsilon), along, ops_number(g, x, 0));
  Value *r = op1(g, "sqrt", op2(g, "maximum", s, epsilon));
  dx[0] = ops_div(g, ops_sub(g, dy[0], ops_mul(g, y, counted)), r);
}

/* ---- clip_by_norm ---- */

enum { CLIP_NORM, CLIP_AXES };

static Status infer_clip(Error *e, Node *n) {
  int count, axes[MAX_RANK];
  Status s = infer_float(e, n);
  if (s == OK) s = infer_axes(e, &n->attr[CLIP_AXES], n->in[0]->type.rank, &count, axes);
  if (s == OK && !(n->attr[CLIP_NORM].f >= 0))
    return fail(e, ERR_VALUE, "clip_norm must not be negative, got %g", n->attr[CLIP_NORM].f);
  return s;
}

/* x / max(norm, limit) * limit */
static Status body_clip(const Call *c) {
  double limit = c->attr[CLIP_NORM].f;
  Norms n = squares_along(c, &c->attr[CLIP_AXES]);
  take_root(c, &n);
  run_number(c, EW_MAXIMUM, &n.type, n.data, limit, n.data);
  divide_by(c, &n);
  run_number(c, EW_MUL, c->in_type[0], c->out[0], limit, c->out[0]);
  return OK;
}
static Status eval_clip(const Call *c) { return eval_wide(c, body_clip); }
static size_t scratch_clip(const Node *n) { return scratch_norms(n, &n->attr[CLIP_AXES]); }

/* With n the norm: c / n (dy - x sum(dy x) / n^2) where n > c, else dy. */
static void grad_clip(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *x = n->in[0], *limit = ops_number(g, x, n->attr[CLIP_NORM].f), *one = ops_number(g, x, 1);
  Value *s = sum_kept(g, square(g, x), &n->attr[CLIP_AXES]);
  Value *clipped = op2(g, "greater", s, square(g, limit)), *safe = ops_where(g, clipped, s, one);
  Value *along = ops_div(g, sum_kept(g, ops_mul(g, dy[0], x), &n->attr[CLIP_AXES]), safe);
  Value *d =
      ops_mul(g, ops_div(g, limit, op1(g, "sqrt", safe)), ops_sub(g, dy[0], ops_mul(g, x, along)));
  dx[0] = ops_where(g, clipped, d, dy[0]);
}

/* ---- clip_by_global_norm: a list of tensors; the last output is the norm of them all ---- */

static Status infer_global(Error *e, Node *n) {
  if (n->in_count == 0) return fail(e, ERR_VALUE, "the list of tensors is empty");
  if (!(n->attr[CLIP_NORM].f >= 0))
    return fail(e, ERR_VALUE, "clip_norm must not be negative, got %g", n->attr[CLIP_NORM].f);
  if (!node_outputs(n->arena, n, n->in_count + 1))
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  Dtype d = n->in[0]->type.dtype;
  for (int i = 0; i < n->in_count; i++) {
    Status s = want_float(e, &n->in[i]->type);
    if (s == OK) s = want_same_dtype(e, "all tensors", &n->in[i]->type, d);
    if (s != OK) return s;
    n->out[i].type = n->in[i]->type;
  }
  n->out[n->in_count].type = type_scalar(d);
  return OK;
}

/* A float32 (or float64) image of operand i; at itself when it is one already. */
static const void *widened(const Call *c, int i, Type *t, void *room) {
  *t = *c->in_type[i];
  if (!dtype_is_narrow(t->dtype)) return c->in[i];
  t->dtype = F32;
  run_kernel(c, ELEMENTWISE_COUNT, 1, &c->in_type[i], &c->in[i], t, room, NULL);
  return room;
}

static size_t largest(const Node *n) {
  size_t bytes = 0;
  for (int i = 0; i < n->in_count; i++) {
    size_t needed = round_to_line(compute_bytes(&n->in[i]->type));
    if (needed > bytes) bytes = needed;
  }
  return bytes;
}

static size_t scratch_global(const Node *n) {
  size_t sums = 0;
  for (int i = 0; i < n->in_count; i++) {
    size_t needed = sum_bytes(&n->in[i]->type);
    if (needed > sums) sums = needed;
  }
  return largest(n) + sums;
}

static Status eval_global(const Call *c) {
  char *room = c->scratch, *rest = room + largest(c->node);
  double limit = c->attr[CLIP_NORM].f, total = 0;
  Type t;
  for (int i = 0; i < c->in_count; i++) {
    double sum = 0;
    const void *x = widened(c, i, &t, room);
    sum_squares(c, &t, x, &sum, rest);
    total += dtype_get(t.dtype, &sum, 0);
  }
  double norm = sqrt(total), scale = isfinite(norm) ? limit / fmax(norm, limit) : NAN;
  if (norm == 0) scale = 1;
  for (int i = 0; i < c->in_count; i++) {
    const void *x = widened(c, i, &t, room);
    const Type *wide = &t;
    void *y = dtype_is_narrow(c->in_type[i]->dtype) ? room : c->out[i];
    run_number(c, EW_MUL, &t, x, scale, y);
    if (y == room)
      run_kernel(c, ELEMENTWISE_COUNT, 1, &wide, (const void *[]){room}, c->out_type[i], c->out[i],
                 NULL);
  }
  dtype_set(c->out_type[c->in_count]->dtype, c->out[c->in_count], 0, norm);
  return OK;
}

static Value *sum_all(Graph *g, Value *x) {
  int64_t axes[MAX_RANK];
  for (int i = 0; x && i < x->type.rank; i++) axes[i] = i;
  return x ? ops_sum(g, x, axes, x->type.rank, false) : NULL;
}

/* With n the norm: dx = s dy + x (dn / n - [n > c] c / n^3 sum over all of dy x). */
static void grad_global(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *norm = (Value *)&n->out[n->in_count], *limit = ops_number(g, norm, n->attr[CLIP_NORM].f);
  Value *zero = ops_number(g, norm, 0), *one = ops_number(g, norm, 1), *along = zero;
  Value *clipped = op2(g, "greater", norm, limit);
  Value *safe = ops_where(g, op2(g, "greater", norm, zero), norm, one);
  Value *scale = ops_where(g, clipped, ops_div(g, limit, safe), one);
  for (int i = 0; i < n->in_count; i++)
    if (dy[i]) along = ops_add(g, along, sum_all(g, ops_mul(g, dy[i], n->in[i])));
  Value *pull = ops_where(
      g, clipped, ops_div(g, ops_mul(g, limit, along), ops_mul(g, safe, square(g, safe))), zero);
  Value *factor = ops_neg(g, pull);
  if (dy[n->in_count]) factor = ops_add(g, factor, ops_div(g, dy[n->in_count], safe));
  for (int i = 0; i < n->in_count; i++) {
    dx[i] = ops_mul(g, n->in[i], factor);
    if (dy[i]) dx[i] = ops_add(g, dx[i], ops_mul(g, dy[i], scale));
  }
}

const OpDef ops_clip[] = {
    {.name = "nn.l2_loss",
     .summary = "Half the sum of squares.",
     .shapes = "any → []",
     .inputs = {"x"},
     .infer = infer_loss,
     .cost = cost_of_norm,
     .eval = eval_loss,
     .scratch = scratch_loss,
     .grad = grad_loss,
     .sample = "F[2,3] | F[] | F[0] | F[70000]"},
    {.name = "nn.l2_normalize",
     .summary = "x / sqrt(max(sum of squares over axis, epsilon)).",
     .shapes = "any",
     .inputs = {"x"},
     .attrs = {{"axis", ATTR_INTS, "nil", NULL, "axes of a vector; all when absent"},
               {"epsilon", ATTR_FLOAT, "1e-12", NULL, "least sum of squares"}},
     .infer = infer_normalize,
     .cost = cost_of_norm,
     .eval = eval_normalize,
     .scratch = scratch_normalize,
     .grad = grad_normalize,
     .sample =
         "F[3,4] {axis = -1} | F[3,4] {axis = 0} | F[2,3,2] {axis = {0, 2}} | F[5] | F[2,3] {axis = 1, "
         "epsilon = 2}"},
    {.name = "clip_by_norm",
     .summary = "x scaled down to a norm of clip_norm at most, over all elements or some axes.",
     .shapes = "any",
     .inputs = {"x"},
     .attrs = {{"clip_norm", ATTR_FLOAT, NULL, NULL, "greatest norm, not negative"},
               {"axes", ATTR_INTS, "nil", NULL, "axes of a vector; all when absent"}},
     .infer = infer_clip,
     .cost = cost_of_norm,
     .eval = eval_clip,
     .scratch = scratch_clip,
     .grad = grad_clip,
     .sample =
         "F[3,4] {clip_norm = 1} | F[3,4] {clip_norm = 100} | F[3,4] {clip_norm = 2, axes = 1}"},
    {.name = "clip_by_global_norm",
     .summary =
         "A list of the tensors, scaled down so that the norm of all is clip_norm at most; and that norm before.",
     .shapes = "any × n → the same, []",
     .inputs = {"tensors"},
     .attrs = {{"clip_norm", ATTR_FLOAT, NULL, NULL, "greatest norm, not negative"}},
     .traits = VARIADIC,
     .outputs = -1,
     .infer = infer_global,
     .cost = cost_of_norm,
     .eval = eval_global,
     .scratch = scratch_global,
     .grad = grad_global,
     .sample =
         "F[3,4] F[2] {clip_norm = 1} | F[3] F[] F[2,2] {clip_norm = 100} | F[4] {clip_norm = 2}"},
    {0}};
