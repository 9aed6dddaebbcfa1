/* Loops, branches and calls: their rows, and what they hold while their regions run. */
#include <string.h>

#include "graph/control.h"
#include "machine/walk.h"
#include "ops/io/remote.h"

static bool scalar_of(const Tensor *t, int64_t *value) {
  if (type_count(&t->type) != 1) return false;
  *value = (int64_t)tensor_get(t, 0);
  return true;
}

/* A loop's count, when it is a constant or an argument whose value is known; -1 otherwise. */
static int64_t known_count(const Walk *w, const Inside *in, Value *v) {
  for (;;) {
    Value *root = value_root(v);
    int64_t value;
    if (node_is_constant(root->node))
      return scalar_of(root->node->attr[0].tensor, &value) ? value : -1;
    if (!node_is_input(root->node)) return -1;
    int index = 0;
    while (index < in->graph->input_count && in->graph->input[index] != root) index++;
    if (index == in->graph->input_count) return -1;
    if (!in->outer) {
      const int64_t *known = w->price->machine.argument;
      return known && index < w->program->argument_count ? known[index] : -1;
    }
    if (index < in->lead) return -1;
    v = in->control->in[index - in->lead + in->skip];
    in = in->outer;
  }
}

/* What was there before the block and is used in it stays until its end, for the next time
 * round. */
static void extend_over(Walk *w, int begin) {
  Price *p = w->price;
  for (int i = 0; i < p->held_count; i++)
    if (p->held[i].first <= begin && p->held[i].last > begin) walk_touch(w, i, p->row_count);
}

static void enter(Walk *w, Inside *in, Node *n, const Graph *g, int skip, int lead,
                  const int *inputs, const int *targets, int *outputs) {
  Inside inner = {.graph = g, .outer = in, .control = n, .skip = skip, .lead = lead};
  walk_region(w, &inner, inputs, targets, outputs);
}

/* Its own, or the program's where its body has stages. */
static PipelinePlan *plan_of_loop(const Walk *w, const Node *n) {
  PipelinePlan *own = (PipelinePlan *)control_plan(n), *changed = w->price->plan;
  if (own)
    return w->price->machine.lean_schedule && changed && changed->stages == own->stages ? changed
                                                                                        : own;
  return n->op == &control_repeat && region_has_stages(control_body(n)) ? w->price->plan : NULL;
}

/* How many micro-batches a pipeline of unknown count has: the fewest that its schedule takes. */
static double least_count(const PipelinePlan *p) {
  int overlap = plan_overlap(p), least = plan_least(p);
  return overlap * ((least + overlap - 1) / overlap);
}

void walk_loop(Walk *w, Inside *in, Node *n) {
  bool repeat = n->op == &control_repeat;
  int carried = control_explicit(n), lead = repeat ? 1 : 0, inputs_count = n->in_count - 1 + lead;
  int *inputs = walk_new_list(w, inputs_count), *targets = walk_new_list(w, n->out_count),
      *outputs = walk_new_list(w, n->out_count);
  if (!inputs || !targets || !outputs) return;
  int64_t count = known_count(w, in, n->in[0]);
  PipelinePlan *plan = plan_of_loop(w, n);
  bool *changes = arena_alloc(w->price->arena, (size_t)n->in_count * sizeof *changes);
  if (!changes) {
    w->failed = true;
    return;
  }
  for (int i = 1; i <= carried; i++) changes[i] = true;
  for (int k = 0; k < control_written_count(n); k++)
    changes[1 + carried + control_written(n, k)] = true;
  walk_send_ahead(w, in, n, changes);
  Row *r = walk_add_row(w, plan ? ROW_PIPELINE : ROW_LOOP, n, 0);
  if (!r) return;
  if (plan) r->plan = (PipelinePlan *)object_retain(&plan->object);
  int at = w->price->row_count - 1, parent = w->parent;
  double times = w->times;
  r->repeats = count >= 0 ? (double)count : plan ? least_count(plan) : 1;
  w->times *= r->repeats;
  w->parent = at;
  for (int i = 1; i < n->in_count; i++) {
    int held = walk_held_operand(w, in, n->in[i]);
    if (changes[i]) walk_written(w, held); /* what was copied before is old in the second round */
    /* the loop changes it where it is */
    bool taken = i <= carried && held >= 0 && node_is_store(n->in[i]->node);
    if (taken) {
      targets[i - 1] = held;
    } else if (i <= carried) { /* a copy that the loop changes */
      int own = walk_add_held(w, BYTES_VALUE, n, (double)type_bytes(&n->in[i]->type),
                              walk_ipu_of(w, home_of(in->homes, &n->out[i - 1])));
      walk_touch(w, held, at);
      held = own;
      targets[i - 1] = own;
    }
    walk_touch(w, held, at);
    inputs[i - 1 + lead] = held;
  }
  for (int k = 0; k < control_written_count(n); k++)
    targets[carried + k] = inputs[lead + carried + control_written(n, k)];
  if (!repeat) enter(w, in, n, control_other(n), 1, lead, inputs, NULL, NULL);
  enter(w, in, n, control_body(n), 1, lead, inputs, targets, outputs);
  w->times = times;
  w->parent = parent;
  w->price->row[at].end = w->price->row_count;
  for (int i = 0; i < n->out_count; i++) {
    walk_touch(w, targets[i], w->price->row_count);
    walk_set_slot(w, in, &n->out[i], targets[i]);
  }
  extend_over(w, at);
}

/* One branch runs, the dearer one (time.c: which that is, is known when all is priced); both
 * must fit. */
void walk_branches(Walk *w, Inside *in, Node *n) {
  bool cond = n->op == &control_cond;
  int skip = cond ? 1 : 0;
  int *inputs = walk_new_list(w, n->in_count), *outputs = walk_new_list(w, n->out_count),
      *targets = walk_new_list(w, n->out_count);
  if (!inputs || !outputs || !targets) return;
  Row *r = walk_add_row(w, cond ? ROW_BRANCH : ROW_CALL, n, 0);
  if (!r) return;
  int at = w->price->row_count - 1, parent = w->parent, explicit_count = control_explicit(n);
  w->parent = at;
  for (int i = skip; i < n->in_count; i++) {
    inputs[i - skip] = walk_held_operand(w, in, n->in[i]);
    walk_touch(w, inputs[i - skip], at);
  }
  for (int k = 0; cond && k < control_written_count(n); k++)
    targets[explicit_count + k] = inputs[control_written(n, k)];
  enter(w, in, n, control_body(n), skip, 0, inputs, targets, outputs);
  w->price->row[at].middle = w->price->row_count;
  for (int i = 0; i < n->out_count; i++)
    if (targets[i] < 0) targets[i] = outputs[i];
  if (cond) enter(w, in, n, control_other(n), skip, 0, inputs, targets, outputs);
  w->parent = parent;
  w->price->row[at].end = w->price->row_count;
  for (int i = 0; i < n->out_count; i++) {
    walk_touch(w, targets[i], w->price->row_count);
    walk_set_slot(w, in, &n->out[i], targets[i]);
  }
  extend_over(w, at);
}
