/* Lowering of a graph to steps. For each region:
 *   fuse.c        finds readers, liveness and groups
 *   order.c       orders the nodes
 *   in_place.c    finds values that may be written over the ones they replace
 *   here, groups.c, control.c and pipeline.c emit steps
 * Finally addresses.c plans the memory and sets every pointer. */
#include "program/lower.h"

#include <stdlib.h>
#include <string.h>

#include "ops/io/feed.h"
#include "ops/io/remote.h"
#include "program/control.h"
#include "program/fuse.h"
#include "program/groups.h"
#include "program/in_place.h"
#include "program/order.h"
#include "program/program.h"
#include "program/region.h"
#include "program/step.h"

/* ---- buffers and links ---- */

Status lower_no_memory(Lower *l) {
  return fail(l->error, ERR_OUT_OF_MEMORY, "out of memory while compiling '%s'", l->p->name);
}

int lower_buffer(Lower *l, BufferKind kind, size_t bytes, const Node *node) {
  Program *p = l->p;
  if (!array_reserve(&p->buffer, &p->buffer_capacity, p->buffer_count + 1, sizeof *p->buffer)) {
    lower_no_memory(l);
    return -1;
  }
  p->buffer[p->buffer_count] = (Buffer){.kind = kind,
                                        .bytes = bytes,
                                        .first = -1,
                                        .last = -1,
                                        .argument = -1,
                                        .node = node,
                                        .lane = -1,
                                        .copies = 1};
  return p->buffer_count++;
}

void lower_touch(Lower *l, int buffer, int position) {
  if (buffer < 0) return;
  Buffer *b = &l->p->buffer[buffer];
  if (b->first < 0 || position < b->first) b->first = position;
  if (position > b->last) b->last = position;
}

/* *where will point to buffer; the step being emitted uses it. */
void lower_link(Lower *l, int buffer, void *where) {
  Program *p = l->p;
  lower_touch(l, buffer, l->position);
  if (!array_reserve(&p->link, &p->link_capacity, p->link_count + 1, sizeof *p->link)) {
    lower_no_memory(l);
    return;
  }
  p->link[p->link_count++] = (Link){buffer, where, l->pass};
}

Step *lower_step(Lower *l, Block *b, StepKind kind, const Node *n) {
  if (!arena_reserve(l->p->arena, &b->step, &b->capacity, b->count + 1, sizeof *b->step)) {
    lower_no_memory(l);
    return NULL;
  }
  Step *s = &b->step[b->count++];
  *s = (Step){.kind = kind, .node = n, .position = l->position};
  l->p->step_count++;
  return s;
}

int lower_operand(Lower *l, Region *r, Value *v) {
  Value *root = value_root(v);
  int *slot = region_slot(r, root);
  if (*slot < 0 && node_is_constant(root->node)) {
    *slot = lower_buffer(l, BUFFER_CONSTANT, type_bytes(&root->type), root->node);
    if (*slot >= 0) l->p->buffer[*slot].data = root->node->attr[0].tensor->data;
  }
  if (*slot < 0)
    fail_at(l->error, root->node->source, ERR_INTERNAL,
            "compiling '%s': the result of %s is used before it is made", l->p->name,
            root->node->op->name);
  return *slot;
}

int lower_result(Lower *l, Region *r, Value *v) {
  int *slot = region_slot(r, v);
  if (*slot < 0) *slot = lower_buffer(l, BUFFER_ARENA, type_bytes(&v->type), v->node);
  return *slot;
}

static bool is_zero(const Buffer *b) {
  const char *data = b->data;
  return b->kind == BUFFER_CONSTANT && !data[0] && !memcmp(data, data + 1, b->bytes - 1);
}

void lower_copy(Lower *l, Block *b, int from, int to, size_t bytes, const Node *n) {
  if (from == to || bytes == 0) return;
  l->position++;
  Step *s = lower_step(l, b, STEP_COPY, n);
  void **ends = arena_alloc(l->p->arena, 2 * sizeof *ends);
  if (!ends) lower_no_memory(l);
  if (!s || !ends) return;
  s->copy_bytes = bytes;
  s->cell = ends;
  /* zeros are written, not read */
  if (!is_zero(&l->p->buffer[from])) lower_link(l, from, &ends[0]);
  lower_link(l, to, &ends[1]);
}

/* ---- ops ---- */

const Numerics *lower_numerics(Lower *l, const Node *n) {
  const Numerics *common = &l->p->numerics;
  int8_t stochastic = n->place.stochastic_rounding;
  if (stochastic < 0 || stochastic == common->stochastic_rounding) return common;
  Numerics *own = arena_copy(l->p->arena, common, sizeof *common);
  if (!own) lower_no_memory(l);
  if (!own) return common;
  own->stochastic_rounding = stochastic;
  return own;
}

static void *call_arrays(Lower *l, Call *c, const Node *n) {
  size_t in = (size_t)n->in_count, out = (size_t)n->out_count;
  void **pointers = arena_alloc(l->p->arena, (in + out + 1) * sizeof *pointers);
  const Type **types = arena_alloc(l->p->arena, (in + out + 1) * sizeof *types);
  if (!pointers || !types) {
    lower_no_memory(l);
    return NULL;
  }
  *c = (Call){.in = (const void *const *)pointers,
              .out = pointers + in,
              .in_type = types,
              .out_type = types + in};
  c->node = n;
  c->attr = n->attr;
  c->in_count = n->in_count;
  c->out_count = n->out_count;
  c->replica = l->p->replica;
  c->kernels = l->p->kernels;
  c->numerics = lower_numerics(l, n);
  c->rng.stream = (uint32_t)n->stream;
  c->source = n->source;
  for (size_t i = 0; i < in; i++) types[i] = &n->in[i]->type;
  for (size_t i = 0; i < out; i++) types[in + i] = &n->out[i].type;
  return pointers;
}

static void emit_op(Lower *l, Region *r, const Node *n, StepKind kind, Block *b) {
  Call call;
  void **pointers = call_arrays(l, &call, n);
  if (!pointers) return;
  l->position++;
  Step *s = lower_step(l, b, kind, n);
  if (!s) return;
  for (int i = 0; i < n->in_count; i++) lower_link(l, lower_operand(l, r, n->in[i]), &pointers[i]);
  for (int i = 0; i < n->out_count; i++)
    lower_link(l, lower_result(l, r, &n->out[i]), &pointers[n->in_count + i]);
  size_t scratch = n->op->scratch ? n->op->scratch(n) : 0;
  if (scratch) {
    s->cell = arena_alloc(l->p->arena, sizeof *s->cell);
    if (!s->cell) {
      lower_no_memory(l);
      return;
    }
    lower_link(l, lower_buffer(l, BUFFER_ARENA, scratch, n), s->cell);
  }
  s->call = call;
}

/* ---- transfers ---- */

/* A variable has memory of its own, its part of streaming memory. A load from there reads in place.
 * A store writes at once, unless the old value is still needed. */
static bool is_read_in_place(const Program *p, const Node *n, int from) {
  return node_is_load(n) && node_shares(n) == 1 && !node_moves_slot(n) &&
         p->buffer[from].kind == BUFFER_ARGUMENT;
}

/* Replicas write their shares of one variable side by side: none may copy the whole of it. */
static bool has_shared_variables(const Program *p) {
  for (int i = 0; i < p->variable_count; i++)
    if (p->shared[i]) return true;
  return false;
}

static void emit_transfer(Lower *l, Region *r, const Node *n, Block *b) {
  bool loads = node_is_load(n);
  int from = lower_operand(l, r, n->in[0]);
  if (!loads && node_shares(n) > 1 && has_shared_variables(l->p) &&
      lower_result(l, r, n->out) != lower_operand(l, r, n->in[1]))
    fail_at(l->error, n->source, ERR_INTERNAL,
            "compiling '%s': a share can't be stored in its whole", l->p->name);
  if (from < 0) return;
  if (is_read_in_place(l->p, n, from)) *region_slot(r, n->out) = from;
  int to = lower_result(l, r, n->out);
  if (to < 0) return;
  l->p->buffer[loads ? from : to].remote = true;
  if (from != to) {
    emit_op(l, r, n, loads ? STEP_LOAD : STEP_STORE, b);
    return;
  }
  l->position++;
  lower_step(l, b, loads ? STEP_LOAD : STEP_STORE, n);
  lower_touch(l, from, l->position);
}

/* ---- a region ---- */

void lower_node(Lower *l, Region *r, Node *n, Block *b) {
  int group = region_group(r, n->id);
  if (group >= 0) {
    if (r->group[group].last == n->id) lower_group(l, r, &r->group[group], b);
  } else if (n->op->traits & CONTROL) {
    lower_control(l, r, n, b);
  } else if (node_is_transfer(n)) {
    emit_transfer(l, r, n, b);
  } else if (node_is_dequeue(n)) {
    emit_op(l, r, n, STEP_DEQUEUE, b);
  } else if (node_is_enqueue(n)) {
    emit_op(l, r, n, STEP_ENQUEUE, b);
  } else if (r->products && node_is_gemm(n)) {
    lower_product(l, r, n, NULL, b);
  } else {
    emit_op(l, r, n, STEP_OP, b);
  }
}

Status lower_region(Lower *l, const Graph *g, const int *inputs, const int *targets, Block *block) {
  if (l->error->status != OK) return l->error->status;
  Arena *scratch = arena_new();
  Region r;
  bool *direct = scratch ? arena_alloc(scratch, (size_t)g->output_count + 1) : NULL;
  if (!direct || !region_analyse(&r, g, NULL, &l->p->numerics, scratch)) {
    arena_free(scratch);
    return lower_no_memory(l);
  }
  for (int i = 0; i < g->input_count; i++) *region_slot(&r, g->input[i]) = inputs[i];
  if (!region_order(&r, inputs, targets, false)) lower_no_memory(l);
  else lower_in_place(l, &r, inputs, targets, direct);
  for (int i = 0; i < g->node_count && l->error->status == OK; i++) {
    Node *n = g->node[r.sequence[i]];
    if (r.live[n->id] && node_is_made(n) && !(n->op->traits & VIEW)) lower_node(l, &r, n, block);
  }
  if (l->error->status == OK) lower_outputs(l, &r, targets, 0, block);
  arena_free(scratch);
  return l->error->status;
}
