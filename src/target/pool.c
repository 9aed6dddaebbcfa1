/* Pooling: windows over channels in packs of eight. */
#include <math.h>

#include "target/plan.h"

static double product(const int64_t *x, int rank) {
  double p = 1;
  for (int i = 0; i < rank; i++) p *= (double)x[i];
  return p;
}

/* Points of a neighbourhood that `points` of the other side of a pooling need, in multiples of their own
 * share. */
static double halo(double points, double side, double stride, int rank) {
  double edge = pow(points, 1.0 / rank);
  return pow((edge * stride + fmax(0, side - stride)) / (edge * stride), rank);
}

Cost cost_pool(const Target *t, Dtype d, PoolKind kind, const ConvShape *s, bool backward) {
  Cost c = cost_free();
  int last = s->rank - 1;
  double channels = (double)s->batch * (double)s->groups * (double)s->in_channels;
  if (s->rank < 1 || s->rank > COST_SPATIAL) return c;
  double in = channels * product(s->in, s->rank), out = channels * product(s->out, s->rank);
  if (in <= 0 || out <= 0) return c;
  double w = (double)t->workers, window = product(s->kernel, s->rank), strides = product(s->stride, s->rank);
  double tiles = (double)t->tiles, width = vector_width(t, d),
         pack = 2 * width; /* channels that move together */
  double points = ceil_div(backward ? in : out, pack * tiles),
         line = (double)(backward ? s->in : s->out)[last];
  double taps = backward ? fmax(1, window / strides) : window, per_tap = backward && kind == POOL_MAX ? 5 : 3;
  double each = ceil_div(points, w), vectors = pack / width;
  double rows = 13 * ceil_div(points, line) + 20 * ceil_div(each, line);
  double compute = w * (rows + each * vectors * (7 + per_tap * taps)) + 13;
  double bytes = element_bytes(d), share_in = in * bytes / tiles, share_out = out * bytes / tiles;
  double side = pow(window, 1.0 / s->rank), stride = pow(strides, 1.0 / s->rank);
  double received = backward ? share_in + 2 * share_out * halo(points / strides, side / stride, 1, s->rank)
                             : share_in * halo(points, side, stride, s->rank);
  c.tiles = fmin(tiles, ceil_div(backward ? in : out, pack));
  cost_steps(&c, t, "rearrange", 4, (share_in + share_out) / 4,
             rearrange_cycles(t, share_in + share_out, bytes) / 4);
  cost_steps(&c, t, "pool", 2, received / 2, compute / 2);
  cost_steps(&c, t, "result", 4, 0, 0);
  c.flops = (backward ? in : out) * taps;
  cost_memory(&c, MEMORY_MESSAGE, received);
  cost_memory(&c, MEMORY_REARRANGEMENT, backward ? share_out : 0);
  c.separate_bytes = received;
  cost_vertex(&c, t, VERTEX_POOL, 150, 200);
  return c;
}
