/* Copies of the graph for a session's fetches.
 *
 * A fed value replaces a value of the graph, whose operands are then not needed. Gradients by
 * values before a fed one are the exception: they pass through the op that makes it. So it is in
 * TensorFlow, where gradients are in the graph before values are fed. Such a value is computed in
 * the copy and differentiated. Then the fed value replaces it in all its readers. */
#include "transform/fetch.h"

#include <stdlib.h>

#include "ops/ops.h"
#include "transform/autodiff.h"
#include "transform/clone.h"

/* Of a fed value that a gradient passes through. */
typedef struct Passed {
  bool wanted;
  Value *computed; /* the value that the copy computes in its place */
} Passed;

typedef struct Clone {
  const Trace *from;
  Trace *to;
  const Fed *fed;
  int fed_count;
  Arena *arena;
  bool *needed;     /* by node */
  bool *replayed;   /* by derivation */
  Value ***map;     /* by node: copies of its outputs */
  Passed *passed;   /* by fed value */
  Value **argument; /* by fed value */
  bool feeds_made;  /* a fed value is no placeholder */
  bool passes;      /* a gradient passes through a fed value */
  bool changed;
} Clone;

static int find_fed(const Clone *c, const Value *v) {
  for (int i = 0; i < c->fed_count; i++)
    if (c->fed[i].value == v) return i;
  return -1;
}

static bool is_fed(const Clone *c, const Value *v) { return find_fed(c, v) >= 0; }

static void need(Clone *c, const Value *v) {
  if (!v || is_fed(c, v) || c->needed[v->node->id]) return;
  c->needed[v->node->id] = true;
  c->changed = true;
}

static void no_memory(Clone *c) {
  fail(&c->to->graph->error, ERR_OUT_OF_MEMORY, "out of memory while copying a trace");
}

static bool reads_hot(const Node *n, const bool *hot) {
  for (int k = 0; k < n->in_count; k++)
    if (hot[n->in[k]->node->id]) return true;
  return false;
}

/* Fed values between xs and ys: the gradient passes through the nodes that make them. */
static void pass_through(Clone *c, const Derivation *d) {
  const Graph *g = c->from->graph;
  if (!c->feeds_made) return;
  bool *hot = arena_alloc(c->arena, 2 * (size_t)d->first + 2);
  if (!hot) {
    no_memory(c);
    return;
  }
  bool *read = hot + d->first + 1;
  for (int i = 0; i < d->x_count; i++) hot[d->xs[i]->node->id] = true;
  for (int i = 0; i < d->y_count; i++) read[d->ys[i]->node->id] = true;
  for (int i = 0; i < d->first; i++) hot[i] = hot[i] || reads_hot(g->node[i], hot);
  for (int i = d->first - 1; i >= 0; i--)
    for (int k = 0; read[i] && k < g->node[i]->in_count; k++)
      read[g->node[i]->in[k]->node->id] = true;
  for (int i = 0; i < c->fed_count; i++) {
    const Node *n = c->fed[i].value->node;
    if (n->id >= d->first || !read[n->id] || !reads_hot(n, hot)) continue;
    c->passed[i].wanted = c->needed[n->id] = c->passes = c->changed = true;
  }
}

/* The call of autodiff that made a node, or -1. They are in order and don't overlap. */
static int derivation_of(const Trace *t, int node) {
  int low = 0, high = t->derivation_count;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (t->derivation[middle].end <= node) low = middle + 1;
    else high = middle;
  }
  return low < t->derivation_count && t->derivation[low].first <= node ? low : -1;
}

static void need_operands(Clone *c, int node) {
  const Trace *t = c->from;
  const Node *n = t->graph->node[node];
  int d = derivation_of(t, node);
  if (d < 0) {
    for (int k = 0; k < n->in_count; k++) need(c, n->in[k]);
    return;
  }
  if (c->replayed[d]) return;
  c->replayed[d] = true;
  const Derivation *x = &t->derivation[d];
  for (int k = 0; k < x->y_count; k++) need(c, x->ys[k]), need(c, x->dys[k]);
  for (int k = 0; k < x->x_count; k++) need(c, x->xs[k]);
  pass_through(c, x);
}

/* Operands stand before their nodes, but effects may lead anywhere: again, until nothing is new. */
static void find_needed(Clone *c, Value *const *fetched, int count) {
  const Trace *t = c->from;
  for (int i = 0; i < count; i++) need(c, fetched[i]);
  do {
    c->changed = false;
    for (int i = t->graph->node_count - 1; i >= 0; i--)
      if (c->needed[i]) need_operands(c, i);
    for (int i = 0; i < t->effect_count; i++)
      if (c->needed[t->effect[i].trigger->id]) need(c, t->effect[i].value);
  } while (c->changed);
}

static void set_copy(Clone *c, const Value *v, Value *made) {
  Value ***slot = &c->map[v->node->id];
  if (!*slot) *slot = arena_alloc(c->arena, (size_t)v->node->out_count * sizeof **slot);
  if (*slot) (*slot)[v->index] = made;
}

static Value *copy_of(const Clone *c, const Value *v) {
  Value **outs = v ? c->map[v->node->id] : NULL;
  return outs ? outs[v->index] : NULL;
}

/* Sets the copy of the node that computes v. If v is fed, only gradients that pass through it read
 * that copy. */
static void set_computed(Clone *c, const Value *v, Value *made) {
  int i = find_fed(c, v);
  Error *e = &c->to->graph->error;
  char fed[TYPE_TEXT], computed[TYPE_TEXT];
  if (i < 0) set_copy(c, v, made);
  if (i < 0 || !made || !c->passed[i].wanted) return;
  if (!type_equal(&c->fed[i].type, &made->type)) {
    fail_at(e, v->node->source, ERR_INVALID_ARGUMENT,
            "a gradient passes through a fed tensor of %s, but the graph computes %s there; feed "
            "that type",
            type_text(&c->fed[i].type, fed), type_text(&made->type, computed));
    return;
  }
  c->passed[i].computed = made;
  set_copy(c, v, made);
}

static Variable *variable_of(const Trace *t, const Value *v) {
  for (int i = 0; i < t->extra_count; i++)
    if (t->extra[i].inner == v) return t->extra[i].variable;
  return NULL;
}

static void refuse_unfed(Clone *c, const Node *n) {
  fail(
      &c->to->graph->error, ERR_INVALID_ARGUMENT,
      "placeholder '%s' has no value: give one, as in sess:run(x, {feed_dict = {[placeholder] = value}})",
      n->name);
}

static bool is_known(const Type *t) {
  for (int i = 0; i < t->rank; i++)
    if (t->shape[i] < 0) return false;
  return true;
}

/* Before a fed value a placeholder needs no value, but its type must be known. */
static void copy_input(Clone *c, const Node *n) {
  Value *v = &n->out[0];
  Variable *variable = variable_of(c->from, v);
  const Placeholder *p = trace_find_placeholder(c->from, v);
  if (is_fed(c, v)) return;
  if (variable) set_copy(c, v, trace_read(c->to, variable));
  else if (c->passes && p && is_known(&p->declared))
    set_copy(c, v, ops_zeros(c->to->graph, &p->declared));
  else refuse_unfed(c, n);
}

static void copy_plain(Clone *c, const Node *n) {
  Graph *g = c->to->graph;
  Value **in = arena_alloc(c->arena, (size_t)(n->in_count + 1) * sizeof *in);
  if (!in) {
    no_memory(c);
    return;
  }
  for (int k = 0; k < n->in_count; k++) in[k] = copy_of(c, n->in[k]);
  if (node_is_constant(n)) {
    set_copy(c, &n->out[0], graph_constant(g, n->attr[0].tensor));
    return;
  }
  Node *made = clone_node(g, n, in);
  for (int k = 0; made && k < n->out_count && k < made->out_count; k++)
    set_computed(c, &n->out[k], &made->out[k]);
}

/* Autodiff may return a gradient that others read, too. A fed gradient replaces only itself. */
static Value *apart(Clone *c, const Value *dx, Value *made) {
  return is_fed(c, dx) ? op_with(c->to->graph, "identity", &made, 1, NULL) : made;
}

static void differentiate_again(Clone *c, const Derivation *d) {
  size_t count = (size_t)(2 * d->y_count + 2 * d->x_count + 1);
  Value **ys = arena_alloc(c->arena, count * sizeof *ys);
  if (!ys) {
    no_memory(c);
    return;
  }
  Value **dys = ys + d->y_count, **xs = dys + d->y_count, **dx = xs + d->x_count;
  for (int i = 0; i < d->y_count; i++) ys[i] = copy_of(c, d->ys[i]), dys[i] = copy_of(c, d->dys[i]);
  for (int i = 0; i < d->x_count; i++) xs[i] = copy_of(c, d->xs[i]);
  autodiff(c->to->graph, ys, dys, d->y_count, xs, d->x_count, dx);
  for (int i = 0; i < d->x_count; i++)
    if (d->dx[i] && dx[i] && d->dx[i]->node->id >= d->first)
      set_computed(c, d->dx[i], apart(c, d->dx[i], dx[i]));
}

static void replay(Clone *c) {
  const Trace *t = c->from;
  int effect = 0;
  for (int i = 0; i <= t->graph->node_count && c->to->graph->error.status == OK; i++) {
    for (; effect < t->effect_count && t->effect[effect].position <= i; effect++) {
      const Effect *e = &t->effect[effect];
      if (c->needed[e->trigger->id]) trace_assign(c->to, e->variable, copy_of(c, e->value));
    }
    if (i == t->graph->node_count) break;
    int d = derivation_of(t, i);
    if (d >= 0) {
      if (c->replayed[d] && t->derivation[d].first == i) differentiate_again(c, &t->derivation[d]);
      continue;
    }
    const Node *n = t->graph->node[i];
    if (!c->needed[i]) continue;
    if (node_is_input(n)) copy_input(c, n);
    else copy_plain(c, n);
  }
}

/* ---- fed values that a gradient passed through ---- */

static Value *replacement(const Clone *c, Value *v) {
  for (int i = 0; i < c->fed_count; i++)
    if (v && c->passed[i].computed == v) return c->argument[i];
  return v;
}

static void replace_passed(Clone *c, Value **result, int count) {
  Graph *g = c->to->graph;
  for (int i = 0; i < g->node_count; i++)
    for (int k = 0; k < g->node[i]->in_count; k++)
      g->node[i]->in[k] = replacement(c, g->node[i]->in[k]);
  for (int i = 0; i < c->to->extra_count; i++)
    c->to->extra[i].current = replacement(c, c->to->extra[i].current);
  for (int i = 0; i < count; i++) result[i] = replacement(c, result[i]);
}

/* Which nodes of the copy have an effect, or are needed for one or for a result. */
static bool *find_live(const Clone *c, Value *const *result, int count) {
  const Graph *g = c->to->graph;
  bool *live = arena_alloc(c->arena, (size_t)g->node_count + 1);
  for (int i = 0; live && i < count; i++)
    if (result[i]) live[result[i]->node->id] = true;
  for (int i = 0; live && i < c->to->extra_count; i++)
    live[c->to->extra[i].current->node->id] = true;
  for (int i = g->node_count - 1; live && i >= 0; i--) {
    const Node *n = g->node[i];
    if (n->op->traits & STATEFUL) live[i] = true;
    for (int k = 0; live[i] && k < n->in_count; k++) live[n->in[k]->node->id] = true;
  }
  return live;
}

/* Fails if the rest of the graph reads a placeholder that is not fed. */
static void refuse_stand_ins(Clone *c, Value *const *result, int count) {
  const Trace *t = c->from;
  const bool *live = find_live(c, result, count);
  for (int i = 0; live && i < t->placeholder_count; i++) {
    const Value *v = t->placeholder[i].value, *made = copy_of(c, v);
    if (made && !is_fed(c, v) && live[made->node->id]) refuse_unfed(c, v->node);
  }
}

/* ---- all of it ---- */

static bool prepare(Clone *c) {
  size_t nodes = (size_t)c->from->graph->node_count + 1;
  c->arena = arena_new();
  if (!c->arena) return false;
  c->needed = arena_alloc(c->arena, nodes);
  c->replayed = arena_alloc(c->arena, (size_t)c->from->derivation_count + 1);
  c->map = arena_alloc(c->arena, nodes * sizeof *c->map);
  c->passed = arena_alloc(c->arena, (size_t)(c->fed_count + 1) * sizeof *c->passed);
  c->argument = arena_alloc(c->arena, (size_t)(c->fed_count + 1) * sizeof *c->argument);
  return c->needed && c->replayed && c->map && c->passed && c->argument;
}

Status clone_fetched(const Trace *from, const Fed *fed, int fed_count, Value *const *fetched,
                     int fetched_count, Trace *to, Value **result) {
  Error *e = &to->graph->error;
  Clone c = {.from = from, .to = to, .fed = fed, .fed_count = fed_count};
  if (prepare(&c)) {
    for (int i = 0; i < fed_count; i++) {
      c.argument[i] = trace_argument(to, &fed[i].type, fed[i].value->node->name);
      set_copy(&c, fed[i].value, c.argument[i]);
      c.feeds_made = c.feeds_made || node_is_made(fed[i].value->node);
    }
    find_needed(&c, fetched, fetched_count);
    replay(&c);
    for (int i = 0; i < fetched_count; i++) result[i] = copy_of(&c, fetched[i]);
    if (c.passes && e->status == OK) {
      replace_passed(&c, result, fetched_count);
      refuse_stand_ins(&c, result, fetched_count);
    }
    for (int i = 0; i < fetched_count && e->status == OK; i++)
      if (!result[i]) fail(e, ERR_INTERNAL, "a fetched value could not be computed");
  } else {
    fail(e, ERR_OUT_OF_MEMORY, "out of memory while copying a graph");
  }
  arena_free(c.arena);
  return e->status;
}

/* ---- unknown extents ---- */

/* The shapes under another stand-in: an extent that differs depends on an unknown one. */
static bool infer_again(const Trace *from, Value *v, Type *type) {
  Fed *fed = calloc((size_t)from->placeholder_count + 1, sizeof *fed);
  Trace *to = trace_new(NULL);
  Value *result = NULL;
  for (int i = 0; fed && i < from->placeholder_count; i++) {
    fed[i] = (Fed){from->placeholder[i].value, from->placeholder[i].declared};
    for (int k = 0; k < fed[i].type.rank; k++)
      if (fed[i].type.shape[k] < 0) fed[i].type.shape[k] = 2 * UNKNOWN_EXTENT;
  }
  bool ok =
      fed && to && clone_fetched(from, fed, from->placeholder_count, &v, 1, to, &result) == OK;
  if (ok) *type = result->type;
  trace_free(to);
  free(fed);
  return ok;
}

Type clone_declared_type(const Trace *from, Value *v) {
  const Placeholder *p = trace_find_placeholder(from, v);
  if (p) return p->declared;
  Type type = v->type, again;
  if (!from->has_unknown || !infer_again(from, v, &again) || again.rank != type.rank) return type;
  for (int k = 0; k < type.rank; k++)
    if (again.shape[k] != type.shape[k]) type.shape[k] = -1;
  return type;
}
