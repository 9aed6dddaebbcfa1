/* A batch of matrix products on the pool. Threads share small matrices whole, and large ones by
 * their chunks. */
#include "ops/linear/product.h"

#include "base/interrupt.h"
#include "kernels/products.h"

/* Slots bound the scratch; teams larger than that share the chunks out by slot. */
enum { PRODUCT_SLOTS = 16 };
/* multiply-adds: below, whole matrices of a batch are shared out */
static const double SMALL_PRODUCT = 2e6;

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
  return max(1, min(PRODUCT_SLOTS, by_matrix(p) ? batch_count(p) : plan->chunks));
}

static GemmPlan plan_of(const Kernels *k, const Product *p) {
  Gemm g = p->gemm;
  char dummy[8];
  if (!g.c) g.c = dummy; /* the result has memory of its own, though it isn't known yet */
  return product_plan(k, p->dtype, &g);
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
    /* OpenBLAS needs none */
    size_t needed = k ? bytes_for(kernels_with_products(k, PRODUCTS_OWN), p) : 0;
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
  CancellableLoop loop;
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

static void matrix_task(void *context, int64_t index, int slot) {
  ProductRun *r = context;
  Dtype d = r->product->dtype;
  Gemm g = matrix_at(r, index);
  g.shared = r->shared + (size_t)slot * r->shared_bytes;
  for (int64_t i = 0; i < r->plan.pack_chunks; i++)
    product_pack(r->call->kernels, &r->plan, d, &g, i);
  for (int64_t i = 0; i < r->plan.chunks && !interrupt_cancels(&r->loop); i++)
    product_chunk(r->call->kernels, &r->plan, d, &g, i, slot);
  for (int64_t i = 0; i < r->plan.finish_chunks; i++)
    product_finish(r->call->kernels, &r->plan, d, &g, i, slot);
}

static void pack_task(void *context, int64_t chunk, int slot) {
  const ProductRun *r = context;
  (void)slot;
  product_pack(r->call->kernels, &r->plan, r->product->dtype, &r->gemm, chunk);
}
static void chunk_task(void *context, int64_t chunk, int slot) {
  ProductRun *r = context;
  if (interrupt_cancels(&r->loop)) return;
  product_chunk(r->call->kernels, &r->plan, r->product->dtype, &r->gemm, chunk, slot);
}

static void finish_task(void *context, int64_t chunk, int slot) {
  const ProductRun *r = context;
  product_finish(r->call->kernels, &r->plan, r->product->dtype, &r->gemm, chunk, slot);
}

/* For teams with more members than slots: task number i owns slot i and takes every
 * slot_total-th piece of work. */
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
  else pool_run(r->call->pool, min(count, r->slot_total), stride_task, &s);
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

/* ---- one matrix after the other ---- */

void product_each(const Call *c, const Product *p, OneProduct one) {
  int64_t batch = batch_count(p);
  for (int64_t k = 0; k < batch; k++) {
    int64_t a = 0, b = 0, rest = k;
    for (int i = p->rank - 1; i >= 0; rest /= p->extent[i--]) {
      a += rest % p->extent[i] * p->a_step[i];
      b += rest % p->extent[i] * p->b_step[i];
    }
    one(c, p, a, b, k * p->c_step);
  }
}

bool product_sums_half(const Call *c) {
  int8_t half = c->node->place.half_products;
  return c->node->in[0]->type.dtype == F16 &&
         (half >= 0 ? half : c->numerics && c->numerics->half_products);
}

/* sum rounded to float16 */
static float rounded(const Call *c, float sum, uint64_t draw) {
  f16 narrow;
  narrow_f16(&sum, &narrow, 1, c->numerics, &c->rng, draw);
  return f16_to_f32(narrow);
}

static float float_at(Dtype d, const void *x, int64_t i) {
  return d == F16 ? f16_to_f32(((const f16 *)x)[i]) : ((const float *)x)[i];
}

static void multiply_half(const Call *c, const Product *p, int64_t ao, int64_t bo, int64_t first) {
  const Gemm *g = &p->gemm;
  Dtype d = p->dtype;
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      float sum = 0;
      for (int64_t k = 0; k < g->k; k++)
        sum = rounded(c,
                      sum + float_at(d, g->a, ao + i * g->a_row + k * g->a_col) *
                                float_at(d, g->b, bo + k * g->b_row + j * g->b_col),
                      p->draw + (uint64_t)((first + i * g->n + j) * g->k + k));
      if (d == F16) ((f16 *)g->c)[first + i * g->n + j] = f32_to_f16(sum);
      else ((float *)g->c)[first + i * g->n + j] = sum;
    }
}

void product_panel_half(const Call *c, const PanelMul *p, uint64_t draw) {
  const float *w = p->w;
  for (int64_t i = 0; i < p->rows; i++)
    for (int64_t j = 0; j < p->cols; j++) {
      float *y = (float *)p->y + i * p->y_row + j, sum = p->accumulate ? *y : 0;
      for (int64_t k = 0; k < p->segments * p->length; k++) {
        int64_t at = i * p->x_row + p->offset[k / p->length] + k % p->length;
        sum = rounded(c, sum + ((const float *)p->x)[at] * w[k * PANEL_COLS + j], draw++);
      }
      *y = sum;
    }
}

void product_outer_half(const Call *c, const PanelOuter *p, uint64_t draw) {
  for (int64_t l = 0; l < p->length; l++)
    for (int64_t j = 0; j < p->cols; j++) {
      float *y = (float *)p->y + l * p->y_row + j, sum = p->accumulate ? *y : 0;
      for (int64_t k = 0; k < p->lines * p->rows; k++) {
        int64_t line = k / p->rows, row = k % p->rows;
        const float *x = (const float *)p->x + line * p->x_line + row * p->x_row,
                    *d = (const float *)p->d + line * p->d_line + row * p->d_row;
        sum = rounded(c, sum + x[l] * d[j], draw++);
      }
      *y = sum;
    }
}

void product_run_half(const Call *c, const Product *p) { product_each(c, p, multiply_half); }

uint64_t product_draws(const Product *p) {
  return (uint64_t)(batch_count(p) * p->gemm.m * p->gemm.n * p->gemm.k);
}
