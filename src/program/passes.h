/* Which pass (a stage's forward or backward part) each node of a pipeline's body belongs to.
 * Forward passes are numbered like the stages, backward ones on from there, the last stage's
 * first: a node's operands are made in its pass or in earlier ones. */
#ifndef IPULUA_PROGRAM_PASSES_H
#define IPULUA_PROGRAM_PASSES_H
#include "base/arena.h"
#include "program/timetable.h"

static inline int plan_passes(const PipelinePlan *p) {
  return p->training ? 2 * p->stages : p->stages;
}
static inline int plan_stage_of_pass(const PipelinePlan *p, int pass) {
  return pass < p->stages ? pass : 2 * p->stages - 1 - pass;
}
static inline int plan_program_of_pass(const PipelinePlan *p, int pass) {
  return plan_program(p, plan_stage_of_pass(p, pass), pass >= p->stages);
}

/* pass[node] for all nodes made in g; others get 0. What no stage made goes where its operands
 * or else its readers are. A value that an iteration leaves for the next must be made in the
 * first pass that reads it; counters are moved there. inputs and targets: buffers of g's inputs
 * and outputs, to know which outputs replace which inputs. */
Status assign_passes(Error *e, Arena *scratch, const Graph *g, const PipelinePlan *plan,
                     const int *inputs, const int *targets, int *pass);
#endif
