/* Convolutions of float16 whose partial sums are float16 too (partialsType half): each step rounds
 * once. These are plain loops, to show the effect of the rounding on a model. The other path is the
 * fast one. */
#include "kernels/numerics.h"
#include "ops/conv/conv.h"
#include "ops/ops.h"

typedef struct Half {
  const Call *call;
  Geometry g;
  int64_t steps; /* at most, of one sum */
} Half;

/* One sum: its value so far and its position among the random numbers. */
typedef struct Sum {
  f16 narrow;
  uint64_t step;
} Sum;

static void add(const Half *h, Sum *s, int64_t a, int64_t b) {
  const f16 *x = h->call->in[0], *y = h->call->in[1];
  float wide = f16_to_f32(s->narrow) + f16_to_f32(x[a]) * f16_to_f32(y[b]);
  narrow_f16(&wide, &s->narrow, 1, h->call->numerics, &h->call->rng, s->step++);
}

/* Split i by extents, the last one innermost; returns the remainder. */
static int64_t split(int64_t i, const int64_t extent[SPATIAL], int64_t at[SPATIAL]) {
  for (int d = SPATIAL - 1; d >= 0; i /= extent[d--]) at[d] = i % extent[d];
  return i;
}

static int64_t join(int64_t outer, const int64_t extent[SPATIAL], const int64_t at[SPATIAL]) {
  for (int d = 0; d < SPATIAL; d++) outer = outer * extent[d] + at[d];
  return outer;
}

static int64_t count_of(const int64_t extent[SPATIAL]) { return extent[0] * extent[1] * extent[2]; }

/* The image position that tap reads for result position `to`; false: padding. */
static bool image_position(const Window *w, const int64_t to[SPATIAL], const int64_t tap[SPATIAL],
                           int64_t at[SPATIAL]) {
  for (int d = 0; d < SPATIAL; d++) {
    at[d] = to[d] * w->stride[d] + tap[d] * w->dilation[d] - w->pad[d];
    if (at[d] < 0 || at[d] >= w->in[d]) return false;
  }
  return true;
}

/* The result position for which tap reads image position `from`. */
static bool result_position(const Window *w, const int64_t from[SPATIAL],
                            const int64_t tap[SPATIAL], int64_t at[SPATIAL]) {
  for (int d = 0; d < SPATIAL; d++) {
    int64_t q = from[d] + w->pad[d] - tap[d] * w->dilation[d];
    at[d] = q / w->stride[d];
    if (q < 0 || q % w->stride[d] || at[d] >= w->out[d]) return false;
  }
  return true;
}

/* [batch, out…, channels_out] */
static void forward(const Half *h, int64_t i, Sum *s) {
  const Geometry *g = &h->g;
  int64_t in = g->channels_in / g->groups, to[SPATIAL], tap[SPATIAL], at[SPATIAL],
          co = i % g->channels_out;
  int64_t image = split(i / g->channels_out, g->w.out, to),
          group = co / (g->channels_out / g->groups);
  for (int64_t t = 0, n = count_of(g->w.kernel); t < n; t++) {
    split(t, g->w.kernel, tap);
    if (!image_position(&g->w, to, tap, at)) continue;
    int64_t pixel = join(image, g->w.in, at) * g->channels_in + group * in;
    for (int64_t c = 0; c < in; c++) add(h, s, pixel + c, (t * in + c) * g->channels_out + co);
  }
}

/* [batch, in…, channels_in] of the result's gradient and the kernel */
static void backward(const Half *h, int64_t i, Sum *s) {
  const Geometry *g = &h->g;
  int64_t in = g->channels_in / g->groups, out = g->channels_out / g->groups, from[SPATIAL],
          tap[SPATIAL], at[SPATIAL];
  int64_t ci = i % g->channels_in, image = split(i / g->channels_in, g->w.in, from),
          group = ci / in;
  for (int64_t t = 0, n = count_of(g->w.kernel); t < n; t++) {
    split(t, g->w.kernel, tap);
    if (!result_position(&g->w, from, tap, at)) continue;
    int64_t pixel = join(image, g->w.out, at) * g->channels_out + group * out;
    for (int64_t c = 0; c < out; c++)
      add(h, s, pixel + c, (t * in + ci % in) * g->channels_out + group * out + c);
  }
}

/* [taps…, channels_in / groups, channels_out] of the image and the result's gradient */
static void weights(const Half *h, int64_t i, Sum *s) {
  const Geometry *g = &h->g;
  int64_t in = g->channels_in / g->groups, tap[SPATIAL], to[SPATIAL], at[SPATIAL],
          co = i % g->channels_out;
  int64_t c = i / g->channels_out % in, group = co / (g->channels_out / g->groups);
  split(i / g->channels_out / in, g->w.kernel, tap);
  for (int64_t p = 0, n = g->batch * count_of(g->w.out); p < n; p++) {
    int64_t image = split(p, g->w.out, to);
    if (!image_position(&g->w, to, tap, at)) continue;
    add(h, s, join(image, g->w.in, at) * g->channels_in + group * in + c, p * g->channels_out + co);
  }
}

static void sums(const Half *h, int64_t begin, int64_t end,
                 void (*one)(const Half *, int64_t, Sum *)) {
  f16 *y = h->call->out[0];
  for (int64_t i = begin; i < end; i++) {
    Sum s = {.step = (uint64_t)(i * h->steps)};
    one(h, i, &s);
    y[i] = s.narrow;
  }
}

static void forward_range(void *context, int64_t begin, int64_t end) {
  sums(context, begin, end, forward);
}
static void backward_range(void *context, int64_t begin, int64_t end) {
  sums(context, begin, end, backward);
}
static void weights_range(void *context, int64_t begin, int64_t end) {
  sums(context, begin, end, weights);
}

Status conv_eval_half(const Call *call) {
  Half h = {.call = call};
  Form form = conv_geometry_of(call->node, &h.g);
  const Geometry *g = &h.g;
  int64_t taps = count_of(g->w.kernel);
  h.steps = form == FORM_KERNEL    ? g->batch * count_of(g->w.out)
            : form == FORM_FORWARD ? taps * g->channels_in / g->groups
                                   : taps * g->channels_out / g->groups;
  parallel_for(call, type_count(call->out_type[0]), max(4096 / max(h.steps, 1), 1),
               form == FORM_KERNEL    ? weights_range
               : form == FORM_FORWARD ? forward_range
                                      : backward_range,
               &h);
  return OK;
}
