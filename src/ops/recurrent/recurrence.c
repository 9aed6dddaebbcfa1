/* LSTM, GRU and the simple recurrence over whole sequences. The product of the inputs is one matrix
 * product for all steps. Then each chunk of rows of the batch runs through the steps independently:
 * a panel product with the recurrent kernel, gates, state. Further outputs keep the values for the
 * gradient: activated gates, and states before each step. The gradient rows run backwards, and give
 * the gradients of the gates. Products with inputs and kernels are ordinary nodes.
 *
 * A masked step (mask false) keeps the state and repeats the previous output (zero before the
 * first), or gives zero. */
#include "ops/linear/product.h"
#include "ops/recurrent/rnn.h"

enum { ROWS = 16, MIN_ROWS = 8 };

int64_t rnn_chunk_rows(int64_t batch) { return min(ROWS, max(MIN_ROWS, (batch + 1) / 2)); }
int64_t rnn_rows_of(const Sequence *s, int64_t chunk, int64_t *first) {
  int64_t height = rnn_chunk_rows(s->batch);
  *first = chunk * height;
  return min(height, s->batch - *first);
}
static int64_t chunk_count(int64_t batch) {
  return (batch + rnn_chunk_rows(batch) - 1) / rnn_chunk_rows(batch);
}

Status rnn_want(Error *e, const Node *n, int input, const char *what, int rank,
                const int64_t *shape) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  if (input >= n->in_count) return OK;
  Type wanted = type_make(F32, rank, shape);
  if (shape_equal(&wanted, &n->in[input]->type)) return OK;
  return fail(e, ERR_INVALID_ARGUMENT, "%s must be %s, got %s", what, shape_text(&wanted, a),
              shape_text(&n->in[input]->type, b));
}

Status rnn_want_mask(Error *e, const Node *n, int input, const Sequence *s) {
  if (input >= n->in_count) return OK;
  Dtype d = n->in[input]->type.dtype;
  if (d != BOOL) return fail(e, ERR_TYPE, "mask must be bool, got %s", dtype_name(d));
  return rnn_want(e, n, input, "mask", 2, (int64_t[]){s->batch, s->steps});
}

/* x, kernel and recurrent kernel are operands 0 to 2. */
Status rnn_forward_sequence(Error *e, const Node *n, int64_t gates, Sequence *s) {
  const Type *x = &n->in[0]->type, *kernel = &n->in[1]->type;
  char text[TYPE_TEXT];
  Status status = nn_want_rank(e, "x", x, 3);
  if (status == OK) status = nn_want_rank(e, "kernel", kernel, 2);
  if (status != OK) return status;
  *s =
      (Sequence){.batch = x->shape[0], .steps = x->shape[1], .inputs = x->shape[2], .gates = gates};
  if (kernel->shape[1] % gates || kernel->shape[1] == 0)
    return fail(e, ERR_INVALID_ARGUMENT, "kernel must be [inputs, %lld units], got %s",
                (long long)gates, shape_text(kernel, text));
  s->units = kernel->shape[1] / gates;
  s->dtype = dtype_to_compute(x->dtype);
  s->size = dtype_size(s->dtype);
  status = rnn_want(e, n, 1, "kernel", 2, (int64_t[]){s->inputs, gates * s->units});
  return status == OK
             ? rnn_want(e, n, 2, "recurrent_kernel", 2, (int64_t[]){s->units, gates * s->units})
             : status;
}

Type rnn_sequence_type(const Node *n, const Sequence *s, int64_t width) {
  return type_make(n->in[0]->type.dtype, 3, (int64_t[]){s->batch, s->steps, width});
}
Type rnn_state_type(const Node *n, const Sequence *s) {
  return type_make(n->in[0]->type.dtype, 2, (int64_t[]){s->batch, s->units});
}

/* ---- products ---- */

static int64_t panel_count(const Panels *p) { return (p->cols + PANEL_COLS - 1) / PANEL_COLS; }
static size_t panels_bytes(const Panels *p, size_t size) {
  return (size_t)(panel_count(p) * p->rows * PANEL_COLS) * size;
}

static void pack_panels(const Call *c, const Panels *p, Dtype d) {
  size_t size = dtype_size(d);
  for (int64_t i = 0; i < panel_count(p); i++)
    c->kernels->panel_pack[d]((const char *)p->source + (size_t)(i * PANEL_COLS * p->col) * size,
                              p->row, p->col, p->rows, min(PANEL_COLS, p->cols - i * PANEL_COLS),
                              p->data + (size_t)(i * p->rows * PANEL_COLS) * size);
}

/* Of one panel: where its random numbers begin when partial sums round to float16. */
static uint64_t panel_draw(int64_t turn, int which, int64_t panel, const Panels *p) {
  return ((uint64_t)(turn * 2 + which + 1) << 32) + (uint64_t)(panel * PANEL_COLS * p->rows * ROWS);
}

void rnn_multiply(const RecurrenceChunk *w, int which, const void *x, int64_t x_row, int64_t rows,
                  void *y, int64_t y_row, bool accumulate, int64_t turn) {
  const Panels *p = &w->panels[which];
  Dtype d = w->s.dtype;
  size_t size = w->s.size;
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
    m.cols = min(PANEL_COLS, p->cols - i * PANEL_COLS);
    if (w->half) product_panel_half(w->c, &m, panel_draw(turn, which, i, p));
    else w->c->kernels->panel_mul[d](&m);
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
  p.draw = (uint64_t)1 << 62; /* apart from the steps' */
  if (product_sums_half(c)) product_run_half(c, &p);
  else product_run(c, &p, scratch);
}

static size_t input_scratch(const Sequence *s) {
  static char somewhere; /* plans ask whether there is a C */
  Product p = input_product(s);
  p.gemm.c = &somewhere;
  return product_scratch(&p);
}

void rnn_apply(const Call *c, Elementwise f, Dtype d, const void *x, void *y, int64_t n) {
  c->kernels->strip[f][d]((const void *[]){x}, 0, y, n, NULL);
}
void rnn_add(const Call *c, Dtype d, const void *a, const void *b, void *y, int64_t n) {
  c->kernels->strip[EW_ADD][d]((const void *[]){a, b}, 0, y, n, NULL);
}

bool rnn_is_masked(const RecurrenceChunk *w, int64_t row, int64_t step) {
  return w->mask && !w->mask[row * w->s.steps + step];
}

/* Element [row, step, 0] of a [batch, steps, width] buffer. */
char *rnn_at(const RecurrenceChunk *w, const void *data, int64_t row, int64_t step, int64_t width) {
  return (char *)(uintptr_t)data + (size_t)((row * w->s.steps + step) * width) * w->s.size;
}

/* y of a step: the state, or the output of a masked step. */
void rnn_put_output(const RecurrenceChunk *w, void *out, int64_t row, int64_t step,
                    const char *state) {
  size_t bytes = (size_t)w->s.units * w->s.size;
  char *y = rnn_at(w, out, row, step, w->s.units);
  if (!rnn_is_masked(w, row, step)) memcpy(y, state, bytes);
  else if (w->zero || step == 0) memset(y, 0, bytes);
  else memcpy(y, y - bytes, bytes);
}

/* Backward: the gradient that reaches the state after a step, in dh. A masked step's dy belongs to
 * an earlier output, and is kept in `late`. */
void rnn_take_output_grad(const RecurrenceChunk *w, const void *dy, int64_t row, int64_t step,
                          char *dh, char *late) {
  int64_t units = w->s.units;
  const char *up = rnn_at(w, dy, row, step, units);
  if (!rnn_is_masked(w, row, step)) {
    rnn_add(w->c, w->s.dtype, dh, up, dh, units);
    if (!w->mask) return;
    rnn_add(w->c, w->s.dtype, dh, late, dh, units);
    memset(late, 0, (size_t)units * w->s.size);
  } else if (!w->zero) {
    rnn_add(w->c, w->s.dtype, late, up, late, units);
  }
}

void rnn_start_state(const RecurrenceChunk *w, int input, int64_t first, int64_t rows,
                     char *state) {
  size_t bytes = (size_t)w->s.units * w->s.size;
  if (input < w->c->in_count)
    memcpy(state, (const char *)w->c->in[input] + (size_t)first * bytes, (size_t)rows * bytes);
  else memset(state, 0, (size_t)rows * bytes);
}
void rnn_end_state(const RecurrenceChunk *w, int output, int64_t first, int64_t rows,
                   const char *state) {
  size_t bytes = (size_t)w->s.units * w->s.size;
  memcpy((char *)w->c->out[output] + (size_t)first * bytes, state, (size_t)rows * bytes);
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
static Panels transposed_panels(const Sequence *s, const void *kernel, int64_t first,
                                int64_t rows) {
  int64_t width = s->gates * s->units;
  return (Panels){.source = (const char *)kernel + (kernel ? (size_t)first * s->size : 0),
                  .row = 1,
                  .col = width,
                  .rows = rows,
                  .cols = s->units};
}

void rnn_prepare_panels(const Call *c, Room *room, Panels *p, const Sequence *s) {
  p->data = room_take(room, panels_bytes(p, s->size));
  if (room->base) pack_panels(c, p, s->dtype);
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

/* The scratch of the recurrence; with c NULL only its size is counted. */
static void prepare(const Call *c, const Node *n, const Recurrence *r, Room *room,
                    RecurrenceChunk *w) {
  Error ignored = {0};
  const void *kernel = c ? c->in[r->recurrent] : NULL;
  PanelsOf *which = r->backward ? transposed_panels : recurrent_panels;
  if (r->backward) {
    backward_sequence(n, r->gates, r->times, &w->s);
  } else {
    rnn_forward_sequence(&ignored, n, r->times, &w->s);
    void *scratch = room_take(room, input_scratch(&w->s));
    if (c) multiply_inputs(c, &w->s, c->out[r->gates], scratch);
  }
  if (r->panels) {
    r->panels(c, n, room, w, kernel, which);
  } else {
    w->panels[0] = which(&w->s, kernel, 0, r->times * w->s.units);
    rnn_prepare_panels(c, room, &w->panels[0], &w->s);
  }
  w->slot_bytes = r->slot_bytes(&w->s);
  w->slots = room_take(room, w->slot_bytes * NN_SLOTS);
}

Status rnn_run(const Call *c, const Recurrence *r) {
  RecurrenceChunk w = {.c = c,
                       .mask = c->in_count > r->mask ? c->in[r->mask] : NULL,
                       .zero = c->attr[r->zero].i,
                       .half = product_sums_half(c)};
  Room room = {c->scratch, 0};
  prepare(c, c->node, r, &room, &w);
  nn_run(c, chunk_count(w.s.batch), w.slots, w.slot_bytes, r->task, &w);
  return OK;
}

size_t rnn_scratch(const Node *n, const Recurrence *r) {
  RecurrenceChunk w = {0};
  Room room = {0};
  prepare(NULL, n, r, &room, &w);
  return wide_scratch(n, room.used);
}

Status rnn_check_backward(Error *e, const Node *n, int gates_input, int64_t gates, Sequence *s) {
  Status status = nn_want_rank(e, "gates", &n->in[gates_input]->type, 3);
  if (status != OK) return status;
  if (n->in[gates_input]->type.shape[2] % gates)
    return fail(e, ERR_INVALID_ARGUMENT, "gates must be a multiple of the units");
  backward_sequence(n, gates_input, gates, s);
  return rnn_want(e, n, 0, "dy", 3, (int64_t[]){s->batch, s->steps, s->units});
}

BackSlot rnn_back_slot(Room *r, const Sequence *s) {
  size_t state = (size_t)(rnn_chunk_rows(s->batch) * s->units) * s->size,
         row = (size_t)s->units * s->size;
  BackSlot p;
  p.dh = room_take(r, state), p.next = room_take(r, state), p.dc = room_take(r, state),
  p.late = room_take(r, state);
  p.dz = room_take(r, (size_t)s->gates * state);
  p.row = room_take(r, row);
  return p;
}
size_t rnn_back_slot_bytes(const Sequence *s) {
  Room r = {0};
  rnn_back_slot(&r, s);
  return r.used;
}

/* The states' gradients swap buffers; rows that were masked keep theirs. */
void rnn_keep_masked(const RecurrenceChunk *w, int64_t first, int64_t rows, int64_t t,
                     const char *dh, char *next) {
  size_t bytes = (size_t)w->s.units * w->s.size;
  for (int64_t i = 0; w->mask && i < rows; i++)
    if (rnn_is_masked(w, first + i, t))
      memcpy(next + (size_t)i * bytes, dh + (size_t)i * bytes, bytes);
}

/* ---- gradients as nodes ---- */

/* [batch, steps, width] as [batch steps, width]. */
Value *rnn_flat(Graph *g, Value *v) {
  if (!v) return NULL;
  Type t = type_make(v->type.dtype, 2,
                     (int64_t[]){v->type.shape[0] * v->type.shape[1], v->type.shape[2]});
  return ops_reshape(g, v, &t);
}
Value *rnn_or_zeros(Graph *g, Value *v, const Type *t) { return v ? v : ops_zeros(g, t); }
Value *rnn_column_sum(Graph *g, Value *v) { return ops_sum(g, v, (int64_t[]){0}, 1, false); }

void rnn_grad_inputs(Graph *g, const Node *n, Value *dgates, Value **dx) {
  dx[0] = ops_reshape_like(g, ops_matmul(g, dgates, n->in[1], false, true), n->in[0]);
  dx[1] = ops_matmul(g, rnn_flat(g, n->in[0]), dgates, true, false);
}

/* ---- of other ops ---- */

Written rnn_write(Graph *g, const Node *n, int mask_input, const Type *y) {
  Written w = {.g = g, .steps = y->shape[1], .zero = n->attr[ZERO_OUTPUT].i};
  Type state = type_make(y->dtype, 2, (int64_t[]){y->shape[0], y->shape[2]});
  w.nothing = ops_zeros(g, &state);
  w.number = graph_number(g, y->dtype, 0);
  if (mask_input >= n->in_count) return w;
  Type columns = type_make(BOOL, 3, (int64_t[]){y->shape[0], y->shape[1], 1});
  w.mask = rnn_steps(&w, ops_reshape(g, n->in[mask_input], &columns));
  return w;
}

Value **rnn_room(Written *w) {
  Value **room = arena_alloc(w->g->arena, (size_t)max(w->steps, 1) * sizeof *room);
  if (!room && w->g->error.status == OK)
    fail(&w->g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
  if (w->g->error.status != OK) w->steps = 0;
  return room;
}

Value **rnn_steps(Written *w, Value *sequence) {
  Value **step = rnn_room(w);
  if (w->steps == 0) return step;
  Node *n = graph_node(w->g, op_find("unstack"), &sequence, 1, (Attr[MAX_ATTRS]){attr_int(1)});
  if (!n) w->steps = 0;
  for (int64_t t = 0; t < w->steps; t++) step[t] = &n->out[t];
  return step;
}

Value *rnn_sequence(Written *w, Value **step, const Type *type) {
  if (w->steps == 0) return ops_zeros(w->g, type);
  return op_with(w->g, "stack", step, (int)w->steps, (Attr[MAX_ATTRS]){attr_int(1)});
}

Gates rnn_split(Written *w, Value *gates, int count) {
  Gates parts = {0};
  Attr attrs[MAX_ATTRS] = {attr_ints((int64_t[]){count}, 1), attr_int(1)};
  Node *n = graph_node(w->g, op_find("split"), &gates, 1, attrs);
  for (int i = 0; n && i < count; i++) parts.part[i] = &n->out[i];
  return parts;
}

Value *rnn_join(Written *w, const Gates *gates, int count) {
  return op_with(w->g, "concat", gates->part, count, (Attr[MAX_ATTRS]){attr_int(1)});
}

Value *rnn_project(Graph *g, const Node *n) {
  const Type *x = &n->in[0]->type;
  Type sequence =
      type_make(x->dtype, 3, (int64_t[]){x->shape[0], x->shape[1], n->in[1]->type.shape[1]});
  return ops_reshape(g, ops_matmul(g, rnn_flat(g, n->in[0]), n->in[1], false, false), &sequence);
}

Value *rnn_state(const Written *w, const Node *n, int input) {
  return input < n->in_count ? n->in[input] : w->nothing;
}

Value *rnn_unmasked(const Written *w, int64_t t, Value *a, Value *b) {
  return w->mask ? ops_where(w->g, w->mask[t], a, b) : a;
}

Value *rnn_output(const Written *w, int64_t t, Value *state, Value *before) {
  return rnn_unmasked(w, t, state, w->zero ? w->nothing : before);
}

void rnn_output_grad(const Written *w, int64_t t, Value *dy, Value **dh, Value **late) {
  Value *here = ops_add(w->g, *dh, dy), *kept = *late;
  if (w->mask && !w->zero) {
    here = ops_add(w->g, here, kept);
    *late = rnn_unmasked(w, t, w->nothing, ops_add(w->g, kept, dy));
  }
  *dh = rnn_unmasked(w, t, here, *dh);
}

Value *rnn_back(Graph *g, Value *dz, Value *recurrent) {
  return ops_matmul(g, dz, recurrent, false, true);
}

/* ---- cost ---- */

void rnn_cost_forward(const Target *t, const Node *n, int64_t gates, Cost *c) {
  Error ignored = {0};
  Sequence s;
  rnn_forward_sequence(&ignored, n, gates, &s);
  RnnShape shape = {
      .batch = s.batch, .steps = s.steps, .inputs = s.inputs, .outputs = s.units, .training = true};
  Dtype d = n->in[0]->type.dtype, partials = nn_partials(n);
  if (gates == 4) *c = cost_lstm(t, d, partials, &shape, false, NULL);
  if (gates == 3) *c = cost_gru(t, d, partials, &shape, false, NULL);
  if (gates > 1) return;
  PlanOptions held = {.resident = true};
  *c = cost_matmul(t, d, partials, 1, s.batch, s.inputs + s.units, s.units, &held);
  Cost map = cost_elementwise(t, d, s.batch * s.units, 2, VECTOR(TANH, d));
  cost_then(c, &map);
  cost_repeat(c, (double)s.steps);
}

/* Walking back: a product with the recurrent kernel and the gates' derivatives at each step; the
 * other products are nodes. */
void rnn_cost_backward(const Target *t, const Node *n, int64_t gates, Cost *c) {
  Sequence s;
  int input = 0;
  while (strcmp(n->op->inputs[input], "gates")) input++;
  backward_sequence(n, input, gates, &s);
  Dtype d = n->in[0]->type.dtype, partials = nn_partials(n);
  RnnShape shape = {.batch = s.batch,
                    .steps = s.steps,
                    .inputs = s.units,
                    .outputs = s.units,
                    .gradients_apart = true};
  if (gates == 4) *c = cost_lstm(t, d, partials, &shape, true, NULL);
  if (gates == 3) *c = cost_gru(t, d, partials, &shape, true, NULL);
  if (gates > 1) return;
  PlanOptions held = {.resident = true};
  *c = cost_matmul(t, d, partials, 1, s.batch, s.units, s.units, &held);
  Cost derivative = cost_elementwise(t, d, s.batch * s.units, 3, 6);
  cost_then(c, &derivative);
  cost_repeat(c, (double)s.steps);
}
