/* The simple recurrence, h = activation(x kernel + h recurrent + bias). rnn.h has the parts that
 * all recurrences share. */
#include "ops/recurrent/rnn.h"

enum { S_X, S_KERNEL, S_RECURRENT, S_BIAS, S_H, S_MASK };
enum { SO_Y, SO_H, SO_GATES, SO_BEFORE };
enum { SG_DY, SG_DH, SG_RECURRENT, SG_GATES, SG_MASK };
enum { S_ZERO_OUTPUT, S_ACTIVATION };

static const struct Activation {
  const char *name;
  Elementwise map, grad; /* grad takes (dy, y) */
  const char *row, *grad_row;
} activations[] = {{"tanh", EW_TANH, EW_TANH_GRAD, "tanh", "tanh_grad"},
                   {"relu", EW_RELU, EW_RELU_GRAD, "nn.relu", "relu_grad"},
                   {"sigmoid", EW_SIGMOID, EW_SIGMOID_GRAD, "sigmoid", "sigmoid_grad"}};
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

static const struct Activation *activation_of(const Node *n) {
  for (int i = 0; i < ACTIVATIONS; i++)
    if (nn_is(&n->attr[S_ACTIVATION], activations[i].name)) return &activations[i];
  return NULL;
}
static Status want_activation(Error *e, const Node *n) {
  const char *given = n->attr[S_ACTIVATION].s;
  return activation_of(n) ? OK
                          : fail(e, ERR_VALUE, "activation must be tanh, relu or sigmoid, got %s",
                                 given ? given : "nothing");
}

static Status infer_simple(Error *e, Node *n) {
  Sequence s;
  Status status = nn_want_float(e, n, 0, (int)min(n->in_count, S_MASK));
  if (status == OK) status = want_activation(e, n);
  if (status == OK) status = rnn_forward_sequence(e, n, 1, &s);
  if (status == OK) status = rnn_want(e, n, S_BIAS, "bias", 1, (int64_t[]){s.units});
  if (status == OK) status = rnn_want(e, n, S_H, "initial_h", 2, (int64_t[]){s.batch, s.units});
  if (status == OK) status = rnn_want_mask(e, n, S_MASK, &s);
  if (status != OK) return status;
  n->out[SO_Y].type = n->out[SO_GATES].type = n->out[SO_BEFORE].type =
      rnn_sequence_type(n, &s, s.units);
  n->out[SO_H].type = rnn_state_type(n, &s);
  return OK;
}

static void simple_row(const RecurrenceChunk *w, int64_t row, int64_t t, const char *z, char *h) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size;
  char *gates = rnn_at(w, c->out[SO_GATES], row, t, s->units);
  memcpy(rnn_at(w, c->out[SO_BEFORE], row, t, s->units), h, bytes);
  rnn_add(c, s->dtype, gates, z, gates, s->units);
  if (c->in_count > S_BIAS) rnn_add(c, s->dtype, gates, c->in[S_BIAS], gates, s->units);
  rnn_apply(c, activation_of(c->node)->map, s->dtype, gates, gates, s->units);
  if (!rnn_is_masked(w, row, t)) memcpy(h, gates, bytes);
  rnn_put_output(w, c->out[SO_Y], row, t, h);
}

static void simple_chunk(void *context, int64_t chunk, void *scratch) {
  const RecurrenceChunk *w = context;
  const Sequence *s = &w->s;
  int64_t first, rows = rnn_rows_of(s, chunk, &first);
  size_t bytes = (size_t)s->units * s->size;
  Room room = {scratch, 0};
  BackSlot p = rnn_back_slot(&room, s);
  rnn_start_state(w, S_H, first, rows, p.dh);
  for (int64_t t = 0; t < s->steps; t++) {
    rnn_multiply(w, 0, p.dh, s->units, rows, p.dz, s->units, false, first * s->steps + t);
    for (int64_t i = 0; i < rows; i++)
      simple_row(w, first + i, t, p.dz + (size_t)i * bytes, p.dh + (size_t)i * bytes);
  }
  rnn_end_state(w, SO_H, first, rows, p.dh);
}

static const Recurrence simple_forward = {.times = 1,
                                          .gates = SO_GATES,
                                          .mask = S_MASK,
                                          .recurrent = S_RECURRENT,
                                          .zero = S_ZERO_OUTPUT,
                                          .slot_bytes = rnn_back_slot_bytes,
                                          .task = simple_chunk};
static Status inner_simple(const Call *c) { return rnn_run(c, &simple_forward); }
static Status eval_simple(const Call *c) { return eval_wide(c, inner_simple); }
static size_t scratch_simple(const Node *n) { return rnn_scratch(n, &simple_forward); }

static Status infer_simple_grad(Error *e, Node *n) {
  Sequence s;
  Status status = nn_want_float(e, n, 0, SG_MASK);
  if (status == OK) status = want_activation(e, n);
  if (status == OK) status = rnn_check_backward(e, n, SG_GATES, 1, &s);
  if (status == OK) status = rnn_want(e, n, SG_DH, "dh", 2, (int64_t[]){s.batch, s.units});
  if (status == OK)
    status = rnn_want(e, n, SG_RECURRENT, "recurrent_kernel", 2, (int64_t[]){s.units, s.units});
  if (status == OK) status = rnn_want_mask(e, n, SG_MASK, &s);
  if (status != OK) return status;
  n->out[0].type = rnn_sequence_type(n, &s, s.units);
  n->out[1].type = rnn_state_type(n, &s);
  return OK;
}

static void simple_row_grad(const RecurrenceChunk *w, int64_t row, int64_t t, char *dh, char *late,
                            char *dz) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size;
  rnn_take_output_grad(w, c->in[SG_DY], row, t, dh, late);
  if (rnn_is_masked(w, row, t)) memset(dz, 0, bytes);
  else
    c->kernels->strip[activation_of(c->node)->grad][s->dtype](
        (const void *[]){dh, rnn_at(w, c->in[SG_GATES], row, t, s->units)}, 0, dz, s->units, NULL);
  memcpy(rnn_at(w, c->out[0], row, t, s->units), dz, bytes);
}

static void simple_grad_chunk(void *context, int64_t chunk, void *scratch) {
  const RecurrenceChunk *w = context;
  const Sequence *s = &w->s;
  int64_t first, rows = rnn_rows_of(s, chunk, &first);
  size_t bytes = (size_t)s->units * s->size;
  Room room = {scratch, 0};
  BackSlot p = rnn_back_slot(&room, s);
  rnn_start_state(w, SG_DH, first, rows, p.dh);
  memset(p.late, 0, (size_t)rows * bytes);
  for (int64_t t = s->steps - 1; t >= 0; t--) {
    for (int64_t i = 0; i < rows; i++) {
      size_t at_row = (size_t)i * bytes;
      simple_row_grad(w, first + i, t, p.dh + at_row, p.late + at_row, p.dz + at_row);
    }
    rnn_multiply(w, 0, p.dz, s->units, rows, p.next, s->units, false, first * s->steps + t);
    rnn_keep_masked(w, first, rows, t, p.dh, p.next);
    memcpy(p.dh, p.next, (size_t)rows * bytes);
  }
  rnn_end_state(w, 1, first, rows, p.dh);
}

static const Recurrence simple_backward = {.backward = true,
                                           .times = 1,
                                           .gates = SG_GATES,
                                           .mask = SG_MASK,
                                           .recurrent = SG_RECURRENT,
                                           .zero = S_ZERO_OUTPUT,
                                           .slot_bytes = rnn_back_slot_bytes,
                                           .task = simple_grad_chunk};
static Status inner_simple_grad(const Call *c) { return rnn_run(c, &simple_backward); }
static Status eval_simple_grad(const Call *c) { return eval_wide(c, inner_simple_grad); }
static size_t scratch_simple_grad(const Node *n) { return rnn_scratch(n, &simple_backward); }

static void grad_simple(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  bool masked = n->in_count > S_MASK;
  if (!dy[SO_Y] && !dy[SO_H]) return;
  Value *in[MAX_INPUTS] = {rnn_or_zeros(g, dy[SO_Y], &n->out[SO_Y].type),
                           rnn_or_zeros(g, dy[SO_H], &n->out[SO_H].type), n->in[S_RECURRENT],
                           (Value *)(uintptr_t)&n->out[SO_GATES], masked ? n->in[S_MASK] : NULL};
  Attr attrs[MAX_ATTRS] = {n->attr[S_ZERO_OUTPUT], n->attr[S_ACTIVATION]};
  Node *back = graph_node(g, op_find("nn.simple_rnn_grad"), in, masked ? 5 : 4, attrs);
  if (!back) return;
  Value *dgates = rnn_flat(g, &back->out[0]);
  rnn_grad_inputs(g, n, dgates, dx);
  dx[S_RECURRENT] =
      ops_matmul(g, rnn_flat(g, (Value *)(uintptr_t)&n->out[SO_BEFORE]), dgates, true, false);
  if (n->in_count > S_BIAS) dx[S_BIAS] = rnn_column_sum(g, dgates);
  if (n->in_count > S_H) dx[S_H] = &back->out[1];
}

/* ---- of other ops ---- */

static void compose_simple(Graph *g, const Node *n, Value **out) {
  Written w = rnn_write(g, n, S_MASK, &n->out[SO_Y].type);
  Value *all = rnn_project(g, n);
  if (n->in_count > S_BIAS) all = ops_add(g, all, n->in[S_BIAS]);
  Value **z = rnn_steps(&w, all), **y = rnn_room(&w), **gates = rnn_room(&w),
        **before = rnn_room(&w);
  Value *h = rnn_state(&w, n, S_H);
  for (int64_t t = 0; t < w.steps; t++) {
    before[t] = h;
    gates[t] = op1(g, activation_of(n)->row,
                   ops_add(g, z[t], ops_matmul(g, h, n->in[S_RECURRENT], false, false)));
    h = rnn_unmasked(&w, t, gates[t], h);
    y[t] = rnn_output(&w, t, h, t ? y[t - 1] : w.nothing);
  }
  out[SO_Y] = rnn_sequence(&w, y, &n->out[SO_Y].type);
  out[SO_H] = h;
  out[SO_GATES] = rnn_sequence(&w, gates, &n->out[SO_Y].type);
  out[SO_BEFORE] = rnn_sequence(&w, before, &n->out[SO_Y].type);
}

static void compose_simple_grad(Graph *g, const Node *n, Value **out) {
  Written w = rnn_write(g, n, SG_MASK, &n->in[SG_DY]->type);
  Value **dy = rnn_steps(&w, n->in[SG_DY]), **gates = rnn_steps(&w, n->in[SG_GATES]),
        **dz = rnn_room(&w);
  Value *dh = n->in[SG_DH], *late = w.nothing;
  for (int64_t t = w.steps - 1; t >= 0; t--) {
    rnn_output_grad(&w, t, dy[t], &dh, &late);
    Value *slope = op2(g, activation_of(n)->grad_row, dh, gates[t]);
    dz[t] = rnn_unmasked(&w, t, slope, w.nothing);
    dh = rnn_unmasked(&w, t, rnn_back(g, slope, n->in[SG_RECURRENT]), dh);
  }
  out[0] = rnn_sequence(&w, dz, &n->out[0].type);
  out[1] = dh;
}

#define A_ACTIVATION               \
  {.name = "activation",           \
   .kind = ATTR_STRING,            \
   .fallback = "'tanh'",           \
   .choices = "tanh relu sigmoid", \
   .summary = "Function that is applied to the sum."}

static void cost_forward(const Target *t, const Node *n, Cost *c) { rnn_cost_forward(t, n, 1, c); }
static void cost_backward(const Target *t, const Node *n, Cost *c) {
  rnn_cost_backward(t, n, 1, c);
}

const OpDef ops_simple_rnn[] = {
    {.name = "nn.simple_rnn",
     .source = "Elman, Finding structure in time, 1990",
     .summary =
         "h = activation(x kernel + h recurrent_kernel + bias) over sequences. Returns all outputs and "
         "the last state.",
     .shapes = "[n, t, f], [f, u], [u, u], [u], [n, u], [n, t] → [n, t, u], [n, u]",
     .inputs = {"x", "kernel", "recurrent_kernel", "bias?", "initial_h?", "mask?"},
     .attrs = {A_ZERO, A_ACTIVATION},
     .outputs = 4,
     .visible_outputs = 2,
     .infer = infer_simple,
     .eval = eval_simple,
     .scratch = scratch_simple,
     .cost = cost_forward,
     .grad = grad_simple,
     .compose = compose_simple,
     .sample =
         "F[2,3,4] F[4,3] F[3,3] F[3] F[2,3] | F[2,4,3] F[3,2] F[2,2] F[2] F[2,2] B[2,4] | F[3,4,2] F[2,5] "
         "F[5,5] {activation = 'sigmoid'} | "
         "F[2,4,3] F[3,2] F[2,2] F[2] F[2,2] B[2,4] {zero_output_for_mask = true, activation = 'relu'}"},
    {.name = "nn.simple_rnn_grad",
     .summary =
         "The gradient of the simple recurrence before its activation and in its initial state.",
     .shapes = "dy, dh, recurrent kernel, outputs of steps, mask → dgates, dh",
     .inputs = {"dy", "dh", "recurrent_kernel", "gates", "mask?"},
     .attrs = {A_ZERO, A_ACTIVATION},
     .traits = INTERNAL,
     .outputs = 2,
     .compose = compose_simple_grad,
     .infer = infer_simple_grad,
     .eval = eval_simple_grad,
     .scratch = scratch_simple_grad,
     .cost = cost_backward,
     .sample = "F[2,3,2] F[2,2] F[2,2] U[2,3,2] | F[2,3,2] F[2,2] F[2,2] U[2,3,2] B[2,3]"},
    {0}};
