/* The timeline of one run of a priced program: the events on each IPU and their times, in cycles.
 * Loops are unrolled up to a limit of events. */
#ifndef IPULUA_MACHINE_TIMELINE_H
#define IPULUA_MACHINE_TIMELINE_H
#include "machine/priced.h"

typedef struct Event {
  double begin, cycles;
  int step, ipu;
  int slot;       /* the row of the pipeline's timetable; -1: none */
  double repeats; /* > 0: the event stands for so many iterations of the loop `step` */
} Event;

typedef struct Timeline {
  Event *event;
  int count, capacity;
  int room;     /* events that may still be added */
  int left_out; /* events beyond the limit */
  Event cut;    /* the first event beyond the limit */
  bool failed;  /* memory is out */
  double *done; /* [steps] while it is made: the end of each step's last event */
} Timeline;

/* Makes the timeline, with about max events at most. The caller frees `event`. */
Timeline timeline_of(const Price *p, int max);
/* The cycles of a run. `elapsed` of pipelines must be known. */
double timeline_cycles(const Price *p);
/* cycles of steps [begin, end), run once */
double timeline_between(const Price *p, int begin, int end);
#endif
