/* Elements repeated or reversed along axes. */
#include <string.h>

#include "ops/same.h"
#include "ops/support.h"

/* ---- broadcast_to ---- */

static Status infer_broadcast_to(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  const Attr *a = &n->attr[0];
  char from[TYPE_TEXT], to[TYPE_TEXT];
  if (a->ints.n > MAX_RANK)
    return fail(e, ERR_VALUE, "a shape has at most %d dimensions, got %d", MAX_RANK, a->ints.n);
  Type t = type_make(x->dtype, a->ints.n, a->ints.v), both;
  Status s = type_check(e, "shape", &t);
  if (s != OK) return s;
  if (!type_broadcast(x, &t, &both) || !shape_equal(&both, &t))
    return fail(e, ERR_INVALID_ARGUMENT, "shape %s doesn't broadcast to %s", shape_text(x, from),
                shape_text(&t, to));
  n->out[0].type = t;
  return OK;
}

static Status eval_broadcast_to(const Call *c) {
  const Type *x = c->in_type[0], *y = c->out_type[0];
  int64_t from[MAX_RANK], to[MAX_RANK];
  type_strides(x, from);
  type_strides(y, to);
  Strided s = {0};
  int missing = y->rank - x->rank;
  for (int i = 0; i < y->rank; i++)
    strided_add(&s, y->shape[i], i < missing || x->shape[i - missing] == 1 ? 0 : from[i - missing],
                to[i]);
  copy_strided(c, dtype_size(x->dtype), &s, c->in[0], c->out[0]);
  return OK;
}

static void grad_broadcast_to(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = ops_sum_to(g, dy[0], &n->in[0]->type);
}

/* ---- tile, repeat_n ---- */

static Status infer_tile(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  const Attr *a = &n->attr[0];
  char text[TYPE_TEXT];
  if (a->ints.n != x->rank)
    return fail(e, ERR_VALUE, "multiples must have a number for each of the %d axes of %s, got %d",
                x->rank, shape_text(x, text), a->ints.n);
  n->out[0].type = *x;
  for (int i = 0; i < x->rank; i++) {
    if (a->ints.v[i] < 0)
      return fail(e, ERR_VALUE, "multiples must not be negative, got %lld",
                  (long long)a->ints.v[i]);
    if (__builtin_mul_overflow(x->shape[i], a->ints.v[i], &n->out[0].type.shape[i]))
      return fail(e, ERR_VALUE, "%s %lld times along axis %d is too large", shape_text(x, text),
                  (long long)a->ints.v[i], i);
  }
  return OK;
}

static Status eval_tile(const Call *c) {
  const Type *x = c->in_type[0], *y = c->out_type[0];
  int64_t from[MAX_RANK], to[MAX_RANK];
  type_strides(x, from);
  type_strides(y, to);
  Strided s = {0};
  for (int i = 0; i < x->rank; i++) {
    strided_add(&s, c->attr[0].ints.v[i], 0, to[i] * x->shape[i]);
    strided_add(&s, x->shape[i], from[i], to[i]);
  }
  copy_strided(c, dtype_size(x->dtype), &s, c->in[0], c->out[0]);
  return OK;
}

/* Axis by axis: the copies are summed. */
static void grad_tile(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *d = dy[0];
  for (int i = 0; i < n->attr[0].ints.n && d; i++) {
    int64_t times = n->attr[0].ints.v[i], middle = 1;
    if (times == 1) continue;
    Around a = around_axis(&d->type, i);
    Type apart = {.dtype = d->type.dtype,
                  .rank = 4,
                  .shape = {a.outer, times, times ? a.extent / times : 0, a.inner}};
    Type summed = d->type;
    summed.shape[i] = n->in[0]->type.shape[i];
    if (!times) apart.shape[2] = summed.shape[i];
    d = ops_reshape(g, ops_sum(g, ops_reshape(g, d, &apart), &middle, 1, false), &summed);
  }
  dx[0] = d;
}

enum { REPEATS, REPEAT_AXIS };

static int64_t repeats_at(const Attr *a, int64_t i) { return a->ints.v[a->ints.n == 1 ? 0 : i]; }

static Status infer_repeat(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  const Attr *a = &n->attr[REPEATS];
  int axis = 0;
  char text[TYPE_TEXT];
  bool flat = !attr_given(&n->attr[REPEAT_AXIS]);
  Type t = flat ? (Type){.dtype = x->dtype, .rank = 1, .shape = {type_count(x)}} : *x;
  Status s = flat ? OK : infer_axis(e, n, REPEAT_AXIS, x->rank, &axis);
  if (s != OK) return s;
  if (a->ints.n != 1 && a->ints.n != t.shape[axis])
    return fail(e, ERR_VALUE, "repeats must be one number or %lld of them (%s), got %d",
                (long long)t.shape[axis], shape_text(x, text), a->ints.n);
  int64_t sum = 0;
  for (int i = 0; i < a->ints.n; i++) {
    if (a->ints.v[i] < 0)
      return fail(e, ERR_VALUE, "repeats must not be negative, got %lld", (long long)a->ints.v[i]);
    if (__builtin_add_overflow(sum, a->ints.v[i], &sum))
      return fail(e, ERR_VALUE, "%s with these repeats is too large", shape_text(x, text));
  }
  if (a->ints.n == 1 && __builtin_mul_overflow(sum, t.shape[axis], &sum))
    return fail(e, ERR_VALUE, "%s with these repeats is too large", shape_text(x, text));
  t.shape[axis] = sum;
  n->out[0].type = t;
  return OK;
}

static Around repeat_around(const Node *n, const Type *x) {
  if (!attr_given(&n->attr[REPEAT_AXIS])) return (Around){1, type_count(x), 1};
  return around_axis(x, (int)n->attr[REPEAT_AXIS].i);
}

static Status eval_repeat(const Call *c) {
  const Attr *a = &c->attr[REPEATS];
  size_t size = dtype_size(c->in_type[0]->dtype);
  Around r = repeat_around(c->node, c->in_type[0]);
  if (a->ints.n == 1) {
    int64_t times = a->ints.v[0];
    Strided s = {0};
    strided_add(&s, r.outer * r.extent, r.inner, times * r.inner);
    strided_add(&s, times, 0, r.inner);
    strided_add(&s, r.inner, 1, 1);
    copy_strided(c, size, &s, c->in[0], c->out[0]);
    return OK;
  }
  char *y = c->out[0];
  const char *x = c->in[0];
  size_t run = (size_t)r.inner * size;
  for (int64_t o = 0; o < r.outer; o++)
    for (int64_t k = 0; k < r.extent; k++, x += run)
      for (int64_t t = 0; t < a->ints.v[k]; t++, y += run) memcpy(y, x, run);
  return OK;
}

/* Unequal repeats are a gather; its gradient adds rows up. */
static Value *unequal_grad(Graph *g, const Node *n, Value *dy, Around r) {
  const Attr *a = &n->attr[REPEATS];
  Type index = {.dtype = I64, .rank = 1}, whole = {.dtype = dy->type.dtype, .rank = 3};
  for (int i = 0; i < a->ints.n; i++) index.shape[0] += a->ints.v[i];
  Tensor *t = tensor_new(&g->error, &index);
  if (!t) return NULL;
  int64_t *v = (int64_t *)(void *)t->data;
  for (int64_t k = 0; k < r.extent; k++)
    for (int64_t i = 0; i < repeats_at(a, k); i++) *v++ = k;
  whole.shape[0] = r.outer, whole.shape[1] = index.shape[0], whole.shape[2] = r.inner;
  Attr attrs[] = {attr_int(1), attr_int(r.extent)};
  Value *in[] = {ops_reshape(g, dy, &whole), graph_constant(g, t)};
  tensor_release(t);
  return op_with(g, "gather_grad", in, 2, attrs);
}

static void grad_repeat(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  const Attr *a = &n->attr[REPEATS];
  Around r = repeat_around(n, &n->in[0]->type);
  int64_t axis = 2;
  Value *d;
  if (a->ints.n == 1) {
    Type apart = {.dtype = n->out[0].type.dtype,
                  .rank = 4,
                  .shape = {r.outer, r.extent, a->ints.v[0], r.inner}};
    d = ops_sum(g, ops_reshape(g, dy[0], &apart), &axis, 1, false);
  } else {
    d = unequal_grad(g, n, dy[0], r);
  }
  dx[0] = ops_reshape_like(g, d, n->in[0]);
}

/* ---- reverse ---- */

static Status infer_reverse(Error *e, Node *n) {
  int count, axes[MAX_RANK];
  infer_same(e, n);
  return infer_axes(e, &n->attr[0], n->in[0]->type.rank, &count, axes);
}

static Status eval_reverse(const Call *c) {
  const Type *x = c->in_type[0];
  int count, axes[MAX_RANK];
  int64_t step[MAX_RANK], from[MAX_RANK], first = 0;
  infer_axes(c->error, &c->attr[0], x->rank, &count, axes);
  type_strides(x, step);
  memcpy(from, step, sizeof from);
  for (int i = 0; i < count; i++) {
    first += step[axes[i]] * (x->shape[axes[i]] - 1);
    from[axes[i]] = -step[axes[i]];
  }
  Strided s = {0};
  for (int i = 0; i < x->rank; i++) strided_add(&s, x->shape[i], from[i], step[i]);
  if (type_count(x))
    copy_strided(c, dtype_size(x->dtype), &s,
                 (const char *)c->in[0] + (size_t)first * dtype_size(x->dtype), c->out[0]);
  return OK;
}

static void grad_reverse(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, "reverse", &dy[0], 1, n->attr);
}

const OpDef ops_repeat[] = {
    {.name = "broadcast_to",
     .layout = LAYOUT_SPREAD,
     .summary = "Repeated along missing axes and axes of 1.",
     .shapes = "[...] → shape",
     .inputs = {"x"},
     .attrs = {{"shape", ATTR_INTS, NULL, NULL, "of the result"}},
     .infer = infer_broadcast_to,
     .simplify = simplify_broadcast,
     .cost = cost_of_copy,
     .eval = eval_broadcast_to,
     .grad = grad_broadcast_to,
     .sample =
         "F[3] {shape = {2, 3}} | F[2,1] {shape = {2, 4}} | F[] {shape = {3, 2}} | F[1] {shape = {0}} "
         "| I5[2,1] {shape = {2, 3}}"},
    {.name = "tile",
     .summary = "Copies side by side along each axis.",
     .shapes = "[n, ...] → [n * multiple, ...]",
     .inputs = {"x"},
     .attrs = {{"multiples", ATTR_INTS, NULL, NULL, "copies along each axis"}},
     .infer = infer_tile,
     .simplify = simplify_whole,
     .cost = cost_of_copy,
     .eval = eval_tile,
     .grad = grad_tile,
     .sample =
         "F[2,3] {multiples = {2, 1}} | F[3] {multiples = 4} | F[2,2,2] {multiples = {3, 1, 2}} | F[2] "
         "{multiples = 0} | I5[2] {multiples = 2}"},
    {.name = "repeat_n",
     .summary =
         "Each element (or slice along axis) several times; without axis x is flattened first.",
     .shapes = "[..., n, ...] → [..., sum of repeats, ...]",
     .inputs = {"x"},
     .attrs = {{"repeats", ATTR_INTS, NULL, NULL,
                "how often, not negative: one number, or one for each slice"},
               {"axis", ATTR_INT, "nil", NULL, "to repeat along"}},
     .infer = infer_repeat,
     .cost = cost_of_copy,
     .eval = eval_repeat,
     .grad = grad_repeat,
     .sample =
         "F[2,3] {repeats = 2, axis = 1} | F[2,2] {repeats = 3} | F[3,2] {repeats = {1, 0, 2}, axis = "
         "0} | F[2,3,2] {repeats = {2, 0, 1}, axis = -2}"},
    {.name = "reverse",
     .summary = "Back to front along axes.",
     .shapes = "any",
     .inputs = {"x"},
     .attrs = {{"axis", ATTR_INTS, NULL, NULL, "axes to turn"}},
     .infer = infer_reverse,
     .cost = cost_of_rearrange,
     .eval = eval_reverse,
     .grad = grad_reverse,
     .sample =
         "F[2,3] {axis = 1} | F[4] {axis = 0} | F[2,3,2] {axis = {0, -1}} | F[0,2] {axis = 0} | I5[4] "
         "{axis = 0}"},
    {0}};
