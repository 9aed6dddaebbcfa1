/* Connectionist temporal classification. Labels are spread over tiles; time passes in steps, forwards for one
 * half of the recurrence and backwards for the other, which run side by side. Each step adds the paths into
 * each label (two log-additions and two products) and spreads the gradient over the classes. */
#include <math.h>

#include "target/plan.h"

/* Worker cycles of a label and its blank, and of a class's gradient: two log-adds with their loads and
 * stores. */
#define LABEL_CYCLES 40
#define CLASS_CYCLES 28

Cost cost_ctc_loss(const Target *t, Dtype d, int64_t batch, int64_t time, int64_t labels, int64_t classes) {
  Cost c = cost_free();
  if (batch <= 0 || time <= 0 || labels < 0 || classes <= 0) return c;
  batch = clamp_extent(batch), time = clamp_extent(time), labels = clamp_extent(labels);
  c = cost_softmax(t, d, times(batch, time), classes, false);
  double tiles = (double)t->tiles, paths = fmax(1, (double)labels) * (double)batch;
  double share = ceil_div(paths, tiles), bytes = element_bytes(F32), k = (double)classes;
  cost_steps(&c, t, "labels", (double)time, (share + 2) * bytes + k * bytes,
             (double)t->workers * LABEL_CYCLES * share + CLASS_CYCLES * k);
  c.tiles = fmax(c.tiles, fmin(tiles, paths));
  cost_memory(&c, MEMORY_TEMPORARY,
              ceil_div(2 * paths * (double)time * bytes, c.tiles) + k * (double)time * bytes);
  cost_vertex(&c, t, VERTEX_CTC, 200, 200);
  c.flops += 8 * paths * (double)time;
  return c;
}
