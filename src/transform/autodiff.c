#include "transform/autodiff.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "transform/control_gradient.h"
#include "transform/verify.h"

/* Per node: does it depend on an x or is one, does an operand depend on one, and the gradients
 * collected for its outputs. */
typedef struct Entry {
  bool depends, passes_on;
  Value **gradient; /* [out_count]; NULL until the first arrives */
} Entry;

typedef struct Pass {
  Graph *graph;
  Entry *entry;     /* by position in graph->node */
  int first, count; /* nodes [first, count) are differentiated, but not [end, late) */
  int end, late;
  int begin;        /* before first, from here on, sources alone are */
  Placement around; /* of the code that asks for gradients */
} Pass;

/* Gradient nodes are in the backward pass of the node's stage. A forward pass that asks for
 * gradients computes them itself: later stages read what it makes of them. */
static Placement place_of_gradient(const Pass *p, const Node *n) {
  Placement place = n->place;
  bool forward = p->around.stage >= 0 && !p->around.backward;
  if (forward) place.stage = p->around.stage, place.shard = p->around.shard;
  place.backward = !forward;
  return place;
}

static bool is_recorded(const Pass *p, int i) {
  if (i >= p->first && (i < p->end || i >= p->late)) return true;
  const Node *n = p->graph->node[i];
  if (n->recorded) return true;
  return n->op->is_source && n->op->is_source(p->graph, n);
}

static Entry *entry_of(Pass *p, const Value *v) { return &p->entry[v->node->id]; }

static void collect(Pass *p, Value *v, Value *gradient) {
  Entry *e = entry_of(p, v);
  if (!gradient || !e->depends) return;
  if (!e->gradient)
    e->gradient = arena_alloc(p->graph->arena, (size_t)v->node->out_count * sizeof *e->gradient);
  if (!e->gradient) {
    fail(&p->graph->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
    return;
  }
  Value **slot = &e->gradient[v->index];
  *slot = *slot ? ops_add(p->graph, *slot, gradient) : gradient;
}

/* x may be one of several outputs of a node that depends on none of xs. No gradient comes through
 * integers. */
static void mark_dependents(Pass *p, Value *const *xs, int x_count) {
  for (int i = 0; i < x_count; i++)
    if (xs[i]) entry_of(p, xs[i])->depends = true;
  for (int i = p->begin; i < p->count; i++) {
    const Node *n = p->graph->node[i];
    if (!is_recorded(p, i)) continue;
    if (n->op->traits & NO_GRADIENT) continue; /* depends only when it is an x itself */
    Entry *e = &p->entry[n->id];
    for (int k = 0; k < n->in_count && !e->passes_on; k++)
      e->passes_on = entry_of(p, n->in[k])->depends && dtype_is_float(n->in[k]->type.dtype);
    e->depends |= e->passes_on;
  }
}

static void differentiate_control(Pass *p, const Node *n, Value *const *dy, Value **dx) {
  bool *wanted = arena_alloc(p->graph->arena, (size_t)n->in_count);
  for (int i = 0; wanted && i < n->in_count; i++) wanted[i] = entry_of(p, n->in[i])->depends;
  if (wanted) control_gradient(p->graph, n, dy, wanted, dx);
  else fail(&p->graph->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
}

static bool wants_composite(const Node *n, Value *const *dy) {
  bool hidden = false;
  for (int i = n->op->visible_outputs; i > 0 && i < n->out_count; i++) hidden = hidden || dy[i];
  return n->op->compose && (hidden || !n->op->grad);
}

static Status run(Graph *g, int begin, int first, int end, int late, Value *const *ys,
                  Value *const *dys, int y_count, Value *const *xs, int x_count, Value **dx);

static void differentiate_composite(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  int first = g->node_count, count = 0;
  Value **out = arena_alloc(g->arena, 2 * (size_t)n->out_count * sizeof *out),
        **seed = out + n->out_count;
  if (!out) {
    fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
    return;
  }
  n->op->compose(g, n, out);
  if (g->error.status != OK) return;
  for (int i = 0; i < n->out_count; i++)
    if (dy[i]) out[count] = out[i], seed[count++] = dy[i];
  run(g, first, first, INT_MAX, INT_MAX, out, seed, count, n->in, n->in_count, dx);
  /* an operand that stands twice has its whole gradient at the first */
  for (int i = 1; i < n->in_count; i++)
    for (int k = 0; k < i; k++)
      if (n->in[k] == n->in[i]) dx[i] = NULL;
}

static void differentiate(Pass *p, const Node *n) {
  Graph *g = p->graph;
  Value **dy = p->entry[n->id].passes_on ? p->entry[n->id].gradient : NULL;
  bool control = n->op->traits & CONTROL;
  if (!dy || n->in_count == 0) return;
  if (!n->op->grad && !n->op->compose && !control) {
    fail_at(&g->error, n->source, ERR_NOT_IMPLEMENTED, "%s has no gradient", n->op->name);
    return;
  }
  Value **dx = arena_alloc(g->arena, (size_t)n->in_count * sizeof *dx);
  if (!dx) {
    fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
    return;
  }
  g->scope.place = place_of_gradient(p, n);
  g->scope.source = n->source;
  g->scope.prefix = n->name;
  g->scope.attributes = n->attributes;
  if (control) differentiate_control(p, n, dy, dx);
  else if (wants_composite(n, dy)) differentiate_composite(g, n, dy, dx);
  else n->op->grad(g, n, dy, dx);
  for (int i = 0; i < n->in_count; i++) collect(p, n->in[i], dx[i]);
}

static Value *seed_of(Graph *g, Value *y, Value *dy) {
  char want[TYPE_TEXT], got[TYPE_TEXT];
  if (!dtype_is_float(y->type.dtype)) {
    fail(&g->error, ERR_TYPE, "gradients: only floating-point values can be differentiated, got %s",
         dtype_name(y->type.dtype));
    return NULL;
  }
  if (!dy) return ops_ones(g, &y->type);
  if (type_equal(&dy->type, &y->type)) return dy;
  fail(&g->error, ERR_INVALID_ARGUMENT,
       "gradients: the gradient given for an output is %s, but the output is %s",
       type_text(&dy->type, got), type_text(&y->type, want));
  return NULL;
}

/* Runs autodiff over the graph's nodes first … end-1. */
static Status run(Graph *g, int begin, int first, int end, int late, Value *const *ys,
                  Value *const *dys, int y_count, Value *const *xs, int x_count, Value **dx) {
  memset(dx, 0, (size_t)x_count * sizeof *dx);
  Pass p = {.graph = g, .count = g->node_count, .end = end, .late = late, .around = g->scope.place};
  p.first = first, p.begin = begin;
  p.entry = calloc((size_t)g->node_count + 1, sizeof *p.entry);
  if (!p.entry) return fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
  Scope scope = g->scope;
  mark_dependents(&p, xs, x_count);
  for (int i = 0; i < y_count && g->error.status == OK; i++)
    collect(&p, ys[i], seed_of(g, ys[i], dys ? dys[i] : NULL));
  for (int i = p.count - 1; i >= p.begin && g->error.status == OK; i--)
    if (is_recorded(&p, i)) differentiate(&p, g->node[i]);
  for (int i = 0; i < x_count && g->error.status == OK; i++)
    if (xs[i] && entry_of(&p, xs[i])->gradient) dx[i] = entry_of(&p, xs[i])->gradient[xs[i]->index];
  g->scope = scope;
  free(p.entry);
  return g->error.status;
}

Status autodiff_within(Graph *g, int first, int end, int late, int64_t variable, Value *const *ys,
                       Value *const *dys, int y_count, Value *const *xs, int x_count, Value **dx) {
  memset(dx, 0, (size_t)x_count * sizeof *dx);
  if (g->error.status != OK) return g->error.status;
  g->apart = variable;
  run(g, variable ? 0 : first, first, end, late, ys, dys, y_count, xs, x_count, dx);
  g->apart = 0;
  if (VERIFYING) graph_verify(&g->error, g, "autodiff");
  return g->error.status;
}

Status autodiff(Graph *g, Value *const *ys, Value *const *dys, int y_count, Value *const *xs,
                int x_count, Value **dx) {
  return autodiff_within(g, 0, INT_MAX, INT_MAX, g->apart, ys, dys, y_count, xs, x_count, dx);
}

Status autodiff_by(Graph *g, int64_t variable, Value *const *ys, Value *const *dys, int y_count,
                   Value *const *xs, int x_count, Value **dx) {
  return autodiff_within(g, 0, INT_MAX, INT_MAX, variable, ys, dys, y_count, xs, x_count, dx);
}
