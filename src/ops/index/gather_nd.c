/* Slices by tuples of indices, and back. */
#include <string.h>

#include "ops/index/gather.h"

/* The last axis of the indices names leading axes of x. */
static int depth_of(const Type *index) {
  return index->rank ? (int)min(index->shape[index->rank - 1], MAX_RANK + 1) : -1;
}

static Status infer_gather_nd(Error *e, Node *n) {
  const Type *x = &n->in[0]->type, *index = &n->in[1]->type;
  int depth = depth_of(index);
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Status s = infer_index(e, n, 1);
  if (s != OK) return s;
  if (depth < 0 || depth > x->rank || index->rank - 1 + x->rank - depth > MAX_RANK)
    return fail(e, ERR_INVALID_ARGUMENT,
                "indices %s don't fit %s: their last axis names its leading ones",
                shape_text(index, b), shape_text(x, a));
  Type *y = &n->out[0].type;
  *y = (Type){.dtype = x->dtype};
  for (int i = 0; i + 1 < index->rank; i++) y->shape[y->rank++] = index->shape[i];
  for (int i = depth; i < x->rank; i++) y->shape[y->rank++] = x->shape[i];
  return OK;
}

/* The slice of t that tuple k of the indices names; -1 with an error. */
static int64_t slice_of(const Call *c, const Type *t, int input, int64_t k) {
  const Type *index = c->in_type[input];
  int depth = depth_of(index);
  int64_t at = 0;
  for (int i = 0; i < depth; i++) {
    int64_t one = index_at(c, "indices", index->dtype, c->in[input], k * depth + i, t->shape[i]);
    if (one < 0) return -1;
    at = at * t->shape[i] + one;
  }
  return at;
}

static int64_t slice_elements(const Type *t, int depth) {
  int64_t n = 1;
  for (int i = depth; i < t->rank; i++) n *= t->shape[i];
  return n;
}

static Status eval_gather_nd(const Call *c) {
  const Type *x = c->in_type[0];
  int depth = depth_of(c->in_type[1]);
  size_t run = (size_t)slice_elements(x, depth) * dtype_size(x->dtype);
  int64_t count = type_count(c->out_type[0]) / max(slice_elements(x, depth), 1);
  for (int64_t k = 0; k < count; k++) {
    int64_t from = slice_of(c, x, 1, k);
    if (from < 0) return ERR_OUT_OF_RANGE;
    memcpy((char *)c->out[0] + (size_t)k * run, (const char *)c->in[0] + (size_t)from * run, run);
  }
  return OK;
}

static void grad_gather_nd(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Attr attrs[] = {attr_ints(n->in[0]->type.shape, n->in[0]->type.rank)};
  dx[0] = op_with(g, "scatter_nd", (Value *[]){n->in[1], dy[0]}, 2, attrs);
}

static Status infer_scatter_nd(Error *e, Node *n) {
  const Type *index = &n->in[0]->type, *updates = &n->in[1]->type;
  const Attr *a = &n->attr[0];
  char b[TYPE_TEXT], d[TYPE_TEXT];
  Status s = infer_index(e, n, 0);
  if (s != OK) return s;
  if (updates->dtype == BOOL) return fail(e, ERR_TYPE, "updates must be numbers, got bool");
  if (a->ints.n > MAX_RANK)
    return fail(e, ERR_VALUE, "a shape has at most %d dimensions, got %d", MAX_RANK, a->ints.n);
  Type t = type_make(updates->dtype, a->ints.n, a->ints.v);
  s = type_check(e, "shape", &t);
  if (s != OK) return s;
  int depth = depth_of(index);
  bool fits = depth >= 0 && depth <= t.rank && updates->rank == index->rank - 1 + t.rank - depth;
  for (int i = 0; fits && i < updates->rank; i++)
    fits = updates->shape[i] ==
           (i + 1 < index->rank ? index->shape[i] : t.shape[i - index->rank + 1 + depth]);
  if (!fits)
    return fail(e, ERR_INVALID_ARGUMENT,
                "indices %s and updates %s don't fit each other and the shape",
                shape_text(index, b), shape_text(updates, d));
  n->out[0].type = t;
  return OK;
}

static Status body_scatter_nd(const Call *c) {
  const Type *y = c->out_type[0];
  int64_t elements = slice_elements(y, depth_of(c->in_type[0]));
  int64_t count = type_count(c->in_type[1]) / max(elements, 1);
  size_t run = (size_t)elements * dtype_size(y->dtype);
  fill_zero(c, c->out[0], type_bytes(y));
  for (int64_t k = 0; k < count; k++) {
    int64_t to = slice_of(c, y, 0, k);
    if (to < 0) return ERR_OUT_OF_RANGE;
    add_run(y->dtype, (char *)c->out[0] + (size_t)to * run,
            (const char *)c->in[1] + (size_t)k * run, elements);
  }
  return OK;
}
static Status eval_scatter_nd(const Call *c) { return eval_wide(c, body_scatter_nd); }
static void grad_scatter_nd(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[1] = op2(g, "gather_nd", dy[0], n->in[0]);
}

const OpDef ops_gather_nd[] = {
    {.name = "gather_nd",
     .summary =
         "Slices of x by tuples of k indices, along its first k axes; one outside is an error.",
     .shapes = "[k axes…, rest…], [..., k] → [..., rest…]",
     .inputs = {"x", "indices"},
     .traits = INDICES(1),
     .infer = infer_gather_nd,
     .cost = cost_of_gather_nd,
     .eval = eval_gather_nd,
     .grad = grad_gather_nd,
     .sample =
         "F[4,4] I4[5,2] | F[3,3,4] I3[2,2,2] | F[3,3,2] I3[3,1] | F[3,3,3] I3[4,3] | F[3] I3[1]"},
    {.name = "scatter_nd",
     .summary = "Updates added to zeros at tuples of indices; one outside is an error.",
     .shapes = "[..., 2], [..., ...] → shape",
     .inputs = {"indices", "updates"},
     .traits = INDICES(0),
     .attrs = {{"shape", ATTR_INTS, NULL, NULL, "of the result"}},
     .infer = infer_scatter_nd,
     .cost = cost_of_scatter_nd,
     .eval = eval_scatter_nd,
     .scratch = scratch_wide,
     .grad = grad_scatter_nd,
     .sample =
         "I5[3,1] F[3] {shape = 5} | I4[3,1] F[3,2] {shape = {4, 2}} | I2[3,2] F[3,2] {shape = {2, 3, "
         "2}} | I3[1] F[2] {shape = {3, 2}}"},
    {0}};
