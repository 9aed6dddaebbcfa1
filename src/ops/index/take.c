/* Elements along an axis, each row by its own indices, as sort and top_k need them. */
#include "ops/index/gather.h"

enum { AXIS, EXTENT };

static Status infer_take(Error *e, Node *n) {
  const Type *x = &n->in[0]->type, *index = &n->in[1]->type;
  int axis;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Status s = infer_index(e, n, 1);
  if (s == OK) s = axis_check(e, "axis", n->attr[AXIS].i, x->rank, &axis);
  if (s != OK) return s;
  n->attr[AXIS].i = axis;
  if (!same_but(x, index, axis))
    return fail(e, ERR_INVALID_ARGUMENT, "%s and indices %s differ outside of axis %d",
                shape_text(x, a), shape_text(index, b), axis);
  n->out[0].type = *index;
  n->out[0].type.dtype = x->dtype;
  return OK;
}

static Status eval_take(const Call *c) {
  Around x = around_axis(c->in_type[0], (int)c->attr[AXIS].i),
         y = around_axis(c->out_type[0], (int)c->attr[AXIS].i);
  size_t size = dtype_size(c->in_type[0]->dtype);
  Dtype d = c->in_type[1]->dtype;
  Status s = check_indices(c, "indices", 1, x.extent);
  for (int64_t k = 0; s == OK && k < type_count(c->out_type[0]); k++) {
    int64_t inner = k % y.inner, outer = k / (y.inner * y.extent);
    int64_t from = (outer * x.extent + read_index(d, c->in[1], k)) * x.inner + inner;
    memcpy((char *)c->out[0] + (size_t)k * size, (const char *)c->in[0] + (size_t)from * size,
           size);
  }
  return s;
}

static void grad_take(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Attr attrs[] = {n->attr[AXIS], attr_int(n->in[0]->type.shape[n->attr[AXIS].i])};
  dx[0] = op_with(g, "take_along_grad", (Value *[]){dy[0], n->in[1]}, 2, attrs);
}

static Status infer_take_grad(Error *e, Node *n) {
  int64_t extent = n->attr[EXTENT].i;
  Status s = n->in[0]->type.dtype == BOOL ? fail(e, ERR_TYPE, "operands must be numbers, got bool")
                                          : infer_take(e, n);
  if (s != OK) return s;
  if (extent < 0) return fail(e, ERR_VALUE, "extent must not be negative");
  n->out[0].type = n->in[0]->type;
  n->out[0].type.shape[n->attr[AXIS].i] = extent;
  return shape_equal(&n->in[0]->type, &n->in[1]->type)
             ? OK
             : fail(e, ERR_INVALID_ARGUMENT, "dy and indices differ in shape");
}

static Status body_take_grad(const Call *c) {
  Around x = around_axis(c->out_type[0], (int)c->attr[AXIS].i),
         y = around_axis(c->in_type[0], (int)c->attr[AXIS].i);
  Dtype d = c->in_type[0]->dtype, id = c->in_type[1]->dtype;
  size_t size = dtype_size(d);
  Status s = check_indices(c, "indices", 1, x.extent);
  fill_zero(c, c->out[0], type_bytes(c->out_type[0]));
  for (int64_t k = 0; s == OK && k < type_count(c->in_type[0]); k++) {
    int64_t inner = k % y.inner, outer = k / (y.inner * y.extent);
    int64_t to = (outer * x.extent + read_index(id, c->in[1], k)) * x.inner + inner;
    add_run(d, (char *)c->out[0] + (size_t)to * size, (const char *)c->in[0] + (size_t)k * size, 1);
  }
  return s;
}
static Status eval_take_grad(const Call *c) { return eval_wide(c, body_take_grad); }

static void grad_take_grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Attr attrs[] = {n->attr[AXIS]};
  dx[0] = op_with(g, "take_along", (Value *[]){dy[0], n->in[1]}, 2, attrs);
}

const OpDef ops_take[] = {
    {.name = "take_along",
     .summary = "Elements of x along an axis, each row by its own indices.",
     .shapes = "[a, n, b], [a, m, b] → [a, m, b]",
     .inputs = {"x", "indices"},
     .attrs = {{"axis", ATTR_INT, "-1", NULL, "to index"}},
     .traits = INTERNAL,
     .infer = infer_take,
     .cost = cost_of_put_along,
     .eval = eval_take,
     .grad = grad_take,
     .sample = "F[2,5] I5[2,3] | F[4,2] I4[3,2] {axis = 0} | F[2,3,2] I3[2,3,2] {axis = 1}"},
    {.name = "take_along_grad",
     .summary = "dy added to zeros where take_along took it.",
     .shapes = "[a, m, b], [a, m, b] → [a, extent, b]",
     .inputs = {"dy", "indices"},
     .attrs = {{"axis", ATTR_INT, NULL, NULL, "that was indexed"},
               {"extent", ATTR_INT, NULL, NULL, "of that axis"}},
     .traits = INTERNAL,
     .infer = infer_take_grad,
     .cost = cost_of_take_along,
     .eval = eval_take_grad,
     .scratch = scratch_wide,
     .grad = grad_take_grad,
     .sample = "F[2,3] I5[2,3] {axis = -1, extent = 5} | F[3,2] I4[3,2] {axis = 0, extent = 4}"},
    {0}};
