/* What host callbacks gave in a run that a tape notes: its gradient computes the run's values
 * again, but nobody is called a second time. */
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

/* Pushes one, which keeps what it holds until it is collected. */
HostResults *host_results_new(lua_State *L);
/* Between these the state's callbacks are noted in it. */
void host_results_begin(State *s, HostResults *r);
void host_results_end(State *s, HostResults *r);
/* op has given tensors [op->out_count]. */
Status host_results_note(State *s, const HostOp *op, Tensor *const *tensor, Error *e);
/* In g, a copy of what ran, and its regions: what was called once gives what it gave then, what
 * was not called (of a branch that was not taken) zeros. What was called again stays. */
void host_results_put_in(const HostResults *r, Graph *g, Error *e);
#endif
