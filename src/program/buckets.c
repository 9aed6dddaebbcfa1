/* Sums over replicas that go to other instances in one message. What a sum reads is there already when an
 * earlier one runs, if nothing between them writes to it: then both are exchanged at the earlier one's place,
 * and each is combined at its own. Elements are added in a fixed order, so no bit changes. */
#include "program/buckets.h"

#include <string.h>

#include "program/program.h"
#include "program/replicas.h"
#include "program/step.h"

/* Beyond so many bytes from each instance to the others the chain is faster than everybody's to everybody. */
enum { GATHER_BYTES = 128 << 10, GATHER_BYTES_OF_TWO = 1 << 20 };

size_t program_gather_bytes(const Program *p) {
  int instances = p->all_replicas / p->replicas;
  if (instances < 2) return 0;
  size_t most = instances == 2 ? GATHER_BYTES_OF_TWO : GATHER_BYTES;
  return most / (size_t)(p->replicas * (instances - 1));
}

static bool is_sum(const Phase *p, size_t most) {
  if (p->kind != PHASE_MEETING || p->step[0]->kind != STEP_OP) return false;
  const Call *c = &p->step[0]->call;
  return p->step[0]->node->op->meet_far && c->attr[0].kind == ATTR_NONE && c->in[0] &&
         type_bytes(c->in_type[0]) <= most;
}

typedef struct Range {
  const char *begin, *end;
} Range;

static bool overlaps(const Range *r, const void *data, size_t bytes) {
  const char *at = data;
  return at && at < r->end && at + bytes > r->begin;
}

static bool chain_writes(const Chain *c, const Range *r) {
  for (int i = 0; i < c->slot_count; i++) {
    const ChainSlot *s = &c->slot[i];
    if (s->is_written && overlaps(r, s->data, (size_t)c->count * dtype_size(s->dtype))) return true;
  }
  return false;
}

static bool gemm_writes(const GemmStep *g, const Range *r) {
  size_t bytes = (size_t)(g->gemm.m * g->gemm.c_row) * dtype_size(g->dtype);
  return overlaps(r, g->gemm.c, bytes) || (g->epilogue && chain_writes(g->epilogue, r));
}

static bool call_writes(const Call *c, const Range *r) {
  for (int i = 0; i < c->out_count; i++)
    if (overlaps(r, c->out[i], type_bytes(c->out_type[i]))) return true;
  return false;
}

/* Whether a step may change memory of that range; of those with steps inside nobody looks. */
static bool step_writes(const Step *s, const Range *r) {
  switch (s->kind) {
    case STEP_OP:
      return call_writes(&s->call, r);
    case STEP_CHAIN:
      return chain_writes(s->chain, r);
    case STEP_GEMM:
      return gemm_writes(s->gemm, r);
    case STEP_COPY:
      return overlaps(r, s->cell[1], s->copy_bytes);
    default:
      return true;
  }
}

static bool phase_writes(const Phase *p, const Range *r) {
  for (int i = 0; i < p->count; i++)
    if (step_writes(&p->step[0][i], r)) return true;
  return false;
}

/* Whether what phase `at` reads is there at phase `from`. */
static bool is_there(const Phases *list, int from, int at) {
  const Call *c = &list->phase[at].step[0]->call;
  Range r = {c->in[0], (const char *)c->in[0] + type_bytes(c->in_type[0])};
  for (int i = from; i < at; i++)
    if (phase_writes(&list->phase[i], &r)) return false;
  return true;
}

/* Larger ones go along the chain by themselves, in between. */
static bool may_pass(const Phase *p) { return p->kind == PHASE_LOCAL || is_sum(p, SIZE_MAX); }

/* The sums that are exchanged at phase `first`, itself among them: their number. */
static int members_of(const Phases *list, int first, size_t most, int *member) {
  size_t bytes = 0;
  int count = 0;
  for (int i = first; i < list->count && may_pass(&list->phase[i]); i++) {
    Phase *p = &list->phase[i];
    if (!is_sum(p, most) || p->bucket) continue;
    size_t more = type_bytes(p->step[0]->call.in_type[0]);
    if (bytes + more > most || !is_there(list, first, i)) continue;
    bytes += more;
    if (member) member[count] = i;
    count++;
  }
  return count;
}

bool buckets_find(const Program *p, Phases *list) {
  size_t most = program_gather_bytes(p);
  for (int i = 0; i < list->count; i++) {
    if (!is_sum(&list->phase[i], most) || list->phase[i].bucket) continue;
    int count = members_of(list, i, most, NULL);
    if (count < 2) continue;
    Bucket *b = arena_alloc(p->arena, sizeof *b);
    int *member = arena_alloc(p->arena, (size_t)count * sizeof *member);
    if (!b || !member) return false;
    members_of(list, i, most, member);
    *b = (Bucket){.count = count, .member = member};
    for (int k = 0; k < count; k++) {
      Phase *each = &list->phase[member[k]];
      each->bucket = b;
      each->place = k;
      each->ahead = b->bytes;
      b->bytes += type_bytes(each->step[0]->call.in_type[0]);
    }
  }
  return true;
}
