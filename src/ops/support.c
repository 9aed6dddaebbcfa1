#include "ops/support.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- infer ---- */

Status infer_number(Error *e, Node *n) {
  if (n->in[0]->type.dtype == BOOL) return fail(e, ERR_TYPE, "operands must be numbers, got bool");
  return infer_same(e, n);
}

Status infer_axis(Error *e, Node *n, int attr, int rank, int *axis) {
  Status s = axis_check(e, "axis", n->attr[attr].i, rank, axis);
  if (s == OK) n->attr[attr].i = *axis;
  return s;
}

Status want_float(Error *e, const Type *t) {
  if (dtype_is_float(t->dtype)) return OK;
  return fail(e, ERR_TYPE, "operands must be floating point, got %s%s", dtype_name(t->dtype),
              t->dtype == U8 ? "; convert them by ipu.cast, in a dataset by map" : "");
}

Status want_integer(Error *e, const char *what, const Type *t) {
  if (dtype_is_integer(t->dtype)) return OK;
  return fail(e, ERR_TYPE, "%s must be integers, got %s", what, dtype_name(t->dtype));
}

Status want_same_dtype(Error *e, const char *what, const Type *t, Dtype d) {
  if (t->dtype == d) return OK;
  return fail(e, ERR_TYPE, "%s must be %s, got %s", what, dtype_name(d), dtype_name(t->dtype));
}

Status infer_float_pair(Error *e, Node *n) {
  Status s = infer_broadcast(e, n);
  return s == OK ? want_float(e, &n->in[0]->type) : s;
}

Status set_ints(Error *e, Node *n, int attr, const int64_t *v, int count) {
  int64_t *copy = arena_alloc(n->arena, (size_t)(count + 1) * sizeof *copy);
  if (!copy) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < count; i++) copy[i] = v[i];
  n->attr[attr] = attr_ints(copy, count);
  return OK;
}

/* ---- shapes ---- */

Around around_axis(const Type *t, int axis) {
  Around a = {1, 1, 1};
  for (int i = 0; i < t->rank; i++)
    *(i < axis ? &a.outer : i == axis ? &a.extent : &a.inner) *= t->shape[i];
  return a;
}

Type type_reduced(const Type *x, int count, const int *axes, bool keep) {
  bool taken[MAX_RANK] = {false};
  for (int i = 0; i < count; i++) taken[axes[i]] = true;
  Type t = {.dtype = x->dtype};
  for (int i = 0; i < x->rank; i++)
    if (!taken[i]) t.shape[t.rank++] = x->shape[i];
    else if (keep) t.shape[t.rank++] = 1;
  return t;
}

Type type_without(const Type *t, int axis) { return type_reduced(t, 1, &axis, false); }

/* ---- evaluation ---- */

size_t compute_bytes(const Type *t) {
  return (size_t)type_count(t) * dtype_size(dtype_to_compute(t->dtype));
}

enum {
  COPY_GRAIN = 1 << 18,
  CONVERT_GRAIN = 1 << 14,
  STREAM_BITS = 27 /* of the nodes of a trace */
};

typedef struct Copy {
  char *to;
  const char *from; /* NULL: zeros */
} Copy;

static void copy_part(void *context, int64_t begin, int64_t end) {
  const Copy *k = context;
  size_t bytes = (size_t)(end - begin);
  if (k->from) memcpy(k->to + begin, k->from + begin, bytes);
  else memset(k->to + begin, 0, bytes);
}

void copy_bytes(const Call *c, void *to, const void *from, size_t bytes) {
  Copy k = {to, from};
  if (to != from) parallel_for(c, (int64_t)bytes, COPY_GRAIN, copy_part, &k);
}

void fill_zero(const Call *c, void *to, size_t bytes) {
  Copy k = {to, NULL};
  parallel_for(c, (int64_t)bytes, COPY_GRAIN, copy_part, &k);
}

Status eval_copy(const Call *c) {
  copy_bytes(c, c->out[0], c->in[0], type_bytes(c->out_type[0]));
  return OK;
}

/* One tensor between a narrow dtype and float32. */
typedef struct Conversion {
  const Call *call;
  Dtype from, to;
  const char *x;
  char *y;
  uint32_t output; /* of the op: each is rounded by its own numbers */
  _Atomic bool overflow, infinite;
} Conversion;

static void convert_part(void *context, int64_t begin, int64_t end) {
  Conversion *v = context;
  const Call *c = v->call;
  const char *x = v->x + (size_t)begin * dtype_size(v->from);
  char *y = v->y + (size_t)begin * dtype_size(v->to);
  if (v->to == F16) {
    const float *wide = (const float *)(const void *)x;
    RngKey key = c->rng;
    key.stream += v->output << STREAM_BITS;
    if (narrow_f16_by(c->kernels, wide, (f16 *)(void *)y, end - begin, c->numerics, &key,
                      (uint64_t)begin))
      v->infinite = true;
    if (!c->numerics || !c->numerics->trap_overflow) return;
    for (int64_t i = 0; i < end - begin; i++)
      if (fabsf(wide[i]) > 65504.0f && isfinite(wide[i])) v->overflow = true;
  } else {
    const void *in[1] = {x};
    c->kernels->cast[v->from][v->to](in, 0, y, end - begin, NULL);
  }
}

static void convert(Conversion *v, int64_t count) {
  parallel_for(v->call, count, CONVERT_GRAIN, convert_part, v);
}

static void widen(const Call *c, int k, void *wide) {
  Dtype from = c->in_type[k]->dtype;
  Conversion v = {.call = c, .from = from, .to = F32, .x = c->in[k], .y = wide};
  convert(&v, type_count(c->in_type[k]));
}

/* A result of finite operands is finite on the machine, also where float32 overflows before. False:
 * it is beyond the range of float16, and that traps. */
static bool narrow_result(const Call *c, int i, float *wide) {
  int64_t n = type_count(c->out_type[i]);
  Conversion v = {.call = c,
                  .from = F32,
                  .to = c->out_type[i]->dtype,
                  .x = (const char *)wide,
                  .y = c->out[i],
                  .output = (uint32_t)i};
  convert(&v, n);
  if (!v.infinite || op_given(c)) return !v.overflow;
  for (int64_t j = 0; j < n; j++)
    if (isinf(wide[j])) wide[j] = copysignf(FLT_MAX, wide[j]);
  convert(&v, n);
  return !v.overflow;
}

static void *take_scratch(char **at, const Type *t) {
  void *taken = *at;
  *at += round_to_line(compute_bytes(t));
  return taken;
}

size_t wide_scratch(const Node *n, size_t own) {
  size_t bytes = own;
  for (int i = 0; i < n->in_count; i++)
    if (dtype_is_narrow(n->in[i]->type.dtype))
      bytes += round_to_line(compute_bytes(&n->in[i]->type));
  for (int i = 0; i < n->out_count; i++)
    if (dtype_is_narrow(n->out[i].type.dtype))
      bytes += round_to_line(compute_bytes(&n->out[i].type));
  return bytes;
}

size_t scratch_wide(const Node *n) { return wide_scratch(n, 0); }

Status eval_wide(const Call *c, Status (*body)(const Call *)) {
  const void *in[MAX_INPUTS] = {0};
  void *out[MAX_OUTPUTS] = {0};
  Type type[MAX_INPUTS + MAX_OUTPUTS];
  const Type *type_at[MAX_INPUTS + MAX_OUTPUTS];
  char *at = c->scratch;
  bool narrow = false;
  if (!c->node->op->scratch) /* a slip in a new row, which would write beyond its buffers */
    return fail_at(c->error, c->source, ERR_INTERNAL,
                   "%s: a row whose eval is eval_wide needs .scratch = scratch_wide",
                   c->node->op->name);
  for (int i = 0; i < c->in_count; i++) {
    type[i] = *c->in_type[i];
    type_at[i] = &type[i];
    in[i] = c->in[i];
    if (!dtype_is_narrow(type[i].dtype)) continue;
    void *wide = take_scratch(&at, &type[i]);
    widen(c, i, wide);
    type[i].dtype = F32, in[i] = wide, narrow = true;
  }
  for (int i = 0; i < c->out_count; i++) {
    Type *t = &type[MAX_INPUTS + i];
    *t = *c->out_type[i];
    type_at[MAX_INPUTS + i] = t;
    out[i] = c->out[i];
    if (!dtype_is_narrow(t->dtype)) continue;
    out[i] = take_scratch(&at, t);
    t->dtype = F32, narrow = true;
  }
  if (!narrow) return body(c);
  Call wide = *c;
  wide.in = in, wide.out = out, wide.in_type = type_at, wide.out_type = type_at + MAX_INPUTS,
  wide.scratch = at;
  Status s = body(&wide);
  bool fits = true;
  for (int i = 0; i < c->out_count && s == OK; i++)
    if (dtype_is_narrow(c->out_type[i]->dtype)) fits &= narrow_result(c, i, out[i]);
  if (s != OK || fits) return s;
  return fail_at(c->error, c->source, ERR_INTERNAL,
                 "Tiles in excepted state: an overflow (oflo) in %s", c->node->op->name);
}

static void run_chain_part(void *context, int64_t begin, int64_t end) {
  chain_run(context, begin, end);
}

void run_kernel(const Call *c, Elementwise kernel, int arity, const Type *const *type,
                const void *const *in, const Type *out_type, void *out, const double *p) {
  Chain chain;
  int operand[3];
  double none[4] = {0};
  chain_begin(&chain, c->kernels, out_type);
  for (int i = 0; i < arity; i++)
    operand[i] = chain_operand(&chain, type[i], (void *)(uintptr_t)in[i]);
  int result = chain_operand(&chain, out_type, out);
  chain_step(&chain, kernel, arity, operand, result, p ? p : none);
  chain_finish(&chain, false);
  parallel_for(c, chain.count, CONVERT_GRAIN, run_chain_part, &chain);
}

void run_number(const Call *c, Elementwise kernel, const Type *t, const void *x, double number,
                void *y) {
  Type one = type_scalar(t->dtype);
  double held = 0;
  dtype_set(t->dtype, &held, 0, number);
  run_kernel(c, kernel, 2, (const Type *[]){t, &one}, (const void *[]){x, &held}, t, y, NULL);
}

/* ---- indices ---- */

int64_t index_at(const Call *c, const char *what, Dtype d, const void *data, int64_t i,
                 int64_t extent) {
  int64_t index = read_index(d, data, i);
  if (index >= 0 && index < extent) return index;
  const char *hint = strcmp(what, "labels") ? "" : "; classes count from 0";
  fail_at(c->error, c->source, ERR_OUT_OF_RANGE, "%s: %s[%lld] is %lld, outside 0 … %lld%s",
          c->node->op->name, what, (long long)i, (long long)index, (long long)extent - 1, hint);
  return -1;
}

Status check_indices(const Call *c, const char *what, int input, int64_t extent) {
  int64_t n = type_count(c->in_type[input]);
  Dtype d = c->in_type[input]->dtype;
  for (int64_t i = 0; i < n; i++) {
    int64_t index = read_index(d, c->in[input], i);
    if ((index < 0 || index >= extent) && index_at(c, what, d, c->in[input], i, extent) < 0)
      return ERR_OUT_OF_RANGE;
  }
  return OK;
}

/* ---- gradients ---- */

Value *ops_zeros_of(Graph *g, const Value *x) { return ops_zeros(g, &x->type); }
Value *ops_number(Graph *g, const Value *x, double value) {
  return x ? graph_number(g, x->type.dtype, value) : NULL;
}

Value *ops_unreduce(Graph *g, Value *dy, const Type *x, const Attr *axis) {
  int count, axes[MAX_RANK];
  if (!dy || infer_axes(&g->error, axis, x->rank, &count, axes) != OK) return NULL;
  Type kept = type_reduced(x, count, axes, true);
  return ops_reshape(g, dy, &kept);
}
