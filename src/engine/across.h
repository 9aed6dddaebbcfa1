/* Programs whose replicas are spread over instances: agreement before each execution, and
 * collectives. */
#ifndef IPULUA_ENGINE_ACROSS_H
#define IPULUA_ENGINE_ACROSS_H
#include "engine/run.h"
#include "program/replicas.h"

/* The state of a run's collectives besides their calls. */
typedef struct Across {
  struct Instances *instances; /* NULL: the program has no collectives with others */
  Program *program;
  int local, first, all; /* replicas */
  Call *call;            /* [all] of other instances */
  const Call **replica;  /* [all] */
  const void **in;       /* [all] their contributions */
  void **nowhere;        /* [MAX_OUTPUTS] NULLs */
  struct Brought *from;  /* [instances] */
  struct Part *part;     /* [part_capacity] */
  int part_capacity;
  Run *run; /* of this instance's first replica */
  /* steps of the next phase that the collective before it has run, with the sum that they read */
  int steps_ahead;
} Across;

/* Memory for a run of p, and the agreement of all on it. */
Status across_begin(Across *a, Engine *g, Program *p, Error *e);
/* A collective of all replicas. The calls are this instance's. */
Status across_collective(Across *a, const Phases *list, Phase *phase, const Call *const *call,
                         Error *e);
/* Ends a run with this status. If only this instance failed, the others get to know it. */
void across_end(Across *a, Status s, Error *e);
#endif
