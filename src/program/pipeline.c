/* Lowering a pipelined loop: its body is cut into passes (passes.h), each a block of steps of its
 * own. A value that one pass makes and another reads is stashed. The stash has a copy for each
 * micro-batch that the timetable has between the two passes. Values inside a pass share no memory
 * with another lane's, since lanes run side by side. The plain loop has the same steps, so no
 * schedule changes a bit. */
#include "program/pipeline.h"

#include "graph/control.h"
#include "ops/io/feed.h"
#include "ops/io/remote.h"
#include "program/fuse.h"
#include "program/in_place.h"
#include "program/lower.h"
#include "program/order.h"
#include "program/passes.h"
#include "program/program.h"
#include "program/region.h"
#include "program/step.h"
#include "program/timetable.h"

typedef struct Pipeline {
  Lower *l;
  const PipelinePlan *plan;
  const Graph *g;
  const int *inputs, *targets;
  Region r;
  PipelineStep *step;
  /* [2 * programs * programs] of other values, of dequeued ones; 0: not asked yet */
  int *copies;
  int *index;      /* [passes] buffers of the micro-batch's number */
  int *stashed;    /* [input_count] the value that later passes read of an input that is replaced;
                    * -1 */
  int *written_in; /* [input_count] the pass that replaces an input; -1: none */
  int begin;
} Pipeline;

static int copies_between(Pipeline *p, int from, int to, bool dequeued) {
  int programs = plan_programs(p->plan), a = plan_program_of_pass(p->plan, from),
      b = plan_program_of_pass(p->plan, to);
  int *known = &p->copies[(dequeued * programs + a) * programs + b];
  if (*known == 0) *known = plan_copies(p->l->error, p->plan, a, b, dequeued);
  return *known < 1 ? 1 : *known;
}

/* ---- lanes ---- */

/* Each IPU is a lane. If one concurrent stage reads a value of another, both are on one lane, in
 * order. */
static void assign_lanes(Pipeline *p) {
  const PipelinePlan *plan = p->plan;
  int lane[p->plan->stages]; /* few: checked when the plan was made */
  for (int s = 0; s < plan->stages; s++) lane[s] = plan->ipu_of[s];
  for (int i = 0; i < p->g->node_count; i++) {
    const Node *n = p->g->node[i];
    for (int k = 0; k < n->in_count && node_is_made(n); k++) {
      const Node *from = n->in[k]->node;
      int a = plan_stage_of_pass(plan, p->r.pass[from->id]),
          b = plan_stage_of_pass(plan, p->r.pass[n->id]);
      if (!node_is_made(from) || a == b || plan->position_of[a] != plan->position_of[b] ||
          lane[a] == lane[b])
        continue;
      for (int s = 0, gone = lane[b], to = lane[a]; s < plan->stages; s++)
        if (lane[s] == gone) lane[s] = to;
    }
  }
  for (int q = 0; q < p->step->pass_count; q++) {
    Pass *pass = &p->step->pass[q];
    pass->program = plan_program_of_pass(plan, q);
    pass->lane = lane[plan_stage_of_pass(plan, q)];
    if (pass->lane >= p->step->lanes) p->step->lanes = pass->lane + 1;
    p->step->first[pass->program + 1] = q + 1;
  }
  p->step->lane = arena_alloc(p->l->p->arena, (size_t)p->step->lanes * sizeof *p->step->lane);
  p->step->active = arena_alloc(p->l->p->arena, (size_t)p->step->lanes * sizeof *p->step->active);
  if (!p->step->lane || !p->step->active) lower_no_memory(p->l);
}

/* ---- values from pass to pass ---- */

static int new_stash(Pipeline *p, size_t bytes, int copies, const Node *n) {
  size_t stride = (bytes + 63) / 64 * 64, all;
  if (!size_mul(stride, (size_t)copies, &all)) {
    lower_no_memory(p->l);
    return -1;
  }
  int b = lower_buffer(p->l, BUFFER_ARENA, copies > 1 ? all : bytes, n);
  if (b < 0) return -1;
  p->l->p->buffer[b].copies = copies;
  p->l->p->buffer[b].remote = n && node_is_store(n);
  lower_touch(p->l, b, p->begin);
  return b;
}

/* Copies of n's values that its readers in other passes need; 0: all readers are in its own
 * pass. */
static int copies_needed(Pipeline *p, const Node *n, int made) {
  const Region *r = &p->r;
  int max = 0;
  for (int i = r->reader_begin[n->id]; i < r->reader_begin[n->id + 1]; i++) {
    int reader = r->reader[i];
    if (reader >= p->g->node_count || r->pass[reader] <= made) continue;
    int copies = copies_between(p, made, r->pass[reader], node_is_dequeue(n));
    if (copies > max) max = copies;
  }
  return max;
}

static void stash_values(Pipeline *p) {
  for (int i = 0; i < p->g->node_count; i++) {
    const Node *n = p->g->node[i];
    if (!p->r.live[i] || !node_is_made(n) || (n->op->traits & VIEW)) continue;
    int copies = copies_needed(p, n, p->r.pass[i]);
    /* taken in before the lane's other pass of the row runs */
    if (copies == 0 && node_is_dequeue(n)) copies = 1;
    for (int k = 0; k < n->out_count && copies; k++)
      *region_slot(&p->r, &n->out[k]) = new_stash(p, type_bytes(&n->out[k].type), copies, n);
  }
}

/* Inputs that an iteration replaces, and the copies of the old value that passes after the
 * replacing one read. */
static void stash_inputs(Pipeline *p) {
  for (int i = 0; i < p->g->input_count; i++) {
    const Value *old = p->g->input[i];
    p->written_in[i] = p->stashed[i] = -1;
    for (int j = 0; j < p->g->output_count; j++)
      if (p->targets[j] == p->inputs[i] && value_root(p->g->output[j]) != old)
        p->written_in[i] = region_output_pass(&p->r, j);
    if (p->written_in[i] < 0) continue;
    int copies = copies_needed(p, old->node, p->written_in[i]);
    if (copies) p->stashed[i] = new_stash(p, type_bytes(&old->type), copies, old->node);
  }
}

/* ---- passes ---- */

/* Does it call the host, or take data inside of a loop? Only one thread may. */
static bool node_calls_host(const Node *n, bool nested) {
  ControlRegions c = control_regions(n);
  for (int r = 0; r < c.count; r++) {
    const Graph *g = c.region[r].graph;
    for (int i = 0; i < g->node_count; i++)
      if (node_calls_host(g->node[i], true)) return true;
  }
  return !c.count && (n->op->traits & STATEFUL) && !node_is_enqueue(n) &&
         (nested || !node_is_dequeue(n));
}

/* The inputs as pass q sees them. */
static void set_inputs(Pipeline *p, int q) {
  for (int i = 0; i < p->g->input_count; i++) {
    bool later = p->stashed[i] >= 0 && q > p->written_in[i];
    *region_slot(&p->r, p->g->input[i]) = i == 0  ? p->index[q]
                                          : later ? p->stashed[i]
                                                  : p->inputs[i];
  }
}

static void keep_old_inputs(Pipeline *p, int q) {
  for (int i = 0; i < p->g->input_count; i++)
    if (p->stashed[i] >= 0 && p->written_in[i] == q)
      lower_copy(p->l, &p->step->pass[q].body, p->inputs[i], p->stashed[i],
                 type_bytes(&p->g->input[i]->type), p->g->input[i]->node);
}

static void lower_pass(Pipeline *p, int q) {
  Lower *l = p->l;
  Pass *pass = &p->step->pass[q];
  int first = l->p->buffer_count;
  l->pass = pass;
  lower_link(l, p->index[q], &pass->index);
  set_inputs(p, q);
  keep_old_inputs(p, q);
  for (int i = 0; i < p->g->node_count && l->error->status == OK; i++) {
    Node *n = p->g->node[p->r.sequence[i]];
    if (!p->r.live[n->id] || p->r.pass[n->id] != q || !node_is_made(n) || (n->op->traits & VIEW))
      continue;
    if (node_calls_host(n, false)) pass->on_main = true;
    lower_node(l, &p->r, n, node_is_dequeue(n) ? &pass->dequeues : &pass->body);
  }
  if (l->error->status == OK) lower_outputs(l, &p->r, p->targets, q, &pass->body);
  for (int b = first; b < l->p->buffer_count; b++)
    if (l->p->buffer[b].kind == BUFFER_ARENA) l->p->buffer[b].lane = pass->lane;
  l->pass = NULL;
}

static bool prepare(Pipeline *p, Arena *scratch) {
  Program *program = p->l->p;
  int programs = plan_programs(p->plan), passes = plan_passes(p->plan);
  size_t inputs = (size_t)p->g->input_count + 1;
  p->copies = arena_alloc(scratch, (size_t)(2 * programs * programs) * sizeof *p->copies);
  p->index = arena_alloc(scratch, (size_t)passes * sizeof *p->index);
  p->stashed = arena_alloc(scratch, inputs * sizeof *p->stashed);
  p->written_in = arena_alloc(scratch, inputs * sizeof *p->written_in);
  p->step = arena_alloc(program->arena, sizeof *p->step);
  if (!p->copies || !p->index || !p->stashed || !p->written_in || !p->step) return false;
  p->step->plan = p->plan;
  p->step->pass_count = passes;
  p->step->pass = arena_alloc(program->arena, (size_t)passes * sizeof *p->step->pass);
  p->step->first = arena_alloc(program->arena, (size_t)(programs + 1) * sizeof *p->step->first);
  return p->step->pass && p->step->first &&
         array_reserve(&program->pipeline, &program->pipeline_capacity, program->pipeline_count + 1,
                       sizeof(PipelineStep *));
}

static void lower_passes(Pipeline *p, Arena *scratch) {
  Lower *l = p->l;
  int first = l->p->buffer_count;
  assign_lanes(p);
  if (p->step->lanes > l->p->lanes) l->p->lanes = p->step->lanes;
  stash_values(p);
  stash_inputs(p);
  for (int q = 0; q < p->step->pass_count; q++)
    p->index[q] = new_stash(p, sizeof(int32_t), 1, NULL);
  int shared = l->p->buffer_count;
  set_inputs(p, 0);
  bool *direct = arena_alloc(scratch, (size_t)p->g->output_count + 1);
  if (direct && region_order(&p->r, p->inputs, p->targets, false))
    lower_in_place(l, &p->r, p->inputs, p->targets, direct);
  else lower_no_memory(l);
  for (int q = 0; q < p->step->pass_count && l->error->status == OK; q++) lower_pass(p, q);
  l->position++;
  for (int b = first; b < shared; b++) lower_touch(l, b, l->position);
}

static int *find_passes(Pipeline *p, Arena *scratch) {
  int *pass = arena_alloc(scratch, (size_t)(p->g->node_count + 1) * sizeof *pass);
  if (!pass) lower_no_memory(p->l);
  return pass && assign_passes(p->l->error, scratch, p->g, p->plan, p->inputs, p->targets, pass) ==
                     OK
             ? pass
             : NULL;
}

static Nested *list_blocks(Pipeline *p) {
  Nested *nested = arena_alloc(p->l->p->arena, 2 * (size_t)p->step->pass_count * sizeof *nested);
  for (int q = 0; nested && q < p->step->pass_count; q++) {
    Pass *pass = &p->step->pass[q];
    nested[2 * q] = (Nested){.block = &pass->dequeues, .repeats = true, .pass = pass};
    nested[2 * q + 1] = (Nested){.block = &pass->body, .repeats = true, .pass = pass};
  }
  return nested;
}

static void lower_into(Lower *l, Step *s, Pipeline *p, Arena *scratch) {
  int *pass = find_passes(p, scratch);
  bool good = pass && prepare(p, scratch) &&
              region_analyse(&p->r, p->g, pass, &l->p->numerics, scratch) &&
              (s->nested = list_blocks(p));
  if (!good) {
    lower_no_memory(l); /* if nothing else was wrong */
    return;
  }
  lower_passes(p, scratch);
  s->pipeline = p->step;
  s->nested_count = 2 * p->step->pass_count;
  if (l->error->status == OK) l->p->pipeline[l->p->pipeline_count++] = p->step;
}

void lower_pipeline(Lower *l, Step *s, const int *inputs, const int *targets) {
  if (l->error->status != OK) return;
  if (l->pass) {
    fail_at(l->error, s->node->source, ERR_NOT_IMPLEMENTED,
            "a pipeline's stage can't contain a pipeline");
    return;
  }
  Arena *scratch = arena_new();
  Pipeline p = {.l = l,
                .plan = (const PipelinePlan *)control_plan(s->node),
                .g = control_body(s->node),
                .inputs = inputs,
                .targets = targets,
                .begin = s->position};
  if (scratch) lower_into(l, s, &p, scratch);
  else lower_no_memory(l);
  arena_free(scratch);
}
