/* The long short-term memory. rnn.h has the parts that all recurrences share. */
#include "ops/recurrent/rnn.h"

enum { L_X, L_KERNEL, L_RECURRENT, L_BIAS, L_H, L_C, L_MASK };
enum { LO_Y, LO_H, LO_C, LO_GATES, LO_BEFORE_H, LO_BEFORE_C };
enum { LG_DY, LG_DH, LG_DC, LG_RECURRENT, LG_GATES, LG_BEFORE_C, LG_MASK };

static Status infer_lstm(Error *e, Node *n) {
  Sequence s;
  Status status = nn_want_float(e, n, 0, (int)min(n->in_count, L_MASK));
  if (status == OK) status = rnn_forward_sequence(e, n, 4, &s);
  if (status == OK) status = rnn_want(e, n, L_BIAS, "bias", 1, (int64_t[]){4 * s.units});
  if (status == OK) status = rnn_want(e, n, L_H, "initial_h", 2, (int64_t[]){s.batch, s.units});
  if (status == OK) status = rnn_want(e, n, L_C, "initial_c", 2, (int64_t[]){s.batch, s.units});
  if (status == OK) status = rnn_want_mask(e, n, L_MASK, &s);
  if (status != OK) return status;
  n->out[LO_Y].type = n->out[LO_BEFORE_H].type = n->out[LO_BEFORE_C].type =
      rnn_sequence_type(n, &s, s.units);
  n->out[LO_H].type = n->out[LO_C].type = rnn_state_type(n, &s);
  n->out[LO_GATES].type = rnn_sequence_type(n, &s, 4 * s.units);
  return OK;
}

/* A slot's memory: state of the rows, the recurrent part of their gates. */
typedef struct LstmSlot {
  char *h, *c, *z;
} LstmSlot;
static LstmSlot lstm_slot(Room *r, const Sequence *s) {
  size_t state = (size_t)(rnn_chunk_rows(s->batch) * s->units) * s->size;
  LstmSlot p;
  p.h = room_take(r, state), p.c = room_take(r, state), p.z = room_take(r, 4 * state);
  return p;
}

static void lstm_row(const RecurrenceChunk *w, int64_t row, int64_t t, const LstmSlot *p,
                     int64_t slot_row) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size;
  char *h = p->h + (size_t)slot_row * bytes, *cell = p->c + (size_t)slot_row * bytes;
  char *gates = rnn_at(w, c->out[LO_GATES], row, t, 4 * s->units),
       *before = rnn_at(w, c->out[LO_BEFORE_C], row, t, s->units);
  memcpy(rnn_at(w, c->out[LO_BEFORE_H], row, t, s->units), h, bytes);
  memcpy(before, cell, bytes);
  if (rnn_is_masked(w, row, t)) {
    memset(gates, 0, 4 * bytes);
  } else {
    c->kernels->lstm_cell[s->dtype](s->units, gates, p->z + (size_t)slot_row * 4 * bytes,
                                    c->in_count > L_BIAS ? c->in[L_BIAS] : NULL, before, cell, h);
  }
  rnn_put_output(w, c->out[LO_Y], row, t, h);
}

static void lstm_chunk(void *context, int64_t chunk, void *scratch) {
  const RecurrenceChunk *w = context;
  const Sequence *s = &w->s;
  int64_t first, rows = rnn_rows_of(s, chunk, &first);
  Room room = {scratch, 0};
  LstmSlot p = lstm_slot(&room, s);
  rnn_start_state(w, L_H, first, rows, p.h);
  rnn_start_state(w, L_C, first, rows, p.c);
  for (int64_t t = 0; t < s->steps; t++) {
    rnn_multiply(w, 0, p.h, s->units, rows, p.z, 4 * s->units, false, first * s->steps + t);
    for (int64_t i = 0; i < rows; i++) lstm_row(w, first + i, t, &p, i);
  }
  rnn_end_state(w, LO_H, first, rows, p.h);
  rnn_end_state(w, LO_C, first, rows, p.c);
}

static size_t lstm_slot_bytes(const Sequence *s) {
  Room r = {0};
  lstm_slot(&r, s);
  return r.used;
}

static const Recurrence lstm_forward = {.times = 4,
                                        .gates = LO_GATES,
                                        .mask = L_MASK,
                                        .recurrent = L_RECURRENT,
                                        .zero = ZERO_OUTPUT,
                                        .slot_bytes = lstm_slot_bytes,
                                        .task = lstm_chunk};
static Status inner_lstm(const Call *c) { return rnn_run(c, &lstm_forward); }
static Status eval_lstm(const Call *c) { return eval_wide(c, inner_lstm); }
static size_t scratch_lstm(const Node *n) { return rnn_scratch(n, &lstm_forward); }

static Status infer_lstm_grad(Error *e, Node *n) {
  Sequence s;
  Status status = nn_want_float(e, n, 0, LG_MASK);
  if (status == OK) status = rnn_check_backward(e, n, LG_GATES, 4, &s);
  if (status == OK) status = rnn_want(e, n, LG_DH, "dh", 2, (int64_t[]){s.batch, s.units});
  if (status == OK) status = rnn_want(e, n, LG_DC, "dc", 2, (int64_t[]){s.batch, s.units});
  if (status == OK)
    status = rnn_want(e, n, LG_RECURRENT, "recurrent_kernel", 2, (int64_t[]){s.units, 4 * s.units});
  if (status == OK)
    status = rnn_want(e, n, LG_BEFORE_C, "before_c", 3, (int64_t[]){s.batch, s.steps, s.units});
  if (status == OK) status = rnn_want_mask(e, n, LG_MASK, &s);
  if (status != OK) return status;
  n->out[0].type = rnn_sequence_type(n, &s, 4 * s.units);
  n->out[1].type = n->out[2].type = rnn_state_type(n, &s);
  return OK;
}

static void lstm_row_grad(const RecurrenceChunk *w, int64_t row, int64_t t, const BackSlot *p,
                          int64_t slot_row) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size, at_row = (size_t)slot_row * bytes;
  char *dz = p->dz + 4 * at_row;
  rnn_take_output_grad(w, c->in[LG_DY], row, t, p->dh + at_row, p->late + at_row);
  if (rnn_is_masked(w, row, t)) {
    memset(dz, 0, 4 * bytes);
  } else {
    const char *gates = rnn_at(w, c->in[LG_GATES], row, t, 4 * s->units),
               *before = rnn_at(w, c->in[LG_BEFORE_C], row, t, s->units);
    c->kernels->lstm_cell_grad[s->dtype](s->units, gates, before, p->dh + at_row, p->dc + at_row,
                                         dz);
  }
  memcpy(rnn_at(w, c->out[0], row, t, 4 * s->units), dz, 4 * bytes);
}

static void lstm_grad_chunk(void *context, int64_t chunk, void *scratch) {
  const RecurrenceChunk *w = context;
  const Sequence *s = &w->s;
  int64_t first, rows = rnn_rows_of(s, chunk, &first);
  Room room = {scratch, 0};
  BackSlot p = rnn_back_slot(&room, s);
  rnn_start_state(w, LG_DH, first, rows, p.dh);
  rnn_start_state(w, LG_DC, first, rows, p.dc);
  memset(p.late, 0, (size_t)(rows * s->units) * s->size);
  for (int64_t t = s->steps - 1; t >= 0; t--) {
    for (int64_t i = 0; i < rows; i++) lstm_row_grad(w, first + i, t, &p, i);
    rnn_multiply(w, 0, p.dz, 4 * s->units, rows, p.next, s->units, false, first * s->steps + t);
    rnn_keep_masked(w, first, rows, t, p.dh, p.next);
    char *swap = p.dh;
    p.dh = p.next;
    p.next = swap;
  }
  rnn_end_state(w, 1, first, rows, p.dh);
  rnn_end_state(w, 2, first, rows, p.dc);
}

static const Recurrence lstm_backward = {.backward = true,
                                         .times = 4,
                                         .gates = LG_GATES,
                                         .mask = LG_MASK,
                                         .recurrent = LG_RECURRENT,
                                         .zero = ZERO_OUTPUT,
                                         .slot_bytes = rnn_back_slot_bytes,
                                         .task = lstm_grad_chunk};
static Status inner_lstm_grad(const Call *c) { return rnn_run(c, &lstm_backward); }
static Status eval_lstm_grad(const Call *c) { return eval_wide(c, inner_lstm_grad); }
static size_t scratch_lstm_grad(const Node *n) { return rnn_scratch(n, &lstm_backward); }

static void grad_lstm(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  if (!dy[LO_Y] && !dy[LO_H] && !dy[LO_C]) return;
  Value *in[MAX_INPUTS] = {
      rnn_or_zeros(g, dy[LO_Y], &n->out[LO_Y].type), rnn_or_zeros(g, dy[LO_H], &n->out[LO_H].type),
      rnn_or_zeros(g, dy[LO_C], &n->out[LO_C].type), n->in[L_RECURRENT],
      (Value *)(uintptr_t)&n->out[LO_GATES],         (Value *)(uintptr_t)&n->out[LO_BEFORE_C],
      n->in_count > L_MASK ? n->in[L_MASK] : NULL};
  Node *back = graph_node(g, op_find("nn.lstm_grad"), in, n->in_count > L_MASK ? 7 : 6,
                          (Attr[MAX_ATTRS]){n->attr[ZERO_OUTPUT]});
  if (!back) return;
  Value *dgates = rnn_flat(g, &back->out[0]);
  rnn_grad_inputs(g, n, dgates, dx);
  dx[L_RECURRENT] =
      ops_matmul(g, rnn_flat(g, (Value *)(uintptr_t)&n->out[LO_BEFORE_H]), dgates, true, false);
  if (n->in_count > L_BIAS) dx[L_BIAS] = rnn_column_sum(g, dgates);
  if (n->in_count > L_H) dx[L_H] = &back->out[1];
  if (n->in_count > L_C) dx[L_C] = &back->out[2];
}

/* ---- of other ops ---- */

static void compose_lstm(Graph *g, const Node *n, Value **out) {
  Written w = rnn_write(g, n, L_MASK, &n->out[LO_Y].type);
  Value *all = rnn_project(g, n);
  if (n->in_count > L_BIAS) all = ops_add(g, all, n->in[L_BIAS]);
  Value **z = rnn_steps(&w, all), **y = rnn_room(&w), **gates = rnn_room(&w),
        **before_h = rnn_room(&w), **before_c = rnn_room(&w);
  Value *h = rnn_state(&w, n, L_H), *c = rnn_state(&w, n, L_C);
  for (int64_t t = 0; t < w.steps; t++) {
    before_h[t] = h, before_c[t] = c;
    Gates a =
        rnn_split(&w, ops_add(g, z[t], ops_matmul(g, h, n->in[L_RECURRENT], false, false)), 4);
    for (int k = 0; k < 4; k++) a.part[k] = op1(g, k == 2 ? "tanh" : "sigmoid", a.part[k]);
    gates[t] = rnn_unmasked(&w, t, rnn_join(&w, &a, 4), w.number);
    Value *cell = ops_add(g, ops_mul(g, a.part[1], c), ops_mul(g, a.part[0], a.part[2]));
    h = rnn_unmasked(&w, t, ops_mul(g, a.part[3], op1(g, "tanh", cell)), h);
    c = rnn_unmasked(&w, t, cell, c);
    y[t] = rnn_output(&w, t, h, t ? y[t - 1] : w.nothing);
  }
  out[LO_Y] = rnn_sequence(&w, y, &n->out[LO_Y].type);
  out[LO_H] = h, out[LO_C] = c;
  out[LO_GATES] = rnn_sequence(&w, gates, &n->out[LO_GATES].type);
  out[LO_BEFORE_H] = rnn_sequence(&w, before_h, &n->out[LO_Y].type);
  out[LO_BEFORE_C] = rnn_sequence(&w, before_c, &n->out[LO_Y].type);
}

static void compose_lstm_grad(Graph *g, const Node *n, Value **out) {
  Written w = rnn_write(g, n, LG_MASK, &n->in[LG_DY]->type);
  Value **dy = rnn_steps(&w, n->in[LG_DY]), **gates = rnn_steps(&w, n->in[LG_GATES]),
        **before = rnn_steps(&w, n->in[LG_BEFORE_C]), **dz = rnn_room(&w);
  Value *dh = n->in[LG_DH], *dc = n->in[LG_DC], *late = w.nothing;
  for (int64_t t = w.steps - 1; t >= 0; t--) {
    Gates a = rnn_split(&w, gates[t], 4), d;
    Value *i = a.part[0], *f = a.part[1], *candidate = a.part[2], *o = a.part[3];
    Value *cell = op1(g, "tanh", ops_add(g, ops_mul(g, f, before[t]), ops_mul(g, i, candidate)));
    rnn_output_grad(&w, t, dy[t], &dh, &late);
    Value *through = ops_add(g, dc, op2(g, "tanh_grad", ops_mul(g, dh, o), cell));
    d.part[0] = op2(g, "sigmoid_grad", ops_mul(g, through, candidate), i);
    d.part[1] = op2(g, "sigmoid_grad", ops_mul(g, through, before[t]), f);
    d.part[2] = op2(g, "tanh_grad", ops_mul(g, through, i), candidate);
    d.part[3] = op2(g, "sigmoid_grad", ops_mul(g, dh, cell), o);
    Value *all = rnn_join(&w, &d, 4);
    dz[t] = rnn_unmasked(&w, t, all, w.number);
    dc = rnn_unmasked(&w, t, ops_mul(g, through, f), dc);
    dh = rnn_unmasked(&w, t, rnn_back(g, all, n->in[LG_RECURRENT]), dh);
  }
  out[0] = rnn_sequence(&w, dz, &n->out[0].type);
  out[1] = dh, out[2] = dc;
}

static void cost_forward(const Target *t, const Node *n, Cost *c) { rnn_cost_forward(t, n, 4, c); }
static void cost_backward(const Target *t, const Node *n, Cost *c) {
  rnn_cost_backward(t, n, 4, c);
}

const OpDef ops_lstm[] = {
    {.name = "nn.lstm",
     .family = FAMILY_LSTM,
     .summary =
         "A long short-term memory over sequences; gates i, f, c, o. Returns all outputs, the last "
         "state and the last cell.",
     .shapes =
         "[n, t, f], [f, 4 u], [u, 4 u], [4 u], [n, u], [n, u], [n, t] → [n, t, u], [n, u], [n, u]",
     .source =
         "Hochreiter, Schmidhuber, Long short-term memory, 1997; forget gates as Gers et al., 2000",
     .inputs = {"x", "kernel", "recurrent_kernel", "bias?", "initial_h?", "initial_c?", "mask?"},
     .attrs = {A_ZERO},
     .outputs = 6,
     .visible_outputs = 3,
     .infer = infer_lstm,
     .eval = eval_lstm,
     .scratch = scratch_lstm,
     .cost = cost_forward,
     .grad = grad_lstm,
     .compose = compose_lstm,
     .sample = "F[2,3,4] F[4,8] F[2,8] F[8] F[2,2] F[2,2] | F[3,4,2] F[2,12] F[3,12] | "
               "F[2,4,3] F[3,8] F[2,8] F[8] F[2,2] F[2,2] B[2,4] | "
               "F[2,4,3] F[3,8] F[2,8] F[8] F[2,2] F[2,2] B[2,4] {zero_output_for_mask = true}"},
    {.name = "nn.lstm_grad",
     .family = FAMILY_LSTM,
     .summary = "The gradient of an LSTM in its gates before activation and its initial states.",
     .shapes = "dy, dh, dc, recurrent kernel, gates, cells before, mask → dgates, dh, dc",
     .inputs = {"dy", "dh", "dc", "recurrent_kernel", "gates", "before_c", "mask?"},
     .attrs = {A_ZERO},
     .traits = INTERNAL,
     .outputs = 3,
     .compose = compose_lstm_grad,
     .infer = infer_lstm_grad,
     .eval = eval_lstm_grad,
     .scratch = scratch_lstm_grad,
     .cost = cost_backward,
     .sample =
         "F[2,3,2] F[2,2] F[2,2] F[2,8] U[2,3,8] F[2,3,2] | F[2,3,2] F[2,2] F[2,2] F[2,8] U[2,3,8] "
         "F[2,3,2] B[2,3]"},
    {0}};
