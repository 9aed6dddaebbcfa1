/* What outlives an execution: weights, optimizer state, counters. Inside a graph a variable is
 * plain dataflow: the graph takes its value in and gives the new one out (trace.h); the program
 * then updates the memory in place. */
#ifndef IPULUA_GRAPH_VARIABLE_H
#define IPULUA_GRAPH_VARIABLE_H
#include "tensor/tensor.h"

typedef struct Variable {
  _Atomic int references;
  int64_t serial; /* its own for ever: an address may be another's later */
  char *name;
  Type type;
  bool trainable;
  bool remote;       /* lives in streaming memory in every program */
  bool of_optimizer; /* what an optimizer keeps beside a weight, and only its updates use */
  bool counts_runs;  /* of a random op: made for it, no script's own */
  bool assigned;     /* by the script, since a program used it last */
  bool deferred;     /* outside of a traced function it is symbolic: sessions read it */
  Tensor *value;     /* dense; NULL: not initialised */
  /* programs that are running on its memory; those of them that change it */
  _Atomic int users, writers;
  int64_t version; /* grows with each write; transfers and reads compare it */
  /* outside of programs it is read there: what the replicas of all instances have together */
  struct Variable *aggregate;
  bool first_only;  /* what is assigned outside of programs is replica 0's, the others' is zero */
  bool is_placed;   /* a counter's value is that of this instance's first replica */
  int replicas;     /* that have values of their own; 1: `value` is everybody's */
  Tensor **replica; /* [replica_count - 1]: of replicas 1 …; `value` is that of replica 0 */
  int replica_count;
  int64_t made_up;      /* the setting of synthetic data that its value comes from; 0: none */
  int64_t replica_step; /* of a counter: what replica r begins with is r times this ahead */
} Variable;

Variable *variable_new(Error *e, const char *name, const Type *type, bool trainable);
Variable *variable_retain(Variable *v);
void variable_release(Variable *v); /* NULL is fine */
/* Copies t's elements; shape and dtype must match. Refused while a program runs that uses v: a
 * callback's assignment has no position in the order of what the program does. */
Status variable_assign(Error *e, Variable *v, const Tensor *t);
Status variable_check_idle(Error *e, const Variable *v); /* fails when variable_assign would */
/* Memory to write to, not shared with any tensor handed out before. NULL: out of memory or not
 * initialised. */
void *variable_writable(Error *e, Variable *v);
/* The same for each of so many replicas, into data; those that had no value of their own begin
 * with replica 0's. */
Status variable_spread(Error *e, Variable *v, int replicas, void **data);
/* What replica r of so many reads. */
const void *variable_of_replica(const Variable *v, int r, int replicas);
#endif
