/* Confusion matrices: counts of each prediction for each label. */
#include <string.h>

#include "ops/index/gather.h"

enum { LABELS, PREDICTIONS, WEIGHTS };
enum { CLASSES, DTYPE };

static bool is_weighted(const Node *n) { return n->in_count > WEIGHTS; }

static Status infer(Error *e, Node *n) {
  const Type *labels = &n->in[LABELS]->type, *predictions = &n->in[PREDICTIONS]->type;
  int64_t classes = n->attr[CLASSES].i;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Status s = infer_index(e, n, LABELS);
  if (s == OK) s = infer_index(e, n, PREDICTIONS);
  if (s != OK) return s;
  if (labels->rank != 1 || predictions->rank != 1 || labels->shape[0] != predictions->shape[0])
    return fail(e, ERR_INVALID_ARGUMENT,
                "labels and predictions must be vectors of one length, got %s and %s",
                shape_text(labels, a), shape_text(predictions, b));
  if (classes < 1)
    return fail(e, ERR_VALUE, "num_classes must be positive, got %lld", (long long)classes);
  n->out[0].type = (Type){.dtype = (Dtype)n->attr[DTYPE].i, .rank = 2, .shape = {classes, classes}};
  if (!is_weighted(n)) return OK;
  const Type *weights = &n->in[WEIGHTS]->type;
  if (!shape_equal(weights, labels))
    return fail(e, ERR_INVALID_ARGUMENT, "weights must be %s as labels, got %s",
                shape_text(labels, a), shape_text(weights, b));
  n->out[0].type.dtype = weights->dtype;
  return want_float(e, weights);
}

static Status body(const Call *c) {
  int64_t classes = c->attr[CLASSES].i, one = 0;
  Dtype d = c->out_type[0]->dtype;
  size_t size = dtype_size(d);
  dtype_set(d, &one, 0, 1);
  Status s = check_indices(c, "labels", LABELS, classes);
  if (s == OK) s = check_indices(c, "predictions", PREDICTIONS, classes);
  fill_zero(c, c->out[0], type_bytes(c->out_type[0]));
  for (int64_t i = 0, n = type_count(c->in_type[LABELS]); s == OK && i < n; i++) {
    int64_t row = read_index(c->in_type[LABELS]->dtype, c->in[LABELS], i);
    int64_t column = read_index(c->in_type[PREDICTIONS]->dtype, c->in[PREDICTIONS], i);
    const char *weight = c->in_count > WEIGHTS ? (const char *)c->in[WEIGHTS] + (size_t)i * size
                                               : (const char *)&one;
    add_run(d, (char *)c->out[0] + (size_t)(row * classes + column) * size, weight, 1);
  }
  return s;
}
static Status eval(const Call *c) { return eval_wide(c, body); }

/* A weight's gradient is the gradient of the cell that it was added to. */
static void grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  if (!is_weighted(n)) return;
  int64_t classes = n->attr[CLASSES].i, count = classes * classes;
  Value *row = ops_mul(g, ops_cast(g, n->in[LABELS], I32), graph_number(g, I32, (double)classes));
  Value *cell = ops_add(g, row, ops_cast(g, n->in[PREDICTIONS], I32));
  Type flat = {.dtype = n->out[0].type.dtype, .rank = 1, .shape = {count}};
  dx[WEIGHTS] = op2(g, "gather", ops_reshape(g, dy[0], &flat), cell);
}

/* Its Lua function is ipu.confusion_matrix, which has num_classes before the weights. */
const OpDef ops_confusion[] = {
    {.name = "confusion_matrix",
     .summary = "How often prediction j was made for label i, or the sum of the weights there.",
     .shapes = "[n], [n], [n] → [num_classes, num_classes]",
     .inputs = {"labels", "predictions", "weights?"},
     .attrs = {{"num_classes", ATTR_INT, NULL, NULL, "classes; numbers outside are an error"},
               {"dtype", ATTR_DTYPE, "'int32'", NULL, "of the result, where there are no weights"}},
     .traits = INTERNAL | INDICES(0) | INDICES(1),
     .infer = infer,
     .cost = cost_of_scatter,
     .eval = eval,
     .scratch = scratch_wide,
     .grad = grad,
     .sample = "I4[9] I4[9] {num_classes = 4} | I3[5] I3[5] F[5] {num_classes = 3}"},
    {0}};
