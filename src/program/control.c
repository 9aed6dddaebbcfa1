/* Steps of loops, branches and calls, whose regions are lowered into blocks of their own. */
#include <string.h>

#include "graph/control.h"
#include "ops/io/remote.h"
#include "program/lower.h"

/* Everything the loop touches that was there before it must stay until its end. */
static void extend_lives(Lower *l, int begin) {
  for (int i = 0; i < l->p->buffer_count; i++) {
    Buffer *b = &l->p->buffer[i];
    if (b->first >= 0 && b->first <= begin && b->last > begin) lower_touch(l, i, l->position);
  }
}

static Block *new_block(Lower *l) {
  Block *b = arena_alloc(l->p->arena, sizeof *b);
  if (!b) lower_no_memory(l);
  return b;
}

/* Buffers of a region's inputs: lead ones given, then the extras; written extras are the node's
 * own output buffers. */
static int *lower_inputs(Lower *l, Region *r, const Node *n, const int *lead, int lead_count,
                         int node_lead, bool carried) {
  int extras = n->in_count - node_lead;
  int *in = arena_alloc(l->p->arena, (size_t)(lead_count + extras + 1) * sizeof *in);
  if (!in) {
    lower_no_memory(l);
    return NULL;
  }
  memcpy(in, lead, (size_t)lead_count * sizeof *in);
  for (int i = 0; i < extras; i++) in[lead_count + i] = lower_operand(l, r, n->in[node_lead + i]);
  for (int w = 0; carried && w < control_written_count(n); w++)
    in[lead_count + control_written(n, w)] = *region_slot(r, &n->out[control_explicit(n) + w]);
  return in;
}

/* What was put into streaming memory for a loop to carry is there already. */
static void take_over_stores(Lower *l, Region *r, Node *n) {
  for (int i = 0; i < control_explicit(n); i++) {
    Value *first = n->in[1 + i];
    int *slot = region_slot(r, &n->out[i]);
    if (*slot < 0 && node_is_store(first->node) && region_read_last_by(r, first, n))
      *slot = lower_operand(l, r, first);
  }
}

void lower_loop(Lower *l, Region *r, Node *n, Block *b) {
  bool repeat = n->op == &control_repeat;
  PipelinePlan *plan = (PipelinePlan *)control_plan(n);
  int carried = control_explicit(n), written = control_written_count(n);
  int *targets = arena_alloc(l->p->arena, (size_t)(n->out_count + 1) * sizeof *targets);
  int *lead = arena_alloc(l->p->arena, (size_t)(carried + 1) * sizeof *lead);
  if (!targets || !lead) {
    lower_no_memory(l);
    return;
  }
  take_over_stores(l, r, n);
  for (int i = 0; i < n->out_count; i++) targets[i] = lower_result(l, r, &n->out[i]);
  for (int i = 0; i < carried; i++)
    lower_copy(l, b, lower_operand(l, r, n->in[1 + i]), targets[i], type_bytes(&n->out[i].type), n);
  for (int w = 0; w < written; w++) {
    Value *from = n->in[1 + carried + control_written(n, w)];
    lower_copy(l, b, lower_operand(l, r, from), targets[carried + w], type_bytes(&from->type), n);
  }
  l->position++;
  Step *s = lower_step(l, b, plan ? STEP_PIPELINE : repeat ? STEP_REPEAT : STEP_WHILE, n);
  Block *body = new_block(l), *other = repeat ? NULL : new_block(l);
  void **pointers = arena_alloc(l->p->arena, 3 * sizeof *pointers); /* test, limit, index */
  if (!s || !body || !pointers) return;
  int begin = l->position, index = -1, test = -1;
  if (repeat) {
    index = lower_buffer(l, BUFFER_ARENA, sizeof(int32_t), n);
    lower_link(l, lower_operand(l, r, n->in[0]), &pointers[CELL_TEST]);
    lower_link(l, index, &pointers[CELL_INDEX]);
    lead[0] = index;
  } else {
    test = lower_buffer(l, BUFFER_ARENA, 1, n);
    lower_link(l, test, &pointers[CELL_TEST]);
    lower_link(l, lower_operand(l, r, n->in[0]), &pointers[CELL_LIMIT]);
  }
  for (int i = 0; i < carried; i++) lead[repeat + i] = targets[i];
  for (int i = 0; i < n->out_count; i++) lower_touch(l, targets[i], begin);
  int *inputs = lower_inputs(l, r, n, lead, carried + repeat, 1 + carried, true);
  s->cell = pointers;
  if (!inputs) return;
  for (int i = carried + repeat; i < carried + repeat + n->in_count - 1 - carried; i++)
    lower_touch(l, inputs[i], begin);
  if (plan) {
    s->pipeline = lower_pipeline(l, n, plan, inputs, targets, begin);
  } else {
    s->control.body = body;
    s->control.other = other;
    if (other) lower_region(l, control_other(n), inputs, &test, other);
    lower_region(l, control_body(n), inputs, targets, body);
  }
  l->position++;
  lower_touch(l, index, l->position);
  lower_touch(l, test, l->position);
  for (int i = 0; i < n->out_count; i++) lower_touch(l, targets[i], l->position);
  extend_lives(l, begin);
}

void lower_branches(Lower *l, Region *r, Node *n, Block *b) {
  bool cond = n->op == &control_cond;
  int *targets = arena_alloc(l->p->arena, (size_t)(n->out_count + 1) * sizeof *targets);
  l->position++;
  Step *s = lower_step(l, b, cond ? STEP_COND : STEP_CALL, n);
  Block *body = new_block(l), *other = cond ? new_block(l) : NULL;
  void **pointers = arena_alloc(l->p->arena, 3 * sizeof *pointers);
  if (!targets || !s || !body || !pointers) return;
  if (cond) lower_link(l, lower_operand(l, r, n->in[0]), &pointers[CELL_TEST]);
  for (int i = 0; i < n->out_count; i++) {
    targets[i] = lower_result(l, r, &n->out[i]);
    lower_touch(l, targets[i], l->position);
  }
  /* all of the node's inputs but the test are the regions' inputs, in order */
  int skip = cond ? 1 : 0;
  int *inputs = arena_alloc(l->p->arena, (size_t)(n->in_count + 1) * sizeof *inputs);
  if (!inputs) return;
  for (int i = skip; i < n->in_count; i++) {
    inputs[i - skip] = lower_operand(l, r, n->in[i]);
    lower_touch(l, inputs[i - skip], l->position);
  }
  s->control.body = body;
  s->control.other = other;
  s->cell = pointers;
  int begin = l->position;
  lower_region(l, control_body(n), inputs, targets, body);
  if (other) lower_region(l, control_other(n), inputs, targets, other);
  l->position++;
  for (int i = 0; i < n->out_count; i++) lower_touch(l, targets[i], l->position);
  /* only one branch runs, so what either needs must be there for both */
  extend_lives(l, begin);
}
