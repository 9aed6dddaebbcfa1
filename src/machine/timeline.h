/* The events on each IPU and their times: one run of a priced program, unrolled as far as that
 * stays readable. */
#ifndef IPULUA_MACHINE_TIMELINE_H
#define IPULUA_MACHINE_TIMELINE_H
#include "machine/priced.h"

typedef struct Event {
  double begin, cycles;
  int step, ipu;
  int slot;       /* of the pipeline's time table; -1: none */
  double repeats; /* > 0: stands for that many iterations of the block `step`, too many to draw */
} Event;

typedef struct Timeline {
  Event *event;
  int count, capacity;
  int room;     /* events that may still be drawn */
  int left_out; /* those that were not */
  Event cut;    /* the first of them */
  bool failed;  /* memory is out */
  double *done; /* by step: when it last ended; while it is made */
} Timeline;

/* At most about `most` events. free() the list. */
Timeline timeline_of(const Price *p, int max);
/* How long a run takes; elapsed of pipelines must be known. */
double timeline_cycles(const Price *p);
double timeline_between(const Price *p, int begin, int end); /* those steps alone, once */
#endif
