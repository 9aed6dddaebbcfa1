/* Steps of loops, branches and calls, whose regions are lowered into blocks of their own. */
#include "program/control.h"

#include "graph/control.h"
#include "ops/io/remote.h"
#include "program/in_place.h"
#include "program/lower.h"
#include "program/pipeline.h"
#include "program/program.h"
#include "program/region.h"
#include "program/step.h"

/* A buffer that is older than the step, and used inside of it, lives until the step's end. */
static void extend_lives(Lower *l, int begin) {
  for (int i = 0; i < l->p->buffer_count; i++) {
    Buffer *b = &l->p->buffer[i];
    if (b->first >= 0 && b->first <= begin && b->last > begin) lower_touch(l, i, l->position);
  }
}

/* The step of a control node while its regions are lowered. */
typedef struct Controlled {
  Node *node;
  ControlRegions regions;
  int *inputs;  /* buffers of the regions' inputs */
  int *targets; /* of the node's outputs */
  int index;    /* buffer of a counted loop's index, or -1 */
  int test;     /* buffer of the test of a loop that goes on while it holds, or -1 */
} Controlled;

/* A value in streaming memory that the loop carries is there already. */
static void take_over_stores(Lower *l, Region *r, Node *n) {
  for (int i = 0; i < control_explicit(n); i++) {
    Value *first = n->in[1 + i];
    int *slot = region_slot(r, &n->out[i]);
    if (*slot < 0 && node_is_store(first->node) && region_read_last_by(r, first, n))
      *slot = lower_operand(l, r, first);
  }
}

/* A loop changes its outputs' buffers in place: they begin as the operands that they replace. */
static void copy_first_values(Lower *l, Region *r, Node *n, Block *b) {
  take_over_stores(l, r, n);
  for (int i = 0; i < n->out_count; i++) lower_result(l, r, &n->out[i]);
  for (int i = 0; i < n->out_count; i++) {
    Value *from = n->in[control_replaced(n, i)];
    lower_copy(l, b, lower_operand(l, r, from), lower_result(l, r, &n->out[i]),
               type_bytes(&from->type), n);
  }
}

/* The values that the step itself reads and writes. */
static void link_cells(Lower *l, Region *r, Controlled *c, void **cell) {
  Node *n = c->node;
  c->index = c->test = -1;
  if (c->regions.lead) {
    c->index = lower_buffer(l, BUFFER_ARENA, sizeof(int32_t), n);
    lower_link(l, lower_operand(l, r, n->in[0]), &cell[CELL_TEST]);
    lower_link(l, c->index, &cell[CELL_INDEX]);
  } else if (c->regions.loops) {
    c->test = lower_buffer(l, BUFFER_ARENA, 1, n);
    lower_link(l, c->test, &cell[CELL_TEST]);
    lower_link(l, lower_operand(l, r, n->in[0]), &cell[CELL_LIMIT]);
  } else if (c->regions.skip) {
    lower_link(l, lower_operand(l, r, n->in[0]), &cell[CELL_TEST]);
  }
}

/* Buffers that the regions are given; all must be there when the step begins. */
static void hand_in(Lower *l, Region *r, Controlled *c) {
  Node *n = c->node;
  for (int i = 0; i < n->out_count; i++) {
    c->targets[i] = lower_result(l, r, &n->out[i]);
    lower_touch(l, c->targets[i], l->position);
  }
  for (int i = 0; i < c->regions.inputs; i++) c->inputs[i] = -1;
  if (c->regions.lead) c->inputs[0] = c->index;
  for (int i = 0; c->regions.loops && i < n->out_count; i++)
    c->inputs[control_input(&c->regions, control_replaced(n, i))] = c->targets[i];
  for (int k = c->regions.skip; k < n->in_count; k++) {
    int *input = &c->inputs[control_input(&c->regions, k)];
    if (*input < 0) *input = lower_operand(l, r, n->in[k]);
    lower_touch(l, *input, l->position);
  }
}

static void lower_regions(Lower *l, Step *s, const Controlled *c) {
  const ControlRegion *r;
  s->nested = arena_alloc(l->p->arena, 2 * sizeof *s->nested);
  for (int i = 0; s->nested && (r = control_running(&c->regions, i)); i++) {
    Block *block = arena_alloc(l->p->arena, sizeof *block);
    bool tests = r->role == REGION_TEST;
    if (!block) lower_no_memory(l);
    if (!block) return;
    s->nested[s->nested_count++] =
        (Nested){.block = block, .tests = tests, .repeats = c->regions.loops};
    lower_region(l, r->graph, c->inputs, tests ? &c->test : c->targets, block);
  }
  if (!s->nested) lower_no_memory(l);
}

static StepKind kind_of(const Controlled *c) {
  if (control_plan(c->node)) return STEP_PIPELINE;
  if (c->regions.loops) return c->regions.lead ? STEP_REPEAT : STEP_WHILE;
  return c->regions.skip ? STEP_COND : STEP_CALL;
}

void lower_control(Lower *l, Region *r, Node *n, Block *b) {
  Controlled c = {.node = n, .regions = control_regions(n)};
  c.inputs = arena_alloc(l->p->arena, (size_t)(c.regions.inputs + 1) * sizeof *c.inputs);
  c.targets = arena_alloc(l->p->arena, (size_t)(n->out_count + 1) * sizeof *c.targets);
  void **cell = arena_alloc(l->p->arena, 3 * sizeof *cell); /* test, limit, index */
  if (!c.inputs || !c.targets || !cell) {
    lower_no_memory(l);
    return;
  }
  if (c.regions.loops) copy_first_values(l, r, n, b);
  l->position++;
  Step *s = lower_step(l, b, kind_of(&c), n);
  if (!s) return;
  int begin = l->position;
  s->cell = cell;
  link_cells(l, r, &c, cell);
  hand_in(l, r, &c);
  if (control_plan(n)) lower_pipeline(l, s, c.inputs, c.targets);
  else lower_regions(l, s, &c);
  l->position++;
  lower_touch(l, c.index, l->position);
  lower_touch(l, c.test, l->position);
  for (int i = 0; i < n->out_count; i++) lower_touch(l, c.targets[i], l->position);
  /* only one branch runs: a value that either needs must be there for both */
  extend_lives(l, begin);
}
