/* Sums of rows that belong together. */
#include "ops/index/gather.h"

static Status infer_segment_sum(Error *e, Node *n) {
  const Type *data = &n->in[0]->type, *ids = &n->in[1]->type;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Status s = infer_index(e, n, 1);
  if (s != OK) return s;
  if (data->dtype == BOOL) return fail(e, ERR_TYPE, "operands must be numbers, got bool");
  if (data->rank < 1 || ids->rank != 1 || ids->shape[0] != data->shape[0])
    return fail(e, ERR_INVALID_ARGUMENT,
                "data %s needs one segment id for each of its rows, got %s", shape_text(data, a),
                shape_text(ids, b));
  if (n->attr[0].i < 0)
    return fail(e, ERR_VALUE, "num_segments must not be negative, got %lld",
                (long long)n->attr[0].i);
  n->out[0].type = *data;
  n->out[0].type.shape[0] = n->attr[0].i;
  return OK;
}

static Status body_segment_sum(const Call *c) {
  const Type *x = c->in_type[0];
  Around a = around_axis(x, 0);
  size_t run = (size_t)a.inner * dtype_size(x->dtype);
  Status s = check_indices(c, "segment_ids", 1, c->out_type[0]->shape[0]);
  fill_zero(c, c->out[0], type_bytes(c->out_type[0]));
  for (int64_t k = 0; s == OK && k < a.extent; k++)
    add_run(x->dtype,
            (char *)c->out[0] + (size_t)read_index(c->in_type[1]->dtype, c->in[1], k) * run,
            (const char *)c->in[0] + (size_t)k * run, a.inner);
  return s;
}
static Status eval_segment_sum(const Call *c) { return eval_wide(c, body_segment_sum); }
static void grad_segment_sum(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op2(g, "gather", dy[0], n->in[1]);
}

const OpDef ops_segment[] = {
    {.name = "segment_sum",
     .source = "math_ops.segment_sum of Graphcore's TensorFlow 2.6",
     .summary = "Sums of rows with equal ids; missing segments are 0. An id outside is an error.",
     .shapes = "[n, ...], [n] → [num_segments, ...]",
     .inputs = {"data", "segment_ids"},
     .traits = INDICES(1),
     .attrs = {{"num_segments", ATTR_INT, NULL, NULL, "rows of the result"}},
     .infer = infer_segment_sum,
     .cost = cost_of_scatter,
     .eval = eval_segment_sum,
     .scratch = scratch_wide,
     .grad = grad_segment_sum,
     .sample =
         "F[5,3] S4[5] {num_segments = 4} | F[6] S3[6] {num_segments = 5} | I9[4] S2[4] {num_segments = 2}"},
    {0}};
