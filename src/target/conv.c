/* The costs of the passes of a convolution: their plans, and the moves of operands to them. */
#include <math.h>

#include "target/conv_plan.h"

int64_t conv_product(const int64_t *x, int rank) {
  int64_t p = 1;
  for (int i = 0; i < rank; i++) p = times(p, x[i]);
  return p;
}

/* Dimensions beyond the last two are part of the batch; their kernel extent is expanded into
 * channels. */
static Problem read_shape(const ConvShape *s, bool backward, bool phases, double limit) {
  int last = s->rank - 1, rows = s->rank - 2;
  int64_t depth_kernel = 1; /* a point sees no more of it than its phase, and than there is input */
  if (s->rank > 2)
    depth_kernel = min(backward ? ceil_div(s->kernel[0], s->stride[0]) : s->kernel[0],
                       max(1, backward ? s->out[0] : s->in[0]));
  Problem q = {.groups = s->groups, .batch = s->batch, .limit = limit};
  const int64_t *field = backward ? s->in : s->out, *in = backward ? s->out : s->in;
  if (s->rank > 2) q.batch = times(q.batch, field[0]);
  q.in_channels = times(backward ? s->out_channels : s->in_channels, depth_kernel);
  q.out_channels = backward ? s->in_channels : s->out_channels;
  q.columns = field[last], q.in_columns = in[last];
  q.kernel_columns = s->kernel[last], q.stride_columns = s->stride[last];
  q.rows = q.in_rows = q.kernel_rows = q.stride_rows = 1;
  if (rows >= 0)
    q.rows = field[rows], q.in_rows = in[rows], q.kernel_rows = s->kernel[rows],
    q.stride_rows = s->stride[rows];
  /* each phase of a strided field sees its own points of the kernel; of a single one, a field
   * without gaps */
  if (backward && phases) {
    if (q.kernel_rows == 1) q.rows = ceil_div(q.rows, q.stride_rows);
    else if (q.stride_rows > 1) q.phase_rows = q.stride_rows;
    if (q.kernel_columns == 1) q.columns = ceil_div(q.columns, q.stride_columns);
    else if (q.stride_columns > 1) q.phase_columns = q.stride_columns;
  }
  q.spread = backward && !phases && (s->stride[last] > 1 || (rows >= 0 && s->stride[rows] > 1));
  if (backward && !phases)
    q.in_rows = times(q.in_rows, q.stride_rows),
    q.in_columns = times(q.in_columns, q.stride_columns); /* zeros between points */
  if (backward) q.stride_rows = q.stride_columns = 1;
  q.kernel_rows = taps_needed(q.kernel_rows, q.rows, q.stride_rows, q.in_rows, q.phase_rows);
  q.kernel_columns =
      taps_needed(q.kernel_columns, q.columns, q.stride_columns, q.in_columns, q.phase_columns);
  return q;
}

/* Channels are regrouped before the exchange, so that it moves more than single elements, and
 * after it. */
static void transpose(Cost *c, const Target *t, Dtype d, double elements) {
  cost_layout(c, t, d, elements, 1);
  if (element_bytes(d) == 2) cost_step(c, t, "rearrange", 0, 0);
}

/* Channels regrouped in runs of one vector while they are exchanged. */
static void regroup(Cost *c, const Target *t, Dtype d, double elements) {
  double share = elements * element_bytes(d) / (double)t->tiles;
  cost_step(c, t, "regroup", share, rearrange_cycles(t, share, (double)t->vector_bytes));
  cost_vertex(c, t, VERTEX_COPY, 16, 60);
}

/* One channel in, one out, of one group among many. */
static bool is_depthwise(const ConvShape *s) {
  return s->in_channels == 1 && s->out_channels == 1 && s->groups > 1;
}

static Cost weights_cost(const Target *t, Dtype d, Dtype partials, const ConvShape *s,
                         const PlanOptions *o, bool as_charged) {
  Cost c = cost_free();
  int64_t window = conv_product(s->kernel, s->rank),
          points = times(s->batch, conv_product(s->out, s->rank));
  double g = (double)s->groups;
  double read =
      window > 1 ? (double)s->batch * (double)conv_product(s->in, s->rank) : (double)points;
  double in = g * read * (double)s->in_channels, out = g * (double)points * (double)s->out_channels;
  double weights = g * (double)window * (double)s->in_channels * (double)s->out_channels;
  Plan p = plan_weights(t, d, partials, s, o->available_memory_proportion, as_charged);
  if (p.kernel == VERTEX_VECTOR_MAC && is_depthwise(s)) {
    if (p.prepare_steps == 0) regroup(&c, t, d, in);
    regroup(&c, t, d, out);
    p.joined_bytes += (in + out) * element_bytes(d) / (double)t->tiles;
  } else transpose(&c, t, d, in), transpose(&c, t, d, out); /* the points become channels */
  if (window == 1)
    p.joined_bytes += g *
                      ((double)points * (double)s->out_channels + read * (double)s->in_channels) *
                      element_bytes(d) / (double)t->tiles;
  cost_plan(&c, t, &p);
  if (window > 1) cost_layout(&c, t, d, weights, 1);
  if (o->accumulate) cost_scaled_add(&c, t, d, weights);
  return c;
}

static ConvShape clamp_shape(const ConvShape *s) {
  ConvShape c = *s;
  c.batch = clamp_extent(s->batch), c.groups = clamp_extent(s->groups);
  c.in_channels = clamp_extent(s->in_channels), c.out_channels = clamp_extent(s->out_channels);
  for (int i = 0; i < COST_SPATIAL; i++) {
    c.in[i] = clamp_extent(s->in[i]), c.out[i] = clamp_extent(s->out[i]),
    c.kernel[i] = clamp_extent(s->kernel[i]);
    c.stride[i] = max(1, clamp_extent(s->stride[i]));
  }
  return c;
}

/* Forward or backward. */
static Cost fields_cost(const Target *t, Dtype d, Dtype partials, const ConvShape *s, bool backward,
                        const PlanOptions *o, bool as_charged) {
  Cost c = cost_free();
  int64_t window = conv_product(s->kernel, s->rank),
          points = times(s->batch, conv_product(s->out, s->rank));
  double g = (double)s->groups, width = (double)s->in_channels;
  double in_points = (double)s->batch * (double)conv_product(s->in, s->rank);
  if (backward && !is_depthwise(s))
    transpose(&c, t, d, g * (double)window * width * (double)s->out_channels);
  bool strided = backward && conv_product(s->stride, s->rank) > 1;
  double limit = plan_limit(t, o->available_memory_proportion);
  Problem q = read_shape(s, backward, true, limit);
  q.as_charged = as_charged;
  Plan p = plan_conv(t, d, partials, &q, o->available_memory_proportion);
  if (strided && is_depthwise(s)) { /* or all points, zeros between them */
    q = read_shape(s, true, false, limit);
    q.as_charged = as_charged;
    Plan all = plan_conv(t, d, partials, &q, o->available_memory_proportion);
    if (is_better(&all, &p)) p = all;
  }
  if (is_depthwise(s) && p.prepare_steps == 0)
    regroup(&c, t, d, g * (backward ? (double)points : in_points));
  if (is_depthwise(s) && p.kernel == VERTEX_AMP_NX1)
    regroup(&c, t, d, g * (backward ? in_points : (double)points));
  if (!backward && s->in_channels < t->group_f16 / 2 && p.kernel == VERTEX_AMP_NX1 &&
      p.prepare_steps == 0 && !is_depthwise(s))
    cost_layout(&c, t, d, g * in_points * (double)t->group_f16, 1); /* padded to a whole in-group */
  if (strided && window == 1) /* computed densely, then spread over the field */
    add_prepare(t, &p, g * in_points * width * element_bytes(d), 8);
  cost_plan(&c, t, &p);
  return c;
}

static Cost pass_cost(const Target *t, Dtype d, Dtype partials, const ConvShape *s, ConvPass pass,
                      const PlanOptions *o, bool as_charged) {
  if (pass == CONV_WEIGHTS) return weights_cost(t, d, partials, s, o, as_charged);
  return fields_cost(t, d, partials, s, pass == CONV_BACKWARD, o, as_charged);
}

/* Multiplied element by element: pays where few products make an output. (Published depthwise
 * layers don't take that way, where it would save half.) */
static Cost elements_cost(const Target *t, Dtype d, const ConvShape *s, ConvPass pass,
                          const PlanOptions *o, double macs) {
  const int64_t *field = pass == CONV_FORWARD ? s->out : pass == CONV_BACKWARD ? s->in : s->kernel;
  int64_t rows = times(pass == CONV_WEIGHTS ? 1 : s->batch, conv_product(field, s->rank));
  int64_t channels = pass == CONV_FORWARD    ? s->out_channels
                     : pass == CONV_BACKWARD ? s->in_channels
                                             : times(s->in_channels, s->out_channels);
  int64_t outputs = times(times(s->groups, rows), channels),
          each = to_extent(ceil(macs / (double)outputs));
  return cost_serial_dots(t, d, outputs, 1, max(each, 1), 1,
                          plan_limit(t, o->available_memory_proportion));
}

Cost cost_conv(const Target *t, Dtype d, Dtype partials, const ConvShape *shape, ConvPass pass,
               const PlanOptions *options) {
  PlanOptions chosen = options ? *options : (PlanOptions){0};
  if (!(chosen.available_memory_proportion > 0))
    chosen.available_memory_proportion = t->conv_proportion;
  ConvShape whole = clamp_shape(shape), *s = &whole;
  if (s->rank < 1 || s->rank > COST_SPATIAL) return cost_free();
  int64_t window = conv_product(s->kernel, s->rank),
          points = times(s->batch, conv_product(s->out, s->rank)), seen = 1;
  /* by one output: the rest is padding */
  for (int i = 0; i < s->rank; i++) seen = times(seen, min(s->kernel[i], s->in[i]));
  bool empty = points <= 0 || window <= 0 || seen <= 0 || s->groups <= 0 || s->in_channels <= 0 ||
               s->out_channels <= 0;
  if (empty) return cost_free();
  double macs = (double)s->groups * (double)points * (double)seen * (double)s->in_channels *
                (double)s->out_channels;
  Cost c = pass_cost(t, d, partials, s, pass, &chosen, false);
  /* much padding, which PopLibs' planner avoids at any price */
  if (s->in_channels < t->group_f16 || s->out_channels < t->group_f16) {
    Cost other = pass_cost(t, d, partials, s, pass, &chosen, true);
    if (is_far_better(&other, &c)) c = other;
    if (!is_depthwise(s)) other = elements_cost(t, d, s, pass, &chosen, macs);
    if (is_far_better(&other, &c)) c = other;
  }
  c.flops = 2 * macs;
  return c;
}
