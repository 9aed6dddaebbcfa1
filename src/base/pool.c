#include "base/pool.h"

#include "base/pause.h"
#include "base/subnormal.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* Spins before sleeping; some hundred microseconds, longer than any gap inside a program. */
enum { SPINS = 20000, SPINS_BETWEEN_LOOKS = 512, CACHE_LINE = 64 };
/* Before an errand is taken: a loop that follows at once should find its members. */
enum { SPINS_BEFORE_ERRAND = 6 };
enum { ERRAND_KEPT, ERRAND_OFFERED, ERRAND_DONE }; /* kept: no member sees it */

static _Thread_local bool on_errand;

/* In the child of a fork there are no members. Its loops run inline. */
static atomic_uint forks;
static void count_fork(void) { atomic_fetch_add(&forks, 1); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

typedef struct Member {
  Pool *pool;
  int slot;
  Thread thread;
} Member;

/* A member's own chunks of a loop. Neighbouring chunks read and write the same memory, and the
 * loops of a program have about the same chunks. So each part of the memory stays in one
 * processor's cache. */
typedef struct Share {
  _Alignas(CACHE_LINE) _Atomic uint64_t next; /* generation (32 bits), next chunk (32 bits) */
} Share;

struct Pool {
  _Atomic int size;
  int started;
  unsigned process; /* the number of forks before it was made */
  Member *members;  /* [size - 1] */
  Share *share;     /* [size] */
  _Atomic bool busy, stopping;
  _Atomic int lent; /* members that rest, the last ones first */
  /* The current loop. A member reads these, then takes a chunk of some member's share. The caller
   * closes the shares before it changes these fields. So if taking succeeds, the fields that were
   * read belong to this loop. */
  _Atomic(PoolTask) task;
  _Atomic(void *) context;
  _Atomic int64_t count;
  _Atomic int team;                                  /* that the chunks are shared out to */
  _Atomic int caller_cpu;                            /* -1: not known */
  _Alignas(CACHE_LINE) _Atomic(PoolErrand *) errand; /* chunks that no member has taken yet */
  _Alignas(CACHE_LINE) _Atomic uint64_t generation;
  _Alignas(CACHE_LINE) _Atomic int64_t done;
  _Alignas(CACHE_LINE) _Atomic int sleeping;
  pthread_mutex_t mutex;
  pthread_cond_t wake;
  pthread_cond_t reclaimed; /* for members that rest: they aren't woken by every loop */
};

static bool is_left_behind(const Pool *p) {
  return p->process != atomic_load_explicit(&forks, memory_order_relaxed);
}

/* Of a team of that many, member's first chunk. */
static int64_t share_begin(int64_t count, int team, int member) { return count * member / team; }

/* The next chunk of member's share, -1 when there is none left or the loop is over. */
static int64_t take_chunk(Share *s, uint64_t generation, int64_t end) {
  uint64_t next = atomic_load_explicit(&s->next, memory_order_acquire);
  for (;;) {
    int64_t chunk = (int64_t)(next & UINT32_MAX);
    if (next >> 32 != (generation & UINT32_MAX) || chunk >= end) return -1;
    if (atomic_compare_exchange_weak_explicit(&s->next, &next, next + 1, memory_order_acq_rel,
                                              memory_order_acquire))
      return chunk;
  }
}

/* First the member's own share, then the remaining chunks of the others. */
static void work(Pool *p, uint64_t generation, int slot) {
  PoolTask task = atomic_load_explicit(&p->task, memory_order_acquire);
  void *context = atomic_load_explicit(&p->context, memory_order_acquire);
  int64_t count = atomic_load_explicit(&p->count, memory_order_acquire), done = 0;
  int team = atomic_load_explicit(&p->team, memory_order_acquire);
  for (int i = 0; i < team; i++) {
    int owner = (slot + i) % team;
    int64_t end = share_begin(count, team, owner + 1);
    for (int64_t chunk; (chunk = take_chunk(&p->share[owner], generation, end)) >= 0; done++)
      task(context, chunk, slot);
  }
  if (done) atomic_fetch_add_explicit(&p->done, done, memory_order_release);
}

/* Where the calling thread runs now; -1: not known. */
static int current_cpu(void) {
#ifdef __linux__
  return sched_getcpu();
#else
  return -1;
#endif
}

/* The scheduler may leave a spinning member on the processor of the caller, who then waits for that
 * member. */
static void leave_cpu(int cpu) {
#ifdef __linux__
  cpu_set_t allowed, others;
  if (pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed)) return;
  others = allowed;
  CPU_CLR((size_t)cpu, &others);
  if (CPU_COUNT(&others) == 0 || pthread_setaffinity_np(pthread_self(), sizeof others, &others))
    return;
  pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
#else
  (void)cpu;
#endif
}

static bool is_lent(const Member *m) {
  return m->slot >= m->pool->size - atomic_load(&m->pool->lent);
}

static void rest(const Member *m) {
  Pool *p = m->pool;
  pthread_mutex_lock(&p->mutex);
  while (is_lent(m) && !atomic_load(&p->stopping)) pthread_cond_wait(&p->reclaimed, &p->mutex);
  pthread_mutex_unlock(&p->mutex);
}

/* Whoever takes an errand does it. */
static bool take_errand(Pool *p, PoolErrand *e) {
  return e && atomic_compare_exchange_strong(&p->errand, &e, NULL);
}

static void do_errand(PoolErrand *e) {
  on_errand = true;
  e->run(e->context);
  on_errand = false;
  atomic_store_explicit(&e->state, ERRAND_DONE, memory_order_release);
}

static void wait_for_work(const Member *m, uint64_t seen) {
  Pool *p = m->pool;
  for (int i = 0, idle = 0; i < SPINS; i++) {
    if (atomic_load_explicit(&p->generation, memory_order_acquire) != seen) return;
    if (is_lent(m)) return; /* a thread with work should have this processor */
    PoolErrand *e = atomic_load_explicit(&p->errand, memory_order_acquire);
    if (e && idle++ == SPINS_BEFORE_ERRAND) {
      if (take_errand(p, e)) do_errand(e);
      idle = i = 0;
    }
    if (i % SPINS_BETWEEN_LOOKS == SPINS_BETWEEN_LOOKS - 1) {
      int cpu = current_cpu();
      if (cpu >= 0 && cpu == atomic_load_explicit(&p->caller_cpu, memory_order_relaxed))
        leave_cpu(cpu);
    }
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
  subnormal_flush();
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
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  if (threads < 1) threads = 1;
  Pool *p = aligned_alloc(CACHE_LINE, (sizeof *p + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
  if (!p) return NULL;
  *p = (Pool){.size = threads, .process = atomic_load(&forks)};
  p->members = calloc((size_t)threads, sizeof *p->members);
  p->share = aligned_alloc(CACHE_LINE, (size_t)threads * sizeof *p->share);
  for (int i = 0; p->share && i < threads; i++) p->share[i] = (Share){0};
  if (!p->members || !p->share || pthread_mutex_init(&p->mutex, NULL) ||
      pthread_cond_init(&p->wake, NULL) || pthread_cond_init(&p->reclaimed, NULL)) {
    free(p->members);
    free(p->share);
    free(p);
    return NULL;
  }
  for (int i = 0; i + 1 < threads; i++) {
    p->members[i] = (Member){.pool = p, .slot = i + 1};
    if (thread_create(&p->members[i].thread, member_main, &p->members[i])) break;
    p->started++;
  }
  p->size = p->started + 1;
  return p;
}

static void stop_members(Pool *p) {
  pthread_mutex_lock(&p->mutex);
  atomic_store(&p->stopping, true);
  atomic_fetch_add(&p->generation, 1);
  pthread_cond_broadcast(&p->wake);
  pthread_cond_broadcast(&p->reclaimed);
  pthread_mutex_unlock(&p->mutex);
  for (int i = 0; i < p->started; i++) pthread_join(p->members[i].thread.id, NULL);
  pthread_cond_destroy(&p->wake);
  pthread_cond_destroy(&p->reclaimed);
  pthread_mutex_destroy(&p->mutex);
}

void pool_free(Pool *p) {
  if (!p) return;
  if (!is_left_behind(p)) stop_members(p);
  free(p->members);
  free(p->share);
  free(p);
}

int pool_size(const Pool *p) { return p ? p->size : 1; }

/* A member may still be about to look for chunks of the previous loop. With this loop's count it
 * would find one past that loop's end. So every share is closed first, and a member that reads a
 * new field sees it closed. */
static void publish(Pool *p, uint64_t generation, int team, int64_t count, PoolTask task,
                    void *context) {
  for (int i = 0; i < p->size; i++)
    atomic_store_explicit(&p->share[i].next, generation << 32 | UINT32_MAX, memory_order_relaxed);
  atomic_store_explicit(&p->task, task, memory_order_release);
  atomic_store_explicit(&p->context, context, memory_order_release);
  atomic_store_explicit(&p->count, count, memory_order_release);
  atomic_store_explicit(&p->team, team, memory_order_release);
  atomic_store_explicit(&p->caller_cpu, current_cpu(), memory_order_relaxed);
  atomic_store_explicit(&p->done, 0, memory_order_relaxed);
  for (int i = 0; i < team; i++)
    atomic_store_explicit(&p->share[i].next,
                          generation << 32 | (uint64_t)share_begin(count, team, i),
                          memory_order_release);
  atomic_store(&p->generation, generation);
  if (atomic_load(&p->sleeping) == 0) return;
  pthread_mutex_lock(&p->mutex);
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->mutex);
}

/* A member that was moved off its processor may need this one. */
static void wait_for_members(Pool *p, int64_t count) {
  for (int i = 1; atomic_load_explicit(&p->done, memory_order_acquire) < count; i++) {
    pause_briefly();
    if (i % SPINS_BETWEEN_LOOKS == 0) sched_yield();
  }
}

static void run(Pool *p, int64_t count, PoolTask task, void *context) {
  bool idle = false;
  bool alone = !p || is_left_behind(p);
  int team = alone ? 1 : p->size - atomic_load_explicit(&p->lent, memory_order_relaxed);
  if (team == 1 || count <= 1 || count >= UINT32_MAX || on_errand ||
      !atomic_compare_exchange_strong(&p->busy, &idle, true)) {
    for (int64_t i = 0; i < count; i++) task(context, i, 0);
    return;
  }
  uint64_t generation = atomic_load_explicit(&p->generation, memory_order_relaxed) + 1;
  publish(p, generation, team, count, task, context);
  work(p, generation, 0);
  wait_for_members(p, count);
  atomic_store(&p->busy, false);
}

void pool_run(Pool *p, int64_t count, PoolTask task, void *context) {
  uint64_t before = subnormal_flush();
  run(p, count, task, context);
  subnormal_restore(before);
}

void pool_offer(Pool *p, PoolErrand *e) {
  PoolErrand *none = NULL;
  atomic_store_explicit(&e->state, ERRAND_OFFERED, memory_order_relaxed);
  if (!p || !atomic_compare_exchange_strong(&p->errand, &none, e))
    atomic_store_explicit(&e->state, ERRAND_KEPT, memory_order_relaxed);
}

bool pool_withdraw(Pool *p, PoolErrand *e) {
  int state = atomic_load_explicit(&e->state, memory_order_acquire);
  if (state == ERRAND_KEPT || (state == ERRAND_OFFERED && take_errand(p, e))) return true;
  for (int i = 1; atomic_load_explicit(&e->state, memory_order_acquire) != ERRAND_DONE; i++) {
    pause_briefly();
    if (i % SPINS_BETWEEN_LOOKS == 0) sched_yield();
  }
  return false;
}

void pool_finish(Pool *p, PoolErrand *e) {
  if (pool_withdraw(p, e)) e->run(e->context);
}

bool pool_lend(Pool *p) {
  int lent = atomic_load(&p->lent);
  while (lent + 1 < p->size)
    if (atomic_compare_exchange_weak(&p->lent, &lent, lent + 1)) return true;
  return false;
}

void pool_reclaim(Pool *p) {
  if (is_left_behind(p)) {
    atomic_fetch_sub(&p->lent, 1);
    return;
  }
  pthread_mutex_lock(&p->mutex);
  atomic_fetch_sub(&p->lent, 1);
  pthread_cond_broadcast(&p->reclaimed);
  pthread_mutex_unlock(&p->mutex);
}
