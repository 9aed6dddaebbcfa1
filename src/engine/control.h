/* The one interpreter of steps that hold others: loops, branches, calls, pipelines. It runs them
 * for one instance, or for all replicas in step. */
#ifndef IPULUA_ENGINE_CONTROL_H
#define IPULUA_ENGINE_CONTROL_H
#include "engine/run.h"

typedef struct Control Control;

/* The differences of the two. */
typedef struct ControlWay {
  Status (*nested)(Control *c, int i);            /* run the step's block i */
  void (*begin_iteration)(Control *c, bool last); /* of a counted loop; NULL: nothing to do */
  Status (*end_iteration)(Control *c, bool last);
  Status (*leave_loop)(Control *c, Status s); /* gives the loop's own status */
  Status (*end_row)(Control *c);              /* between two steps of a pipeline: a run that was
                                               * asked to stop may */
} ControlWay;

struct Control {
  const ControlWay *way;
  Step *const *step; /* [count]: the same one of each instance */
  int count;
  Error *error;
  Run *alone; /* the run of the one instance; NULL: several in step */
};

/* The value of the cell; all instances must have the same there. */
Status control_number(Control *c, int cell, const char *what, int32_t *out);
/* Run the step. Instances that run it in step must agree on where it leads. */
Status control_run(Control *c);
#endif
