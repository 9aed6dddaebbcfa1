#include "transform/trace_gradient.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "transform/autodiff.h"
#include "transform/clone.h"
#include "transform/lift.h"

/* The trace that gradients are asked in, or one around it. */
typedef struct Level {
  Trace *trace;
  int nodes; /* inputs before imports, which add inputs without any knowledge about them */
  int first, end, late; /* the nodes that are differentiated */
  int *source;  /* [nodes] 1 + the source that the leaf is; LOOK: an output of it may be one */
  bool *hot;    /* [nodes] depends on a source, by an operand */
  bool *needed; /* [nodes] is computed once more */
  Value ***map; /* [nodes] that, by output */
} Level;

enum { LOOK = -1 };

/* A source that is a variable. */
typedef struct Named {
  const Variable *variable;
  int source;
} Named;

/* A source for a value that t takes from outside: that value, named. */
typedef struct Leaf {
  const Value *of;
  Value *value;
  int source;
} Leaf;

typedef struct Asked {
  Trace *t;
  Graph *g;
  Arena *arena;
  const Source *source;
  int source_count;
  const Recorded *recorded;
  int recorded_count;
  Named *named; /* by address, then by source */
  int named_count;
  Level *level; /* [levels + 1] the outermost first, t's last */
  int levels;   /* those around t */
  Leaf *leaf;
  int leaf_count, leaf_capacity;
} Asked;

static Status no_memory(Graph *g) {
  return fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
}

/* ---- the value of a source in a trace ---- */

static bool stands_for(const Extra *x, const Source *s) {
  return !s->tensor && x->variable == s->variable && (s->variable || x->outer == s->value);
}

static int source_of(const Asked *a, const Level *l, const Value *v) {
  int found = v->node->id < l->nodes ? l->source[v->node->id] : 0;
  if (found != LOOK) return found - 1;
  for (int i = 0; i < a->source_count; i++)
    if (a->source[i].value == v) return i;
  return -1;
}

static int by_address(const void *x, const void *y) {
  const Named *p = x, *q = y;
  uintptr_t a = (uintptr_t)p->variable, b = (uintptr_t)q->variable;
  return a != b ? (a < b ? -1 : 1) : p->source - q->source;
}

/* The first source that is v; -1: none. */
static int find_variable(const Asked *a, const Variable *v) {
  int low = 0, high = a->named_count;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if ((uintptr_t)a->named[middle].variable < (uintptr_t)v) low = middle + 1;
    else high = middle;
  }
  return low < a->named_count && a->named[low].variable == v ? a->named[low].source : -1;
}

static bool list_variables(Asked *a) {
  a->named = arena_alloc(a->arena, (size_t)(a->source_count + 1) * sizeof *a->named);
  if (!a->named) return false;
  for (int i = 0; i < a->source_count; i++)
    if (a->source[i].variable) a->named[a->named_count++] = (Named){a->source[i].variable, i};
  if (a->named_count) qsort(a->named, (size_t)a->named_count, sizeof *a->named, by_address);
  return true;
}

/* Of equal sources in the list the first one counts. */
static void name_sources(const Asked *a, Level *l) {
  const Trace *t = l->trace;
  for (int i = a->source_count - 1; i >= 0; i--) {
    const Source *s = &a->source[i];
    const TensorSlot *known = s->tensor ? tensor_map_find(&t->constant, s->tensor) : NULL;
    if (known) l->source[known->value->node->id] = i + 1;
    if (!s->value) continue;
    if (trace_owns(t, s->value))
      l->source[s->value->node->id] = !node_is_made(s->value->node) ? i + 1 : LOOK;
    for (int k = 0; k < t->extra_count; k++)
      if (stands_for(&t->extra[k], s)) l->source[t->extra[k].inner->node->id] = i + 1;
  }
  for (int k = 0; k < t->extra_count; k++) {
    int found = t->extra[k].variable ? find_variable(a, t->extra[k].variable) : -1;
    if (found >= 0) l->source[t->extra[k].inner->node->id] = found + 1;
  }
}

/* The value that t itself has for s, if it has one. */
static Value *own_value(const Asked *a, const Source *s) {
  const Trace *t = a->t;
  const TensorSlot *known = s->tensor ? tensor_map_find(&t->constant, s->tensor) : NULL;
  if (known) return known->value;
  if (s->value && trace_owns(t, s->value)) return s->value;
  for (int i = 0; i < t->extra_count; i++)
    if (stands_for(&t->extra[i], s)) return t->extra[i].inner;
  return NULL;
}

/* ---- values from outside ---- */

static Level *level_of(Asked *a, const Value *v) {
  for (int i = 0; i < a->levels; i++)
    if (trace_owns(a->level[i].trace, v)) return &a->level[i];
  return NULL;
}

static bool depends(const Level *l, const Value *v) {
  return v->node->id < l->nodes && l->hot[v->node->id];
}

static bool is_hot(Asked *a, const Value *v) {
  const Level *l = v ? level_of(a, v) : NULL;
  return l && dtype_is_float(v->type.dtype) && (depends(l, v) || source_of(a, l, v) >= 0);
}

/* Which nodes of the traces around depend on a source. */
static void find_hot(Asked *a) {
  for (int k = 0; k < a->levels; k++) {
    Level *l = &a->level[k];
    const Graph *g = l->trace->graph;
    for (int i = 0; i < g->node_count; i++) {
      const Node *n = g->node[i];
      const Extra *x = node_is_input(n) ? trace_extra_of(l->trace, &n->out[0]) : NULL;
      if (x && x->outer && source_of(a, l, &n->out[0]) < 0) l->hot[n->id] = is_hot(a, x->outer);
      bool past = n->id < l->first || (n->id >= l->end && n->id < l->late);
      if (past && !n->recorded) continue;
      if (n->op->traits & NO_GRADIENT || (n->op->traits & STATEFUL && !(n->op->traits & CONTROL)))
        continue;
      for (int j = 0; j < n->in_count && !l->hot[n->id]; j++) l->hot[n->id] = is_hot(a, n->in[j]);
    }
  }
}

static void need(Asked *a, const Value *v) {
  Level *l = v ? level_of(a, v) : NULL;
  if (l && depends(l, v)) l->needed[v->node->id] = true;
}

/* From t outwards: an inner trace takes values from outer ones. */
static void find_needed(Asked *a) {
  for (int i = 0; i < a->t->extra_count; i++) need(a, a->t->extra[i].outer);
  for (int k = a->levels - 1; k >= 0; k--) {
    const Graph *g = a->level[k].trace->graph;
    for (int i = g->node_count - 1; i >= 0; i--) {
      const Node *n = g->node[i];
      if (!a->level[k].needed[n->id]) continue;
      const Extra *x = node_is_input(n) ? trace_extra_of(a->level[k].trace, &n->out[0]) : NULL;
      if (x) need(a, x->outer);
      for (int j = 0; j < n->in_count; j++) need(a, n->in[j]);
    }
  }
}

/* The value in t that replaces a value of an enclosing trace. */
static Value *brought(Asked *a, Value *v) {
  Level *l = level_of(a, v);
  Value **made = l && v->node->id < l->nodes ? l->map[v->node->id] : NULL,
        *same = made ? made[v->index] : trace_import(a->t, v);
  int source = l ? source_of(a, l, v) : -1;
  if (source < 0) return same;
  for (int i = 0; i < a->leaf_count; i++)
    if (a->leaf[i].of == v) return a->leaf[i].value;
  Value *leaf = op1(a->g, "identity", same);
  if (!array_reserve(&a->leaf, &a->leaf_capacity, a->leaf_count + 1, sizeof *a->leaf))
    return no_memory(a->g), NULL;
  a->leaf[a->leaf_count++] = (Leaf){v, leaf, source};
  return leaf;
}

static void compute_again(Asked *a, Level *l, const Node *n) {
  Value **in = arena_alloc(a->arena, (size_t)(n->in_count + 1) * sizeof *in);
  Value **out = arena_alloc(a->arena, (size_t)(n->out_count + 1) * sizeof *out);
  if (!in || !out) {
    no_memory(a->g);
    return;
  }
  const Extra *x = node_is_input(n) ? trace_extra_of(l->trace, &n->out[0]) : NULL;
  if (x) {
    out[0] = brought(a, x->outer);
  } else {
    for (int k = 0; k < n->in_count; k++) in[k] = brought(a, n->in[k]);
    Node *made = clone_pure(a->g, n, in);
    for (int i = 0; made && i < n->out_count; i++) out[i] = &made->out[i];
  }
  l->map[n->id] = out;
}

static bool find_levels(Asked *a) {
  if (!list_variables(a)) return false;
  for (const Trace *t = a->t; t->parent && !t->follows; t = t->parent) a->levels++;
  a->level = arena_alloc(a->arena, (size_t)(a->levels + 1) * sizeof *a->level);
  if (!a->level) return false;
  Trace *t = a->t;
  for (int k = a->levels; k >= 0; k--, t = t->parent) {
    Level *l = &a->level[k];
    size_t nodes = (size_t)t->graph->next_id + 1;
    *l = (Level){.trace = t,
                 .nodes = t->graph->next_id,
                 .end = INT_MAX,
                 .late = INT_MAX,
                 .source = arena_alloc(a->arena, nodes * sizeof *l->source),
                 .hot = arena_alloc(a->arena, nodes)};
    l->needed = arena_alloc(a->arena, nodes);
    l->map = arena_alloc(a->arena, nodes * sizeof *l->map);
    if (!l->source || !l->hot || !l->needed || !l->map) return false;
    for (int i = 0; i < a->recorded_count; i++)
      if (a->recorded[i].trace == t) {
        l->first = a->recorded[i].first, l->end = a->recorded[i].end;
        l->late = a->recorded[i].late;
      }
    name_sources(a, l);
  }
  return true;
}

static void bring(Asked *a) {
  find_hot(a);
  find_needed(a);
  Scope scope = a->g->scope;
  for (int k = 0; k < a->levels; k++) {
    Level *l = &a->level[k];
    const Graph *g = l->trace->graph;
    for (int i = 0; i < l->nodes && a->g->error.status == OK; i++)
      if (l->needed[g->node[i]->id]) compute_again(a, l, g->node[i]);
  }
  a->g->scope = scope;
}

/* ---- sums ---- */

static void add_to(Graph *g, Value **sum, Value *more) {
  if (more) *sum = *sum ? ops_add(g, *sum, more) : more;
}

/* The values that t takes from outside, as a list of its inputs, and their replacements in t. */
typedef struct Taken {
  Value **inner, **outer;
  int count;
} Taken;

static Taken find_taken(Asked *a) {
  const Trace *t = a->t;
  size_t room = (size_t)t->extra_count + 1;
  int extras = t->extra_count;
  Taken k = {arena_alloc(a->arena, room * sizeof(Value *)),
             arena_alloc(a->arena, room * sizeof(Value *)), 0};
  if (!k.inner || !k.outer) no_memory(a->g);
  for (int i = 0; k.inner && k.outer && i < extras; i++) {
    Value *inner = t->extra[i].inner, *outer = t->extra[i].outer;
    const Level *l = outer ? level_of(a, outer) : NULL;
    bool asked = source_of(a, &a->level[a->levels], inner) >=
                 0; /* by others than itself it may be asked for, too */
    if (!l || !(asked ? depends(l, outer) : is_hot(a, outer))) continue;
    k.inner[k.count] = inner;
    k.outer[k.count++] = brought(a, outer);
  }
  return k;
}

static bool is_among(const int *list, int count, int i) {
  for (int k = 0; k < count; k++)
    if (list[k] == i) return true;
  return false;
}

/* d(ys) / d xs [count], which go to dx[of[i]]; the leaves of those sources are counted, too. by: 0,
 * or the one variable that is asked. */
static void differentiate(Asked *a, int64_t by, const Taken *taken, Value *const *ys,
                          Value *const *dys, int y_count, Value *const *xs, const int *of,
                          int count, Value **dx) {
  int all = count, outside = 0;
  Value **outer;
  size_t room = (size_t)(count + taken->count + a->leaf_count + 1);
  Value **x = arena_alloc(a->arena, room * sizeof *x),
        **d = arena_alloc(a->arena, room * sizeof *d);
  Value **y = arena_alloc(a->arena, room * sizeof *y),
        **dy = arena_alloc(a->arena, room * sizeof *dy);
  if (!x || !d || !y || !dy) {
    no_memory(a->g);
    return;
  }
  for (int i = 0; i < count; i++) x[i] = xs[i];
  outer = arena_alloc(a->arena, room * sizeof *outer);
  if (!outer) {
    no_memory(a->g);
    return;
  }
  for (int i = 0; i < taken->count; i++) {
    bool asked = false;
    for (int k = 0; k < count; k++) asked = asked || xs[k] == taken->inner[i];
    if (!asked) outer[all - count] = taken->outer[i], x[all++] = taken->inner[i];
  }
  const Level *own = &a->level[a->levels];
  autodiff_within(a->g, own->first, own->end, own->late, by, ys, dys, y_count, x, all, d);
  for (int i = 0; i < count; i++) add_to(a->g, &dx[of[i]], d[i]);
  for (int i = count; i < all; i++)
    if (d[i]) y[outside] = outer[i - count], dy[outside++] = d[i];
  if (!outside) return;
  for (int i = 0; i < a->leaf_count; i++)
    x[i] = is_among(of, count, a->leaf[i].source) ? a->leaf[i].value : NULL;
  autodiff_by(a->g, by, y, dy, outside, x, a->leaf_count, d);
  for (int i = 0; i < a->leaf_count; i++) add_to(a->g, &dx[a->leaf[i].source], d[i]);
}

/* Assigned in t, or in a trace around it. */
static bool is_assigned(const Asked *a, const Variable *v) {
  for (int k = 0; k <= a->levels; k++) {
    const Trace *t = a->level[k].trace;
    for (int i = 0; i < t->extra_count; i++)
      if (t->extra[i].variable == v && t->extra[i].current != t->extra[i].inner) return true;
  }
  return false;
}

/* A variable that was assigned by itself, all others together. */
static void answer(Asked *a, Value *const *ys, Value *const *dys, int y_count, Value **dx) {
  const Taken taken = find_taken(a);
  size_t room = (size_t)(a->source_count + 1);
  int *together = arena_alloc(a->arena, room * sizeof *together), all = 0;
  Value **xs = arena_alloc(a->arena, room * sizeof *xs);
  if (!xs || !together) no_memory(a->g);
  for (int i = 0; i < a->source_count && a->g->error.status == OK; i++) {
    const Variable *v = a->source[i].variable;
    Value *own = own_value(a, &a->source[i]);
    if (v && is_assigned(a, v)) {
      differentiate(a, v->serial, &taken, ys, dys, y_count, &own, &i, 1, dx);
      continue;
    }
    xs[all] = own;
    together[all++] = i;
  }
  if (all) differentiate(a, 0, &taken, ys, dys, y_count, xs, together, all, dx);
}

/* ---- tensors ---- */

static int by_tensor(const void *x, const void *y) {
  uintptr_t p = (uintptr_t)*(void *const *)x, q = (uintptr_t)*(void *const *)y;
  return p < q ? -1 : p > q;
}

/* Loops and branches that have ended hold a tensor as a constant of their own: it is handed to
 * them. */
static void lift_sources(Asked *a) {
  TensorList list = {.tensor =
                         arena_alloc(a->arena, (size_t)(a->source_count + 1) * sizeof(Tensor *))};
  Value **value = arena_alloc(a->arena, (size_t)(a->source_count + 1) * sizeof *value);
  if (!list.tensor || !value) {
    no_memory(a->g);
    return;
  }
  for (int i = 0; i < a->source_count; i++)
    if (a->source[i].tensor) list.tensor[list.count++] = a->source[i].tensor;
  if (!list.count) return;
  qsort(list.tensor, (size_t)list.count, sizeof *list.tensor, by_tensor);
  for (Trace *t = a->t; t; t = t->follows ? NULL : t->parent) {
    for (int i = 0; i < list.count; i++) value[i] = trace_constant(t, list.tensor[i]);
    lift_constants(t->graph, &list, value);
  }
}

Status trace_gradients(Trace *t, Value *const *ys, Value *const *dys, int y_count,
                       const Source *source, int source_count, const Recorded *recorded,
                       int recorded_count, Value **dx) {
  Graph *g = t->graph;
  memset(dx, 0, (size_t)source_count * sizeof *dx);
  Asked *a = calloc(1, sizeof *a);
  if (!a || !(a->arena = arena_new())) {
    free(a);
    return no_memory(g);
  }
  a->t = t, a->g = g, a->source = source, a->source_count = source_count;
  a->recorded = recorded, a->recorded_count = recorded_count;
  lift_sources(a);
  if (!find_levels(a)) no_memory(g);
  else if (g->error.status == OK) bring(a);
  if (g->error.status == OK) answer(a, ys, dys, y_count, dx);
  free(a->leaf);
  arena_free(a->arena);
  free(a);
  return g->error.status;
}

void trace_assign_value(Trace *t, Variable *v, Value *value) {
  Value *operand[2] = {value, trace_first(t, v)};
  Attr which = attr_int(v->serial);
  trace_assign(t, v, op_with(t->graph, "reading", operand, 2, &which));
}
