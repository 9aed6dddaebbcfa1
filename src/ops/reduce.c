/* Reductions over axes, positions of extremes, running sums and products. */
#include <math.h>
#include <string.h>

#include "ops/support.h"

enum { AXIS, KEEPDIMS };                       /* attributes of reductions */
enum { RUN_AXIS, RUN_EXCLUSIVE, RUN_REVERSE }; /* attributes of cumsum and cumprod */

/* ---- infer ---- */

static int axes_of(const Node *n, int axes[MAX_RANK]) {
  for (int i = 0; i < n->attr[AXIS].ints.n; i++) axes[i] = (int)n->attr[AXIS].ints.v[i];
  return n->attr[AXIS].ints.n;
}

static int64_t reduced_count(const Node *n) {
  int64_t count = 1;
  for (int i = 0; i < n->attr[AXIS].ints.n; i++) count *= n->in[0]->type.shape[n->attr[AXIS].ints.v[i]];
  return count;
}

static Status infer_any(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  int count, axes[MAX_RANK];
  int64_t list[MAX_RANK];
  Status s = infer_axes(e, &n->attr[AXIS], x->rank, &count, axes);
  if (s != OK) return s;
  n->out[0].type = type_reduced(x, count, axes, n->attr[KEEPDIMS].i);
  for (int i = 0; i < count; i++) list[i] = axes[i];
  return set_ints(e, n, AXIS, list, count);
}

static Status infer_numbers(Error *e, Node *n) {
  if (n->in[0]->type.dtype == BOOL)
    return fail(e, ERR_TYPE, "wants numbers, got bool; ipu.cast it, or use reduce_any, reduce_all");
  return infer_any(e, n);
}

static Status infer_floats(Error *e, Node *n) {
  Status s = want_float(e, &n->in[0]->type);
  return s == OK ? infer_any(e, n) : s;
}

static Status infer_bools(Error *e, Node *n) {
  if (n->in[0]->type.dtype != BOOL)
    return fail(e, ERR_TYPE, "wants bool, got %s", dtype_name(n->in[0]->type.dtype));
  return infer_any(e, n);
}

static Status infer_extreme(Error *e, Node *n) {
  Status s = infer_numbers(e, n);
  char text[TYPE_TEXT];
  if (s == OK && reduced_count(n) == 0 && type_count(&n->out[0].type))
    return fail(e, ERR_VALUE, "nothing to choose from in shape %s", shape_text(&n->in[0]->type, text));
  return s;
}

/* ---- evaluation ---- */

static void reduce_node(const Call *c, Reduction r, const void *x, void *y, void *scratch) {
  int axes[MAX_RANK], count = axes_of(c->node, axes);
  reduce_axes(c, r, c->in_type[0], x, count, axes, y, scratch);
}

/* y op= v in place, v a number of y's dtype. */
static void apply_number(const Call *c, Elementwise kernel, const Type *t, void *y, double v) {
  Type one = {.dtype = t->dtype};
  double bits = 0;
  dtype_set(one.dtype, &bits, 0, v);
  run_kernel(c, kernel, 2, (const Type *[]){t, &one}, (const void *[]){y, &bits}, t, y, NULL);
}

static size_t own_bytes(const Node *n) {
  int axes[MAX_RANK], count = axes_of(n, axes);
  return reduce_bytes(&n->in[0]->type, count, axes);
}
static size_t scratch_plain(const Node *n) { return wide_scratch(n, own_bytes(n)); }

#define PLAIN(id, kind)                                             \
  static Status body_##id(const Call *c) {                          \
    reduce_node(c, REDUCE_##kind, c->in[0], c->out[0], c->scratch); \
    return OK;                                                      \
  }                                                                 \
  static Status eval_##id(const Call *c) { return eval_wide(c, body_##id); }
PLAIN(sum, SUM)
PLAIN(max, MAX)
PLAIN(min, MIN)
PLAIN(prod, PROD)
PLAIN(any, ANY)
PLAIN(all, ALL)

static Status body_mean(const Call *c) {
  body_sum(c);
  apply_number(c, EW_DIV, c->out_type[0], c->out[0], (double)reduced_count(c->node));
  return OK;
}
static Status eval_mean(const Call *c) { return eval_wide(c, body_mean); }

/* Scratch of rows in two passes: [kept] of the first, [x] of what the second one reduces, then the
 * reductions' own. */
static size_t scratch_two_passes(const Node *n) {
  return wide_scratch(n, round_to_line(compute_bytes(&n->out[0].type)) +
                             round_to_line(compute_bytes(&n->in[0]->type)) + own_bytes(n));
}

static Type kept_type(const Call *c) {
  int axes[MAX_RANK], count = axes_of(c->node, axes);
  return type_reduced(c->in_type[0], count, axes, true);
}

/* The mean first, so that large means don't drown the deviations. */
static Status body_variance(const Call *c) {
  const Type *x = c->in_type[0], *y = c->out_type[0];
  Type kept = kept_type(c);
  double n = (double)reduced_count(c->node);
  char *mean = c->scratch, *square = mean + round_to_line(type_bytes(y)),
       *rest = square + round_to_line(type_bytes(x));
  reduce_node(c, REDUCE_SUM, c->in[0], mean, rest);
  apply_number(c, EW_DIV, y, mean, n);
  run_kernel(c, EW_SQUARED_DIFFERENCE, 2, (const Type *[]){x, &kept}, (const void *[]){c->in[0], mean}, x,
             square, NULL);
  reduce_node(c, REDUCE_SUM, square, c->out[0], rest);
  apply_number(c, EW_DIV, y, c->out[0], n);
  return OK;
}
static Status eval_variance(const Call *c) { return eval_wide(c, body_variance); }

static Status body_std(const Call *c) {
  body_variance(c);
  run_kernel(c, EW_SQRT, 1, c->out_type, (const void *[]){c->out[0]}, c->out_type[0], c->out[0], NULL);
  return OK;
}
static Status eval_std(const Call *c) { return eval_wide(c, body_std); }

/* Infinite maxima would leave inf - inf: shift those rows by nothing. */
static void replace_infinite(Dtype d, void *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (isinf(dtype_get(d, x, i))) dtype_set(d, x, i, 0);
}

static Status body_logsumexp(const Call *c) {
  const Type *x = c->in_type[0], *y = c->out_type[0];
  Type kept = kept_type(c);
  char *shift = c->scratch, *e = shift + round_to_line(type_bytes(y)),
       *rest = e + round_to_line(type_bytes(x));
  reduce_node(c, REDUCE_MAX, c->in[0], shift, rest);
  replace_infinite(y->dtype, shift, type_count(y));
  run_kernel(c, EW_SUB, 2, (const Type *[]){x, &kept}, (const void *[]){c->in[0], shift}, x, e, NULL);
  run_kernel(c, EW_EXP, 1, &x, (const void *[]){e}, x, e, NULL);
  reduce_node(c, REDUCE_SUM, e, c->out[0], rest);
  run_kernel(c, EW_LOG, 1, &y, (const void *[]){c->out[0]}, y, c->out[0], NULL);
  run_kernel(c, EW_ADD, 2, (const Type *[]){y, y}, (const void *[]){c->out[0], shift}, y, c->out[0], NULL);
  return OK;
}
static Status eval_logsumexp(const Call *c) { return eval_wide(c, body_logsumexp); }

/* ---- gradients ---- */

/* A value of the result's shape, with the reduced axes as 1. */
static Value *keep(Graph *g, const Node *n, Value *v) {
  return ops_unreduce(g, v, &n->in[0]->type, &n->attr[AXIS]);
}

static Value *mean_kept(Graph *g, const Node *n) {
  Attr attrs[] = {n->attr[AXIS], attr_bool(true)};
  return op_with(g, "reduce_mean", n->in, 1, attrs);
}

static void grad_sum(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = ops_broadcast(g, keep(g, n, dy[0]), &n->in[0]->type);
}

static void grad_mean(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *each = ops_scale(g, dy[0], 1 / (double)most(reduced_count(n), 1));
  dx[0] = ops_broadcast(g, keep(g, n, each), &n->in[0]->type);
}

/* Equals share. */
static void grad_extreme(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *x = n->in[0], *y = keep(g, n, (Value *)&n->out[0]);
  Value *hit = ops_cast(g, op2(g, "equal", x, y), x->type.dtype);
  Value *count = ops_sum(g, hit, n->attr[AXIS].ints.v, n->attr[AXIS].ints.n, true);
  dx[0] = ops_mul(g, hit, ops_div(g, keep(g, n, dy[0]), count));
}

static Value *run_product(Graph *g, Value *x, bool reverse) {
  Attr attrs[] = {attr_int(1), attr_bool(true), attr_bool(reverse)};
  return op_with(g, "cumprod", &x, 1, attrs);
}

/* The product of all the others is that of those before times that of those behind: no division by a zero. */
static void grad_prod(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *x = n->in[0];
  const Type *t = &x->type;
  int axes[MAX_RANK], count = axes_of(n, axes), rank = 0;
  int64_t perm[MAX_RANK], back[MAX_RANK];
  bool taken[MAX_RANK] = {false};
  for (int i = 0; i < count; i++) taken[axes[i]] = true;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < t->rank; i++)
      if (taken[i] == (pass == 1)) back[i] = rank, perm[rank++] = i;
  Type flat = {.dtype = t->dtype, .rank = 2, .shape = {type_count(&n->out[0].type), reduced_count(n)}};
  Type column = {.dtype = t->dtype, .rank = 2, .shape = {flat.shape[0], 1}};
  Value *moved = ops_transpose(g, x, perm), *rows = ops_reshape(g, moved, &flat);
  Value *others = ops_mul(g, run_product(g, rows, false), run_product(g, rows, true));
  Value *d = ops_mul(g, others, ops_reshape(g, dy[0], &column));
  dx[0] = moved ? ops_transpose(g, ops_reshape(g, d, &moved->type), back) : NULL;
}

static void grad_variance(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *d = ops_scale(g, keep(g, n, dy[0]), 2 / (double)most(reduced_count(n), 1));
  dx[0] = ops_mul(g, d, ops_sub(g, n->in[0], mean_kept(g, n)));
}

static void grad_std(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *d = ops_scale(g, ops_div(g, dy[0], (Value *)&n->out[0]), 1 / (double)most(reduced_count(n), 1));
  dx[0] = ops_mul(g, keep(g, n, d), ops_sub(g, n->in[0], mean_kept(g, n)));
}

static void grad_logsumexp(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *share = op1(g, "exp", ops_sub(g, n->in[0], keep(g, n, (Value *)&n->out[0])));
  dx[0] = ops_mul(g, share, keep(g, n, dy[0]));
}

/* ---- argmax, argmin ---- */

static Status infer_position(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  int axis;
  char text[TYPE_TEXT];
  if (x->dtype == BOOL) return fail(e, ERR_TYPE, "wants numbers, got bool");
  Status s = axis_check(e, "axis", n->attr[0].i, x->rank, &axis);
  if (s != OK) return s;
  n->attr[0].i = axis;
  n->out[0].type = type_reduced(x, 1, &axis, false);
  n->out[0].type.dtype = I32;
  if (x->shape[axis] == 0)
    return fail(e, ERR_VALUE, "nothing to choose from along axis %d of %s", axis, shape_text(x, text));
  return x->shape[axis] <= INT32_MAX
             ? OK
             : fail(e, ERR_VALUE, "axis %d of %s is too long", axis, shape_text(x, text));
}

typedef struct Positions {
  const void *x;
  int32_t *y;
  Around shape;
} Positions;

/* The first of equals; NaN beats all. Walks rows, so that inner elements are read in order. */
#define POSITION(id, T, better)                                      \
  static void find_##id(void *context, int64_t begin, int64_t end) { \
    const Positions *p = context;                                    \
    int64_t inner = p->shape.inner;                                  \
    for (int64_t o = begin; o < end; o++) {                          \
      const T *x = (const T *)p->x + o * p->shape.extent * inner;    \
      int32_t *y = p->y + o * inner;                                 \
      memset(y, 0, (size_t)inner * sizeof *y);                       \
      for (int64_t k = 1; k < p->shape.extent; k++)                  \
        for (int64_t i = 0; i < inner; i++) {                        \
          T a = x[k * inner + i], b = x[y[i] * inner + i];           \
          if (better) y[i] = (int32_t)k;                             \
        }                                                            \
    }                                                                \
  }
#define POSITIONS(id, T) \
  POSITION(max_##id, T, a > b || (a != a && b == b)) POSITION(min_##id, T, a < b || (a != a && b == b))
#define POSITION_TYPES(X) \
  X(f32, F32, float)      \
  X(f64, F64, double) X(i8, I8, int8_t) X(u8, U8, uint8_t) X(i32, I32, int32_t) X(i64, I64, int64_t)
#define X(id, d, T) POSITIONS(id, T)
POSITION_TYPES(X)
#undef X

typedef void (*FindPositions)(void *, int64_t, int64_t);

static Status find_positions(const Call *c, const FindPositions *find) {
  Positions p = {c->in[0], c->out[0], around_axis(c->in_type[0], (int)c->attr[0].i)};
  parallel_for(c, p.shape.outer, (1 << 14) / most(p.shape.extent * p.shape.inner, 1),
               find[c->in_type[0]->dtype], &p);
  return OK;
}

static Status body_argmax(const Call *c) {
#define X(id, d, T) [d] = find_max_##id,
  static const FindPositions find[DTYPE_COUNT] = {POSITION_TYPES(X)};
#undef X
  return find_positions(c, find);
}
static Status body_argmin(const Call *c) {
#define X(id, d, T) [d] = find_min_##id,
  static const FindPositions find[DTYPE_COUNT] = {POSITION_TYPES(X)};
#undef X
  return find_positions(c, find);
}
static Status eval_argmax(const Call *c) { return eval_wide(c, body_argmax); }
static Status eval_argmin(const Call *c) { return eval_wide(c, body_argmin); }
static size_t scratch_wide(const Node *n) { return wide_scratch(n, 0); }

/* ---- running sums and products ---- */

static Status infer_running(Error *e, Node *n) {
  int axis;
  Status s = infer_number(e, n);
  if (s == OK) s = axis_check(e, "axis", n->attr[RUN_AXIS].i, n->in[0]->type.rank, &axis);
  if (s == OK) n->attr[RUN_AXIS].i = axis;
  return s;
}

typedef struct Running {
  const void *x, *dy;
  void *y;
  Around shape;
  bool exclusive, reverse, product;
} Running;

enum { RUN_COLUMNS = 64 }; /* side by side */

static int64_t along(const Running *r, int64_t k) { return r->reverse ? r->shape.extent - 1 - k : k; }

/* Columns [first, first + columns) of one outer block; A is the type that accumulates. */
#define RUNNING(id, T, A)                                                               \
  static void run_columns_##id(const Running *r, const T *x, T *y, int64_t columns) {   \
    A sum[RUN_COLUMNS];                                                                 \
    int64_t inner = r->shape.inner;                                                     \
    for (int64_t i = 0; i < columns; i++) sum[i] = r->product;                          \
    for (int64_t k = 0; k < r->shape.extent; k++) {                                     \
      const T *from = x + along(r, k) * inner;                                          \
      T *to = y + along(r, k) * inner;                                                  \
      for (int64_t i = 0; i < columns; i++) {                                           \
        A next = r->product ? sum[i] * (A)from[i] : sum[i] + (A)from[i];                \
        to[i] = (T)(r->exclusive ? sum[i] : next);                                      \
        sum[i] = next;                                                                  \
      }                                                                                 \
    }                                                                                   \
  }                                                                                     \
  static void run_##id(void *context, int64_t begin, int64_t end) {                     \
    const Running *r = context;                                                         \
    int64_t inner = r->shape.inner, block = r->shape.extent * inner;                    \
    for (int64_t o = begin; o < end; o++)                                               \
      for (int64_t i = 0; i < inner; i += RUN_COLUMNS)                                  \
        run_columns_##id(r, (const T *)r->x + o * block + i, (T *)r->y + o * block + i, \
                         least(RUN_COLUMNS, inner - i));                                \
  }
RUNNING(f32, float, double)
RUNNING(f64, double, double)
RUNNING(i8, int8_t, uint64_t)
RUNNING(u8, uint8_t, uint64_t)
RUNNING(i32, int32_t, uint64_t)
RUNNING(i64, int64_t, uint64_t)

static Running running_of(const Call *c, int operand) {
  const Attr *a = c->attr;
  return (Running){.x = c->in[operand],
                   .y = c->out[0],
                   .shape = around_axis(c->in_type[operand], (int)a[RUN_AXIS].i),
                   .exclusive = a[RUN_EXCLUSIVE].i,
                   .reverse = a[RUN_REVERSE].i};
}

static Status run_running(const Call *c, bool product) {
  static void (*const run[DTYPE_COUNT])(void *, int64_t, int64_t) = {
      [F32] = run_f32, [F64] = run_f64, [I8] = run_i8, [U8] = run_u8, [I32] = run_i32, [I64] = run_i64};
  Running r = running_of(c, 0);
  r.product = product;
  parallel_for(c, r.shape.outer, (1 << 14) / most(r.shape.extent * r.shape.inner, 1),
               run[c->in_type[0]->dtype], &r);
  return OK;
}
static Status body_cumsum(const Call *c) { return run_running(c, false); }
static Status body_cumprod(const Call *c) { return run_running(c, true); }
static Status eval_cumsum(const Call *c) { return eval_wide(c, body_cumsum); }
static Status eval_cumprod(const Call *c) { return eval_wide(c, body_cumprod); }

static void grad_cumsum(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Attr attrs[] = {n->attr[RUN_AXIS], n->attr[RUN_EXCLUSIVE], attr_bool(!n->attr[RUN_REVERSE].i)};
  dx[0] = op_with(g, "cumsum", &dy[0], 1, attrs);
}

static void grad_cumprod(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, "cumprod_grad", (Value *[]){dy[0], n->in[0]}, 2, n->attr);
}

/* dx[i] is the product of what stands before i times a sum over what stands behind, made backwards without
 * dividing: t[i] = dy[i] + x[i + 1] t[i + 1] (exclusive: the dy and x of i + 1 only). */
#define PRODUCT_GRAD(id, T)                                                                \
  static void product_grad_##id(const Running *r, const T *dy, const T *x, T *dx) {        \
    int64_t inner = r->shape.inner, extent = r->shape.extent;                              \
    double before = 1, t = 0;                                                              \
    for (int64_t k = 0; k < extent; k++) {                                                 \
      int64_t at = along(r, k) * inner;                                                    \
      dx[at] = (T)before;                                                                  \
      before *= (double)x[at];                                                             \
    }                                                                                      \
    for (int64_t k = extent - 1; k >= 0; k--) {                                            \
      int64_t at = along(r, k) * inner;                                                    \
      double here = (double)dy[at] + t;                                                    \
      dx[at] = (T)((double)dx[at] * (r->exclusive ? t : here));                            \
      t = r->exclusive ? (double)dy[at] + (double)x[at] * t : (double)x[at] * here;        \
    }                                                                                      \
  }                                                                                        \
  static void product_grads_##id(void *context, int64_t begin, int64_t end) {              \
    const Running *r = context;                                                            \
    int64_t inner = r->shape.inner, block = r->shape.extent * inner;                       \
    for (int64_t o = begin; o < end; o++)                                                  \
      for (int64_t i = 0; i < inner; i++) {                                                \
        int64_t at = o * block + i;                                                        \
        product_grad_##id(r, (const T *)r->dy + at, (const T *)r->x + at, (T *)r->y + at); \
      }                                                                                    \
  }
PRODUCT_GRAD(f32, float)
PRODUCT_GRAD(f64, double)

static Status infer_cumprod_grad(Error *e, Node *n) {
  char dy[TYPE_TEXT], x[TYPE_TEXT];
  Status s = want_float(e, &n->in[0]->type);
  if (s == OK && !type_equal(&n->in[0]->type, &n->in[1]->type))
    return fail(e, ERR_INVALID_ARGUMENT, "dy %s must be like x %s", type_text(&n->in[0]->type, dy), type_text(&n->in[1]->type, x));
  return s == OK ? infer_running(e, n) : s;
}

static Status body_cumprod_grad(const Call *c) {
  Running r = running_of(c, 1);
  r.dy = c->in[0];
  parallel_for(c, r.shape.outer, (1 << 14) / most(r.shape.extent * r.shape.inner, 1),
               c->in_type[0]->dtype == F64 ? product_grads_f64 : product_grads_f32, &r);
  return OK;
}
static Status eval_cumprod_grad(const Call *c) { return eval_wide(c, body_cumprod_grad); }

/* With y = cumprod(x) the row is cumsum'(dy y) / x, cumsum' running the other way; differentiated in that
 * form, which wants x without zeros. */
static void grad_cumprod_grad(Graph *g, const Node *n, Value *const *u, Value **dx) {
  Value *dy = n->in[0], *x = n->in[1], *y = op_with(g, "cumprod", &n->in[1], 1, n->attr);
  Value *h = ops_div(g, u[0], x), *sum = op_with(g, "cumsum", &h, 1, n->attr);
  dx[0] = ops_mul(g, sum, y);
  Value *by_product = op_with(g, "cumprod_grad", (Value *[]){ops_mul(g, dy, sum), x}, 2, n->attr);
  dx[1] = ops_sub(g, by_product, ops_div(g, ops_mul(g, u[0], (Value *)&n->out[0]), x));
}

/* ---- rows ---- */

#define AXIS_ATTRS                                                               \
  .attrs = {{"axis", ATTR_INTS, "nil", NULL, "axes to reduce; all when absent"}, \
            {"keepdims", ATTR_BOOL, "false", NULL, "leave reduced axes as 1"}}
#define RUN_ATTRS                                                                                \
  .attrs = {{"axis", ATTR_INT, "0", NULL, "axis to run along"},                                  \
            {"exclusive", ATTR_BOOL, "false", NULL, "leave each element out of its own result"}, \
            {"reverse", ATTR_BOOL, "false", NULL, "from the end"}}
#define CASES(f)                                                                                        \
  f "[2,3,4] | " f "[2,3,4] {axis = 1} | " f "[2,3,4] {axis = {0, -1}, keepdims = true} | " f "[] | " f \
    "[3,1] {axis = 1}"
#define BIG(f) " | " f "[200,300] {axis = 0} | " f "[120000]"
#define SHAPES "[...] → without axis"

#define REDUCTION(id, takes, scratch_id, derivative, price, cases, text)                                   \
  {                                                                                                        \
    .name = "reduce_" #id, .summary = text, .shapes = SHAPES, .inputs = {"x"}, AXIS_ATTRS,                 \
    .infer = infer_##takes, .eval = eval_##id, .scratch = scratch_##scratch_id, .grad = grad_##derivative, \
    .cost = cost_of_##price, .sample = cases                                                               \
  }
const OpDef ops_reduce[] = {
    REDUCTION(sum, numbers, plain, sum, sum, CASES("F") BIG("F") " | F[0,3] {axis = 0} | I9[3,4] {axis = -1}",
              "The sum over axes."),
    REDUCTION(mean, floats, plain, mean, sum, CASES("F") BIG("F"), "The mean over axes."),
    REDUCTION(max, extreme, plain, extreme, max, CASES("D") BIG("D") " | I9[3,4] {axis = -1}",
              "The greatest element over axes; equals share the gradient."),
    REDUCTION(min, extreme, plain, extreme, max, CASES("D") " | I9[3,4] {axis = -1}",
              "The smallest element over axes; equals share the gradient."),
    REDUCTION(prod, numbers, plain, prod, sum, CASES("F") " | I3[3,4] {axis = -1}", "The product over axes."),
    REDUCTION(variance, floats, two_passes, variance, moments, CASES("F") BIG("F"),
              "The population variance over axes."),
    REDUCTION(std, floats, two_passes, std, moments,
              "F[2,3,4] | F[2,3,4] {axis = 1} | F[2,3,4] {axis = {0, -1}, keepdims = true}",
              "The population standard deviation over axes."),
    REDUCTION(logsumexp, floats, two_passes, logsumexp, logsumexp, CASES("F") BIG("F"),
              "log of the sum of e^x over axes, without overflow."),
    {.name = "reduce_any",
     .summary = "Whether any element over axes is true.",
     .shapes = SHAPES,
     .inputs = {"x"},
     AXIS_ATTRS,
     .traits = NO_GRADIENT,
     .infer = infer_bools,
     .cost = cost_of_max,
     .eval = eval_any,
     .scratch = scratch_plain,
     .sample = CASES("B")},
    {.name = "reduce_all",
     .summary = "Whether all elements over axes are true.",
     .shapes = SHAPES,
     .inputs = {"x"},
     AXIS_ATTRS,
     .traits = NO_GRADIENT,
     .infer = infer_bools,
     .cost = cost_of_max,
     .eval = eval_all,
     .scratch = scratch_plain,
     .sample = CASES("B")},
    {.name = "argmax",
     .summary = "Position of the greatest element along an axis, int32; the first of equals.",
     .shapes = SHAPES,
     .inputs = {"x"},
     .attrs = {{"axis", ATTR_INT, "0", NULL, "axis to search"}},
     .traits = NO_GRADIENT,
     .infer = infer_position,
     .cost = cost_of_position,
     .eval = eval_argmax,
     .scratch = scratch_wide,
     .sample = "D[2,3,4] {axis = 1} | D[2,3] {axis = -1} | I5[7] | D[200,90] {axis = 1}"},
    {.name = "argmin",
     .summary = "Position of the smallest element along an axis, int32; the first of equals.",
     .shapes = SHAPES,
     .inputs = {"x"},
     .attrs = {{"axis", ATTR_INT, "0", NULL, "axis to search"}},
     .traits = NO_GRADIENT,
     .infer = infer_position,
     .cost = cost_of_position,
     .eval = eval_argmin,
     .scratch = scratch_wide,
     .sample = "D[2,3,4] {axis = 1} | D[2,3] {axis = -1} | I5[7]"},
    {.name = "cumsum",
     .summary = "Running sums along an axis.",
     .shapes = "any",
     .inputs = {"x"},
     RUN_ATTRS,
     .infer = infer_running,
     .cost = cost_of_scan,
     .eval = eval_cumsum,
     .scratch = scratch_wide,
     .grad = grad_cumsum,
     .sample = "F[5] | F[2,3,4] {axis = 1} | F[3,4] {axis = -1, exclusive = true} | F[3,4] {axis = 0, "
               "reverse = true} | "
               "F[6] {exclusive = true, reverse = true} | I9[5] | F[0,2] | F[300,200] {axis = 1}"},
    {.name = "cumprod",
     .summary = "Running products along an axis.",
     .shapes = "any",
     .inputs = {"x"},
     RUN_ATTRS,
     .infer = infer_running,
     .cost = cost_of_scan,
     .eval = eval_cumprod,
     .scratch = scratch_wide,
     .grad = grad_cumprod,
     .sample = "F[5] | F[2,3,4] {axis = 1} | F[3,4] {axis = -1, exclusive = true} | F[3,4] {axis = 0, "
               "reverse = true} | "
               "F[6] {exclusive = true, reverse = true} | I4[3]"},
    {.name = "cumprod_grad",
     .summary = "The derivative of cumprod.",
     .shapes = "any, the same → the same",
     .inputs = {"dy", "x"},
     RUN_ATTRS,
     .traits = INTERNAL,
     .infer = infer_cumprod_grad,
     .cost = cost_of_scan,
     .eval = eval_cumprod_grad,
     .scratch = scratch_wide,
     .grad = grad_cumprod_grad,
     .sample = "F[5] P[5] | F[2,3,2] P[2,3,2] {axis = 1} | F[3,4] P[3,4] {axis = -1, exclusive = true} | "
               "F[6] P[6] {exclusive = true, reverse = true}"},
    {0}};
