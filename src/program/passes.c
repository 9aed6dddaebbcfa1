#include "program/passes.h"

#include <limits.h>
#include <string.h>

#include "ops/io/feed.h"
#include "program/region.h"
#include "program/timetable.h"

typedef struct Passes {
  Error *error;
  const Graph *g;
  const PipelinePlan *plan;
  const int *inputs, *targets;
  int *pass;
  bool *marked; /* [node_count] scratch */
} Passes;

/* The pass that a node's placement names; -1: none. */
static int labelled(const PipelinePlan *p, const Node *n) {
  bool backward = n->place.backward && p->training;
  if (n->place.stage < 0 || n->place.stage >= p->stages) return -1;
  return backward ? 2 * p->stages - 1 - n->place.stage : n->place.stage;
}

/* -1 stays where neither a label nor operands say anything. */
static void follow_operands(Passes *s) {
  for (int i = 0; i < s->g->node_count; i++) {
    const Node *n = s->g->node[i];
    if (!node_is_made(n)) continue;
    int latest = labelled(s->plan, n);
    for (int k = 0; k < n->in_count; k++)
      if (s->pass[n->in[k]->node->id] > latest) latest = s->pass[n->in[k]->node->id];
    bool gradient = n->place.backward && s->plan->training && n->place.stage < 0;
    s->pass[i] = gradient && latest < s->plan->stages ? s->plan->stages : latest;
  }
}

static void precede_readers(Passes *s, int *wanted) {
  for (int i = s->g->node_count - 1; i >= 0; i--) {
    const Node *n = s->g->node[i];
    if (!node_is_made(n)) continue;
    if (s->pass[i] < 0) s->pass[i] = wanted[i] == INT_MAX ? 0 : wanted[i];
    for (int k = 0; k < n->in_count; k++) {
      int *w = &wanted[n->in[k]->node->id];
      if (s->pass[i] < *w) *w = s->pass[i];
    }
  }
}

/* One queue is used in one pass: its elements keep their order. */
static void gather_queues(Passes *s) {
  const Graph *g = s->g;
  for (int i = 0; i < g->node_count; i++) {
    bool out = node_is_enqueue(g->node[i]), in = node_is_dequeue(g->node[i]);
    for (int k = 0; k < g->node_count && (in || out); k++) {
      const Node *other = g->node[k];
      if (!(out ? node_is_enqueue(other) : node_is_dequeue(other))) continue;
      if (other->attr[0].object != g->node[i]->attr[0].object) continue;
      if (out ? s->pass[k] > s->pass[i] : s->pass[k] < s->pass[i]) s->pass[i] = s->pass[k];
    }
  }
}

/* ---- values for the next iteration ---- */

static bool is_replaced(const Passes *s, int input) {
  for (int j = 0; j < s->g->output_count; j++)
    if (s->targets[j] == s->inputs[input]) return true;
  return false;
}

static int earliest_reader(const Passes *s, const Value *input) {
  int earliest = INT_MAX;
  for (int i = 0; i < s->g->node_count; i++) {
    const Node *n = s->g->node[i];
    if (n->op->traits & VIEW) continue;
    for (int k = 0; k < n->in_count; k++)
      if (value_root(value_operand(n, k)) == input && s->pass[i] < earliest) earliest = s->pass[i];
  }
  return earliest;
}

/* Mark the nodes that v is computed from. False if they include more than constants, the index and
 * `input` itself. */
static bool mark_slice(Passes *s, const Value *v, const Value *input) {
  const Node *n = v->node;
  if (node_is_constant(n)) return true;
  if (node_is_input(n)) {
    if (v == input) return true;
    for (int i = 0; i < s->g->input_count; i++)
      if (s->g->input[i] == v) return !is_replaced(s, i);
  }
  if (n->op->traits & (STATEFUL | RANDOM)) return false;
  if (s->marked[n->id]) return true;
  s->marked[n->id] = true;
  for (int k = 0; k < n->in_count; k++)
    if (!mark_slice(s, n->in[k], input)) return false;
  return true;
}

static Status hoist_counter(Passes *s, int output, int input) {
  const Value *made = s->g->output[output], *old = s->g->input[input];
  const Node *root = value_root(s->g->output[output])->node;
  int written = node_is_made(root) ? s->pass[root->id] : 0, read = earliest_reader(s, old);
  if (read >= written) return OK;
  memset(s->marked, 0, (size_t)s->g->node_count);
  if (!mark_slice(s, made, old))
    return fail_at(
        s->error, root->source, ERR_NOT_IMPLEMENTED,
        "a pipeline can't overlap this: %s changes here, in stage %d, but stage %d reads it before",
        old->node->name ? old->node->name : "a value carried from one micro-batch to the next",
        plan_stage_of_pass(s->plan, written), plan_stage_of_pass(s->plan, read));
  for (int i = 0; i < s->g->node_count; i++)
    if (s->marked[i] && s->pass[i] > read) s->pass[i] = read;
  return OK;
}

Status assign_passes(Error *e, Arena *scratch, const Graph *g, const PipelinePlan *plan,
                     const int *inputs, const int *targets, int *pass) {
  size_t n = (size_t)g->node_count + 1;
  int *wanted = arena_alloc(scratch, n * sizeof *wanted);
  Passes s = {e, g, plan, inputs, targets, pass, arena_alloc(scratch, n)};
  if (!wanted || !s.marked) return fail(e, ERR_OUT_OF_MEMORY, "out of memory for a pipeline");
  for (size_t i = 0; i < n - 1; i++) {
    pass[i] = -1;
    wanted[i] = INT_MAX;
  }
  follow_operands(&s);
  precede_readers(&s, wanted);
  gather_queues(&s);
  for (int j = 0; j < g->output_count && e->status == OK; j++)
    for (int i = 0; i < g->input_count && e->status == OK; i++)
      if (inputs[i] == targets[j]) hoist_counter(&s, j, i);
  for (size_t i = 0; i < n - 1; i++)
    if (pass[i] < 0) pass[i] = 0;
  return e->status;
}
