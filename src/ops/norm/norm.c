/* Moments and layer normalisation. */
#include "ops/norm/norm.h"
#include "ops/reduce/reduce_axes.h"
#include "target/cost.h"

#include <math.h>
#include <string.h>

/* ---- dtypes ---- */

Status norm_want_float(Error *e, const Node *n, int x) {
  char name[40], other[40];
  Dtype narrow = n->in[x]->type.dtype, wide = dtype_to_compute(narrow);
  Status s = nn_want_float(e, n, 0, x + 1);
  for (int i = x + 1; s == OK && i < n->in_count; i++) {
    Dtype d = n->in[i]->type.dtype;
    if (d == narrow || d == wide) continue;
    s = fail(e, ERR_TYPE, "%s is %s, but %s is %s; ipu.cast one of them", nn_input_name(n, i, name),
             dtype_name(d), nn_input_name(n, x, other), dtype_name(narrow));
  }
  return s;
}

Dtype norm_parameter_dtype(const Node *n, int x, int gamma) {
  return n->in[n->in_count > gamma ? gamma : x]->type.dtype;
}

Value *norm_wide(Graph *g, Value *v) {
  return v ? ops_cast(g, v, dtype_to_compute(v->type.dtype)) : NULL;
}

void norm_fit_gradients(Graph *g, const Node *n, Value **dx) {
  for (int i = 0; i < n->in_count; i++) dx[i] = ops_cast(g, dx[i], n->in[i]->type.dtype);
}

/* ---- moments ---- */

enum { M_AXES, M_KEEPDIMS };

static Status infer_moments(Error *e, Node *n) {
  int count, axes[MAX_RANK];
  const Type *x = &n->in[0]->type;
  Status s = nn_want_float(e, n, 0, 1);
  if (s == OK) s = infer_axes(e, &n->attr[M_AXES], x->rank, &count, axes);
  if (s != OK) return s;
  n->out[0].type = n->out[1].type = type_reduced(x, count, axes, n->attr[M_KEEPDIMS].i);
  int64_t list[MAX_RANK];
  for (int i = 0; i < count; i++) list[i] = axes[i];
  return set_ints(e, n, M_AXES, list, count);
}

static double reduced_count(const Type *x, int count, const int *axes) {
  double n = 1;
  for (int i = 0; i < count; i++) n *= (double)x->shape[axes[i]];
  return n;
}

static Status inner_moments(const Call *c) {
  const Type *x = c->in_type[0];
  Error ignored = {0};
  int count, axes[MAX_RANK];
  infer_axes(&ignored, &c->attr[M_AXES], x->rank, &count, axes);
  Type kept = type_reduced(x, count, axes, true);
  double extent = reduced_count(x, count, axes);
  Room room = {c->scratch, 0};
  void *squares = room_take(&room, type_bytes(x)),
       *partials = room_take(&room, reduce_bytes(x, count, axes));
  reduce_axes(c, REDUCE_SUM, x, c->in[0], count, axes, c->out[0], partials);
  run_number(c, EW_MUL, &kept, c->out[0], 1 / extent, c->out[0]);
  run_kernel(c, EW_SQUARED_DIFFERENCE, 2, (const Type *[]){x, &kept},
             (const void *[]){c->in[0], c->out[0]}, x, squares, NULL);
  reduce_axes(c, REDUCE_SUM, x, squares, count, axes, c->out[1], partials);
  run_number(c, EW_MUL, &kept, c->out[1], 1 / extent, c->out[1]);
  return OK;
}
static Status eval_moments(const Call *c) { return eval_wide(c, inner_moments); }

static size_t scratch_moments(const Node *n) {
  const Type *x = &n->in[0]->type;
  Error ignored = {0};
  int count, axes[MAX_RANK];
  infer_axes(&ignored, &n->attr[M_AXES], x->rank, &count, axes);
  return wide_scratch(
      n, round_to_line(compute_bytes(x)) + round_to_line(reduce_bytes(x, count, axes)));
}

static void grad_moments(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *x = n->in[0];
  int count, axes[MAX_RANK];
  if (infer_axes(&g->error, &n->attr[M_AXES], x->type.rank, &count, axes) != OK) return;
  double extent = reduced_count(&x->type, count, axes);
  Type kept = type_reduced(&x->type, count, axes, true);
  if (dy[0])
    dx[0] = ops_broadcast(g, ops_scale(g, ops_reshape(g, dy[0], &kept), 1 / extent), &x->type);
  if (dy[1]) {
    Value *slope = ops_scale(g, ops_reshape(g, dy[1], &kept), 2 / extent);
    dx[0] = nn_plus(g, dx[0], ops_mul(g, ops_sub(g, x, ops_reshape(g, &n->out[0], &kept)), slope));
  }
}

/* ---- the derivative of a normalisation's derivative ---- */

NormSecond norm_second(Graph *g, const NormGrad *n) {
  NormSecond r = {0};
  Value *centred = ops_sub(g, n->x, n->mean), *h = ops_mul(g, centred, n->inverse);
  if (n->u) {
    Value *scaled = n->gamma ? ops_mul(g, n->dy, n->gamma) : n->dy;
    Value *mean_gh = nn_mean(g, ops_mul(g, scaled, h), n->axes, n->axis_count);
    Value *mean_uh = nn_mean(g, ops_mul(g, n->u, h), n->axes, n->axis_count);
    Value *mean_g = nn_mean(g, scaled, n->axes, n->axis_count),
          *mean_u = nn_mean(g, n->u, n->axes, n->axis_count);
    Value *mean_ug = nn_mean(g, ops_mul(g, n->u, scaled), n->axes, n->axis_count);
    /* inverse (u - mean of u - h mean of u h) */
    Value *projected =
        ops_mul(g, n->inverse, ops_sub(g, ops_sub(g, n->u, mean_u), ops_mul(g, h, mean_uh)));
    r.dy = n->gamma ? ops_mul(g, n->gamma, projected) : projected;
    if (n->gamma) r.gamma = ops_mul(g, n->dy, projected);
    Value *cross = ops_add(g, ops_mul(g, n->u, mean_gh), ops_mul(g, scaled, mean_uh));
    r.mean = ops_mul(g, ops_mul(g, n->inverse, n->inverse), cross);
    r.x = ops_neg(g, r.mean);
    /* Each element carries its share of one number for all of them. */
    Value *square = ops_mul(g, mean_gh, mean_uh);
    Value *share =
        ops_sub(g, ops_sub(g, mean_ug, ops_mul(g, mean_u, mean_g)), ops_scale(g, square, 3));
    r.inverse = ops_broadcast(g, share, &n->x->type);
  }
  if (n->ug) {
    Value *up = ops_mul(g, n->ug, n->dy), *in_x = ops_mul(g, up, n->inverse);
    r.dy = nn_plus(g, r.dy, ops_mul(g, n->ug, h));
    r.x = nn_plus(g, r.x, in_x);
    r.mean = nn_plus(g, r.mean, ops_neg(g, in_x));
    r.inverse = nn_plus(g, r.inverse, ops_mul(g, up, centred));
  }
  if (n->ub) r.dy = nn_plus(g, r.dy, ops_broadcast(g, n->ub, &n->x->type));
  return r;
}

bool norm_first(Graph *g, const char *op, const Node *n, Value *const of_output[3],
                const Attr *attrs, Value **dx) {
  enum { X, GAMMA };
  bool scaled = n->in_count > GAMMA;
  Value *in[] = {of_output[0], n->in[X], of_output[1], of_output[2], scaled ? n->in[GAMMA] : NULL};
  Node *back = graph_node(g, op_find(op), in, scaled ? 5 : 4, attrs);
  for (int i = 0; back && i < n->in_count && i < 3; i++) dx[i] = &back->out[i];
  return back;
}

Value *norm_statistics_grad(Graph *g, Value *x, Value *mean, Value *inverse, Value *dmean,
                            Value *dinverse, double count) {
  Value *dx = NULL;
  if (dmean) dx = ops_broadcast(g, ops_scale(g, dmean, 1 / count), &x->type);
  if (dinverse) { /* of (variance + epsilon)^-1/2: -(x - mean) inverse^3 / count */
    Value *cube = ops_mul(g, ops_mul(g, inverse, inverse), inverse);
    Value *slope = ops_scale(g, ops_mul(g, dinverse, cube), -1 / count);
    dx = nn_plus(g, dx, ops_mul(g, ops_sub(g, x, mean), slope));
  }
  return dx;
}

/* ---- layer normalisation ---- */

enum { AXIS, EPSILON };
enum { X, GAMMA, BETA };                        /* operands of nn.layer_norm */
enum { G_DY, G_X, G_MEAN, G_INVERSE, G_GAMMA }; /* of its gradient */

/* Neighbouring axes [first, first + count); x is [outer, n, inner]. */
typedef struct Layer {
  int first, count;
  int64_t outer, n, inner;
} Layer;

static Status layer_of(Error *e, const Attr *axis, const Type *x, Layer *l) {
  int axes[MAX_RANK];
  char text[TYPE_TEXT];
  if (x->rank == 0)
    return fail(e, ERR_INVALID_ARGUMENT, "x must have at least one axis, got %s",
                shape_text(x, text));
  Status s = infer_axes(e, axis, x->rank, &l->count, axes);
  if (s != OK) return s;
  if (l->count == 0)
    return fail(e, ERR_VALUE, "axis must name at least one axis, got an empty list");
  l->first = axes[0];
  l->outer = l->n = l->inner = 1;
  for (int i = 0; i < l->count; i++)
    if (axes[i] != l->first + i)
      return fail(e, ERR_VALUE, "the axes must be neighbours; x is %s", shape_text(x, text));
  for (int i = 0; i < x->rank; i++) {
    if (i < l->first) l->outer *= x->shape[i];
    else if (i < l->first + l->count) l->n *= x->shape[i];
    else l->inner *= x->shape[i];
  }
  return OK;
}

static Type layer_part(const Type *x, const Layer *l) {
  Type t = {.dtype = x->dtype, .rank = l->count};
  for (int i = 0; i < l->count; i++) t.shape[i] = x->shape[l->first + i];
  return t;
}

static Type row_part(const Type *x, const Layer *l) {
  Type t = *x;
  t.rank = 0;
  for (int i = 0; i < x->rank; i++)
    if (i < l->first || i >= l->first + l->count) t.shape[t.rank++] = x->shape[i];
  return t;
}

static Status want_shape(Error *e, const char *what, const Type *given, const Type *wanted,
                         const Type *x) {
  char a[TYPE_TEXT], b[TYPE_TEXT], c[TYPE_TEXT];
  if (shape_equal(given, wanted)) return OK;
  return fail(e, ERR_INVALID_ARGUMENT, "%s %s must be %s for x %s", what, shape_text(given, a),
              shape_text(wanted, b), shape_text(x, c));
}

static Status infer_layer(Error *e, Node *n) {
  const Type *x = &n->in[X]->type;
  Layer l;
  Status s = norm_want_float(e, n, X);
  if (s == OK) s = layer_of(e, &n->attr[AXIS], x, &l);
  if (s != OK) return s;
  Type part = layer_part(x, &l);
  if (n->in_count > GAMMA) s = want_shape(e, "gamma", &n->in[GAMMA]->type, &part, x);
  if (s == OK && n->in_count > BETA) s = want_shape(e, "beta", &n->in[BETA]->type, &part, x);
  n->out[0].type = *x;
  n->out[1].type = n->out[2].type = row_part(x, &l);
  n->out[1].type.dtype = n->out[2].type.dtype = dtype_to_compute(x->dtype);
  return s;
}

static Status infer_layer_grad(Error *e, Node *n) {
  const Type *x = &n->in[G_X]->type;
  Layer l;
  Status s = norm_want_float(e, n, G_X);
  if (s == OK) s = layer_of(e, &n->attr[AXIS], x, &l);
  if (s != OK) return s;
  Type part = layer_part(x, &l), rows = row_part(x, &l);
  s = want_shape(e, "dy", &n->in[G_DY]->type, x, x);
  if (s == OK) s = want_shape(e, "mean", &n->in[G_MEAN]->type, &rows, x);
  if (s == OK) s = want_shape(e, "inverse", &n->in[G_INVERSE]->type, &rows, x);
  if (s == OK && n->in_count > G_GAMMA) s = want_shape(e, "gamma", &n->in[G_GAMMA]->type, &part, x);
  n->out[0].type = *x;
  n->out[1].type = n->out[2].type = part;
  n->out[1].type.dtype = n->out[2].type.dtype = norm_parameter_dtype(n, G_X, G_GAMMA);
  return s;
}

enum { GRAIN = 16384, MAX_PARTS = 32 };

typedef struct LayerJob {
  const Call *call;
  Layer l;
  int64_t rows, part_rows;
  size_t size;
  Dtype dtype;
  const char *dy, *x;
  char *y, *parts; /* parts: [part][dgamma, dbeta][n] */
} LayerJob;

static LayerJob layer_job(const Call *c, const Type *x) {
  Error ignored = {0};
  LayerJob j = {.call = c, .dtype = x->dtype, .size = dtype_size(x->dtype)};
  layer_of(&ignored, &c->attr[AXIS], x, &j.l);
  j.rows = j.l.outer * j.l.inner;
  return j;
}

static void layer_rows(void *context, int64_t begin, int64_t end) {
  const LayerJob *j = context;
  const Call *c = j->call;
  size_t at = (size_t)(begin * j->l.n) * j->size, row = (size_t)begin * j->size;
  c->kernels->layer_norm[j->dtype](j->x + at, c->in_count > GAMMA ? c->in[GAMMA] : NULL,
                                   c->in_count > BETA ? c->in[BETA] : NULL, c->attr[EPSILON].f,
                                   end - begin, j->l.n, j->y + at, (char *)c->out[1] + row,
                                   (char *)c->out[2] + row);
}

/* The normalised rows one after the other, copied to scratch if they aren't contiguous. */
static const char *gathered(const Call *c, const LayerJob *j, Room *room, const void *data) {
  if (j->l.inner == 1) return data;
  void *to = room_take(room, (size_t)(j->rows * j->l.n) * j->size);
  c->kernels->transpose(j->size, data, j->l.outer, j->l.n, j->l.inner, to);
  return to;
}

static Status inner_layer(const Call *c) {
  LayerJob j = layer_job(c, c->in_type[X]);
  if (j.rows * j.l.n == 0) return OK;
  Room room = {c->scratch, 0};
  j.x = gathered(c, &j, &room, c->in[X]);
  j.y = j.l.inner == 1 ? c->out[0] : (char *)(uintptr_t)j.x; /* in place is fine */
  parallel_for(c, j.rows, GRAIN / j.l.n, layer_rows, &j);
  if (j.l.inner > 1) c->kernels->transpose(j.size, j.y, j.l.outer, j.l.inner, j.l.n, c->out[0]);
  return OK;
}
static Status eval_layer(const Call *c) { return eval_wide(c, inner_layer); }

static int64_t part_rows(int64_t rows, int64_t n) {
  int64_t height = max(GRAIN / max(n, 1), 1);
  return max(height, ceil_div(rows, MAX_PARTS));
}

static void layer_part_grad(void *context, int64_t part, void *scratch) {
  (void)scratch;
  const LayerJob *j = context;
  const Call *c = j->call;
  int64_t begin = part * j->part_rows, rows = min(j->part_rows, j->rows - begin);
  size_t at = (size_t)(begin * j->l.n) * j->size, row = (size_t)begin * j->size,
         part_bytes = (size_t)j->l.n * j->size;
  const char *mean = (const char *)c->in[G_MEAN] + row,
             *inverse = (const char *)c->in[G_INVERSE] + row;
  char *sums = j->parts + (size_t)part * 2 * part_bytes;
  c->kernels->layer_norm_sums[j->dtype](j->dy + at, j->x + at, mean, inverse, rows, j->l.n, sums,
                                        sums + part_bytes);
  c->kernels->layer_norm_grad[j->dtype](j->dy + at, j->x + at,
                                        c->in_count > G_GAMMA ? c->in[G_GAMMA] : NULL, mean,
                                        inverse, rows, j->l.n, j->y + at);
}

static Status inner_layer_grad(const Call *c) {
  LayerJob j = layer_job(c, c->in_type[G_X]);
  size_t part_bytes = (size_t)j.l.n * j.size;
  memset(c->out[1], 0, part_bytes);
  memset(c->out[2], 0, part_bytes);
  if (j.rows * j.l.n == 0) return OK;
  Room room = {c->scratch, 0};
  j.dy = gathered(c, &j, &room, c->in[G_DY]);
  j.x = gathered(c, &j, &room, c->in[G_X]);
  j.y = j.l.inner == 1 ? c->out[0] : (char *)(uintptr_t)j.dy;
  j.part_rows = part_rows(j.rows, j.l.n);
  int64_t parts = (j.rows + j.part_rows - 1) / j.part_rows;
  j.parts = room_take(&room, (size_t)parts * 2 * part_bytes);
  nn_run(c, parts, NULL, 0, layer_part_grad, &j);
  Strip add = c->kernels->strip[EW_ADD][j.dtype];
  for (int64_t p = 0; p < parts; p++)
    for (int k = 0; k < 2; k++)
      add((const void *[]){c->out[1 + k], j.parts + (size_t)(2 * p + k) * part_bytes}, 0,
          c->out[1 + k], j.l.n, NULL);
  if (j.l.inner > 1) c->kernels->transpose(j.size, j.y, j.l.outer, j.l.inner, j.l.n, c->out[0]);
  return OK;
}
static Status eval_layer_grad(const Call *c) { return eval_wide(c, inner_layer_grad); }

static size_t scratch_layer(const Node *n) {
  Error ignored = {0};
  Layer l;
  bool backward = n->op->traits & INTERNAL;
  const Type *x = &n->in[backward ? G_X : X]->type;
  layer_of(&ignored, &n->attr[AXIS], x, &l);
  size_t bytes = l.inner > 1 ? round_to_line(compute_bytes(x)) * (backward ? 2 : 1) : 0;
  if (backward) {
    int64_t rows = l.outer * l.inner, height = part_rows(rows, l.n);
    bytes += round_to_line((size_t)(ceil_div(rows, height) * 2 * l.n) *
                           dtype_size(dtype_to_compute(x->dtype)));
  }
  return wide_scratch(n, bytes);
}

static void cost_layer(const Target *t, const Node *n, Cost *c) {
  Error ignored = {0};
  Layer l;
  bool backward = n->op->traits & INTERNAL;
  const Type *x = &n->in[backward ? G_X : X]->type;
  layer_of(&ignored, &n->attr[AXIS], x, &l);
  *c = cost_norm(t, x->dtype, l.outer * l.inner, l.n, backward);
}

/* Row and layer parts of x's shape, with 1 for the rest. */
static Value *as_rows(Graph *g, Value *v, const Type *x, const Layer *l) {
  Type t = *x;
  for (int i = 0; i < l->count; i++) t.shape[l->first + i] = 1;
  return v ? ops_reshape(g, v, &t) : NULL;
}
static Value *as_layer(Graph *g, Value *v, const Type *x, const Layer *l) {
  Type t = *x;
  for (int i = 0; i < x->rank; i++)
    if (i < l->first || i >= l->first + l->count) t.shape[i] = 1;
  return v ? ops_reshape(g, v, &t) : NULL;
}

static void grad_layer(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *x = n->in[X];
  Layer l;
  if (layer_of(&g->error, &n->attr[AXIS], &x->type, &l) != OK) return;
  Value *of_output[] = {dy[0], &n->out[1], &n->out[2]};
  Attr attrs[MAX_ATTRS] = {n->attr[AXIS]};
  if (dy[0] && !norm_first(g, "nn.layer_norm_grad", n, of_output, attrs, dx)) return;
  Value *mean = as_rows(g, &n->out[1], &x->type, &l),
        *inverse = as_rows(g, &n->out[2], &x->type, &l);
  if (dy[1] || dy[2])
    dx[X] = nn_plus(
        g, norm_wide(g, dx[X]),
        norm_statistics_grad(g, norm_wide(g, x), mean, inverse, as_rows(g, dy[1], &x->type, &l),
                             as_rows(g, dy[2], &x->type, &l), (double)l.n));
  norm_fit_gradients(g, n, dx);
}

static Value *summed(Graph *g, Value *v, const Value *like, Value *shaped) {
  return v ? ops_reshape_like(g, ops_sum_to(g, v, &shaped->type), like) : NULL;
}

static void grad_layer_grad(Graph *g, const Node *n, Value *const *u, Value **dx) {
  const Type *x = &n->in[G_X]->type;
  Layer l;
  if (layer_of(&g->error, &n->attr[AXIS], x, &l) != OK) return;
  int64_t axes[MAX_RANK];
  for (int i = 0; i < l.count; i++) axes[i] = l.first + i;
  Value *gamma = n->in_count > G_GAMMA ? n->in[G_GAMMA] : NULL;
  NormGrad d = {norm_wide(g, n->in[G_DY]),
                norm_wide(g, n->in[G_X]),
                norm_wide(g, as_rows(g, n->in[G_MEAN], x, &l)),
                norm_wide(g, as_rows(g, n->in[G_INVERSE], x, &l)),
                norm_wide(g, as_layer(g, gamma, x, &l)),
                norm_wide(g, u[0]),
                norm_wide(g, as_layer(g, u[1], x, &l)),
                norm_wide(g, as_layer(g, u[2], x, &l)),
                axes,
                l.count};
  if (graph_error(g) != OK) return;
  NormSecond s = norm_second(g, &d);
  dx[G_DY] = s.dy;
  dx[G_X] = s.x;
  if (graph_error(g) != OK) return;
  dx[G_MEAN] = summed(g, s.mean, n->in[G_MEAN], d.mean);
  dx[G_INVERSE] = summed(g, s.inverse, n->in[G_INVERSE], d.inverse);
  if (gamma) dx[G_GAMMA] = summed(g, s.gamma, gamma, d.gamma);
  norm_fit_gradients(g, n, dx);
}

#define A_AXIS        \
  {.name = "axis",    \
   .kind = ATTR_INTS, \
   .fallback = "-1",  \
   .summary = "The axes that are normalised together: neighbours."}

const OpDef ops_norm[] = {
    {.name = "nn.moments",
     .summary = "Mean and population variance over axes.",
     .shapes = "any → mean, variance",
     .inputs = {"x"},
     .attrs = {{.name = "axes",
                .kind = ATTR_INTS,
                .fallback = "nil",
                .summary = "Which axes; all when absent."},
               {.name = "keepdims",
                .kind = ATTR_BOOL,
                .fallback = "false",
                .summary = "Keep reduced axes as 1."}},
     .outputs = 2,
     .infer = infer_moments,
     .eval = eval_moments,
     .scratch = scratch_moments,
     .cost = cost_of_moments,
     .grad = grad_moments,
     .sample = "F[3,2,4] {axes = {0}} | F[3,2,4] {axes = -1, keepdims = true} | F[2,3]"},
    {.name = "nn.layer_norm",
     .summary = "Subtracts the mean over axes, divides by the deviation; then gamma and beta.",
     .shapes = "[…, n], [n], [n] → […, n]",
     .source = "Ba, Kiros, Hinton, Layer normalization, 2016",
     .inputs = {"x", "gamma?", "beta?"},
     .attrs = {A_AXIS,
               {.name = "epsilon",
                .kind = ATTR_FLOAT,
                .fallback = "1.53e-5",
                .summary = "Added to the variance."}},
     .outputs = 3,
     .visible_outputs = 1,
     .infer = infer_layer,
     .eval = eval_layer,
     .scratch = scratch_layer,
     .cost = cost_layer,
     .grad = grad_layer,
     .sample =
         "F[3,5] F[5] F[5] {epsilon = 0.001} | F[2,2,3,2] F[3,2] F[3,2] {axis = {-1, -2}} | F[2,3,4] "
         "F[3] {axis = 1} | F[2,6]"},
    {.name = "nn.layer_norm_grad",
     .summary = "The gradient of layer normalisation.",
     .shapes = "dy, x, mean, inverse, gamma → dx, dgamma, dbeta",
     .inputs = {"dy", "x", "mean", "inverse", "gamma?"},
     .attrs = {A_AXIS},
     .traits = INTERNAL,
     .outputs = 3,
     .infer = infer_layer_grad,
     .eval = eval_layer_grad,
     .scratch = scratch_layer,
     .cost = cost_layer,
     .grad = grad_layer_grad,
     .sample = "F[3,5] F[3,5] F[3] P[3] F[5] | F[2,3,4] F[2,3,4] F[2,4] P[2,4] {axis = 1}"},
    {0}};
