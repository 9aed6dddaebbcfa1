/* The heavy neural-network rows against plain loops, at random shapes, in float32 and float64 on
 * every instruction set. The sweep over the registry asks the rest of the questions; here
 * extents are large enough for whole tiles and their remainders. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "instruction_sets.h"
#include "ops/ops.h"

typedef struct Check {
  int passed, failed;
  RngKey key;
  uint64_t drawn;
} Check;

static int64_t draw(Check *k, int64_t min, int64_t max) {
  return min + (int64_t)rng_below(&k->key, k->drawn++, (uint64_t)(max - min + 1));
}

/* An operand: what the row gets and the same as doubles. */
typedef struct Array {
  Type type;
  void *data;
  double *value;
} Array;

static Array random_array(Check *k, Dtype d, int rank, const int64_t *shape) {
  Array a = {.type = type_make(d, rank, shape)};
  int64_t count = type_count(&a.type);
  a.data = aligned_alloc(64, (type_bytes(&a.type) + 127) & ~(size_t)63);
  a.value = calloc((size_t)count + 1, sizeof(double));
  for (int64_t i = 0; i < count; i++) {
    dtype_set(d, a.data, i, d == BOOL ? (double)draw(k, 0, 1) : (double)draw(k, -64, 64) / 64);
    a.value[i] = dtype_get(d, a.data, i);
  }
  return a;
}
static void drop(Array *a, int count) {
  for (int i = 0; i < count; i++) free(a[i].data), free(a[i].value);
}

/* Run a row on one table of kernels; outputs are the caller's to free. */
static Status run(Check *k, const char *isa, const char *name, Array *in, int count,
                  const Attr *attrs, void **out, int *out_count) {
  Graph *g = graph_new();
  Value *values[MAX_INPUTS];
  for (int i = 0; i < count; i++) values[i] = graph_input(g, &in[i].type, "x");
  Node *n = graph_node(g, op_find(name), values, count, attrs);
  Status s = graph_error(g);
  *out_count = 0;
  if (n) {
    const void *data[MAX_INPUTS];
    const Type *in_type[MAX_INPUTS], *out_type[MAX_OUTPUTS];
    Error error = {0};
    for (int i = 0; i < count; i++) data[i] = in[i].data, in_type[i] = &in[i].type;
    for (int i = 0; i < n->out_count; i++) {
      out_type[i] = &n->out[i].type;
      out[i] = aligned_alloc(64, (type_bytes(out_type[i]) + 127) & ~(size_t)63);
    }
    *out_count = n->out_count;
    size_t room = n->op->scratch ? n->op->scratch(n) : 0;
    void *scratch = aligned_alloc(64, (room + 127) & ~(size_t)63);
    Pool *pool = pool_new((int)draw(k, 1, 3));
    Call c = {.in = data,
              .out = out,
              .in_type = in_type,
              .out_type = out_type,
              .node = n,
              .attr = n->attr,
              .in_count = count,
              .out_count = n->out_count,
              .kernels = kernels_find(isa),
              .pool = pool,
              .scratch = scratch,
              .error = &error};
    s = op_eval(n->op, &c);
    pool_free(pool);
    free(scratch);
  } else {
    printf("%s: %s\n", name, g->error.message);
  }
  graph_free(g);
  return s;
}

/* Is the result what the loops gave? scale: how large the terms of a sum are. */
static void compare(Check *k, const char *isa, const char *what, Dtype d, const void *got,
                    const double *want, int64_t count, double scale) {
  double worst = 0, tolerance = (d == F64 ? 1e-12 : 2e-6) * (1 + scale);
  for (int64_t i = 0; i < count; i++) {
    double error = fabs(dtype_get(d, got, i) - want[i]);
    if (!(error <= worst)) worst = error;
  }
  if (worst <= tolerance) {
    k->passed++;
    return;
  }
  k->failed++;
  printf("FAIL %s %s %s: off by %g, %g allowed\n", what, isa, dtype_name(d), worst, tolerance);
}

static void finish(void **out, int count) {
  for (int i = 0; i < count; i++) free(out[i]);
}

/* ---- convolution ---- */

typedef struct Conv {
  int64_t n, h, w, c, kh, kw, d, groups, sy, sx, dy, dx, py, px, oh, ow;
} Conv;

/* Visit each product: image, kernel and result positions. */
static void conv_loops(const Conv *v, const double *x, const double *kernel, const double *y,
                       double *to_x, double *to_kernel, double *to_y) {
  int64_t in = v->c / v->groups, out = v->d / v->groups;
  for (int64_t n = 0; n < v->n; n++)
    for (int64_t i = 0; i < v->oh; i++)
      for (int64_t j = 0; j < v->ow; j++)
        for (int64_t a = 0; a < v->kh; a++)
          for (int64_t b = 0; b < v->kw; b++) {
            int64_t r = i * v->sy + a * v->dy - v->py, s = j * v->sx + b * v->dx - v->px;
            if (r < 0 || r >= v->h || s < 0 || s >= v->w) continue;
            for (int64_t c = 0; c < in; c++)
              for (int64_t o = 0; o < v->d; o++) {
                int64_t at_x = ((n * v->h + r) * v->w + s) * v->c + o / out * in + c;
                int64_t at_k = ((a * v->kw + b) * in + c) * v->d + o,
                        at_y = ((n * v->oh + i) * v->ow + j) * v->d + o;
                if (to_y) to_y[at_y] += x[at_x] * kernel[at_k];
                if (to_x) to_x[at_x] += y[at_y] * kernel[at_k];
                if (to_kernel) to_kernel[at_k] += x[at_x] * y[at_y];
              }
          }
}

static Conv random_conv(Check *k) {
  Conv v = {.n = draw(k, 1, 3),
            .kh = draw(k, 1, 4),
            .kw = draw(k, 1, 4),
            .sy = draw(k, 1, 3),
            .sx = draw(k, 1, 3),
            .dy = draw(k, 1, 2),
            .dx = draw(k, 1, 2),
            .oh = draw(k, 1, 9),
            .ow = draw(k, 1, 30)};
  int64_t in = draw(k, 1, 20), out = draw(k, 1, 70);
  v.groups = draw(k, 0, 3) == 0 ? draw(k, 1, 4) : 1;
  if (draw(k, 0, 4) == 0) in = 1, v.groups = draw(k, 1, 40), out = draw(k, 1, 3); /* depthwise */
  v.c = in * v.groups;
  v.d = (v.groups > 1 ? (out + 3) / 4 : out) * v.groups;
  v.py = draw(k, 0, v.kh), v.px = draw(k, 0, v.kw);
  int64_t need_h = (v.oh - 1) * v.sy + (v.kh - 1) * v.dy + 1 - v.py,
          need_w = (v.ow - 1) * v.sx + (v.kw - 1) * v.dx + 1 - v.px;
  v.h = need_h + draw(k, -v.kh, 2), v.w = need_w + draw(k, -v.kw, 2);
  if (v.h < 1) v.h = 1;
  if (v.w < 1) v.w = 1;
  return v;
}

static void check_conv(Check *k, const char *isa, Dtype d, Conv v) {
  int64_t in = v.c / v.groups;
  Array a[3] = {random_array(k, d, 4, (int64_t[]){v.n, v.h, v.w, v.c}),
                random_array(k, d, 4, (int64_t[]){v.kh, v.kw, in, v.d}),
                random_array(k, d, 4, (int64_t[]){v.n, v.oh, v.ow, v.d})};
  int64_t strides[] = {v.sy, v.sx}, pads[] = {v.py, v.px}, dilations[] = {v.dy, v.dx};
  int64_t shapes[3][2] = {{v.oh, v.ow}, {v.h, v.w}, {v.kh, v.kw}};
  static const char *const names[] = {"nn.conv_general", "nn.conv_grad_input",
                                      "nn.conv_grad_kernel"};
  /* two operands, the result */
  static const int operands[3][3] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}};
  for (int f = 0; f < 3; f++) {
    Array pair[2] = {a[operands[f][0]], a[operands[f][1]]};
    const Array *result = &a[operands[f][2]];
    Attr attrs[MAX_ATTRS] = {attr_ints(strides, 2), attr_ints(pads, 2), attr_ints(dilations, 2),
                             attr_int(v.groups), attr_ints(shapes[f], 2)};
    void *out[MAX_OUTPUTS];
    int count;
    double *want = calloc((size_t)type_count(&result->type) + 1, sizeof *want);
    conv_loops(&v, a[0].value, a[1].value, a[2].value, f == 1 ? want : NULL, f == 2 ? want : NULL,
               f == 0 ? want : NULL);
    double terms =
        f == 2 ? (double)(v.n * v.oh * v.ow) : (double)(v.kh * v.kw * (f ? v.d / v.groups : in));
    if (run(k, isa, names[f], pair, 2, attrs, out, &count) == OK)
      compare(k, isa, names[f], d, out[0], want, type_count(&result->type), terms);
    else k->failed++;
    finish(out, count);
    free(want);
  }
  drop(a, 3);
}

/* One channel under kernels one element wide: a gradient of the kernel has one row for each of
 * these. */
static Conv thin_conv(Check *k) {
  Conv v = {.n = 2, .c = 1, .kh = 2, .kw = 1, .d = draw(k, 5, 40), .groups = 1};
  v.sy = v.sx = v.dy = v.dx = 1;
  v.h = 4, v.w = 7, v.oh = 3, v.ow = 7;
  return v;
}

/* ---- pooling ---- */

enum { POOL_SIDE = 18, POOL_WINDOW = 17, POOL_CHANNELS = 35 };

/* The greatest element of each window, and its place: of equals the first. */
static void pool_loops(const double *x, int64_t images, double *y, double *place) {
  for (int64_t at = 0; at < images * 4 * POOL_CHANNELS; at++) {
    int64_t c = at % POOL_CHANNELS, j = at / POOL_CHANNELS % 2, i = at / POOL_CHANNELS / 2 % 2,
            n = at / POOL_CHANNELS / 4;
    y[at] = -INFINITY;
    for (int64_t t = 0; t < POOL_WINDOW * POOL_WINDOW; t++) {
      int64_t row = (n * POOL_SIDE + i + t / POOL_WINDOW) * POOL_SIDE + j + t % POOL_WINDOW;
      double v = x[row * POOL_CHANNELS + c];
      if (v > y[at]) y[at] = v, place[at] = (double)t;
    }
  }
}

/* A window has more elements than a byte counts. Channels fill whole vectors and a part of one. */
static void check_wide_pool(Check *k, const char *isa, Dtype d) {
  enum { IMAGES = 2, COUNT = IMAGES * 4 * POOL_CHANNELS };
  Array x = random_array(k, d, 4, (int64_t[]){IMAGES, POOL_SIDE, POOL_SIDE, POOL_CHANNELS});
  int64_t window[] = {POOL_WINDOW, POOL_WINDOW}, strides[] = {1, 1};
  Attr attrs[MAX_ATTRS] = {attr_ints(window, 2), attr_ints(strides, 2), attr_string("VALID")};
  double y[COUNT], place[COUNT];
  void *out[MAX_OUTPUTS];
  int count;
  pool_loops(x.value, IMAGES, y, place);
  if (run(k, isa, "nn.max_pool", &x, 1, attrs, out, &count) == OK) {
    compare(k, isa, "max_pool", d, out[0], y, COUNT, 0);
    compare(k, isa, "max_pool's places", I32, out[1], place, COUNT, 0);
  } else {
    k->failed++;
  }
  finish(out, count);
  drop(&x, 1);
}

/* ---- attention ---- */

static void attention_loops(const Array *a, bool causal, double *y) {
  const int64_t *q = a[0].type.shape, keys = a[1].type.shape[1], e = a[2].type.shape[3],
                width = q[3];
  double *p = calloc((size_t)keys, sizeof *p);
  for (int64_t n = 0; n < q[0]; n++)
    for (int64_t t = 0; t < q[1]; t++)
      for (int64_t h = 0; h < q[2]; h++) {
        double sum = 0;
        for (int64_t s = 0; s < keys; s++) {
          double dot = 0;
          for (int64_t i = 0; i < width; i++)
            dot += a[0].value[((n * q[1] + t) * q[2] + h) * width + i] *
                   a[1].value[((n * keys + s) * q[2] + h) * width + i];
          bool seen = (!causal || s <= t) && a[3].value[(n * q[1] + t) * keys + s] != 0;
          sum += p[s] = seen ? exp(dot / sqrt((double)width)) : 0;
        }
        for (int64_t s = 0; s < keys && sum == 0; s++) p[s] = 1;
        for (int64_t i = 0; i < e; i++) {
          double *to = &y[((n * q[1] + t) * q[2] + h) * e + i];
          for (int64_t s = 0; s < keys; s++)
            *to += p[s] / (sum == 0 ? (double)keys : sum) *
                   a[2].value[((n * keys + s) * q[2] + h) * e + i];
        }
      }
  free(p);
}

static void check_attention(Check *k, const char *isa, Dtype d) {
  int64_t n = draw(k, 1, 2), t = draw(k, 1, 70), h = draw(k, 1, 3), s = draw(k, 1, 100),
          width = draw(k, 1, 40), e = draw(k, 1, 70);
  bool causal = draw(k, 0, 1);
  Array a[4] = {random_array(k, d, 4, (int64_t[]){n, t, h, width}),
                random_array(k, d, 4, (int64_t[]){n, s, h, width}),
                random_array(k, d, 4, (int64_t[]){n, s, h, e}),
                random_array(k, BOOL, 4, (int64_t[]){n, 1, t, s})};
  Attr attrs[MAX_ATTRS] = {attr_bool(causal)};
  void *out[MAX_OUTPUTS];
  int count;
  double *want = calloc((size_t)(n * t * h * e), sizeof *want);
  attention_loops(a, causal, want);
  if (run(k, isa, "nn.dot_product_attention", a, 4, attrs, out, &count) == OK)
    compare(k, isa, "attention", d, out[0], want, n * t * h * e, 1);
  else k->failed++;
  finish(out, count);
  free(want);
  drop(a, 4);
}

/* ---- LSTM ---- */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void lstm_loops(const Array *a, double *y) {
  int64_t n = a[0].type.shape[0], t = a[0].type.shape[1], f = a[0].type.shape[2],
          u = a[2].type.shape[0];
  double *h = calloc((size_t)u, sizeof *h), *c = calloc((size_t)u, sizeof *c),
         *z = calloc((size_t)(4 * u), sizeof *z);
  for (int64_t b = 0; b < n; b++) {
    memcpy(h, a[4].value + b * u, (size_t)u * sizeof *h);
    memcpy(c, a[5].value + b * u, (size_t)u * sizeof *c);
    for (int64_t s = 0; s < t; s++) {
      for (int64_t j = 0; j < 4 * u; j++) {
        z[j] = a[3].value[j];
        for (int64_t i = 0; i < f; i++)
          z[j] += a[0].value[(b * t + s) * f + i] * a[1].value[i * 4 * u + j];
        for (int64_t i = 0; i < u; i++) z[j] += h[i] * a[2].value[i * 4 * u + j];
      }
      for (int64_t j = 0; j < u; j++) {
        c[j] = sigmoid(z[u + j]) * c[j] + sigmoid(z[j]) * tanh(z[2 * u + j]);
        y[(b * t + s) * u + j] = h[j] = sigmoid(z[3 * u + j]) * tanh(c[j]);
      }
    }
  }
  free(h), free(c), free(z);
}

static void check_lstm(Check *k, const char *isa, Dtype d) {
  int64_t n = draw(k, 1, 40), t = draw(k, 1, 4), f = draw(k, 1, 9), u = draw(k, 1, 50);
  Array a[6] = {
      random_array(k, d, 3, (int64_t[]){n, t, f}),  random_array(k, d, 2, (int64_t[]){f, 4 * u}),
      random_array(k, d, 2, (int64_t[]){u, 4 * u}), random_array(k, d, 1, (int64_t[]){4 * u}),
      random_array(k, d, 2, (int64_t[]){n, u}),     random_array(k, d, 2, (int64_t[]){n, u})};
  void *out[MAX_OUTPUTS];
  int count;
  double *want = calloc((size_t)(n * t * u), sizeof *want);
  lstm_loops(a, want);
  if (run(k, isa, "nn.lstm", a, 6, NULL, out, &count) == OK)
    compare(k, isa, "lstm", d, out[0], want, n * t * u, 50);
  else k->failed++;
  finish(out, count);
  free(want);
  drop(a, 6);
}

int main(void) {
  Check k = {.key = {.seed = 20}};
  for (int i = 0; i < INSTRUCTION_SETS; i++) {
    const char *isa = instruction_sets[i];
    if (!table_or_pending(isa, &k.failed)) continue;
    for (int round = 0; round < 60; round++) {
      Dtype d = round % 2 ? F64 : F32;
      check_conv(&k, isa, d, random_conv(&k));
      check_attention(&k, isa, d);
      check_lstm(&k, isa, d);
    }
    for (Dtype d = F32; d <= F64; d++) {
      for (int round = 0; round < 4; round++) check_conv(&k, isa, d, thin_conv(&k));
      check_wide_pool(&k, isa, d);
    }
  }
  printf("%d passed, %d failed\n", k.passed, k.failed);
  return k.failed != 0;
}
