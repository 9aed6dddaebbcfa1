/* A program as text: a line a step, regions indented. */
#include "program/text.h"

#include <stdio.h>
#include <stdlib.h>

#include "program/program.h"
#include "program/region.h"
#include "program/replicas.h"
#include "program/step.h"
#include "program/timetable.h"

static void print_chain(FILE *f, const Chain *c) {
  fprintf(f, " %d step%s over", c->step_count, c->step_count == 1 ? "" : "s");
  for (int i = 0; i < c->rank; i++) fprintf(f, " %lld", (long long)c->extent[i]);
}

static void print_transfer(FILE *f, const Step *s) {
  const Value *v = s->kind == STEP_LOAD ? s->node->out : s->node->in[0];
  fprintf(f, " %zu bytes%s", type_bytes(&v->type), s->call.out_count ? "" : " in place");
}

typedef struct Listing {
  FILE *file;
  int steps; /* so far */
} Listing;

static void print_block(Listing *l, const Block *b, int depth);

static void print_pass(Listing *l, const PipelineStep *s, const Pass *p, int depth) {
  fprintf(l->file, "%*s     %s of position %d on lane %d\n", depth * 2, "",
          p->program < s->plan->positions ? "forward" : "backward",
          plan_position_of_program(s->plan, p->program), p->lane);
}

static void print_line(FILE *f, const Step *s) {
  char type[TYPE_TEXT];
  fprintf(f, " %-8s", step_kind_name(s->kind));
  if (s->kind == STEP_CHAIN) print_chain(f, s->chain);
  if (s->kind == STEP_GEMM) {
    const Gemm *m = &s->gemm->gemm;
    fprintf(f, " %lldx%lldx%lld", (long long)m->m, (long long)m->n, (long long)m->k);
    if (s->gemm->epilogue) print_chain(f, s->gemm->epilogue);
  }
  if (s->kind == STEP_COPY) fprintf(f, " %zu bytes", s->copy_bytes);
  if (s->kind == STEP_LOAD || s->kind == STEP_STORE) print_transfer(f, s);
  if (s->node) {
    fprintf(f, "  %s", s->node->op->name);
    if (s->node->out_count) fprintf(f, " %s", type_text(&s->node->out[0].type, type));
    if (s->node->place.shard >= 0) fprintf(f, " on shard %d", s->node->place.shard);
    if (s->node->source) fprintf(f, "  (%s)", s->node->source);
  }
  fputc('\n', f);
}

static void print_step(Listing *l, const Step *s, int depth) {
  fprintf(l->file, "%*s%4d", depth * 2, "", ++l->steps);
  print_line(l->file, s);
  for (int i = 0; i < s->nested_count; i++) {
    const Nested *inner = &s->nested[nested_shown(s, i)];
    if (inner->pass && i % 2 == 0) print_pass(l, s->pipeline, inner->pass, depth);
    if (!inner->pass && i > 0) fprintf(l->file, "%*s     --\n", depth * 2, "");
    print_block(l, inner->block, depth + 1);
  }
}

static void print_block(Listing *l, const Block *b, int depth) {
  for (int i = 0; i < b->count; i++) print_step(l, &b->step[i], depth);
}

/* A value that an op of another IPU reads is copied there, once for each IPU. */
static bool is_copied_before(const Graph *g, int reader, const Value *v, int shard) {
  for (int i = 0; i < reader; i++)
    for (int k = 0; g->node[i]->place.shard == shard && k < g->node[i]->in_count; k++)
      if (value_root(g->node[i]->in[k]) == v) return true;
  return false;
}

static void print_moves(FILE *f, const Graph *g) {
  char type[TYPE_TEXT];
  for (int i = 0; i < g->node_count; i++) {
    const Node *n = g->node[i];
    for (int k = 0; n->place.shard >= 0 && k < n->in_count; k++) {
      const Value *v = value_root(n->in[k]);
      int from = v->node->place.shard;
      if (from < 0 || from == n->place.shard || !node_is_made(v->node)) continue;
      if (is_copied_before(g, i, v, n->place.shard)) continue;
      fprintf(f, "     inter-IPU copy of %s %s from shard %d to shard %d\n", v->node->op->name,
              type_text(&v->type, type), from, n->place.shard);
    }
  }
  for (int i = 0; i < g->region_count; i++) print_moves(f, g->region[i]);
}

char *program_text(const Program *p) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return NULL;
  const char *plural[] = {"s", ""};
  fprintf(
      f,
      "program %s: %d step%s, %.1f KiB of working memory, %d variable%s, %d replica%s of %d IPU%s\n",
      p->name, p->step_count, plural[p->step_count == 1], (double)p->memory_bytes / 1024,
      p->variable_count, plural[p->variable_count == 1], p->replicas, plural[p->replicas == 1],
      program_shards(p), plural[program_shards(p) == 1]);
  if (p->remote_bytes)
    fprintf(f, "     %.1f KiB of streaming memory\n", (double)p->remote_bytes / 1024);
  print_block(&(Listing){.file = f}, &p->main, 0);
  print_moves(f, p->graph);
  fclose(f);
  return text;
}
