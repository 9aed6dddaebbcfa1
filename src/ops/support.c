#include "ops/support.h"

#include <math.h>
#include <string.h>

#include "base/interrupt.h"

/* ---- infer ---- */

Status infer_number(Error *e, Node *n) {
  if (n->in[0]->type.dtype == BOOL) return fail(e, ERR_TYPE, "wants numbers, got bool");
  return infer_same(e, n);
}

Status infer_axis(Error *e, Node *n, int attr, int rank, int *axis) {
  Status s = axis_check(e, "axis", n->attr[attr].i, rank, axis);
  if (s == OK) n->attr[attr].i = *axis;
  return s;
}

Status want_float(Error *e, const Type *t) {
  if (dtype_is_float(t->dtype)) return OK;
  return fail(e, ERR_TYPE, "wants floating point, got %s", dtype_name(t->dtype));
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
  for (int i = 0; i < t->rank; i++) *(i < axis ? &a.outer : i == axis ? &a.extent : &a.inner) *= t->shape[i];
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

size_t compute_bytes(const Type *t) { return (size_t)type_count(t) * dtype_size(dtype_to_compute(t->dtype)); }

enum { COPY_GRAIN = 1 << 18, CONVERT_GRAIN = 1 << 14 };

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
  uint32_t stream;
  _Atomic bool overflow;
} Conversion;

static void convert_part(void *context, int64_t begin, int64_t end) {
  Conversion *v = context;
  const Call *c = v->call;
  const char *x = v->x + (size_t)begin * dtype_size(v->from);
  char *y = v->y + (size_t)begin * dtype_size(v->to);
  if (v->to == F16) {
    const float *wide = (const float *)(const void *)x;
    RngKey key = c->rng;
    key.stream += v->stream;
    narrow_f16_by(c->kernels, wide, (f16 *)(void *)y, end - begin, c->numerics, &key, (uint64_t)begin);
    if (!c->numerics || !c->numerics->trap_overflow) return;
    for (int64_t i = 0; i < end - begin; i++)
      if (fabsf(wide[i]) > 65504.0f && isfinite(wide[i])) v->overflow = true;
  } else {
    const void *in[1] = {x};
    c->kernels->cast[v->from][v->to](in, 0, y, end - begin, NULL);
  }
}

static bool convert(const Call *c, Dtype from, Dtype to, const void *x, void *y, int64_t count,
                    uint32_t stream) {
  Conversion v = {.call = c, .from = from, .to = to, .x = x, .y = y, .stream = stream};
  parallel_for(c, count, CONVERT_GRAIN, convert_part, &v);
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
    if (dtype_is_narrow(n->in[i]->type.dtype)) bytes += round_to_line(compute_bytes(&n->in[i]->type));
  for (int i = 0; i < n->out_count; i++)
    if (dtype_is_narrow(n->out[i].type.dtype)) bytes += round_to_line(compute_bytes(&n->out[i].type));
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
  for (int i = 0; i < c->in_count; i++) {
    type[i] = *c->in_type[i];
    type_at[i] = &type[i];
    in[i] = c->in[i];
    if (!dtype_is_narrow(type[i].dtype)) continue;
    void *wide = take_scratch(&at, &type[i]);
    convert(c, type[i].dtype, F32, c->in[i], wide, type_count(&type[i]), 0);
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
    if (dtype_is_narrow(c->out_type[i]->dtype))
      fits &=
          convert(c, F32, c->out_type[i]->dtype, out[i], c->out[i], type_count(c->out_type[i]), (uint32_t)i);
  if (s != OK || fits) return s;
  return fail_at(c->error, c->source, ERR_INTERNAL, "Tiles in excepted state: an overflow (oflo) in %s",
                 c->node->op->name);
}

static void run_chain_part(void *context, int64_t begin, int64_t end) { chain_run(context, begin, end); }

void run_kernel(const Call *c, Elementwise kernel, int arity, const Type *const *type, const void *const *in,
                const Type *out_type, void *out, const double *p) {
  Chain chain;
  int operand[3];
  double none[4] = {0};
  chain_begin(&chain, c->kernels, out_type);
  for (int i = 0; i < arity; i++) operand[i] = chain_operand(&chain, type[i], (void *)(uintptr_t)in[i]);
  int result = chain_operand(&chain, out_type, out);
  chain_step(&chain, kernel, arity, operand, result, p ? p : none);
  chain_finish(&chain, false);
  parallel_for(c, chain.count, CONVERT_GRAIN, run_chain_part, &chain);
}

/* ---- reductions ---- */

/* Elements that one chunk of a reduction reads. */
enum { REDUCE_GRAIN = 1 << 15 };

/* Runs of dimensions that are all kept or all reduced, innermost last. */
typedef struct Runs {
  int count;
  int64_t extent[MAX_RANK];
  bool reduced[MAX_RANK];
} Runs;

static Runs find_runs(const Type *x, int count, const int *axes) {
  bool taken[MAX_RANK] = {false};
  for (int i = 0; i < count; i++) taken[axes[i]] = true;
  Runs r = {0};
  for (int i = 0; i < x->rank; i++) {
    if (x->shape[i] == 1) continue;
    if (r.count && r.reduced[r.count - 1] == taken[i]) {
      r.extent[r.count - 1] *= x->shape[i];
    } else {
      r.extent[r.count] = x->shape[i];
      r.reduced[r.count++] = taken[i];
    }
  }
  return r;
}

typedef struct Reducing {
  void (*kernel)(const void *, int64_t, int64_t, int64_t, void *);
  const char *x;
  char *y;
  int64_t outer, extent, inner, piece;
  size_t size;
} Reducing;

static void reduce_outer(void *context, int64_t begin, int64_t end) {
  const Reducing *r = context;
  r->kernel(r->x + (size_t)(begin * r->extent * r->inner) * r->size, end - begin, r->extent, r->inner,
            r->y + (size_t)(begin * r->inner) * r->size);
}

/* Pieces of the extent, each to a row of partial results. */
static void reduce_pieces(void *context, int64_t begin, int64_t end) {
  const Reducing *r = context;
  for (int64_t i = begin; i < end; i++) {
    int64_t first = i * r->piece, count = least(r->piece, r->extent - first);
    r->kernel(r->x + (size_t)(first * r->inner) * r->size, 1, count, r->inner,
              r->y + (size_t)(i * r->inner) * r->size);
  }
}

/* How many pieces an extent is cut into when there are too few rows to share out; 1: none. Shapes alone
 * decide. */
static int64_t piece_count(int64_t outer, int64_t extent, int64_t inner) {
  if (outer != 1) return 1;
  int64_t pieces = extent * inner / REDUCE_GRAIN;
  return most(1, least(least(pieces, extent / 8), 64));
}

static void reduce_run(const Call *c, Reduction r, Dtype d, const void *x, int64_t outer, int64_t extent,
                       int64_t inner, void *y, void *partials) {
  Reducing k = {c->kernels->reduce[r][d], x, y, outer, extent, inner, 0, dtype_size(d)};
  int64_t pieces = piece_count(outer, extent, inner);
  if (pieces > 1) {
    k.piece = (extent + pieces - 1) / pieces;
    pieces = (extent + k.piece - 1) / k.piece;
    k.y = partials;
    parallel_for(c, pieces, 1, reduce_pieces, &k);
    k.kernel(partials, 1, pieces, inner, y);
  } else {
    parallel_for(c, outer, REDUCE_GRAIN / most(extent * inner, 1), reduce_outer, &k);
  }
}

/* Extents of the step that reduces run i of r. */
static void step_extents(const Runs *r, int i, int64_t *outer, int64_t *extent, int64_t *inner) {
  *outer = *inner = 1;
  *extent = r->extent[i];
  for (int k = 0; k < i; k++) *outer *= r->extent[k];
  for (int k = i + 1; k < r->count; k++) *inner *= r->extent[k];
}

static int last_reduced(const Runs *r) {
  for (int i = r->count - 1; i >= 0; i--)
    if (r->reduced[i]) return i;
  return -1;
}

static bool is_last_step(const Runs *r, int i) {
  for (int k = 0; k < i; k++)
    if (r->reduced[k]) return false;
  return true;
}

static void drop_run(Runs *r, int i) {
  r->extent[i] = 1; /* stays as a run of one */
  r->reduced[i] = false;
}

size_t reduce_bytes(const Type *x, int count, const int *axes) {
  Runs r = find_runs(x, count, axes);
  size_t size = dtype_size(dtype_to_compute(x->dtype)), bytes = 0;
  for (int i; (i = last_reduced(&r)) >= 0; drop_run(&r, i)) {
    int64_t outer, extent, inner;
    step_extents(&r, i, &outer, &extent, &inner);
    if (piece_count(outer, extent, inner) > 1) bytes += round_to_line(64 * (size_t)inner * size);
    if (!is_last_step(&r, i)) bytes += round_to_line((size_t)(outer * inner) * size);
  }
  return bytes;
}

void reduce_axes(const Call *c, Reduction reduction, const Type *x, const void *data, int count,
                 const int *axes, void *out, void *scratch) {
  Runs r = find_runs(x, count, axes);
  size_t size = dtype_size(x->dtype);
  char *at = scratch;
  if (last_reduced(&r) < 0) copy_bytes(c, out, data, type_bytes(x));
  for (int i; (i = last_reduced(&r)) >= 0; drop_run(&r, i)) {
    int64_t outer, extent, inner;
    step_extents(&r, i, &outer, &extent, &inner);
    void *partials = at, *to = out;
    if (piece_count(outer, extent, inner) > 1) at += round_to_line(64 * (size_t)inner * size);
    if (!is_last_step(&r, i)) {
      to = at;
      at += round_to_line((size_t)(outer * inner) * size);
    }
    reduce_run(c, reduction, x->dtype, data, outer, extent, inner, to, partials);
    data = to;
  }
}

/* ---- indices ---- */

int64_t index_at(const Call *c, const char *what, Dtype d, const void *data, int64_t i, int64_t extent) {
  int64_t index = read_index(d, data, i);
  if (index >= 0 && index < extent) return index;
  fail_at(c->error, c->source, ERR_OUT_OF_RANGE, "%s: %s[%lld] is %lld, outside 0 … %lld", c->node->op->name,
          what, (long long)i, (long long)index, (long long)extent - 1);
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

/* ---- matrix products ---- */

/* Slots bound the scratch; teams larger than that share the chunks out by slot. */
enum { PRODUCT_SLOTS = 16 };
static const double SMALL_PRODUCT = 2e6; /* multiply-adds: below, whole matrices of a batch are shared out */

static int64_t batch_count(const Product *p) {
  int64_t n = 1;
  for (int i = 0; i < p->rank; i++) n *= p->extent[i];
  return n;
}

static bool by_matrix(const Product *p) {
  const Gemm *g = &p->gemm;
  int64_t batch = batch_count(p);
  return batch > 1 &&
         ((double)g->m * (double)g->n * (double)g->k < SMALL_PRODUCT || batch >= 2 * PRODUCT_SLOTS);
}

static int64_t slot_count(const Product *p, const GemmPlan *plan) {
  return most(1, least(PRODUCT_SLOTS, by_matrix(p) ? batch_count(p) : plan->chunks));
}

static GemmPlan plan_of(const Kernels *k, const Product *p) {
  Gemm g = p->gemm;
  char dummy[8];
  if (!g.c) g.c = dummy; /* the result has a place of its own, though it isn't known yet */
  return k->gemm_plan(p->dtype, &g);
}

static size_t bytes_for(const Kernels *k, const Product *p) {
  GemmPlan plan = plan_of(k, p);
  size_t slots = (size_t)slot_count(p, &plan), shared = round_to_line(plan.shared_bytes);
  return slots * round_to_line(plan.slot_bytes) + (by_matrix(p) ? slots : 1) * shared;
}

size_t product_scratch(const Product *p) {
  static const char *const names[] = {"base", "avx2", "avx512"};
  size_t bytes = 0;
  for (int i = 0; i < 3; i++) {
    const Kernels *k = kernels_find(names[i]);
    size_t needed = k ? bytes_for(k, p) : 0;
    if (needed > bytes) bytes = needed;
  }
  return bytes;
}

typedef struct ProductRun {
  const Call *call;
  const Product *product;
  GemmPlan plan;
  Gemm gemm; /* the matrix at hand, when chunks are shared out */
  char *shared, *slots;
  size_t shared_bytes, slot_bytes;
  int64_t count, slot_total; /* matrices or chunks; slots that there is room for */
  DroppableLoop loop;
} ProductRun;

static Gemm matrix_at(const ProductRun *r, int64_t index) {
  const Product *p = r->product;
  Gemm g = r->gemm;
  size_t size = dtype_size(p->dtype);
  g.c = (char *)g.c + (size_t)(index * p->c_step) * size;
  for (int i = p->rank - 1; i >= 0; i--) {
    int64_t at = index % p->extent[i];
    g.a = (const char *)g.a + at * p->a_step[i] * (int64_t)size;
    g.b = (const char *)g.b + at * p->b_step[i] * (int64_t)size;
    index /= p->extent[i];
  }
  return g;
}

static void run_matrix(ProductRun *r, int64_t index, int slot) {
  Dtype d = r->product->dtype;
  Gemm g = matrix_at(r, index);
  g.shared = r->shared + (size_t)slot * r->shared_bytes;
  for (int64_t i = 0; i < r->plan.pack_chunks; i++) r->call->kernels->gemm_pack(d, &g, i);
  for (int64_t i = 0; i < r->plan.chunks && !interrupt_drops(&r->loop); i++) r->call->kernels->gemm_run(d, &g, i, slot);
  for (int64_t i = 0; i < r->plan.finish_chunks; i++) r->call->kernels->gemm_finish(d, &g, i, slot);
}

static void matrix_task(void *context, int64_t index, int slot) { run_matrix(context, index, slot); }
static void pack_task(void *context, int64_t chunk, int slot) {
  const ProductRun *r = context;
  (void)slot;
  r->call->kernels->gemm_pack(r->product->dtype, &r->gemm, chunk);
}
static void chunk_task(void *context, int64_t chunk, int slot) {
  ProductRun *r = context;
  if (interrupt_drops(&r->loop)) return;
  r->call->kernels->gemm_run(r->product->dtype, &r->gemm, chunk, slot);
}

static void finish_task(void *context, int64_t chunk, int slot) {
  const ProductRun *r = context;
  r->call->kernels->gemm_finish(r->product->dtype, &r->gemm, chunk, slot);
}

/* For teams with more members than slots: task number i owns slot i and takes every slot_total-th piece of
 * work. */
typedef struct Striding {
  PoolTask task;
  ProductRun *run;
} Striding;

static void stride_task(void *context, int64_t slot, int member) {
  const Striding *s = context;
  (void)member;
  for (int64_t i = slot; i < s->run->count; i += s->run->slot_total) s->task(s->run, i, (int)slot);
}

static void share_out(ProductRun *r, int64_t count, PoolTask task) {
  r->count = count;
  Striding s = {task, r};
  if (pool_size(r->call->pool) <= r->slot_total) pool_run(r->call->pool, count, task, r);
  else pool_run(r->call->pool, least(count, r->slot_total), stride_task, &s);
}

void product_run(const Call *c, const Product *p, void *scratch) {
  int64_t batch = batch_count(p);
  if (!batch || !p->gemm.m || !p->gemm.n) return;
  ProductRun r = {.call = c, .product = p, .plan = plan_of(c->kernels, p), .gemm = p->gemm};
  r.loop = interrupt_begin_loop();
  r.slot_total = slot_count(p, &r.plan);
  r.slot_bytes = round_to_line(r.plan.slot_bytes);
  r.shared_bytes = round_to_line(r.plan.shared_bytes);
  r.slots = scratch;
  r.shared = r.slots + (size_t)r.slot_total * r.slot_bytes;
  r.gemm.slots = r.slots, r.gemm.slot_bytes = r.slot_bytes, r.gemm.shared = r.shared;
  if (by_matrix(p)) {
    share_out(&r, batch, matrix_task);
    interrupt_end_loop(&r.loop);
    return;
  }
  Gemm first = r.gemm;
  for (int64_t i = 0; i < batch; i++) {
    r.gemm = first;
    r.gemm = matrix_at(&r, i);
    if (r.plan.pack_chunks) pool_run(c->pool, r.plan.pack_chunks, pack_task, &r);
    share_out(&r, r.plan.chunks, chunk_task);
    if (r.plan.finish_chunks) share_out(&r, r.plan.finish_chunks, finish_task);
  }
  interrupt_end_loop(&r.loop);
}
