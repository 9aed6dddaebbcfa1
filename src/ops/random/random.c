/* Random numbers. An element is a function of (seed, stream, counter, its index) alone: threads and
 * recomputation give the same ones. */
#include <math.h>
#include <string.h>

#include "ops/random/random.h"

static int last_attr(const OpDef *op) { return op_attr_count(op) - 1; }

RngKey random_key(const Call *c) {
  const Attr *seed = &c->attr[last_attr(c->node->op) - 1], *stream = seed + 1;
  return (RngKey){.seed = attr_given(seed) ? (uint64_t)seed->i : 0,
                  .stream = (uint32_t)stream->i,
                  .step = *(const uint64_t *)c->in[c->in_count - 1]};
}

Status random_check_counter(Error *e, const Node *n) {
  const Type *t = &n->in[n->in_count - 1]->type;
  char text[TYPE_TEXT];
  if (t->dtype == I64 && t->rank == 0) return OK;
  return fail(e, ERR_TYPE, "the counter must be int64[], got %s", type_text(t, text));
}

/* ---- shapes from attributes ---- */

enum { SHAPE, FIRST, SECOND, DTYPE }; /* attributes of distributions with two numbers */

static Status infer_shape(Error *e, Node *n, Dtype d) {
  const Attr *a = &n->attr[SHAPE];
  Status s = random_check_counter(e, n);
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

static Status infer_normal(Error *e, Node *n) {
  if (!(n->attr[SECOND].f >= 0))
    return fail(e, ERR_VALUE, "stddev must not be negative, got %g", n->attr[SECOND].f);
  return infer_float_shape(e, n);
}

/* Bounds are numbers that the dtype has. */
static Status check_floats(Error *e, const Node *n) {
  Dtype d = n->out[0].type.dtype;
  for (int k = FIRST; k <= SECOND; k++) {
    double held, x = n->attr[k].f;
    dtype_set(d, &held, 0, x);
    bool fits = isfinite(dtype_get(d, &held, 0)) && !(d == F16 && fabs(x) > 65504);
    if (!fits)
      return fail(e, ERR_VALUE, "%s %g is no finite %s", k == FIRST ? "minval" : "maxval", x,
                  dtype_name(d));
  }
  return OK;
}

/* Bounds are whole numbers that the dtype has; maxval is excluded. */
static Status check_integers(Error *e, const Node *n) {
  Dtype d = n->out[0].type.dtype;
  double low = n->attr[FIRST].f, high = n->attr[SECOND].f;
  if (!(fabs(low) < 0x1p53 && fabs(high) < 0x1p53))
    return fail(e, ERR_VALUE, "integers are drawn between -2^53 and 2^53, not from %g to %g", low,
                high);
  if (fmod(low, 1) != 0 || fmod(high, 1) != 0)
    return fail(e, ERR_VALUE, "%s bounds are whole numbers, minval is %g, maxval %g", dtype_name(d),
                low, high);
  double bits = 8.0 * (double)dtype_size(d), min = d == U8 ? 0 : -exp2(bits - 1),
         bound = min + exp2(bits);
  if (d != I64 && (low < min || high > bound))
    return fail(e, ERR_VALUE, "%s is from %.0f to below %.0f, minval is %g, maxval %g",
                dtype_name(d), min, bound, low, high);
  return OK;
}

static Status infer_uniform(Error *e, Node *n) {
  Status s = infer_shape(e, n, (Dtype)n->attr[DTYPE].i);
  if (s != OK) return s;
  Dtype d = n->out[0].type.dtype;
  if (d == BOOL)
    return fail(e, ERR_TYPE, "dtype must be of numbers, got bool; use ipu.random.bernoulli");
  s = dtype_is_float(d) ? check_floats(e, n) : check_integers(e, n);
  if (s == OK && !(n->attr[FIRST].f <= n->attr[SECOND].f))
    return fail(e, ERR_VALUE, "minval %g is above maxval %g", n->attr[FIRST].f, n->attr[SECOND].f);
  return s;
}

static Draw draw_of(const Call *c) {
  Dtype d = c->node->out[0].type.dtype;
  return (Draw){c, random_key(c), c->out_type[0]->dtype, d == F16 ? 11 : d == BF16 ? 8 : 24};
}

Status random_draw(const Call *c, void (*part)(void *, int64_t, int64_t)) {
  Draw d = draw_of(c);
  parallel_for(c, type_count(c->out_type[0]), RANDOM_CHUNK, part, &d);
  return OK;
}

void random_each_batch(const Draw *d, int per, int64_t begin, int64_t end, RandomBatch part) {
  uint32_t words[RANDOM_BATCH];
  int64_t size = RANDOM_BATCH / per;
  for (int64_t i = begin; i < end; i += size) {
    int64_t n = min(size, end - i);
    d->call->kernels->random_words(&d->key, (uint64_t)(i * per / 4), (n * per + 3) / 4, words);
    part(d, words, i, n);
  }
}

/* ---- uniform ---- */

static void uniform_integers(const Draw *d, int64_t begin, int64_t end) {
  const Attr *a = d->call->attr;
  int64_t low = (int64_t)a[FIRST].f, span = max((int64_t)(a[SECOND].f - a[FIRST].f), 1);
  for (int64_t i = begin; i < end; i++)
    dtype_set_integer(d->dtype, d->call->out[0], i,
                      low + (int64_t)rng_below(&d->key, (uint64_t)i, (uint64_t)span));
}

/* A sum that rounds up to the bound gives the number below it. */
static void uniform_f64(const Draw *d, const uint32_t *w, int64_t first, int64_t n) {
  const Attr *a = d->call->attr;
  double low = a[FIRST].f, high = a[SECOND].f, last = nextafter(high, low);
  double *y = (double *)d->call->out[0] + first, span = high - low;
  for (int64_t i = 0; i < n; i++) {
    double u = random_uniform_53(w, i);
    y[i] = fmin(isfinite(span) ? low + u * span : low * (1 - u) + high * u, last);
  }
}

static float from_16_bits(Dtype d, uint16_t bits) {
  return d == F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}
static uint16_t to_16_bits(Dtype d, float x) { return d == F16 ? f32_to_f16(x) : f32_to_bf16(x); }

/* The number of 16 bits below the one that stands for high, if low is another. They are in the
 * order of their bits, but for the sign. */
static float last_of_16_bits(Dtype d, float low, float high) {
  uint16_t bits = to_16_bits(d, high);
  if (from_16_bits(d, to_16_bits(d, low)) >= from_16_bits(d, bits)) return from_16_bits(d, bits);
  if (bits & 0x7fff) return from_16_bits(d, (uint16_t)(bits & 0x8000 ? bits + 1 : bits - 1));
  return from_16_bits(d, 0x8001);
}

/* Computed in float32, also for results that are then rounded to 16 bits. */
static void uniform_f32(const Draw *d, const uint32_t *w, int64_t first, int64_t n) {
  const Attr *a = d->call->attr;
  Dtype wanted = d->call->node->out[0].type.dtype;
  float low = (float)a[FIRST].f, high = (float)a[SECOND].f,
        span = (float)(a[SECOND].f - a[FIRST].f);
  float unit = ldexpf(1, -d->bits),
        last = wanted == F32 ? nextafterf(high, low) : last_of_16_bits(wanted, low, high);
  float *y = (float *)d->call->out[0] + first;
  for (int64_t i = 0; i < n; i++) {
    float u = (float)(int32_t)(w[i] >> (32 - d->bits)) * unit;
    float v = isfinite(span) ? low + u * span : low * (1 - u) + high * u;
    y[i] = v > last ? last : v;
  }
}

static void uniform_part(void *context, int64_t begin, int64_t end) {
  const Draw *d = context;
  if (dtype_is_integer(d->dtype)) uniform_integers(d, begin, end);
  else if (d->dtype == F64) random_each_batch(d, 2, begin, end, uniform_f64);
  else random_each_batch(d, 1, begin, end, uniform_f32);
}
static Status body_uniform(const Call *c) { return random_draw(c, uniform_part); }
static Status eval_uniform(const Call *c) { return eval_wide(c, body_uniform); }

/* ---- normal: Box and Muller's pairs ---- */

/* n numbers (even, RANDOM_BATCH at most) from n / 2 uniform ones in (0, 1] and n / 2 angles in
 * [0, 2 pi). */
#define NORMAL(id, d, T)                                                                         \
  static void normal_##id(const Kernels *k, T *u, T *angle, T *z, int64_t n, T mean, T stddev) { \
    T sine[RANDOM_BATCH / 2];                                                                    \
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
  float u[RANDOM_BATCH / 2] = {0}, angle[RANDOM_BATCH / 2] = {0}, z[RANDOM_BATCH];
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
  double u[RANDOM_BATCH / 4] = {0}, angle[RANDOM_BATCH / 4] = {0}, z[RANDOM_BATCH / 2];
  const Attr *a = d->call->attr;
  int64_t pairs = (n + 1) / 2;
  for (int64_t i = 0; i < pairs; i++)
    u[i] = random_uniform_53(w, 2 * i) + 0x1p-53,
    angle[i] = random_uniform_53(w, 2 * i + 1) * TWO_PI;
  normal_f64(d->call->kernels, u, angle, z, 2 * pairs, a[FIRST].f, a[SECOND].f);
  memcpy((double *)d->call->out[0] + first, z, (size_t)n * sizeof *z);
}

static void normal_part(void *context, int64_t begin, int64_t end) {
  const Draw *d = context;
  if (d->dtype == F64) random_each_batch(d, 2, begin, end, normal_batch_f64);
  else random_each_batch(d, 1, begin, end, normal_batch_f32);
}
static Status body_normal(const Call *c) { return random_draw(c, normal_part); }
static Status eval_normal(const Call *c) { return eval_wide(c, body_normal); }

/* ---- truncated normal: the inverse of the distribution function ---- */

/* Rational approximation by P. J. Acklam (relative error 1.2e-9), then one step of Halley's
 * method. */
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
  double error = 0.5 * erfc(-x * 0.7071067811865476) - p,
         slope = error * 2.5066282746310002 * exp(x * x / 2);
  return x - slope / (1 + x * slope / 2);
}

/* Within two standard deviations of the mean. */
static void truncated_batch(const Draw *d, const uint32_t *w, int64_t first, int64_t n) {
  const double below = 0.022750131948179212; /* the normal distribution below -2 */
  const Attr *a = d->call->attr;
  for (int64_t i = 0; i < n; i++) {
    double z = normal_quantile(below + random_uniform_53(w, i) * (1 - 2 * below));
    dtype_set(d->dtype, d->call->out[0], first + i,
              a[FIRST].f + a[SECOND].f * fmin(fmax(z, -2), 2));
  }
}
static void truncated_part(void *context, int64_t begin, int64_t end) {
  random_each_batch(context, 2, begin, end, truncated_batch);
}
static Status body_truncated(const Call *c) { return random_draw(c, truncated_part); }
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
  random_each_batch(context, 1, begin, end, bernoulli_batch);
}
static Status eval_bernoulli(const Call *c) { return random_draw(c, bernoulli_part); }

/* ---- rows ---- */

#define SHAPE_ATTR {"shape", ATTR_INTS, NULL, NULL, "of the result"}
#define DTYPE_ATTR {"dtype", ATTR_DTYPE, "'float32'", NULL, "of the result"}
#define NORMAL_ATTRS                                                               \
  .attrs = {SHAPE_ATTR,                                                            \
            {"mean", ATTR_FLOAT, "0", NULL, "of the distribution"},                \
            {"stddev", ATTR_FLOAT, "1", NULL, "standard deviation, not negative"}, \
            DTYPE_ATTR,                                                            \
            RANDOM_SEED}
const OpDef ops_random[] = {
    {.name = "random.normal",
     .summary = "Normally distributed numbers.",
     .shapes = "→ shape",
     .inputs = {"counter"},
     NORMAL_ATTRS,
     .traits = RANDOM | NO_GRADIENT,
     .infer = infer_normal,
     .cost = cost_of_normal,
     .eval = eval_normal,
     .scratch = scratch_wide,
     .sample =
         "{shape = {2, 3}, mean = 1, stddev = 2} | {shape = 20000} | {shape = {}, dtype = 'float64'} | "
         "{shape = 3001, dtype = 'float16'}"},
    {.name = "random.uniform",
     .summary = "Uniformly distributed numbers, maxval excluded.",
     .shapes = "→ shape",
     .inputs = {"counter"},
     .attrs = {SHAPE_ATTR,
               {"minval", ATTR_FLOAT, "0", NULL, "least"},
               {"maxval", ATTR_FLOAT, "1", NULL, "bound, excluded"},
               DTYPE_ATTR,
               RANDOM_SEED},
     .traits = RANDOM | NO_GRADIENT,
     .infer = infer_uniform,
     .cost = cost_of_uniform,
     .eval = eval_uniform,
     .scratch = scratch_wide,
     .sample =
         "{shape = {2, 3}, minval = -1} | {shape = 20001} | {shape = 5, dtype = 'float64'} | {shape = "
         "50, maxval = 10, dtype = 'int32'}"},
    {.name = "random.truncated_normal",
     .summary = "Normally distributed numbers within two standard deviations of the mean.",
     .shapes = "→ shape",
     .inputs = {"counter"},
     NORMAL_ATTRS,
     .traits = RANDOM | NO_GRADIENT,
     .infer = infer_normal,
     .cost = cost_of_truncated_normal,
     .eval = eval_truncated,
     .scratch = scratch_wide,
     .sample = "{shape = {2, 3}} | {shape = 20000, seed = 7}"},
    {.name = "random.bernoulli",
     .summary = "1 with probability p, else 0.",
     .shapes = "→ shape",
     .inputs = {"counter"},
     .attrs = {SHAPE_ATTR,
               {"p", ATTR_FLOAT, "0.5", NULL, "probability of 1, in [0, 1]"},
               DTYPE_ATTR,
               RANDOM_SEED},
     .traits = RANDOM | NO_GRADIENT,
     .infer = infer_bernoulli,
     .cost = cost_of_bernoulli,
     .eval = eval_bernoulli,
     .sample =
         "{shape = {2, 3}} | {shape = 20000, p = 0.1, dtype = 'bool'} | {shape = 9, dtype = 'float16'}"},
    {0}};
