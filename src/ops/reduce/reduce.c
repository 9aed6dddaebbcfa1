/* Reductions over axes. */
#include <math.h>
#include "ops/reduce/reduce_axes.h"

enum { AXIS, KEEPDIMS }; /* attributes */

/* ---- infer ---- */

static int axes_of(const Node *n, int axes[MAX_RANK]) {
  for (int i = 0; i < n->attr[AXIS].ints.n; i++) axes[i] = (int)n->attr[AXIS].ints.v[i];
  return n->attr[AXIS].ints.n;
}

static int64_t reduced_count(const Node *n) {
  int64_t count = 1;
  for (int i = 0; i < n->attr[AXIS].ints.n; i++)
    count *= n->in[0]->type.shape[n->attr[AXIS].ints.v[i]];
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
    return fail(e, ERR_TYPE,
                "operands must be numbers, got bool; ipu.cast them, or use reduce_any, reduce_all");
  return infer_any(e, n);
}

static Status infer_floats(Error *e, Node *n) {
  Status s = want_float(e, &n->in[0]->type);
  return s == OK ? infer_any(e, n) : s;
}

static Status infer_bools(Error *e, Node *n) {
  if (n->in[0]->type.dtype != BOOL)
    return fail(e, ERR_TYPE, "operands must be bool, got %s", dtype_name(n->in[0]->type.dtype));
  return infer_any(e, n);
}

static Status infer_extreme(Error *e, Node *n) {
  Status s = infer_numbers(e, n);
  char text[TYPE_TEXT];
  if (s == OK && reduced_count(n) == 0 && type_count(&n->out[0].type))
    return fail(e, ERR_VALUE, "nothing to choose from in shape %s",
                shape_text(&n->in[0]->type, text));
  return s;
}

/* ---- evaluation ---- */

static void reduce_node(const Call *c, Reduction r, const void *x, void *y, void *scratch) {
  int axes[MAX_RANK], count = axes_of(c->node, axes);
  reduce_axes(c, r, c->in_type[0], x, count, axes, y, scratch);
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
  run_number(c, EW_DIV, c->out_type[0], c->out[0], (double)reduced_count(c->node), c->out[0]);
  return OK;
}
static Status eval_mean(const Call *c) { return eval_wide(c, body_mean); }

/* Scratch of rows in two passes: [kept] of the first, [x] of the second pass's operand, then the
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
  run_number(c, EW_DIV, y, mean, n, mean);
  run_kernel(c, EW_SQUARED_DIFFERENCE, 2, (const Type *[]){x, &kept},
             (const void *[]){c->in[0], mean}, x, square, NULL);
  reduce_node(c, REDUCE_SUM, square, c->out[0], rest);
  run_number(c, EW_DIV, y, c->out[0], n, c->out[0]);
  return OK;
}
static Status eval_variance(const Call *c) { return eval_wide(c, body_variance); }

static Status body_std(const Call *c) {
  body_variance(c);
  run_kernel(c, EW_SQRT, 1, c->out_type, (const void *[]){c->out[0]}, c->out_type[0], c->out[0],
             NULL);
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
  run_kernel(c, EW_SUB, 2, (const Type *[]){x, &kept}, (const void *[]){c->in[0], shift}, x, e,
             NULL);
  run_kernel(c, EW_EXP, 1, &x, (const void *[]){e}, x, e, NULL);
  reduce_node(c, REDUCE_SUM, e, c->out[0], rest);
  run_kernel(c, EW_LOG, 1, &y, (const void *[]){c->out[0]}, y, c->out[0], NULL);
  run_kernel(c, EW_ADD, 2, (const Type *[]){y, y}, (const void *[]){c->out[0], shift}, y, c->out[0],
             NULL);
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
  Value *each = ops_scale(g, dy[0], 1 / (double)max(reduced_count(n), 1));
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

/* The product of all other elements is the product before times the product after: no division by a
 * zero. */
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
  Type flat = {
      .dtype = t->dtype, .rank = 2, .shape = {type_count(&n->out[0].type), reduced_count(n)}};
  Type column = {.dtype = t->dtype, .rank = 2, .shape = {flat.shape[0], 1}};
  Value *moved = ops_transpose(g, x, perm), *rows = ops_reshape(g, moved, &flat);
  Value *others = ops_mul(g, run_product(g, rows, false), run_product(g, rows, true));
  Value *d = ops_mul(g, others, ops_reshape(g, dy[0], &column));
  dx[0] = moved ? ops_transpose(g, ops_reshape(g, d, &moved->type), back) : NULL;
}

static void grad_variance(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *d = ops_scale(g, keep(g, n, dy[0]), 2 / (double)max(reduced_count(n), 1));
  dx[0] = ops_mul(g, d, ops_sub(g, n->in[0], mean_kept(g, n)));
}

static void grad_std(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *d =
      ops_scale(g, ops_div(g, dy[0], (Value *)&n->out[0]), 1 / (double)max(reduced_count(n), 1));
  dx[0] = ops_mul(g, keep(g, n, d), ops_sub(g, n->in[0], mean_kept(g, n)));
}

static void grad_logsumexp(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *share = op1(g, "exp", ops_sub(g, n->in[0], keep(g, n, (Value *)&n->out[0])));
  dx[0] = ops_mul(g, share, keep(g, n, dy[0]));
}

/* ---- rows ---- */

#define AXIS_ATTRS                                                               \
  .attrs = {{"axis", ATTR_INTS, "nil", NULL, "axes to reduce; all when absent"}, \
            {"keepdims", ATTR_BOOL, "false", NULL, "leave reduced axes as 1"}}
#define CASES(f)                                                                              \
  f "[2,3,4] | " f "[2,3,4] {axis = 1} | " f "[2,3,4] {axis = {0, -1}, keepdims = true} | " f \
    "[] | " f "[3,1] {axis = 1}"
#define BIG(f) " | " f "[200,300] {axis = 0} | " f "[120000]"
#define SHAPES "[...] → without axis"

#define REDUCTION(id, takes, scratch_id, derivative, price, cases, text) \
  {.name = "reduce_" #id,                                                \
   .method = #id,                                                        \
   .family = FAMILY_REDUCTION,                                           \
   .summary = text,                                                      \
   .shapes = SHAPES,                                                     \
   .inputs = {"x"},                                                      \
   AXIS_ATTRS,                                                           \
   .infer = infer_##takes,                                               \
   .eval = eval_##id,                                                    \
   .scratch = scratch_##scratch_id,                                      \
   .grad = grad_##derivative,                                            \
   .cost = cost_of_##price,                                              \
   .sample = cases}
#define LOGICAL(id, words)   \
  {.name = "reduce_" #id,    \
   .method = #id,            \
   .summary = words,         \
   .shapes = SHAPES,         \
   .inputs = {"x"},          \
   AXIS_ATTRS,               \
   .traits = NO_GRADIENT,    \
   .infer = infer_bools,     \
   .cost = cost_of_max,      \
   .eval = eval_##id,        \
   .scratch = scratch_plain, \
   .sample = CASES("B")}
const OpDef ops_reduce[] = {
    REDUCTION(sum, numbers, plain, sum, sum,
              CASES("F") BIG("F") " | F[0,3] {axis = 0} | I9[3,4] {axis = -1}",
              "The sum over axes."),
    REDUCTION(mean, floats, plain, mean, sum, CASES("F") BIG("F"), "The mean over axes."),
    REDUCTION(max, extreme, plain, extreme, max, CASES("D") BIG("D") " | I9[3,4] {axis = -1}",
              "The greatest element over axes; equals share the gradient."),
    REDUCTION(min, extreme, plain, extreme, max, CASES("D") " | I9[3,4] {axis = -1}",
              "The smallest element over axes; equals share the gradient."),
    REDUCTION(prod, numbers, plain, prod, sum, CASES("F") " | I3[3,4] {axis = -1}",
              "The product over axes."),
    REDUCTION(variance, floats, two_passes, variance, moments, CASES("F") BIG("F"),
              "The population variance over axes."),
    REDUCTION(std, floats, two_passes, std, moments,
              "F[2,3,4] | F[2,3,4] {axis = 1} | F[2,3,4] {axis = {0, -1}, keepdims = true}",
              "The population standard deviation over axes."),
    REDUCTION(logsumexp, floats, two_passes, logsumexp, logsumexp, CASES("F") BIG("F"),
              "log of the sum of e^x over axes, without overflow."),
    LOGICAL(any, "Whether any element over axes is true."),
    LOGICAL(all, "Whether all elements over axes are true."),
    {0}};
