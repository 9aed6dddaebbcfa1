/* Replicas get different values from queues, the host, random numbers and their own index. Values
 * computed from these differ as well, up to a collective that sums or gathers them. The search
 * follows the values of loops and the variables of the program until it finds no more. */
#include "program/identical.h"

#include <string.h>

#include "graph/control.h"
#include "graph/numbering.h"
#include "ops/io/feed.h"
#include "program/program.h"

typedef struct Search {
  Arena *arena;
  bool marks; /* differing nodes are marked; else only results are found */
  /* all collectives do, also collectives of groups and those with a share for each replica */
  bool any_unites;
  bool failed; /* memory is out */
} Search;

/* A region: which of its values differ. */
typedef struct Part {
  Search *search;
  Numbering values;
  bool *differs; /* by value */
  bool all;      /* not all replicas come here, or not as often */
} Part;

static bool *new_flags(Search *s, int count) {
  bool *flags = arena_alloc(s->arena, (size_t)count + 1);
  if (!flags) s->failed = true;
  return flags;
}

static bool differs(const Part *t, const Value *v) {
  return t->differs[value_number(&t->values, v)];
}

/* All replicas get one result of these, whatever they gave. */
static bool unites(const Search *s, const Node *n) {
  Collective c = n->op->collective;
  if (s->any_unites) return n->op->eval_collective != NULL;
  if (c == COLLECTIVE_GATHER) return true;
  return (c == COLLECTIVE_SUM || c == COLLECTIVE_MEAN) && n->attr[0].kind == ATTR_NONE;
}

static bool tells_apart(const Node *n) {
  return node_is_dequeue(n) || n->op->eval_collective || (n->op->traits & (PER_REPLICA | RANDOM));
}

static void search_region(Search *s, Graph *g, const bool *in, bool all, bool *out);

/* ---- control ---- */

static bool test_differs(Search *s, const ControlRegions *c, const bool *in) {
  bool result = false;
  for (int r = 0; r < c->count; r++)
    if (c->region[r].role == REGION_TEST) search_region(s, c->region[r].graph, in, false, &result);
  return result;
}

/* One round. True if it found more values that differ. */
static bool go_round(Search *s, const Node *n, const ControlRegions *c, bool *in, bool all,
                     bool *out) {
  bool changed = false;
  search_region(s, c->region[0].graph, in, all || test_differs(s, c, in), out);
  for (int i = 0; i < n->out_count && !s->failed; i++) {
    int k = control_input(c, control_replaced(n, i));
    changed = changed || (out[i] && !in[k]);
    in[k] = in[k] || out[i];
    out[i] = in[k];
  }
  return changed;
}

static void search_loop(Search *s, const Node *n, const ControlRegions *c, bool *in, bool all,
                        bool *out) {
  bool marks = s->marks;
  s->marks = false;
  while (go_round(s, n, c, in, all, out)) continue;
  s->marks = marks;
  if (marks) go_round(s, n, c, in, all, out);
}

/* apart: replicas may take different branches. */
static void search_branches(Part *t, const Node *n, const ControlRegions *c, const bool *in,
                            bool apart, bool *out) {
  Search *s = t->search;
  bool *other = new_flags(s, n->out_count);
  for (int r = 0; other && r < c->count; r++)
    if (region_runs(&c->region[r]))
      search_region(s, c->region[r].graph, in, t->all || apart, r ? other : out);
  for (int i = 0; other && i < n->out_count; i++) out[i] = out[i] || other[i] || apart;
}

static void search_control(Part *t, const Node *n, const ControlRegions *c, bool *out) {
  bool differing = c->skip && differs(t, n->in[0]), *in = new_flags(t->search, c->inputs);
  if (!in) return;
  for (int i = c->skip; i < n->in_count; i++) in[control_input(c, i)] = differs(t, n->in[i]);
  if (c->loops) search_loop(t->search, n, c, in, t->all || differing, out);
  else search_branches(t, n, c, in, differing, out);
  for (int i = 0; i < n->out_count; i++) out[i] = out[i] || t->all;
}

/* ---- regions ---- */

static void search_node(Part *t, Node *n) {
  bool *out = &t->differs[t->values.first[n->id]];
  ControlRegions c = control_regions(n);
  if (c.count) {
    search_control(t, n, &c, out);
    return;
  }
  bool found = t->all || (tells_apart(n) && !unites(t->search, n));
  for (int k = 0; k < n->in_count && !unites(t->search, n); k++)
    found = found || differs(t, n->in[k]);
  memset(out, found, (size_t)n->out_count);
  if (found && t->search->marks && n->place.stochastic_rounding < 0)
    n->place.stochastic_rounding = 0;
}

static void search_region(Search *s, Graph *g, const bool *in, bool all, bool *out) {
  Part t = {.search = s, .all = all};
  if (s->failed || !number_values(s->arena, g, &t.values) ||
      !(t.differs = new_flags(s, t.values.count))) {
    s->failed = true;
    return;
  }
  for (int i = 0; i < g->input_count; i++) t.differs[value_number(&t.values, g->input[i])] = in[i];
  for (int i = 0; i < g->node_count && !s->failed; i++)
    if (node_is_made(g->node[i])) search_node(&t, g->node[i]);
  for (int i = 0; i < g->output_count && !s->failed; i++) out[i] = differs(&t, g->output[i]);
}

/* Variables that the program leaves different begin so in its next run; true when there are more
 * of them. */
static bool next_run(const Program *p, bool *in, const bool *out) {
  bool changed = false;
  int at = p->result_count;
  for (int i = 0; i < p->variable_count; i++) {
    if (!p->writes[i] || !out[at++]) continue;
    changed = changed || !in[p->argument_count + i];
    in[p->argument_count + i] = true;
  }
  return changed;
}

bool *program_find_unsummed(const Program *p, Arena *arena) {
  Graph *g = p->graph;
  Search s = {.arena = arena_new(), .any_unites = true};
  bool *in = s.arena ? new_flags(&s, g->input_count) : NULL,
       *out = arena_alloc(arena, (size_t)g->output_count + 1);
  for (int i = 0; in && i < p->argument_count; i++) in[i] = true;
  if (in && out) search_region(&s, g, in, false, out);
  bool good = in && out && !s.failed;
  arena_free(s.arena);
  return good ? out : NULL;
}

Status program_round_identical(Error *e, Program *p) {
  Graph *g = p->graph;
  Search s = {.arena = arena_new()};
  bool *in = s.arena ? new_flags(&s, g->input_count) : NULL,
       *out = in ? new_flags(&s, g->output_count) : NULL;
  s.failed = !out;
  for (int i = 0; i < p->variable_count && !s.failed; i++)
    in[p->argument_count + i] = p->variable[i]->replica_step != 0;
  do {
    if (!s.failed) search_region(&s, g, in, false, out);
  } while (!s.failed && next_run(p, in, out));
  s.marks = true;
  if (!s.failed) search_region(&s, g, in, false, out);
  arena_free(s.arena);
  return s.failed ? fail(e, ERR_OUT_OF_MEMORY,
                         "out of memory while looking for what replicas compute alike")
                  : OK;
}
