/* Cross-entropies from logits, each with the slope that its gradient needs. */
#include <string.h>

#include "ops/nn.h"
#include "target/cost.h"

enum { LABELS, LOGITS }; /* operands, in TensorFlow's order */
enum { LOSS, SLOPE };    /* results; the slope is for the gradient */
enum { ROWS_GRAIN = 8192 };

/* Outputs: losses [rows], slopes like the logits. */
static void set_outputs(Node *n) {
  const Type *logits = &n->in[LOGITS]->type;
  n->out[LOSS].type = *logits;
  n->out[LOSS].type.rank--;
  n->out[SLOPE].type = *logits;
}

static Status want_classes(Error *e, const Type *logits) {
  char text[TYPE_TEXT];
  if (logits->rank == 0 || nn_last(logits) == 0)
    return fail(e, ERR_INVALID_ARGUMENT, "logits must have classes in their last axis, got %s",
                shape_text(logits, text));
  return OK;
}

static Status want_one_shape(Error *e, const Node *n) {
  const Type *labels = &n->in[LABELS]->type, *logits = &n->in[LOGITS]->type;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  if (shape_equal(labels, logits)) return OK;
  return fail(e, ERR_INVALID_ARGUMENT, "labels %s and logits %s must have one shape",
              shape_text(labels, a), shape_text(logits, b));
}

/* ---- softmax cross-entropy ---- */

static Status infer_dense(Error *e, Node *n) {
  Status s = nn_want_float(e, n, 0, 2);
  if (s == OK) s = want_classes(e, &n->in[LOGITS]->type);
  if (s == OK) s = want_one_shape(e, n);
  if (s == OK) set_outputs(n);
  return s;
}

typedef struct Dense {
  const Call *call;
  int64_t n;
} Dense;

/* loss = -sum labels log p; slope = p sum labels - labels, in the slope's own memory. */
#define DENSE(type, D)                                                                     \
  static void dense_##D(void *context, int64_t begin, int64_t end) {                       \
    const Dense *d = context;                                                              \
    const Call *c = d->call;                                                               \
    int64_t n = d->n;                                                                      \
    const type *labels = (const type *)c->in[LABELS] + begin * n,                          \
               *logits = (const type *)c->in[LOGITS] + begin * n;                          \
    type *loss = (type *)c->out[LOSS] + begin, *slope = (type *)c->out[SLOPE] + begin * n; \
    c->kernels->log_softmax[D](logits, end - begin, n, slope);                             \
    for (int64_t r = 0; r < end - begin; r++, labels += n, slope += n) {                   \
      type sum = 0, total = 0;                                                             \
      for (int64_t i = 0; i < n; i++) {                                                    \
        if (labels[i] != 0) sum += labels[i] * slope[i];                                   \
        total += labels[i];                                                                \
      }                                                                                    \
      loss[r] = -sum;                                                                      \
      c->kernels->strip[EW_EXP][D]((const void *[]){slope}, 0, slope, n, NULL);            \
      for (int64_t i = 0; i < n; i++) slope[i] = slope[i] * total - labels[i];             \
    }                                                                                      \
  }
DENSE(float, F32)
DENSE(double, F64)
#undef DENSE

static Status inner_dense(const Call *c) {
  const Type *t = c->in_type[LOGITS];
  Dense d = {c, nn_last(t)};
  parallel_for(c, type_count(t) / d.n, ROWS_GRAIN / d.n, t->dtype == F64 ? dense_F64 : dense_F32,
               &d);
  return OK;
}
static Status eval_dense(const Call *c) { return eval_wide(c, inner_dense); }

static Value *trailing_one(Graph *g, Value *x) {
  if (!x) return NULL;
  Type t = x->type;
  t.shape[t.rank++] = 1;
  return ops_reshape(g, x, &t);
}

/* Gradients of one row's loss: softmax - labels by the logits, -log p by the labels. The second
 * derivative by the logits is the gradient of softmax. */
static void grad_dense(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *labels = n->in[LABELS], *logits = n->in[LOGITS];
  int64_t last = logits->type.rank - 1;
  if (dy[LOSS]) {
    Value *up = trailing_one(g, dy[LOSS]);
    dx[LOGITS] = ops_mul(g, up, &n->out[SLOPE]);
    dx[LABELS] = ops_neg(g, ops_mul(g, up, op1(g, "nn.log_softmax", logits)));
  }
  if (dy[SLOPE]) {
    Value *p = op1(g, "nn.softmax", logits), *total = ops_sum(g, labels, &last, 1, true);
    Value *in_logits = op2(g, "nn.softmax_grad", ops_mul(g, dy[SLOPE], total), p);
    Value *in_labels = ops_sub(g, ops_sum(g, ops_mul(g, dy[SLOPE], p), &last, 1, true), dy[SLOPE]);
    dx[LOGITS] = dx[LOGITS] ? ops_add(g, dx[LOGITS], in_logits) : in_logits;
    dx[LABELS] = dx[LABELS] ? ops_add(g, dx[LABELS], in_labels) : in_labels;
  }
}

/* ---- the same with class numbers ---- */

static Status infer_sparse(Error *e, Node *n) {
  const Type *labels = &n->in[LABELS]->type, *logits = &n->in[LOGITS]->type;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Status s = nn_want_float(e, n, LOGITS, 1);
  if (s == OK) s = want_classes(e, logits);
  if (s != OK) return s;
  if (!dtype_is_integer(labels->dtype))
    return fail(e, ERR_TYPE, "labels must be integers, got %s", dtype_name(labels->dtype));
  Type rows = *logits;
  rows.rank--;
  if (!shape_equal(labels, &rows))
    return fail(e, ERR_INVALID_ARGUMENT,
                "labels %s don't fit logits %s: one label for each row of logits",
                shape_text(labels, a), shape_text(logits, b));
  set_outputs(n);
  return OK;
}

typedef struct Sparse {
  const Call *call;
  const int32_t *labels;
  int64_t n;
  size_t size;
  Dtype dtype;
} Sparse;

static void sparse_rows(void *context, int64_t begin, int64_t end) {
  const Sparse *s = context;
  const Call *c = s->call;
  size_t at = (size_t)(begin * s->n) * s->size;
  c->kernels->sparse_xent[s->dtype](
      (const char *)c->in[LOGITS] + at, s->labels + begin, end - begin, s->n,
      (char *)c->out[LOSS] + (size_t)begin * s->size, (char *)c->out[SLOPE] + at);
}

/* Of labels that were checked: other widths become int32. */
static const int32_t *labels_of(const Call *c) {
  const Type *t = c->in_type[LABELS];
  if (t->dtype == I32) return c->in[LABELS];
  int32_t *labels = c->scratch;
  for (int64_t i = 0; i < type_count(t); i++)
    labels[i] = (int32_t)dtype_get_integer(t->dtype, c->in[LABELS], i);
  return labels;
}

static Status inner_sparse(const Call *c) {
  const Type *t = c->in_type[LOGITS];
  Status status = check_indices(c, "labels", LABELS, nn_last(t));
  if (status != OK) return status;
  Sparse s = {c, labels_of(c), nn_last(t), dtype_size(t->dtype), t->dtype};
  parallel_for(c, type_count(c->in_type[LABELS]), ROWS_GRAIN / s.n, sparse_rows, &s);
  return OK;
}
static Status eval_sparse(const Call *c) { return eval_wide(c, inner_sparse); }

static size_t scratch_sparse(const Node *n) {
  const Type *labels = &n->in[LABELS]->type;
  return wide_scratch(n, labels->dtype == I32 ? 0 : (size_t)type_count(labels) * sizeof(int32_t));
}
static size_t scratch_none(const Node *n) { return wide_scratch(n, 0); }

static void grad_sparse(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *logits = n->in[LOGITS];
  if (dy[LOSS]) dx[LOGITS] = ops_mul(g, trailing_one(g, dy[LOSS]), &n->out[SLOPE]);
  if (dy[SLOPE]) {
    Value *again = op2(g, "nn.softmax_grad", dy[SLOPE], op1(g, "nn.softmax", logits));
    dx[LOGITS] = dx[LOGITS] ? ops_add(g, dx[LOGITS], again) : again;
  }
}

/* ---- sigmoid cross-entropy: softplus(x) - x z, which is max(x, 0) - x z + log(1 + e^-|x|) ---- */

static Status infer_sigmoid(Error *e, Node *n) {
  n->out[0].type = n->in[LOGITS]->type;
  Status s = nn_want_float(e, n, 0, 2);
  return s == OK ? want_one_shape(e, n) : s;
}

static void sigmoid_block(void *context, int64_t begin, int64_t end) {
  enum { BLOCK = 512 };
  const Call *c = context;
  Dtype d = c->in_type[LOGITS]->dtype;
  size_t size = dtype_size(d);
  const Kernels *k = c->kernels;
  double product[BLOCK]; /* or floats */
  for (int64_t i = begin, n; i < end; i += n) {
    n = end - i < BLOCK ? end - i : BLOCK;
    const char *z = (const char *)c->in[LABELS] + (size_t)i * size,
               *x = (const char *)c->in[LOGITS] + (size_t)i * size;
    char *y = (char *)c->out[0] + (size_t)i * size;
    k->strip[EW_MUL][d]((const void *[]){x, z}, 0, product, n, NULL);
    k->strip[EW_SOFTPLUS][d]((const void *[]){x}, 0, y, n, NULL);
    k->strip[EW_SUB][d]((const void *[]){y, product}, 0, y, n, NULL);
  }
}

static Status inner_sigmoid(const Call *c) {
  parallel_for(c, type_count(c->in_type[LOGITS]), ROWS_GRAIN, sigmoid_block, (void *)(uintptr_t)c);
  return OK;
}
static Status eval_sigmoid(const Call *c) { return eval_wide(c, inner_sigmoid); }

static void grad_sigmoid(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *labels = n->in[LABELS], *logits = n->in[LOGITS];
  dx[LOGITS] = ops_mul(g, dy[0], ops_sub(g, op1(g, "sigmoid", logits), labels));
  dx[LABELS] = ops_neg(g, ops_mul(g, dy[0], logits));
}

static void cost(const Target *t, const Node *n, Cost *c) {
  const Type *x = &n->in[LOGITS]->type;
  *c = cost_cross_entropy(t, x->dtype, type_count(x) / max(nn_last(x), 1), nn_last(x), false);
}

static void cost_sigmoid(const Target *t, const Node *n, Cost *c) {
  const Type *x = &n->in[LOGITS]->type;
  double cycles = VECTOR(SOFTPLUS, x->dtype) + VECTOR(MUL, x->dtype) + VECTOR(SUB, x->dtype);
  *c = cost_elementwise(t, x->dtype, type_count(x), 2, cycles);
}

const OpDef ops_loss[] = {
    {.name = "nn.softmax_cross_entropy_with_logits",
     .summary = "Minus the sum over the last axis of labels times log softmax of logits.",
     .shapes = "[…, n], […, n] → […]",
     .inputs = {"labels", "logits"},
     .outputs = 2,
     .visible_outputs = 1,
     .infer = infer_dense,
     .eval = eval_dense,
     .cost = cost,
     .scratch = scratch_none,
     .grad = grad_dense,
     .sample = "P[3,4] F[3,4] | P[2,3,4] F[2,3,4]"},
    {.name = "nn.sparse_softmax_cross_entropy_with_logits",
     .summary =
         "Minus the log softmax of logits at each row's label; one that is no class is an error.",
     .shapes = "[…], […, n] → […]",
     .inputs = {"labels", "logits"},
     .traits = INDICES(0),
     .outputs = 2,
     .visible_outputs = 1,
     .infer = infer_sparse,
     .eval = eval_sparse,
     .cost = cost,
     .scratch = scratch_sparse,
     .grad = grad_sparse,
     .sample = "I4[3] F[3,4] | I3[2,2] F[2,2,3]"},
    {.name = "nn.sigmoid_cross_entropy_with_logits",
     .summary = "max(x, 0) - x z + log(1 + e^-|x|) for logits x and labels z, element by element.",
     .shapes = "any, the same → the same",
     .inputs = {"labels", "logits"},
     .infer = infer_sigmoid,
     .eval = eval_sigmoid,
     .cost = cost_sigmoid,
     .scratch = scratch_none,
     .grad = grad_sigmoid,
     .sample = "P[3,4] F[3,4]"},
    {0}};
