/* A program for Graphviz. Steps are boxes, in a frame for each loop, branch, call and pass of a
 * pipeline. Arrows go from the step that makes a value to its readers. */
#include "program/dot.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph/control.h"
#include "program/program.h"
#include "program/region.h"
#include "program/step.h"
#include "program/timetable.h"

/* The step that makes a node's values. A node of a chain whose values no other node reads has
 * none. */
typedef struct Maker {
  const Node *node;
  int position;
} Maker;

typedef struct Drawing {
  FILE *file;
  const Program *program;
  Maker *maker; /* by node */
  int count, capacity;
  const Node **seen; /* by the current step */
  int seen_count, seen_capacity;
  int *arrow; /* by position: which step the last arrow from there went to */
  int positions;
  int boxes, frames; /* drawn so far */
  bool failed;
} Drawing;

static void add_maker(Drawing *d, const Node *n, int position) {
  if (!n || d->failed) return;
  d->failed = !array_reserve(&d->maker, &d->capacity, d->count + 1, sizeof *d->maker);
  if (!d->failed) d->maker[d->count++] = (Maker){n, position};
}

static int by_node(const void *a, const void *b) {
  const Maker *x = a, *y = b;
  if (x->node != y->node) return (uintptr_t)x->node < (uintptr_t)y->node ? -1 : 1;
  return (x->position > y->position) - (x->position < y->position);
}

static int maker_of(const Drawing *d, const Node *n) {
  int low = 0, high = d->count;
  while (low < high) {
    int middle = (low + high) / 2;
    if ((uintptr_t)d->maker[middle].node < (uintptr_t)n) low = middle + 1;
    else high = middle;
  }
  return low < d->count && d->maker[low].node == n ? d->maker[low].position : -1;
}

static bool find_maker(Step *s, void *drawing) {
  Drawing *d = drawing;
  if (s->kind != STEP_COPY) add_maker(d, s->node, s->position);
  if (s->position >= d->positions) d->positions = s->position + 1;
  return false;
}

/* Inputs of a loop's or branch's body come from its step. */
static bool find_inputs(Step *s, void *drawing) {
  ControlRegions c = {.count = 0};
  if (s->nested_count && s->node) c = control_regions(s->node);
  for (int r = 0; r < c.count; r++)
    for (int i = 0; i < c.region[r].graph->input_count; i++)
      add_maker(drawing, c.region[r].graph->input[i]->node, s->position);
  return false;
}

static void find_makers(Drawing *d) {
  const Program *p = d->program;
  block_find(&p->main, find_maker, d);
  block_find(&p->main, find_inputs, d);
  qsort(d->maker, (size_t)d->count, sizeof *d->maker, by_node);
  int steps = d->count;
  for (int i = 0; i < p->buffer_count; i++) { /* values that a chain keeps besides its last one */
    const Buffer *b = &p->buffer[i];
    bool made = b->node && b->first >= 0 && node_is_made(b->node);
    int sorted = d->count;
    d->count = steps;
    if (made && maker_of(d, b->node) >= 0) made = false;
    d->count = sorted;
    if (made && b->first < d->positions) add_maker(d, b->node, b->first);
  }
  qsort(d->maker, (size_t)d->count, sizeof *d->maker, by_node);
}

/* ---- drawing ---- */

static void print_quoted(FILE *f, const char *text) {
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') fputc('\\', f);
    fputc(*text, f);
  }
}

static void print_box(Drawing *d, const Step *s) {
  char type[TYPE_TEXT];
  fprintf(d->file, "  s%d [label = \"%d %s", s->position, ++d->boxes, step_kind_name(s->kind));
  if (s->node) {
    fprintf(d->file, "\\n");
    print_quoted(d->file, s->node->op->name);
    if (s->node->out_count) fprintf(d->file, " %s", type_text(&s->node->out[0].type, type));
    if (s->node->source) fprintf(d->file, "\\n"), print_quoted(d->file, s->node->source);
  }
  fprintf(d->file, "\"]\n");
}

static void print_step(Drawing *d, const Step *s);

static void print_block(Drawing *d, const Block *b) {
  for (int i = 0; i < b->count; i++) print_step(d, &b->step[i]);
}

static void print_label(FILE *f, const Step *s, int nested) {
  const Nested *inner = &s->nested[nested];
  if (inner->pass)
    fprintf(f, "%s of position %d, lane %d",
            inner->pass->program < s->pipeline->plan->positions ? "forward" : "backward",
            plan_position_of_program(s->pipeline->plan, inner->pass->program), inner->pass->lane);
  else
    fprintf(f, "%s%s", step_kind_name(s->kind),
            inner->tests      ? ": condition"
            : step_chooses(s) ? nested ? ": no" : ": yes"
                              : "");
}

/* Both blocks of a pass stand in one frame. */
static void print_frames(Drawing *d, const Step *s) {
  for (int i = 0; i < s->nested_count; i++) {
    int k = nested_shown(s, i);
    const Pass *pass = s->nested[k].pass;
    if (!i || !pass || s->nested[k - 1].pass != pass) {
      fprintf(d->file, "  subgraph cluster_%d {\n  label = \"", d->frames++);
      print_label(d->file, s, k);
      fprintf(d->file, "\"\n");
    }
    print_block(d, s->nested[k].block);
    if (!pass || k + 1 == s->nested_count || s->nested[k + 1].pass != pass)
      fprintf(d->file, "  }\n");
  }
}

static void print_step(Drawing *d, const Step *s) {
  print_box(d, s);
  print_frames(d, s);
}

static bool is_seen(Drawing *d, const Node *n) {
  for (int i = 0; i < d->seen_count; i++)
    if (d->seen[i] == n) return true;
  d->failed =
      d->failed || !array_reserve(&d->seen, &d->seen_capacity, d->seen_count + 1, sizeof *d->seen);
  if (!d->failed) d->seen[d->seen_count++] = n;
  return d->failed;
}

static void print_arrow(Drawing *d, int from, int to) {
  if (d->arrow[from] == to) return;
  fprintf(d->file, "  s%d -> s%d\n", from, to);
  d->arrow[from] = to;
}

/* Arrows to a step from the makers of n's operands. For a fused node or a view these are the makers
 * of its own operands. */
static void print_arrows_from(Drawing *d, int to, const Node *n) {
  for (int k = 0; k < n->in_count; k++) {
    const Node *from = value_root(n->in[k])->node;
    if (is_seen(d, from)) continue;
    int position = maker_of(d, from);
    if (position >= 0 && position != to) print_arrow(d, position, to);
    else print_arrows_from(d, to, from);
  }
}

static bool print_arrows(Step *s, void *drawing) {
  Drawing *d = drawing;
  d->seen_count = 0;
  if (s->node && s->kind == STEP_COPY) {
    int from = maker_of(d, s->node);
    if (from > s->position) print_arrow(d, s->position, from); /* first values of a loop */
    else if (from >= 0) print_arrow(d, from, s->position);
  } else if (s->node) {
    print_arrows_from(d, s->position, s->node);
  }
  return false;
}

char *program_dot(const Program *p) {
  char *text = NULL;
  size_t bytes = 0;
  Drawing d = {.program = p, .file = open_memstream(&text, &bytes)};
  if (!d.file) return NULL;
  find_makers(&d);
  d.arrow = calloc((size_t)d.positions + 1, sizeof *d.arrow);
  d.failed = d.failed || !d.arrow;
  fprintf(d.file, "digraph program {\n  label = \"");
  print_quoted(d.file, p->name);
  fprintf(d.file, "\"\n  node [shape = box, fontname = monospace]\n");
  print_block(&d, &p->main);
  if (!d.failed) block_find(&p->main, print_arrows, &d);
  fprintf(d.file, "}\n");
  fclose(d.file);
  free(d.maker);
  free(d.seen);
  free(d.arrow);
  if (!d.failed) return text;
  free(text);
  return NULL;
}
