/* Connectionist temporal classification: alpha forwards, beta backwards, one time step after the other. */
#include "target/plan.h"

Cost cost_ctc_loss(const Target *t, Dtype d, int64_t batch, int64_t time, int64_t labels, int64_t classes) {
  Cost c = cost_free();
  if (batch <= 0 || time <= 0 || labels < 0 || classes <= 0) return c;
  c = cost_softmax(t, d, batch * time, classes, false);
  double extended = 2 * (double)labels + 1, share = (double)idiv((int64_t)extended * batch, t->tiles);
  cost_steps(&c, t, "alpha and beta", (double)time, 2 * element_bytes(F32), 100 * share + 200);
  Cost grad = cost_scatter(t, F32, classes, time * batch, (int64_t)extended, true);
  cost_then(&c, &grad);
  return c;
}
