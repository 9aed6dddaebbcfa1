/* When each stage works on which micro-batch. A pipeline is a loop over micro-batches; its schedule
 * is a table of rows (time steps) of entries (stage program, micro-batch), made here for every
 * schedule and used for all that depends on one: the order of execution, the depth of stashes,
 * simulated time, the drawn schedule.
 *
 * A pipeline of S positions runs the programs F0 … F(S-1) and, in training, B(S-1) … B0, on each
 * micro-batch, in that order; program number k < S is a forward pass, k >= S the backward pass
 * of position 2S-1-k. A position usually is one stage; concurrent stages share one, each on an IPU
 * of its own. */
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

/* What a pipelined loop knows besides its body. An object: the loop's node holds it. */
typedef struct PipelinePlan {
  Object object;
  const Schedule *schedule;
  Recomputation recomputation;
  bool training;
  bool io_overlap; /* tiles of their own move data meanwhile */
  Offload offload;
  int stages; /* concurrent ones counted singly; what a node's placement says */
  int positions;
  int ipus;
  int *position_of, *ipu_of; /* [stages] */
  /* of a schedule that was given: each IPU's programs in their order, order[order_begin[ipu]] … */
  TimetableEntry *order;
  int *order_begin; /* [ipus + 1] */
  int micros;       /* how many micro-batches that is for; 0: any */
} PipelinePlan;

/* position_of and ipu_of are copied. NULL with e filled: e.g. Interleaved training with two stages
 * on one IPU. */
PipelinePlan *pipeline_plan_new(Error *e, const Schedule *schedule, bool training, int stages,
                                const int *position_of, const int *ipu_of);
/* For a schedule that is given: takes the lists of all IPUs, one after the other; begin has [ipus +
 * 1] entries. Checked. */
Status pipeline_plan_set_order(Error *e, PipelinePlan *p, const TimetableEntry *order,
                               const int *begin);

static inline int plan_programs(const PipelinePlan *p) {
  return p->training ? 2 * p->positions : p->positions;
}
/* The program that runs stage's pass. */
int plan_program(const PipelinePlan *p, int stage, bool backward);
int plan_position_of_program(const PipelinePlan *p, int program);
bool plan_positions_share_ipu(const PipelinePlan *p, int a, int b);
/* Micro-batches in flight: how many there are must be a multiple of it (1: any number will do),
 * and at least plan_least. */
int plan_overlap(const PipelinePlan *p);
int plan_min(const PipelinePlan *p);

typedef struct Timetable {
  int rows, micros;
  int *row_begin; /* [rows + 1] */
  /* within a row in the order in which an IPU runs them: later programs first */
  TimetableEntry *entry;
} Timetable;

/* NULL with e filled when micros isn't legal; e names the multiple wanted. */
Timetable *timetable_new(Error *e, const PipelinePlan *p, int micros);
void timetable_free(Timetable *t);
/* How many copies of what `made` produces must exist until `used` has used it, the one in use
 * included. at_row_start: it is there before anything else of the row runs (data from an
 * infeed). */
int plan_copies(Error *e, const PipelinePlan *p, int made, int used, bool at_row_start);
#endif
