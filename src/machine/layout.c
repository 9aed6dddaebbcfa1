/* How a program lies on the machine: the plan of its pipeline, the IPUs of a replica, the
 * replicas. */
#include "machine/layout.h"

#include "machine/place.h"
#include "machine/priced.h"
#include "program/offload.h"
#include "program/schedule.h"
#include "program/timetable.h"

static bool has_backward(const Graph *g) {
  for (int i = 0; i < g->node_count; i++) {
    const Node *n = g->node[i];
    if (n->place.backward && n->place.stage >= 0) return true;
    for (int k = 0; (n->op->traits & CONTROL) && k < 2; k++)
      if (n->attr[k].kind == ATTR_GRAPH && n->attr[k].graph && has_backward(n->attr[k].graph))
        return true;
  }
  return false;
}

static PipelinePlan *leaner(Error *e, const PipelinePlan *p) {
  PipelinePlan *made = pipeline_plan_new(e, schedule_find(p->schedule->leaner), p->training,
                                         p->stages, p->position_of, p->ipu_of);
  if (!made) return NULL;
  made->recomputation = p->recomputation;
  made->offload = p->offload;
  return made;
}

/* The program's own plan; where stages have none, one with each stage on the IPU of its number. */
static Status choose_plan(Error *e, Price *p, const Graph *g, int stages) {
  int position_of[MACHINE_STAGES], ipu_of[MACHINE_STAGES];
  if (stages > MACHINE_STAGES)
    return fail(e, ERR_VALUE, "'%s' has %d pipeline stages; %d can be priced", p->name, stages,
                MACHINE_STAGES);
  PipelinePlan *found = (PipelinePlan *)(uintptr_t)graph_plan(g);
  p->stage_count = found && found->stages > stages ? found->stages : stages;
  if (found && p->machine.lean_schedule && found->schedule->leaner) {
    p->plan = leaner(e, found);
    return p->plan ? OK : e->status;
  }
  if (found) p->plan = (PipelinePlan *)object_retain(&found->object);
  if (found || !stages) return OK;
  for (int s = 0; s < stages; s++) position_of[s] = ipu_of[s] = s;
  p->plan = pipeline_plan_new(e, schedule_at(0), has_backward(g), stages, position_of, ipu_of);
  return p->plan ? OK : e->status;
}

static int shard_count(int max) {
  int count = 1;
  while (count < max + 1) count *= 2;
  return count;
}

static Status size_machine(Error *e, Price *p, int max) {
  for (int s = 0; s < p->stage_count; s++) {
    int ipu = price_ipu_of_stage(p, s);
    if (ipu > max) max = ipu;
  }
  p->shards = shard_count(max);
  if (p->machine.pod.ipus % p->shards)
    return fail(e, ERR_FAILED_PRECONDITION,
                "'%s' is spread over %d IPUs; the machine has %d, and must have a multiple of %d",
                p->name, p->shards, p->machine.pod.ipus, p->shards);
  p->replicas = p->machine.pod.ipus / p->shards;
  return OK;
}

Status choose_layout(Error *e, Price *p, const Graph *g, const Placer *placer) {
  Status s = choose_plan(e, p, g, placer->max_stage + 1);
  return s == OK ? size_machine(e, p, placer->max_shard) : s;
}
