/* Sums over replicas that the chain after them alone reads, such as an optimizer's update. A block
 * of the sum is made, and read at once from the first-level cache. The sum is stored nowhere. */
#include "program/readers.h"

#include "program/program.h"
#include "program/step.h"

enum { MIN_ELEMENTS = 4096 }; /* below, the pass that is saved costs less than the preparation */

static bool overlaps(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  const char *x = a, *y = b;
  return x && y && x < y + b_bytes && y < x + a_bytes;
}

/* Whether the chain may write to an operand of the sum, or to its result. */
static bool spoils(const Chain *c, const ChainSlot *s, const Call *sum) {
  size_t bytes = type_bytes(sum->in_type[0]), own = (size_t)c->count * dtype_size(s->dtype);
  return s->is_written &&
         (overlaps(s->data, own, sum->in[0], bytes) || overlaps(s->data, own, sum->out[0], bytes));
}

/* The slot of the sum in a chain in which element i depends on elements i alone; -1: none. */
static int slot_of(const Chain *c, const Call *sum) {
  int found = -1;
  for (int i = 0; i < c->slot_count; i++) {
    const ChainSlot *s = &c->slot[i];
    if (s->role == CHAIN_TEMPORARY || s->role == CHAIN_SINGLE) continue;
    if (s->role != CHAIN_FULL || spoils(c, s, sum)) return -1;
    if (s->data != sum->out[0]) continue;
    if (found >= 0 || s->dtype != F32) return -1;
    found = i;
  }
  return found;
}

static bool is_last_reader(const Program *p, const Step *sum, const Step *reader) {
  for (int i = 0; i < p->link_count; i++) {
    if (p->link[i].where != (void **)(uintptr_t)&sum->call.out[0]) continue;
    const Buffer *b = &p->buffer[p->link[i].buffer];
    return b->kind == BUFFER_ARENA && !b->remote && b->lane < 0 && b->copies <= 1 &&
           b->last <= reader->position;
  }
  return false;
}

static int find_slot(const Program *p, const Phase *sum, const Phase *next) {
  const Step *s = sum->step[0], *reader = next->step[0];
  if (!sum->bucket || next->kind != PHASE_LOCAL || reader->kind != STEP_CHAIN) return -1;
  const Call *call = &s->call;
  const Chain *c = reader->chain;
  if (!s->node->op->collective_part || call->in_type[0]->dtype != F32 || c->rows != 1 ||
      c->count < MIN_ELEMENTS || c->count != type_count(call->in_type[0]) ||
      !is_last_reader(p, s, reader))
    return -1;
  return slot_of(c, call);
}

void readers_find(const Program *p, const Replication *r, Phases *list) {
  for (int i = 0; i + 1 < list->count && r->count == 1; i++)
    if (list->phase[i].kind == PHASE_COLLECTIVE)
      list->phase[i].reader_slot = find_slot(p, &list->phase[i], &list->phase[i + 1]);
}
