/* Values that outlive an execution: weights, optimizer state, counters. Inside a graph a variable
 * is plain dataflow: its value is an input, and its new value an output (trace.h). The program
 * updates the memory in place. */
#ifndef IPULUA_GRAPH_VARIABLE_H
#define IPULUA_GRAPH_VARIABLE_H
#include "tensor/tensor.h"

typedef struct Variable {
  _Atomic int references;
  int64_t serial; /* unique in the process, while an address may be reused */
  char *name;
  Type type;
  bool trainable;
  bool remote;       /* lives in streaming memory in every program */
  bool of_optimizer; /* optimizer state, which only the optimizer's updates use */
  bool counts_runs;  /* the counter of a random op */
  bool assigned;     /* by the script, since a program used it last */
  bool deferred;     /* outside of a traced function it is symbolic: sessions read it */
  Tensor *value;     /* dense; NULL: not initialised */
  /* running programs that use its memory; the ones among them that change it */
  _Atomic int users, writers;
  int64_t version; /* grows with each write; transfers and reads compare it */
  /* the variable that is read instead outside of programs: the aggregate over the replicas of all
   * instances */
  struct Variable *aggregate;
  bool first_only;  /* an assignment outside of programs sets replica 0, and the others to zero */
  bool is_placed;   /* a counter's value belongs to this instance's first replica */
  int replicas;     /* number of replicas with values of their own; 1: all share `value` */
  Tensor **replica; /* [replica_count - 1]: of replicas 1 …; `value` is replica 0's */
  int replica_count;
  int64_t made_up;      /* the setting of synthetic data that its value comes from; 0: none */
  int64_t replica_step; /* of a counter: the start of replica r is r times this ahead */
} Variable;

Variable *variable_new(Error *e, const char *name, const Type *type, bool trainable);
int64_t variable_newest(void); /* the serial of the one that was made last */
Variable *variable_retain(Variable *v);
void variable_release(Variable *v); /* NULL is fine */
/* Copies t's elements; shape and dtype must match. It is refused while a program that uses v runs:
 * a callback's assignment has no position in the program's order. */
Status variable_assign(Error *e, Variable *v, const Tensor *t);
Status variable_check_idle(Error *e, const Variable *v); /* fails when variable_assign would */
/* Memory to write to, not shared with any tensor returned before. NULL: out of memory or not
 * initialised. */
void *variable_writable(Error *e, Variable *v);
/* The same for each of some replicas, into data. Replicas without a value of their own begin with
 * replica 0's. */
Status variable_spread(Error *e, Variable *v, int replicas, void **data);
/* The value of replica r out of `replicas`. */
const void *variable_of_replica(const Variable *v, int r, int replicas);
#endif
