/* The table of pipeline schedules. A row has a schedule's limits on plans, and its order of
 * programs. No code outside of the rows depends on a schedule's name. */
#ifndef IPULUA_PROGRAM_SCHEDULE_H
#define IPULUA_PROGRAM_SCHEDULE_H
#include "program/timetable.h"

struct Schedule {
  const char *name;
  /* Refuses illegal plans with a message for users. NULL: all are legal. */
  Status (*check)(Error *e, const PipelinePlan *p);
  /* overlap: the micro-batches in flight, whose multiple their number must be (NULL: 1). min: the
   * least number of micro-batches (NULL: as many as overlap). */
  int (*overlap)(const PipelinePlan *p);
  int (*min)(const PipelinePlan *p);
  /* A schedule has one of these two. starts sets row[m] to the row in which micro-batch m begins;
   * its programs follow row by row. It returns false when memory is out. order lists the programs
   * of an IPU in sequence, and returns their number. */
  bool (*starts)(const PipelinePlan *p, int micros, int *row);
  int (*order)(const PipelinePlan *p, int ipu, int micros, TimetableEntry *order);
  /* The modes of recomputation that it allows, its default first. */
  Recomputation recomputations[3]; /* ends with RECOMPUTE_NONE */
  bool both_passes;                /* an IPU may run a forward and a backward program in one row */
  bool one_at_a_time;   /* one program in the whole machine: a stage can take batches in a row */
  bool recomputes_last; /* its last position recomputes, too; otherwise it keeps no activations */
  bool given;           /* the order was given by the user, and is held by the plan */
  const char *leaner;   /* the name of a schedule that keeps fewer activations */
};

const Schedule *schedule_at(int index);          /* from 0, the default; NULL after the last */
const Schedule *schedule_find(const char *name); /* NULL: there is none */
#endif
