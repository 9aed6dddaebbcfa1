/* A fixed team of threads for parallel loops with fixed chunks. The caller is one of the team.
 * Which thread runs a chunk is free, what a chunk is depends on shapes alone: results never
 * depend on the team's size. Each member begins with its own part of a row of chunks, then helps
 * the others: chunks that lie near each other in memory should have numbers near each other,
 * alike in the loops of a program, so that a processor's cache keeps its part. Between loops the
 * threads spin for a short while (a hand-off costs well under a microsecond), then sleep. */
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
 * another thread uses the pool, count 1 or a NULL pool run inline. */
void pool_run(Pool *p, int64_t count, PoolTask task, void *context);

/* What can be done any time before it is needed. A member that has nothing else to do does it:
 * some loop's chunks may then have to wait for it, or be done by the others. Loops that an
 * errand runs are run inline. */
typedef struct PoolErrand {
  void (*run)(void *context);
  void *context;
  _Atomic int state; /* the pool's */
} PoolErrand;
/* e stays the pool's until pool_finish or pool_withdraw. A pool has one errand at a time:
 * another one waits for its pool_finish. */
void pool_offer(Pool *p, PoolErrand *e);
void pool_finish(Pool *p, PoolErrand *e); /* it is done now, if need be by the caller */
/* true: nobody had begun it. Else it is done; a member that has begun is waited for */
bool pool_withdraw(Pool *p, PoolErrand *e);

/* A thread of somebody else's is going to compute: until pool_reclaim loops use one member
 * fewer, so that together they are no more than the team. False when only the caller is left. */
bool pool_lend(Pool *p);
void pool_reclaim(Pool *p);
#endif
