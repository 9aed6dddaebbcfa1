/* Batch, group and instance normalisation: statistics of columns, channels last. Where the channels are not
 * the last axis, images are transposed into scratch and back.
 *
 * Forward makes three passes (sum, squares, scale), backward reads everything twice: products, then the
 * combination dx = dy p + (x - mean) q + r with a number each per channel. */
#include <math.h>
#include <string.h>

#include "ops/norm.h"
#include "target/cost.h"

enum { CHUNK_ELEMENTS = 32768 };

/* Channels-last access to an operand: [samples, rows, channels]. */
typedef struct Layout {
  int axis;
  int64_t outer, channels, inner;
  size_t size;
  Dtype dtype;
} Layout;

static Layout layout_of(const Type *x, int64_t axis) {
  Layout l = {.axis = (int)(axis < 0 ? axis + x->rank : axis), .dtype = dtype_to_compute(x->dtype)};
  Around a = around_axis(x, l.axis);
  l.outer = a.outer, l.channels = a.extent, l.inner = a.inner;
  l.size = dtype_size(l.dtype);
  return l;
}
static bool is_moved(const Layout *l) { return l->inner > 1; }
static size_t moved_bytes(const Layout *l) { return (size_t)(l->outer * l->channels * l->inner) * l->size; }

static const char *moved(const Call *c, const Layout *l, Room *room, const void *data) {
  if (!is_moved(l)) return data;
  void *to = room_take(room, moved_bytes(l));
  c->kernels->transpose(l->size, data, l->outer, l->channels, l->inner, to);
  return to;
}
static void move_back(const Call *c, const Layout *l, const void *data, void *to) {
  if (is_moved(l)) c->kernels->transpose(l->size, data, l->outer, l->inner, l->channels, to);
}

static double get(const Layout *l, const void *data, int64_t i) { return dtype_get(l->dtype, data, i); }
static void set(const Layout *l, void *data, int64_t i, double x) { dtype_set(l->dtype, data, i, x); }

static Status want_channels(Error *e, const Node *n, int input, const char *what, const Type *x,
                            int64_t channels) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  if (input >= n->in_count) return OK;
  const Type *t = &n->in[input]->type;
  if (t->rank == 1 && t->shape[0] == channels) return OK;
  return fail(e, ERR_INVALID_ARGUMENT, "%s %s must be [%lld], one element for each channel of x %s", what,
              shape_text(t, a), (long long)channels, shape_text(x, b));
}

/* Per-channel vectors: v reshaped to broadcast along an axis. */
static Value *along(Graph *g, Value *v, const Type *x, int axis) {
  if (!v) return NULL;
  Type t = *x;
  for (int i = 0; i < x->rank; i++)
    if (i != axis) t.shape[i] = 1;
  return ops_reshape(g, v, &t);
}

/* ---- batch normalisation ---- */

enum { X, GAMMA, BETA, MEAN, VARIANCE }; /* operands */
enum { AXIS, EPSILON, TRAINING };        /* attributes */
enum { Y, OUT_MEAN, OUT_VARIANCE, OUT_INVERSE };
enum { G_DY, G_X, G_MEAN, G_INVERSE, G_GAMMA }; /* operands of the gradient */

static bool uses_batch(const Node *n) { return n->in_count <= VARIANCE || n->attr[TRAINING].i; }

static Status infer_batch(Error *e, Node *n) {
  const Type *x = &n->in[X]->type;
  int axis;
  Status s = nn_want_float(e, n, 0, n->in_count);
  char text[TYPE_TEXT];
  if (s == OK && x->rank < 2)
    return fail(e, ERR_INVALID_ARGUMENT, "x must have at least a batch and a channel axis, got %s", shape_text(x, text));
  if (s == OK) s = axis_check(e, "axis", n->attr[AXIS].i, x->rank, &axis);
  if (s != OK) return s;
  if (n->in_count == MEAN + 1) return fail(e, ERR_INVALID_ARGUMENT, "mean comes with variance");
  int64_t channels = x->shape[axis];
  static const char *const names[] = {"x", "gamma", "beta", "mean", "variance"};
  for (int i = GAMMA; s == OK && i <= VARIANCE; i++) s = want_channels(e, n, i, names[i], x, channels);
  n->attr[AXIS].i = axis;
  n->out[Y].type = *x;
  for (int i = OUT_MEAN; i <= OUT_INVERSE; i++) n->out[i].type = type_make(x->dtype, 1, &channels);
  return s;
}

/* Rows are cut into chunks; each sums its columns into a row of its own, and those are added in order. */
typedef struct Batch {
  const Call *call;
  Layout l;
  int64_t rows, chunk_rows, chunks;
  const char *dy, *x;
  char *y, *sums, *products; /* [chunks][channels] */
  char *mean, *p, *q, *r;    /* [channels] */
} Batch;

static Batch batch_of(const Layout *l) {
  Batch b = {.l = *l, .rows = l->outer * l->inner};
  b.chunk_rows = most(CHUNK_ELEMENTS / most(l->channels, 1), 1);
  b.chunk_rows = most(b.chunk_rows, (b.rows + 255) / 256); /* at most 256 rows of sums */
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
  return (Chunk){least(b->chunk_rows, b->rows - first), (size_t)(first * b->l.channels) * b->l.size,
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
  b->call->kernels->column_squares[b->l.dtype](b->x + c.at, b->mean, c.rows, b->l.channels, b->sums + c.row);
}
static void scale_chunk(void *context, int64_t i, void *scratch) {
  (void)scratch;
  const Batch *b = context;
  Chunk c = chunk_of(b, i);
  b->call->kernels->column_scale[b->l.dtype](b->x + c.at, b->mean, b->p, b->r, c.rows, b->l.channels,
                                             b->y + c.at);
}
static void product_chunk(void *context, int64_t i, void *scratch) {
  (void)scratch;
  const Batch *b = context;
  Chunk c = chunk_of(b, i);
  memset(b->sums + c.row, 0, (size_t)b->l.channels * b->l.size);
  memset(b->products + c.row, 0, (size_t)b->l.channels * b->l.size);
  b->call->kernels->column_products[b->l.dtype](b->dy + c.at, b->x + c.at, b->mean, c.rows, b->l.channels,
                                                b->sums + c.row, b->products + c.row);
}
static void combine_chunk(void *context, int64_t i, void *scratch) {
  (void)scratch;
  const Batch *b = context;
  Chunk c = chunk_of(b, i);
  b->call->kernels->column_combine[b->l.dtype](b->dy + c.at, b->x + c.at, b->mean, b->p, b->q, b->r, c.rows,
                                               b->l.channels, b->y + c.at);
}

static double column_total(const Batch *b, const char *sums, int64_t channel) {
  double total = 0;
  for (int64_t i = 0; i < b->chunks; i++) total += get(&b->l, sums, i * b->l.channels + channel);
  return total;
}

static void batch_statistics(const Call *c, Batch *b) {
  double rows = (double)b->rows;
  nn_run(c, b->chunks, NULL, 0, sum_chunk, b);
  for (int64_t i = 0; i < b->l.channels; i++) set(&b->l, b->mean, i, column_total(b, b->sums, i) / rows);
  nn_run(c, b->chunks, NULL, 0, square_chunk, b);
  for (int64_t i = 0; i < b->l.channels; i++) {
    set(&b->l, c->out[OUT_MEAN], i, get(&b->l, b->mean, i));
    set(&b->l, c->out[OUT_VARIANCE], i, column_total(b, b->sums, i) / rows);
  }
}

static Status inner_batch(const Call *c) {
  Layout l = layout_of(c->in_type[X], c->attr[AXIS].i);
  Batch b = batch_of(&l);
  Room room = {c->scratch, 0};
  size_t channels = (size_t)l.channels * l.size;
  b.call = c;
  take_batch(&room, &b);
  b.x = moved(c, &l, &room, c->in[X]);
  b.y = is_moved(&l) ? (char *)(uintptr_t)b.x : c->out[Y];
  if (uses_batch(c->node)) {
    batch_statistics(c, &b);
  } else {
    memcpy(b.mean, c->in[MEAN], channels);
    memcpy(c->out[OUT_MEAN], c->in[MEAN], channels);
    memcpy(c->out[OUT_VARIANCE], c->in[VARIANCE], channels);
  }
  for (int64_t i = 0; i < l.channels; i++) {
    double inverse = 1 / sqrt(get(&l, c->out[OUT_VARIANCE], i) + c->attr[EPSILON].f);
    set(&l, c->out[OUT_INVERSE], i, inverse);
    set(&l, b.p, i, inverse * (c->in_count > GAMMA ? get(&l, c->in[GAMMA], i) : 1));
    set(&l, b.r, i, c->in_count > BETA ? get(&l, c->in[BETA], i) : 0);
  }
  nn_run(c, b.chunks, NULL, 0, scale_chunk, &b);
  move_back(c, &l, b.y, c->out[Y]);
  return OK;
}
static Status eval_batch(const Call *c) { return eval_wide(c, inner_batch); }

static Status infer_batch_grad(Error *e, Node *n) {
  const Type *x = &n->in[G_X]->type;
  int axis;
  Status s = nn_want_float(e, n, 0, n->in_count);
  if (s == OK) s = axis_check(e, "axis", n->attr[AXIS].i, x->rank, &axis);
  if (s != OK) return s;
  if (!shape_equal(x, &n->in[G_DY]->type))
    return fail(e, ERR_INVALID_ARGUMENT, "dy and x must have one shape");
  int64_t channels = x->shape[axis];
  static const char *const names[] = {"dy", "x", "mean", "inverse", "gamma"};
  for (int i = G_MEAN; s == OK && i <= G_GAMMA; i++) s = want_channels(e, n, i, names[i], x, channels);
  n->attr[AXIS].i = axis;
  n->out[0].type = *x;
  n->out[1].type = n->out[2].type = type_make(x->dtype, 1, &channels);
  return s;
}

static Status inner_batch_grad(const Call *c) {
  Layout l = layout_of(c->in_type[G_X], c->attr[AXIS].i);
  Batch b = batch_of(&l);
  Room room = {c->scratch, 0};
  b.call = c;
  take_batch(&room, &b);
  b.dy = moved(c, &l, &room, c->in[G_DY]);
  b.x = moved(c, &l, &room, c->in[G_X]);
  b.y = is_moved(&l) ? (char *)(uintptr_t)b.dy : c->out[0];
  memcpy(b.mean, c->in[G_MEAN], (size_t)l.channels * l.size);
  nn_run(c, b.chunks, NULL, 0, product_chunk, &b);
  for (int64_t i = 0; i < l.channels; i++) {
    double inverse = get(&l, c->in[G_INVERSE], i),
           gamma = c->in_count > G_GAMMA ? get(&l, c->in[G_GAMMA], i) : 1;
    double sum = column_total(&b, b.sums, i), product = column_total(&b, b.products, i),
           rows = (double)b.rows;
    set(&l, c->out[1], i, product * inverse);
    set(&l, c->out[2], i, sum);
    set(&l, b.p, i, gamma * inverse);
    set(&l, b.q, i, -gamma * inverse * inverse * inverse * product / rows);
    set(&l, b.r, i, -gamma * inverse * sum / rows);
  }
  nn_run(c, b.chunks, NULL, 0, combine_chunk, &b);
  move_back(c, &l, b.y, c->out[0]);
  return OK;
}
static Status eval_batch_grad(const Call *c) { return eval_wide(c, inner_batch_grad); }

static size_t scratch_batch(const Node *n) {
  bool backward = n->op->traits & INTERNAL;
  Layout l = layout_of(&n->in[backward ? G_X : X]->type, n->attr[AXIS].i);
  Batch b = batch_of(&l);
  Room room = {0};
  take_batch(&room, &b);
  if (is_moved(&l)) room_take(&room, moved_bytes(&l));
  if (is_moved(&l) && backward) room_take(&room, moved_bytes(&l));
  return wide_scratch(n, room.used);
}

static int other_axes(const Type *x, int axis, int64_t axes[MAX_RANK]) {
  int count = 0;
  for (int i = 0; i < x->rank; i++)
    if (i != axis) axes[count++] = i;
  return count;
}

/* With given statistics y is linear in x, gamma, beta and mean; the variance goes through inverse^3. */
static void grad_inference(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *x = n->in[X], *up = dy[Y];
  const Type *t = &x->type;
  int64_t axes[MAX_RANK];
  int axis = (int)n->attr[AXIS].i, count = other_axes(t, axis, axes);
  Value *mean = n->in[MEAN], *inverse = &n->out[OUT_INVERSE], *gamma = n->in[GAMMA];
  Value *dinverse = dy[OUT_INVERSE];
  if (up) {
    Value *scale = ops_mul(g, gamma, inverse), *sum = ops_sum(g, up, axes, count, false);
    Value *product = ops_sum(g, ops_mul(g, up, ops_sub(g, x, along(g, mean, t, axis))), axes, count, false);
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
  Value *mean = along(g, &n->out[OUT_MEAN], t, axis), *inverse = along(g, &n->out[OUT_INVERSE], t, axis);
  if (dy[Y]) {
    Value *in[] = {dy[Y], x, &n->out[OUT_MEAN], &n->out[OUT_INVERSE],
                   n->in_count > GAMMA ? n->in[GAMMA] : NULL};
    Node *back = graph_node(g, op_find("nn.batch_norm_grad"), in, n->in_count > GAMMA ? 5 : 4,
                            (Attr[MAX_ATTRS]){n->attr[AXIS]});
    if (!back) return;
    dx[X] = &back->out[0];
    if (n->in_count > GAMMA) dx[GAMMA] = &back->out[1];
    if (n->in_count > BETA) dx[BETA] = &back->out[2];
  }
  dx[X] = nn_plus(g, dx[X],
                  norm_statistics_grad(g, x, mean, inverse, along(g, dy[OUT_MEAN], t, axis),
                                       along(g, dy[OUT_INVERSE], t, axis), rows));
  if (dy[OUT_VARIANCE]) {
    Value *slope = ops_scale(g, along(g, dy[OUT_VARIANCE], t, axis), 2 / rows);
    dx[X] = nn_plus(g, dx[X], ops_mul(g, ops_sub(g, x, mean), slope));
  }
}

static void grad_batch_grad(Graph *g, const Node *n, Value *const *u, Value **dx) {
  const Type *x = &n->in[G_X]->type;
  int64_t axes[MAX_RANK];
  int axis = (int)n->attr[AXIS].i, count = other_axes(x, axis, axes);
  Value *gamma = n->in_count > G_GAMMA ? n->in[G_GAMMA] : NULL;
  NormGrad d = {n->in[G_DY],
                n->in[G_X],
                along(g, n->in[G_MEAN], x, axis),
                along(g, n->in[G_INVERSE], x, axis),
                along(g, gamma, x, axis),
                u[0],
                along(g, u[1], x, axis),
                along(g, u[2], x, axis),
                axes,
                count};
  NormSecond s = norm_second(g, &d);
  dx[G_DY] = s.dy;
  dx[G_X] = s.x;
  if (s.mean) dx[G_MEAN] = ops_sum(g, s.mean, axes, count, false);
  if (s.inverse) dx[G_INVERSE] = ops_sum(g, s.inverse, axes, count, false);
  if (s.gamma) dx[G_GAMMA] = ops_sum(g, s.gamma, axes, count, false);
}

/* ---- group normalisation; instance normalisation has as many groups as channels ---- */

enum {
  P_GROUPS,
  P_CHANNELS,
  P_EPSILON,
  P_STRIDED
};                              /* attributes of nn.group_norm; its gradient has no epsilon */
enum { I_CHANNELS, I_EPSILON }; /* of nn.instance_norm */
enum { GG_GROUPS, GG_CHANNELS, GG_STRIDED };

typedef struct Grouping {
  int axis;
  int64_t groups;
  bool strided;
  double epsilon;
} Grouping;

static Status grouping_of(Error *e, const Node *n, const Type *x, Grouping *p) {
  bool backward = n->op->traits & INTERNAL, instance = strstr(n->op->name, "instance") != NULL;
  const Attr *channels = &n->attr[instance ? I_CHANNELS : backward ? GG_CHANNELS : P_CHANNELS];
  char text[TYPE_TEXT];
  if (x->rank < 2)
    return fail(e, ERR_INVALID_ARGUMENT, "x must have at least a batch and a channel axis, got %s", shape_text(x, text));
  Status s = axis_check(e, "channels_axis", channels->i, x->rank, &p->axis);
  if (s != OK) return s;
  if (p->axis == 0) return fail(e, ERR_VALUE, "channels_axis can't be the batch axis");
  int64_t extent = x->shape[p->axis];
  p->groups = instance ? most(extent, 1) : n->attr[P_GROUPS].i;
  p->strided = instance ? false : n->attr[backward ? GG_STRIDED : P_STRIDED].i;
  p->epsilon = backward ? 0 : n->attr[instance ? I_EPSILON : P_EPSILON].f;
  if (p->groups < 1 || extent % p->groups)
    return fail(e, ERR_VALUE, "groups = %lld must divide the %lld channels", (long long)p->groups,
                (long long)extent);
  return OK;
}

static Status infer_group(Error *e, Node *n) {
  const Type *x = &n->in[X]->type;
  Grouping p;
  Status s = nn_want_float(e, n, 0, n->in_count);
  if (s == OK) s = grouping_of(e, n, x, &p);
  if (s == OK) s = want_channels(e, n, GAMMA, "gamma", x, x->shape[p.axis]);
  if (s == OK) s = want_channels(e, n, BETA, "beta", x, x->shape[p.axis]);
  if (s != OK) return s;
  n->out[0].type = *x;
  n->out[1].type = n->out[2].type = type_make(x->dtype, 2, (int64_t[]){x->shape[0], p.groups});
  return OK;
}

static Status infer_group_grad(Error *e, Node *n) {
  const Type *x = &n->in[G_X]->type;
  Grouping p;
  Status s = nn_want_float(e, n, 0, n->in_count);
  if (s == OK) s = grouping_of(e, n, x, &p);
  if (s == OK) s = want_channels(e, n, G_GAMMA, "gamma", x, x->shape[p.axis]);
  if (s != OK) return s;
  Type statistics = type_make(x->dtype, 2, (int64_t[]){x->shape[0], p.groups});
  if (!shape_equal(x, &n->in[G_DY]->type) || !shape_equal(&statistics, &n->in[G_MEAN]->type) ||
      !shape_equal(&statistics, &n->in[G_INVERSE]->type))
    return fail(e, ERR_INVALID_ARGUMENT, "dy must be like x, mean and inverse [batch, groups]");
  n->out[0].type = *x;
  n->out[1].type = n->out[2].type = type_make(x->dtype, 1, &x->shape[p.axis]);
  return OK;
}

/* A chunk is a sample. */
typedef struct GroupJob {
  const Call *call;
  Layout l;
  Grouping p;
  int64_t samples, rows;
  const char *dy, *x;
  char *y, *sums; /* sums: [samples][dgamma, dbeta][channels] */
} GroupJob;

static int64_t group_of(const GroupJob *j, int64_t channel) {
  return j->p.strided ? channel % j->p.groups : channel / (j->l.channels / j->p.groups);
}

static GroupJob group_job(const Call *c, const Type *x) {
  Error ignored = {0};
  GroupJob j = {.call = c};
  grouping_of(&ignored, c->node, x, &j.p);
  j.l = layout_of(x, j.p.axis);
  j.samples = x->shape[0];
  j.rows = j.samples ? j.l.outer * j.l.inner / j.samples : 0;
  return j;
}

/* What a sample needs: sums by channel, then mean, p, q, r by channel; sums by group as doubles. */
typedef struct SampleRoom {
  char *a, *b, *mean, *p, *q, *r;
  double *group_a, *group_b;
} SampleRoom;
static SampleRoom take_sample(Room *room, const GroupJob *j) {
  size_t row = (size_t)j->l.channels * j->l.size, groups = (size_t)j->p.groups * sizeof(double);
  SampleRoom s;
  s.a = room_take(room, row), s.b = room_take(room, row), s.mean = room_take(room, row);
  s.p = room_take(room, row), s.q = room_take(room, row), s.r = room_take(room, row);
  s.group_a = room_take(room, groups), s.group_b = room_take(room, groups);
  return s;
}

/* by group: total of values[channel] weight[channel] (NULL: 1) */
static void group_totals(const GroupJob *j, const char *values, const void *weight, double *total) {
  memset(total, 0, (size_t)j->p.groups * sizeof *total);
  for (int64_t c = 0; c < j->l.channels; c++)
    total[group_of(j, c)] += get(&j->l, values, c) * (weight ? get(&j->l, weight, c) : 1);
}

static void group_sample(void *context, int64_t sample, void *scratch) {
  const GroupJob *j = context;
  const Call *c = j->call;
  const Layout *l = &j->l;
  Room room = {scratch, 0};
  SampleRoom s = take_sample(&room, j);
  size_t at = (size_t)(sample * j->rows * l->channels) * l->size, row = (size_t)l->channels * l->size;
  double count = (double)(j->rows * (l->channels / j->p.groups));
  memset(s.a, 0, row);
  c->kernels->column_sums[l->dtype](j->x + at, j->rows, l->channels, s.a);
  group_totals(j, s.a, NULL, s.group_a);
  for (int64_t k = 0; k < l->channels; k++) set(l, s.mean, k, s.group_a[group_of(j, k)] / count);
  memset(s.a, 0, row);
  c->kernels->column_squares[l->dtype](j->x + at, s.mean, j->rows, l->channels, s.a);
  group_totals(j, s.a, NULL, s.group_b);
  for (int64_t g = 0; g < j->p.groups; g++) {
    s.group_b[g] = 1 / sqrt(s.group_b[g] / count + j->p.epsilon);
    set(l, c->out[1], sample * j->p.groups + g, s.group_a[g] / count);
    set(l, c->out[2], sample * j->p.groups + g, s.group_b[g]);
  }
  for (int64_t k = 0; k < l->channels; k++) {
    set(l, s.p, k, s.group_b[group_of(j, k)] * (c->in_count > GAMMA ? get(l, c->in[GAMMA], k) : 1));
    set(l, s.r, k, c->in_count > BETA ? get(l, c->in[BETA], k) : 0);
  }
  c->kernels->column_scale[l->dtype](j->x + at, s.mean, s.p, s.r, j->rows, l->channels, j->y + at);
}

static size_t sample_bytes(const GroupJob *j) {
  Room room = {0};
  take_sample(&room, j);
  return room.used;
}

static Status inner_group(const Call *c) {
  GroupJob j = group_job(c, c->in_type[X]);
  if (type_count(c->in_type[X]) == 0) return OK;
  Room room = {c->scratch, 0};
  j.x = moved(c, &j.l, &room, c->in[X]);
  j.y = is_moved(&j.l) ? (char *)(uintptr_t)j.x : c->out[0];
  nn_run(c, j.samples, (char *)c->scratch + room.used, sample_bytes(&j), group_sample, &j);
  move_back(c, &j.l, j.y, c->out[0]);
  return OK;
}
static Status eval_group(const Call *c) { return eval_wide(c, inner_group); }

static void group_grad_sample(void *context, int64_t sample, void *scratch) {
  const GroupJob *j = context;
  const Call *c = j->call;
  const Layout *l = &j->l;
  Room room = {scratch, 0};
  SampleRoom s = take_sample(&room, j);
  size_t at = (size_t)(sample * j->rows * l->channels) * l->size, row = (size_t)l->channels * l->size;
  const void *gamma = c->in_count > G_GAMMA ? c->in[G_GAMMA] : NULL;
  char *dgamma = j->sums + (size_t)sample * 2 * row, *dbeta = dgamma + row;
  double count = (double)(j->rows * (l->channels / j->p.groups));
  for (int64_t k = 0; k < l->channels; k++)
    set(l, s.mean, k, get(l, c->in[G_MEAN], sample * j->p.groups + group_of(j, k)));
  memset(s.a, 0, row);
  memset(s.b, 0, row);
  c->kernels->column_products[l->dtype](j->dy + at, j->x + at, s.mean, j->rows, l->channels, s.a, s.b);
  group_totals(j, s.a, gamma, s.group_a);
  group_totals(j, s.b, gamma, s.group_b);
  for (int64_t k = 0; k < l->channels; k++) {
    int64_t group = group_of(j, k);
    double inverse = get(l, c->in[G_INVERSE], sample * j->p.groups + group);
    set(l, dgamma, k, get(l, s.b, k) * inverse);
    set(l, dbeta, k, get(l, s.a, k));
    set(l, s.p, k, inverse * (gamma ? get(l, gamma, k) : 1));
    set(l, s.q, k, -inverse * inverse * inverse * s.group_b[group] / count);
    set(l, s.r, k, -inverse * s.group_a[group] / count);
  }
  c->kernels->column_combine[l->dtype](j->dy + at, j->x + at, s.mean, s.p, s.q, s.r, j->rows, l->channels,
                                       j->y + at);
}

static Status inner_group_grad(const Call *c) {
  GroupJob j = group_job(c, c->in_type[G_X]);
  size_t row = (size_t)j.l.channels * j.l.size;
  memset(c->out[1], 0, row);
  memset(c->out[2], 0, row);
  if (type_count(c->in_type[G_X]) == 0) return OK;
  Room room = {c->scratch, 0};
  j.dy = moved(c, &j.l, &room, c->in[G_DY]);
  j.x = moved(c, &j.l, &room, c->in[G_X]);
  j.y = is_moved(&j.l) ? (char *)(uintptr_t)j.dy : c->out[0];
  j.sums = room_take(&room, row * 2 * (size_t)j.samples);
  nn_run(c, j.samples, (char *)c->scratch + room.used, sample_bytes(&j), group_grad_sample, &j);
  Strip add = c->kernels->strip[EW_ADD][j.l.dtype];
  for (int64_t i = 0; i < j.samples; i++)
    for (int k = 0; k < 2; k++)
      add((const void *[]){c->out[1 + k], j.sums + (size_t)(2 * i + k) * row}, 0, c->out[1 + k], j.l.channels,
          NULL);
  move_back(c, &j.l, j.y, c->out[0]);
  return OK;
}
static Status eval_group_grad(const Call *c) { return eval_wide(c, inner_group_grad); }

static size_t scratch_group(const Node *n) {
  bool backward = n->op->traits & INTERNAL;
  const Type *x = &n->in[backward ? G_X : X]->type;
  GroupJob j = group_job(&(Call){.node = n}, x);
  Room room = {0};
  if (is_moved(&j.l)) room_take(&room, moved_bytes(&j.l));
  if (is_moved(&j.l) && backward) room_take(&room, moved_bytes(&j.l));
  if (backward) room_take(&room, (size_t)(j.l.channels * 2 * j.samples) * j.l.size);
  return wide_scratch(n, room.used + sample_bytes(&j) * NN_SLOTS);
}

/* x with its channel axis as two: [groups, rest], or [rest, groups] when strided. */
typedef struct Split {
  Type x;          /* split */
  int group, rest; /* the axes */
} Split;
static Split split_of(const Type *x, const Grouping *p) {
  Split s = {.x = *x};
  s.x.rank++;
  for (int i = x->rank; i > p->axis + 1; i--) s.x.shape[i] = x->shape[i - 1];
  s.group = p->axis + (p->strided ? 1 : 0);
  s.rest = p->axis + (p->strided ? 0 : 1);
  s.x.shape[s.group] = p->groups;
  s.x.shape[s.rest] = x->shape[p->axis] / p->groups;
  return s;
}
/* [batch, groups] and [channels] so that they broadcast to the split x. */
static Value *split_statistics(Graph *g, Value *v, const Split *s) {
  Type t = s->x;
  for (int i = 1; i < t.rank; i++)
    if (i != s->group) t.shape[i] = 1;
  return v ? ops_reshape(g, v, &t) : NULL;
}
static Value *split_channels(Graph *g, Value *v, const Split *s) {
  Type t = s->x;
  for (int i = 0; i < t.rank; i++)
    if (i != s->group && i != s->rest) t.shape[i] = 1;
  return v ? ops_reshape(g, v, &t) : NULL;
}

static void grad_group(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *x = n->in[X];
  Grouping p;
  if (grouping_of(&g->error, n, &x->type, &p) != OK) return;
  if (dy[0]) {
    Value *in[] = {dy[0], x, &n->out[1], &n->out[2], n->in_count > GAMMA ? n->in[GAMMA] : NULL};
    Attr attrs[MAX_ATTRS] = {attr_int(p.groups), attr_int(p.axis), attr_bool(p.strided)};
    Node *back = graph_node(g, op_find("nn.group_norm_grad"), in, n->in_count > GAMMA ? 5 : 4, attrs);
    if (!back) return;
    dx[X] = &back->out[0];
    if (n->in_count > GAMMA) dx[GAMMA] = &back->out[1];
    if (n->in_count > BETA) dx[BETA] = &back->out[2];
  }
  if (!dy[1] && !dy[2]) return;
  Split s = split_of(&x->type, &p);
  int64_t statistics = most(x->type.shape[0] * p.groups, 1);
  Value *more =
      norm_statistics_grad(g, ops_reshape(g, x, &s.x), split_statistics(g, &n->out[1], &s),
                           split_statistics(g, &n->out[2], &s), split_statistics(g, dy[1], &s),
                           split_statistics(g, dy[2], &s), (double)(type_count(&x->type) / statistics));
  dx[X] = nn_plus(g, dx[X], ops_reshape_like(g, more, x));
}

static void grad_group_grad(Graph *g, const Node *n, Value *const *u, Value **dx) {
  const Type *x = &n->in[G_X]->type;
  Grouping p;
  if (grouping_of(&g->error, n, x, &p) != OK) return;
  Split s = split_of(x, &p);
  int64_t axes[MAX_RANK];
  int count = 0;
  for (int i = 1; i < s.x.rank; i++)
    if (i != s.group) axes[count++] = i;
  Value *gamma = n->in_count > G_GAMMA ? n->in[G_GAMMA] : NULL;
  NormGrad d = {ops_reshape(g, n->in[G_DY], &s.x),
                ops_reshape(g, n->in[G_X], &s.x),
                split_statistics(g, n->in[G_MEAN], &s),
                split_statistics(g, n->in[G_INVERSE], &s),
                split_channels(g, gamma, &s),
                u[0] ? ops_reshape(g, u[0], &s.x) : NULL,
                split_channels(g, u[1], &s),
                split_channels(g, u[2], &s),
                axes,
                count};
  if (graph_error(g) != OK) return;
  NormSecond r = norm_second(g, &d);
  if (graph_error(g) != OK) return;
  if (r.dy) dx[G_DY] = ops_reshape_like(g, r.dy, n->in[G_DY]);
  if (r.x) dx[G_X] = ops_reshape_like(g, r.x, n->in[G_X]);
  if (r.mean) dx[G_MEAN] = ops_reshape_like(g, ops_sum_to(g, r.mean, &d.mean->type), n->in[G_MEAN]);
  if (r.inverse)
    dx[G_INVERSE] = ops_reshape_like(g, ops_sum_to(g, r.inverse, &d.inverse->type), n->in[G_INVERSE]);
  if (r.gamma) dx[G_GAMMA] = ops_reshape_like(g, ops_sum_to(g, r.gamma, &d.gamma->type), gamma);
}

/* ---- cost ---- */

static void cost_batch(const Target *t, const Node *n, Cost *c) {
  bool backward = n->op->traits & INTERNAL;
  const Type *x = &n->in[backward ? G_X : X]->type;
  int64_t channels = x->shape[n->attr[AXIS].i], rows = channels ? type_count(x) / channels : 0;
  if (backward || uses_batch(n)) *c = cost_norm(t, x->dtype, channels, rows, backward);
  else *c = cost_broadcast(t, x->dtype, type_count(x), channels, 2 * cost_vector_cycles("mul", x->dtype));
}

static void cost_group(const Target *t, const Node *n, Cost *c) {
  Error ignored = {0};
  Grouping p;
  bool backward = n->op->traits & INTERNAL;
  const Type *x = &n->in[backward ? G_X : X]->type;
  grouping_of(&ignored, n, x, &p);
  int64_t groups = x->shape[0] * p.groups;
  *c = cost_norm(t, x->dtype, groups, groups ? type_count(x) / groups : 0, backward);
}

#define A_AXIS \
  { .name = "axis", .kind = ATTR_INT, .fallback = "-1", .summary = "The channels." }
#define A_CHANNELS \
  { .name = "channels_axis", .kind = ATTR_INT, .fallback = "-1", .summary = "The channels." }
#define A_EPSILON(text) \
  { .name = "epsilon", .kind = ATTR_FLOAT, .fallback = text, .summary = "Added to the variance." }
#define A_GROUPS \
  { .name = "groups", .kind = ATTR_INT, .fallback = "2", .summary = "Groups of channels; divides them." }
#define A_STRIDED                                                                                    \
  {                                                                                                  \
    .name = "strided_channel_grouping", .kind = ATTR_BOOL, .fallback = "true",                       \
    .summary = "Channel c belongs to group c mod groups; otherwise groups are blocks of neighbours." \
  }

const OpDef ops_batchnorm[] = {
    {.name = "nn.batch_norm",
     .summary = "Normalises each channel, by mean and variance of the batch or by given ones; then gamma and "
                "beta. Returns y, "
                "mean, variance.",
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
    {.name = "nn.group_norm",
     .summary = "Normalises groups of channels of each sample over space; then gamma and beta.",
     .shapes = "[n, …, c], [c], [c] → [n, …, c]",
     .source = "Wu, He, Group normalization, 2018",
     .inputs = {"x", "gamma?", "beta?"},
     .attrs = {A_GROUPS, A_CHANNELS, A_EPSILON("1.53e-5"), A_STRIDED},
     .outputs = 3,
     .visible_outputs = 1,
     .infer = infer_group,
     .eval = eval_group,
     .scratch = scratch_group,
     .cost = cost_group,
     .grad = grad_group,
     .sample = "F[2,3,4] F[4] F[4] | F[2,3,3,6] F[6] {groups = 3, strided_channel_grouping = false} | "
               "F[2,4,3] {channels_axis = 1} | F[3,4] F[4] F[4]"},
    {.name = "nn.instance_norm",
     .summary = "Normalises each channel of each sample over space; then gamma and beta.",
     .shapes = "[n, …, c], [c], [c] → [n, …, c]",
     .inputs = {"x", "gamma?", "beta?"},
     .attrs = {A_CHANNELS, A_EPSILON("1.53e-5")},
     .outputs = 3,
     .visible_outputs = 1,
     .infer = infer_group,
     .eval = eval_group,
     .scratch = scratch_group,
     .cost = cost_group,
     .grad = grad_group,
     .sample = "F[2,5,3] F[3] F[3] | F[2,3,4] {channels_axis = 1}"},
    {.name = "nn.group_norm_grad",
     .summary = "The gradient of group normalisation.",
     .shapes = "dy, x, mean, inverse, gamma → dx, dgamma, dbeta",
     .inputs = {"dy", "x", "mean", "inverse", "gamma?"},
     .attrs = {A_GROUPS, A_CHANNELS, A_STRIDED},
     .traits = INTERNAL,
     .outputs = 3,
     .infer = infer_group_grad,
     .eval = eval_group_grad,
     .scratch = scratch_group,
     .cost = cost_group,
     .grad = grad_group_grad,
     .sample = "F[2,3,4] F[2,3,4] F[2,2] P[2,2] F[4] | F[2,4,3] F[2,4,3] F[2,2] P[2,2] {channels_axis = 1, "
               "strided_channel_grouping = false}"},
    {0}};
