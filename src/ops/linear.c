/* Linear algebra: matrix products. */
#include <string.h>

#include "ops/ops.h"

enum { TRANSPOSE_A, TRANSPOSE_B, SLOTS = 16 };

/* Where the batch's matrices are: leading dimensions broadcast. */
typedef struct Product {
  Gemm gemm; /* of one pair of matrices; pointers filled in for each */
  int64_t batch;
  int rank; /* of the leading dimensions */
  int64_t extent[MAX_RANK], a_stride[MAX_RANK], b_stride[MAX_RANK];
} Product;

static Status infer(Error *e, Node *n) {
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type;
  char ta[TYPE_TEXT], tb[TYPE_TEXT];
  bool ta_flag = n->attr[TRANSPOSE_A].i, tb_flag = n->attr[TRANSPOSE_B].i;
  if (a->dtype != b->dtype)
    return fail(e, ERR_TYPE, "dtypes of %s and %s differ; ipu.cast one of them", type_text(a, ta), type_text(b, tb));
  if (a->dtype == BOOL) return fail(e, ERR_TYPE, "wants numbers, got bool");
  if (a->rank < 2 || b->rank < 2)
    return fail(e, ERR_INVALID_ARGUMENT, "wants matrices, got %s and %s", shape_text(a, ta), shape_text(b, tb));
  int64_t k = a->shape[a->rank - (ta_flag ? 2 : 1)], other = b->shape[b->rank - (tb_flag ? 1 : 2)];
  if (k != other)
    return fail(e, ERR_INVALID_ARGUMENT, "%s%s times %s%s: inner extents %lld and %lld differ", shape_text(a, ta),
                ta_flag ? " transposed" : "", shape_text(b, tb), tb_flag ? " transposed" : "", (long long)k, (long long)other);
  Type x = *a, y = *b, out;
  x.rank -= 2, y.rank -= 2;
  if (!type_broadcast(&x, &y, &out))
    return fail(e, ERR_INVALID_ARGUMENT, "leading extents of %s and %s don't broadcast", shape_text(a, ta), shape_text(b, tb));
  if (out.rank + 2 > MAX_RANK) return fail(e, ERR_INVALID_ARGUMENT, "rank %d is too high", out.rank + 2);
  out.shape[out.rank] = a->shape[a->rank - (ta_flag ? 1 : 2)];
  out.shape[out.rank + 1] = b->shape[b->rank - (tb_flag ? 2 : 1)];
  out.rank += 2;
  n->out[0].type = out;
  return OK;
}

static Product product_of(const Type *a, const Type *b, const Type *out, const Attr *attr) {
  bool ta = attr[TRANSPOSE_A].i, tb = attr[TRANSPOSE_B].i;
  Product p = {.batch = 1, .rank = out->rank - 2};
  Gemm *g = &p.gemm;
  g->m = out->shape[out->rank - 2], g->n = out->shape[out->rank - 1];
  g->k = a->shape[a->rank - (ta ? 2 : 1)];
  g->a_row = ta ? 1 : g->k, g->a_col = ta ? g->m : 1;
  g->b_row = tb ? 1 : g->n, g->b_col = tb ? g->k : 1;
  g->c_row = g->n;
  int64_t as = g->m * g->k, bs = g->k * g->n;
  for (int i = p.rank - 1; i >= 0; i--) {
    int ai = i - (out->rank - a->rank), bi = i - (out->rank - b->rank);
    p.extent[i] = out->shape[i];
    p.batch *= out->shape[i];
    p.a_stride[i] = ai >= 0 && a->shape[ai] != 1 ? as : 0;
    p.b_stride[i] = bi >= 0 && b->shape[bi] != 1 ? bs : 0;
    if (ai >= 0) as *= a->shape[ai];
    if (bi >= 0) bs *= b->shape[bi];
  }
  return p;
}

static void offsets(const Product *p, int64_t batch, int64_t *a, int64_t *b) {
  *a = *b = 0;
  for (int i = p->rank - 1; i >= 0; i--) {
    int64_t at = batch % p->extent[i];
    batch /= p->extent[i];
    *a += at * p->a_stride[i];
    *b += at * p->b_stride[i];
  }
}

/* ---- float32 and float64: the GEMM kernels ---- */

typedef struct Work {
  const Call *call;
  const Product *product;
  GemmPlan plan;
  Gemm single; /* batch 1: chunks of one product run side by side */
  Dtype dtype;
  const char *a, *b;
  char *c, *scratch;
} Work;

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
static size_t area_bytes(const GemmPlan *plan) { return aligned(plan->shared_bytes) + aligned(plan->slot_bytes) + 64; }

static Gemm matrices(const Work *w, int64_t batch, char *area) {
  Gemm g = w->product->gemm;
  size_t size = dtype_size(w->dtype);
  int64_t a, b;
  offsets(w->product, batch, &a, &b);
  g.a = w->a + (size_t)a * size;
  g.b = w->b + (size_t)b * size;
  g.c = w->c + (size_t)(batch * g.m * g.n) * size;
  g.shared = area;
  g.slots = area + aligned(w->plan.shared_bytes);
  g.slot_bytes = 0;
  return g;
}

static void run_batch(void *context, int64_t batch, int slot) {
  const Work *w = context;
  Gemm g = matrices(w, batch, w->scratch + (size_t)slot * area_bytes(&w->plan));
  for (int64_t i = 0; i < w->plan.pack_chunks; i++) w->call->kernels->gemm_pack(w->dtype, &g, i);
  for (int64_t i = 0; i < w->plan.chunks; i++) w->call->kernels->gemm_run(w->dtype, &g, i, 0);
}

static void pack_chunk(void *context, int64_t chunk, int slot) {
  (void)slot;
  const Work *w = context;
  w->call->kernels->gemm_pack(w->dtype, &w->single, chunk);
}

static void run_chunk(void *context, int64_t chunk, int slot) {
  const Work *w = context;
  w->call->kernels->gemm_run(w->dtype, &w->single, chunk, slot);
}

/* a, b, c are of dtype d, which has GEMM kernels. */
static void multiply(const Call *call, const Product *p, Dtype d, const void *a, const void *b, void *c, char *scratch) {
  Work w = {.call = call, .product = p, .dtype = d, .a = a, .b = b, .c = c, .scratch = scratch};
  Gemm shape = p->gemm;
  shape.c = c;
  w.plan = call->kernels->gemm_plan(d, &shape);
  Pool *pool = pool_size(call->pool) <= SLOTS ? call->pool : NULL;
  if (p->batch == 1) {
    w.single = matrices(&w, 0, scratch);
    w.single.slot_bytes = aligned(w.plan.slot_bytes);
    w.single.slots = scratch + aligned(w.plan.shared_bytes);
    pool_run(pool, w.plan.pack_chunks, pack_chunk, &w);
    pool_run(pool, w.plan.chunks, run_chunk, &w);
  } else {
    pool_run(pool, p->batch, run_batch, &w);
  }
}

static size_t multiply_scratch(const Product *p, Dtype d) {
  Gemm shape = p->gemm;
  shape.c = &shape;
  GemmPlan plan = kernels_select()->gemm_plan(d, &shape);
  return SLOTS * area_bytes(&plan) + aligned(plan.shared_bytes);
}

/* ---- the others ---- */

static bool is_half(Dtype d) { return d == F16 || d == BF16; }

/* Integers: sums in int64, wrapped to the result. */
static void multiply_integers(const Product *p, Dtype d, const void *a, const void *b, void *c) {
  const Gemm *g = &p->gemm;
  for (int64_t batch = 0; batch < p->batch; batch++) {
    int64_t ao, bo;
    offsets(p, batch, &ao, &bo);
    for (int64_t i = 0; i < g->m; i++)
      for (int64_t j = 0; j < g->n; j++) {
        uint64_t sum = 0;
        for (int64_t k = 0; k < g->k; k++)
          sum += (uint64_t)dtype_get_integer(d, a, ao + i * g->a_row + k * g->a_col) *
                 (uint64_t)dtype_get_integer(d, b, bo + k * g->b_row + j * g->b_col);
        dtype_set_integer(d, c, (batch * g->m + i) * g->n + j, (int64_t)sum);
      }
  }
}

/* float16 whose partial sums are float16 too: one rounding a step. */
static void multiply_half_partials(const Call *c, const Product *p) {
  const Gemm *g = &p->gemm;
  const f16 *a = c->in[0], *b = c->in[1];
  f16 *out = c->out[0];
  for (int64_t batch = 0; batch < p->batch; batch++) {
    int64_t ao, bo;
    offsets(p, batch, &ao, &bo);
    for (int64_t i = 0; i < g->m; i++)
      for (int64_t j = 0; j < g->n; j++) {
        f16 sum = 0;
        for (int64_t k = 0; k < g->k; k++) {
          float product = f16_to_f32(a[ao + i * g->a_row + k * g->a_col]) * f16_to_f32(b[bo + k * g->b_row + j * g->b_col]);
          sum = f32_to_f16(f16_to_f32(sum) + product);
        }
        float wide = f16_to_f32(sum);
        narrow_f16(&wide, out + (batch * g->m + i) * g->n + j, 1, c->numerics, &c->rng, (uint64_t)((batch * g->m + i) * g->n + j));
      }
  }
}

static size_t scratch(const Node *n) {
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type, *out = &n->out[0].type;
  if (!dtype_is_float(a->dtype) || type_count(out) == 0) return 0;
  Product p = product_of(a, b, out, n->attr);
  if (!is_half(a->dtype)) return multiply_scratch(&p, a->dtype);
  size_t wide = aligned((size_t)type_count(a) * 4) + aligned((size_t)type_count(b) * 4) + aligned((size_t)type_count(out) * 4);
  return wide + multiply_scratch(&p, F32);
}

static void multiply_half(const Call *c, const Product *p) {
  Dtype d = c->in_type[0]->dtype;
  int64_t counts[3] = {type_count(c->in_type[0]), type_count(c->in_type[1]), type_count(c->out_type[0])};
  char *at = c->scratch;
  float *wide[3];
  for (int i = 0; i < 3; i++) wide[i] = (float *)(void *)at, at += aligned((size_t)counts[i] * 4);
  for (int i = 0; i < 2; i++) c->kernels->cast[d][F32](&c->in[i], 0, wide[i], counts[i], NULL);
  multiply(c, p, F32, wide[0], wide[1], wide[2], at);
  const void *from[1] = {wide[2]};
  if (d == F16) narrow_f16(wide[2], c->out[0], counts[2], c->numerics, &c->rng, 0);
  else c->kernels->cast[F32][BF16](from, 0, c->out[0], counts[2], NULL);
}

static Status eval(const Call *c) {
  Dtype d = c->in_type[0]->dtype;
  if (type_count(c->out_type[0]) == 0) return OK;
  Product p = product_of(c->in_type[0], c->in_type[1], c->out_type[0], c->attr);
  int8_t half = c->node->place.half_partials;
  bool half_partials = half >= 0 ? half : c->numerics && c->numerics->half_partials;
  if (p.gemm.k == 0) memset(c->out[0], 0, type_bytes(c->out_type[0]));
  else if (d == F16 && half_partials) multiply_half_partials(c, &p);
  else if (is_half(d)) multiply_half(c, &p);
  else if (dtype_is_float(d)) multiply(c, &p, d, c->in[0], c->in[1], c->out[0], c->scratch);
  else multiply_integers(&p, d, c->in[0], c->in[1], c->out[0]);
  return OK;
}

/* Whichever way a and b were turned, each gradient is again one product. */
static void grad(Graph *g, const Node *n, Value *const *dys, Value **dx) {
  Value *a = n->in[0], *b = n->in[1], *dy = dys[0];
  bool ta = n->attr[TRANSPOSE_A].i, tb = n->attr[TRANSPOSE_B].i;
  Value *da = ta ? ops_matmul(g, b, dy, tb, true) : ops_matmul(g, dy, b, false, !tb);
  Value *db;
  bool flat = b->type.rank == 2 && a->type.rank > 2 && !ta;
  if (flat) { /* one weight for all leading rows: one product over all of them */
    Type rows = {.dtype = a->type.dtype, .rank = 2, .shape = {type_count(&a->type), a->type.shape[a->type.rank - 1]}};
    rows.shape[0] = rows.shape[1] ? rows.shape[0] / rows.shape[1] : 0;
    Type cols = {.dtype = a->type.dtype, .rank = 2, .shape = {rows.shape[0], dy ? dy->type.shape[dy->type.rank - 1] : 0}};
    Value *x = ops_reshape(g, a, &rows), *y = ops_reshape(g, dy, &cols);
    db = tb ? ops_matmul(g, y, x, true, false) : ops_matmul(g, x, y, true, false);
  } else {
    db = tb ? ops_matmul(g, dy, a, true, ta) : ops_matmul(g, a, dy, !ta, false);
  }
  dx[0] = ops_sum_to(g, da, &a->type);
  dx[1] = ops_sum_to(g, db, &b->type);
}

const OpDef ops_linear[] = {
    {.name = "matmul",
     .summary = "The product of matrices; leading extents broadcast.",
     .shapes = "[…, m, k], […, k, n] → […, m, n]",
     .inputs = {"a", "b"},
     .attrs = {{"transpose_a", ATTR_BOOL, "false", NULL, "a's last two axes are swapped"},
               {"transpose_b", ATTR_BOOL, "false", NULL, "b's last two axes are swapped"}},
     .infer = infer,
     .eval = eval,
     .scratch = scratch,
     .grad = grad,
     .sample = "F[2,3] F[3,4] | F[3,2] F[3,4] {transpose_a = true} | F[2,3] F[4,3] {transpose_b = true} | "
               "F[3,2] F[4,3] {transpose_a = true, transpose_b = true} | F[2,2,3] F[3,4] | F[2,1,2,3] F[3,3,2] | F[0,3] F[3,2]"},
    {0}};
