#include "base/arith.h"
#include "ops/support.h"

#include <math.h>
#include <string.h>

/* ---- words ---- */

Value *op_with(Graph *g, const char *name, Value *const *in, int in_count, const Attr *attrs) {
  const OpDef *op = op_find(name);
  if (!op) fail(&g->error, ERR_INTERNAL, "a gradient names an op that does not exist: %s", name);
  return graph_apply(g, op, in, in_count, attrs);
}
Value *op1(Graph *g, const char *name, Value *x) { return op_with(g, name, &x, 1, NULL); }
Value *op2(Graph *g, const char *name, Value *a, Value *b) {
  return op_with(g, name, (Value *[]){a, b}, 2, NULL);
}
Value *op3(Graph *g, const char *name, Value *a, Value *b, Value *c) {
  return op_with(g, name, (Value *[]){a, b, c}, 3, NULL);
}

Value *ops_add(Graph *g, Value *a, Value *b) { return op2(g, "add", a, b); }
Value *ops_sub(Graph *g, Value *a, Value *b) { return op2(g, "sub", a, b); }
Value *ops_mul(Graph *g, Value *a, Value *b) { return op2(g, "mul", a, b); }
Value *ops_div(Graph *g, Value *a, Value *b) { return op2(g, "div", a, b); }
Value *ops_neg(Graph *g, Value *x) { return op1(g, "neg", x); }
Value *ops_where(Graph *g, Value *c, Value *a, Value *b) { return op3(g, "where", c, a, b); }

Value *ops_scale(Graph *g, Value *x, double factor) {
  return x ? ops_mul(g, x, graph_number(g, x->type.dtype, factor)) : NULL;
}

Value *ops_reshape(Graph *g, Value *x, const Type *shape) {
  if (!x || shape_equal(&x->type, shape)) return x;
  Attr a[MAX_ATTRS] = {attr_ints(shape->shape, shape->rank)};
  return op_with(g, "reshape", &x, 1, a);
}

Value *ops_reshape_like(Graph *g, Value *x, const Value *like) {
  return ops_reshape(g, x, &like->type);
}

Value *ops_broadcast(Graph *g, Value *x, const Type *shape) {
  if (!x || shape_equal(&x->type, shape)) return x;
  Attr a[MAX_ATTRS] = {attr_ints(shape->shape, shape->rank)};
  return op_with(g, "broadcast_to", &x, 1, a);
}

Value *ops_sum(Graph *g, Value *x, const int64_t *axes, int count, bool keepdims) {
  if (count == 0) return x;
  Attr a[MAX_ATTRS] = {attr_ints(axes, count), attr_bool(keepdims)};
  return op_with(g, "reduce_sum", &x, 1, a);
}

Value *ops_join(Graph *g, Value *a, Value *b, int axis) {
  return op_with(g, "concat", (Value *[]){a, b}, 2, (Attr[MAX_ATTRS]){attr_int(axis)});
}

Value *ops_sum_to(Graph *g, Value *x, const Type *shape) {
  if (!x || shape_equal(&x->type, shape)) return x;
  int64_t axes[MAX_RANK];
  int count = 0, missing = x->type.rank - shape->rank;
  for (int i = 0; i < x->type.rank; i++)
    if (i < missing || (shape->shape[i - missing] == 1 && x->type.shape[i] != 1)) axes[count++] = i;
  return ops_reshape(g, ops_sum(g, x, axes, count, false), shape);
}

Value *ops_transpose(Graph *g, Value *x, const int64_t *perm) {
  Attr a[MAX_ATTRS] = {attr_ints(perm, x ? x->type.rank : 0)};
  return op_with(g, "transpose", &x, 1, a);
}

Value *ops_matmul(Graph *g, Value *a, Value *b, bool transpose_a, bool transpose_b) {
  Attr attrs[MAX_ATTRS] = {attr_bool(transpose_a), attr_bool(transpose_b)};
  return op_with(g, "matmul", (Value *[]){a, b}, 2, attrs);
}

Value *ops_cast(Graph *g, Value *x, Dtype d) {
  if (!x || x->type.dtype == d) return x;
  Attr a[MAX_ATTRS] = {attr_dtype(d)};
  return op_with(g, "cast", &x, 1, a);
}

static Value *filled(Graph *g, const Type *t, double value) {
  return ops_broadcast(g, graph_number(g, t->dtype, value), t);
}
Value *ops_zeros(Graph *g, const Type *t) { return filled(g, t, 0); }
Value *ops_ones(Graph *g, const Type *t) { return filled(g, t, 1); }

Value *ops_identity(Graph *g, Dtype d, int64_t n) {
  Type type = {.dtype = d, .rank = 2, .shape = {n, n}};
  Tensor *t = tensor_new(&g->error, &type);
  for (int64_t i = 0; t && i < n; i++) dtype_set(d, t->data, i * n + i, 1);
  return graph_take_constant(g, t);
}

/* ---- infer ---- */

Status infer_same(Error *e, Node *n) {
  (void)e;
  n->out[0].type = n->in[0]->type;
  return OK;
}

Status infer_float(Error *e, Node *n) {
  if (!dtype_is_float(n->in[0]->type.dtype)) return want_float(e, &n->in[0]->type);
  return infer_same(e, n);
}

Status infer_broadcast(Error *e, Node *n) {
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type;
  char ta[TYPE_TEXT], tb[TYPE_TEXT];
  if (a->dtype != b->dtype)
    return fail(e, ERR_TYPE, "dtypes %s and %s differ; ipu.cast one of them", type_text(a, ta),
                type_text(b, tb));
  if (!type_broadcast(a, b, &n->out[0].type))
    return fail(e, ERR_INVALID_ARGUMENT, "shapes %s and %s don't broadcast", shape_text(a, ta),
                shape_text(b, tb));
  return OK;
}

Status infer_compare(Error *e, Node *n) {
  Status s = infer_broadcast(e, n);
  n->out[0].type.dtype = BOOL;
  return s;
}

Status infer_axes(Error *e, const Attr *attr, int rank, int *count, int axes[MAX_RANK]) {
  *count = 0;
  bool all = attr->kind == ATTR_NONE;
  bool taken[MAX_RANK] = {false};
  int64_t named[MAX_RANK] = {0};
  for (int i = 0; i < rank && all; i++) taken[i] = true;
  for (int i = 0; !all && i < attr->ints.n; i++) {
    int axis;
    Status s = axis_check(e, "axis", attr->ints.v[i], rank, &axis);
    if (s != OK) return s;
    if (taken[axis])
      return fail(e, ERR_VALUE, "axis %d is named twice: %lld, %lld", axis, (long long)named[axis],
                  (long long)attr->ints.v[i]);
    taken[axis] = true;
    named[axis] = attr->ints.v[i];
  }
  for (int i = 0; i < rank; i++)
    if (taken[i]) axes[(*count)++] = i;
  return OK;
}

/* ---- evaluation ---- */

typedef struct Loop {
  int64_t count, grain;
  void (*body)(void *context, int64_t begin, int64_t end);
  void *context;
} Loop;

static void run_chunk(void *context, int64_t chunk, int slot) {
  (void)slot;
  const Loop *l = context;
  int64_t begin = chunk * l->grain, end = begin + l->grain;
  l->body(l->context, begin, min(end, l->count));
}

void parallel_for(const Call *c, int64_t count, int64_t grain,
                  void (*body)(void *, int64_t, int64_t), void *context) {
  if (grain < 1) grain = 1;
  if (count <= grain || pool_size(c->pool) == 1) {
    if (count > 0) body(context, 0, count);
    return;
  }
  Loop l = {count, grain, body, context};
  pool_run(c->pool, ceil_div(count, grain), run_chunk, &l);
}

/* Elements of a chunk of elementwise work: 64 KiB of float32, so that a hand-off is small beside
 * it. */
enum { ELEMENTWISE_GRAIN = 16384 };

typedef struct ChainLoop {
  const Chain *chain;
  _Atomic int events;
} ChainLoop;

static void run_chain(void *context, int64_t begin, int64_t end) {
  ChainLoop *l = context;
  int events = chain_events_of(chain_run(l->chain, begin, end));
  if (events) atomic_fetch_or(&l->events, events);
}

Status trap_events(const Call *c, int events) {
  const char *what = numerics_trap(c->numerics, events);
  if (!what) return OK;
  return fail_at(c->error, c->source, ERR_INTERNAL, "Tiles in excepted state: %s in %s", what,
                 c->node->op->name);
}

/* Integers to float32 (a division): in float64, rounded once. */
static void chain_step_f64(Chain *chain, Elementwise kernel, int arity, const int *in, int out,
                           const double *p) {
  int wide[3], result = chain_temporary(chain, F64, arity);
  for (int i = 0; i < arity; i++) {
    wide[i] = chain_temporary(chain, F64, i);
    chain_step(chain, ELEMENTWISE_COUNT, 1, &in[i], wide[i], NULL);
  }
  chain_step(chain, kernel, arity, wide, result, p);
  chain_step(chain, ELEMENTWISE_COUNT, 1, &result, out, NULL);
}

static Status eval_elementwise(const Call *c, const Node *n) {
  Elementwise kernel;
  double p[4] = {0};
  n->op->strip(n, &kernel, p);
  Dtype operand = c->in_type[n->in_count == 3 ? 1 : 0]->dtype;
  bool in_f64 = !chain_can(c->kernels, kernel, operand) && dtype_is_integer(operand) &&
                c->out_type[0]->dtype == F32;
  if (!in_f64 && !chain_can(c->kernels, kernel, operand))
    return fail_at(c->error, c->source, ERR_TYPE, "%s: does not take %s", n->op->name,
                   dtype_name(operand));
  Chain chain;
  chain_begin(&chain, c->kernels, c->out_type[0]);
  int in[3];
  for (int i = 0; i < n->in_count; i++)
    in[i] = chain_operand(&chain, c->in_type[i], (void *)(uintptr_t)c->in[i]);
  int out = chain_operand(&chain, c->out_type[0], c->out[0]);
  if (in_f64) chain_step_f64(&chain, kernel, n->in_count, in, out, p);
  else chain_step(&chain, kernel, n->in_count, in, out, p);
  chain.numerics = c->numerics;
  chain.rng = c->rng;
  chain_finish(&chain, false);
  ChainLoop loop = {.chain = &chain};
  parallel_for(c, chain.count, ELEMENTWISE_GRAIN, run_chain, &loop);
  return trap_events(c, loop.events);
}

enum { HOLDS_NAN = 1, HOLDS_INFINITY = 2, IS_EMPTY = 4 };

/* By the bits. Without its sign a NaN is greater than an infinity. */
#define HOLDS(id, T, infinity)                                      \
  static int holds_##id(const void *data, int64_t n) {              \
    const T *x = data;                                              \
    T nan = 0, infinite = 0, magnitude = (infinity) << 1;           \
    for (int64_t i = 0; i < n; i++) {                               \
      nan |= (T)(x[i] << 1) > magnitude;                            \
      infinite |= (T)(x[i] << 1) == magnitude;                      \
    }                                                               \
    return (nan ? HOLDS_NAN : 0) | (infinite ? HOLDS_INFINITY : 0); \
  }
HOLDS(f16, uint16_t, 0x7C00)
HOLDS(bf16, uint16_t, 0x7F80)
HOLDS(f32, uint32_t, 0x7F800000u)
HOLDS(f64, uint64_t, (uint64_t)0x7FF << 52)

static int holds(const Type *type, const void *data) {
  int64_t n = type_count(type);
  if (n == 0) return IS_EMPTY;
  switch (type->dtype) {
    case F16:
      return holds_f16(data, n);
    case BF16:
      return holds_bf16(data, n);
    case F32:
      return holds_f32(data, n);
    case F64:
      return holds_f64(data, n);
    default:
      return 0;
  }
}

static bool has_infinite_values(const Node *n) {
  if (n->op->infinite) return true;
  for (int i = 0; i < op_attr_count(n->op); i++)
    if (n->attr[i].kind == ATTR_FLOAT && !isfinite(n->attr[i].f)) return true;
  return false;
}

int op_given(const Call *c) {
  int given = c->in_count && !has_infinite_values(c->node) ? 0 : HOLDS_INFINITY;
  for (int i = 0; i < c->in_count; i++) given |= holds(c->in_type[i], c->in[i]);
  return given;
}

/* The least of no element is infinite, and so is padding with infinities: no event. */
Status op_trap(const Call *c, int given) {
  int made = 0;
  for (int i = 0; i < c->out_count; i++) made |= holds(c->out_type[i], c->out[i]);
  bool nan = made & HOLDS_NAN && !(given & HOLDS_NAN), infinite = made & HOLDS_INFINITY && !given;
  return trap_events(c, (nan ? EVENT_INVALID : 0) | (infinite ? EVENT_OVERFLOW : 0));
}

/* An empty tensor may have any extents beside the 0, so they must not be counted through. */
static bool gives_nothing(const Call *c) {
  for (int i = 0; i < c->out_count; i++)
    if (type_count(c->out_type[i]) > 0) return false;
  return c->out_count > 0 && !(c->node->op->traits & STATEFUL);
}

Status op_eval(const OpDef *op, const Call *c) {
  if (gives_nothing(c)) return OK;
  if (op->strip) return eval_elementwise(c, c->node);
  if (!op->eval)
    return fail_at(c->error, c->source, ERR_INTERNAL, "%s: has no evaluation", op->name);
  if (!numerics_trapped(c->numerics)) return op->eval(c);
  int given = op_given(c);
  Status s = op->eval(c);
  return s == OK ? op_trap(c, given) : s;
}
