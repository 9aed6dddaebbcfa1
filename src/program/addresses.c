/* One memory plan for all buffers of a program. Then every pointer is set, or linked to the
 * argument that it will be bound to. */
#include "program/addresses.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "program/lower.h"
#include "program/memory.h"
#include "program/program.h"
#include "program/read_ahead.h"
#include "program/step.h"

static int by_argument(const void *a, const void *b) {
  const Link *x = a, *y = b;
  return x->buffer != y->buffer ? (x->buffer > y->buffer) - (x->buffer < y->buffer)
                                : (x->where > y->where) - (x->where < y->where);
}

static char *home_of(const Program *p, const Buffer *b) {
  return b->remote ? p->remote : p->memory;
}

static void add_stash(Lower *l, const Link *link, const Buffer *b) {
  Pass *q = link->pass;
  if (!arena_reserve(l->p->arena, &q->stash, &q->stash_capacity, q->stash_count + 1,
                     sizeof *q->stash)) {
    lower_no_memory(l);
    return;
  }
  q->stash[q->stash_count++] = (StashLink){link->where, home_of(l->p, b) + b->offset,
                                           b->bytes / (size_t)b->copies, b->copies};
}

/* A lane alone uses the whole team, side by side each its own. */
static int slots_for(const Program *p, int threads) {
  return threads + (p->lanes ? p->lanes - 1 : 0);
}

static bool make_slots(Program *p, int threads) {
  char *slots = NULL;
  if (posix_memalign((void **)&slots, 64, p->slot_bytes * (size_t)slots_for(p, threads) + 64))
    return false;
  free(p->slots);
  p->slots = slots;
  p->slot_count = slots_for(p, threads);
  return true;
}

/* Huge pages if a block has room for one. They cause fewer faults and fewer address
 * translations. */
static char *working_memory(size_t bytes) {
  enum { HUGE_PAGE = 2 << 20 };
  bool huge = bytes >= HUGE_PAGE;
  size_t alignment = huge ? HUGE_PAGE : 64, rounded = (bytes + alignment) / alignment * alignment;
  void *memory = NULL;
  if (!memory_has_room(rounded) || posix_memalign(&memory, alignment, rounded)) return NULL;
  if (huge) madvise(memory, rounded, MADV_HUGEPAGE); /* advice: failure changes nothing */
  return memory;
}

static Status plan_and_point(Lower *l) {
  Program *p = l->p;
  size_t bytes = p->memory_bytes = plan_memory(p->buffer, p->buffer_count, false);
  p->remote_bytes = plan_memory(p->buffer, p->buffer_count, true);
  if (bytes == SIZE_MAX || p->remote_bytes == SIZE_MAX) return lower_no_memory(l);
  p->slot_bytes = (p->slot_bytes + 63) / 64 * 64;
  p->memory = working_memory(bytes);
  if (p->remote_bytes && !(p->remote = working_memory(p->remote_bytes)))
    return fail(l->error, ERR_OUT_OF_MEMORY, "'%s' needs %.1f MiB of streaming memory", p->name,
                (double)p->remote_bytes / 1048576);
  if (!p->memory || !make_slots(p, l->threads))
    return fail(l->error, ERR_OUT_OF_MEMORY, "'%s' needs %.1f MiB of working memory", p->name,
                (double)bytes / 1048576);
  if (p->link_count) qsort(p->link, (size_t)p->link_count, sizeof *p->link, by_argument);
  for (int i = 0; i < p->link_count; i++) {
    const Buffer *b = &p->buffer[p->link[i].buffer];
    void *data = b->kind == BUFFER_ARENA      ? home_of(p, b) + b->offset
                 : b->kind == BUFFER_CONSTANT ? b->data
                                              : NULL;
    *p->link[i].where = data;
    if (b->copies > 1) add_stash(l, &p->link[i], b);
  }
  return l->error->status;
}

void lower_links_of(const Program *p, int buffer, int *from, int *to) {
  int at = 0, end = p->link_count;
  while (at < end) {
    int middle = at + (end - at) / 2;
    if (p->link[middle].buffer < buffer) at = middle + 1;
    else end = middle;
  }
  *from = at;
  while (at < p->link_count && p->link[at].buffer == buffer) at++;
  *to = at;
}

/* Where the links of each bound buffer begin in the sorted list. */
static Status index_bindings(Lower *l) {
  Program *p = l->p;
  int count = p->argument_count + p->variable_count + p->result_count;
  p->link_begin = arena_alloc(p->arena, (size_t)(2 * count + 2) * sizeof *p->link_begin);
  if (!p->link_begin) return lower_no_memory(l);
  for (int i = 0; i < count; i++)
    lower_links_of(p, p->binding[i].buffer, &p->link_begin[2 * i], &p->link_begin[2 * i + 1]);
  return OK;
}

/* Scratch never moves: hand it to the steps once. */
static void give_scratch(Program *p, const Block *b, int lane) {
  for (int i = 0; i < b->count; i++) {
    Step *s = &b->step[i];
    if (s->kind == STEP_GEMM) {
      s->gemm->gemm.slots = p->slots + (size_t)lane * p->slot_bytes;
      s->gemm->gemm.slot_bytes = p->slot_bytes;
    } else if (s->kind == STEP_OP && s->cell) {
      s->call.scratch = *s->cell;
    }
    for (int k = 0; k < s->nested_count; k++) {
      const Pass *pass = s->nested[k].pass;
      give_scratch(p, s->nested[k].block, pass ? pass->lane : lane);
    }
  }
}

/* Bytes of all buffers. If they exceed a second-level cache, products never find their operands in
 * it. */
static bool outgrows_cache(const Program *p) {
  size_t bytes = p->memory_bytes;
  for (int i = 0; i < p->buffer_count; i++)
    if (p->buffer[i].kind != BUFFER_ARENA && p->buffer[i].first >= 0) bytes += p->buffer[i].bytes;
  long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > (cache > 0 ? (size_t)cache : 1 << 20);
}

/* Each product gets the operand of the next one to fetch. The last one of a loop gets the first
 * one's. */
static void chain_products(const Block *b, bool loops) {
  Gemm *first = NULL, *last = NULL;
  for (int i = 0; i < b->count; i++) {
    Step *s = &b->step[i];
    if (s->kind == STEP_GEMM) {
      if (last) last->next = &s->gemm->gemm;
      else first = &s->gemm->gemm;
      last = &s->gemm->gemm;
    }
    for (int k = 0; k < s->nested_count; k++)
      chain_products(s->nested[k].block, step_repeats_alone(s));
  }
  if (last && loops) last->next = first;
}

Status lower_addresses(Lower *l) {
  Status s = plan_and_point(l);
  if (s == OK) s = index_bindings(l);
  if (s == OK) give_scratch(l->p, &l->p->main, 0);
  if (s == OK && outgrows_cache(l->p)) chain_products(&l->p->main, false);
  if (s == OK && l->threads > 1) s = read_ahead_make(l->error, l->p);
  return s;
}

Status program_fit_team(Error *e, Program *p, int threads) {
  if (p->outline || slots_for(p, threads) <= p->slot_count) return OK;
  if (!make_slots(p, threads))
    return fail(e, ERR_OUT_OF_MEMORY, "'%s': out of memory for %d threads", p->name, threads);
  give_scratch(p, &p->main, 0);
  return read_ahead_make(e, p);
}
