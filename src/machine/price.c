#include "machine/price.h"

#include <stdlib.h>

#include "machine/memory.h"
#include "machine/time.h"
#include "machine/walk.h"
#include "program/program.h"

static Price *new_price(const Program *program, const Machine *m) {
  Price *p = calloc(1, sizeof *p);
  if (!p || !(p->arena = arena_new())) {
    free(p);
    return NULL;
  }
  p->machine = *m;
  p->program = program;
  p->name = arena_string(p->arena, program->name);
  return p;
}

static bool make_lists(Price *p) {
  p->ipu = arena_alloc(p->arena, (size_t)p->shards * sizeof *p->ipu);
  p->stage = arena_alloc(p->arena, (size_t)(p->stage_count + 1) * sizeof *p->stage);
  return p->ipu && p->stage;
}

Price *price_program(Error *e, const Program *program, const Machine *m) {
  Price *p = new_price(program, m);
  Status s = p ? walk_program(e, p, program)
               : fail(e, ERR_OUT_OF_MEMORY, "out of memory while pricing '%s'", program->name);
  if (s == OK && !make_lists(p)) s = ERR_OUT_OF_MEMORY;
  if (s == OK) s = price_time(e, p);
  if ((s == OK && !price_memory(p)) || s == ERR_OUT_OF_MEMORY)
    s = fail(e, ERR_OUT_OF_MEMORY, "out of memory while pricing '%s'", program->name);
  p = s == OK ? p : (price_free(p), NULL);
  return p;
}

void price_free(Price *p) {
  if (!p) return;
  for (int i = 0; i < p->step_count; i++)
    if (p->step[i].plan) object_release(&p->step[i].plan->object);
  if (p->plan) object_release(&p->plan->object);
  graph_free(p->graph);
  arena_free(p->arena);
  free(p);
}
