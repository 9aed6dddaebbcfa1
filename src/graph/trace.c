#include "graph/trace.h"

#include <stdlib.h>
#include <string.h>

#include "graph/control.h"
#include "graph/observe.h"

Trace *trace_new(Trace *parent) {
  Trace *t = calloc(1, sizeof *t);
  if (t) t->graph = parent ? graph_beside(parent->graph) : graph_new();
  if (!t || !t->graph) {
    free(t);
    return NULL;
  }
  t->parent = parent;
  return t;
}

void trace_free(Trace *t) {
  if (!t) return;
  for (int i = 0; i < t->extra_count; i++) variable_release(t->extra[i].variable);
  for (int i = 0; i < t->effect_count; i++) variable_release(t->effect[i].variable);
  graph_free(t->graph);
  tensor_map_clear(&t->constant);
  free(t->extra);
  free(t->observer);
  free(t->effect);
  free(t->derivation);
  free(t->placeholder);
  free(t);
}

Graph *trace_take_graph(Trace *t) {
  Graph *g = t->graph;
  t->graph = NULL;
  return g;
}

Value *trace_argument(Trace *t, const Type *type, const char *name) {
  Graph *g = t->graph;
  Value *v = graph_input(g, type, name);
  if (!v) return NULL;
  int at = t->argument_count++;
  memmove(&g->input[at + 1], &g->input[at], (size_t)(g->input_count - 1 - at) * sizeof *g->input);
  g->input[at] = v;
  return v;
}

bool trace_owns(const Trace *t, const Value *v) { return v->node->arena == t->graph->arena; }

static Extra *new_extra(Trace *t, Value *outer, Variable *variable, const Type *type) {
  if (!array_reserve(&t->extra, &t->extra_capacity, t->extra_count + 1, sizeof *t->extra)) {
    fail(&t->graph->error, ERR_OUT_OF_MEMORY, "out of memory while tracing");
    return NULL;
  }
  Scope scope = t->graph->scope;
  Value *inner = graph_input(t->graph, type, variable ? variable->name : NULL);
  t->graph->scope = scope;
  if (!inner) return NULL;
  Extra *x = &t->extra[t->extra_count++];
  *x = (Extra){outer, variable_retain(variable), inner, inner, 0};
  if (variable && variable_is_observed(variable)) /* nothing has assigned it until now */
    for (int i = 0; i < t->observer_count; i++)
      node_observe(t->graph, t->observer[i], variable, inner);
  return x;
}

Value *trace_import(Trace *t, Value *v) {
  if (!v || trace_owns(t, v)) return v;
  for (int i = 0; i < t->extra_count; i++)
    if (t->extra[i].outer == v && !t->extra[i].variable) return t->extra[i].inner;
  Value *outer = t->parent ? trace_import(t->parent, v) : NULL;
  if (!outer && t->parent && t->parent->graph->error.status == ERR_OUT_OF_MEMORY) {
    t->graph->error = t->parent->graph->error;
    return NULL;
  }
  if (!outer) {
    fail_at(
        &t->graph->error, t->graph->scope.source, ERR_VALUE,
        "a symbolic tensor is used outside the function that made it; return it from there, or pass it as an argument");
    return NULL;
  }
  Extra *x = new_extra(t, outer, NULL, &v->type);
  /* looked up by the value as the script holds it; resolved again when the region ends */
  if (x) x->outer = v;
  return x ? x->inner : NULL;
}

static Extra *find_variable(Trace *t, Variable *v) {
  for (int i = 0; i < t->extra_count; i++)
    if (t->extra[i].variable == v) return &t->extra[i];
  Trace *around = t->follows ? t->parent->parent : t->parent;
  Value *outer = around ? trace_read(around, v) : NULL;
  if (around && !outer) {
    if (t->graph->error.status == OK) t->graph->error = around->graph->error;
    return NULL;
  }
  return new_extra(t, outer, v, &v->type);
}

static void add_observer(Trace *t, Node *n) {
  if (array_reserve(&t->observer, &t->observer_capacity, t->observer_count + 1,
                    sizeof *t->observer))
    t->observer[t->observer_count++] = n;
  else fail(&t->graph->error, ERR_OUT_OF_MEMORY, "out of memory while tracing");
}

/* Do the ops of t run once, in the script's order? If not, they see the current values. */
static bool has_order(const Trace *t) {
  for (; t; t = t->parent)
    if (t->deferred || t->follows || t->is_gradient) return false;
  return true;
}

void trace_observe(Trace *t, Node *n) {
  if (!has_order(t) || n->place.stage >= 0) return;
  n->attr[OBSERVED] = attr_ints(NULL, 0);
  for (int i = 0; i < t->extra_count; i++)
    if (t->extra[i].variable && variable_is_observed(t->extra[i].variable))
      node_observe(t->graph, n, t->extra[i].variable, t->extra[i].current);
  add_observer(t, n);
}

/* A region that holds calls takes all variables in that the trace around it has met. */
static void observe_outer(Trace *region) {
  const Trace *outer = region->parent;
  for (int i = 0; region->observer_count && i < outer->extra_count; i++)
    if (outer->extra[i].variable && variable_is_observed(outer->extra[i].variable))
      find_variable(region, outer->extra[i].variable);
}

/* The newest reading of v serves again unless an effect on v came in between. */
static Value *read_deferred(Trace *t, Variable *v) {
  for (int i = t->extra_count - 1; i >= 0; i--) {
    const Extra *x = &t->extra[i];
    if (x->variable != v) continue;
    int k = x->effects;
    while (k < t->effect_count && t->effect[k].variable != v) k++;
    if (k == t->effect_count) return x->inner;
    break;
  }
  Extra *x = new_extra(t, NULL, v, &v->type);
  if (!x) return NULL;
  x->effects = t->effect_count;
  return x->inner;
}

void trace_add_effect(Trace *t, Variable *v, Value *value, const Node *trigger) {
  if (!value ||
      !array_reserve(&t->effect, &t->effect_capacity, t->effect_count + 1, sizeof *t->effect))
    return;
  t->effect[t->effect_count++] = (Effect){variable_retain(v), value, trigger, t->graph->node_count};
}

void trace_assign_with(Trace *t, int first, int since, const Node *trigger) {
  int last = t->effect_count;
  for (int i = first; i < last && trigger->id >= since; i++) {
    Effect e = t->effect[i];
    if (e.trigger == e.value->node) trace_add_effect(t, e.variable, e.value, trigger);
  }
}

Value *trace_read(Trace *t, Variable *v) {
  if (t->deferred) return read_deferred(t, v);
  Extra *x = find_variable(t, v);
  return x ? x->current : NULL;
}

Value *trace_first(Trace *t, Variable *v) {
  Extra *x = find_variable(t, v);
  return x ? x->inner : NULL;
}

void trace_assign(Trace *t, Variable *v, Value *value) {
  if (t->deferred) {
    if (value) trace_add_effect(t, v, value, value->node);
    return;
  }
  Extra *x = find_variable(t, v);
  if (x && value) x->current = value;
}

Value *trace_constant(Trace *t, Tensor *tensor) {
  const TensorSlot *s = tensor_map_find(&t->constant, tensor);
  if (s) return s->value;
  Value *v = graph_constant(t->graph, tensor);
  if (v && !tensor_map_put(&t->constant, tensor, v, NULL))
    fail(&t->graph->error, ERR_OUT_OF_MEMORY, "out of memory while tracing");
  return v;
}

/* ---- deferred traces ---- */

Trace *trace_new_deferred(void) {
  Trace *t = trace_new(NULL);
  if (t) t->deferred = true;
  return t;
}

Value *trace_placeholder(Trace *t, const Type *declared, const char *name) {
  Type type = *declared;
  for (int i = 0; i < type.rank; i++) {
    if (type.shape[i] >= 0) continue;
    type.shape[i] = UNKNOWN_EXTENT;
    t->has_unknown = true;
  }
  if (!array_reserve(&t->placeholder, &t->placeholder_capacity, t->placeholder_count + 1,
                     sizeof *t->placeholder))
    return NULL;
  Value *v = graph_input(t->graph, &type, name);
  if (v) t->placeholder[t->placeholder_count++] = (Placeholder){v, *declared};
  return v;
}

const Placeholder *trace_find_placeholder(const Trace *t, const Value *v) {
  for (int i = 0; i < t->placeholder_count; i++)
    if (t->placeholder[i].value == v) return &t->placeholder[i];
  return NULL;
}

static Value **copy_values(Graph *g, Value *const *v, int count) {
  return arena_copy(g->arena, v, (size_t)count * sizeof *v);
}

void trace_note_derivation(Trace *t, const Derivation *d) {
  if (d->first == d->end) return;
  Graph *g = t->graph;
  bool room = array_reserve(&t->derivation, &t->derivation_capacity, t->derivation_count + 1,
                            sizeof *t->derivation);
  Derivation c = *d;
  c.ys = copy_values(g, d->ys, d->y_count), c.dys = copy_values(g, d->dys, d->y_count);
  c.xs = copy_values(g, d->xs, d->x_count), c.dx = copy_values(g, d->dx, d->x_count);
  if (room && c.ys && c.dys && c.xs && c.dx) t->derivation[t->derivation_count++] = c;
  else fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
}

/* ---- ending regions ---- */

typedef struct Region {
  Trace *trace;
  Value *const *results; /* explicit ones */
  int result_count;
} Region;

static bool is_written(const Extra *x) { return x->variable && x->current != x->inner; }

bool trace_writes(const Trace *t) {
  for (int i = 0; i < t->extra_count; i++)
    if (is_written(&t->extra[i])) return true;
  return false;
}

const Extra *trace_extra_of(const Trace *t, const Value *v) {
  for (int i = 0; node_is_input(v->node) && i < t->extra_count; i++)
    if (t->extra[i].inner == v) return &t->extra[i];
  return NULL;
}

static int find_extra(const Trace *t, const Value *outer, const Variable *v) {
  for (int i = 0; i < t->extra_count; i++)
    if (v ? t->extra[i].variable == v : (!t->extra[i].variable && t->extra[i].outer == outer))
      return i;
  return -1;
}

/* Give region b every extra that a has, so that both can be put in one order. */
static bool share_extras(Trace *a, Trace *b) {
  for (int i = 0; i < a->extra_count; i++) {
    Extra *x = &a->extra[i];
    if (find_extra(b, x->outer, x->variable) >= 0) continue;
    if (!new_extra(b, x->outer, x->variable, &x->inner->type)) return false;
  }
  return true;
}

/* Put b's extras, and its graph's inputs, into a's order. */
static void order_extras(const Trace *a, Trace *b) {
  for (int i = 0; i < a->extra_count; i++) {
    int at = find_extra(b, a->extra[i].outer, a->extra[i].variable);
    Extra x = b->extra[i];
    b->extra[i] = b->extra[at];
    b->extra[at] = x;
  }
  for (int i = 0; i < b->extra_count; i++)
    b->graph->input[b->argument_count + i] = b->extra[i].inner;
}

static void give_outputs(Region *r, const int64_t *written, int written_count) {
  for (int i = 0; i < r->result_count; i++) graph_output(r->trace->graph, r->results[i]);
  for (int i = 0; i < written_count; i++)
    graph_output(r->trace->graph, r->trace->extra[written[i]].current);
}

/* The node of a control op in the parent, for one or two regions with equal extras. */
static Status end_regions(const OpDef *op, Region *a, Region *b, Value *const *lead, int lead_count,
                          int explicit_count, Object *plan, Value **out) {
  Trace *parent = a->trace->parent;
  Graph *g = parent->graph;
  int n = a->trace->extra_count, written_count = 0;
  Value **in = arena_alloc(g->arena, (size_t)(lead_count + n) * sizeof *in);
  int64_t *written = arena_alloc(g->arena, (size_t)n * sizeof *written);
  if (!in || !written)
    return fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory while tracing a %s", op->name);
  for (int i = 0; i < lead_count; i++) in[i] = lead[i];
  for (int i = 0; i < n; i++) {
    Extra *x = &a->trace->extra[i];
    in[lead_count + i] =
        x->variable ? trace_read(parent, x->variable) : trace_import(parent, x->outer);
    if (is_written(x) || (b && is_written(&b->trace->extra[i]))) written[written_count++] = i;
  }
  bool tests = op->control->other == REGION_TEST; /* a comes first, and gives its test alone */
  give_outputs(a, written, tests ? 0 : written_count);
  if (b) give_outputs(b, written, written_count);
  Region *first = tests ? b : a, *second = tests ? a : b;
  ControlParts parts = {.body = trace_take_graph(first->trace),
                        .other = second ? trace_take_graph(second->trace) : NULL,
                        .explicit_count = explicit_count,
                        .written = written,
                        .written_count = written_count,
                        .plan = plan};
  Node *node = control_node(g, op, in, lead_count + n, &parts);
  if (!node) return g->error.status;
  if (a->trace->observer_count || (b && b->trace->observer_count)) add_observer(parent, node);
  for (int i = 0; i < explicit_count; i++) out[i] = &node->out[i];
  for (int i = 0; i < written_count; i++)
    trace_assign(parent, a->trace->extra[written[i]].variable, &node->out[explicit_count + i]);
  return g->error.status;
}

/* A loop's own inputs: its count or limit, then the values that it carries. NULL: memory is out. */
static Value **loop_lead(Graph *g, Value *first, Value *const *carried, int count) {
  Value **lead = arena_alloc(g->arena, (size_t)(1 + count) * sizeof *lead);
  if (!lead) {
    fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory while tracing a loop");
    return NULL;
  }
  lead[0] = first;
  for (int i = 0; i < count; i++) lead[1 + i] = carried[i];
  return lead;
}

Status trace_end_repeat(Trace *body, Value *count, Value *const *carried, int carried_count,
                        Value *const *results, Object *plan, Value **out) {
  Graph *g = body->parent->graph;
  Value **lead = loop_lead(g, count, carried, carried_count);
  Region r = {body, results, carried_count};
  observe_outer(body);
  Status s = lead ? end_regions(&control_repeat, &r, NULL, lead, 1 + carried_count, carried_count,
                                plan, out)
                  : g->error.status;
  trace_free(body);
  return s;
}

Status trace_end_while(Trace *cond, Value *test, Trace *body, Value *limit, Value *const *carried,
                       int carried_count, Value *const *results, Value **out) {
  Graph *g = body->parent->graph;
  Value **lead = loop_lead(g, limit, carried, carried_count);
  Region c = {cond, &test, 1}, b = {body, results, carried_count};
  Status s = lead ? OK : g->error.status;
  observe_outer(cond), observe_outer(body);
  if (s == OK && !(share_extras(cond, body) && share_extras(body, cond)))
    s = fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory");
  if (s == OK) {
    order_extras(cond, body);
    s = end_regions(&control_while, &c, &b, lead, 1 + carried_count, carried_count, NULL, out);
  }
  trace_free(cond);
  trace_free(body);
  return s;
}

Status trace_end_cond(Value *test, Trace *yes, Value *const *yes_results, Trace *no,
                      Value *const *no_results, int count, Value **out) {
  Graph *g = yes->parent->graph;
  Region a = {yes, yes_results, count}, b = {no, no_results, count};
  observe_outer(yes), observe_outer(no);
  Status s = share_extras(yes, no) && share_extras(no, yes)
                 ? OK
                 : fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory");
  if (s == OK) {
    order_extras(yes, no);
    s = end_regions(&control_cond, &a, &b, &test, 1, count, NULL, out);
  }
  trace_free(yes);
  trace_free(no);
  return s;
}

Status trace_end_call(Trace *body, Value *const *arguments, Value *const *results, int count,
                      Value **out) {
  Region r = {body, results, count};
  Status s =
      end_regions(&control_call, &r, NULL, arguments, body->argument_count, count, NULL, out);
  trace_free(body);
  return s;
}

static int position_of(Value *const *list, int count, const Value *v) {
  for (int i = 0; i < count; i++)
    if (list[i] == v) return i;
  return -1;
}

/* saved: where the body's node has each value that the gradient's region takes from body (input
 * k: k, output k: -1-k). Values that only body has become results of it. */
static bool save_values(Trace *body, Trace *gradient, Value **results, int *count, int64_t *saved) {
  for (int i = 0; i < gradient->extra_count; i++) {
    Extra *x = &gradient->extra[i];
    Value *v = x->variable ? trace_read(body, x->variable) : trace_import(body, x->outer);
    if (!v) return false;
    int input = position_of(body->graph->input, body->graph->input_count, v),
        output = position_of(results, *count, v);
    if (input < 0 && output < 0) results[output = (*count)++] = v;
    saved[i] = input >= 0 ? input : -1 - output;
  }
  return true;
}

static Attr own_ints(Arena *a, const int64_t *v, int n) {
  return attr_ints(arena_copy(a, v, (size_t)n * sizeof *v), n);
}

/* A gradient may be computed never, once or several times: it changes nothing. Its random ops
 * count their runs outside of it. */
static Status refuse_assignments(const Trace *gradient, Error *e) {
  for (int i = 0; i < gradient->extra_count; i++)
    if (is_written(&gradient->extra[i]) && !gradient->extra[i].variable->counts_runs)
      return fail_at(
          e, gradient->graph->scope.source, ERR_INVALID_ARGUMENT,
          "custom_gradient: the gradient function assigns variable '%s': it may compute, but change nothing",
          gradient->extra[i].variable->name);
  return OK;
}

Status trace_end_custom(Trace *body, Value *const *arguments, Value *const *results, int count,
                        const CustomGradient *gradient, Value **out) {
  Graph *g = body->parent->graph, *inner = gradient->trace->graph;
  int max = count + gradient->trace->extra_count + 1, all = count,
      saved_count = gradient->trace->extra_count;
  Value **kept = arena_alloc(g->arena, (size_t)max * sizeof *kept),
        **made = arena_alloc(g->arena, (size_t)max * sizeof *made);
  int64_t *saved = arena_alloc(g->arena, (size_t)max * sizeof *saved);
  Status s = kept && made && saved ? inner->error.status : ERR_OUT_OF_MEMORY;
  if (s == OK) s = refuse_assignments(gradient->trace, &g->error);
  for (int i = 0; i < count && s == OK; i++) kept[i] = results[i];
  for (int i = 0; i < gradient->given_count; i++) graph_output(inner, gradient->results[i]);
  if (s == OK && !save_values(body, gradient->trace, kept, &all, saved))
    s = body->graph->error.status;
  if (s != OK && g->error.status == OK)
    g->error = inner->error.status != OK ? inner->error : body->graph->error;
  if (s != OK && g->error.status == OK)
    fail(&g->error, s, "out of memory while tracing a gradient");
  Region r = {body, kept, all};
  observe_outer(body);
  if (s == OK)
    s = end_regions(&control_custom, &r, NULL, arguments, body->argument_count, all, NULL, made);
  if (s == OK) {
    Node *n = g->node[g->node_count - 1];
    n->attr[CONTROL_OTHER] = (Attr){.kind = ATTR_GRAPH, .graph = inner};
    graph_adopt(g, trace_take_graph(gradient->trace));
    n->attr[CONTROL_UPSTREAM] = own_ints(g->arena, gradient->upstream, gradient->upstream_count);
    n->attr[CONTROL_SAVED] = own_ints(g->arena, saved, saved_count);
    n->attr[CONTROL_GIVEN] = own_ints(g->arena, gradient->given, gradient->given_count);
    for (int i = 0; i < count; i++) out[i] = made[i];
  }
  trace_free(gradient->trace);
  trace_free(body);
  return g->error.status;
}

/* A variable that no program changes has one value only. */
static void observe_written(Trace *t) {
  int64_t *serial = arena_alloc(t->graph->arena, (size_t)(t->extra_count + 1) * sizeof *serial);
  int count = 0;
  for (int i = 0; serial && i < t->extra_count; i++)
    if (is_written(&t->extra[i])) serial[count++] = t->extra[i].variable->serial;
  if (serial) graph_observe_only(t->graph, serial, count);
  else fail(&t->graph->error, ERR_OUT_OF_MEMORY, "out of memory while tracing");
}

int trace_end_root(Trace *t, Value *const *results, int count, int *written) {
  int n = 0;
  if (t->observer_count) observe_written(t);
  for (int i = 0; i < count; i++) graph_output(t->graph, results[i]);
  for (int i = 0; i < t->extra_count; i++) {
    if (!is_written(&t->extra[i])) continue;
    graph_output(t->graph, t->extra[i].current);
    written[n++] = i;
  }
  return n;
}
