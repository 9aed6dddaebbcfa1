/* Sums over replicas that go to other instances in one message. If no step between two sums writes
 * to the later one's operand, both are exchanged at the earlier one's step. Each is combined at its
 * own step. Elements are added in a fixed order, so no bit changes. */
#include "program/buckets.h"

#include <string.h>

#include "dist/instances.h"
#include "dist/shared.h"
#include "program/addresses.h"
#include "program/program.h"
#include "program/replicas.h"
#include "program/step.h"

/* Beyond this many bytes from each instance to the others, the chain is faster than sending from
 * each to each. Shared memory is read in place: with two replicas that moves no more than the
 * chain. */
enum { LINE = 64 };
enum {
  GATHER_BYTES = 128 << 10,
  GATHER_BYTES_OF_TWO = 1 << 20,
  READ_BYTES = 4 << 20,
  READ_BYTES_OF_TWO = 16 << 20,
  BUCKETS_OF_WINDOW = 4, /* of the largest, each with two buffers */
};

static size_t max_read(const Program *p, size_t others) {
  size_t max = (others <= 2 ? READ_BYTES_OF_TWO : READ_BYTES) / others;
  size_t room = p->window_bytes / BUCKETS_OF_WINDOW / (size_t)p->replicas;
  return room < max ? room : max;
}

size_t program_gather_bytes(const Program *p) {
  int instances = p->all_replicas / p->replicas;
  if (instances < 2) return 0;
  if (p->window_bytes) return max_read(p, (size_t)p->replicas * (size_t)(instances - 1));
  size_t max = instances == 2 ? GATHER_BYTES_OF_TWO : GATHER_BYTES;
  return max / (size_t)(p->replicas * (instances - 1));
}

static bool is_sum(const Phase *p, size_t max) {
  if (p->kind != PHASE_COLLECTIVE || p->step[0]->kind != STEP_OP) return false;
  const Call *c = &p->step[0]->call;
  return p->step[0]->node->op->eval_collective_far && c->attr[0].kind == ATTR_NONE && c->in[0] &&
         type_bytes(c->in_type[0]) <= max;
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

/* Whether a step may change memory of that range. Steps with steps inside are taken to change
 * it. */
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

/* Whether the operand of phase `at` is there at phase `from`. */
static bool is_there(const Phases *list, int from, int at) {
  const Call *c = &list->phase[at].step[0]->call;
  Range r = {c->in[0], (const char *)c->in[0] + type_bytes(c->in_type[0])};
  for (int i = from; i < at; i++)
    if (phase_writes(&list->phase[i], &r)) return false;
  return true;
}

/* Larger ones go along the chain by themselves, in between: messages that have arrived stay
 * meanwhile, boards of shared memory don't. */
static bool may_pass(const Program *p, const Phase *phase, size_t max) {
  if (phase->kind == PHASE_LOCAL) return true;
  return !p->window_bytes && is_sum(phase, SIZE_MAX) && !is_sum(phase, max);
}

/* The number of sums that are exchanged at phase `first`, itself included. Another exchange would
 * overwrite the data that has arrived. */
static int members_of(const Program *p, const Phases *list, int first, int *member) {
  size_t bytes = 0, max = program_gather_bytes(p);
  int count = 0;
  for (int i = first; i < list->count; i++) {
    const Phase *phase = &list->phase[i];
    if (may_pass(p, phase, max)) continue;
    size_t more = is_sum(phase, max) ? type_bytes(phase->step[0]->call.in_type[0]) : 0;
    if (!is_sum(phase, max) || bytes + more > max || !is_there(list, first, i)) break;
    bytes += more;
    if (member) member[count] = i;
    count++;
  }
  return count;
}

size_t bucket_stride(const Phase *member) {
  return (type_bytes(member->step[0]->call.in_type[0]) + LINE - 1) / LINE * LINE;
}

static void add_member(Bucket *b, Phase *each, int replicas) {
  each->bucket = b;
  each->place = b->count++;
  each->ahead = b->bytes;
  each->line = b->lines;
  b->bytes += type_bytes(each->step[0]->call.in_type[0]);
  b->lines += bucket_stride(each) * (size_t)replicas;
}

bool buckets_find(const Program *p, Replication *r, Phases *list) {
  size_t max = program_gather_bytes(p);
  for (int i = 0; i < list->count; i++) {
    if (!is_sum(&list->phase[i], max) || list->phase[i].bucket) continue;
    int count = members_of(p, list, i, NULL);
    Bucket *b = arena_alloc(p->arena, sizeof *b);
    int *member = arena_alloc(p->arena, (size_t)count * sizeof *member);
    if (!b || !member) return false;
    members_of(p, list, i, member);
    *b = (Bucket){.member = member, .next = r->bucket};
    for (int k = 0; k < count; k++) add_member(b, &list->phase[member[k]], r->count);
    r->bucket = b;
  }
  return true;
}

/* ---- in shared memory ---- */

/* The links of the buffer that a sum reads, if it is the program's own and has no later reader. */
static bool movable_links(const Program *p, const Step *sum, int *from, int *to) {
  const Buffer *b = NULL;
  for (int i = 0; i < p->link_count && !b; i++)
    if (p->link[i].where == (void **)(uintptr_t)&sum->call.in[0])
      lower_links_of(p, p->link[i].buffer, from, to), b = &p->buffer[p->link[i].buffer];
  bool own = b && b->kind == BUFFER_ARENA && !b->remote && b->lane < 0 && b->copies <= 1;
  for (int i = *from; own && i < *to; i++) own = !p->link[i].pass;
  return own && b->last <= sum->position;
}

static bool add_links(const Replication *r, const Phase *member, int replica, Bucket *b) {
  const Program *p = r->instance[replica];
  int from = 0, to = 0;
  if (!movable_links(p, member->step[replica], &from, &to)) return true;
  if (!arena_reserve(r->instance[0]->arena, &b->link, &b->link_capacity, b->link_count + to - from,
                     sizeof *b->link))
    return false;
  for (int i = from; i < to; i++)
    b->link[b->link_count++] =
        (BucketLink){p->link[i].where, member->line + (size_t)replica * bucket_stride(member)};
  return true;
}

static void point(const Bucket *b) {
  for (int i = 0; i < b->link_count; i++) *b->link[i].where = b->buffer[b->now] + b->link[i].at;
}

bool bucket_place(struct Instances *t, const Replication *r, const Phases *list, Bucket *b) {
  if (b->tried) return true;
  b->tried = true;
  b->instances = t;
  for (int i = 0; i < b->count; i++)
    for (int k = 0; k < r->count; k++)
      if (!add_links(r, &list->phase[b->member[i]], k, b)) return false;
  for (int i = 0; i < 2; i++) b->buffer[i] = instances_allocate(t, b->lines);
  if (b->buffer[0] && b->buffer[1]) return true;
  for (int i = 0; i < 2; i++) instances_release(t, b->buffer[i]), b->buffer[i] = NULL;
  return true;
}

void bucket_complete(const Replication *r, const Phases *list, const Bucket *b) {
  for (int i = 0; i < b->count; i++) {
    const Phase *member = &list->phase[b->member[i]];
    for (int k = 0; k < r->count; k++) {
      const Call *c = &member->step[k]->call;
      char *to = b->buffer[b->now] + member->line + (size_t)k * bucket_stride(member);
      if (c->in[0] != to) memcpy(to, c->in[0], type_bytes(c->in_type[0]));
    }
  }
}

void bucket_turn(Bucket *b) {
  b->now = !b->now;
  point(b);
}

void buckets_release(Bucket *first) {
  for (Bucket *b = first; b; b = b->next)
    for (int i = 0; i < 2; i++)
      if (b->buffer[i]) instances_release(b->instances, b->buffer[i]);
}
