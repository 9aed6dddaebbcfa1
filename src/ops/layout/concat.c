/* Tensors joined along an axis, an old one or a new one, and cut apart. */
#include <string.h>

#include "ops/same.h"
#include "ops/support.h"

/* ---- concat, split ---- */

static Status infer_concat(Error *e, Node *n) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  if (n->in_count == 0) return fail(e, ERR_VALUE, "the list of tensors is empty");
  Type *y = &n->out[0].type;
  int axis;
  *y = n->in[0]->type;
  Status s = infer_axis(e, n, 0, y->rank, &axis);
  for (int k = 1; k < n->in_count && s == OK; k++) {
    const Type *x = &n->in[k]->type;
    bool fits = x->rank == y->rank;
    for (int i = 0; i < y->rank && fits; i++) fits = i == axis || x->shape[i] == y->shape[i];
    if (x->dtype != y->dtype)
      return fail(e, ERR_TYPE, "dtypes %s and %s differ; ipu.cast one of them",
                  dtype_name(y->dtype), dtype_name(x->dtype));
    if (!fits)
      return fail(e, ERR_INVALID_ARGUMENT, "shapes %s and %s differ outside of axis %d",
                  shape_text(&n->in[0]->type, a), shape_text(x, b), axis);
    if (__builtin_add_overflow(y->shape[axis], x->shape[axis], &y->shape[axis]))
      return fail(e, ERR_VALUE, "the extents along axis %d are more than an integer holds", axis);
  }
  return s;
}

/* Part k of several along an axis: a run of `run` elements in each of the outer rows of `row`
 * elements. */
static void copy_part(const Call *c, size_t size, int64_t outer, int64_t run, const char *x,
                      int64_t from, char *y, int64_t to) {
  Strided s = {0};
  strided_add(&s, outer, from, to);
  strided_add(&s, run, 1, 1);
  copy_strided(c, size, &s, x, y);
}

static Status join(const Call *c, Around whole, int axis_is_new) {
  size_t size = dtype_size(c->out_type[0]->dtype);
  int64_t at = 0;
  for (int k = 0; k < c->in_count; k++) {
    int64_t extent = axis_is_new ? 1 : c->in_type[k]->shape[c->attr[0].i],
            run = extent * whole.inner;
    copy_part(c, size, whole.outer, run, c->in[k], run,
              (char *)c->out[0] + (size_t)(at * whole.inner) * size, whole.extent * whole.inner);
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

/* A number is a count of equal parts; a list has the size of each, also a list of one. */
static Status infer_split(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  const Attr *a = &n->attr[0];
  int axis;
  char text[TYPE_TEXT];
  Status s = infer_axis(e, n, 1, x->rank, &axis);
  if (s != OK) return s;
  int64_t extent = x->shape[axis], first = a->ints.n ? a->ints.v[0] : 0, sum = 0;
  bool equal = a->ints.n == 1 && !a->ints.listed;
  int64_t count = equal ? first : a->ints.n;
  if (count < 1 || count > 1 << 20)
    return fail(e, ERR_VALUE, "count_or_sizes must be a count of parts or their sizes, got %lld%s",
                (long long)count, equal ? "" : " sizes");
  if (equal && extent % count)
    return fail(e, ERR_INVALID_ARGUMENT, "axis %d of %s can't be cut into %lld equal parts", axis,
                shape_text(x, text), (long long)count);
  if (!node_outputs(n->arena, n, (int)count)) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < count; i++) {
    n->out[i].type = *x;
    int64_t size = n->out[i].type.shape[axis] = equal ? extent / count : a->ints.v[i];
    if (size < 0 || size > extent)
      return fail(e, ERR_VALUE, "size %lld is outside 0 … %lld", (long long)size,
                  (long long)extent);
    if (__builtin_add_overflow(sum, size, &sum)) sum = INT64_MAX;
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
static void grad_parts(Graph *g, const Node *n, Value *const *dy, Value **dx, const char *joiner,
                       int axis) {
  Value **parts = arena_alloc(g->arena, (size_t)n->out_count * sizeof *parts);
  for (int i = 0; i < n->out_count && parts; i++)
    parts[i] = dy[i] ? dy[i] : ops_zeros(g, &n->out[i].type);
  Attr attrs[] = {n->attr[axis]};
  dx[0] = parts ? op_with(g, joiner, parts, n->out_count, attrs) : NULL;
}
static void grad_split(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  grad_parts(g, n, dy, dx, "concat", 1);
}

/* ---- stack, unstack ---- */

static Status infer_stack(Error *e, Node *n) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  if (n->in_count == 0) return fail(e, ERR_VALUE, "the list of tensors is empty");
  const Type *x = &n->in[0]->type;
  int axis;
  if (x->rank == MAX_RANK)
    return fail(e, ERR_VALUE, "%s has %d dimensions already", shape_text(x, a), MAX_RANK);
  Status s = infer_axis(e, n, 0, x->rank + 1, &axis);
  if (s != OK) return s;
  for (int k = 1; k < n->in_count; k++)
    if (!type_equal(x, &n->in[k]->type))
      return fail(e, ERR_INVALID_ARGUMENT, "%s and %s differ", type_text(x, a),
                  type_text(&n->in[k]->type, b));
  Type *y = &n->out[0].type;
  *y = (Type){.dtype = x->dtype, .rank = x->rank + 1};
  for (int i = 0; i < y->rank; i++)
    y->shape[i] = i == axis ? n->in_count : x->shape[i - (i > axis)];
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
  Status s = infer_axis(e, n, 0, x->rank, &axis);
  if (s != OK) return s;
  int64_t count = x->shape[axis];
  if (count < 1 || count > 1 << 20)
    return fail(e, ERR_VALUE, "axis %d of %s can't be unstacked", axis, shape_text(x, text));
  if (!node_outputs(n->arena, n, (int)count)) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < count; i++) n->out[i].type = type_without(x, axis);
  return OK;
}

static Status eval_unstack(const Call *c) {
  int axis = (int)c->attr[0].i;
  return cut(c, around_axis(c->in_type[0], axis), axis, true);
}
static void grad_unstack(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  grad_parts(g, n, dy, dx, "stack", 0);
}

const OpDef ops_concat[] = {
    {.name = "concat",
     .summary = "Tensors joined along an axis, one after the other.",
     .shapes = "[..., n, ...], [..., m, ...] → [..., n+m, ...]",
     .inputs = {"tensors"},
     .attrs = {{"axis", ATTR_INT, NULL, NULL, "the axis that grows"}},
     .traits = VARIADIC,
     .infer = infer_concat,
     .simplify = simplify_whole,
     .cost = cost_of_copy,
     .eval = eval_concat,
     .grad = grad_concat,
     .sample =
         "F[2,3] F[2,5] {axis = 1} | F[1,3] F[4,3] F[2,3] {axis = 0} | F[5] F[1] F[0] {axis = -1} | "
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
     .sample =
         "F[2,6] {count_or_sizes = 3, axis = 1} | F[4,3] {count_or_sizes = 2} | F[2,7] {count_or_sizes "
         "= {2, 4, 1}, axis = -1} | "
         "F[10,2] {count_or_sizes = 10} | F[4,2] {count_or_sizes = {4}}"},
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
     .sample =
         "F[3,2] F[3,2] | F[2,2] F[2,2] F[2,2] {axis = 1} | F[2,3] F[2,3] {axis = -1} | F[] F[]"},
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
    {0}};
