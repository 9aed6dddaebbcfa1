/* The micro-batch of each stage at each time. A pipeline is a loop over micro-batches. Its
 * timetable is a table of rows (time steps) with entries (stage program, micro-batch). It
 * determines the order of execution, the depth of stashes, simulated time and the drawn schedule.
 *
 * A pipeline of S positions runs the programs F0 … F(S-1) on each micro-batch, and in training
 * B(S-1) … B0 after them. Program k < S is the forward pass of position k. Program k >= S is the
 * backward pass of position 2S-1-k. A position usually is one stage. Concurrent stages share a
 * position, each on an IPU of its own. */
#ifndef IPULUA_PROGRAM_TIMETABLE_H
#define IPULUA_PROGRAM_TIMETABLE_H
#include "graph/graph.h"
#include "graph/offload.h"

typedef enum Recomputation { RECOMPUTE_NONE, RECOMPUTE_STAGE, RECOMPUTE_INTERLEAVED } Recomputation;

/* One run of a program on a micro-batch. */
typedef struct TimetableEntry {
  int program, micro;
} TimetableEntry;

typedef struct Schedule Schedule; /* program/schedule.h */

/* The plan of a pipelined loop, without its body. It is an object, which the loop's node holds. */
typedef struct PipelinePlan {
  Object object;
  const Schedule *schedule;
  Recomputation recomputation;
  bool training;
  bool io_overlap; /* I/O tiles move data meanwhile */
  Offload offload;
  int stages; /* concurrent ones counted singly; a node's placement is one of them */
  int positions;
  int ipus;
  int *position_of, *ipu_of; /* [stages] */
  /* of a given schedule: each IPU's programs in sequence, order[order_begin[ipu]] … */
  TimetableEntry *order;
  int *order_begin; /* [ipus + 1] */
  int micros;       /* the number of micro-batches of the given order; 0: any */
} PipelinePlan;

/* position_of and ipu_of are copied. NULL with e filled: e.g. Interleaved training with two stages
 * on one IPU. */
PipelinePlan *pipeline_plan_new(Error *e, const Schedule *schedule, bool training, int stages,
                                const int *position_of, const int *ipu_of);
/* For a given schedule: copies and checks the lists of all IPUs, one after the other. begin has
 * [ipus + 1] entries. */
Status pipeline_plan_set_order(Error *e, PipelinePlan *p, const TimetableEntry *order,
                               const int *begin);

static inline int plan_programs(const PipelinePlan *p) {
  return p->training ? 2 * p->positions : p->positions;
}
/* The program that runs stage's pass. */
int plan_program(const PipelinePlan *p, int stage, bool backward);
int plan_position_of_program(const PipelinePlan *p, int program);
bool plan_positions_share_ipu(const PipelinePlan *p, int a, int b);
/* Micro-batches in flight. The number of micro-batches must be a multiple of it, and at least
 * plan_min. */
int plan_overlap(const PipelinePlan *p);
int plan_min(const PipelinePlan *p);

typedef struct Timetable {
  int rows, micros;
  int *row_begin; /* [rows + 1] */
  /* within a row in the order in which an IPU runs them: later programs first */
  TimetableEntry *entry;
} Timetable;

/* NULL, and an error in e, if the schedule can't run that many micro-batches. The error names the
 * multiple that it needs. */
Timetable *timetable_new(Error *e, const PipelinePlan *p, int micros);
void timetable_free(Timetable *t);
/* The number of copies of a value that program `made` produces and `used` reads, including the one
 * in use. at_row_start: the value is made at the start of a row (data from an infeed). */
int plan_copies(Error *e, const PipelinePlan *p, int made, int used, bool at_row_start);
#endif
