/* Loops, branches and calls: their steps, and the memory that is held while their regions run. */
#include "machine/walk_control.h"

#include <string.h>

#include "base/arith.h"
#include "graph/control.h"
#include "machine/place.h"
#include "machine/priced.h"
#include "machine/walk.h"
#include "machine/walk_ahead.h"
#include "machine/walk_ops.h"
#include "ops/io/remote.h"
#include "program/region.h"
#include "program/timetable.h"

static bool scalar_of(const Tensor *t, int64_t *value) {
  if (type_count(&t->type) != 1) return false;
  *value = (int64_t)tensor_get(t, 0);
  return true;
}

/* A loop's count, when it is a constant or an argument whose value is known; -1 otherwise. A loop
 * of a negative count makes no iteration. */
static int64_t known_count(const PricingContext *w, const PricedRegion *in, Value *v) {
  for (;;) {
    Value *root = value_root(v);
    int64_t value;
    if (node_is_constant(root->node))
      return scalar_of(root->node->attr[0].tensor, &value) ? max(value, 0) : -1;
    if (!node_is_input(root->node)) return -1;
    int index = 0;
    while (index < in->graph->input_count && in->graph->input[index] != root) index++;
    if (index == in->graph->input_count) return -1;
    if (!in->outer) {
      const int64_t *known = w->price->machine.argument;
      bool is_known = known && index < w->program->argument_count && known[index] != INT64_MIN;
      return is_known ? max(known[index], 0) : -1;
    }
    if (index < in->regions.lead) return -1;
    v = in->control->in[index - in->regions.lead + in->regions.skip];
    in = in->outer;
  }
}

/* A value from before the block that is used in it stays until the block ends, for the next
 * iteration. */
static void extend_over(PricingContext *w, int begin) {
  Price *p = w->price;
  for (int i = 0; i < p->allocation_count; i++)
    if (p->allocation[i].first <= begin && p->allocation[i].last > begin)
      walk_touch(w, i, p->step_count);
}

/* Its own, or the program's where its body has stages. */
static PipelinePlan *plan_of_loop(const PricingContext *w, const Node *n) {
  PipelinePlan *own = (PipelinePlan *)control_plan(n), *changed = w->price->plan;
  if (own)
    return w->price->machine.lean_schedule && changed && changed->stages == own->stages ? changed
                                                                                        : own;
  return loop_has_stages(n) ? w->price->plan : NULL;
}

/* How many micro-batches a pipeline of unknown count has: the fewest that its schedule takes. */
static double min_count(const PipelinePlan *p) {
  int overlap = plan_overlap(p), min = plan_min(p);
  return overlap * ((min + overlap - 1) / overlap);
}

/* A control node while its regions are walked. */
typedef struct Controlled {
  PricedRegion *in;
  Node *node;
  ControlRegions regions;
  int *inputs, *targets, *outputs; /* of the regions: the allocations of each */
  bool *changes;                   /* by operand: a loop does */
  int step;
} Controlled;

static bool prepare(PricingContext *w, Controlled *c) {
  Node *n = c->node;
  c->inputs = walk_new_list(w, c->regions.inputs);
  c->targets = walk_new_list(w, n->out_count);
  c->outputs = walk_new_list(w, n->out_count);
  c->changes = arena_alloc(w->price->arena, (size_t)(n->in_count + 1) * sizeof *c->changes);
  w->failed = w->failed || !c->changes;
  for (int i = 0; c->regions.loops && c->changes && i < n->out_count; i++)
    c->changes[control_replaced(n, i)] = true;
  return c->inputs && c->targets && c->outputs && c->changes;
}

/* A loop's step; its steps inside run so many times. */
static PricedStep *add_loop(PricingContext *w, const Controlled *c) {
  PipelinePlan *plan = plan_of_loop(w, c->node);
  int64_t count = known_count(w, c->in, c->node->in[0]);
  walk_send_ahead(w, c->in, c->node, c->changes);
  PricedStep *r = walk_add_step(w, plan ? PRICED_PIPELINE : PRICED_LOOP, c->node, 0);
  if (!r) return NULL;
  if (plan) r->plan = (PipelinePlan *)object_retain(&plan->object);
  r->repeats = count >= 0 ? (double)count : plan ? min_count(plan) : 1;
  w->times *= r->repeats;
  return r;
}

/* A copy that the loop changes. A value that was moved there for it is changed in place. */
static int own_copy(PricingContext *w, const Controlled *c, int carried, int allocation) {
  const Value *first = c->node->in[c->regions.skip + carried];
  if (allocation >= 0 && node_is_store(first->node)) return allocation;
  int own = walk_add_allocation(w, BYTES_VALUE, c->node, (double)type_bytes(&first->type),
                                walk_ipu_of(w, home_of(c->in->homes, &c->node->out[carried])));
  walk_touch(w, allocation, c->step);
  return own;
}

static void hand_in(PricingContext *w, const Controlled *c) {
  Node *n = c->node;
  for (int k = c->regions.skip; k < n->in_count; k++) {
    int allocation = walk_operand_allocation(w, c->in, n->in[k]), carried = k - c->regions.skip;
    if (c->changes[k])
      walk_written(w, allocation); /* values copied before are outdated in the second iteration */
    if (carried < c->regions.carried)
      allocation = c->targets[carried] = own_copy(w, c, carried, allocation);
    walk_touch(w, allocation, c->step);
    c->inputs[control_input(&c->regions, k)] = allocation;
  }
  for (int i = control_explicit(n); !control_calls(&c->regions) && i < n->out_count; i++)
    c->targets[i] = c->inputs[control_input(&c->regions, control_replaced(n, i))];
}

static void walk_regions(PricingContext *w, const Controlled *c) {
  const ControlRegion *r;
  for (int i = 0; (r = control_running(&c->regions, i)); i++) {
    PricedRegion inner = {
        .graph = r->graph, .outer = c->in, .control = c->node, .regions = c->regions};
    bool gives = region_gives(r);
    walk_region(w, &inner, c->inputs, gives ? c->targets : NULL, gives ? c->outputs : NULL);
    if (c->regions.loops) continue;
    if (i == 0) w->price->step[c->step].middle = w->price->step_count;
    for (int k = 0; i == 0 && k < c->node->out_count; k++)
      if (c->targets[k] < 0) c->targets[k] = c->outputs[k];
  }
}

/* Of two branches the dearer one runs (time.c: which that is, is known when all is priced); both
 * must fit. */
void walk_control(PricingContext *w, PricedRegion *in, Node *n) {
  Controlled c = {.in = in, .node = n, .regions = control_regions(n)};
  if (!prepare(w, &c)) return;
  double times = w->times;
  int parent = w->parent;
  PricedStep *r = c.regions.loops
                      ? add_loop(w, &c)
                      : walk_add_step(w, c.regions.skip ? PRICED_BRANCH : PRICED_CALL, n, 0);
  if (!r) return;
  w->parent = c.step = w->price->step_count - 1;
  hand_in(w, &c);
  walk_regions(w, &c);
  w->times = times;
  w->parent = parent;
  w->price->step[c.step].end = w->price->step_count;
  for (int i = 0; i < n->out_count; i++) {
    walk_touch(w, c.targets[i], w->price->step_count);
    walk_set_slot(w, in, &n->out[i], c.targets[i]);
  }
  extend_over(w, c.step);
}
