#include "machine/price.h"

#include <stdlib.h>
#include <string.h>

#include "machine/rows.h"

const char *row_kind_name(RowKind k) {
#define X(id, name) [ROW_##id] = name,
  static const char *const names[] = {ROW_KINDS(X)};
#undef X
  return names[k];
}

const char *row_name(const Row *r) { return r->kind == ROW_OP ? r->node->op->name : row_kind_name(r->kind); }

const char *row_source(const Row *r) { return r->node && r->node->source ? r->node->source : ""; }

const char *held_name(const Held *h) {
  if (h->variable) return h->variable->name;
  if (h->category == BYTES_STASH) return "activations kept for the backward pass";
  if (!h->node) return "argument";
  if (node_is_input(h->node)) return h->node->name ? h->node->name : "argument";
  return h->node->name && *h->node->name ? h->node->name : h->node->op->name;
}

const char *held_source(const Held *h) { return h->node && h->node->source ? h->node->source : ""; }

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
  Status s = p ? walk_program(e, p, program) : fail(e, ERR_OUT_OF_MEMORY, "out of memory while pricing '%s'", program->name);
  if (s == OK && (!make_lists(p) || !price_time(p) || !price_memory(p)))
    s = fail(e, ERR_OUT_OF_MEMORY, "out of memory while pricing '%s'", program->name);
  p = s == OK ? p : (price_free(p), NULL);
  return p;
}

void price_free(Price *p) {
  if (!p) return;
  arena_free(p->arena);
  free(p);
}
