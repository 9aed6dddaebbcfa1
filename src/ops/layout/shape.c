/* The same elements under another shape, or in another order of axes. */
#include <string.h>

#include "ops/same.h"
#include "ops/support.h"

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
    return fail(e, ERR_INVALID_ARGUMENT, "%s has %lld element%s, which do%s fit into %s",
                shape_text(x, from), (long long)count, plural(count), count == 1 ? "esn't" : "n't",
                shape_text(&t, to));
  if (open >= 0) t.shape[open] = count / known;
  n->out[0].type = t; /* the attribute keeps its -1, which other extents are found by in a copy */
  return OK;
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
  Status s = infer_axis(e, n, 0, x->rank + 1, &axis);
  Type *y = &n->out[0].type;
  *y = (Type){.dtype = x->dtype, .rank = x->rank + 1};
  for (int i = 0; i < y->rank && s == OK; i++)
    y->shape[i] = i == axis ? 1 : x->shape[i - (i > axis)];
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

const OpDef ops_shape[] = {
    {.name = "reshape",
     .summary = "The same elements in another shape; one -1 is inferred.",
     .shapes = "any → shape",
     .inputs = {"x"},
     .attrs = {{"shape", ATTR_INTS, NULL, NULL, "of the result"}},
     .traits = VIEW,
     .infer = infer_reshape,
     .simplify = simplify_reshape,
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
     .simplify = simplify_view,
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
     .simplify = simplify_view,
     .cost = cost_of_view,
     .eval = eval_copy,
     .grad = grad_reshape,
     .sample = "F[1,3,1] | F[1,3,1] {axis = 0} | F[1,1] {axis = {0, -1}} | F[]"},
    {.name = "transpose",
     .layout = LAYOUT_ORDER,
     .summary = "Axes in another order; the reverse one when perm is absent.",
     .shapes = "[...] → permuted",
     .inputs = {"x"},
     .attrs = {{"perm", ATTR_INTS, "nil", NULL, "the axis of x that each axis of the result is"}},
     .infer = infer_transpose,
     .simplify = simplify_transpose,
     .cost = cost_of_transpose,
     .eval = eval_transpose,
     .grad = grad_transpose,
     .sample =
         "F[2,3] | F[2,3,5] {perm = {2, 0, 1}} | F[2,3,4,5] {perm = {0, 2, 1, 3}} | F[4,5,6,7] {perm = "
         "{3, 1, 2, 0}} | F[] | "
         "F[0,3] | I5[3,4] | B[2,3] | F[260,200] | F[256,300] | F[3,1,2] {perm = {-1, 0, 1}}"},
    {0}};
