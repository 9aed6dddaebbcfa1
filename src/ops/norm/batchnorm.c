/* Batch normalisation: statistics of columns, channels last.
 *
 * Forward makes three passes: sum, squares, scale. Backward makes two: products, then dx = dy p +
 * (x - mean) q + r, with p, q and r for each channel. */
#include <math.h>
#include <string.h>

#include "ops/norm/channels.h"
#include "ops/norm/norm.h"
#include "target/cost.h"

enum { CHUNK_ELEMENTS = 32768 };

/* Per-channel vectors: v reshaped to broadcast along an axis. */
static Value *along(Graph *g, Value *v, const Type *x, int axis) {
  if (!v) return NULL;
  Type t = *x;
  for (int i = 0; i < x->rank; i++)
    if (i != axis) t.shape[i] = 1;
  return ops_reshape(g, v, &t);
}

enum { X, GAMMA, BETA, MEAN, VARIANCE }; /* operands */
enum { AXIS, EPSILON, TRAINING };        /* attributes */
enum { Y, OUT_MEAN, OUT_VARIANCE, OUT_INVERSE };
enum { G_DY, G_X, G_MEAN, G_INVERSE, G_GAMMA }; /* operands of the gradient */

static bool uses_batch(const Node *n) { return n->in_count <= VARIANCE || n->attr[TRAINING].i; }

static Status infer_batch(Error *e, Node *n) {
  const Type *x = &n->in[X]->type;
  int axis;
  Status s = norm_want_float(e, n, X);
  char text[TYPE_TEXT];
  if (s == OK && x->rank < 2)
    return fail(e, ERR_INVALID_ARGUMENT, "x must have at least a batch and a channel axis, got %s",
                shape_text(x, text));
  if (s == OK) s = axis_check(e, "axis", n->attr[AXIS].i, x->rank, &axis);
  if (s != OK) return s;
  if (n->in_count == MEAN + 1) return fail(e, ERR_INVALID_ARGUMENT, "mean comes with variance");
  int64_t channels = x->shape[axis];
  static const char *const names[] = {"x", "gamma", "beta", "mean", "variance"};
  for (int i = GAMMA; s == OK && i <= VARIANCE; i++)
    s = want_channels(e, n, i, names[i], x, channels);
  n->attr[AXIS].i = axis;
  n->out[Y].type = *x;
  for (int i = OUT_MEAN; i <= OUT_INVERSE; i++)
    n->out[i].type = type_make(dtype_to_compute(x->dtype), 1, &channels);
  return s;
}

/* Rows are cut into chunks; each sums its columns into a row of its own, and those are added in
 * order. */
typedef struct Batch {
  const Call *call;
  Channels l;
  int64_t rows, chunk_rows, chunks;
  const char *dy, *x;
  char *y, *sums, *products; /* [chunks][channels] */
  char *mean, *p, *q, *r;    /* [channels] */
} Batch;

static Batch batch_of(const Channels *l) {
  Batch b = {.l = *l, .rows = l->outer * l->inner};
  b.chunk_rows = max(CHUNK_ELEMENTS / max(l->channels, 1), 1);
  b.chunk_rows = max(b.chunk_rows, (b.rows + 255) / 256); /* at most 256 rows of sums */
  b.chunks = (b.rows + b.chunk_rows - 1) / b.chunk_rows;
  return b;
}

static void take_batch(Room *room, Batch *b) {
  size_t row = (size_t)b->l.channels * b->l.size;
  b->sums = room_take(room, row * (size_t)b->chunks);
  b->products = room_take(room, row * (size_t)b->chunks);
  b->mean = room_take(room, row);
  b->p = room_take(room, row);
  b->q = room_take(room, row);
  b->r = room_take(room, row);
}

typedef struct Chunk {
  int64_t rows;
  size_t at, row;
} Chunk;
static Chunk chunk_of(const Batch *b, int64_t i) {
  int64_t first = i * b->chunk_rows;
  return (Chunk){min(b->chunk_rows, b->rows - first), (size_t)(first * b->l.channels) * b->l.size,
                 (size_t)(i * b->l.channels) * b->l.size};
}

static void sum_chunk(void *context, int64_t i, void *scratch) {
  (void)scratch;
  const Batch *b = context;
  Chunk c = chunk_of(b, i);
  memset(b->sums + c.row, 0, (size_t)b->l.channels * b->l.size);
  b->call->kernels->column_sums[b->l.dtype](b->x + c.at, c.rows, b->l.channels, b->sums + c.row);
}
static void square_chunk(void *context, int64_t i, void *scratch) {
  (void)scratch;
  const Batch *b = context;
  Chunk c = chunk_of(b, i);
  memset(b->sums + c.row, 0, (size_t)b->l.channels * b->l.size);
  b->call->kernels->column_squares[b->l.dtype](b->x + c.at, b->mean, c.rows, b->l.channels,
                                               b->sums + c.row);
}
static void scale_chunk(void *context, int64_t i, void *scratch) {
  (void)scratch;
  const Batch *b = context;
  Chunk c = chunk_of(b, i);
  b->call->kernels->column_scale[b->l.dtype](b->x + c.at, b->mean, b->p, b->r, c.rows,
                                             b->l.channels, b->y + c.at);
}
static void product_chunk(void *context, int64_t i, void *scratch) {
  (void)scratch;
  const Batch *b = context;
  Chunk c = chunk_of(b, i);
  memset(b->sums + c.row, 0, (size_t)b->l.channels * b->l.size);
  memset(b->products + c.row, 0, (size_t)b->l.channels * b->l.size);
  b->call->kernels->column_products[b->l.dtype](b->dy + c.at, b->x + c.at, b->mean, c.rows,
                                                b->l.channels, b->sums + c.row,
                                                b->products + c.row);
}
static void combine_chunk(void *context, int64_t i, void *scratch) {
  (void)scratch;
  const Batch *b = context;
  Chunk c = chunk_of(b, i);
  b->call->kernels->column_combine[b->l.dtype](b->dy + c.at, b->x + c.at, b->mean, b->p, b->q, b->r,
                                               c.rows, b->l.channels, b->y + c.at);
}

static double column_total(const Batch *b, const char *sums, int64_t channel) {
  double total = 0;
  for (int64_t i = 0; i < b->chunks; i++)
    total += channel_get(&b->l, sums, i * b->l.channels + channel);
  return total;
}

static void batch_statistics(const Call *c, Batch *b) {
  double rows = (double)b->rows;
  nn_run(c, b->chunks, NULL, 0, sum_chunk, b);
  for (int64_t i = 0; i < b->l.channels; i++)
    channel_set(&b->l, b->mean, i, column_total(b, b->sums, i) / rows);
  nn_run(c, b->chunks, NULL, 0, square_chunk, b);
  for (int64_t i = 0; i < b->l.channels; i++) {
    channel_set(&b->l, c->out[OUT_MEAN], i, channel_get(&b->l, b->mean, i));
    channel_set(&b->l, c->out[OUT_VARIANCE], i, column_total(b, b->sums, i) / rows);
  }
}

static Status inner_batch(const Call *c) {
  Channels l = channels_of(c->in_type[X], c->attr[AXIS].i);
  Batch b = batch_of(&l);
  Room room = {c->scratch, 0};
  size_t channels = (size_t)l.channels * l.size;
  b.call = c;
  take_batch(&room, &b);
  b.x = channels_move(c, &l, &room, c->in[X]);
  b.y = channels_are_moved(&l) ? (char *)(uintptr_t)b.x : c->out[Y];
  if (uses_batch(c->node)) {
    batch_statistics(c, &b);
  } else {
    memcpy(b.mean, c->in[MEAN], channels);
    memcpy(c->out[OUT_MEAN], c->in[MEAN], channels);
    memcpy(c->out[OUT_VARIANCE], c->in[VARIANCE], channels);
  }
  for (int64_t i = 0; i < l.channels; i++) {
    double inverse = 1 / sqrt(channel_get(&l, c->out[OUT_VARIANCE], i) + c->attr[EPSILON].f);
    channel_set(&l, c->out[OUT_INVERSE], i, inverse);
    channel_set(&l, b.p, i, inverse * (c->in_count > GAMMA ? channel_get(&l, c->in[GAMMA], i) : 1));
    channel_set(&l, b.r, i, c->in_count > BETA ? channel_get(&l, c->in[BETA], i) : 0);
  }
  nn_run(c, b.chunks, NULL, 0, scale_chunk, &b);
  channels_move_back(c, &l, b.y, c->out[Y]);
  return OK;
}
static Status eval_batch(const Call *c) { return eval_wide(c, inner_batch); }

static Status infer_batch_grad(Error *e, Node *n) {
  const Type *x = &n->in[G_X]->type;
  int axis;
  Status s = norm_want_float(e, n, G_X);
  if (s == OK) s = axis_check(e, "axis", n->attr[AXIS].i, x->rank, &axis);
  if (s != OK) return s;
  if (!shape_equal(x, &n->in[G_DY]->type))
    return fail(e, ERR_INVALID_ARGUMENT, "dy and x must have one shape");
  int64_t channels = x->shape[axis];
  static const char *const names[] = {"dy", "x", "mean", "inverse", "gamma"};
  for (int i = G_MEAN; s == OK && i <= G_GAMMA; i++)
    s = want_channels(e, n, i, names[i], x, channels);
  n->attr[AXIS].i = axis;
  n->out[0].type = *x;
  n->out[1].type = n->out[2].type = type_make(norm_parameter_dtype(n, G_X, G_GAMMA), 1, &channels);
  return s;
}

static Status inner_batch_grad(const Call *c) {
  Channels l = channels_of(c->in_type[G_X], c->attr[AXIS].i);
  Batch b = batch_of(&l);
  Room room = {c->scratch, 0};
  b.call = c;
  take_batch(&room, &b);
  b.dy = channels_move(c, &l, &room, c->in[G_DY]);
  b.x = channels_move(c, &l, &room, c->in[G_X]);
  b.y = channels_are_moved(&l) ? (char *)(uintptr_t)b.dy : c->out[0];
  memcpy(b.mean, c->in[G_MEAN], (size_t)l.channels * l.size);
  nn_run(c, b.chunks, NULL, 0, product_chunk, &b);
  for (int64_t i = 0; i < l.channels; i++) {
    double inverse = channel_get(&l, c->in[G_INVERSE], i),
           gamma = c->in_count > G_GAMMA ? channel_get(&l, c->in[G_GAMMA], i) : 1;
    double sum = column_total(&b, b.sums, i), product = column_total(&b, b.products, i),
           rows = (double)b.rows;
    channel_set(&l, c->out[1], i, product * inverse);
    channel_set(&l, c->out[2], i, sum);
    channel_set(&l, b.p, i, gamma * inverse);
    channel_set(&l, b.q, i, -gamma * inverse * inverse * inverse * product / rows);
    channel_set(&l, b.r, i, -gamma * inverse * sum / rows);
  }
  nn_run(c, b.chunks, NULL, 0, combine_chunk, &b);
  channels_move_back(c, &l, b.y, c->out[0]);
  return OK;
}
static Status eval_batch_grad(const Call *c) { return eval_wide(c, inner_batch_grad); }

static size_t scratch_batch(const Node *n) {
  bool backward = n->op->traits & INTERNAL;
  Channels l = channels_of(&n->in[backward ? G_X : X]->type, n->attr[AXIS].i);
  Batch b = batch_of(&l);
  Room room = {0};
  take_batch(&room, &b);
  if (channels_are_moved(&l)) room_take(&room, channels_bytes(&l));
  if (channels_are_moved(&l) && backward) room_take(&room, channels_bytes(&l));
  return wide_scratch(n, room.used);
}

static int other_axes(const Type *x, int axis, int64_t axes[MAX_RANK]) {
  int count = 0;
  for (int i = 0; i < x->rank; i++)
    if (i != axis) axes[count++] = i;
  return count;
}

/* With given statistics y is linear in x, gamma, beta and mean; the variance goes through
 * inverse^3. */
static void grad_inference(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *x = norm_wide(g, n->in[X]), *up = norm_wide(g, dy[Y]);
  if (graph_error(g) != OK) return;
  const Type *t = &n->in[X]->type;
  int64_t axes[MAX_RANK];
  int axis = (int)n->attr[AXIS].i, count = other_axes(t, axis, axes);
  Value *mean = norm_wide(g, n->in[MEAN]), *inverse = &n->out[OUT_INVERSE],
        *gamma = norm_wide(g, n->in[GAMMA]);
  if (graph_error(g) != OK) return;
  Value *dinverse = dy[OUT_INVERSE];
  if (up) {
    Value *scale = ops_mul(g, gamma, inverse), *sum = ops_sum(g, up, axes, count, false);
    Value *product =
        ops_sum(g, ops_mul(g, up, ops_sub(g, x, along(g, mean, t, axis))), axes, count, false);
    dx[X] = ops_mul(g, up, along(g, scale, t, axis));
    dx[GAMMA] = ops_mul(g, product, inverse);
    dx[BETA] = sum;
    dx[MEAN] = ops_neg(g, ops_mul(g, sum, scale));
    dinverse = nn_plus(g, dinverse, ops_mul(g, product, gamma));
  }
  dx[MEAN] = nn_plus(g, dx[MEAN], dy[OUT_MEAN]);
  dx[VARIANCE] = dy[OUT_VARIANCE];
  if (dinverse) {
    Value *cube = ops_mul(g, ops_mul(g, inverse, inverse), inverse);
    dx[VARIANCE] = nn_plus(g, dx[VARIANCE], ops_scale(g, ops_mul(g, dinverse, cube), -0.5));
  }
  norm_fit_gradients(g, n, dx);
}

static void grad_batch(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  if (!uses_batch(n)) {
    grad_inference(g, n, dy, dx);
    return;
  }
  Value *x = n->in[X];
  const Type *t = &x->type;
  int axis = (int)n->attr[AXIS].i;
  double rows = t->shape[axis] ? (double)type_count(t) / (double)t->shape[axis] : 1;
  Value *mean = along(g, &n->out[OUT_MEAN], t, axis),
        *inverse = along(g, &n->out[OUT_INVERSE], t, axis);
  Value *of_output[] = {dy[Y], &n->out[OUT_MEAN], &n->out[OUT_INVERSE]};
  Attr attrs[MAX_ATTRS] = {n->attr[AXIS]};
  if (dy[Y] && !norm_first(g, "nn.batch_norm_grad", n, of_output, attrs, dx)) return;
  if (dy[OUT_MEAN] || dy[OUT_VARIANCE] || dy[OUT_INVERSE]) {
    x = norm_wide(g, x);
    dx[X] = nn_plus(g, norm_wide(g, dx[X]),
                    norm_statistics_grad(g, x, mean, inverse, along(g, dy[OUT_MEAN], t, axis),
                                         along(g, dy[OUT_INVERSE], t, axis), rows));
  }
  if (dy[OUT_VARIANCE]) {
    Value *slope = ops_scale(g, along(g, dy[OUT_VARIANCE], t, axis), 2 / rows);
    dx[X] = nn_plus(g, dx[X], ops_mul(g, ops_sub(g, x, mean), slope));
  }
  norm_fit_gradients(g, n, dx);
}

static void grad_batch_grad(Graph *g, const Node *n, Value *const *u, Value **dx) {
  const Type *x = &n->in[G_X]->type;
  int64_t axes[MAX_RANK];
  int axis = (int)n->attr[AXIS].i, count = other_axes(x, axis, axes);
  Value *gamma = n->in_count > G_GAMMA ? n->in[G_GAMMA] : NULL;
  NormGrad d = {norm_wide(g, n->in[G_DY]),
                norm_wide(g, n->in[G_X]),
                norm_wide(g, along(g, n->in[G_MEAN], x, axis)),
                norm_wide(g, along(g, n->in[G_INVERSE], x, axis)),
                norm_wide(g, along(g, gamma, x, axis)),
                norm_wide(g, u[0]),
                norm_wide(g, along(g, u[1], x, axis)),
                norm_wide(g, along(g, u[2], x, axis)),
                axes,
                count};
  if (graph_error(g) != OK) return;
  NormSecond s = norm_second(g, &d);
  dx[G_DY] = s.dy;
  dx[G_X] = s.x;
  if (s.mean) dx[G_MEAN] = ops_sum(g, s.mean, axes, count, false);
  if (s.inverse) dx[G_INVERSE] = ops_sum(g, s.inverse, axes, count, false);
  if (s.gamma) dx[G_GAMMA] = ops_sum(g, s.gamma, axes, count, false);
  norm_fit_gradients(g, n, dx);
}

/* ---- cost ---- */

static void cost_batch(const Target *t, const Node *n, Cost *c) {
  bool backward = n->op->traits & INTERNAL;
  const Type *x = &n->in[backward ? G_X : X]->type;
  int64_t channels = x->shape[n->attr[AXIS].i], rows = channels ? type_count(x) / channels : 0;
  if (backward || uses_batch(n)) *c = cost_norm(t, x->dtype, channels, rows, backward);
  else *c = cost_broadcast(t, x->dtype, type_count(x), channels, 2 * VECTOR(MUL, x->dtype));
}

#define A_AXIS {.name = "axis", .kind = ATTR_INT, .fallback = "-1", .summary = "The channels."}
#define A_EPSILON(text) \
  {.name = "epsilon", .kind = ATTR_FLOAT, .fallback = text, .summary = "Added to the variance."}

const OpDef ops_batchnorm[] = {
    {.name = "nn.batch_norm",
     .summary =
         "Normalises each channel, by mean and variance of the batch or by given ones; then gamma and "
         "beta. Returns y, "
         "mean, variance; those of float16 and bfloat16 are float32.",
     .shapes = "[…, c], [c], [c], [c], [c] → […, c], [c], [c]",
     .source = "Ioffe, Szegedy, Batch normalization, 2015",
     .inputs = {"x", "gamma", "beta", "mean?", "variance?"},
     .attrs = {A_AXIS,
               A_EPSILON("0.001"),
               {.name = "training",
                .kind = ATTR_BOOL,
                .fallback = "false",
                .summary = "Statistics of the batch, though mean and variance are given."}},
     .outputs = 4,
     .visible_outputs = 3,
     .infer = infer_batch,
     .eval = eval_batch,
     .scratch = scratch_batch,
     .cost = cost_batch,
     .grad = grad_batch,
     .sample = "F[5,3] F[3] F[3] | F[2,3,4,2] F[2] F[2] F[2] P[2] | F[2,3,4] F[3] F[3] {axis = 1}"},
    {.name = "nn.batch_norm_grad",
     .summary = "The gradient of batch normalisation.",
     .shapes = "dy, x, mean, inverse, gamma → dx, dgamma, dbeta",
     .inputs = {"dy", "x", "mean", "inverse", "gamma?"},
     .attrs = {A_AXIS},
     .traits = INTERNAL,
     .outputs = 3,
     .infer = infer_batch_grad,
     .eval = eval_batch_grad,
     .scratch = scratch_batch,
     .cost = cost_batch,
     .grad = grad_batch_grad,
     .sample = "F[5,3] F[5,3] F[3] P[3] F[3] | F[2,3,4] F[2,3,4] F[3] P[3] {axis = 1}"},
    {0}};
