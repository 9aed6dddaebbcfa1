/* The results of host callbacks in a run that a tape records. The gradient computes the run's
 * values again, but doesn't call back again. */
#ifndef IPULUA_LUA_HOST_RESULTS_H
#define IPULUA_LUA_HOST_RESULTS_H
#include "lua/bind.h"
#include "ops/io/feed.h"

typedef struct HostAnswer {
  const HostOp *op;
  int64_t calls;
  Tensor **tensor; /* [op->out_count], of the first call, while there is only one; retained */
} HostAnswer;

typedef struct HostResults HostResults;
struct HostResults {
  HostResults *outer; /* of a run in whose callback this one is */
  HostAnswer *answer;
  int count, capacity;
};

/* Pushes a new one, which keeps its tensors until it is collected. */
HostResults *host_results_new(lua_State *L);
/* Between these two, results of the state's callbacks are noted in r. */
void host_results_begin(State *s, HostResults *r);
void host_results_end(State *s, HostResults *r);
/* op has given tensors [op->out_count]. */
Status host_results_note(State *s, const HostOp *op, Tensor *const *tensor, Error *e);
/* Replaces callbacks in g, a copy of the graph that ran, and in its regions. A callback that was
 * called once gives its result. A callback that wasn't, in a branch not taken, gives zeros. A
 * callback that was called several times stays. */
void host_results_put_in(const HostResults *r, Graph *g, Error *e);
#endif
