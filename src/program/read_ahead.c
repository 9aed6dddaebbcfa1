#include "program/read_ahead.h"

#include <stdlib.h>

#include "program/addresses.h"
#include "program/program.h"
#include "program/step.h"

enum { ALIGNMENT = 64 };

/* The facts of a program that decide: other readers of the queue, and calls of the script. */
typedef struct Survey {
  const Object *queue;
  int dequeues;
  bool calls_host;
} Survey;

static bool survey(Step *s, void *context) {
  Survey *v = context;
  if (s->kind == STEP_DEQUEUE && s->node->attr[0].object == v->queue) v->dequeues++;
  if (s->kind == STEP_OP && (s->node->op->traits & STATEFUL)) v->calls_host = true;
  return false;
}

/* Passes of pipelines have buffers of their own. */
static int last_position(const Block *b) {
  int last = -1;
  for (int i = 0; i < b->count; i++) {
    const Step *s = &b->step[i];
    if (s->position > last) last = s->position;
    for (int k = 0; k < s->nested_count; k++) {
      int inside = s->nested[k].pass ? -1 : last_position(s->nested[k].block);
      if (inside > last) last = inside;
    }
  }
  return last;
}

/* The links of the buffer that *where points into. */
static void find_links(const Program *p, const void *where, int *from, int *to) {
  int buffer = -1;
  for (int i = 0; i < p->link_count && buffer < 0; i++)
    if (p->link[i].where == where) buffer = p->link[i].buffer;
  lower_links_of(p, buffer, from, to);
}

/* No value is kept there from one iteration to the next, nor after the loop. */
static bool lives_within(const Program *p, int from, int to, const Step *s, const Block *body) {
  if (from == to) return false;
  const Buffer *b = &p->buffer[p->link[from].buffer];
  return b->kind == BUFFER_ARENA && b->copies == 1 && b->lane < 0 && !b->remote &&
         b->first == s->position && b->last <= last_position(body);
}

static size_t place_components(ReadAhead *a, char *memory) {
  size_t at = 0;
  for (int k = 0; k < 2; k++)
    for (int c = 0; c < a->feed->count; c++) {
      if (memory) a->buffer[k][c] = memory + at;
      at += (type_bytes(&a->feed->type[c]) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
  return at;
}

static Status make(Error *e, Program *p, Step *s, const Block *body) {
  Feed *feed = (Feed *)s->node->attr[0].object;
  Survey v = {.queue = s->node->attr[0].object};
  block_find(&p->main, survey, &v);
  if (v.calls_host || v.dequeues != 1 || !feed->may_read_aside) return OK;
  size_t count = (size_t)feed->count;
  ReadAhead *a = arena_alloc(p->arena, sizeof *a);
  if (a)
    *a = (ReadAhead){.feed = feed,
                     .links = arena_alloc(p->arena, 2 * count * sizeof *a->links),
                     .buffer = {arena_alloc(p->arena, count * sizeof(void *)),
                                arena_alloc(p->arena, count * sizeof(void *))}};
  if (!a || !a->links || !a->buffer[0] || !a->buffer[1] ||
      !array_reserve(&p->ahead, &p->ahead_capacity, p->ahead_count + 1, sizeof *p->ahead))
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory while compiling '%s'", p->name);
  for (int c = 0; c < feed->count; c++) {
    int *from = &a->links[2 * c], *to = from + 1;
    find_links(p, &s->call.out[c], from, to);
    if (!lives_within(p, *from, *to, s, body)) return OK;
  }
  size_t bytes = place_components(a, NULL);
  /* then without */
  if (posix_memalign((void **)&a->memory, ALIGNMENT, bytes ? bytes : ALIGNMENT)) return OK;
  place_components(a, a->memory);
  p->ahead[p->ahead_count++] = a;
  s->ahead = a;
  return OK;
}

/* In a loop that is known to go on: not in one whose end is computed. */
static Status find(Error *e, Program *p, Block *b, bool repeated) {
  Status status = OK;
  for (int i = 0; i < b->count && status == OK; i++) {
    Step *s = &b->step[i];
    if (s->kind == STEP_DEQUEUE && repeated && !s->ahead) status = make(e, p, s, b);
    for (int k = 0; k < s->nested_count && !s->nested[k].pass && status == OK; k++)
      status = find(e, p, s->nested[k].block, step_repeats_alone(s));
  }
  return status;
}

Status read_ahead_make(Error *e, Program *p) {
  return p->replicas > 1 || p->replica ? OK : find(e, p, &p->main, false);
}

void read_ahead_free(Program *p) {
  for (int i = 0; i < p->ahead_count; i++) free(p->ahead[i]->memory);
  free(p->ahead);
}
