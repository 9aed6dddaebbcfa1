/* A fixed team of threads for parallel loops over chunks. The caller is a member of the team. Any
 * thread may run a chunk, but the chunks depend on shapes alone, so results don't depend on the
 * team's size.
 *
 * Each member begins with its own range of chunks, then helps the others. Chunks that are
 * neighbours in memory should have neighbouring numbers, in all loops of a program. Then each
 * core's cache keeps its part.
 *
 * Between loops the threads spin for a short while, in which a hand-off costs well under a
 * microsecond. Then they sleep. */
#ifndef IPULUA_BASE_POOL_H
#define IPULUA_BASE_POOL_H
#include <stdbool.h>
#include <stdint.h>

typedef struct Pool Pool;
/* Work on chunk; slot is the team member running it (0 … size-1), for private scratch. */
typedef void (*PoolTask)(void *context, int64_t chunk, int slot);

/* threads >= 1, the caller included; NULL when out of resources */
Pool *pool_new(int threads);
void pool_free(Pool *p);      /* waits for its threads; NULL is fine */
int pool_size(const Pool *p); /* NULL: 1 */
/* Run task for chunks 0 … count-1 and return when all are done. A nested call, a call while
 * another thread uses the pool, count 1, a NULL pool, or one from before a fork run inline. */
void pool_run(Pool *p, int64_t count, PoolTask task, void *context);

/* Background work, to be done at any time before its result is needed. A member without other work
 * does it. Chunks of a later loop may have to wait for that member, or are taken by the others.
 * Loops inside an errand run inline. */
typedef struct PoolErrand {
  void (*run)(void *context);
  void *context;
  _Atomic int state; /* the pool's */
} PoolErrand;
/* The pool uses e until pool_finish or pool_withdraw. A pool does one errand at a time; another one
 * is done at its pool_finish. */
void pool_offer(Pool *p, PoolErrand *e);
/* waits until e is done; the caller does it if no member has begun */
void pool_finish(Pool *p, PoolErrand *e);
/* True: no member had begun it. Otherwise it waits until e is done. */
bool pool_withdraw(Pool *p, PoolErrand *e);

/* Makes room for a thread outside of the pool. Until pool_reclaim, loops use one member fewer, so
 * that no more threads compute than the team has. False if only the caller is left. */
bool pool_lend(Pool *p);
void pool_reclaim(Pool *p);
#endif
