#include "machine/price.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/memory.h"
#include "machine/time.h"
#include "machine/walk.h"
#include "program/program.h"

const char *priced_kind_name(PricedKind k) {
#define X(id, name) [PRICED_##id] = name,
  static const char *const names[] = {PRICED_KINDS(X)};
#undef X
  return names[k];
}

const char *priced_name(const PricedStep *r) {
  if (r->kind == PRICED_HOST_IN && !r->node && r->bytes == 0) return "call from the host";
  return r->kind == PRICED_OP || (r->kind == PRICED_STREAMING && r->node)
             ? r->node->op->name
             : priced_kind_name(r->kind);
}

const char *priced_source(const PricedStep *r) {
  return r->node && r->node->source ? r->node->source : "";
}

const char *allocation_name(const Allocation *h) {
  if (h->variable) return h->variable->name;
  if (h->category == BYTES_STASH) return "activations kept for the backward pass";
  if (!h->node) return "argument";
  if (node_is_input(h->node)) return h->node->name ? h->node->name : "argument";
  return h->node->name && *h->node->name ? h->node->name : h->node->op->name;
}

const char *allocation_label(const Allocation *h, char room[256]) {
  const char *name = allocation_name(h);
  size_t length = strlen(name);
  if (!length || name[length - 1] != '/' || !h->node) return name;
  snprintf(room, 256, "%s%s", name, h->node->op->name);
  return room;
}

const char *allocation_source(const Allocation *h) {
  return h->node && h->node->source ? h->node->source : "";
}

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
