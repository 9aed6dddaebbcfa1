/* The pricing pass over a program's graph: it makes the steps in program order, and the allocations
 * with the steps between which each is live. Fused loops of the CPU play no part: nodes are priced
 * one by one, as an IPU runs them. */
#include "machine/walk.h"

#include <limits.h>

#include "machine/costs.h"
#include "machine/layout.h"
#include "machine/place.h"
#include "machine/priced.h"
#include "machine/walk_control.h"
#include "machine/walk_ops.h"
#include "ops/io/feed.h"
#include "ops/io/remote.h"
#include "program/fuse.h"
#include "program/offload.h"
#include "program/order.h"
#include "program/program.h"
#include "program/region.h"
#include "program/timetable.h"

/* ---- regions ---- */

static void walk_node(PricingContext *w, PricedRegion *in, Node *n) {
  if (n->op->traits & CONTROL) walk_control(w, in, n);
  else if (node_is_transfer(n)) walk_transfer(w, in, n);
  else if (node_is_dequeue(n)) walk_dequeue(w, in, n);
  else if (node_is_enqueue(n)) walk_enqueue(w, in, n);
  else if (n->op->traffic == TRAFFIC_HOST) walk_host(w, in, n);
  else if (!(n->op->traits & VIEW) && walk_is_free(n)) walk_broadcast(w, in, n);
  else if (!walk_is_free(n)) walk_op(w, in, n);
}

/* A result made in this region is allocated as the target that it replaces, if its bytes fit
 * there. */
static void aim_outputs(PricingContext *w, PricedRegion *in, const int *targets) {
  for (int i = 0; targets && i < in->graph->output_count; i++) {
    Value *root = value_root(in->graph->output[i]);
    if (targets[i] < 0 || !node_is_made(root->node)) continue;
    int *slot = walk_slot_of(in, root);
    Allocation *h = &w->price->allocation[targets[i]];
    if (*slot >= 0 || h->bytes != (double)type_bytes(&root->type)) continue;
    *slot = targets[i];
  }
}

void walk_region(PricingContext *w, PricedRegion *in, const int *inputs, const int *targets,
                 int *outputs) {
  const Graph *g = in->graph;
  Arena *scratch = arena_new();
  const Graph *outer = w->region;
  in->homes = place_find(&w->placer, g);
  if (!scratch || !in->homes || !region_analyse(&in->region, g, NULL, NULL, scratch) ||
      !region_order(&in->region, inputs, targets, true)) {
    w->failed = true;
    arena_free(scratch);
    return;
  }
  in->allocation = in->region.buffer; /* all -1 */
  in->first_allocation = w->price->allocation_count;
  for (int i = 0; i < g->input_count; i++) walk_set_slot(w, in, g->input[i], inputs[i]);
  aim_outputs(w, in, targets);
  w->region = g;
  for (int i = 0; i < g->node_count && !w->failed; i++) {
    Node *n = g->node[in->region.sequence[i]];
    if (in->region.live[n->id] && node_is_made(n)) walk_node(w, in, n);
  }
  for (int i = 0; i < g->output_count && !w->failed; i++) {
    int allocation = walk_operand_allocation(w, in, g->output[i]);
    walk_touch(w, allocation, w->price->step_count);
    if (outputs) outputs[i] = allocation;
  }
  w->region = outer;
  arena_free(scratch);
}

/* ---- the program ---- */

static int allocate_variable(PricingContext *w, int i, const Home *home) {
  const Variable *v = w->program->variable[i];
  int allocation = walk_add_allocation(w, BYTES_VARIABLE, NULL, (double)type_bytes(&v->type),
                                       walk_ipu_of(w, home));
  if (allocation < 0) return allocation;
  Allocation *h = &w->price->allocation[allocation];
  h->variable = v;
  h->written = w->program->writes[i];
  h->first = INT_MAX, h->last = -1; /* until a step touches it */
  return allocation;
}

/* Arguments arrive before the steps, and results leave after them, on each IPU that holds them. */
static void walk_call(PricingContext *w, PricedKind kind, const double *bytes) {
  for (int ipu = 0; ipu < w->price->shards; ipu++) {
    PricedStep *r = bytes[ipu] > 0 ? walk_add_step(w, kind, NULL, ipu) : NULL;
    if (r) r->bytes = bytes[ipu], r->times = w->price->machine.calls >= 0 ? 1 : 0;
  }
}

static double *ipu_of_allocation(const PricingContext *w, double *bytes, int allocation) {
  int ipu = allocation >= 0 ? w->price->allocation[allocation].ipu : 0;
  return &bytes[ipu >= 0 && ipu < w->price->shards ? ipu : 0];
}

static void walk_root(PricingContext *w) {
  const Program *p = w->program;
  const Graph *g = w->price->graph ? w->price->graph : p->graph;
  PricedRegion in = {.graph = g};
  int *inputs = walk_new_list(w, g->input_count), *targets = walk_new_list(w, g->output_count);
  const Homes *homes = place_find(&w->placer, g);
  double *in_bytes = arena_alloc(w->price->arena, (size_t)w->price->shards * sizeof *in_bytes);
  double *out_bytes = arena_alloc(w->price->arena, (size_t)w->price->shards * sizeof *out_bytes);
  int *outputs = walk_new_list(w, g->output_count);
  if (!inputs || !targets || !homes || !in_bytes || !out_bytes || !outputs) {
    w->failed = true;
    return;
  }
  for (int i = 0; i < g->input_count; i++) {
    const Home *home = home_of(homes, g->input[i]);
    if (i >= p->argument_count) inputs[i] = allocate_variable(w, i - p->argument_count, home);
    else
      inputs[i] = walk_add_allocation(w, BYTES_VALUE, g->input[i]->node,
                                      (double)type_bytes(&g->input[i]->type), walk_ipu_of(w, home));
  }
  for (int i = 0; i < p->argument_count; i++)
    *ipu_of_allocation(w, in_bytes, inputs[i]) += (double)type_bytes(&g->input[i]->type);
  walk_call(w, PRICED_HOST_IN, in_bytes);
  int at = p->result_count;
  for (int i = 0; i < p->variable_count; i++)
    if (p->writes[i] && at < g->output_count) targets[at++] = inputs[p->argument_count + i];
  walk_region(w, &in, inputs, targets, outputs);
  for (int i = 0; i < p->result_count && i < g->output_count; i++)
    if (!walk_is_on_host(w, outputs[i]))
      *ipu_of_allocation(w, out_bytes, outputs[i]) += (double)type_bytes(&p->result_type[i]);
  walk_call(w, PRICED_HOST_OUT, out_bytes);
}

/* Work that the machine's options ask for, in addition to the program's own. */
static Status place_more(Error *e, PricingContext *w) {
  Price *p = w->price;
  OffloadRequest q = {.offload = p->machine.offload, .plan = p->plan, .replicas = p->replicas};
  if (p->machine.recompute && p->plan && p->plan->recomputation == RECOMPUTE_NONE)
    q.recompute = RECOMPUTE_STAGE;
  p->graph = offload_graph(e, w->program, &q);
  if (!p->graph) return e->status;
  w->placer = (Placer){.arena = p->arena};
  place_program(&w->placer, p->graph);
  w->failed = w->failed || w->placer.failed;
  return OK;
}

Status walk_program(Error *e, Price *p, const Program *program) {
  PricingContext w = {.error = e, .price = p, .program = program, .times = 1, .parent = -1};
  w.costs = (CostTable){.arena = p->arena, .by_key = map_new(), .machine = &p->machine};
  w.placer.arena = p->arena;
  w.failed = !w.costs.by_key;
  if (!w.failed) place_program(&w.placer, program->graph);
  w.failed = w.failed || w.placer.failed;
  Status s = w.failed ? OK : choose_layout(e, p, program->graph, &w.placer);
  if (s == OK && !w.failed) s = place_more(e, &w);
  if (s == OK && !w.failed) walk_root(&w);
  map_free(w.costs.by_key);
  if (w.failed) return fail(e, ERR_OUT_OF_MEMORY, "out of memory while pricing '%s'", p->name);
  return s;
}
