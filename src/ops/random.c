/* Random numbers. An element is a function of (seed, stream, counter, its index) alone: threads and
 * recomputation give the same ones. The last input is the counter of executions; the last two attributes are
 * seed and stream. */
#include <math.h>
#include <string.h>

#include "ops/support.h"

/* Elements made at a time; chunks are whole batches. */
enum { BATCH = 1024, CHUNK = 8 * BATCH };

static int last_attr(const OpDef *op) { return op_attr_count(op) - 1; }

static RngKey key_of(const Call *c) {
  const Attr *seed = &c->attr[last_attr(c->node->op) - 1], *stream = seed + 1;
  return (RngKey){.seed = attr_given(seed) ? (uint64_t)seed->i : 0,
                  .stream = (uint32_t)stream->i,
                  .step = *(const uint64_t *)c->in[c->in_count - 1]};
}

static Status check_counter(Error *e, const Node *n) {
  const Type *t = &n->in[n->in_count - 1]->type;
  char text[TYPE_TEXT];
  if (t->dtype == I64 && t->rank == 0) return OK;
  return fail(e, ERR_TYPE, "the counter must be int64[], got %s", type_text(t, text));
}

/* 53 bits of words 2 i and 2 i + 1. */
static double uniform_53(const uint32_t *w, int64_t i) {
  uint64_t bits = (uint64_t)w[2 * i] << 32 | w[2 * i + 1];
  return (double)(bits >> 11) * 0x1p-53;
}

/* ---- shapes from attributes ---- */

enum { SHAPE, FIRST, SECOND, DTYPE }; /* attributes of distributions with two numbers */

static Status infer_shape(Error *e, Node *n, Dtype d) {
  const Attr *a = &n->attr[SHAPE];
  Status s = check_counter(e, n);
  if (s != OK) return s;
  if (a->ints.n > MAX_RANK)
    return fail(e, ERR_VALUE, "a shape has at most %d dimensions, got %d", MAX_RANK, a->ints.n);
  n->out[0].type = type_make(d, a->ints.n, a->ints.v);
  return type_check(e, "shape", &n->out[0].type);
}

static Status infer_float_shape(Error *e, Node *n) {
  Status s = infer_shape(e, n, (Dtype)n->attr[DTYPE].i);
  return s == OK ? want_float(e, &n->out[0].type) : s;
}

static Status infer_uniform(Error *e, Node *n) {
  Status s = infer_shape(e, n, (Dtype)n->attr[DTYPE].i);
  if (s == OK && n->out[0].type.dtype == BOOL)
    return fail(e, ERR_TYPE, "wants numbers; use ipu.random.bernoulli for bool");
  if (s == OK && dtype_is_integer(n->out[0].type.dtype) &&
      !(fabs(n->attr[FIRST].f) < 0x1p53 && fabs(n->attr[SECOND].f) < 0x1p53))
    return fail(e, ERR_VALUE, "integers are drawn between -2^53 and 2^53, not from %g to %g",
                n->attr[FIRST].f, n->attr[SECOND].f);
  if (s == OK && !(n->attr[FIRST].f <= n->attr[SECOND].f))
    return fail(e, ERR_VALUE, "minval %g is above maxval %g", n->attr[FIRST].f, n->attr[SECOND].f);
  return s;
}

typedef struct Draw {
  const Call *call;
  RngKey key;
  Dtype dtype; /* of the buffer */
  int bits;    /* of a uniform number */
} Draw;

static Draw draw_of(const Call *c) {
  Dtype d = c->node->out[0].type.dtype;
  return (Draw){c, key_of(c), c->out_type[0]->dtype, d == F16 ? 11 : d == BF16 ? 8 : 24};
}

static Status draw(const Call *c, void (*part)(void *, int64_t, int64_t)) {
  Draw d = draw_of(c);
  parallel_for(c, type_count(c->out_type[0]), CHUNK, part, &d);
  return OK;
}

/* Call part for each batch of [begin, end), whose words are those of elements first, first + 1 … (per: words
 * of an element). Chunks begin at multiples of BATCH. */
typedef void (*Batch)(const Draw *d, const uint32_t *words, int64_t first, int64_t n);
static void each_batch(const Draw *d, int per, int64_t begin, int64_t end, Batch part) {
  uint32_t words[BATCH];
  int64_t size = BATCH / per;
  for (int64_t i = begin; i < end; i += size) {
    int64_t n = least(size, end - i);
    d->call->kernels->random_words(&d->key, (uint64_t)(i * per / 4), (n * per + 3) / 4, words);
    part(d, words, i, n);
  }
}

/* ---- uniform ---- */

static void uniform_integers(const Draw *d, int64_t begin, int64_t end) {
  const Attr *a = d->call->attr;
  int64_t low = (int64_t)a[FIRST].f, span = most((int64_t)(a[SECOND].f - a[FIRST].f), 1);
  for (int64_t i = begin; i < end; i++)
    dtype_set_integer(d->dtype, d->call->out[0], i,
                      low + (int64_t)rng_below(&d->key, (uint64_t)i, (uint64_t)span));
}

static void uniform_f64(const Draw *d, const uint32_t *w, int64_t first, int64_t n) {
  const Attr *a = d->call->attr;
  double *y = (double *)d->call->out[0] + first;
  for (int64_t i = 0; i < n; i++) y[i] = a[FIRST].f + uniform_53(w, i) * (a[SECOND].f - a[FIRST].f);
}

/* A sum that rounds up to the bound gives the number below. */
static void uniform_f32(const Draw *d, const uint32_t *w, int64_t first, int64_t n) {
  const Attr *a = d->call->attr;
  float low = (float)a[FIRST].f, high = (float)a[SECOND].f, span = (float)(a[SECOND].f - a[FIRST].f);
  float unit = ldexpf(1, -d->bits), last = span > 0 ? nextafterf(high, low) : high;
  float *y = (float *)d->call->out[0] + first;
  for (int64_t i = 0; i < n; i++) {
    float v = low + (float)(int32_t)(w[i] >> (32 - d->bits)) * unit * span;
    y[i] = v >= high ? last : v;
  }
}

static void uniform_part(void *context, int64_t begin, int64_t end) {
  const Draw *d = context;
  if (dtype_is_integer(d->dtype)) uniform_integers(d, begin, end);
  else if (d->dtype == F64) each_batch(d, 2, begin, end, uniform_f64);
  else each_batch(d, 1, begin, end, uniform_f32);
}
static Status body_uniform(const Call *c) { return draw(c, uniform_part); }
static Status eval_uniform(const Call *c) { return eval_wide(c, body_uniform); }

/* ---- normal: Box and Muller's pairs ---- */

/* n numbers (even, BATCH at most) from n / 2 uniform ones in (0, 1] and n / 2 angles in [0, 2 pi). */
#define NORMAL(id, d, T)                                                                         \
  static void normal_##id(const Kernels *k, T *u, T *angle, T *z, int64_t n, T mean, T stddev) { \
    T sine[BATCH / 2];                                                                           \
    const void *in_u[1] = {u}, *in_angle[1] = {angle};                                           \
    k->strip[EW_LOG][d](in_u, 0, u, n / 2, NULL);                                                \
    for (int64_t i = 0; i < n / 2; i++) u[i] *= -2;                                              \
    k->strip[EW_SQRT][d](in_u, 0, u, n / 2, NULL);                                               \
    k->strip[EW_SIN][d](in_angle, 0, sine, n / 2, NULL);                                         \
    k->strip[EW_COS][d](in_angle, 0, angle, n / 2, NULL);                                        \
    for (int64_t i = 0; i < n / 2; i++) {                                                        \
      z[2 * i] = mean + stddev * (u[i] * angle[i]);                                              \
      z[2 * i + 1] = mean + stddev * (u[i] * sine[i]);                                           \
    }                                                                                            \
  }
NORMAL(f32, F32, float)
NORMAL(f64, F64, double)

static const double TWO_PI = 6.283185307179586;

static void normal_batch_f32(const Draw *d, const uint32_t *w, int64_t first, int64_t n) {
  float u[BATCH / 2] = {0}, angle[BATCH / 2] = {0}, z[BATCH];
  const Attr *a = d->call->attr;
  int64_t pairs = (n + 1) / 2;
  for (int64_t i = 0; i < pairs; i++) {
    u[i] = (float)(((double)w[2 * i] + 1) * 0x1p-32);
    angle[i] = (float)((double)w[2 * i + 1] * (0x1p-32 * TWO_PI));
  }
  normal_f32(d->call->kernels, u, angle, z, 2 * pairs, (float)a[FIRST].f, (float)a[SECOND].f);
  memcpy((float *)d->call->out[0] + first, z, (size_t)n * sizeof *z);
}

static void normal_batch_f64(const Draw *d, const uint32_t *w, int64_t first, int64_t n) {
  double u[BATCH / 4] = {0}, angle[BATCH / 4] = {0}, z[BATCH / 2];
  const Attr *a = d->call->attr;
  int64_t pairs = (n + 1) / 2;
  for (int64_t i = 0; i < pairs; i++)
    u[i] = uniform_53(w, 2 * i) + 0x1p-53, angle[i] = uniform_53(w, 2 * i + 1) * TWO_PI;
  normal_f64(d->call->kernels, u, angle, z, 2 * pairs, a[FIRST].f, a[SECOND].f);
  memcpy((double *)d->call->out[0] + first, z, (size_t)n * sizeof *z);
}

static void normal_part(void *context, int64_t begin, int64_t end) {
  const Draw *d = context;
  if (d->dtype == F64) each_batch(d, 2, begin, end, normal_batch_f64);
  else each_batch(d, 1, begin, end, normal_batch_f32);
}
static Status body_normal(const Call *c) { return draw(c, normal_part); }
static Status eval_normal(const Call *c) { return eval_wide(c, body_normal); }

/* ---- truncated normal: the inverse of the distribution function ---- */

/* Rational approximation by P. J. Acklam (relative error 1.2e-9), then one step of Halley's method. */
static double normal_quantile(double p) {
  static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                             1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                             6.680131188771972e+01, -1.328068155288572e+01};
  static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                             -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                             3.754408661907416e+00};
  double x, low = 0.02425;
  if (p < low || p > 1 - low) {
    double q = sqrt(-2 * log(p < low ? p : 1 - p));
    x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
        ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    if (p > 1 - low) x = -x;
  } else {
    double q = p - 0.5, r = q * q;
    x = (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
        (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
  }
  double error = 0.5 * erfc(-x * 0.7071067811865476) - p, slope = error * 2.5066282746310002 * exp(x * x / 2);
  return x - slope / (1 + x * slope / 2);
}

/* Within two standard deviations of the mean. */
static void truncated_batch(const Draw *d, const uint32_t *w, int64_t first, int64_t n) {
  const double below = 0.022750131948179212; /* the normal distribution below -2 */
  const Attr *a = d->call->attr;
  for (int64_t i = 0; i < n; i++) {
    double z = normal_quantile(below + uniform_53(w, i) * (1 - 2 * below));
    dtype_set(d->dtype, d->call->out[0], first + i, a[FIRST].f + a[SECOND].f * fmin(fmax(z, -2), 2));
  }
}
static void truncated_part(void *context, int64_t begin, int64_t end) {
  each_batch(context, 2, begin, end, truncated_batch);
}
static Status body_truncated(const Call *c) { return draw(c, truncated_part); }
static Status eval_truncated(const Call *c) { return eval_wide(c, body_truncated); }


/* ---- bernoulli ---- */

enum { PROBABILITY = 1, BERNOULLI_DTYPE };

static Status infer_bernoulli(Error *e, Node *n) {
  double p = n->attr[PROBABILITY].f;
  if (!(p >= 0 && p <= 1)) return fail(e, ERR_VALUE, "p must be in 0 … 1, got %g", p);
  return infer_shape(e, n, (Dtype)n->attr[BERNOULLI_DTYPE].i);
}

static void bernoulli_batch(const Draw *d, const uint32_t *w, int64_t first, int64_t n) {
  const Call *c = d->call;
  int64_t number[2] = {0, 0};
  size_t size = dtype_size(d->dtype);
  dtype_set(d->dtype, &number[1], 0, 1);
  for (int64_t i = 0; i < n; i++) {
    bool hit = (double)w[i] * 0x1p-32 < c->attr[PROBABILITY].f;
    memcpy((char *)c->out[0] + (size_t)(first + i) * size, &number[hit], size);
  }
}
static void bernoulli_part(void *context, int64_t begin, int64_t end) {
  each_batch(context, 1, begin, end, bernoulli_batch);
}
static Status eval_bernoulli(const Call *c) { return draw(c, bernoulli_part); }

/* ---- categorical ---- */

static Status infer_categorical(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  char text[TYPE_TEXT];
  Status s = check_counter(e, n);
  if (s == OK) s = want_float(e, x);
  if (s != OK) return s;
  if (x->rank != 2 || x->shape[1] < 1 || x->shape[1] > INT32_MAX)
    return fail(e, ERR_INVALID_ARGUMENT, "logits must be [batch, classes], got %s", shape_text(x, text));
  n->out[0].type = (Type){.dtype = I32, .rank = 2, .shape = {x->shape[0], n->attr[0].i}};
  return n->attr[0].i >= 0
             ? OK
             : fail(e, ERR_VALUE, "num_samples must not be negative, got %lld", (long long)n->attr[0].i);
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

/* The first class whose running sum is above v; the last one with any weight when rounding leaves none. */
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
  RngKey key = key_of(c);
  double *sums = c->scratch;
  weigh_rows(c, sums);
  for (int64_t i = 0; i < type_count(c->out_type[0]); i++) {
    const double *row = sums + i / samples * classes;
    uint32_t w[4];
    rng_block(&key, (uint64_t)i, w);
    ((int32_t *)c->out[0])[i] = (int32_t)find_class(row, classes, uniform_53(w, 0) * row[classes - 1]);
  }
  return OK;
}
static size_t scratch_categorical(const Node *n) {
  return (size_t)type_count(&n->in[0]->type) * sizeof(double);
}

/* ---- shuffle ---- */

static Status infer_shuffle(Error *e, Node *n) {
  infer_same(e, n);
  if (n->in[0]->type.rank < 1) return fail(e, ERR_VALUE, "x must have one dimension at least, got []");
  return check_counter(e, n);
}

/* Row i of the result is row order[i]; backwards the other way. */
static Status shuffle(const Call *c, bool backwards) {
  const Type *x = c->in_type[0];
  int64_t n = x->shape[0], *order = c->scratch;
  size_t row = (size_t)around_axis(x, 0).inner * dtype_size(x->dtype);
  RngKey key = key_of(c);
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
static size_t scratch_shuffle(const Node *n) { return (size_t)n->in[0]->type.shape[0] * sizeof(int64_t); }

static void grad_shuffle(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, "random.shuffle_grad", (Value *[]){dy[0], n->in[1]}, 2, n->attr);
}
static void grad_shuffle_grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, "random.shuffle", (Value *[]){dy[0], n->in[1]}, 2, n->attr);
}

/* ---- dropout ---- */

enum { RATE, NOISE_SHAPE };

static Status infer_dropout(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  const Attr *noise = &n->attr[NOISE_SHAPE];
  double rate = n->attr[RATE].f;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Status s = infer_float(e, n);
  if (s == OK) s = check_counter(e, n);
  if (s != OK) return s;
  if (!(rate >= 0 && rate < 1))
    return fail(e, ERR_VALUE, "rate must be at least 0 and below 1, got %g", rate);
  if (!attr_given(noise)) return OK;
  if (noise->ints.n > x->rank)
    return fail(e, ERR_VALUE, "noise_shape has %d extents, but x is %s", noise->ints.n, shape_text(x, b));
  Type mask = type_make(BOOL, noise->ints.n, noise->ints.v), both;
  for (int i = 0; i < mask.rank; i++)
    if (mask.shape[i] == -1 && mask.rank == x->rank) mask.shape[i] = x->shape[i];
  s = type_check(e, "noise_shape", &mask);
  if (s != OK) return s;
  if (!type_broadcast(x, &mask, &both) || !shape_equal(&both, x))
    return fail(e, ERR_INVALID_ARGUMENT, "noise_shape %s doesn't broadcast to %s", shape_text(&mask, a),
                shape_text(x, b));
  return set_ints(e, n, NOISE_SHAPE, mask.shape, mask.rank);
}

/* Kept where the word isn't below this. */
static uint32_t limit_of(const Call *c) { return (uint32_t)(c->attr[RATE].f * 0x1p32); }

/* A mask of bits instead of a choice, which would be a guess half of the time. */
#define KEEP(id, T, B)                                                                \
  static void keep_##id(const Draw *d, const uint32_t *w, int64_t first, int64_t n) { \
    uint32_t limit = limit_of(d->call);                                               \
    T scale = (T)(1 / (1 - d->call->attr[RATE].f));                                   \
    const T *x = (const T *)d->call->in[0] + first;                                   \
    T *y = (T *)d->call->out[0] + first;                                              \
    for (int64_t i = 0; i < n; i++) {                                                 \
      T kept = x[i] * scale;                                                          \
      B bits;                                                                         \
      memcpy(&bits, &kept, sizeof bits);                                              \
      bits &= (B)0 - (B)(w[i] >= limit);                                              \
      memcpy(&y[i], &bits, sizeof bits);                                              \
    }                                                                                 \
  }
KEEP(f32, float, uint32_t)
KEEP(f64, double, uint64_t)

static void dropout_part(void *context, int64_t begin, int64_t end) {
  const Draw *d = context;
  each_batch(d, 1, begin, end, d->dtype == F64 ? keep_f64 : keep_f32);
}

/* A mask that is the same along some axes. */
static void drop_alike(const Call *c, const Type *mask) {
  const Type *x = c->in_type[0];
  Type one = {.dtype = x->dtype};
  RngKey key = key_of(c);
  uint8_t *kept = c->scratch;
  double zero = 0, scale = 0;
  for (int64_t i = 0; i < type_count(mask); i++) kept[i] = rng_bits(&key, (uint64_t)i) >= limit_of(c);
  dtype_set(x->dtype, &scale, 0, 1 / (1 - c->attr[RATE].f));
  run_kernel(c, EW_WHERE, 3, (const Type *[]){mask, x, &one}, (const void *[]){kept, c->in[0], &zero}, x,
             c->out[0], NULL);
  run_kernel(c, EW_MUL, 2, (const Type *[]){x, &one}, (const void *[]){c->out[0], &scale}, x, c->out[0],
             NULL);
}

static Status body_dropout(const Call *c) {
  const Attr *noise = &c->attr[NOISE_SHAPE];
  if (!attr_given(noise)) return draw(c, dropout_part);
  Type mask = type_make(BOOL, noise->ints.n, noise->ints.v);
  drop_alike(c, &mask);
  return OK;
}
static Status eval_dropout(const Call *c) { return eval_wide(c, body_dropout); }
static size_t scratch_dropout(const Node *n) {
  const Attr *noise = &n->attr[NOISE_SHAPE];
  Type mask = type_make(BOOL, noise->ints.n, noise->ints.v);
  return wide_scratch(n, attr_given(noise) ? (size_t)type_count(&mask) : 0);
}

/* The same counter draws the same mask. */
static void grad_dropout(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, "nn.dropout", (Value *[]){dy[0], n->in[1]}, 2, n->attr);
}

/* ---- rows ---- */

#define SEED                                                            \
  {"seed", ATTR_INT, "nil", NULL, "of this op"}, {                      \
    "stream", ATTR_INT, "0", NULL, "which random op of a program it is" \
  }
#define SHAPE_ATTR \
  { "shape", ATTR_INTS, NULL, NULL, "of the result" }
#define DTYPE_ATTR \
  { "dtype", ATTR_DTYPE, "'float32'", NULL, "of the result" }
#define NORMAL_ATTRS                                                 \
  .attrs = {SHAPE_ATTR,                                              \
            {"mean", ATTR_FLOAT, "0", NULL, "of the distribution"},  \
            {"stddev", ATTR_FLOAT, "1", NULL, "standard deviation"}, \
            DTYPE_ATTR,                                              \
            SEED}
const OpDef ops_random[] = {
    {.name = "random.normal",
     .summary = "Normally distributed numbers.",
     .shapes = "→ shape",
     .inputs = {"counter"},
     NORMAL_ATTRS,
     .traits = RANDOM | NO_GRADIENT,
     .infer = infer_float_shape,
     .cost = cost_of_random,
     .eval = eval_normal,
     .scratch = scratch_wide,
     .sample = "{shape = {2, 3}, mean = 1, stddev = 2} | {shape = 20000} | {shape = {}, dtype = 'float64'} | "
               "{shape = 3001, dtype = 'float16'}"},
    {.name = "random.uniform",
     .summary = "Uniformly distributed numbers, maxval excluded.",
     .shapes = "→ shape",
     .inputs = {"counter"},
     .attrs = {SHAPE_ATTR,
               {"minval", ATTR_FLOAT, "0", NULL, "least"},
               {"maxval", ATTR_FLOAT, "1", NULL, "bound, excluded"},
               DTYPE_ATTR,
               SEED},
     .traits = RANDOM | NO_GRADIENT,
     .infer = infer_uniform,
     .cost = cost_of_random,
     .eval = eval_uniform,
     .scratch = scratch_wide,
     .sample = "{shape = {2, 3}, minval = -1} | {shape = 20001} | {shape = 5, dtype = 'float64'} | {shape = "
               "50, maxval = 10, dtype = 'int32'}"},
    {.name = "random.truncated_normal",
     .summary = "Normally distributed numbers within two standard deviations of the mean.",
     .shapes = "→ shape",
     .inputs = {"counter"},
     NORMAL_ATTRS,
     .traits = RANDOM | NO_GRADIENT,
     .infer = infer_float_shape,
     .cost = cost_of_random,
     .eval = eval_truncated,
     .scratch = scratch_wide,
     .sample = "{shape = {2, 3}} | {shape = 20000, seed = 7}"},
    {.name = "random.bernoulli",
     .summary = "1 with probability p, else 0.",
     .shapes = "→ shape",
     .inputs = {"counter"},
     .attrs = {SHAPE_ATTR, {"p", ATTR_FLOAT, "0.5", NULL, "probability of 1"}, DTYPE_ATTR, SEED},
     .traits = RANDOM | NO_GRADIENT,
     .infer = infer_bernoulli,
     .cost = cost_of_random,
     .eval = eval_bernoulli,
     .sample =
         "{shape = {2, 3}} | {shape = 20000, p = 0.1, dtype = 'bool'} | {shape = 9, dtype = 'float16'}"},
    {.name = "random.categorical",
     .summary = "Classes drawn by their logits, int32.",
     .shapes = "[batch, classes] → [batch, num_samples]",
     .inputs = {"logits", "counter"},
     .attrs = {{"num_samples", ATTR_INT, NULL, NULL, "draws for each row"}, SEED},
     .traits = RANDOM | NO_GRADIENT,
     .infer = infer_categorical,
     .cost = cost_of_random,
     .eval = eval_categorical,
     .scratch = scratch_categorical,
     .sample = "F[2,5] {num_samples = 7} | F[1,1] {num_samples = 3} | F[0,2] {num_samples = 2}"},
    {.name = "random.shuffle",
     .summary = "Rows in random order.",
     .shapes = "[n, ...]",
     .inputs = {"x", "counter"},
     .attrs = {SEED},
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
     .attrs = {SEED},
     .traits = RANDOM | INTERNAL,
     .infer = infer_shuffle,
     .cost = cost_of_copy,
     .eval = eval_shuffle_grad,
     .scratch = scratch_shuffle,
     .grad = grad_shuffle_grad,
     .sample = "F[5,2]"},
    {.name = "nn.dropout",
     .summary = "Each element is 0 with probability rate, else x / (1 - rate).",
     .shapes = "any",
     .inputs = {"x", "counter"},
     .attrs = {{"rate", ATTR_FLOAT, "0.5", NULL, "probability of 0"},
               {"noise_shape", ATTR_INTS, "nil", NULL, "shape of the mask, broadcast to x; -1: x's extent"},
               SEED},
     .traits = RANDOM | IN_PLACE(0),
     .infer = infer_dropout,
     .cost = cost_of_random,
     .eval = eval_dropout,
     .scratch = scratch_dropout,
     .grad = grad_dropout,
     .sample = "F[4,5] | F[3,4,2] {rate = 0.3, noise_shape = {3, 1, 2}} | F[] | F[20000] {rate = 0.1, seed = "
               "3} | F[3,4] {noise_shape = {-1, 1}}"},
    {0}};
