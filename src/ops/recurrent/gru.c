/* The gated recurrent unit. rnn.h has the parts that all recurrences share. */
#include "ops/recurrent/rnn.h"

enum { RESET_AFTER = ZERO_OUTPUT + 1 };
enum { R_X, R_KERNEL, R_RECURRENT, R_BIAS, R_H, R_MASK };
enum { RO_Y, RO_H, RO_GATES, RO_BEFORE, RO_INNER };
enum { RG_DY, RG_DH, RG_RECURRENT, RG_GATES, RG_BEFORE, RG_INNER, RG_MASK };

static Status infer_gru(Error *e, Node *n) {
  Sequence s;
  Status status = nn_want_float(e, n, 0, (int)min(n->in_count, R_MASK));
  if (status == OK) status = rnn_forward_sequence(e, n, 3, &s);
  if (status != OK) return status;
  bool after = n->attr[RESET_AFTER].i;
  status = after ? rnn_want(e, n, R_BIAS, "bias", 2, (int64_t[]){2, 3 * s.units})
                 : rnn_want(e, n, R_BIAS, "bias", 1, (int64_t[]){3 * s.units});
  if (status == OK) status = rnn_want(e, n, R_H, "initial_h", 2, (int64_t[]){s.batch, s.units});
  if (status == OK) status = rnn_want_mask(e, n, R_MASK, &s);
  if (status != OK) return status;
  n->out[RO_Y].type = n->out[RO_BEFORE].type = n->out[RO_INNER].type =
      rnn_sequence_type(n, &s, s.units);
  n->out[RO_H].type = rnn_state_type(n, &s);
  n->out[RO_GATES].type = rnn_sequence_type(n, &s, 3 * s.units);
  return OK;
}

/* z and r of a row from the input's part (in gates) and the recurrent part. */
static void gru_gates(const RecurrenceChunk *w, char *gates, const char *z, bool after) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  int64_t u = s->units;
  if (c->in_count > R_BIAS) {
    rnn_add(c, s->dtype, gates, c->in[R_BIAS], gates, 3 * u);
    if (after)
      rnn_add(c, s->dtype, gates, (const char *)c->in[R_BIAS] + (size_t)(3 * u) * s->size, gates,
              2 * u);
  }
  rnn_add(c, s->dtype, gates, z, gates, 2 * u);
  rnn_apply(c, EW_SIGMOID, s->dtype, gates, gates, 2 * u);
}

static void multiply_row(const Call *c, const Sequence *s, const void *a, const void *b, void *y) {
  c->kernels->strip[EW_MUL][s->dtype]((const void *[]){a, b}, 0, y, s->units, NULL);
}

/* The value that the reset gate multiplies, or its product: kept for the gradient. */
static void gru_inner(const RecurrenceChunk *w, int64_t row, int64_t t, char *gates, const char *z,
                      const char *h, bool after) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size;
  char *inner = rnn_at(w, c->out[RO_INNER], row, t, s->units);
  if (!after) {
    multiply_row(c, s, gates + bytes, h, inner);
    return;
  }
  memcpy(inner, z + 2 * bytes, bytes);
  if (c->in_count > R_BIAS)
    rnn_add(c, s->dtype, inner, (const char *)c->in[R_BIAS] + 5 * bytes, inner, s->units);
}

/* The candidate, the state, the output. part: the recurrent part of the candidate. */
static void gru_finish(const RecurrenceChunk *w, int64_t row, int64_t t, char *gates,
                       const char *part, char *h, char *temporary) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size;
  char *candidate = gates + 2 * bytes;
  rnn_add(c, s->dtype, candidate, part, candidate, s->units);
  rnn_apply(c, EW_TANH, s->dtype, candidate, candidate, s->units);
  c->kernels->gru_state[s->dtype](s->units, gates, candidate, h, temporary);
  memcpy(h, temporary, bytes);
  rnn_put_output(w, c->out[RO_Y], row, t, h);
}

static void gru_chunk(void *context, int64_t chunk, void *scratch) {
  const RecurrenceChunk *w = context;
  const Call *c = w->c;
  const Sequence *s = &w->s;
  bool after = c->attr[RESET_AFTER].i;
  int64_t first, rows = rnn_rows_of(s, chunk, &first), u = s->units;
  size_t bytes = (size_t)u * s->size;
  Room room = {scratch, 0};
  /* gradients: dh of the state, dz of the recurrent parts, dc of r h, next of its product */
  BackSlot p = rnn_back_slot(&room, s);
  rnn_start_state(w, R_H, first, rows, p.dh);
  for (int64_t t = 0; t < s->steps; t++) {
    rnn_multiply(w, 0, p.dh, u, rows, p.dz, 3 * u, false, first * s->steps + t);
    for (int64_t i = 0; i < rows; i++) {
      char *gates = rnn_at(w, c->out[RO_GATES], first + i, t, 3 * u),
           *z = p.dz + (size_t)(3 * i) * bytes, *h = p.dh + (size_t)i * bytes;
      char *inner = rnn_at(w, c->out[RO_INNER], first + i, t, u);
      memcpy(rnn_at(w, c->out[RO_BEFORE], first + i, t, u), h, bytes);
      gru_gates(w, gates, z, after);
      gru_inner(w, first + i, t, gates, z, h, after);
      if (after) multiply_row(c, s, gates + bytes, inner, p.next + (size_t)i * bytes);
      else memcpy(p.dc + (size_t)i * bytes, inner, bytes);
    }
    if (!after) rnn_multiply(w, 1, p.dc, u, rows, p.next, u, false, first * s->steps + t);
    for (int64_t i = 0; i < rows; i++) {
      char *gates = rnn_at(w, c->out[RO_GATES], first + i, t, 3 * u), *h = p.dh + (size_t)i * bytes;
      if (rnn_is_masked(w, first + i, t)) {
        memset(gates, 0, 3 * bytes);
        rnn_put_output(w, c->out[RO_Y], first + i, t, h);
      } else {
        gru_finish(w, first + i, t, gates, p.next + (size_t)i * bytes, h, p.row);
      }
    }
  }
  rnn_end_state(w, RO_H, first, rows, p.dh);
}

/* Reset after: one product with all columns. Reset before: a product of two thirds of the columns
 * with the state, one of the rest with r h. The panels are the kernel's, or its transpose's. */
static void gru_panels(const Call *c, const Node *n, Room *room, RecurrenceChunk *w,
                       const void *kernel, PanelsOf *which) {
  int64_t u = w->s.units;
  bool after = n->attr[RESET_AFTER].i;
  w->panels[0] = which(&w->s, kernel, 0, after ? 3 * u : 2 * u);
  rnn_prepare_panels(c, room, &w->panels[0], &w->s);
  if (after) return;
  w->panels[1] = which(&w->s, kernel, 2 * u, u);
  rnn_prepare_panels(c, room, &w->panels[1], &w->s);
}

static const Recurrence gru_forward = {.times = 3,
                                       .gates = RO_GATES,
                                       .mask = R_MASK,
                                       .recurrent = R_RECURRENT,
                                       .zero = ZERO_OUTPUT,
                                       .panels = gru_panels,
                                       .slot_bytes = rnn_back_slot_bytes,
                                       .task = gru_chunk};
static Status inner_gru(const Call *c) { return rnn_run(c, &gru_forward); }
static Status eval_gru(const Call *c) { return eval_wide(c, inner_gru); }
static size_t scratch_gru(const Node *n) { return rnn_scratch(n, &gru_forward); }

static Status infer_gru_grad(Error *e, Node *n) {
  Sequence s;
  Status status = nn_want_float(e, n, 0, RG_MASK);
  if (status == OK) status = rnn_check_backward(e, n, RG_GATES, 3, &s);
  if (status == OK) status = rnn_want(e, n, RG_DH, "dh", 2, (int64_t[]){s.batch, s.units});
  if (status == OK)
    status = rnn_want(e, n, RG_RECURRENT, "recurrent_kernel", 2, (int64_t[]){s.units, 3 * s.units});
  if (status == OK)
    status = rnn_want(e, n, RG_BEFORE, "before", 3, (int64_t[]){s.batch, s.steps, s.units});
  if (status == OK)
    status = rnn_want(e, n, RG_INNER, "inner", 3, (int64_t[]){s.batch, s.steps, s.units});
  if (status == OK) status = rnn_want_mask(e, n, RG_MASK, &s);
  if (status != OK) return status;
  n->out[0].type = n->out[1].type = rnn_sequence_type(n, &s, 3 * s.units);
  n->out[2].type = rnn_state_type(n, &s);
  return OK;
}

/* Gradients of the gates, for the input's product (out 0) and for the recurrent product (out 1).
 * They differ in the candidate, which the reset gate multiplies. Reset before: out 1 is out 0, to
 * be used with r h. */
static void gru_row_grad(const RecurrenceChunk *w, int64_t row, int64_t t, const BackSlot *p,
                         int64_t i, bool after) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size;
  char *dgates = rnn_at(w, c->out[0], row, t, 3 * s->units), *dz = p->dz + (size_t)(3 * i) * bytes;
  char *dh = p->dh + (size_t)i * bytes, *back = p->dc + (size_t)i * bytes;
  rnn_take_output_grad(w, c->in[RG_DY], row, t, dh, p->late + (size_t)i * bytes);
  if (rnn_is_masked(w, row, t)) {
    memset(dgates, 0, 3 * bytes);
    memset(dz, 0, 3 * bytes);
    memset(back, 0, bytes);
    return;
  }
  c->kernels->gru_cell_grad[s->dtype](s->units, rnn_at(w, c->in[RG_GATES], row, t, 3 * s->units),
                                      rnn_at(w, c->in[RG_BEFORE], row, t, s->units),
                                      after ? rnn_at(w, c->in[RG_INNER], row, t, s->units) : NULL,
                                      dh, dgates, dz + 2 * bytes, back);
  if (after) memcpy(dz, dgates, 2 * bytes);
  /* and the product with the kernel follows */
  else memcpy(dz + 2 * bytes, dgates + 2 * bytes, bytes);
}

/* Reset before: given d(r h) in `through`, the reset gate's part and the state's. */
static void gru_reset_grad(const RecurrenceChunk *w, int64_t row, int64_t t, const BackSlot *p,
                           int64_t i, const char *through) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  Dtype d = s->dtype;
  size_t bytes = (size_t)s->units * s->size;
  char *dgates = rnn_at(w, c->out[0], row, t, 3 * s->units), *dz = p->dz + (size_t)(3 * i) * bytes,
       *back = p->dc + (size_t)i * bytes;
  const char *r = rnn_at(w, c->in[RG_GATES], row, t, 3 * s->units) + bytes,
             *h = rnn_at(w, c->in[RG_BEFORE], row, t, s->units);
  if (rnn_is_masked(w, row, t)) return;
  multiply_row(c, s, through, h, p->row);
  c->kernels->strip[EW_SIGMOID_GRAD][d]((const void *[]){p->row, r}, 0, dgates + bytes, s->units,
                                        NULL);
  multiply_row(c, s, through, r, p->row);
  rnn_add(c, d, back, p->row, back, s->units);
  memcpy(dz, dgates, 2 * bytes);
}

static void gru_grad_chunk(void *context, int64_t chunk, void *scratch) {
  const RecurrenceChunk *w = context;
  const Call *c = w->c;
  const Sequence *s = &w->s;
  bool after = c->attr[RESET_AFTER].i;
  int64_t first, rows = rnn_rows_of(s, chunk, &first), u = s->units;
  size_t bytes = (size_t)u * s->size;
  Room room = {scratch, 0};
  BackSlot p =
      rnn_back_slot(&room, s); /* dc: the gradient that reaches the state past the products */
  rnn_start_state(w, RG_DH, first, rows, p.dh);
  memset(p.late, 0, (size_t)rows * bytes);
  for (int64_t t = s->steps - 1; t >= 0; t--) {
    for (int64_t i = 0; i < rows; i++) gru_row_grad(w, first + i, t, &p, i, after);
    if (!after) {
      rnn_multiply(w, 1, p.dz + 2 * bytes, 3 * u, rows, p.next, u, false, first * s->steps + t);
      for (int64_t i = 0; i < rows; i++)
        gru_reset_grad(w, first + i, t, &p, i, p.next + (size_t)i * bytes);
    }
    for (int64_t i = 0; i < rows; i++)
      memcpy(rnn_at(w, c->out[1], first + i, t, 3 * u), p.dz + (size_t)(3 * i) * bytes, 3 * bytes);
    rnn_multiply(w, 0, p.dz, 3 * u, rows, p.dc, u, true, first * s->steps + t);
    rnn_keep_masked(w, first, rows, t, p.dh, p.dc);
    memcpy(p.dh, p.dc, (size_t)rows * bytes);
  }
  rnn_end_state(w, 2, first, rows, p.dh);
}

static const Recurrence gru_backward = {.backward = true,
                                        .times = 3,
                                        .gates = RG_GATES,
                                        .mask = RG_MASK,
                                        .recurrent = RG_RECURRENT,
                                        .zero = ZERO_OUTPUT,
                                        .panels = gru_panels,
                                        .slot_bytes = rnn_back_slot_bytes,
                                        .task = gru_grad_chunk};
static Status inner_gru_grad(const Call *c) { return rnn_run(c, &gru_backward); }
static Status eval_gru_grad(const Call *c) { return eval_wide(c, inner_gru_grad); }
static size_t scratch_gru_grad(const Node *n) { return rnn_scratch(n, &gru_backward); }

static Value *columns(Graph *g, Value *v, int64_t first, int64_t count) {
  if (!v) return NULL;
  Attr attrs[MAX_ATTRS] = {attr_ints((int64_t[]){0, first}, 2),
                           attr_ints((int64_t[]){v->type.shape[0], count}, 2)};
  return op_with(g, "slice", &v, 1, attrs);
}
static Value *as_row(Graph *g, Value *v) {
  if (!v) return NULL;
  Type t = type_make(v->type.dtype, 2, (int64_t[]){1, v->type.shape[0]});
  return ops_reshape(g, v, &t);
}

static void grad_gru(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  if (!dy[RO_Y] && !dy[RO_H]) return;
  bool after = n->attr[RESET_AFTER].i, masked = n->in_count > R_MASK;
  int64_t u = n->out[RO_Y].type.shape[2];
  Value *before = (Value *)(uintptr_t)&n->out[RO_BEFORE],
        *inner = (Value *)(uintptr_t)&n->out[RO_INNER];
  Value *in[MAX_INPUTS] = {rnn_or_zeros(g, dy[RO_Y], &n->out[RO_Y].type),
                           rnn_or_zeros(g, dy[RO_H], &n->out[RO_H].type),
                           n->in[R_RECURRENT],
                           (Value *)(uintptr_t)&n->out[RO_GATES],
                           before,
                           inner,
                           masked ? n->in[R_MASK] : NULL};
  Attr attrs[MAX_ATTRS] = {n->attr[ZERO_OUTPUT], n->attr[RESET_AFTER]};
  Node *back = graph_node(g, op_find("nn.gru_grad"), in, masked ? 7 : 6, attrs);
  if (!back) return;
  Value *of_inputs = rnn_flat(g, &back->out[0]), *of_state = rnn_flat(g, &back->out[1]);
  rnn_grad_inputs(g, n, of_inputs, dx);
  if (after) {
    dx[R_RECURRENT] = ops_matmul(g, rnn_flat(g, before), of_state, true, false);
  } else {
    Value *gates = ops_matmul(g, rnn_flat(g, before), columns(g, of_state, 0, 2 * u), true, false);
    Value *candidate =
        ops_matmul(g, rnn_flat(g, inner), columns(g, of_state, 2 * u, u), true, false);
    dx[R_RECURRENT] = ops_join(g, gates, candidate, 1);
  }
  if (n->in_count > R_BIAS) {
    Value *sum = rnn_column_sum(g, of_inputs);
    dx[R_BIAS] =
        after ? ops_join(g, as_row(g, sum), as_row(g, rnn_column_sum(g, of_state)), 0) : sum;
  }
  if (n->in_count > R_H) dx[R_H] = &back->out[2];
}

/* ---- of other ops ---- */

/* Columns of the recurrent kernel: of z and r, of the candidate. */
typedef struct KernelParts {
  Value *gates, *candidate;
} KernelParts;
static KernelParts recurrent_parts(Graph *g, Value *kernel) {
  int64_t u = kernel->type.shape[0];
  return (KernelParts){columns(g, kernel, 0, 2 * u), columns(g, kernel, 2 * u, u)};
}

/* Row k of the bias that reset after has. */
static Value *bias_row(Graph *g, Value *bias, int64_t k) {
  Attr attrs[MAX_ATTRS] = {attr_ints((int64_t[]){k, 0}, 2),
                           attr_ints((int64_t[]){1, bias->type.shape[1]}, 2)};
  return op_with(g, "slice", &bias, 1, attrs);
}

/* z, r, candidate of a step; inner: the operand of r, or its product. */
static Gates step_of_gates(Written *w, const Node *n, Value *x, Value *h, const KernelParts *kernel,
                           Value **inner) {
  Graph *g = w->g;
  bool after = n->attr[RESET_AFTER].i;
  Gates a = rnn_split(w, x, 3), r = {0};
  if (after) {
    Value *product = ops_matmul(g, h, n->in[R_RECURRENT], false, false);
    if (n->in_count > R_BIAS) product = ops_add(g, product, bias_row(g, n->in[R_BIAS], 1));
    r = rnn_split(w, product, 3);
  } else {
    r = rnn_split(w, ops_matmul(g, h, kernel->gates, false, false), 2);
  }
  for (int k = 0; k < 2; k++) a.part[k] = op1(g, "sigmoid", ops_add(g, a.part[k], r.part[k]));
  *inner = after ? r.part[2] : ops_mul(g, a.part[1], h);
  Value *part = after ? ops_mul(g, a.part[1], *inner)
                      : ops_matmul(g, *inner, kernel->candidate, false, false);
  a.part[2] = op1(g, "tanh", ops_add(g, a.part[2], part));
  return a;
}

static void compose_gru(Graph *g, const Node *n, Value **out) {
  bool after = n->attr[RESET_AFTER].i;
  Written w = rnn_write(g, n, R_MASK, &n->out[RO_Y].type);
  KernelParts kernel = recurrent_parts(g, n->in[R_RECURRENT]);
  Value *all = rnn_project(g, n);
  if (n->in_count > R_BIAS)
    all = ops_add(g, all, after ? bias_row(g, n->in[R_BIAS], 0) : n->in[R_BIAS]);
  Value **x = rnn_steps(&w, all), **y = rnn_room(&w), **gates = rnn_room(&w),
        **before = rnn_room(&w), **inner = rnn_room(&w);
  Value *h = rnn_state(&w, n, R_H);
  for (int64_t t = 0; t < w.steps; t++) {
    before[t] = h;
    Gates a = step_of_gates(&w, n, x[t], h, &kernel, &inner[t]);
    gates[t] = rnn_unmasked(&w, t, rnn_join(&w, &a, 3), w.number);
    Value *state = ops_add(g, a.part[2], ops_mul(g, a.part[0], ops_sub(g, h, a.part[2])));
    h = rnn_unmasked(&w, t, state, h);
    y[t] = rnn_output(&w, t, h, t ? y[t - 1] : w.nothing);
  }
  out[RO_Y] = rnn_sequence(&w, y, &n->out[RO_Y].type);
  out[RO_H] = h;
  out[RO_GATES] = rnn_sequence(&w, gates, &n->out[RO_GATES].type);
  out[RO_BEFORE] = rnn_sequence(&w, before, &n->out[RO_BEFORE].type);
  out[RO_INNER] = rnn_sequence(&w, inner, &n->out[RO_INNER].type);
}

static void compose_gru_grad(Graph *g, const Node *n, Value **out) {
  bool after = n->attr[RESET_AFTER].i;
  Written w = rnn_write(g, n, RG_MASK, &n->in[RG_DY]->type);
  KernelParts kernel = recurrent_parts(g, n->in[RG_RECURRENT]);
  Value **dy = rnn_steps(&w, n->in[RG_DY]), **gates = rnn_steps(&w, n->in[RG_GATES]),
        **before = rnn_steps(&w, n->in[RG_BEFORE]), **inner = rnn_steps(&w, n->in[RG_INNER]),
        **of_inputs = rnn_room(&w), **of_state = rnn_room(&w);
  Value *dh = n->in[RG_DH], *late = w.nothing;
  for (int64_t t = w.steps - 1; t >= 0; t--) {
    Gates a = rnn_split(&w, gates[t], 3), d;
    Value *z = a.part[0], *r = a.part[1], *candidate = a.part[2];
    rnn_output_grad(&w, t, dy[t], &dh, &late);
    d.part[0] = op2(g, "sigmoid_grad", ops_mul(g, dh, ops_sub(g, before[t], candidate)), z);
    d.part[2] = op2(g, "tanh_grad", ops_sub(g, dh, ops_mul(g, dh, z)), candidate);
    Value *through = after ? d.part[2] : rnn_back(g, d.part[2], kernel.candidate);
    d.part[1] = op2(g, "sigmoid_grad", ops_mul(g, through, after ? inner[t] : before[t]), r);
    Value *inputs = rnn_join(&w, &d, 3), *state = inputs, *back = ops_mul(g, dh, z);
    if (after) {
      d.part[2] = ops_mul(g, through, r);
      state = rnn_join(&w, &d, 3);
      back = ops_add(g, back, rnn_back(g, state, n->in[RG_RECURRENT]));
    } else {
      back = ops_add(
          g, back,
          ops_add(g, ops_mul(g, through, r), rnn_back(g, rnn_join(&w, &d, 2), kernel.gates)));
    }
    of_inputs[t] = rnn_unmasked(&w, t, inputs, w.number);
    of_state[t] = rnn_unmasked(&w, t, state, w.number);
    dh = rnn_unmasked(&w, t, back, dh);
  }
  out[0] = rnn_sequence(&w, of_inputs, &n->out[0].type);
  out[1] = rnn_sequence(&w, of_state, &n->out[1].type);
  out[2] = dh;
}

#define A_RESET           \
  {.name = "reset_after", \
   .kind = ATTR_BOOL,     \
   .fallback = "true",    \
   .summary =             \
       "The reset gate multiplies the recurrent product, which has a bias of its own; otherwise the state."}

static void cost_forward(const Target *t, const Node *n, Cost *c) { rnn_cost_forward(t, n, 3, c); }
static void cost_backward(const Target *t, const Node *n, Cost *c) {
  rnn_cost_backward(t, n, 3, c);
}

const OpDef ops_gru[] = {
    {.name = "nn.gru",
     .family = FAMILY_GRU,
     .summary =
         "A gated recurrent unit over sequences; gates z, r, h. Returns all outputs and the last state.",
     .shapes =
         "[n, t, f], [f, 3 u], [u, 3 u], [2, 3 u] or [3 u], [n, u], [n, t] → [n, t, u], [n, u]",
     .source = "Cho et al., 2014; reset after: the form of cuDNN",
     .inputs = {"x", "kernel", "recurrent_kernel", "bias?", "initial_h?", "mask?"},
     .attrs = {A_ZERO, A_RESET},
     .outputs = 5,
     .visible_outputs = 2,
     .infer = infer_gru,
     .eval = eval_gru,
     .scratch = scratch_gru,
     .cost = cost_forward,
     .grad = grad_gru,
     .compose = compose_gru,
     .sample =
         "F[2,3,4] F[4,6] F[2,6] F[2,6] F[2,2] | F[2,3,4] F[4,6] F[2,6] F[6] F[2,2] {reset_after = false} | "
         "F[2,4,3] F[3,6] F[2,6] F[2,6] F[2,2] B[2,4] | F[3,4,2] F[2,9] F[3,9] | "
         "F[2,4,3] F[3,6] F[2,6] F[6] F[2,2] B[2,4] {reset_after = false, zero_output_for_mask = true}"},
    {.name = "nn.gru_grad",
     .family = FAMILY_GRU,
     .summary = "The gradient of a GRU in its gates before activation and its initial state.",
     .shapes =
         "dy, dh, recurrent kernel, gates, states before, inner, mask → dgates of inputs, dgates of "
         "states, dh",
     .inputs = {"dy", "dh", "recurrent_kernel", "gates", "before", "inner", "mask?"},
     .attrs = {A_ZERO, A_RESET},
     .traits = INTERNAL,
     .outputs = 3,
     .compose = compose_gru_grad,
     .infer = infer_gru_grad,
     .eval = eval_gru_grad,
     .scratch = scratch_gru_grad,
     .cost = cost_backward,
     .sample = "F[2,3,2] F[2,2] F[2,6] U[2,3,6] F[2,3,2] F[2,3,2] | "
               "F[2,3,2] F[2,2] F[2,6] U[2,3,6] F[2,3,2] F[2,3,2] B[2,3] {reset_after = false}"},
    {0}};
