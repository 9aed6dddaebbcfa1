/* Histograms, and the levels between their bins. */
#include <math.h>
#include <string.h>

#include "ops/reduce/reduce_axes.h"

static Status want_rank_1(Error *e, const char *what, const Type *t) {
  char text[TYPE_TEXT];
  Status s = want_float(e, t);
  if (s == OK && t->rank != 1)
    return fail(e, ERR_VALUE, "%s must have one dimension, got %s", what, shape_text(t, text));
  return s;
}

static Status infer_counts(Error *e, Node *n, int first) {
  Status s = want_rank_1(e, "the input", &n->in[first]->type);
  if (s == OK) s = want_rank_1(e, "levels", &n->in[first + 1]->type);
  n->out[0].type = (Type){.dtype = F32, .rank = 1, .shape = {n->in[first + 1]->type.shape[0] + 1}};
  return s;
}

static Status infer_histogram(Error *e, Node *n) { return infer_counts(e, n, 0); }

static Status infer_update(Error *e, Node *n) {
  const Type *hist = &n->in[0]->type;
  char got[TYPE_TEXT], want[TYPE_TEXT];
  Status s = infer_counts(e, n, 1);
  if (s == OK && !type_equal(hist, &n->out[0].type))
    return fail(e, ERR_INVALID_ARGUMENT, "the histogram must be %s (one more than levels), got %s",
                type_text(&n->out[0].type, want), type_text(hist, got));
  return s;
}

/* Bin k counts levels[k - 1] <= x < levels[k]; NaN is in none. Counts are kept as integers:
 * float32 ends at 2^24. */
static void count_bins(const Call *c, int first, int64_t *count) {
  const Type *x = c->in_type[first], *levels = c->in_type[first + 1];
  int64_t bins = levels->shape[0];
  bool absolute = c->attr[0].i;
  memset(count, 0, (size_t)(bins + 1) * sizeof *count);
  for (int64_t i = 0; i < x->shape[0]; i++) {
    double v = dtype_get(x->dtype, c->in[first], i);
    if (absolute) v = fabs(v);
    if (isnan(v)) continue;
    int64_t low = 0, high = bins;
    while (low < high) {
      int64_t middle = (low + high) / 2;
      if (dtype_get(levels->dtype, c->in[first + 1], middle) > v) high = middle;
      else low = middle + 1;
    }
    count[low]++;
  }
}

static Status eval_histogram(const Call *c) {
  int64_t *count = c->scratch;
  float *y = c->out[0];
  count_bins(c, 0, count);
  for (int64_t i = 0; i < c->out_type[0]->shape[0]; i++) y[i] = (float)count[i];
  return OK;
}

static Status eval_update(const Call *c) {
  int64_t *count = c->scratch;
  const float *hist = c->in[0];
  float *y = c->out[0];
  count_bins(c, 1, count);
  for (int64_t i = 0; i < c->out_type[0]->shape[0]; i++) y[i] = hist[i] + (float)count[i];
  return OK;
}
static size_t scratch_counts(const Node *n) {
  return (size_t)n->out[0].type.shape[0] * sizeof(int64_t);
}

/* ---- histogram_normalize ---- */

static Status infer_normalize(Error *e, Node *n) {
  infer_same(e, n);
  return want_rank_1(e, "the histogram", &n->in[0]->type);
}

static Status body_normalize(const Call *c) {
  const Type *x = c->in_type[0];
  Type one = {.dtype = x->dtype};
  double sum = 0;
  reduce_axes(c, REDUCE_SUM, x, c->in[0], 1, (int[]){0}, &sum, c->scratch);
  run_kernel(c, EW_DIV, 2, (const Type *[]){x, &one}, (const void *[]){c->in[0], &sum}, x,
             c->out[0], NULL);
  return OK;
}
static Status eval_normalize(const Call *c) { return eval_wide(c, body_normalize); }
static size_t scratch_normalize(const Node *n) {
  return wide_scratch(n, reduce_bytes(&n->in[0]->type, 1, (int[]){0}));
}

static void grad_normalize(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  int64_t axis = 0;
  Value *x = n->in[0], *y = (Value *)&n->out[0];
  Value *along = ops_sum(g, ops_mul(g, dy[0], y), &axis, 1, true);
  dx[0] = ops_div(g, ops_sub(g, dy[0], along), ops_sum(g, x, &axis, 1, true));
}

/* ---- fixed_width_bins ---- */

static Status infer_bins(Error *e, Node *n) {
  int64_t count = n->attr[0].i;
  infer_same(e, n);
  Status s = want_rank_1(e, "the input", &n->in[0]->type);
  if (s != OK) return s;
  if (count < 1) return fail(e, ERR_VALUE, "n_bins must be 1 at least, got %lld", (long long)count);
  if (n->in[0]->type.shape[0] == 0)
    return fail(e, ERR_VALUE, "the input, of shape [0], is empty and has no range");
  n->out[0].type.shape[0] = count;
  return OK;
}

/* From the least to the greatest element in even steps. */
static Status eval_bins(const Call *c) {
  const Type *x = c->in_type[0];
  int64_t count = c->attr[0].i;
  double low = INFINITY, high = -INFINITY;
  for (int64_t i = 0; i < x->shape[0]; i++) {
    double v = dtype_get(x->dtype, c->in[0], i);
    low = fmin(low, v), high = fmax(high, v);
  }
  for (int64_t i = 0; i < count; i++) {
    double v = count == 1 ? low : low + (high - low) * (double)i / (double)(count - 1);
    dtype_set(x->dtype, c->out[0], i, i == count - 1 && count > 1 ? high : v);
  }
  return OK;
}

#define ABSOLUTE .attrs = {{"absolute_of_input", ATTR_BOOL, "false", NULL, "count magnitudes"}}
const OpDef ops_histogram[] = {
    {.name = "histogram",
     .source = "statistics_ops.histogram of Graphcore's TensorFlow 2.6",
     .summary =
         "How many elements lie below the first level, between levels, at or above the last; float32.",
     .shapes = "[n], [levels] → [levels + 1]",
     .inputs = {"x", "levels"},
     ABSOLUTE,
     .traits = NO_GRADIENT,
     .infer = infer_histogram,
     .cost = cost_of_histogram,
     .eval = eval_histogram,
     .scratch = scratch_counts,
     .sample = "F[50] P[1] | F[50] P[1] {absolute_of_input = true} | F[4] F[0]"},
    {.name = "histogram_update",
     .summary = "A histogram with more elements counted in.",
     .shapes = "[levels + 1], [n], [levels] → [levels + 1]",
     .inputs = {"hist", "x", "levels"},
     ABSOLUTE,
     .traits = NO_GRADIENT | IN_PLACE(0),
     .infer = infer_update,
     .cost = cost_of_histogram,
     .eval = eval_update,
     .scratch = scratch_counts,
     .sample = "H[2] F[50] P[1] | H[2] F[50] P[1] {absolute_of_input = true}"},
    {.name = "histogram_normalize",
     .summary = "A histogram divided by its sum.",
     .shapes = "[n]",
     .inputs = {"hist"},
     .traits = IN_PLACE(0),
     .infer = infer_normalize,
     .cost = cost_of_norm,
     .eval = eval_normalize,
     .scratch = scratch_normalize,
     .grad = grad_normalize,
     .sample = "P[5] | P[1]"},
    {.name = "fixed_width_bins",
     .source = "statistics_ops.fixed_width_bins of Graphcore's TensorFlow 2.6",
     .summary = "n_bins numbers in even steps from the least to the greatest element.",
     .shapes = "[n] → [n_bins]",
     .inputs = {"x"},
     .attrs = {{"n_bins", ATTR_INT, NULL, NULL, "how many, at least 1"}},
     .traits = NO_GRADIENT,
     .infer = infer_bins,
     .cost = cost_of_bins,
     .eval = eval_bins,
     .sample = "F[20] {n_bins = 5} | F[3] {n_bins = 1}"},
    {0}};
