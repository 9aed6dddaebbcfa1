/* Layers that step through a sequence, and attention. */
#include "target/plan.h"

/* An elementwise operation on a few elements of each tile. */
static void small_steps(Cost *c, const Target *t, double count) {
  cost_steps(c, t, "gates", count, 0, (double)t->workers * (26 + 12) + SUPERVISOR_CYCLES);
}

static void slice_steps(Cost *c, const Target *t, double count) {
  cost_steps(c, t, "slice", count, 0, 25 + (double)t->workers * 63);
}

/* LSTM: four gates at once. GRU: two, then the candidate, which needs the reset gate. */
static Cost cell(const Target *t, Dtype d, Dtype partials, const RnnShape *s, int gates, bool backward,
                 const PlanOptions *options) {
  Cost c = cost_free();
  int64_t in = s->inputs + s->outputs;
  static const int64_t lstm[] = {4}, gru[] = {2, 1};
  const int64_t *parts = gates == 4 ? lstm : gru;
  PlanOptions held = options ? *options : (PlanOptions){0};
  held.resident = true;
  for (int i = 0; i < (gates == 4 ? 1 : 2); i++) {
    Cost p = backward ? cost_matmul(t, d, partials, 1, s->batch, times(parts[i], s->outputs), in, &held)
                      : cost_matmul(t, d, partials, 1, s->batch, in, times(parts[i], s->outputs), &held);
    cost_then(&c, &p);
    if (!backward) continue;
    PlanOptions add = options ? *options : (PlanOptions){0};
    add.left_moved = add.right_moved = add.accumulate = true;
    p = cost_matmul(t, d, partials, 1, in, s->batch, times(parts[i], s->outputs), &add);
    cost_then(&c, &p);
  }
  if (backward) {
    small_steps(&c, t, gates == 4 ? 10 : 14);
    slice_steps(&c, t, 2);
  } else {
    small_steps(&c, t, gates == 4 ? 7 : 10);
    slice_steps(&c, t, s->training ? 3 : 0);
  }
  return c;
}

static Cost sequence(const Target *t, Dtype d, Dtype partials, const RnnShape *s, int gates, bool backward,
                     const PlanOptions *options) {
  RnnShape clamped = *s;
  clamped.batch = clamp_extent(s->batch), clamped.steps = clamp_extent(s->steps);
  clamped.inputs = clamp_extent(s->inputs), clamped.outputs = clamp_extent(s->outputs);
  s = &clamped;
  if (s->batch <= 0 || s->steps <= 0 || s->inputs <= 0 || s->outputs <= 0) return cost_free();
  Cost c = cell(t, d, partials, s, gates, backward, options);
  cost_repeat(&c, (double)s->steps);
  if (backward) {
    Cost layout = cost_transpose(t, d, times(times(s->inputs + s->outputs, s->outputs), gates));
    cost_then(&c, &layout);
    cost_then(&c, &layout);
  }
  return c;
}

Cost cost_lstm(const Target *t, Dtype d, Dtype partials, const RnnShape *s, bool backward,
               const PlanOptions *options) {
  return sequence(t, d, partials, s, 4, backward, options);
}

Cost cost_gru(const Target *t, Dtype d, Dtype partials, const RnnShape *s, bool backward,
              const PlanOptions *options) {
  return sequence(t, d, partials, s, 3, backward, options);
}

Cost cost_attention(const Target *t, Dtype d, Dtype partials, int64_t groups, int64_t rows, int64_t keys,
                    int64_t width, int64_t value_width, bool backward, const PlanOptions *options) {
  PlanOptions moved = options ? *options : (PlanOptions){0};
  moved.right_moved = true;
  Cost c = cost_matmul(t, d, partials, groups, rows, width, keys, &moved);
  Cost softmax = cost_softmax(t, d, times(groups, rows), keys, false);
  cost_then(&c, &softmax);
  if (!backward) {
    Cost values = cost_matmul(t, d, partials, groups, rows, keys, value_width, options);
    cost_then(&c, &values);
    return c;
  }
  Cost grad = cost_softmax(t, d, times(groups, rows), keys, true);
  cost_then(&c, &grad);
  Cost parts[] = {cost_matmul(t, d, partials, groups, rows, value_width, keys, &moved),
                  cost_matmul(t, d, partials, groups, keys, rows, value_width, &moved),
                  cost_matmul(t, d, partials, groups, rows, keys, width, options),
                  cost_matmul(t, d, partials, groups, keys, rows, width, &moved)};
  for (int i = 0; i < 4; i++) cost_then(&c, &parts[i]);
  return c;
}
