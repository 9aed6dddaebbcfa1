#include "engine/engine.h"

#include "kernels/blas.h"
#include "kernels/products.h"

#include <stdlib.h>
#include "dist/launch.h"

enum { MAX_THREADS = 256 };

static int core_count(void) {
  int n = launch_threads();
  return n > MAX_THREADS ? MAX_THREADS : n;
}

static Status check_threads(Error *e, int threads) {
  if (threads < 0 || threads > MAX_THREADS)
    return fail(e, ERR_VALUE, "the number of threads must be 0 (one a core) to %d, got %d",
                MAX_THREADS, threads);
  return OK;
}

Engine *engine_new(Error *e, int threads, uint64_t seed) {
  if (check_threads(e, threads) != OK) return NULL;
  Engine *g = calloc(1, sizeof *g);
  if (!g) {
    fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    return NULL;
  }
  g->threads = threads ? threads : core_count();
  g->kernels = kernels_select();
  g->seed = seed;
  engine_seed_rounding(g, seed);
  engine_follow_scopes(g, &PLACEMENT_NONE);
  return g;
}

Status engine_choose_kernels(Error *e, Engine *g, const char *at_most, const char *products) {
  const Kernels *k = kernels_at_most(at_most);
  ProductUse use;
  if (!k) return fail(e, ERR_VALUE, KERNELS_WORDS, at_most);
  if (!products_use(products, &use)) return fail(e, ERR_VALUE, PRODUCTS_WORDS, products);
  blas_choose_core(k->core);
  if (use == PRODUCTS_OPENBLAS) {
    const Blas *b = blas_open();
    if (!b || !b->is_openblas)
      return fail(e, ERR_NOT_FOUND,
                  PRODUCTS_VARIABLE "=openblas: there is no OpenBLAS; Debian's " BLAS_PACKAGE
                                    " brings it");
  }
  g->kernels = kernels_with_products(k, use);
  return OK;
}

void engine_free(Engine *g) {
  if (!g) return;
  pool_free(g->pool);
  for (int i = 0; i < g->old_count; i++) pool_free(g->old[i]);
  free(g->old);
  free(g);
}

Pool *engine_pool(Engine *g) {
  if (!g->pool && g->threads > 1) g->pool = pool_new(g->threads);
  return g->pool;
}

/* The kept pool of so many threads is used again. */
static Pool *take_old(Engine *g, int threads) {
  for (int i = 0; i < g->old_count; i++) {
    Pool *p = g->old[i];
    if (pool_size(p) != threads) continue;
    g->old[i] = g->old[--g->old_count];
    return p;
  }
  return NULL;
}

/* A job that runs may hold the pool, so it is kept. */
Status engine_set_threads(Error *e, Engine *g, int threads) {
  if (check_threads(e, threads) != OK) return e->status;
  if (!threads) threads = core_count();
  if (threads == g->threads) return OK;
  if (g->pool) {
    Pool **old = realloc(g->old, (size_t)(g->old_count + 1) * sizeof *old);
    if (!old) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    g->old = old;
    g->old[g->old_count++] = g->pool;
  }
  g->pool = take_old(g, threads);
  g->threads = threads;
  return OK;
}

void engine_follow_scopes(Engine *g, const Placement *p) {
  g->eager_rounding = p->stochastic_rounding;
  g->eager_products = p->half_products;
  g->eager_convolutions = p->half_convolutions;
}

void engine_seed_rounding(Engine *g, uint64_t seed) {
  g->rounding_seed = seed;
  g->rounding_epoch++;
  g->eager_roundings = 0;
}
