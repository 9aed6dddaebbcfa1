/* Decides which values are written over the variable or carried value that they replace. The others
 * are copied at the end. */
#include "program/in_place.h"

#include <string.h>

#include "graph/control.h"
#include "ops/io/remote.h"
#include "program/lower.h"
#include "program/program.h"
#include "program/region.h"
#include "program/step.h"

static int times_read(const Node *n, const Value *root) {
  int times = 0;
  for (int i = 0; i < n->in_count; i++) times += value_root(n->in[i]) == root;
  return times;
}

/* Reader of the old value x in the step that makes the new one. It is allowed if each element is
 * read before it is written, or if the node takes the buffer over as its carried value. */
static bool may_read_at_step(const Region *r, const Node *reader, const Value *old,
                             const Value *made) {
  const Node *maker = made->node;
  int group = region_group(r, maker->id);
  if (reader == maker && (maker->op->traits & CONTROL)) {
    if (!maker->op->control->loops) return true;
    return times_read(maker, old) == 1 &&
           value_root(maker->in[control_replaced(maker, made->index)]) == old;
  }
  for (int k = 0; reader == maker && group < 0 && k < 8 && k < maker->in_count; k++)
    if ((maker->op->traits & IN_PLACE(k)) && value_root(maker->in[k]) == old)
      return times_read(maker, old) == 1;
  /* a product is there before the other members of its group run */
  if (group >= 0 && r->group[group].gemm == maker->id) return false;
  if (group < 0 || region_group(r, reader->id) != group || reader->id > maker->id ||
      reader->id == r->group[group].gemm)
    return false;
  for (int k = 0; k < reader->in_count; k++) {
    Value *v = value_operand(reader, k);
    if (value_root(v) == old && !shape_equal(&v->type, &r->group[group].shape)) return false;
  }
  return true;
}

static bool is_whole_load(const Node *n) {
  return node_is_load(n) && node_shares(n) == 1 && !node_moves_slot(n);
}

/* Whether all readers of the old value have finished before `made` is written over it. Loads may
 * read it in place. */
static bool is_replaceable(const Region *r, const Value *old, const Value *made) {
  const Graph *g = r->graph;
  int position = region_position(r, made->node->id);
  for (int k = r->reader_begin[old->node->id]; k < r->reader_begin[old->node->id + 1]; k++) {
    int reader = r->reader[k], at = region_position(r, reader);
    if (reader < g->node_count && is_whole_load(g->node[reader]) &&
        !is_replaceable(r, g->node[reader]->out, made))
      return false;
    if (at < position) continue;
    /* later passes of a pipeline read a stashed copy */
    if (r->pass && reader < g->node_count && r->pass[reader] != r->pass[made->node->id]) continue;
    if (at > position || !may_read_at_step(r, g->node[reader], old, made)) return false;
  }
  return true;
}

/* Can made be written straight to target, given every region input that lives there? */
static bool may_write_over(Lower *l, const Region *r, const int *inputs, int target,
                           const Value *made) {
  if (l->p->buffer[target].bytes != type_bytes(&made->type)) return false;
  for (int i = 0; i < r->graph->input_count; i++)
    if (inputs[i] == target && !is_replaceable(r, r->graph->input[i], made)) return false;
  return true;
}

static bool target_taken(const int *targets, const bool *direct, int count, int target) {
  for (int i = 0; i < count; i++)
    if (direct[i] && targets[i] == target) return true;
  return false;
}

/* The operand of a branch or loop whose memory its output `made` takes, and which it passes on if
 * nothing changes it; NULL: none. */
static Value *replaced_by(const Value *made) {
  const Node *n = made->node;
  int operand = n->op->traits & CONTROL ? control_replaced(n, made->index) : -1;
  return operand < 0 ? NULL : value_root(n->in[operand]);
}

bool region_read_last_by(const Region *r, const Value *v, const Node *last) {
  ControlRegions c = control_regions(last);
  if (!control_chooses(&c) && times_read(last, v) > 1) return false;
  for (int k = r->reader_begin[v->node->id]; k < r->reader_begin[v->node->id + 1]; k++) {
    int reader = r->reader[k];
    if (reader == last->id) continue;
    if (region_position(r, reader) >= region_position(r, last->id)) return false;
    const Node *n = r->graph->node[reader];
    if (is_whole_load(n) && (times_read(last, n->out) || !region_read_last_by(r, n->out, last)))
      return false;
  }
  return true;
}

/* A value that is stored in a variable is made in the variable's memory, if that is possible. */
static void follow_stored(Lower *l, Region *r, const int *inputs, int target, const Value *made) {
  if (!node_is_store(made->node) || node_shares(made->node) > 1 || node_moves_slot(made->node) ||
      l->p->buffer[target].kind != BUFFER_ARGUMENT)
    return;
  Value *v = value_root(made->node->in[0]);
  int *slot = region_slot(r, v);
  if (node_is_made(v->node) && *slot < 0 && may_write_over(l, r, inputs, target, v)) *slot = target;
}

/* The value that `made` replaces gets the same memory. So a branch that leaves it unchanged has
 * nothing to copy. */
static void follow_replaced(Lower *l, Region *r, const int *inputs, int target, const Value *made) {
  for (Value *v = replaced_by(made); v && !r->pass; made = v, v = replaced_by(v)) {
    int *slot = region_slot(r, v);
    if (!node_is_made(v->node) || *slot >= 0 || !region_read_last_by(r, v, made->node) ||
        !may_write_over(l, r, inputs, target, v))
      return;
    *slot = target;
  }
}

/* Decide which outputs go straight to their targets; the rest are copied at the end. */
void lower_in_place(Lower *l, Region *r, const int *inputs, const int *targets, bool *direct) {
  const Graph *g = r->graph;
  for (int i = g->output_count - 1; i >= 0; i--) {
    Value *made = value_root(g->output[i]);
    int *slot = region_slot(r, made);
    if (!node_is_made(made->node) || *slot >= 0 ||
        target_taken(targets, direct, g->output_count, targets[i]))
      continue;
    if (!may_write_over(l, r, inputs, targets[i], made)) continue;
    *slot = targets[i];
    direct[i] = true;
    follow_stored(l, r, inputs, targets[i], made);
    follow_replaced(l, r, inputs, targets[i], made);
  }
}

int region_output_pass(const Region *r, int output) {
  const Node *n = value_root(r->graph->output[output])->node;
  return r->pass && node_is_made(n) ? r->pass[n->id] : 0;
}

/* The copies of a region's outputs that are still to make. */
typedef struct Copies {
  const int *targets;
  int *from, *readers; /* by output; by buffer: how many waiting copies read it */
  bool *waiting;
  int count, left;
} Copies;

static bool new_copies(const Lower *l, const Region *r, const int *targets, Copies *c) {
  size_t count = (size_t)r->graph->output_count,
         buffers = (size_t)l->p->buffer_count + 2 * count + 1; /* new: constants, spares */
  *c = (Copies){.targets = targets,
                .from = arena_alloc(r->arena, (count + 1) * sizeof(int)),
                .readers = arena_alloc(r->arena, buffers * sizeof(int)),
                .waiting = arena_alloc(r->arena, count + 1),
                .count = (int)count};
  if (!c->from || !c->readers || !c->waiting) return false;
  memset(c->readers, 0, buffers * sizeof *c->readers);
  return true;
}

/* Makes each copy whose target no waiting copy reads; false: there is none. */
static bool copy_unread(Lower *l, const Region *r, Copies *c, Block *b) {
  bool moved = false;
  for (int i = 0; i < c->count; i++) {
    if (!c->waiting[i] || c->readers[c->targets[i]]) continue;
    const Value *output = r->graph->output[i];
    lower_copy(l, b, c->from[i], c->targets[i], type_bytes(&output->type), output->node);
    c->waiting[i] = false, moved = true, c->left--, c->readers[c->from[i]]--;
  }
  return moved;
}

/* The first waiting copy, and all others of its source, now read a spare buffer. */
static void break_ring(Lower *l, const Region *r, Copies *c, Block *b) {
  int first = 0;
  while (!c->waiting[first]) first++;
  int source = c->from[first],
      spare = lower_buffer(l, BUFFER_ARENA, l->p->buffer[source].bytes, NULL);
  if (spare < 0) return;
  lower_copy(l, b, source, spare, l->p->buffer[source].bytes, r->graph->output[first]->node);
  for (int i = 0; i < c->count; i++)
    if (c->from[i] == source) c->from[i] = spare;
  c->readers[spare] = c->readers[source], c->readers[source] = 0;
}

/* Copies have the effect of simultaneous ones. A copy waits while another still reads its target. A
 * ring is broken by a spare buffer. */
void lower_outputs(Lower *l, Region *r, const int *targets, int pass, Block *b) {
  Copies c;
  if (!new_copies(l, r, targets, &c)) {
    lower_no_memory(l);
    return;
  }
  for (int i = 0; i < c.count; i++) {
    if (region_output_pass(r, i) != pass) continue;
    c.from[i] = lower_operand(l, r, r->graph->output[i]);
    if (c.from[i] < 0) return;
    c.waiting[i] = c.from[i] != targets[i];
    c.left += c.waiting[i], c.readers[c.from[i]] += c.waiting[i];
  }
  while (c.left > 0 && l->error->status == OK)
    if (!copy_unread(l, r, &c, b)) break_ring(l, r, &c, b);
}
