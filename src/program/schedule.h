/* Schedules of pipelines, a row each: what plans they take, and when an IPU runs what. Whoever
 * wants to know something of a schedule asks its row. */
#ifndef IPULUA_PROGRAM_SCHEDULE_H
#define IPULUA_PROGRAM_SCHEDULE_H
#include "program/timetable.h"

struct Schedule {
  const char *name;
  /* Refuses plans that it can't have, in the user's words. NULL: there are none. */
  Status (*check)(Error *e, const PipelinePlan *p);
  /* Micro-batches in flight, of which there must be a multiple (NULL: 1), and at least so many
   * (NULL: as many as overlap). */
  int (*overlap)(const PipelinePlan *p);
  int (*min)(const PipelinePlan *p);
  /* One of these two. starts: row[m] is the row in which micro-batch m begins; its programs follow
   * row by row. order: the programs of an IPU, one after the other; returns how many. false: memory
   * is out. */
  bool (*starts)(const PipelinePlan *p, int micros, int *row);
  int (*order)(const PipelinePlan *p, int ipu, int micros, TimetableEntry *order);
  /* Ways of computing activations again, that first which is taken where none is asked for. */
  Recomputation recomputations[3]; /* ends with RECOMPUTE_NONE */
  bool both_passes;                /* an IPU may run a forward and a backward program in one row */
  bool one_at_a_time;   /* one program in the whole machine: a stage can take batches in a row */
  bool recomputes_last; /* its last position computes again, too; else nothing is kept there */
  bool given;         /* the plan holds the order, which its writer gave; it has no name for them */
  const char *leaner; /* one that keeps fewer activations, where memory is short */
};

const Schedule *schedule_at(int index); /* 0, 1, …; NULL after the last; 0 is taken by default */
const Schedule *schedule_find(const char *name); /* NULL: there is none */
#endif
