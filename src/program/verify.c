/* Checks a program: steps are in order, every pointer is linked to a live buffer, and no two live
 * buffers share an address. */
#include "program/verify.h"

#include <stdlib.h>

#include "graph/control.h"
#include "program/memory.h"
#include "program/program.h"
#include "program/step.h"

static Status bad(Error *e, const Program *p, const char *what, int a, int b) {
  return fail(e, ERR_INTERNAL, "lowering left a broken program '%s': %s (%d, %d)", p->name, what, a,
              b);
}

static int by_offset(const void *a, const void *b) {
  const Buffer *x = *(const Buffer *const *)a, *y = *(const Buffer *const *)b;
  return (x->offset > y->offset) - (x->offset < y->offset);
}

static Status check_memory(Error *e, const Program *p, bool remote) {
  size_t bytes = remote ? p->remote_bytes : p->memory_bytes;
  const Buffer **sorted = calloc((size_t)p->buffer_count + 1, sizeof *sorted);
  if (!sorted) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  int count = 0;
  Status s = OK;
  for (int i = 0; i < p->buffer_count; i++) {
    const Buffer *b = &p->buffer[i];
    if (b->kind != BUFFER_ARENA || b->first < 0 || b->bytes == 0 || b->remote != remote) continue;
    sorted[count++] = b;
    if (b->offset < 0 || (size_t)b->offset + b->bytes > bytes)
      s = bad(e, p, "a buffer lies outside of the memory", i, 0);
    if (b->first > b->last) s = bad(e, p, "a buffer ends before it begins", i, 0);
  }
  qsort(sorted, (size_t)count, sizeof *sorted, by_offset);
  for (int i = 0; i < count && s == OK; i++)
    for (int k = i + 1;
         k < count && sorted[k]->offset < sorted[i]->offset + (int64_t)sorted[i]->bytes && s == OK;
         k++)
      if (buffers_overlap(sorted[i], sorted[k]))
        s = bad(e, p, "two live buffers share bytes", (int)(sorted[i] - p->buffer),
                (int)(sorted[k] - p->buffer));
  free(sorted);
  return s;
}

static Status check_links(Error *e, const Program *p) {
  for (int i = 0; i < p->link_count; i++) {
    int b = p->link[i].buffer;
    if (b < 0 || b >= p->buffer_count || !p->link[i].where)
      return bad(e, p, "a link leads to no buffer", i, b);
    if (p->buffer[b].first < 0) return bad(e, p, "a linked buffer is never live", i, b);
  }
  return OK;
}

/* A block for each region that runs, of pipelines two for each pass. */
static int blocks_of(const Step *s) {
  ControlRegions c = {.count = 0};
  int count = 0;
  if (s->node && s->node->op->traits & CONTROL && s->kind != STEP_COPY)
    c = control_regions(s->node);
  if (c.count && control_plan(s->node)) return 2 * s->pipeline->pass_count;
  while (control_running(&c, count)) count++;
  return count;
}

static Status check_block(Error *e, const Program *p, const Block *b, int *position) {
  Status s = OK;
  for (int i = 0; i < b->count && s == OK; i++) {
    const Step *step = &b->step[i];
    if (step->position < *position)
      return bad(e, p, "steps are out of order", step->position, *position);
    *position = step->position;
    if (!step->node && step->kind != STEP_COPY)
      return bad(e, p, "a step has no node", step->position, (int)step->kind);
    if (step->nested_count != blocks_of(step))
      return bad(e, p, "a step lacks a block", step->position, (int)step->kind);
    /* dequeues of a pass are taken from among its other steps */
    for (int k = 0; k < step->nested_count && !step->nested[k].pass && s == OK; k++)
      s = check_block(e, p, step->nested[k].block, position);
  }
  return s;
}

Status program_verify(Error *e, const Program *p) {
  int position = 0;
  Status s = check_block(e, p, &p->main, &position);
  if (s == OK) s = check_links(e, p);
  if (s == OK) s = check_memory(e, p, false);
  return s == OK ? check_memory(e, p, true) : s;
}
