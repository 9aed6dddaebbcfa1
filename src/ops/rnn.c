/* LSTM, GRU and the simple recurrence over whole sequences. The input's product is one GEMM for all steps;
 * then each chunk of rows of the batch walks through the steps by itself: a panel product with the recurrent
 * kernel, gates, state. What the gradient needs (activated gates, states before each step) is kept in further
 * outputs. The gradient rows walk back and give the gradients of the gates; products with inputs and kernels
 * are ordinary nodes.
 *
 * A masked step (mask false) keeps the state and repeats the previous output (zero before the first), or
 * gives zero. */
#include <string.h>

#include "ops/nn.h"
#include "target/cost.h"

enum { ROWS = 16, LEAST_ROWS = 8 };

/* [batch, steps, …]; gates: how many times units. */
typedef struct Sequence {
  int64_t batch, steps, inputs, units, gates;
  Dtype dtype;
  size_t size;
} Sequence;

static int64_t chunk_rows(int64_t batch) { return least(ROWS, most(LEAST_ROWS, (batch + 1) / 2)); }
static int64_t chunk_count(int64_t batch) { return (batch + chunk_rows(batch) - 1) / chunk_rows(batch); }

static Status want(Error *e, const Node *n, int input, const char *what, int rank, const int64_t *shape) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  if (input >= n->in_count) return OK;
  Type wanted = type_make(F32, rank, shape);
  if (shape_equal(&wanted, &n->in[input]->type)) return OK;
  return fail(e, ERR_INVALID_ARGUMENT, "%s must be %s, got %s", what, shape_text(&wanted, a),
              shape_text(&n->in[input]->type, b));
}

static Status want_mask(Error *e, const Node *n, int input, const Sequence *s) {
  if (input >= n->in_count) return OK;
  Dtype d = n->in[input]->type.dtype;
  if (d != BOOL) return fail(e, ERR_TYPE, "mask must be bool, got %s", dtype_name(d));
  return want(e, n, input, "mask", 2, (int64_t[]){s->batch, s->steps});
}

/* x, kernel and recurrent kernel are operands 0 to 2. */
static Status forward_sequence(Error *e, const Node *n, int64_t gates, Sequence *s) {
  const Type *x = &n->in[0]->type, *kernel = &n->in[1]->type;
  char text[TYPE_TEXT];
  Status status = nn_want_rank(e, "x", x, 3);
  if (status == OK) status = nn_want_rank(e, "kernel", kernel, 2);
  if (status != OK) return status;
  *s = (Sequence){.batch = x->shape[0], .steps = x->shape[1], .inputs = x->shape[2], .gates = gates};
  if (kernel->shape[1] % gates || kernel->shape[1] == 0)
    return fail(e, ERR_INVALID_ARGUMENT, "kernel must be [inputs, %lld units], got %s", (long long)gates,
                shape_text(kernel, text));
  s->units = kernel->shape[1] / gates;
  s->dtype = dtype_to_compute(x->dtype);
  s->size = dtype_size(s->dtype);
  status = want(e, n, 1, "kernel", 2, (int64_t[]){s->inputs, gates * s->units});
  return status == OK ? want(e, n, 2, "recurrent_kernel", 2, (int64_t[]){s->units, gates * s->units})
                      : status;
}

static Type sequence_type(const Node *n, const Sequence *s, int64_t width) {
  return type_make(n->in[0]->type.dtype, 3, (int64_t[]){s->batch, s->steps, width});
}
static Type state_type(const Node *n, const Sequence *s) {
  return type_make(n->in[0]->type.dtype, 2, (int64_t[]){s->batch, s->units});
}

/* ---- what both do ---- */

/* A recurrent kernel in panels: columns [col, col + cols) of [rows, …] or, transposed, rows of it. */
typedef struct Panels {
  char *data;
  const void *source;
  int64_t row, col, rows, cols;
} Panels;

static int64_t panel_count(const Panels *p) { return (p->cols + PANEL_COLS - 1) / PANEL_COLS; }
static size_t panels_bytes(const Panels *p, size_t size) {
  return (size_t)(panel_count(p) * p->rows * PANEL_COLS) * size;
}

static void pack_panels(const Call *c, const Panels *p, Dtype d) {
  size_t size = dtype_size(d);
  for (int64_t i = 0; i < panel_count(p); i++)
    c->kernels->panel_pack[d]((const char *)p->source + (size_t)(i * PANEL_COLS * p->col) * size, p->row,
                              p->col, p->rows, least(PANEL_COLS, p->cols - i * PANEL_COLS),
                              p->data + (size_t)(i * p->rows * PANEL_COLS) * size);
}

/* y [rows, cols] (+)= x [rows, p->rows] panels. */
static void multiply(const Call *c, const Panels *p, Dtype d, const void *x, int64_t x_row, int64_t rows,
                     void *y, int64_t y_row, bool accumulate) {
  size_t size = dtype_size(d);
  int64_t zero = 0;
  PanelMul m = {.x = x,
                .x_row = x_row,
                .offset = &zero,
                .segments = 1,
                .length = p->rows,
                .y_row = y_row,
                .rows = rows,
                .accumulate = accumulate};
  for (int64_t i = 0; i < panel_count(p); i++) {
    m.w = p->data + (size_t)(i * p->rows * PANEL_COLS) * size;
    m.y = (char *)y + (size_t)(i * PANEL_COLS) * size;
    m.cols = least(PANEL_COLS, p->cols - i * PANEL_COLS);
    c->kernels->panel_mul[d](&m);
  }
}

static Product input_product(const Sequence *s) {
  int64_t width = s->gates * s->units;
  Product p = {.dtype = s->dtype};
  p.gemm = (Gemm){.m = s->batch * s->steps,
                  .n = width,
                  .k = s->inputs,
                  .a_row = s->inputs,
                  .a_col = 1,
                  .b_row = width,
                  .b_col = 1,
                  .c_row = width};
  return p;
}

static void multiply_inputs(const Call *c, const Sequence *s, void *gates, void *scratch) {
  Product p = input_product(s);
  p.gemm.a = c->in[0];
  p.gemm.b = c->in[1];
  p.gemm.c = gates;
  product_run(c, &p, scratch);
}

static size_t input_scratch(const Sequence *s) {
  static char somewhere; /* plans ask whether there is a C */
  Product p = input_product(s);
  p.gemm.c = &somewhere;
  return product_scratch(&p);
}

static void apply(const Call *c, Elementwise f, Dtype d, const void *x, void *y, int64_t n) {
  c->kernels->strip[f][d]((const void *[]){x}, 0, y, n, NULL);
}
static void add(const Call *c, Dtype d, const void *a, const void *b, void *y, int64_t n) {
  c->kernels->strip[EW_ADD][d]((const void *[]){a, b}, 0, y, n, NULL);
}

/* One chunk's walk: rows [first, first + rows) of the batch. */
typedef struct Walk {
  const Call *c;
  Sequence s;
  Panels panels[2];
  const uint8_t *mask; /* or NULL */
  bool zero;           /* masked outputs are zero */
  size_t slot_bytes;
  char *slots;
} Walk;

static bool is_masked(const Walk *w, int64_t row, int64_t step) {
  return w->mask && !w->mask[row * w->s.steps + step];
}

/* Element [row, step, 0] of a [batch, steps, width] buffer. */
static char *at(const Walk *w, const void *data, int64_t row, int64_t step, int64_t width) {
  return (char *)(uintptr_t)data + (size_t)((row * w->s.steps + step) * width) * w->s.size;
}

/* y of a step: the state, or what a masked step gives. */
static void put_output(const Walk *w, void *out, int64_t row, int64_t step, const char *state) {
  size_t bytes = (size_t)w->s.units * w->s.size;
  char *y = at(w, out, row, step, w->s.units);
  if (!is_masked(w, row, step)) memcpy(y, state, bytes);
  else if (w->zero || step == 0) memset(y, 0, bytes);
  else memcpy(y, y - bytes, bytes);
}

/* Backward: what arrives at the state after a step, in dh. A masked step's dy belongs to an earlier output,
 * kept in late. */
static void take_output_grad(const Walk *w, const void *dy, int64_t row, int64_t step, char *dh, char *late) {
  int64_t units = w->s.units;
  const char *up = at(w, dy, row, step, units);
  if (!is_masked(w, row, step)) {
    add(w->c, w->s.dtype, dh, up, dh, units);
    if (!w->mask) return;
    add(w->c, w->s.dtype, dh, late, dh, units);
    memset(late, 0, (size_t)units * w->s.size);
  } else if (!w->zero) {
    add(w->c, w->s.dtype, late, up, late, units);
  }
}

static void walk_all(const Call *c, Walk *w, NnTask task) {
  nn_run(c, chunk_count(w->s.batch), w->slots, w->slot_bytes, task, w);
}

/* ---- LSTM ---- */

enum { L_X, L_KERNEL, L_RECURRENT, L_BIAS, L_H, L_C, L_MASK };
enum { LO_Y, LO_H, LO_C, LO_GATES, LO_BEFORE_H, LO_BEFORE_C };
enum { LG_DY, LG_DH, LG_DC, LG_RECURRENT, LG_GATES, LG_BEFORE_C, LG_MASK };
enum { ZERO_OUTPUT, RESET_AFTER };

static Status infer_lstm(Error *e, Node *n) {
  Sequence s;
  Status status = nn_want_float(e, n, 0, (int)least(n->in_count, L_MASK));
  if (status == OK) status = forward_sequence(e, n, 4, &s);
  if (status == OK) status = want(e, n, L_BIAS, "bias", 1, (int64_t[]){4 * s.units});
  if (status == OK) status = want(e, n, L_H, "initial_h", 2, (int64_t[]){s.batch, s.units});
  if (status == OK) status = want(e, n, L_C, "initial_c", 2, (int64_t[]){s.batch, s.units});
  if (status == OK) status = want_mask(e, n, L_MASK, &s);
  if (status != OK) return status;
  n->out[LO_Y].type = n->out[LO_BEFORE_H].type = n->out[LO_BEFORE_C].type = sequence_type(n, &s, s.units);
  n->out[LO_H].type = n->out[LO_C].type = state_type(n, &s);
  n->out[LO_GATES].type = sequence_type(n, &s, 4 * s.units);
  return OK;
}

/* A slot's memory: state of the rows, the recurrent part of their gates. */
typedef struct LstmSlot {
  char *h, *c, *z;
} LstmSlot;
static LstmSlot lstm_slot(Room *r, const Sequence *s) {
  size_t state = (size_t)(chunk_rows(s->batch) * s->units) * s->size;
  LstmSlot p;
  p.h = room_take(r, state), p.c = room_take(r, state), p.z = room_take(r, 4 * state);
  return p;
}

static void lstm_row(const Walk *w, int64_t row, int64_t t, const LstmSlot *p, int64_t slot_row) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size;
  char *h = p->h + (size_t)slot_row * bytes, *cell = p->c + (size_t)slot_row * bytes;
  char *gates = at(w, c->out[LO_GATES], row, t, 4 * s->units),
       *before = at(w, c->out[LO_BEFORE_C], row, t, s->units);
  memcpy(at(w, c->out[LO_BEFORE_H], row, t, s->units), h, bytes);
  memcpy(before, cell, bytes);
  if (is_masked(w, row, t)) {
    memset(gates, 0, 4 * bytes);
  } else {
    c->kernels->lstm_cell[s->dtype](s->units, gates, p->z + (size_t)slot_row * 4 * bytes,
                                    c->in_count > L_BIAS ? c->in[L_BIAS] : NULL, before, cell, h);
  }
  put_output(w, c->out[LO_Y], row, t, h);
}

static void start_state(const Walk *w, int input, int64_t first, int64_t rows, char *state) {
  size_t bytes = (size_t)w->s.units * w->s.size;
  if (input < w->c->in_count)
    memcpy(state, (const char *)w->c->in[input] + (size_t)first * bytes, (size_t)rows * bytes);
  else memset(state, 0, (size_t)rows * bytes);
}
static void end_state(const Walk *w, int output, int64_t first, int64_t rows, const char *state) {
  size_t bytes = (size_t)w->s.units * w->s.size;
  memcpy((char *)w->c->out[output] + (size_t)first * bytes, state, (size_t)rows * bytes);
}

static void lstm_chunk(void *context, int64_t chunk, void *scratch) {
  const Walk *w = context;
  const Sequence *s = &w->s;
  int64_t height = chunk_rows(s->batch), first = chunk * height, rows = least(height, s->batch - first);
  Room room = {scratch, 0};
  LstmSlot p = lstm_slot(&room, s);
  start_state(w, L_H, first, rows, p.h);
  start_state(w, L_C, first, rows, p.c);
  for (int64_t t = 0; t < s->steps; t++) {
    multiply(w->c, &w->panels[0], s->dtype, p.h, s->units, rows, p.z, 4 * s->units, false);
    for (int64_t i = 0; i < rows; i++) lstm_row(w, first + i, t, &p, i);
  }
  end_state(w, LO_H, first, rows, p.h);
  end_state(w, LO_C, first, rows, p.c);
}

static Panels recurrent_panels(const Sequence *s, const void *kernel, int64_t first, int64_t cols) {
  int64_t width = s->gates * s->units;
  return (Panels){.source = (const char *)kernel + (kernel ? (size_t)first * s->size : 0),
                  .row = width,
                  .col = 1,
                  .rows = s->units,
                  .cols = cols};
}
/* For products with the transposed kernel's rows [first, first + rows). */
static Panels transposed_panels(const Sequence *s, const void *kernel, int64_t first, int64_t rows) {
  int64_t width = s->gates * s->units;
  return (Panels){.source = (const char *)kernel + (kernel ? (size_t)first * s->size : 0),
                  .row = 1,
                  .col = width,
                  .rows = rows,
                  .cols = s->units};
}

static void prepare_panels(const Call *c, Room *room, Panels *p, const Sequence *s) {
  p->data = room_take(room, panels_bytes(p, s->size));
  if (room->base) pack_panels(c, p, s->dtype);
}

static void prepare_slots(Walk *w, Room *room, size_t slot_bytes) {
  w->slot_bytes = slot_bytes;
  w->slots = room_take(room, slot_bytes * NN_SLOTS);
}

static size_t lstm_slot_bytes(const Sequence *s) {
  Room r = {0};
  lstm_slot(&r, s);
  return r.used;
}

static Status inner_lstm(const Call *c) {
  Error ignored = {0};
  Walk w = {.c = c, .mask = c->in_count > L_MASK ? c->in[L_MASK] : NULL, .zero = c->attr[ZERO_OUTPUT].i};
  forward_sequence(&ignored, c->node, 4, &w.s);
  Room room = {c->scratch, 0};
  multiply_inputs(c, &w.s, c->out[LO_GATES], room_take(&room, input_scratch(&w.s)));
  w.panels[0] = recurrent_panels(&w.s, c->in[L_RECURRENT], 0, 4 * w.s.units);
  prepare_panels(c, &room, &w.panels[0], &w.s);
  prepare_slots(&w, &room, lstm_slot_bytes(&w.s));
  walk_all(c, &w, lstm_chunk);
  return OK;
}
static Status eval_lstm(const Call *c) { return eval_wide(c, inner_lstm); }

static size_t scratch_lstm(const Node *n) {
  Error ignored = {0};
  Walk w = {0};
  forward_sequence(&ignored, n, 4, &w.s);
  Room room = {0};
  room_take(&room, input_scratch(&w.s));
  w.panels[0] = recurrent_panels(&w.s, NULL, 0, 4 * w.s.units);
  prepare_panels(NULL, &room, &w.panels[0], &w.s);
  prepare_slots(&w, &room, lstm_slot_bytes(&w.s));
  return wide_scratch(n, room.used);
}

/* The gradient's sequence, from its gates. */
static void backward_sequence(const Node *n, int gates_input, int64_t gates, Sequence *s) {
  const Type *t = &n->in[gates_input]->type;
  *s = (Sequence){.batch = t->shape[0],
                  .steps = t->shape[1],
                  .gates = gates,
                  .units = t->shape[2] / gates,
                  .dtype = dtype_to_compute(t->dtype)};
  s->size = dtype_size(s->dtype);
}

static Status check_backward(Error *e, const Node *n, int gates_input, int64_t gates, Sequence *s) {
  Status status = nn_want_rank(e, "gates", &n->in[gates_input]->type, 3);
  if (status != OK) return status;
  if (n->in[gates_input]->type.shape[2] % gates)
    return fail(e, ERR_INVALID_ARGUMENT, "gates must be a multiple of the units");
  backward_sequence(n, gates_input, gates, s);
  return want(e, n, 0, "dy", 3, (int64_t[]){s->batch, s->steps, s->units});
}

static Status infer_lstm_grad(Error *e, Node *n) {
  Sequence s;
  Status status = nn_want_float(e, n, 0, LG_MASK);
  if (status == OK) status = check_backward(e, n, LG_GATES, 4, &s);
  if (status == OK) status = want(e, n, LG_DH, "dh", 2, (int64_t[]){s.batch, s.units});
  if (status == OK) status = want(e, n, LG_DC, "dc", 2, (int64_t[]){s.batch, s.units});
  if (status == OK)
    status = want(e, n, LG_RECURRENT, "recurrent_kernel", 2, (int64_t[]){s.units, 4 * s.units});
  if (status == OK) status = want(e, n, LG_BEFORE_C, "before_c", 3, (int64_t[]){s.batch, s.steps, s.units});
  if (status == OK) status = want_mask(e, n, LG_MASK, &s);
  if (status != OK) return status;
  n->out[0].type = sequence_type(n, &s, 4 * s.units);
  n->out[1].type = n->out[2].type = state_type(n, &s);
  return OK;
}

typedef struct BackSlot {
  char *dh, *next, *dc, *late, *dz, *row;
} BackSlot;
static BackSlot back_slot(Room *r, const Sequence *s) {
  size_t state = (size_t)(chunk_rows(s->batch) * s->units) * s->size, row = (size_t)s->units * s->size;
  BackSlot p;
  p.dh = room_take(r, state), p.next = room_take(r, state), p.dc = room_take(r, state),
  p.late = room_take(r, state);
  p.dz = room_take(r, (size_t)s->gates * state);
  p.row = room_take(r, row);
  return p;
}
static size_t back_slot_bytes(const Sequence *s) {
  Room r = {0};
  back_slot(&r, s);
  return r.used;
}

static void lstm_row_grad(const Walk *w, int64_t row, int64_t t, const BackSlot *p, int64_t slot_row) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size, at_row = (size_t)slot_row * bytes;
  char *dz = p->dz + 4 * at_row;
  take_output_grad(w, c->in[LG_DY], row, t, p->dh + at_row, p->late + at_row);
  if (is_masked(w, row, t)) {
    memset(dz, 0, 4 * bytes);
  } else {
    const char *gates = at(w, c->in[LG_GATES], row, t, 4 * s->units),
               *before = at(w, c->in[LG_BEFORE_C], row, t, s->units);
    c->kernels->lstm_cell_grad[s->dtype](s->units, gates, before, p->dh + at_row, p->dc + at_row, dz);
  }
  memcpy(at(w, c->out[0], row, t, 4 * s->units), dz, 4 * bytes);
}

/* The states' gradients swap buffers; rows that were masked keep theirs. */
static void keep_masked(const Walk *w, int64_t first, int64_t rows, int64_t t, const char *dh, char *next) {
  size_t bytes = (size_t)w->s.units * w->s.size;
  for (int64_t i = 0; w->mask && i < rows; i++)
    if (is_masked(w, first + i, t)) memcpy(next + (size_t)i * bytes, dh + (size_t)i * bytes, bytes);
}

static void lstm_grad_chunk(void *context, int64_t chunk, void *scratch) {
  const Walk *w = context;
  const Sequence *s = &w->s;
  int64_t height = chunk_rows(s->batch), first = chunk * height, rows = least(height, s->batch - first);
  Room room = {scratch, 0};
  BackSlot p = back_slot(&room, s);
  start_state(w, LG_DH, first, rows, p.dh);
  start_state(w, LG_DC, first, rows, p.dc);
  memset(p.late, 0, (size_t)(rows * s->units) * s->size);
  for (int64_t t = s->steps - 1; t >= 0; t--) {
    for (int64_t i = 0; i < rows; i++) lstm_row_grad(w, first + i, t, &p, i);
    multiply(w->c, &w->panels[0], s->dtype, p.dz, 4 * s->units, rows, p.next, s->units, false);
    keep_masked(w, first, rows, t, p.dh, p.next);
    char *swap = p.dh;
    p.dh = p.next;
    p.next = swap;
  }
  end_state(w, 1, first, rows, p.dh);
  end_state(w, 2, first, rows, p.dc);
}

static Status inner_lstm_grad(const Call *c) {
  Walk w = {.c = c, .mask = c->in_count > LG_MASK ? c->in[LG_MASK] : NULL, .zero = c->attr[ZERO_OUTPUT].i};
  backward_sequence(c->node, LG_GATES, 4, &w.s);
  Room room = {c->scratch, 0};
  w.panels[0] = transposed_panels(&w.s, c->in[LG_RECURRENT], 0, 4 * w.s.units);
  prepare_panels(c, &room, &w.panels[0], &w.s);
  prepare_slots(&w, &room, back_slot_bytes(&w.s));
  walk_all(c, &w, lstm_grad_chunk);
  return OK;
}
static Status eval_lstm_grad(const Call *c) { return eval_wide(c, inner_lstm_grad); }

static size_t scratch_lstm_grad(const Node *n) {
  Walk w = {0};
  backward_sequence(n, LG_GATES, 4, &w.s);
  Room room = {0};
  w.panels[0] = transposed_panels(&w.s, NULL, 0, 4 * w.s.units);
  prepare_panels(NULL, &room, &w.panels[0], &w.s);
  prepare_slots(&w, &room, back_slot_bytes(&w.s));
  return wide_scratch(n, room.used);
}

/* ---- gradients as nodes ---- */

/* [batch, steps, width] as [batch steps, width]. */
static Value *flat(Graph *g, Value *v) {
  if (!v) return NULL;
  Type t = type_make(v->type.dtype, 2, (int64_t[]){v->type.shape[0] * v->type.shape[1], v->type.shape[2]});
  return ops_reshape(g, v, &t);
}
static Value *or_zeros(Graph *g, Value *v, const Type *t) { return v ? v : ops_zeros(g, t); }
static Value *column_sum(Graph *g, Value *v) { return ops_sum(g, v, (int64_t[]){0}, 1, false); }

static void grad_inputs(Graph *g, const Node *n, Value *dgates, Value **dx) {
  dx[0] = ops_reshape_like(g, ops_matmul(g, dgates, n->in[1], false, true), n->in[0]);
  dx[1] = ops_matmul(g, flat(g, n->in[0]), dgates, true, false);
}

static void grad_lstm(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  if (!dy[LO_Y] && !dy[LO_H] && !dy[LO_C]) return;
  Value *in[MAX_INPUTS] = {
      or_zeros(g, dy[LO_Y], &n->out[LO_Y].type),  or_zeros(g, dy[LO_H], &n->out[LO_H].type),
      or_zeros(g, dy[LO_C], &n->out[LO_C].type),  n->in[L_RECURRENT],
      (Value *)(uintptr_t)&n->out[LO_GATES],      (Value *)(uintptr_t)&n->out[LO_BEFORE_C],
      n->in_count > L_MASK ? n->in[L_MASK] : NULL};
  Node *back = graph_node(g, op_find("nn.lstm_grad"), in, n->in_count > L_MASK ? 7 : 6,
                          (Attr[MAX_ATTRS]){n->attr[ZERO_OUTPUT]});
  if (!back) return;
  Value *dgates = flat(g, &back->out[0]);
  grad_inputs(g, n, dgates, dx);
  dx[L_RECURRENT] = ops_matmul(g, flat(g, (Value *)(uintptr_t)&n->out[LO_BEFORE_H]), dgates, true, false);
  if (n->in_count > L_BIAS) dx[L_BIAS] = column_sum(g, dgates);
  if (n->in_count > L_H) dx[L_H] = &back->out[1];
  if (n->in_count > L_C) dx[L_C] = &back->out[2];
}

/* ---- GRU ---- */

enum { R_X, R_KERNEL, R_RECURRENT, R_BIAS, R_H, R_MASK };
enum { RO_Y, RO_H, RO_GATES, RO_BEFORE, RO_INNER };
enum { RG_DY, RG_DH, RG_RECURRENT, RG_GATES, RG_BEFORE, RG_INNER, RG_MASK };

static Status infer_gru(Error *e, Node *n) {
  Sequence s;
  Status status = nn_want_float(e, n, 0, (int)least(n->in_count, R_MASK));
  if (status == OK) status = forward_sequence(e, n, 3, &s);
  if (status != OK) return status;
  bool after = n->attr[RESET_AFTER].i;
  status = after ? want(e, n, R_BIAS, "bias", 2, (int64_t[]){2, 3 * s.units})
                 : want(e, n, R_BIAS, "bias", 1, (int64_t[]){3 * s.units});
  if (status == OK) status = want(e, n, R_H, "initial_h", 2, (int64_t[]){s.batch, s.units});
  if (status == OK) status = want_mask(e, n, R_MASK, &s);
  if (status != OK) return status;
  n->out[RO_Y].type = n->out[RO_BEFORE].type = n->out[RO_INNER].type = sequence_type(n, &s, s.units);
  n->out[RO_H].type = state_type(n, &s);
  n->out[RO_GATES].type = sequence_type(n, &s, 3 * s.units);
  return OK;
}

/* z and r of a row from the input's part (in gates) and the recurrent part. */
static void gru_gates(const Walk *w, char *gates, const char *z, bool after) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  int64_t u = s->units;
  if (c->in_count > R_BIAS) {
    add(c, s->dtype, gates, c->in[R_BIAS], gates, 3 * u);
    if (after) add(c, s->dtype, gates, (const char *)c->in[R_BIAS] + (size_t)(3 * u) * s->size, gates, 2 * u);
  }
  add(c, s->dtype, gates, z, gates, 2 * u);
  apply(c, EW_SIGMOID, s->dtype, gates, gates, 2 * u);
}

static void multiply_row(const Call *c, const Sequence *s, const void *a, const void *b, void *y) {
  c->kernels->strip[EW_MUL][s->dtype]((const void *[]){a, b}, 0, y, s->units, NULL);
}

/* What the reset gate multiplies or has multiplied: kept for the gradient. */
static void gru_inner(const Walk *w, int64_t row, int64_t t, char *gates, const char *z, const char *h,
                      bool after) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size;
  char *inner = at(w, c->out[RO_INNER], row, t, s->units);
  if (!after) {
    multiply_row(c, s, gates + bytes, h, inner);
    return;
  }
  memcpy(inner, z + 2 * bytes, bytes);
  if (c->in_count > R_BIAS) add(c, s->dtype, inner, (const char *)c->in[R_BIAS] + 5 * bytes, inner, s->units);
}

/* The candidate, the state, the output. part: the recurrent part of the candidate. */
static void gru_finish(const Walk *w, int64_t row, int64_t t, char *gates, const char *part, char *h,
                       char *temporary) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size;
  char *candidate = gates + 2 * bytes;
  add(c, s->dtype, candidate, part, candidate, s->units);
  apply(c, EW_TANH, s->dtype, candidate, candidate, s->units);
  c->kernels->gru_state[s->dtype](s->units, gates, candidate, h, temporary);
  memcpy(h, temporary, bytes);
  put_output(w, c->out[RO_Y], row, t, h);
}

static void gru_chunk(void *context, int64_t chunk, void *scratch) {
  const Walk *w = context;
  const Call *c = w->c;
  const Sequence *s = &w->s;
  bool after = c->attr[RESET_AFTER].i;
  int64_t height = chunk_rows(s->batch), first = chunk * height, rows = least(height, s->batch - first),
          u = s->units;
  size_t bytes = (size_t)u * s->size;
  Room room = {scratch, 0};
  BackSlot p = back_slot(&room, s); /* dh: state; dz: recurrent parts; dc: r h; next: its product */
  start_state(w, R_H, first, rows, p.dh);
  for (int64_t t = 0; t < s->steps; t++) {
    multiply(c, &w->panels[0], s->dtype, p.dh, u, rows, p.dz, 3 * u, false);
    for (int64_t i = 0; i < rows; i++) {
      char *gates = at(w, c->out[RO_GATES], first + i, t, 3 * u), *z = p.dz + (size_t)(3 * i) * bytes,
           *h = p.dh + (size_t)i * bytes;
      char *inner = at(w, c->out[RO_INNER], first + i, t, u);
      memcpy(at(w, c->out[RO_BEFORE], first + i, t, u), h, bytes);
      gru_gates(w, gates, z, after);
      gru_inner(w, first + i, t, gates, z, h, after);
      if (after) multiply_row(c, s, gates + bytes, inner, p.next + (size_t)i * bytes);
      else memcpy(p.dc + (size_t)i * bytes, inner, bytes);
    }
    if (!after) multiply(c, &w->panels[1], s->dtype, p.dc, u, rows, p.next, u, false);
    for (int64_t i = 0; i < rows; i++) {
      char *gates = at(w, c->out[RO_GATES], first + i, t, 3 * u), *h = p.dh + (size_t)i * bytes;
      if (is_masked(w, first + i, t)) put_output(w, c->out[RO_Y], first + i, t, h);
      else gru_finish(w, first + i, t, gates, p.next + (size_t)i * bytes, h, p.row);
    }
  }
  end_state(w, RO_H, first, rows, p.dh);
}

/* Reset after: one product with all columns. Before: two columns' worth with the state, one with r h. */
static void gru_panels(const Call *c, Room *room, Walk *w, const void *kernel, bool after) {
  int64_t u = w->s.units;
  w->panels[0] = recurrent_panels(&w->s, kernel, 0, after ? 3 * u : 2 * u);
  prepare_panels(c, room, &w->panels[0], &w->s);
  if (after) return;
  w->panels[1] = recurrent_panels(&w->s, kernel, 2 * u, u);
  prepare_panels(c, room, &w->panels[1], &w->s);
}

static Status inner_gru(const Call *c) {
  Error ignored = {0};
  Walk w = {.c = c, .mask = c->in_count > R_MASK ? c->in[R_MASK] : NULL, .zero = c->attr[ZERO_OUTPUT].i};
  forward_sequence(&ignored, c->node, 3, &w.s);
  Room room = {c->scratch, 0};
  multiply_inputs(c, &w.s, c->out[RO_GATES], room_take(&room, input_scratch(&w.s)));
  gru_panels(c, &room, &w, c->in[R_RECURRENT], c->attr[RESET_AFTER].i);
  prepare_slots(&w, &room, back_slot_bytes(&w.s));
  walk_all(c, &w, gru_chunk);
  return OK;
}
static Status eval_gru(const Call *c) { return eval_wide(c, inner_gru); }

static size_t scratch_gru(const Node *n) {
  Error ignored = {0};
  Walk w = {0};
  forward_sequence(&ignored, n, 3, &w.s);
  Room room = {0};
  room_take(&room, input_scratch(&w.s));
  gru_panels(NULL, &room, &w, NULL, n->attr[RESET_AFTER].i);
  prepare_slots(&w, &room, back_slot_bytes(&w.s));
  return wide_scratch(n, room.used);
}

static Status infer_gru_grad(Error *e, Node *n) {
  Sequence s;
  Status status = nn_want_float(e, n, 0, RG_MASK);
  if (status == OK) status = check_backward(e, n, RG_GATES, 3, &s);
  if (status == OK) status = want(e, n, RG_DH, "dh", 2, (int64_t[]){s.batch, s.units});
  if (status == OK)
    status = want(e, n, RG_RECURRENT, "recurrent_kernel", 2, (int64_t[]){s.units, 3 * s.units});
  if (status == OK) status = want(e, n, RG_BEFORE, "before", 3, (int64_t[]){s.batch, s.steps, s.units});
  if (status == OK) status = want(e, n, RG_INNER, "inner", 3, (int64_t[]){s.batch, s.steps, s.units});
  if (status == OK) status = want_mask(e, n, RG_MASK, &s);
  if (status != OK) return status;
  n->out[0].type = n->out[1].type = sequence_type(n, &s, 3 * s.units);
  n->out[2].type = state_type(n, &s);
  return OK;
}

/* Gradients of the gates as the input's product sees them (out 0) and as the recurrent product does (out 1):
 * they differ in the candidate, which the reset gate multiplies. Reset before: out 1 is out 0, to be used
 * with r h. */
static void gru_row_grad(const Walk *w, int64_t row, int64_t t, const BackSlot *p, int64_t i, bool after) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size;
  char *dgates = at(w, c->out[0], row, t, 3 * s->units), *dz = p->dz + (size_t)(3 * i) * bytes;
  char *dh = p->dh + (size_t)i * bytes, *back = p->dc + (size_t)i * bytes;
  take_output_grad(w, c->in[RG_DY], row, t, dh, p->late + (size_t)i * bytes);
  if (is_masked(w, row, t)) {
    memset(dgates, 0, 3 * bytes);
    memset(dz, 0, 3 * bytes);
    memset(back, 0, bytes);
    return;
  }
  c->kernels->gru_cell_grad[s->dtype](
      s->units, at(w, c->in[RG_GATES], row, t, 3 * s->units), at(w, c->in[RG_BEFORE], row, t, s->units),
      after ? at(w, c->in[RG_INNER], row, t, s->units) : NULL, dh, dgates, dz + 2 * bytes, back);
  if (after) memcpy(dz, dgates, 2 * bytes);
  else memcpy(dz + 2 * bytes, dgates + 2 * bytes, bytes); /* and the product with the kernel follows */
}

/* Reset before: given d(r h) in `through`, the reset gate's part and the state's. */
static void gru_reset_grad(const Walk *w, int64_t row, int64_t t, const BackSlot *p, int64_t i,
                           const char *through) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  Dtype d = s->dtype;
  size_t bytes = (size_t)s->units * s->size;
  char *dgates = at(w, c->out[0], row, t, 3 * s->units), *dz = p->dz + (size_t)(3 * i) * bytes,
       *back = p->dc + (size_t)i * bytes;
  const char *r = at(w, c->in[RG_GATES], row, t, 3 * s->units) + bytes,
             *h = at(w, c->in[RG_BEFORE], row, t, s->units);
  if (is_masked(w, row, t)) return;
  multiply_row(c, s, through, h, p->row);
  c->kernels->strip[EW_SIGMOID_GRAD][d]((const void *[]){p->row, r}, 0, dgates + bytes, s->units, NULL);
  multiply_row(c, s, through, r, p->row);
  add(c, d, back, p->row, back, s->units);
  memcpy(dz, dgates, 2 * bytes);
}

static void gru_grad_chunk(void *context, int64_t chunk, void *scratch) {
  const Walk *w = context;
  const Call *c = w->c;
  const Sequence *s = &w->s;
  bool after = c->attr[RESET_AFTER].i;
  int64_t height = chunk_rows(s->batch), first = chunk * height, rows = least(height, s->batch - first),
          u = s->units;
  size_t bytes = (size_t)u * s->size;
  Room room = {scratch, 0};
  BackSlot p = back_slot(&room, s); /* dc: what reaches the state past the products */
  start_state(w, RG_DH, first, rows, p.dh);
  memset(p.late, 0, (size_t)rows * bytes);
  for (int64_t t = s->steps - 1; t >= 0; t--) {
    for (int64_t i = 0; i < rows; i++) gru_row_grad(w, first + i, t, &p, i, after);
    if (!after) {
      multiply(c, &w->panels[1], s->dtype, p.dz + 2 * bytes, 3 * u, rows, p.next, u, false);
      for (int64_t i = 0; i < rows; i++) gru_reset_grad(w, first + i, t, &p, i, p.next + (size_t)i * bytes);
    }
    for (int64_t i = 0; i < rows; i++)
      memcpy(at(w, c->out[1], first + i, t, 3 * u), p.dz + (size_t)(3 * i) * bytes, 3 * bytes);
    multiply(c, &w->panels[0], s->dtype, p.dz, 3 * u, rows, p.dc, u, true);
    keep_masked(w, first, rows, t, p.dh, p.dc);
    memcpy(p.dh, p.dc, (size_t)rows * bytes);
  }
  end_state(w, 2, first, rows, p.dh);
}

static void gru_grad_panels(const Call *c, Room *room, Walk *w, const void *kernel, bool after) {
  int64_t u = w->s.units;
  w->panels[0] = transposed_panels(&w->s, kernel, 0, after ? 3 * u : 2 * u);
  prepare_panels(c, room, &w->panels[0], &w->s);
  if (after) return;
  w->panels[1] = transposed_panels(&w->s, kernel, 2 * u, u);
  prepare_panels(c, room, &w->panels[1], &w->s);
}

static Status inner_gru_grad(const Call *c) {
  Walk w = {.c = c, .mask = c->in_count > RG_MASK ? c->in[RG_MASK] : NULL, .zero = c->attr[ZERO_OUTPUT].i};
  backward_sequence(c->node, RG_GATES, 3, &w.s);
  Room room = {c->scratch, 0};
  gru_grad_panels(c, &room, &w, c->in[RG_RECURRENT], c->attr[RESET_AFTER].i);
  prepare_slots(&w, &room, back_slot_bytes(&w.s));
  walk_all(c, &w, gru_grad_chunk);
  return OK;
}
static Status eval_gru_grad(const Call *c) { return eval_wide(c, inner_gru_grad); }

static size_t scratch_gru_grad(const Node *n) {
  Walk w = {0};
  backward_sequence(n, RG_GATES, 3, &w.s);
  Room room = {0};
  gru_grad_panels(NULL, &room, &w, NULL, n->attr[RESET_AFTER].i);
  prepare_slots(&w, &room, back_slot_bytes(&w.s));
  return wide_scratch(n, room.used);
}

static Value *columns(Graph *g, Value *v, int64_t first, int64_t count) {
  if (!v) return NULL;
  Attr attrs[MAX_ATTRS] = {attr_ints((int64_t[]){0, first}, 2),
                           attr_ints((int64_t[]){v->type.shape[0], count}, 2)};
  return op_with(g, "slice", &v, 1, attrs);
}
static Value *joined(Graph *g, Value *a, Value *b, int axis) {
  return op_with(g, "concat", (Value *[]){a, b}, 2, (Attr[MAX_ATTRS]){attr_int(axis)});
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
  Value *before = (Value *)(uintptr_t)&n->out[RO_BEFORE], *inner = (Value *)(uintptr_t)&n->out[RO_INNER];
  Value *in[MAX_INPUTS] = {or_zeros(g, dy[RO_Y], &n->out[RO_Y].type),
                           or_zeros(g, dy[RO_H], &n->out[RO_H].type),
                           n->in[R_RECURRENT],
                           (Value *)(uintptr_t)&n->out[RO_GATES],
                           before,
                           inner,
                           masked ? n->in[R_MASK] : NULL};
  Attr attrs[MAX_ATTRS] = {n->attr[ZERO_OUTPUT], n->attr[RESET_AFTER]};
  Node *back = graph_node(g, op_find("nn.gru_grad"), in, masked ? 7 : 6, attrs);
  if (!back) return;
  Value *of_inputs = flat(g, &back->out[0]), *of_state = flat(g, &back->out[1]);
  grad_inputs(g, n, of_inputs, dx);
  if (after) {
    dx[R_RECURRENT] = ops_matmul(g, flat(g, before), of_state, true, false);
  } else {
    Value *gates = ops_matmul(g, flat(g, before), columns(g, of_state, 0, 2 * u), true, false);
    Value *candidate = ops_matmul(g, flat(g, inner), columns(g, of_state, 2 * u, u), true, false);
    dx[R_RECURRENT] = joined(g, gates, candidate, 1);
  }
  if (n->in_count > R_BIAS) {
    Value *sum = column_sum(g, of_inputs);
    dx[R_BIAS] = after ? joined(g, as_row(g, sum), as_row(g, column_sum(g, of_state)), 0) : sum;
  }
  if (n->in_count > R_H) dx[R_H] = &back->out[2];
}

/* ---- the simple recurrence: h = activation(x kernel + h recurrent + bias) ---- */

enum { S_X, S_KERNEL, S_RECURRENT, S_BIAS, S_H, S_MASK };
enum { SO_Y, SO_H, SO_GATES, SO_BEFORE };
enum { SG_DY, SG_DH, SG_RECURRENT, SG_GATES, SG_MASK };
enum { S_ZERO_OUTPUT, S_ACTIVATION };

static const struct Activation {
  const char *name;
  Elementwise map, grad; /* grad takes (dy, y) */
} activations[] = {{"tanh", EW_TANH, EW_TANH_GRAD},
                   {"relu", EW_RELU, EW_RELU_GRAD},
                   {"sigmoid", EW_SIGMOID, EW_SIGMOID_GRAD}};
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
  Status status = nn_want_float(e, n, 0, (int)least(n->in_count, S_MASK));
  if (status == OK) status = want_activation(e, n);
  if (status == OK) status = forward_sequence(e, n, 1, &s);
  if (status == OK) status = want(e, n, S_BIAS, "bias", 1, (int64_t[]){s.units});
  if (status == OK) status = want(e, n, S_H, "initial_h", 2, (int64_t[]){s.batch, s.units});
  if (status == OK) status = want_mask(e, n, S_MASK, &s);
  if (status != OK) return status;
  n->out[SO_Y].type = n->out[SO_GATES].type = n->out[SO_BEFORE].type = sequence_type(n, &s, s.units);
  n->out[SO_H].type = state_type(n, &s);
  return OK;
}

static void simple_row(const Walk *w, int64_t row, int64_t t, const char *z, char *h) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size;
  char *gates = at(w, c->out[SO_GATES], row, t, s->units);
  memcpy(at(w, c->out[SO_BEFORE], row, t, s->units), h, bytes);
  add(c, s->dtype, gates, z, gates, s->units);
  if (c->in_count > S_BIAS) add(c, s->dtype, gates, c->in[S_BIAS], gates, s->units);
  apply(c, activation_of(c->node)->map, s->dtype, gates, gates, s->units);
  if (!is_masked(w, row, t)) memcpy(h, gates, bytes);
  put_output(w, c->out[SO_Y], row, t, h);
}

static void simple_chunk(void *context, int64_t chunk, void *scratch) {
  const Walk *w = context;
  const Sequence *s = &w->s;
  int64_t height = chunk_rows(s->batch), first = chunk * height, rows = least(height, s->batch - first);
  size_t bytes = (size_t)s->units * s->size;
  Room room = {scratch, 0};
  BackSlot p = back_slot(&room, s);
  start_state(w, S_H, first, rows, p.dh);
  for (int64_t t = 0; t < s->steps; t++) {
    multiply(w->c, &w->panels[0], s->dtype, p.dh, s->units, rows, p.dz, s->units, false);
    for (int64_t i = 0; i < rows; i++)
      simple_row(w, first + i, t, p.dz + (size_t)i * bytes, p.dh + (size_t)i * bytes);
  }
  end_state(w, SO_H, first, rows, p.dh);
}

static Status inner_simple(const Call *c) {
  Error ignored = {0};
  Walk w = {.c = c, .mask = c->in_count > S_MASK ? c->in[S_MASK] : NULL, .zero = c->attr[S_ZERO_OUTPUT].i};
  forward_sequence(&ignored, c->node, 1, &w.s);
  Room room = {c->scratch, 0};
  multiply_inputs(c, &w.s, c->out[SO_GATES], room_take(&room, input_scratch(&w.s)));
  w.panels[0] = recurrent_panels(&w.s, c->in[S_RECURRENT], 0, w.s.units);
  prepare_panels(c, &room, &w.panels[0], &w.s);
  prepare_slots(&w, &room, back_slot_bytes(&w.s));
  walk_all(c, &w, simple_chunk);
  return OK;
}
static Status eval_simple(const Call *c) { return eval_wide(c, inner_simple); }

static size_t scratch_simple(const Node *n) {
  Error ignored = {0};
  Walk w = {0};
  forward_sequence(&ignored, n, 1, &w.s);
  Room room = {0};
  room_take(&room, input_scratch(&w.s));
  w.panels[0] = recurrent_panels(&w.s, NULL, 0, w.s.units);
  prepare_panels(NULL, &room, &w.panels[0], &w.s);
  prepare_slots(&w, &room, back_slot_bytes(&w.s));
  return wide_scratch(n, room.used);
}

static Status infer_simple_grad(Error *e, Node *n) {
  Sequence s;
  Status status = nn_want_float(e, n, 0, SG_MASK);
  if (status == OK) status = want_activation(e, n);
  if (status == OK) status = check_backward(e, n, SG_GATES, 1, &s);
  if (status == OK) status = want(e, n, SG_DH, "dh", 2, (int64_t[]){s.batch, s.units});
  if (status == OK) status = want(e, n, SG_RECURRENT, "recurrent_kernel", 2, (int64_t[]){s.units, s.units});
  if (status == OK) status = want_mask(e, n, SG_MASK, &s);
  if (status != OK) return status;
  n->out[0].type = sequence_type(n, &s, s.units);
  n->out[1].type = state_type(n, &s);
  return OK;
}

static void simple_row_grad(const Walk *w, int64_t row, int64_t t, char *dh, char *late, char *dz) {
  const Call *c = w->c;
  const Sequence *s = &w->s;
  size_t bytes = (size_t)s->units * s->size;
  take_output_grad(w, c->in[SG_DY], row, t, dh, late);
  if (is_masked(w, row, t)) memset(dz, 0, bytes);
  else
    c->kernels->strip[activation_of(c->node)->grad][s->dtype](
        (const void *[]){dh, at(w, c->in[SG_GATES], row, t, s->units)}, 0, dz, s->units, NULL);
  memcpy(at(w, c->out[0], row, t, s->units), dz, bytes);
}

static void simple_grad_chunk(void *context, int64_t chunk, void *scratch) {
  const Walk *w = context;
  const Sequence *s = &w->s;
  int64_t height = chunk_rows(s->batch), first = chunk * height, rows = least(height, s->batch - first);
  size_t bytes = (size_t)s->units * s->size;
  Room room = {scratch, 0};
  BackSlot p = back_slot(&room, s);
  start_state(w, SG_DH, first, rows, p.dh);
  memset(p.late, 0, (size_t)rows * bytes);
  for (int64_t t = s->steps - 1; t >= 0; t--) {
    for (int64_t i = 0; i < rows; i++) {
      size_t at_row = (size_t)i * bytes;
      simple_row_grad(w, first + i, t, p.dh + at_row, p.late + at_row, p.dz + at_row);
    }
    multiply(w->c, &w->panels[0], s->dtype, p.dz, s->units, rows, p.next, s->units, false);
    keep_masked(w, first, rows, t, p.dh, p.next);
    memcpy(p.dh, p.next, (size_t)rows * bytes);
  }
  end_state(w, 1, first, rows, p.dh);
}

static Status inner_simple_grad(const Call *c) {
  Walk w = {.c = c, .mask = c->in_count > SG_MASK ? c->in[SG_MASK] : NULL, .zero = c->attr[S_ZERO_OUTPUT].i};
  backward_sequence(c->node, SG_GATES, 1, &w.s);
  Room room = {c->scratch, 0};
  w.panels[0] = transposed_panels(&w.s, c->in[SG_RECURRENT], 0, w.s.units);
  prepare_panels(c, &room, &w.panels[0], &w.s);
  prepare_slots(&w, &room, back_slot_bytes(&w.s));
  walk_all(c, &w, simple_grad_chunk);
  return OK;
}
static Status eval_simple_grad(const Call *c) { return eval_wide(c, inner_simple_grad); }

static size_t scratch_simple_grad(const Node *n) {
  Walk w = {0};
  backward_sequence(n, SG_GATES, 1, &w.s);
  Room room = {0};
  w.panels[0] = transposed_panels(&w.s, NULL, 0, w.s.units);
  prepare_panels(NULL, &room, &w.panels[0], &w.s);
  prepare_slots(&w, &room, back_slot_bytes(&w.s));
  return wide_scratch(n, room.used);
}

static void grad_simple(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  bool masked = n->in_count > S_MASK;
  if (!dy[SO_Y] && !dy[SO_H]) return;
  Value *in[MAX_INPUTS] = {or_zeros(g, dy[SO_Y], &n->out[SO_Y].type),
                           or_zeros(g, dy[SO_H], &n->out[SO_H].type), n->in[S_RECURRENT],
                           (Value *)(uintptr_t)&n->out[SO_GATES], masked ? n->in[S_MASK] : NULL};
  Attr attrs[MAX_ATTRS] = {n->attr[S_ZERO_OUTPUT], n->attr[S_ACTIVATION]};
  Node *back = graph_node(g, op_find("nn.simple_rnn_grad"), in, masked ? 5 : 4, attrs);
  if (!back) return;
  Value *dgates = flat(g, &back->out[0]);
  grad_inputs(g, n, dgates, dx);
  dx[S_RECURRENT] = ops_matmul(g, flat(g, (Value *)(uintptr_t)&n->out[SO_BEFORE]), dgates, true, false);
  if (n->in_count > S_BIAS) dx[S_BIAS] = column_sum(g, dgates);
  if (n->in_count > S_H) dx[S_H] = &back->out[1];
}

/* ---- cost ---- */

_Static_assert((int)RG_GATES == (int)SG_GATES, "cost_backward finds both there");
static int64_t gates_of(const Node *n) {
  return strstr(n->op->name, "lstm") ? 4 : strstr(n->op->name, "gru") ? 3 : 1;
}

static void cost_forward(const Target *t, const Node *n, Cost *c) {
  Error ignored = {0};
  Sequence s;
  int64_t gates = gates_of(n);
  forward_sequence(&ignored, n, gates, &s);
  RnnShape shape = {
      .batch = s.batch, .steps = s.steps, .inputs = s.inputs, .outputs = s.units, .training = true};
  Dtype d = n->in[0]->type.dtype, partials = nn_partials(n);
  if (gates == 4) *c = cost_lstm(t, d, partials, &shape, false, NULL);
  if (gates == 3) *c = cost_gru(t, d, partials, &shape, false, NULL);
  if (gates > 1) return;
  PlanOptions held = {.resident = true};
  *c = cost_matmul(t, d, partials, 1, s.batch, s.inputs + s.units, s.units, &held);
  Cost map = cost_elementwise(t, d, s.batch * s.units, 2, cost_vector_cycles("tanh", d));
  cost_then(c, &map);
  cost_repeat(c, (double)s.steps);
}

/* Walking back: a product with the recurrent kernel and the gates' derivatives at each step; the other
 * products are nodes. */
static void cost_backward(const Target *t, const Node *n, Cost *c) {
  int64_t gates = gates_of(n);
  Sequence s;
  backward_sequence(n, gates == 4 ? LG_GATES : SG_GATES, gates, &s);
  PlanOptions held = {.resident = true};
  Dtype d = n->in[0]->type.dtype;
  *c = cost_matmul(t, d, nn_partials(n), 1, s.batch, gates * s.units, s.units, &held);
  Cost derivative = cost_elementwise(t, d, s.batch * s.units, 3, 6 * (double)gates);
  cost_then(c, &derivative);
  cost_repeat(c, (double)s.steps);
}

#define A_ZERO                                                                  \
  {                                                                             \
    .name = "zero_output_for_mask", .kind = ATTR_BOOL, .fallback = "false",     \
    .summary = "Outputs of masked steps are zero instead of the previous ones." \
  }
#define A_RESET                                                                                              \
  {                                                                                                          \
    .name = "reset_after", .kind = ATTR_BOOL, .fallback = "true",                                            \
    .summary =                                                                                               \
        "The reset gate multiplies the recurrent product, which has a bias of its own; otherwise the state." \
  }

#define A_ACTIVATION                                                                                 \
  {                                                                                                  \
    .name = "activation", .kind = ATTR_STRING, .fallback = "'tanh'", .choices = "tanh relu sigmoid", \
    .summary = "What is applied to the sum."                                                         \
  }

const OpDef ops_rnn[] = {
    {.name = "nn.lstm",
     .summary = "A long short-term memory over sequences; gates i, f, c, o. Returns all outputs, the last "
                "state and the last cell.",
     .shapes = "[n, t, f], [f, 4 u], [u, 4 u], [4 u], [n, u], [n, u], [n, t] → [n, t, u], [n, u], [n, u]",
     .source = "Hochreiter, Schmidhuber, Long short-term memory, 1997; forget gates as Gers et al., 2000",
     .inputs = {"x", "kernel", "recurrent_kernel", "bias?", "initial_h?", "initial_c?", "mask?"},
     .attrs = {A_ZERO},
     .outputs = 6,
     .visible_outputs = 3,
     .infer = infer_lstm,
     .eval = eval_lstm,
     .scratch = scratch_lstm,
     .cost = cost_forward,
     .grad = grad_lstm,
     .sample = "F[2,3,4] F[4,8] F[2,8] F[8] F[2,2] F[2,2] | F[3,4,2] F[2,12] F[3,12] | "
               "F[2,4,3] F[3,8] F[2,8] F[8] F[2,2] F[2,2] B[2,4] | "
               "F[2,4,3] F[3,8] F[2,8] F[8] F[2,2] F[2,2] B[2,4] {zero_output_for_mask = true}"},
    {.name = "nn.lstm_grad",
     .summary = "The gradient of an LSTM in its gates before activation and its initial states.",
     .shapes = "dy, dh, dc, recurrent kernel, gates, cells before, mask → dgates, dh, dc",
     .inputs = {"dy", "dh", "dc", "recurrent_kernel", "gates", "before_c", "mask?"},
     .attrs = {A_ZERO},
     .traits = INTERNAL | NO_GRADIENT,
     .outputs = 3,
     .infer = infer_lstm_grad,
     .eval = eval_lstm_grad,
     .scratch = scratch_lstm_grad,
     .cost = cost_backward,
     .sample = "F[2,3,2] F[2,2] F[2,2] F[2,8] U[2,3,8] F[2,3,2] | F[2,3,2] F[2,2] F[2,2] F[2,8] U[2,3,8] "
               "F[2,3,2] B[2,3]"},
    {.name = "nn.gru",
     .summary =
         "A gated recurrent unit over sequences; gates z, r, h. Returns all outputs and the last state.",
     .shapes = "[n, t, f], [f, 3 u], [u, 3 u], [2, 3 u] or [3 u], [n, u], [n, t] → [n, t, u], [n, u]",
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
     .sample =
         "F[2,3,4] F[4,6] F[2,6] F[2,6] F[2,2] | F[2,3,4] F[4,6] F[2,6] F[6] F[2,2] {reset_after = false} | "
         "F[2,4,3] F[3,6] F[2,6] F[2,6] F[2,2] B[2,4] | F[3,4,2] F[2,9] F[3,9] | "
         "F[2,4,3] F[3,6] F[2,6] F[6] F[2,2] B[2,4] {reset_after = false, zero_output_for_mask = true}"},
    {.name = "nn.gru_grad",
     .summary = "The gradient of a GRU in its gates before activation and its initial state.",
     .shapes = "dy, dh, recurrent kernel, gates, states before, inner, mask → dgates of inputs, dgates of "
               "states, dh",
     .inputs = {"dy", "dh", "recurrent_kernel", "gates", "before", "inner", "mask?"},
     .attrs = {A_ZERO, A_RESET},
     .traits = INTERNAL | NO_GRADIENT,
     .outputs = 3,
     .infer = infer_gru_grad,
     .eval = eval_gru_grad,
     .scratch = scratch_gru_grad,
     .cost = cost_backward,
     .sample = "F[2,3,2] F[2,2] F[2,6] U[2,3,6] F[2,3,2] F[2,3,2] | "
               "F[2,3,2] F[2,2] F[2,6] U[2,3,6] F[2,3,2] F[2,3,2] B[2,3] {reset_after = false}"},
    {.name = "nn.simple_rnn",
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
     .sample =
         "F[2,3,4] F[4,3] F[3,3] F[3] F[2,3] | F[2,4,3] F[3,2] F[2,2] F[2] F[2,2] B[2,4] | F[3,4,2] F[2,5] "
         "F[5,5] {activation = 'sigmoid'} | "
         "F[2,4,3] F[3,2] F[2,2] F[2] F[2,2] B[2,4] {zero_output_for_mask = true, activation = 'relu'}"},
    {.name = "nn.simple_rnn_grad",
     .summary = "The gradient of the simple recurrence before its activation and in its initial state.",
     .shapes = "dy, dh, recurrent kernel, outputs of steps, mask → dgates, dh",
     .inputs = {"dy", "dh", "recurrent_kernel", "gates", "mask?"},
     .attrs = {A_ZERO, A_ACTIVATION},
     .traits = INTERNAL | NO_GRADIENT,
     .outputs = 2,
     .infer = infer_simple_grad,
     .eval = eval_simple_grad,
     .scratch = scratch_simple_grad,
     .cost = cost_backward,
     .sample = "F[2,3,2] F[2,2] F[2,2] U[2,3,2] | F[2,3,2] F[2,2] F[2,2] U[2,3,2] B[2,3]"},
    {0}};
