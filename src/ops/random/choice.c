/* Classes drawn by their logits; rows in random order. */
#include <math.h>
#include <string.h>

#include "ops/random/random.h"

/* ---- categorical ---- */

static Status infer_categorical(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  char text[TYPE_TEXT];
  Status s = random_check_counter(e, n);
  if (s == OK) s = want_float(e, x);
  if (s != OK) return s;
  if (x->rank != 2 || x->shape[1] < 1 || x->shape[1] > INT32_MAX)
    return fail(e, ERR_INVALID_ARGUMENT, "logits must be [batch, classes], got %s",
                shape_text(x, text));
  n->out[0].type = (Type){.dtype = I32, .rank = 2, .shape = {x->shape[0], n->attr[0].i}};
  return n->attr[0].i >= 0 ? OK
                           : fail(e, ERR_VALUE, "num_samples must not be negative, got %lld",
                                  (long long)n->attr[0].i);
}

/* Running sums of e^(logit - max), a row after the other. */
static void weigh_rows(const Call *c, double *sums) {
  const Type *x = c->in_type[0];
  int64_t classes = x->shape[1];
  for (int64_t r = 0; r < x->shape[0]; r++) {
    double greatest = -INFINITY, sum = 0;
    for (int64_t k = 0; k < classes; k++)
      greatest = fmax(greatest, dtype_get(x->dtype, c->in[0], r * classes + k));
    for (int64_t k = 0; k < classes; k++)
      sums[r * classes + k] = sum += exp(dtype_get(x->dtype, c->in[0], r * classes + k) - greatest);
  }
}

/* The first class whose running sum is above v; the last one with any weight when rounding
 * leaves none. */
static int64_t find_class(const double *sums, int64_t classes, double v) {
  int64_t low = 0, high = classes - 1;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (sums[middle] > v) high = middle;
    else low = middle + 1;
  }
  while (low > 0 && !(sums[low] > sums[low - 1])) low--;
  return low;
}

static Status eval_categorical(const Call *c) {
  int64_t classes = c->in_type[0]->shape[1], samples = c->attr[0].i;
  RngKey key = random_key(c);
  double *sums = c->scratch;
  weigh_rows(c, sums);
  for (int64_t i = 0; i < type_count(c->out_type[0]); i++) {
    const double *row = sums + i / samples * classes;
    uint32_t w[4];
    rng_block(&key, (uint64_t)i, w);
    ((int32_t *)c->out[0])[i] =
        (int32_t)find_class(row, classes, random_uniform_53(w, 0) * row[classes - 1]);
  }
  return OK;
}
static size_t scratch_categorical(const Node *n) {
  return (size_t)type_count(&n->in[0]->type) * sizeof(double);
}

/* ---- shuffle ---- */

static Status infer_shuffle(Error *e, Node *n) {
  infer_same(e, n);
  if (n->in[0]->type.rank < 1)
    return fail(e, ERR_VALUE, "x must have one dimension at least, got []");
  return random_check_counter(e, n);
}

/* Row i of the result is row order[i]; backwards the other way. */
static Status shuffle(const Call *c, bool backwards) {
  const Type *x = c->in_type[0];
  int64_t n = x->shape[0], *order = c->scratch;
  size_t row = (size_t)around_axis(x, 0).inner * dtype_size(x->dtype);
  RngKey key = random_key(c);
  for (int64_t i = 0; i < n; i++) order[i] = i;
  for (int64_t i = n - 1; i > 0; i--) {
    int64_t j = (int64_t)rng_below(&key, (uint64_t)i, (uint64_t)i + 1), t = order[i];
    order[i] = order[j], order[j] = t;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t from = backwards ? i : order[i], to = backwards ? order[i] : i;
    memcpy((char *)c->out[0] + (size_t)to * row, (const char *)c->in[0] + (size_t)from * row, row);
  }
  return OK;
}
static Status eval_shuffle(const Call *c) { return shuffle(c, false); }
static Status eval_shuffle_grad(const Call *c) { return shuffle(c, true); }
static size_t scratch_shuffle(const Node *n) {
  return (size_t)n->in[0]->type.shape[0] * sizeof(int64_t);
}

static void grad_shuffle(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, "random.shuffle_grad", (Value *[]){dy[0], n->in[1]}, 2, n->attr);
}
static void grad_shuffle_grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, "random.shuffle", (Value *[]){dy[0], n->in[1]}, 2, n->attr);
}

const OpDef ops_choice[] = {
    {.name = "random.categorical",
     .summary = "Classes drawn by their logits, int32.",
     .shapes = "[batch, classes] → [batch, num_samples]",
     .inputs = {"logits", "counter"},
     .attrs = {{"num_samples", ATTR_INT, NULL, NULL, "draws for each row, not negative"},
               RANDOM_SEED},
     .traits = RANDOM | NO_GRADIENT,
     .infer = infer_categorical,
     .cost = cost_of_categorical,
     .eval = eval_categorical,
     .scratch = scratch_categorical,
     .sample = "F[2,5] {num_samples = 7} | F[1,1] {num_samples = 3} | F[0,2] {num_samples = 2}"},
    {.name = "random.shuffle",
     .summary = "Rows in random order.",
     .shapes = "[n, ...]",
     .inputs = {"x", "counter"},
     .attrs = {RANDOM_SEED},
     .traits = RANDOM,
     .infer = infer_shuffle,
     .cost = cost_of_copy,
     .eval = eval_shuffle,
     .scratch = scratch_shuffle,
     .grad = grad_shuffle,
     .sample = "F[5,2] | I9[7] | F[1]"},
    {.name = "random.shuffle_grad",
     .summary = "Rows back from the order that shuffle gave them.",
     .shapes = "[n, ...]",
     .inputs = {"dy", "counter"},
     .attrs = {RANDOM_SEED},
     .traits = RANDOM | INTERNAL,
     .infer = infer_shuffle,
     .cost = cost_of_copy,
     .eval = eval_shuffle_grad,
     .scratch = scratch_shuffle,
     .grad = grad_shuffle_grad,
     .sample = "F[5,2]"},
    {0}};
