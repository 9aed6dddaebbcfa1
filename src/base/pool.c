#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* Spins before sleeping; about 50 to 100 microseconds, longer than any gap inside a program. */
enum { SPINS = 20000, CACHE_LINE = 64 };

typedef struct Member {
  Pool *pool;
  int slot;
  pthread_t thread;
} Member;

struct Pool {
  _Atomic int size;
  int started;
  Member *members; /* [size - 1] */
  _Atomic bool busy, stopping;
  _Atomic int lent; /* members that rest, the last ones first */
  /* The current loop. A member reads these, then takes a chunk: if that succeeds the loop was still the one
   * it read, because the caller changes them only when every chunk is done. */
  _Atomic(PoolTask) task;
  _Atomic(void *) context;
  _Atomic int64_t count;
  _Alignas(CACHE_LINE) _Atomic uint64_t generation;
  _Alignas(CACHE_LINE) _Atomic uint64_t next; /* generation (32 bits), next chunk (32 bits) */
  _Alignas(CACHE_LINE) _Atomic int64_t done;
  _Atomic int sleeping;
  pthread_mutex_t mutex;
  pthread_cond_t wake;
  pthread_cond_t reclaimed; /* for members that rest: they aren't woken by every loop */
};

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void work(Pool *p, uint64_t generation, int slot) {
  PoolTask task = atomic_load_explicit(&p->task, memory_order_relaxed);
  void *context = atomic_load_explicit(&p->context, memory_order_relaxed);
  int64_t count = atomic_load_explicit(&p->count, memory_order_relaxed);
  uint64_t next = atomic_load_explicit(&p->next, memory_order_acquire);
  for (;;) {
    int64_t chunk = (int64_t)(next & UINT32_MAX);
    if (next >> 32 != (generation & UINT32_MAX) || chunk >= count) return;
    if (!atomic_compare_exchange_weak_explicit(&p->next, &next, next + 1, memory_order_acq_rel,
                                               memory_order_acquire))
      continue;
    task(context, chunk, slot);
    atomic_fetch_add_explicit(&p->done, 1, memory_order_release);
    next = atomic_load_explicit(&p->next, memory_order_acquire);
  }
}

static bool is_lent(const Member *m) { return m->slot >= m->pool->size - atomic_load(&m->pool->lent); }

static void rest(const Member *m) {
  Pool *p = m->pool;
  pthread_mutex_lock(&p->mutex);
  while (is_lent(m) && !atomic_load(&p->stopping)) pthread_cond_wait(&p->reclaimed, &p->mutex);
  pthread_mutex_unlock(&p->mutex);
}

static void wait_for_work(const Member *m, uint64_t seen) {
  Pool *p = m->pool;
  for (int i = 0; i < SPINS; i++) {
    if (atomic_load_explicit(&p->generation, memory_order_acquire) != seen) return;
    if (is_lent(m)) return; /* whoever computes instead wants this processor */
    pause_briefly();
  }
  pthread_mutex_lock(&p->mutex);
  atomic_fetch_add(&p->sleeping, 1);
  while (atomic_load(&p->generation) == seen && !atomic_load(&p->stopping))
    pthread_cond_wait(&p->wake, &p->mutex);
  atomic_fetch_sub(&p->sleeping, 1);
  pthread_mutex_unlock(&p->mutex);
}

static void *member_main(void *argument) {
  Member *m = argument;
  Pool *p = m->pool;
  uint64_t seen = 0;
  for (;;) {
    if (is_lent(m)) rest(m);
    wait_for_work(m, seen);
    if (atomic_load(&p->stopping)) return NULL;
    if (is_lent(m)) continue;
    uint64_t generation = atomic_load_explicit(&p->generation, memory_order_acquire);
    if (generation == seen) continue;
    seen = generation;
    work(p, seen, m->slot);
  }
}

Pool *pool_new(int threads) {
  if (threads < 1) threads = 1;
  Pool *p = aligned_alloc(CACHE_LINE, (sizeof *p + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
  if (!p) return NULL;
  *p = (Pool){.size = threads};
  p->members = calloc((size_t)threads, sizeof *p->members);
  if (!p->members || pthread_mutex_init(&p->mutex, NULL) || pthread_cond_init(&p->wake, NULL) ||
      pthread_cond_init(&p->reclaimed, NULL)) {
    free(p->members);
    free(p);
    return NULL;
  }
  for (int i = 0; i + 1 < threads; i++) {
    p->members[i] = (Member){.pool = p, .slot = i + 1};
    if (pthread_create(&p->members[i].thread, NULL, member_main, &p->members[i])) break;
    p->started++;
  }
  p->size = p->started + 1;
  return p;
}

void pool_free(Pool *p) {
  if (!p) return;
  pthread_mutex_lock(&p->mutex);
  atomic_store(&p->stopping, true);
  atomic_fetch_add(&p->generation, 1);
  pthread_cond_broadcast(&p->wake);
  pthread_cond_broadcast(&p->reclaimed);
  pthread_mutex_unlock(&p->mutex);
  for (int i = 0; i < p->started; i++) pthread_join(p->members[i].thread, NULL);
  pthread_cond_destroy(&p->wake);
  pthread_cond_destroy(&p->reclaimed);
  pthread_mutex_destroy(&p->mutex);
  free(p->members);
  free(p);
}

int pool_size(const Pool *p) { return p ? p->size : 1; }

void pool_run(Pool *p, int64_t count, PoolTask task, void *context) {
  bool idle = false;
  if (!p || p->size - atomic_load_explicit(&p->lent, memory_order_relaxed) == 1 || count <= 1 || count >= UINT32_MAX ||
      !atomic_compare_exchange_strong(&p->busy, &idle, true)) {
    for (int64_t i = 0; i < count; i++) task(context, i, 0);
    return;
  }
  uint64_t generation = atomic_load_explicit(&p->generation, memory_order_relaxed) + 1;
  atomic_store_explicit(&p->task, task, memory_order_relaxed);
  atomic_store_explicit(&p->context, context, memory_order_relaxed);
  atomic_store_explicit(&p->count, count, memory_order_relaxed);
  atomic_store_explicit(&p->done, 0, memory_order_relaxed);
  atomic_store_explicit(&p->next, generation << 32, memory_order_release);
  atomic_store(&p->generation, generation);
  if (atomic_load(&p->sleeping) > 0) {
    pthread_mutex_lock(&p->mutex);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->mutex);
  }
  work(p, generation, 0);
  while (atomic_load_explicit(&p->done, memory_order_acquire) < count) pause_briefly();
  atomic_store(&p->busy, false);
}

bool pool_lend(Pool *p) {
  int lent = atomic_load(&p->lent);
  while (lent + 1 < p->size)
    if (atomic_compare_exchange_weak(&p->lent, &lent, lent + 1)) return true;
  return false;
}

void pool_reclaim(Pool *p) {
  pthread_mutex_lock(&p->mutex);
  atomic_fetch_sub(&p->lent, 1);
  pthread_cond_broadcast(&p->reclaimed);
  pthread_mutex_unlock(&p->mutex);
}
