/* Assigns each node of a pipeline's body to a pass: the forward or backward part of a stage.
 * Forward passes have the numbers of their stages. Backward passes follow, the last stage's first.
 * So a node's operands are made in its pass or in earlier ones. */
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

/* Sets pass[node] for all nodes made in g, and 0 for others. A node outside of all stages gets the
 * pass of its operands, or else of its readers. A value carried to the next iteration must be made
 * in the first pass that reads it; counters are moved there. inputs and targets: buffers of g's
 * inputs and outputs, to know which outputs replace which inputs. */
Status assign_passes(Error *e, Arena *scratch, const Graph *g, const PipelinePlan *plan,
                     const int *inputs, const int *targets, int *pass);
#endif
