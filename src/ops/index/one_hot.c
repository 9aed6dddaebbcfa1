/* Classes as vectors. */
#include <string.h>

#include "ops/index/gather.h"

enum { DEPTH, HOT_AXIS, ON_VALUE, OFF_VALUE, HOT_DTYPE };

static Status infer_one_hot(Error *e, Node *n) {
  const Type *index = &n->in[0]->type;
  int axis;
  char text[TYPE_TEXT];
  Status s = infer_index(e, n, 0);
  if (s != OK) return s;
  if (index->rank == MAX_RANK)
    return fail(e, ERR_VALUE, "%s has %d dimensions already", shape_text(index, text), MAX_RANK);
  if (n->attr[DEPTH].i < 0)
    return fail(e, ERR_VALUE, "depth must not be negative, got %lld", (long long)n->attr[DEPTH].i);
  s = axis_check(e, "axis", n->attr[HOT_AXIS].i, index->rank + 1, &axis);
  if (s != OK) return s;
  n->attr[HOT_AXIS].i = axis;
  Type *y = &n->out[0].type;
  *y = (Type){.dtype = (Dtype)n->attr[HOT_DTYPE].i, .rank = index->rank + 1};
  for (int i = 0; i < y->rank; i++)
    y->shape[i] = i == axis ? n->attr[DEPTH].i : index->shape[i - (i > axis)];
  return OK;
}

/* Indices outside 0 … depth - 1 give no hot element. */
static Status eval_one_hot(const Call *c) {
  const Type *y = c->out_type[0];
  Around a = around_axis(y, (int)c->attr[HOT_AXIS].i);
  int64_t on = 0, off = 0;
  size_t size = dtype_size(y->dtype);
  int events = set_cast(y->dtype, &on, 0, c->attr[ON_VALUE].f, c->numerics) |
               set_cast(y->dtype, &off, 0, c->attr[OFF_VALUE].f, c->numerics);
  fill_elements(c->out[0], size, &off, type_count(y));
  for (int64_t k = 0; k < a.outer * a.inner; k++) {
    int64_t index = read_index(c->in_type[0]->dtype, c->in[0], k), outer = k / a.inner,
            inner = k % a.inner;
    if (index >= 0 && index < a.extent)
      memcpy((char *)c->out[0] + (size_t)((outer * a.extent + index) * a.inner + inner) * size, &on,
             size);
  }
  return trap_events(c, events);
}

const OpDef ops_one_hot[] = {
    {.name = "one_hot",
     .summary =
         "on_value where the new axis equals the index, else off_value; other indices give no hot element.",
     .shapes = "[...] → [..., depth]",
     .inputs = {"indices"},
     .attrs = {{"depth", ATTR_INT, NULL, NULL, "extent of the new axis, not negative"},
               {"axis", ATTR_INT, "-1", NULL, "where it stands"},
               {"on_value", ATTR_FLOAT, "1", NULL, "at the index"},
               {"off_value", ATTR_FLOAT, "0", NULL, "elsewhere"},
               {"dtype", ATTR_DTYPE, "'float32'", NULL, "of the result"}},
     .traits = NO_GRADIENT | INDICES(0),
     .infer = infer_one_hot,
     .cost = cost_of_one_hot,
     .eval = eval_one_hot,
     .sample =
         "I5[4] {depth = 5} | I5[2,3] {depth = 4, axis = 1} | I2 {depth = 3, on_value = 2, off_value = "
         "-1} | I3[2] {depth = 3, dtype = 'int32'}"},
    {0}};
