/* Rows that move elements without changing them. */
#include <string.h>

#include "ops/support.h"

static Status axis_of(Error *e, Node *n, int attr, int rank, int *axis) {
  Status s = axis_check(e, "axis", n->attr[attr].i, rank, axis);
  if (s == OK) n->attr[attr].i = *axis;
  return s;
}

static Type without(const Type *t, int axis) { return type_reduced(t, 1, &axis, false); }

/* ---- reshape, expand_dims, squeeze ---- */

static Status infer_reshape(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  const Attr *a = &n->attr[0];
  char from[TYPE_TEXT], to[TYPE_TEXT];
  if (a->ints.n > MAX_RANK)
    return fail(e, ERR_VALUE, "a shape has at most %d dimensions, got %d", MAX_RANK, a->ints.n);
  Type t = {.dtype = x->dtype, .rank = a->ints.n};
  int open = -1;
  int64_t known = 1;
  for (int i = 0; i < t.rank; i++) {
    t.shape[i] = a->ints.v[i];
    if (t.shape[i] == -1 && open >= 0)
      return fail(e, ERR_VALUE, "more than one -1 in shape %s", shape_text(&t, to));
    if (t.shape[i] < -1)
      return fail(e, ERR_VALUE, "extents must be positive, got %lld", (long long)t.shape[i]);
    if (t.shape[i] == -1) open = i;
    else if (__builtin_mul_overflow(known, t.shape[i], &known))
      return fail(e, ERR_VALUE, "shape is too large");
  }
  int64_t count = type_count(x);
  bool fits = open < 0 ? known == count : known > 0 && count % known == 0;
  if (!fits)
    return fail(e, ERR_INVALID_ARGUMENT, "%s has %lld elements, which don't fit into %s", shape_text(x, from),
                (long long)count, shape_text(&t, to));
  if (open >= 0) t.shape[open] = count / known;
  n->out[0].type = t;
  return set_ints(e, n, 0, t.shape, t.rank);
}

static void grad_reshape(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = ops_reshape_like(g, dy[0], n->in[0]);
}

static Status infer_expand(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  int axis;
  char text[TYPE_TEXT];
  if (x->rank == MAX_RANK)
    return fail(e, ERR_VALUE, "%s has %d dimensions already", shape_text(x, text), MAX_RANK);
  Status s = axis_of(e, n, 0, x->rank + 1, &axis);
  Type *y = &n->out[0].type;
  *y = (Type){.dtype = x->dtype, .rank = x->rank + 1};
  for (int i = 0; i < y->rank && s == OK; i++) y->shape[i] = i == axis ? 1 : x->shape[i - (i > axis)];
  return s;
}

static Status infer_squeeze(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  int count = 0, axes[MAX_RANK];
  char text[TYPE_TEXT];
  if (!attr_given(&n->attr[0])) {
    for (int i = 0; i < x->rank; i++)
      if (x->shape[i] == 1) axes[count++] = i;
  } else {
    Status s = infer_axes(e, &n->attr[0], x->rank, &count, axes);
    if (s != OK) return s;
  }
  for (int i = 0; i < count; i++)
    if (x->shape[axes[i]] != 1)
      return fail(e, ERR_INVALID_ARGUMENT, "axis %d of %s is not 1", axes[i], shape_text(x, text));
  n->out[0].type = type_reduced(x, count, axes, false);
  return OK;
}

/* ---- transpose ---- */

static Status infer_transpose(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  const Attr *a = &n->attr[0];
  int64_t perm[MAX_RANK];
  bool taken[MAX_RANK] = {false};
  char text[TYPE_TEXT];
  if (attr_given(a) && a->ints.n != x->rank)
    return fail(e, ERR_VALUE, "perm must name each of the %d axes of %s, got %d", x->rank,
                shape_text(x, text), a->ints.n);
  n->out[0].type = *x;
  for (int i = 0; i < x->rank; i++) {
    int axis = x->rank - 1 - i;
    Status s = attr_given(a) ? axis_check(e, "perm", a->ints.v[i], x->rank, &axis) : OK;
    if (s != OK) return s;
    if (taken[axis]) return fail(e, ERR_VALUE, "perm names axis %d twice", axis);
    taken[axis] = true;
    perm[i] = axis;
    n->out[0].type.shape[i] = x->shape[axis];
  }
  return set_ints(e, n, 0, perm, x->rank);
}

static Status eval_transpose(const Call *c) {
  const Type *x = c->in_type[0], *y = c->out_type[0];
  int64_t from[MAX_RANK], to[MAX_RANK];
  type_strides(x, from);
  type_strides(y, to);
  Strided s = {0};
  for (int i = 0; i < y->rank; i++) strided_add(&s, y->shape[i], from[c->attr[0].ints.v[i]], to[i]);
  copy_strided(c, dtype_size(x->dtype), &s, c->in[0], c->out[0]);
  return OK;
}

static void grad_transpose(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  int64_t back[MAX_RANK];
  for (int i = 0; i < n->attr[0].ints.n; i++) back[n->attr[0].ints.v[i]] = i;
  dx[0] = ops_transpose(g, dy[0], back);
}

/* ---- concat, split ---- */

static Status infer_concat(Error *e, Node *n) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  if (n->in_count == 0) return fail(e, ERR_VALUE, "no tensors");
  Type *y = &n->out[0].type;
  int axis;
  *y = n->in[0]->type;
  Status s = axis_of(e, n, 0, y->rank, &axis);
  for (int k = 1; k < n->in_count && s == OK; k++) {
    const Type *x = &n->in[k]->type;
    bool fits = x->rank == y->rank;
    for (int i = 0; i < y->rank && fits; i++) fits = i == axis || x->shape[i] == y->shape[i];
    if (x->dtype != y->dtype)
      return fail(e, ERR_TYPE, "dtypes %s and %s differ; ipu.cast one of them", dtype_name(y->dtype),
                  dtype_name(x->dtype));
    if (!fits)
      return fail(e, ERR_INVALID_ARGUMENT, "shapes %s and %s differ outside of axis %d",
                  shape_text(&n->in[0]->type, a), shape_text(x, b), axis);
    y->shape[axis] += x->shape[axis];
  }
  return s;
}

/* Part k of several along an axis: a run of `run` elements in each of the outer rows of `row` elements. */
static void copy_part(const Call *c, size_t size, int64_t outer, int64_t run, const char *x, int64_t from,
                      char *y, int64_t to) {
  Strided s = {0};
  strided_add(&s, outer, from, to);
  strided_add(&s, run, 1, 1);
  copy_strided(c, size, &s, x, y);
}

static Status join(const Call *c, Around whole, int axis_is_new) {
  size_t size = dtype_size(c->out_type[0]->dtype);
  int64_t at = 0;
  for (int k = 0; k < c->in_count; k++) {
    int64_t extent = axis_is_new ? 1 : c->in_type[k]->shape[c->attr[0].i], run = extent * whole.inner;
    copy_part(c, size, whole.outer, run, c->in[k], run, (char *)c->out[0] + (size_t)(at * whole.inner) * size,
              whole.extent * whole.inner);
    at += extent;
  }
  return OK;
}

static Status cut(const Call *c, Around whole, int axis, bool axis_is_gone) {
  size_t size = dtype_size(c->in_type[0]->dtype);
  int64_t at = 0;
  for (int k = 0; k < c->out_count; k++) {
    int64_t extent = axis_is_gone ? 1 : c->out_type[k]->shape[axis], run = extent * whole.inner;
    copy_part(c, size, whole.outer, run, (const char *)c->in[0] + (size_t)(at * whole.inner) * size,
              whole.extent * whole.inner, c->out[k], run);
    at += extent;
  }
  return OK;
}

static Status eval_concat(const Call *c) {
  return join(c, around_axis(c->out_type[0], (int)c->attr[0].i), false);
}

static void grad_concat(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  if (n->in_count == 1) {
    dx[0] = dy[0];
    return;
  }
  int64_t *sizes = arena_alloc(g->arena, (size_t)n->in_count * sizeof *sizes);
  for (int i = 0; i < n->in_count && sizes; i++) sizes[i] = n->in[i]->type.shape[n->attr[0].i];
  Attr attrs[] = {attr_ints(sizes, n->in_count), n->attr[0]};
  Node *parts = sizes ? graph_node(g, op_find("split"), &dy[0], 1, attrs) : NULL;
  for (int i = 0; i < n->in_count; i++) dx[i] = parts ? &parts->out[i] : NULL;
}

/* A list of one number is a count of equal parts. */
static Status infer_split(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  const Attr *a = &n->attr[0];
  int axis;
  char text[TYPE_TEXT];
  Status s = axis_of(e, n, 1, x->rank, &axis);
  if (s != OK) return s;
  int64_t extent = x->shape[axis], first = a->ints.n ? a->ints.v[0] : 0, sum = 0;
  bool equal = a->ints.n == 1;
  int64_t count = equal ? first : a->ints.n;
  if (count < 1 || count > 1 << 20)
    return fail(e, ERR_VALUE, "wants a count of parts or their sizes, got %lld", (long long)count);
  if (equal && extent % count)
    return fail(e, ERR_INVALID_ARGUMENT, "axis %d of %s can't be cut into %lld equal parts", axis,
                shape_text(x, text), (long long)count);
  if (!node_outputs(n->arena, n, (int)count)) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < count; i++) {
    n->out[i].type = *x;
    int64_t size = n->out[i].type.shape[axis] = equal ? extent / count : a->ints.v[i];
    if (size < 0 || size > extent)
      return fail(e, ERR_VALUE, "size %lld is outside 0 … %lld", (long long)size, (long long)extent);
    sum += size;
  }
  if (sum != extent)
    return fail(e, ERR_INVALID_ARGUMENT, "the sizes add up to %lld, but axis %d of %s has %lld",
                (long long)sum, axis, shape_text(x, text), (long long)extent);
  return OK;
}

static Status eval_split(const Call *c) {
  int axis = (int)c->attr[1].i;
  return cut(c, around_axis(c->in_type[0], axis), axis, false);
}

/* Missing gradients of parts are zeros. */
static void grad_parts(Graph *g, const Node *n, Value *const *dy, Value **dx, const char *joiner, int axis) {
  Value **parts = arena_alloc(g->arena, (size_t)n->out_count * sizeof *parts);
  for (int i = 0; i < n->out_count && parts; i++) parts[i] = dy[i] ? dy[i] : ops_zeros(g, &n->out[i].type);
  Attr attrs[] = {n->attr[axis]};
  dx[0] = parts ? op_with(g, joiner, parts, n->out_count, attrs) : NULL;
}
static void grad_split(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  grad_parts(g, n, dy, dx, "concat", 1);
}

/* ---- stack, unstack ---- */

static Status infer_stack(Error *e, Node *n) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  if (n->in_count == 0) return fail(e, ERR_VALUE, "no tensors");
  const Type *x = &n->in[0]->type;
  int axis;
  if (x->rank == MAX_RANK)
    return fail(e, ERR_VALUE, "%s has %d dimensions already", shape_text(x, a), MAX_RANK);
  Status s = axis_of(e, n, 0, x->rank + 1, &axis);
  if (s != OK) return s;
  for (int k = 1; k < n->in_count; k++)
    if (!type_equal(x, &n->in[k]->type))
      return fail(e, ERR_INVALID_ARGUMENT, "%s and %s differ", type_text(x, a),
                  type_text(&n->in[k]->type, b));
  Type *y = &n->out[0].type;
  *y = (Type){.dtype = x->dtype, .rank = x->rank + 1};
  for (int i = 0; i < y->rank; i++) y->shape[i] = i == axis ? n->in_count : x->shape[i - (i > axis)];
  return OK;
}

static Status eval_stack(const Call *c) {
  return join(c, around_axis(c->out_type[0], (int)c->attr[0].i), true);
}

static void grad_stack(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Node *parts = graph_node(g, op_find("unstack"), &dy[0], 1, n->attr);
  for (int i = 0; i < n->in_count; i++) dx[i] = parts ? &parts->out[i] : NULL;
}

static Status infer_unstack(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  int axis;
  char text[TYPE_TEXT];
  Status s = axis_of(e, n, 0, x->rank, &axis);
  if (s != OK) return s;
  int64_t count = x->shape[axis];
  if (count < 1 || count > 1 << 20)
    return fail(e, ERR_VALUE, "axis %d of %s can't be unstacked", axis, shape_text(x, text));
  if (!node_outputs(n->arena, n, (int)count)) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < count; i++) n->out[i].type = without(x, axis);
  return OK;
}

static Status eval_unstack(const Call *c) {
  int axis = (int)c->attr[0].i;
  return cut(c, around_axis(c->in_type[0], axis), axis, true);
}
static void grad_unstack(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  grad_parts(g, n, dy, dx, "stack", 0);
}

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
    strided_add(&s, y->shape[i], i < missing || x->shape[i - missing] == 1 ? 0 : from[i - missing], to[i]);
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
    return fail(e, ERR_VALUE, "multiples must have a number for each of the %d axes of %s, got %d", x->rank,
                shape_text(x, text), a->ints.n);
  n->out[0].type = *x;
  for (int i = 0; i < x->rank; i++) {
    if (a->ints.v[i] < 0)
      return fail(e, ERR_VALUE, "multiples must not be negative, got %lld", (long long)a->ints.v[i]);
    if (__builtin_mul_overflow(x->shape[i], a->ints.v[i], &n->out[0].type.shape[i]))
      return fail(e, ERR_VALUE, "%s %lld times along axis %d is too large", shape_text(x, text), (long long)a->ints.v[i], i);
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
    Type apart = {
        .dtype = d->type.dtype, .rank = 4, .shape = {a.outer, times, times ? a.extent / times : 0, a.inner}};
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
  Status s = flat ? OK : axis_of(e, n, REPEAT_AXIS, x->rank, &axis);
  if (s != OK) return s;
  if (a->ints.n != 1 && a->ints.n != t.shape[axis])
    return fail(e, ERR_VALUE, "repeats must be one number or %lld of them (%s), got %d",
                (long long)t.shape[axis], shape_text(x, text), a->ints.n);
  int64_t sum = 0;
  for (int i = 0; i < a->ints.n; i++) {
    if (a->ints.v[i] < 0)
      return fail(e, ERR_VALUE, "repeats must not be negative, got %lld", (long long)a->ints.v[i]);
    if (__builtin_add_overflow(sum, a->ints.v[i], &sum)) return fail(e, ERR_VALUE, "%s with these repeats is too large", shape_text(x, text));
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
    Type apart = {
        .dtype = n->out[0].type.dtype, .rank = 4, .shape = {r.outer, r.extent, a->ints.v[0], r.inner}};
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
    copy_strided(c, dtype_size(x->dtype), &s, (const char *)c->in[0] + (size_t)first * dtype_size(x->dtype),
                 c->out[0]);
  return OK;
}

static void grad_reverse(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, "reverse", &dy[0], 1, n->attr);
}

/* ---- rows ---- */

const OpDef ops_shape[] = {
    {.name = "reshape",
     .summary = "The same elements in another shape; one -1 is inferred.",
     .shapes = "any → shape",
     .inputs = {"x"},
     .attrs = {{"shape", ATTR_INTS, NULL, NULL, "of the result"}},
     .traits = VIEW,
     .infer = infer_reshape,
     .cost = cost_of_view,
     .eval = eval_copy,
     .grad = grad_reshape,
     .sample =
         "F[2,6] {shape = {3, -1}} | F[1,1] {shape = {}} | F[0,3] {shape = {3, 0}} | I5[4] {shape = {2, 2}}"},
    {.name = "expand_dims",
     .summary = "A new axis of 1.",
     .shapes = "[...] → [..., 1, ...]",
     .inputs = {"x"},
     .attrs = {{"axis", ATTR_INT, NULL, NULL, "where the new axis stands in the result"}},
     .traits = VIEW,
     .infer = infer_expand,
     .cost = cost_of_view,
     .eval = eval_copy,
     .grad = grad_reshape,
     .sample = "F[2,3] {axis = 0} | F[2,3] {axis = -1} | F[] {axis = 0} | F[2,2] {axis = -2}"},
    {.name = "squeeze",
     .summary = "Without axes of 1.",
     .shapes = "[..., 1, ...] → [...]",
     .inputs = {"x"},
     .attrs = {{"axis", ATTR_INTS, "nil", NULL, "axes to drop; all of 1 when absent"}},
     .traits = VIEW,
     .infer = infer_squeeze,
     .cost = cost_of_view,
     .eval = eval_copy,
     .grad = grad_reshape,
     .sample = "F[1,3,1] | F[1,3,1] {axis = 0} | F[1,1] {axis = {0, -1}} | F[]"},
    {.name = "transpose",
     .summary = "Axes in another order; the reverse one when perm is absent.",
     .shapes = "[...] → permuted",
     .inputs = {"x"},
     .attrs = {{"perm", ATTR_INTS, "nil", NULL, "the axis of x that each axis of the result is"}},
     .infer = infer_transpose,
     .cost = cost_of_transpose,
     .eval = eval_transpose,
     .grad = grad_transpose,
     .sample = "F[2,3] | F[2,3,5] {perm = {2, 0, 1}} | F[2,3,4,5] {perm = {0, 2, 1, 3}} | F[4,5,6,7] {perm = "
               "{3, 1, 2, 0}} | F[] | "
               "F[0,3] | I5[3,4] | B[2,3] | F[260,200] | F[256,300] | F[3,1,2] {perm = {-1, 0, 1}}"},
    {.name = "concat",
     .summary = "Tensors one behind the other along an axis.",
     .shapes = "[..., n, ...], [..., m, ...] → [..., n+m, ...]",
     .inputs = {"tensors"},
     .attrs = {{"axis", ATTR_INT, NULL, NULL, "the axis that grows"}},
     .traits = VARIADIC,
     .infer = infer_concat,
     .cost = cost_of_copy,
     .eval = eval_concat,
     .grad = grad_concat,
     .sample = "F[2,3] F[2,5] {axis = 1} | F[1,3] F[4,3] F[2,3] {axis = 0} | F[5] F[1] F[0] {axis = -1} | "
               "F[2,2] {axis = 0} | "
               "I5[2] I5[3] {axis = 0}"},
    {.name = "split",
     .summary = "Cut along an axis, into equal parts (a number) or parts of given sizes (a list).",
     .shapes = "[..., n, ...] → parts",
     .inputs = {"x"},
     .attrs = {{"count_or_sizes", ATTR_INTS, NULL, NULL, "how many parts, or the size of each"},
               {"axis", ATTR_INT, "0", NULL, "to cut"}},
     .outputs = -1,
     .infer = infer_split,
     .cost = cost_of_copy,
     .eval = eval_split,
     .grad = grad_split,
     .sample = "F[2,6] {count_or_sizes = 3, axis = 1} | F[4,3] {count_or_sizes = 2} | F[2,7] {count_or_sizes "
               "= {2, 4, 1}, axis = -1} | "
               "F[10,2] {count_or_sizes = 10}"},
    {.name = "stack",
     .summary = "Tensors of one shape along a new axis.",
     .shapes = "[...] × n → [..., n, ...]",
     .inputs = {"tensors"},
     .attrs = {{"axis", ATTR_INT, "0", NULL, "where the new axis stands"}},
     .traits = VARIADIC,
     .infer = infer_stack,
     .cost = cost_of_copy,
     .eval = eval_stack,
     .grad = grad_stack,
     .sample = "F[3,2] F[3,2] | F[2,2] F[2,2] F[2,2] {axis = 1} | F[2,3] F[2,3] {axis = -1} | F[] F[]"},
    {.name = "unstack",
     .summary = "The parts of 1 along an axis, without it.",
     .shapes = "[..., n, ...] → n × [...]",
     .inputs = {"x"},
     .attrs = {{"axis", ATTR_INT, "0", NULL, "to take apart"}},
     .outputs = -1,
     .infer = infer_unstack,
     .cost = cost_of_copy,
     .eval = eval_unstack,
     .grad = grad_unstack,
     .sample = "F[3,2] | F[2,3,2] {axis = 1} | F[9] | F[2,3] {axis = -1}"},
    {.name = "broadcast_to",
     .summary = "Repeated along missing axes and axes of 1.",
     .shapes = "[...] → shape",
     .inputs = {"x"},
     .attrs = {{"shape", ATTR_INTS, NULL, NULL, "of the result"}},
     .infer = infer_broadcast_to,
     .cost = cost_of_copy,
     .eval = eval_broadcast_to,
     .grad = grad_broadcast_to,
     .sample = "F[3] {shape = {2, 3}} | F[2,1] {shape = {2, 4}} | F[] {shape = {3, 2}} | F[1] {shape = {0}} "
               "| I5[2,1] {shape = {2, 3}}"},
    {.name = "tile",
     .summary = "Copies side by side along each axis.",
     .shapes = "[n, ...] → [n * multiple, ...]",
     .inputs = {"x"},
     .attrs = {{"multiples", ATTR_INTS, NULL, NULL, "copies along each axis"}},
     .infer = infer_tile,
     .cost = cost_of_copy,
     .eval = eval_tile,
     .grad = grad_tile,
     .sample = "F[2,3] {multiples = {2, 1}} | F[3] {multiples = 4} | F[2,2,2] {multiples = {3, 1, 2}} | F[2] "
               "{multiples = 0} | I5[2] {multiples = 2}"},
    {.name = "repeat_n",
     .summary = "Each element (or slice along axis) several times; without axis x is flattened first.",
     .shapes = "[..., n, ...] → [..., sum of repeats, ...]",
     .inputs = {"x"},
     .attrs = {{"repeats", ATTR_INTS, NULL, NULL, "how often: one number, or one for each slice"},
               {"axis", ATTR_INT, "nil", NULL, "to repeat along"}},
     .infer = infer_repeat,
     .cost = cost_of_copy,
     .eval = eval_repeat,
     .grad = grad_repeat,
     .sample = "F[2,3] {repeats = 2, axis = 1} | F[2,2] {repeats = 3} | F[3,2] {repeats = {1, 0, 2}, axis = "
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
     .sample = "F[2,3] {axis = 1} | F[4] {axis = 0} | F[2,3,2] {axis = {0, -1}} | F[0,2] {axis = 0} | I5[4] "
               "{axis = 0}"},
    {0}};
