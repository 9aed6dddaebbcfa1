/* Replicas differ in what queues, the host, random numbers and their own index give them; what
 * is computed from that differs, until they sum or gather it. A loop's values and a program's
 * variables are followed round until nothing more is found. */
#include "program/identical.h"

#include <string.h>

#include "graph/control.h"
#include "ops/io/feed.h"

typedef struct Search {
  Arena *arena;
  bool marks; /* differing nodes are marked; else only results are found */
  /* every collective does, those of some replicas and those that leave each a part, too */
  bool any_unites;
  bool failed; /* memory is out */
} Search;

/* A region: which of its values differ. */
typedef struct Part {
  Search *search;
  const int *first; /* of node i in differs */
  bool *differs;    /* by value */
  bool all;         /* not all replicas come here, or not as often */
} Part;

static bool *new_flags(Search *s, int count) {
  bool *flags = arena_alloc(s->arena, (size_t)count + 1);
  if (!flags) s->failed = true;
  return flags;
}

static bool differs(const Part *t, const Value *v) {
  return t->differs[t->first[v->node->id] + v->index];
}

/* All replicas get one result of these, whatever they gave. */
static bool unites(const Search *s, const Node *n) {
  const char *name = n->op->name;
  if (s->any_unites) return n->op->meet != NULL;
  if (!strcmp(name, "all_gather")) return true;
  return (!strcmp(name, "cross_replica_sum") || !strcmp(name, "cross_replica_mean")) &&
         n->attr[0].kind == ATTR_NONE;
}

static bool tells_apart(const Node *n) {
  return node_is_dequeue(n) || n->op->meet || (n->op->traits & (PER_REPLICA | RANDOM));
}

static void search_region(Search *s, Graph *g, const bool *in, bool all, bool *out);

/* ---- control ---- */

/* Where the region takes output i in again. */
static int input_of_output(const Node *n, int lead, int i) {
  int carried = control_explicit(n);
  return lead + (i < carried ? i : carried + control_written(n, i - carried));
}

static bool test_differs(Search *s, const Node *n, const bool *in) {
  bool result = false;
  if (n->op == &control_while) search_region(s, n->attr[CONTROL_OTHER].graph, in, false, &result);
  return result;
}

/* Once round; true when that made more of what it takes in differ. */
static bool go_round(Search *s, const Node *n, int lead, bool *in, bool all, bool *out) {
  bool changed = false;
  search_region(s, n->attr[CONTROL_BODY].graph, in, all || test_differs(s, n, in), out);
  for (int i = 0; i < n->out_count && !s->failed; i++) {
    int k = input_of_output(n, lead, i);
    changed = changed || (out[i] && !in[k]);
    in[k] = in[k] || out[i];
    out[i] = in[k];
  }
  return changed;
}

static void search_loop(Part *t, const Node *n, bool *out) {
  Search *s = t->search;
  int lead = n->op == &control_repeat;
  bool all = t->all || differs(t, n->in[0]), marks = s->marks,
       *in = new_flags(s, n->in_count + lead);
  for (int i = 1; in && i < n->in_count; i++) in[i - 1 + lead] = differs(t, n->in[i]);
  s->marks = false;
  while (in && go_round(s, n, lead, in, all, out)) continue;
  s->marks = marks;
  if (in && marks) go_round(s, n, lead, in, all, out);
}

static void search_branches(Part *t, const Node *n, bool *out) {
  Search *s = t->search;
  int skip = n->op == &control_cond;
  bool apart = skip && differs(t, n->in[0]), *in = new_flags(s, n->in_count),
       *other = new_flags(s, n->out_count);
  if (!in || !other) return;
  for (int i = skip; i < n->in_count; i++) in[i - skip] = differs(t, n->in[i]);
  search_region(s, n->attr[CONTROL_BODY].graph, in, t->all || apart, out);
  if (skip) search_region(s, n->attr[CONTROL_OTHER].graph, in, t->all || apart, other);
  for (int i = 0; i < n->out_count; i++) out[i] = out[i] || other[i] || apart;
}

/* ---- regions ---- */

static void search_node(Part *t, Node *n) {
  bool *out = &t->differs[t->first[n->id]];
  if (n->op == &control_repeat || n->op == &control_while) search_loop(t, n, out);
  else if (n->op->traits & CONTROL) search_branches(t, n, out);
  if (n->op->traits & CONTROL) {
    for (int i = 0; i < n->out_count; i++) out[i] = out[i] || t->all;
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
  int values = 0, *first = s->failed
                               ? NULL
                               : arena_alloc(s->arena, (size_t)(g->node_count + 1) * sizeof *first);
  for (int i = 0; first && i < g->node_count; i++)
    first[i] = values, values += g->node[i]->out_count;
  Part t = {.search = s, .first = first, .differs = new_flags(s, values), .all = all};
  if (!first || !t.differs) {
    s->failed = true;
    return;
  }
  for (int i = 0; i < g->input_count; i++)
    t.differs[first[g->input[i]->node->id] + g->input[i]->index] = in[i];
  for (int i = 0; i < g->node_count && !s->failed; i++)
    if (!node_is_input(g->node[i]) && !node_is_constant(g->node[i])) search_node(&t, g->node[i]);
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
