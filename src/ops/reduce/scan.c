/* Running sums and products along an axis. */
#include "ops/support.h"

enum { RUN_AXIS, RUN_EXCLUSIVE, RUN_REVERSE }; /* attributes */

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

static int64_t along(const Running *r, int64_t k) {
  return r->reverse ? r->shape.extent - 1 - k : k;
}

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
                         min(RUN_COLUMNS, inner - i));                                  \
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
      [F32] = run_f32, [F64] = run_f64, [I8] = run_i8,
      [U8] = run_u8,   [I32] = run_i32, [I64] = run_i64};
  Running r = running_of(c, 0);
  r.product = product;
  parallel_for(c, r.shape.outer, (1 << 14) / max(r.shape.extent * r.shape.inner, 1),
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

/* dx[i] is the product of the elements before i, times a sum over the elements after i. The sum is
 * made backwards, without dividing: t[i] = dy[i] + x[i + 1] t[i + 1] (exclusive: the dy and x of i
 * + 1 only). */
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
    return fail(e, ERR_INVALID_ARGUMENT, "dy %s must be like x %s", type_text(&n->in[0]->type, dy),
                type_text(&n->in[1]->type, x));
  return s == OK ? infer_running(e, n) : s;
}

static Status body_cumprod_grad(const Call *c) {
  Running r = running_of(c, 1);
  r.dy = c->in[0];
  parallel_for(c, r.shape.outer, (1 << 14) / max(r.shape.extent * r.shape.inner, 1),
               c->in_type[0]->dtype == F64 ? product_grads_f64 : product_grads_f32, &r);
  return OK;
}
static Status eval_cumprod_grad(const Call *c) { return eval_wide(c, body_cumprod_grad); }

/* With y = cumprod(x) the row is cumsum'(dy y) / x, where cumsum' runs the other way. This form is
 * differentiated, and needs an x without zeros. */
static void grad_cumprod_grad(Graph *g, const Node *n, Value *const *u, Value **dx) {
  Value *dy = n->in[0], *x = n->in[1], *y = op_with(g, "cumprod", &n->in[1], 1, n->attr);
  Value *h = ops_div(g, u[0], x), *sum = op_with(g, "cumsum", &h, 1, n->attr);
  dx[0] = ops_mul(g, sum, y);
  Value *by_product = op_with(g, "cumprod_grad", (Value *[]){ops_mul(g, dy, sum), x}, 2, n->attr);
  dx[1] = ops_sub(g, by_product, ops_div(g, ops_mul(g, u[0], (Value *)&n->out[0]), x));
}

#define RUN_ATTRS                                                                                \
  .attrs = {{"axis", ATTR_INT, "0", NULL, "axis to run along"},                                  \
            {"exclusive", ATTR_BOOL, "false", NULL, "leave each element out of its own result"}, \
            {"reverse", ATTR_BOOL, "false", NULL, "from the end"}}
const OpDef ops_scan[] = {
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
     .sample =
         "F[5] | F[2,3,4] {axis = 1} | F[3,4] {axis = -1, exclusive = true} | F[3,4] {axis = 0, "
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
     .sample =
         "F[5] | F[2,3,4] {axis = 1} | F[3,4] {axis = -1, exclusive = true} | F[3,4] {axis = 0, "
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
     .sample =
         "F[5] P[5] | F[2,3,2] P[2,3,2] {axis = 1} | F[3,4] P[3,4] {axis = -1, exclusive = true} | "
         "F[6] P[6] {exclusive = true, reverse = true}"},
    {0}};
