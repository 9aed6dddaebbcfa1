/* Layers that step through a sequence, and attention.
 *
 * A time step has the operations of PopLibs' popnn (Lstm.cpp, Gru.cpp, Rnn.cpp). The sequence is
 * read and written by slices. The product's result gets the layout of the state. Then follow passes
 * over the gates. Their tensors [batch, outputs] all have one layout, so nothing is exchanged
 * between these passes. */
#include <math.h>

#include "target/plan.h"

typedef struct Layer {
  const Target *t;
  Dtype d, partials;
  const RnnShape *s;
  const PlanOptions *options;
  int64_t state, input; /* elements of one step: batch x outputs, batch x inputs */
} Layer;

/* Of one [batch, outputs] tensor on the fullest tile: grains of 16 neighbours aren't cut. */
static double state_share(const Layer *l) {
  int64_t grain = common_divisor(16, l->s->outputs);
  return (double)(ceil_div(l->state / grain, l->t->tiles) * grain);
}

/* One pass over `tensors` of them. */
static void pass(Cost *c, const Layer *l, double tensors, int operands, double cycles_per_vector) {
  double prologue = pass_prologue(l->d, operands);
  cost_local(c, l->t, "gates",
             worker_cycles(l->t, prologue, tensors * state_share(l), cycles_per_vector,
                           vector_width(l->t, l->d)));
}

static void binary(Cost *c, const Layer *l, double tensors) {
  pass(c, l, tensors, 2, VECTOR(MUL, l->d));
}

static void derivative(Cost *c, const Layer *l, double tensors) {
  pass(c, l, tensors, 2, VECTOR(GRADIENT, l->d));
}

/* Sigmoids and hyperbolic tangents in one compute set. */
static void gates(Cost *c, const Layer *l, double sigmoids, double tangents) {
  double all = sigmoids + tangents;
  double cycles = sigmoids * VECTOR(SIGMOID, l->d) + tangents * VECTOR(TANH, l->d);
  pass(c, l, all, 1, cycles / all);
}

/* Several operations in one vertex: no loads and stores between them, which are two of the
 * cycles of each. */
static double fused(double first, double second, double third) {
  return first + second - 2 + (third > 0 ? third - 2 : 0);
}

static void slice(Cost *c, const Layer *l, int64_t elements) {
  Cost part = cost_slice(l->t, l->d, elements);
  cost_then(c, &part);
}

/* Every step counts itself, on one tile. */
static void count_step(Cost *c, const Layer *l) {
  cost_local(
      c, l->t, "count",
      worker_cycles(l->t, pass_prologue(I32, 2), 1, VECTOR(ADD, I32), vector_width(l->t, I32)));
}

/* Inputs and state side by side times the weights of some gates; the weights stay where they
 * are. */
static void product(Cost *c, const Layer *l, int64_t count, bool backward) {
  PlanOptions held = l->options ? *l->options : (PlanOptions){0};
  held.resident = true;
  int64_t in = l->s->inputs + l->s->outputs, out = times(count, l->s->outputs),
          from = backward ? out : in, to = backward ? in : out;
  Cost p = cost_matmul(l->t, l->d, l->partials, 1, l->s->batch, from, to, &held);
  Cost laid = cost_transpose(l->t, l->d, times(l->s->batch, to));
  cost_then(c, &p);
  cost_then(c, &laid);
}

/* ... and their gradient, added up over the steps. */
static void weight_gradient(Cost *c, const Layer *l, int64_t count) {
  PlanOptions add = l->options ? *l->options : (PlanOptions){0};
  add.left_moved = add.right_moved = add.accumulate = true;
  Cost p = cost_matmul(l->t, l->d, l->partials, 1, l->s->inputs + l->s->outputs, l->s->batch,
                       times(count, l->s->outputs), &add);
  cost_then(c, &p);
}

static void copy(Cost *c, const Layer *l, int64_t elements) {
  Cost part = cost_copy(l->t, to_extent((double)elements * element_bytes(l->d)));
  cost_then(c, &part);
}

static Cost lstm_forward(const Layer *l) {
  Cost c = cost_free();
  slice(&c, l, l->input);
  product(&c, l, 4, false);
  binary(&c, l, 4); /* bias */
  gates(&c, l, 3, 1);
  binary(&c, l, 2); /* forget x cell, input x candidate */
  binary(&c, l, 1);
  if (l->s->training) {
    gates(&c, l, 0, 1);
    binary(&c, l, 1);
    slice(&c, l, 6 * l->state); /* four gates, tanh, the cell before */
    copy(&c, l, 2 * l->state);
  } else pass(&c, l, 1, 2, fused(VECTOR(TANH, l->d), VECTOR(MUL, l->d), 0));
  slice(&c, l, l->state);
  count_step(&c, l);
  return c;
}

static Cost lstm_backward(const Layer *l) {
  Cost c = cost_free();
  slice(&c, l, l->state); /* the output's gradient */
  slice(&c, l, 6 * l->state);
  binary(&c, l, 1); /* the next step's gradient added */
  binary(&c, l, 2); /* x output gate, x tanh */
  derivative(&c, l, 2);
  binary(&c, l, 1);
  binary(&c, l, 4); /* of the cell: x input gate, candidate, cell before, forget gate */
  derivative(&c, l, 3);
  product(&c, l, 4, true);
  copy(&c, l, 2 * l->state);
  slice(&c, l, l->input);
  count_step(&c, l);
  return c;
}

static Cost gru_forward(const Layer *l) {
  Cost c = cost_free();
  slice(&c, l, l->input);
  product(&c, l, 2, false);
  binary(&c, l, 2);
  gates(&c, l, 2, 0);
  binary(&c, l, 1); /* reset x state */
  product(&c, l, 1, false);
  binary(&c, l, 1);
  gates(&c, l, 0, 1);
  pass(&c, l, 1, 3, fused(VECTOR(SUB, l->d), VECTOR(MUL, l->d), VECTOR(ADD, l->d)));
  if (l->s->training) {
    slice(&c, l, 3 * l->state);
    copy(&c, l, l->state);
  }
  slice(&c, l, l->state);
  count_step(&c, l);
  return c;
}

static Cost gru_backward(const Layer *l) {
  Cost c = cost_free();
  slice(&c, l, l->state);
  slice(&c, l, l->state);
  slice(&c, l, 3 * l->state);
  binary(&c, l, 1);
  binary(&c, l, 1); /* 1 - update */
  binary(&c, l, 1); /* state - candidate */
  binary(&c, l, 2);
  derivative(&c, l, 2);
  product(&c, l, 1, true);
  binary(&c, l, 1);
  derivative(&c, l, 1);
  product(&c, l, 2, true);
  /* gradients of both products */
  Cost inputs = cost_elementwise(l->t, l->d, l->input, 2, VECTOR(ADD, l->d));
  cost_then(&c, &inputs);
  /* the state's: two products and three terms */
  pass(&c, l, 1, 5, fused(VECTOR(MUL, l->d), VECTOR(MUL, l->d), VECTOR(ADD, l->d)) + 1);
  copy(&c, l, l->state);
  slice(&c, l, l->input);
  count_step(&c, l);
  return c;
}

/* The weights' gradients come from the backward loop if the gates' gradients of all steps would
 * take more memory than the transposed weights. Otherwise a second loop reads the values that the
 * first one saved (PL interleavedWUIsBeneficial). */
static void add_gradients(Cost *c, const Layer *l, int count) {
  bool lstm = count == 4, apart = l->s->inputs + l->s->outputs > times(l->s->batch, l->s->steps);
  if (apart) {
    slice(c, l, count * l->state); /* saved */
    slice(c, l, count * l->state); /* read again */
    count_step(c, l);
  }
  /* the output before; a GRU's way back has read it, and its gates */
  if (lstm || apart) slice(c, l, l->state);
  if (!lstm && apart) slice(c, l, 3 * l->state);
  slice(c, l, l->input);
  if (lstm) weight_gradient(c, l, 4);
  else binary(c, l, 1), weight_gradient(c, l, 2), weight_gradient(c, l, 1);
  binary(c, l, count); /* of the biases, by row of the batch */
}

/* The slices and gates that a step holds while its products run. */
static void hold(Cost *c, const Layer *l, int count, bool backward) {
  int64_t saved = count == 4 ? 6 : 4,
          elements = l->input + (backward ? saved + count : count) * l->state;
  double bytes = (double)elements * element_bytes(l->d);
  c->bytes[MEMORY_TEMPORARY] += bytes / (double)l->t->tiles;
  c->temporary_total += bytes;
}

/* Of a step's tensor [batch, width]: bytes of a tile, and tiles that have some. */
typedef struct StepShare {
  double bytes, tiles;
} StepShare;

static StepShare share_step(const Layer *l, int64_t width) {
  if (width <= 0) return (StepShare){0, 1};
  int64_t grain = common_divisor(16, width), grains = times(l->s->batch, width / grain),
          each = ceil_div(grains, l->t->tiles);
  return (StepShare){(double)(each * grain) * element_bytes(l->d), (double)ceil_div(grains, each)};
}

/* PL getNumShards: the steps of a sequence lie on the same tiles up to a tenth of their memory.
 * More steps go to other tiles, as long as there are some, and have a loop of their own. */
static double count_shards(const Layer *l, int count) {
  StepShare in = share_step(l, l->s->inputs), out = share_step(l, l->s->outputs);
  double kept = count == 4 ? 6 : 3, steps = (double)l->s->steps;
  double bytes = (in.bytes + out.bytes * (1 + kept)) * steps,
         most = fmax(1, floor((double)l->t->tiles / fmax(in.tiles, out.tiles)));
  return fmin(ceil_ratio(bytes, 0.1 * (double)l->t->tile_bytes),
              ceil_ratio(steps, ceil_ratio(steps, most)));
}

/* Each loop but the first takes its state over from the one before. A loop has vertices and
 * exchanges of its own. */
static void add_shards(Cost *c, const Layer *l, int count) {
  double shards = count_shards(l, count);
  if (shards <= 1) return;
  Cost moved = cost_free();
  copy(&moved, l, (count == 4 ? 2 : 1) * l->state);
  cost_repeat(&moved, shards - 1);
  cost_then(c, &moved);
  c->bytes[MEMORY_VERTEX_STATE] *= shards, c->bytes[MEMORY_EXCHANGE_CODE] *= shards;
}

static Cost sequence(const Target *t, Dtype d, Dtype partials, const RnnShape *shape, int count,
                     bool backward, const PlanOptions *options) {
  RnnShape s = *shape;
  s.batch = clamp_extent(s.batch), s.steps = clamp_extent(s.steps),
  s.inputs = clamp_extent(s.inputs), s.outputs = clamp_extent(s.outputs);
  if (s.batch <= 0 || s.steps <= 0 || s.inputs <= 0 || s.outputs <= 0) return cost_free();
  bool apart = backward && s.gradients_apart;
  if (apart) s.inputs = 0;
  Layer l = {t, d, partials, &s, options, times(s.batch, s.outputs), times(s.batch, s.inputs)};
  Cost c = count == 4 ? (backward ? lstm_backward(&l) : lstm_forward(&l))
                      : (backward ? gru_backward(&l) : gru_forward(&l));
  if (apart) slice(&c, &l, count * l.state);
  else if (backward) add_gradients(&c, &l, count);
  cost_repeat(&c, (double)s.steps);
  add_shards(&c, &l, count);
  hold(&c, &l, count, backward);
  if (!backward) return c;
  Cost once = cost_transpose(t, d, times(times(s.inputs + s.outputs, s.outputs), count));
  Cost biases = apart ? cost_free() : cost_reduce(t, d, COST_SUM, count, s.batch, s.outputs);
  cost_then(&once, &biases);
  cost_then(&c, &once);
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

Cost cost_attention(const Target *t, Dtype d, Dtype partials, int64_t groups, int64_t rows,
                    int64_t keys, int64_t width, int64_t value_width, bool backward) {
  PlanOptions moved = {.right_moved = true};
  Cost c = cost_matmul(t, d, partials, groups, rows, width, keys, &moved);
  Cost softmax = cost_softmax(t, d, times(groups, rows), keys, false);
  cost_then(&c, &softmax);
  if (!backward) {
    Cost values = cost_matmul(t, d, partials, groups, rows, keys, value_width, NULL);
    cost_then(&c, &values);
    return c;
  }
  Cost grad = cost_softmax(t, d, times(groups, rows), keys, true);
  cost_then(&c, &grad);
  Cost parts[] = {cost_matmul(t, d, partials, groups, rows, value_width, keys, &moved),
                  cost_matmul(t, d, partials, groups, keys, rows, value_width, &moved),
                  cost_matmul(t, d, partials, groups, rows, keys, width, NULL),
                  cost_matmul(t, d, partials, groups, keys, rows, width, &moved)};
  for (int i = 0; i < 4; i++) cost_then(&c, &parts[i]);
  return c;
}
