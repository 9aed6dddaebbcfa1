/* Pooling: windows over channels in packs of eight. */
#include <math.h>

#include "target/plan.h"

static double product(const int64_t *x, int rank) {
  double p = 1;
  for (int i = 0; i < rank; i++) p *= (double)x[i];
  return p;
}

Cost cost_pool(const Target *t, Dtype d, PoolKind kind, const ConvShape *s, bool backward) {
  Cost c = cost_free();
  int last = s->rank - 1;
  double channels = (double)s->batch * (double)(s->groups * s->in_channels);
  double in = channels * product(s->in, s->rank), out = channels * product(s->out, s->rank);
  if (s->rank < 1 || in <= 0 || out <= 0) return c;
  double w = (double)t->workers, window = product(s->kernel, s->rank), strides = product(s->stride, s->rank);
  double tiles = (double)t->tiles, pack = 2 * vector_width(t, d);
  double points = ceil_div(backward ? in : out, pack * tiles), line = (double)(backward ? s->in : s->out)[last];
  double taps = backward ? window / strides : window, per_tap = backward && kind == POOL_MAX ? 5 : 3;
  double each = ceil_div(points, w);
  double compute =
      w * (13 * ceil_div(points, line) + 20 * ceil_div(each, line) + each * 2 * (7 + per_tap * taps)) + 13;
  double side = pow(window, 1.0 / s->rank);
  double halo = fmin(taps, pow(pow(points, 1.0 / s->rank) + side - 1, s->rank) / points);
  double bytes = element_bytes(d), share_in = in * bytes / tiles, share_out = out * bytes / tiles;
  double received = backward ? share_in + 2 * share_out * halo : share_in * halo;
  cost_steps(&c, t, "rearrange", 4, (share_in + share_out) / 4, rearrange_cycles(t, share_in + share_out, bytes) / 4);
  cost_steps(&c, t, "pool", 2, received / 2, compute / 2);
  cost_steps(&c, t, "result", 4, 0, 0);
  c.tiles = fmin(tiles, ceil_div(backward ? in : out, pack));
  c.flops = (backward ? in : out) * taps;
  cost_memory(&c, MEMORY_MESSAGE, received);
  cost_memory(&c, MEMORY_REARRANGEMENT, share_in + share_out);
  cost_vertex(&c, t, VERTEX_POOL, 150, 200);
  return c;
}
