/* Group normalisation: statistics of groups of channels of each sample; instance normalisation
 * has as many groups as channels. */
#include <math.h>
#include <string.h>

#include "ops/norm/channels.h"
#include "ops/norm/norm.h"
#include "target/cost.h"

enum { GROUP, INSTANCE, GROUP_GRAD };           /* forms */
enum { X, GAMMA, BETA };                        /* operands */
enum { G_DY, G_X, G_MEAN, G_INVERSE, G_GAMMA }; /* operands of the gradient */
enum {
  P_GROUPS,
  P_CHANNELS,
  P_EPSILON,
  P_STRIDED
}; /* attributes of nn.group_norm; its gradient has no epsilon */
enum { I_CHANNELS, I_EPSILON }; /* of nn.instance_norm */
enum { GG_GROUPS, GG_CHANNELS, GG_STRIDED };

typedef struct Grouping {
  int axis;
  int64_t groups;
  bool strided;
  double epsilon;
} Grouping;

static Status grouping_of(Error *e, const Node *n, const Type *x, Grouping *p) {
  bool backward = n->op->form == GROUP_GRAD, instance = n->op->form == INSTANCE;
  const Attr *channels = &n->attr[instance ? I_CHANNELS : backward ? GG_CHANNELS : P_CHANNELS];
  char text[TYPE_TEXT];
  if (x->rank < 2)
    return fail(e, ERR_INVALID_ARGUMENT, "x must have at least a batch and a channel axis, got %s",
                shape_text(x, text));
  Status s = axis_check(e, "channels_axis", channels->i, x->rank, &p->axis);
  if (s != OK) return s;
  if (p->axis == 0) return fail(e, ERR_VALUE, "channels_axis can't be the batch axis");
  int64_t extent = x->shape[p->axis];
  p->groups = instance ? max(extent, 1) : n->attr[P_GROUPS].i;
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
  Status s = norm_want_float(e, n, X);
  if (s == OK) s = grouping_of(e, n, x, &p);
  if (s == OK) s = want_channels(e, n, GAMMA, "gamma", x, x->shape[p.axis]);
  if (s == OK) s = want_channels(e, n, BETA, "beta", x, x->shape[p.axis]);
  if (s != OK) return s;
  n->out[0].type = *x;
  n->out[1].type = n->out[2].type =
      type_make(dtype_to_compute(x->dtype), 2, (int64_t[]){x->shape[0], p.groups});
  return OK;
}

static Status infer_group_grad(Error *e, Node *n) {
  const Type *x = &n->in[G_X]->type;
  Grouping p;
  Status s = norm_want_float(e, n, G_X);
  if (s == OK) s = grouping_of(e, n, x, &p);
  if (s == OK) s = want_channels(e, n, G_GAMMA, "gamma", x, x->shape[p.axis]);
  if (s != OK) return s;
  Type statistics = type_make(x->dtype, 2, (int64_t[]){x->shape[0], p.groups});
  if (!shape_equal(x, &n->in[G_DY]->type) || !shape_equal(&statistics, &n->in[G_MEAN]->type) ||
      !shape_equal(&statistics, &n->in[G_INVERSE]->type))
    return fail(e, ERR_INVALID_ARGUMENT, "dy must be like x, mean and inverse [batch, groups]");
  n->out[0].type = *x;
  n->out[1].type = n->out[2].type =
      type_make(norm_parameter_dtype(n, G_X, G_GAMMA), 1, &x->shape[p.axis]);
  return OK;
}

/* A chunk is a sample. */
typedef struct GroupJob {
  const Call *call;
  Channels l;
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
  j.l = channels_of(x, j.p.axis);
  j.samples = x->shape[0];
  j.rows = j.samples ? j.l.outer * j.l.inner / j.samples : 0;
  return j;
}

/* The scratch of a sample: sums by channel, then mean, p, q, r by channel; sums by group as
 * doubles. */
typedef struct SampleRoom {
  char *a, *b, *mean, *p, *q, *r;
  double *group_a, *group_b;
  size_t row;   /* bytes of a value by channel */
  double count; /* elements of a group */
} SampleRoom;
static SampleRoom take_sample(Room *room, const GroupJob *j) {
  size_t row = (size_t)j->l.channels * j->l.size, groups = (size_t)j->p.groups * sizeof(double);
  SampleRoom s = {.row = row, .count = (double)(j->rows * (j->l.channels / j->p.groups))};
  s.a = room_take(room, row), s.b = room_take(room, row), s.mean = room_take(room, row);
  s.p = room_take(room, row), s.q = room_take(room, row), s.r = room_take(room, row);
  s.group_a = room_take(room, groups), s.group_b = room_take(room, groups);
  return s;
}

/* by group: total of values[channel] weight[channel] (NULL: 1) */
static void group_totals(const GroupJob *j, const char *values, const void *weight, double *total) {
  memset(total, 0, (size_t)j->p.groups * sizeof *total);
  for (int64_t c = 0; c < j->l.channels; c++)
    total[group_of(j, c)] +=
        channel_get(&j->l, values, c) * (weight ? channel_get(&j->l, weight, c) : 1);
}

static void group_sample(void *context, int64_t sample, void *scratch) {
  const GroupJob *j = context;
  const Call *c = j->call;
  const Channels *l = &j->l;
  Room room = {scratch, 0};
  SampleRoom s = take_sample(&room, j);
  size_t at = (size_t)(sample * j->rows) * s.row;
  memset(s.a, 0, s.row);
  c->kernels->column_sums[l->dtype](j->x + at, j->rows, l->channels, s.a);
  group_totals(j, s.a, NULL, s.group_a);
  for (int64_t k = 0; k < l->channels; k++)
    channel_set(l, s.mean, k, s.group_a[group_of(j, k)] / s.count);
  memset(s.a, 0, s.row);
  c->kernels->column_squares[l->dtype](j->x + at, s.mean, j->rows, l->channels, s.a);
  group_totals(j, s.a, NULL, s.group_b);
  for (int64_t g = 0; g < j->p.groups; g++) {
    s.group_b[g] = 1 / sqrt(s.group_b[g] / s.count + j->p.epsilon);
    channel_set(l, c->out[1], sample * j->p.groups + g, s.group_a[g] / s.count);
    channel_set(l, c->out[2], sample * j->p.groups + g, s.group_b[g]);
  }
  for (int64_t k = 0; k < l->channels; k++) {
    channel_set(
        l, s.p, k,
        s.group_b[group_of(j, k)] * (c->in_count > GAMMA ? channel_get(l, c->in[GAMMA], k) : 1));
    channel_set(l, s.r, k, c->in_count > BETA ? channel_get(l, c->in[BETA], k) : 0);
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
  j.x = channels_move(c, &j.l, &room, c->in[X]);
  j.y = channels_are_moved(&j.l) ? (char *)(uintptr_t)j.x : c->out[0];
  nn_run(c, j.samples, (char *)c->scratch + room.used, sample_bytes(&j), group_sample, &j);
  channels_move_back(c, &j.l, j.y, c->out[0]);
  return OK;
}
static Status eval_group(const Call *c) { return eval_wide(c, inner_group); }

static void group_grad_sample(void *context, int64_t sample, void *scratch) {
  const GroupJob *j = context;
  const Call *c = j->call;
  const Channels *l = &j->l;
  Room room = {scratch, 0};
  SampleRoom s = take_sample(&room, j);
  size_t at = (size_t)(sample * j->rows) * s.row;
  const void *gamma = c->in_count > G_GAMMA ? c->in[G_GAMMA] : NULL;
  char *dgamma = j->sums + (size_t)sample * 2 * s.row, *dbeta = dgamma + s.row;
  for (int64_t k = 0; k < l->channels; k++)
    channel_set(l, s.mean, k, channel_get(l, c->in[G_MEAN], sample * j->p.groups + group_of(j, k)));
  memset(s.a, 0, s.row);
  memset(s.b, 0, s.row);
  c->kernels->column_products[l->dtype](j->dy + at, j->x + at, s.mean, j->rows, l->channels, s.a,
                                        s.b);
  group_totals(j, s.a, gamma, s.group_a);
  group_totals(j, s.b, gamma, s.group_b);
  for (int64_t k = 0; k < l->channels; k++) {
    int64_t group = group_of(j, k);
    double inverse = channel_get(l, c->in[G_INVERSE], sample * j->p.groups + group);
    channel_set(l, dgamma, k, channel_get(l, s.b, k) * inverse);
    channel_set(l, dbeta, k, channel_get(l, s.a, k));
    channel_set(l, s.p, k, inverse * (gamma ? channel_get(l, gamma, k) : 1));
    channel_set(l, s.q, k, -inverse * inverse * inverse * s.group_b[group] / s.count);
    channel_set(l, s.r, k, -inverse * s.group_a[group] / s.count);
  }
  c->kernels->column_combine[l->dtype](j->dy + at, j->x + at, s.mean, s.p, s.q, s.r, j->rows,
                                       l->channels, j->y + at);
}

static Status inner_group_grad(const Call *c) {
  GroupJob j = group_job(c, c->in_type[G_X]);
  size_t row = (size_t)j.l.channels * j.l.size;
  memset(c->out[1], 0, row);
  memset(c->out[2], 0, row);
  if (type_count(c->in_type[G_X]) == 0) return OK;
  Room room = {c->scratch, 0};
  j.dy = channels_move(c, &j.l, &room, c->in[G_DY]);
  j.x = channels_move(c, &j.l, &room, c->in[G_X]);
  j.y = channels_are_moved(&j.l) ? (char *)(uintptr_t)j.dy : c->out[0];
  j.sums = room_take(&room, row * 2 * (size_t)j.samples);
  nn_run(c, j.samples, (char *)c->scratch + room.used, sample_bytes(&j), group_grad_sample, &j);
  Strip add = c->kernels->strip[EW_ADD][j.l.dtype];
  for (int64_t i = 0; i < j.samples; i++)
    for (int k = 0; k < 2; k++)
      add((const void *[]){c->out[1 + k], j.sums + (size_t)(2 * i + k) * row}, 0, c->out[1 + k],
          j.l.channels, NULL);
  channels_move_back(c, &j.l, j.y, c->out[0]);
  return OK;
}
static Status eval_group_grad(const Call *c) { return eval_wide(c, inner_group_grad); }

static size_t scratch_group(const Node *n) {
  bool backward = n->op->traits & INTERNAL;
  const Type *x = &n->in[backward ? G_X : X]->type;
  GroupJob j = group_job(&(Call){.node = n}, x);
  Room room = {0};
  if (channels_are_moved(&j.l)) room_take(&room, channels_bytes(&j.l));
  if (channels_are_moved(&j.l) && backward) room_take(&room, channels_bytes(&j.l));
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
  Value *of_output[] = {dy[0], &n->out[1], &n->out[2]};
  Attr attrs[MAX_ATTRS] = {attr_int(p.groups), attr_int(p.axis), attr_bool(p.strided)};
  if (dy[0] && !norm_first(g, "nn.group_norm_grad", n, of_output, attrs, dx)) return;
  if (!dy[1] && !dy[2]) {
    norm_fit_gradients(g, n, dx);
    return;
  }
  Split s = split_of(&x->type, &p);
  int64_t statistics = max(x->type.shape[0] * p.groups, 1);
  Value *more = norm_statistics_grad(
      g, ops_reshape(g, norm_wide(g, x), &s.x), split_statistics(g, &n->out[1], &s),
      split_statistics(g, &n->out[2], &s), split_statistics(g, dy[1], &s),
      split_statistics(g, dy[2], &s), (double)(type_count(&x->type) / statistics));
  dx[X] = nn_plus(g, norm_wide(g, dx[X]), ops_reshape_like(g, more, x));
  norm_fit_gradients(g, n, dx);
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
  NormGrad d = {ops_reshape(g, norm_wide(g, n->in[G_DY]), &s.x),
                ops_reshape(g, norm_wide(g, n->in[G_X]), &s.x),
                norm_wide(g, split_statistics(g, n->in[G_MEAN], &s)),
                norm_wide(g, split_statistics(g, n->in[G_INVERSE], &s)),
                norm_wide(g, split_channels(g, gamma, &s)),
                u[0] ? ops_reshape(g, norm_wide(g, u[0]), &s.x) : NULL,
                norm_wide(g, split_channels(g, u[1], &s)),
                norm_wide(g, split_channels(g, u[2], &s)),
                axes,
                count};
  if (graph_error(g) != OK) return;
  NormSecond r = norm_second(g, &d);
  if (graph_error(g) != OK) return;
  if (r.dy) dx[G_DY] = ops_reshape_like(g, r.dy, n->in[G_DY]);
  if (r.x) dx[G_X] = ops_reshape_like(g, r.x, n->in[G_X]);
  if (r.mean) dx[G_MEAN] = ops_reshape_like(g, ops_sum_to(g, r.mean, &d.mean->type), n->in[G_MEAN]);
  if (r.inverse)
    dx[G_INVERSE] =
        ops_reshape_like(g, ops_sum_to(g, r.inverse, &d.inverse->type), n->in[G_INVERSE]);
  if (r.gamma) dx[G_GAMMA] = ops_reshape_like(g, ops_sum_to(g, r.gamma, &d.gamma->type), gamma);
  norm_fit_gradients(g, n, dx);
}

/* ---- cost ---- */

static void cost_group(const Target *t, const Node *n, Cost *c) {
  Error ignored = {0};
  Grouping p;
  bool backward = n->op->traits & INTERNAL;
  const Type *x = &n->in[backward ? G_X : X]->type;
  grouping_of(&ignored, n, x, &p);
  int64_t groups = x->shape[0] * p.groups;
  *c = cost_norm(t, x->dtype, groups, groups ? type_count(x) / groups : 0, backward);
}

#define A_CHANNELS \
  {.name = "channels_axis", .kind = ATTR_INT, .fallback = "-1", .summary = "The channels."}
#define A_EPSILON(text) \
  {.name = "epsilon", .kind = ATTR_FLOAT, .fallback = text, .summary = "Added to the variance."}
#define A_GROUPS     \
  {.name = "groups", \
   .kind = ATTR_INT, \
   .fallback = "2",  \
   .summary = "Groups of channels; divides them."}
#define A_STRIDED                      \
  {.name = "strided_channel_grouping", \
   .kind = ATTR_BOOL,                  \
   .fallback = "true",                 \
   .summary =                          \
       "Channel c belongs to group c mod groups; otherwise groups are blocks of neighbours."}

const OpDef ops_groupnorm[] = {
    {.name = "nn.group_norm",
     .form = GROUP,
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
     .sample =
         "F[2,3,4] F[4] F[4] | F[2,3,3,6] F[6] {groups = 3, strided_channel_grouping = false} | "
         "F[2,4,3] {channels_axis = 1} | F[3,4] F[4] F[4]"},
    {.name = "nn.instance_norm",
     .form = INSTANCE,
     .source = "Ulyanov, Vedaldi, Lempitsky, Instance normalization, 2016",
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
     .form = GROUP_GRAD,
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
     .sample =
         "F[2,3,4] F[2,3,4] F[2,2] P[2,2] F[4] | F[2,4,3] F[2,4,3] F[2,2] P[2,2] {channels_axis = 1, "
         "strided_channel_grouping = false}"},
    {0}};
