/* Convolutions. */
#include <math.h>

#include "target/plan.h"

static int64_t product(const int64_t *x, int rank) {
  int64_t p = 1;
  for (int i = 0; i < rank; i++) p *= x[i];
  return p;
}

Cost cost_conv(const Target *t, Dtype d, Dtype partials, const ConvShape *s, ConvPass pass,
               const PlanOptions *options) {
  int64_t rows = s->batch * product(s->out, s->rank), window = product(s->kernel, s->rank);
  int64_t in_field = s->batch * product(s->in, s->rank);
  PlanOptions o = options ? *options : (PlanOptions){0};
  Cost c = cost_free();
  if (window > 1) {
    int64_t bytes = (int64_t)((double)(rows * s->in_channels * s->groups * window) * element_bytes(d));
    c = cost_rearrange(t, bytes, 8);
  }
  Cost p;
  if (pass == CONV_FORWARD)
    p = cost_matmul(t, d, partials, s->groups, rows, s->in_channels * window, s->out_channels, &o);
  else if (pass == CONV_BACKWARD)
    p = cost_matmul(t, d, partials, s->groups, in_field / product(s->stride, s->rank), s->out_channels * window,
                    s->in_channels, &o);
  else
    p = cost_matmul(t, d, partials, s->groups, s->in_channels * window, rows, s->out_channels, &o);
  cost_then(&c, &p);
  return c;
}
