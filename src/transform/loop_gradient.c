/* The gradient of a loop is a loop that walks its iterations backwards. The states at the beginning
 * of an iteration come from a tape, which a second, pure forward loop has filled. The iteration
 * itself is computed again.
 *
 *   tape pass       t = 0 … trips-1:   tape[t] = S,  S = body(t, S, X)
 *   backward pass   t = trips-1 … 0:   D, dX += vjp of body at (t, tape[t], X), applied to D
 *
 * S are the states: carried values and variables that the body writes. X are its other inputs. D
 * are gradients of states.
 *
 * A tape has a row for each iteration, if that bounds its memory. Otherwise it has TAPE_ROWS rows,
 * one for every `stride` iterations. Then the backward pass starts from the last row at or before
 * t. That is so if the count is only known when the program runs, for a while without a limit, and
 * for very long loops. */
#include "transform/loop_gradient.h"
#include "graph/control.h"
#include "ops/ops.h"
#include "transform/autodiff.h"
#include "transform/clone.h"

enum { TAPE_ROWS = 256, TAPE_BYTES = 64 << 20 };

typedef struct Loop {
  Graph *g;
  const Node *n;
  const Graph *body;
  const bool *wanted;
  bool repeat;
  int inputs;           /* of the body */
  int first;            /* its input that is the node's input 1 */
  int states;           /* carried values, then written variables; as many outputs */
  int *state_of;        /* [inputs] which state an input is; -1: none */
  int *input_of;        /* [states] */
  bool *active;         /* [states] D flows through it */
  bool *taped;          /* [states] the backward pass needs its values */
  bool *walked;         /* [states] the tape pass needs it */
  bool *differentiated; /* [inputs] that are no states and have a gradient */
  int64_t rows;
  bool strided;
  Value *trips, *stride; /* int32 scalars of g; stride NULL: 1 */
  Value **tape;          /* [states] of g */
} Loop;

static Value *value_of_input(const Loop *l, int i) { return l->n->in[1 + i - l->first]; }
/* over the iterations */
static bool is_constant(const Loop *l, int i) { return i >= l->first && l->state_of[i] < 0; }
static bool is_float(const Value *v) { return v && dtype_is_float(v->type.dtype); }

static void no_memory(Loop *l) {
  fail(&l->g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
}

static void *room(Loop *l, int count, size_t size) {
  void *p = arena_alloc(l->g->arena, (size_t)(count + 1) * size);
  if (!p) no_memory(l);
  return p;
}

static Value **values(Loop *l, int count) { return room(l, count, sizeof(Value *)); }

static Graph *new_region(Loop *l) {
  Graph *r = graph_beside(l->g);
  if (!r) no_memory(l);
  return r;
}

static bool prepare(Loop *l) {
  const Node *n = l->n;
  int carried = control_explicit(n), written = control_written_count(n);
  ControlRegions c = control_regions(n);
  l->repeat = c.lead > 0;
  l->body = control_body(n);
  l->first = c.lead;
  l->inputs = l->body->input_count;
  l->states = carried + written;
  l->state_of = room(l, l->inputs, sizeof *l->state_of);
  l->input_of = room(l, l->states, sizeof *l->input_of);
  l->active = room(l, l->states, sizeof *l->active);
  l->taped = room(l, l->states, sizeof *l->taped);
  l->walked = room(l, l->states, sizeof *l->walked);
  l->differentiated = room(l, l->inputs, sizeof *l->differentiated);
  l->tape = values(l, l->states);
  if (l->g->error.status != OK) return false;
  for (int i = 0; i < l->inputs; i++) l->state_of[i] = -1;
  for (int s = 0; s < l->states; s++) {
    l->input_of[s] = control_input(&c, control_replaced(n, s));
    l->state_of[l->input_of[s]] = s;
  }
  return true;
}

/* ---- a region's inputs ---- */

/* Values of the inputs of the loop's regions, inside of a region r that is being built: all from
 * r's own inputs. */
typedef struct RegionInputs {
  Graph *r;
  Value **in; /* [inputs], as the body's; the index may be set later */
} RegionInputs;

/* The next input of r, and the operand that the node around r passes for it. */
typedef struct Passing {
  Graph *r;
  Value **outer;
  int count;
} Passing;

static Value *pass(Passing *p, Value *outer) {
  if (!outer) return NULL;
  p->outer[p->count++] = outer;
  return graph_input(p->r, &outer->type, NULL);
}

static void pass_constants(Loop *l, Passing *p, RegionInputs *in) {
  for (int i = 0; i < l->inputs; i++)
    if (is_constant(l, i)) in->in[i] = pass(p, value_of_input(l, i));
}

static Value *int32(Graph *g, int64_t value) { return graph_number(g, I32, (double)value); }

/* ---- which states matter ---- */

/* The inputs of g that marked nodes depend on; live [node_count]. */
static void spread(const Graph *g, bool *live) {
  for (int i = g->node_count - 1; i >= 0; i--)
    for (int k = 0; live[i] && k < g->node[i]->in_count; k++)
      live[g->node[i]->in[k]->node->id] = true;
}

/* Differentiate the body once for its structure: which states get a gradient, and whose values that
 * reads. True: more states are active than before. */
static bool analyse(Loop *l) {
  Graph *r = new_region(l);
  Value **in = values(l, l->inputs), **xs = values(l, l->inputs), **dx = values(l, l->inputs),
        **out = values(l, l->states);
  Value **ys = values(l, l->states), **dys = values(l, l->states);
  bool grown = false;
  if (l->g->error.status != OK) {
    graph_free(r);
    return false;
  }
  int y_count = 0;
  for (int i = 0; i < l->inputs; i++) {
    in[i] = graph_input(r, &l->body->input[i]->type, NULL);
    if (is_float(in[i]) && i >= l->first && (!is_constant(l, i) || l->wanted[1 + i - l->first]))
      xs[i] = in[i];
  }
  graph_inline(r, l->body, in, l->active, out);
  for (int s = 0; s < l->states; s++) {
    if (!l->active[s]) continue;
    ys[y_count] = out[s];
    dys[y_count++] = graph_input(r, &l->body->output[s]->type, NULL);
  }
  autodiff(r, ys, dys, y_count, xs, l->inputs, dx);
  bool *live = arena_alloc(r->arena, (size_t)r->node_count + 1);
  for (int i = 0; live && r->error.status == OK && i < l->inputs; i++) {
    if (!dx[i]) continue;
    live[dx[i]->node->id] = true;
    int s = l->state_of[i];
    if (s < 0) l->differentiated[i] = true;
    else if (!l->active[s]) l->active[s] = grown = true;
  }
  if (live && !grown && r->error.status == OK) {
    spread(r, live);
    for (int s = 0; s < l->states; s++) l->taped[s] = live[in[l->input_of[s]]->node->id];
  }
  if (!live) no_memory(l);
  if (r->error.status != OK && l->g->error.status == OK) l->g->error = r->error;
  graph_free(r);
  return grown;
}

/* States that some outputs of a region of the loop depend on, marked in l->walked. */
static bool walk_from(Loop *l, const Graph *region, const bool *outputs) {
  bool *live = arena_alloc(l->g->arena, (size_t)region->node_count + 1), grown = false;
  if (!live) {
    no_memory(l);
    return false;
  }
  for (int i = 0; i < region->output_count; i++)
    if (!outputs || outputs[i]) live[region->output[i]->node->id] = true;
  spread(region, live);
  for (int s = 0; s < l->states; s++) {
    if (!live[region->input[l->input_of[s]]->node->id] || l->walked[s]) continue;
    l->walked[s] = grown = true;
  }
  return grown;
}

static void find_walked(Loop *l) {
  for (int s = 0; s < l->states; s++) l->walked[s] = l->taped[s];
  if (!l->repeat) walk_from(l, control_other(l->n), NULL);
  while (walk_from(l, l->body, l->walked)) {
  }
}

/* ---- the tape's size ---- */

static int64_t constant_count(const Value *v) {
  return node_is_constant(v->node)
             ? dtype_get_integer(v->type.dtype, v->node->attr[0].tensor->data, 0)
             : -1;
}

static void choose_rows(Loop *l) {
  size_t bytes = 0;
  for (int s = 0; s < l->states; s++)
    if (l->taped[s]) bytes += type_bytes(&l->body->output[s]->type);
  int64_t max = constant_count(l->n->in[0]);
  if (max < 0 && l->repeat && node_is_constant(l->n->in[0]->node)) max = 0;
  bool fits = max >= 0 && (max <= TAPE_ROWS || !bytes || (size_t)max <= TAPE_BYTES / bytes);
  l->strided = !fits;
  l->rows = fits ? (max > 0 ? max : 1) : TAPE_ROWS;
  /* walked again, from rows of the tape */
  for (int s = 0; s < l->states && l->strided; s++) l->taped[s] = l->walked[s];
}

/* ---- forwards ---- */

/* The row of a tape for iteration t. With a stride, iterations between have a row that is never
 * read. */
static Value *row_of(Graph *r, const Loop *l, Value *t, Value *stride) {
  if (!stride) return t;
  Value *first = op2(r, "equal", op2(r, "mod", t, stride), int32(r, 0));
  return ops_where(r, first, op2(r, "floordiv", t, stride), int32(r, l->rows));
}

static Value *flat(Graph *r, Value *v) {
  if (!v) return NULL;
  Type t = {.dtype = v->type.dtype, .rank = 1, .shape = {type_count(&v->type)}};
  return ops_reshape(r, v, &t);
}

static Value *new_tape(Loop *l, int state) {
  const Type *t = &l->body->output[state]->type;
  return ops_zeros(
      l->g, &(Type){.dtype = t->dtype, .rank = 2, .shape = {l->rows + l->strided, type_count(t)}});
}

/* The condition of a while, seen from a region whose inputs are a counter, the walked states,
 * `tapes` tapes, the rest. */
static Graph *walk_condition(Loop *l, Value *const *outer, int count, int tapes) {
  Graph *r = new_region(l);
  const Graph *cond = control_other(l->n);
  Value **in = values(l, l->inputs), *test = NULL;
  if (!r || !in) return r;
  Value **own = values(l, count);
  for (int k = 0; own && k < count; k++) own[k] = graph_input(r, &outer[k]->type, NULL);
  int at = 1;
  for (int s = 0; own && s < l->states; s++)
    if (l->walked[s]) in[l->input_of[s]] = own[at++];
  at += tapes;
  for (int i = 0; own && i < l->inputs; i++)
    if (is_constant(l, i)) in[i] = own[at++];
  /* an unread input may be any value of that type */
  for (int s = 0; s < l->states; s++)
    if (!in[l->input_of[s]]) in[l->input_of[s]] = ops_zeros(r, &cond->input[l->input_of[s]]->type);
  graph_inline(r, cond, in, NULL, &test);
  graph_output(r, test);
  return r;
}

/* Run the iterations for the tapes (if with_tapes) and, of a while, for their number. */
static void walk_forwards(Loop *l, const OpDef *op, Value *bound, bool with_tapes) {
  Graph *r = new_region(l);
  int max = 2 * l->states + l->inputs + 4, explicit_count = 0, tapes = 0;
  bool counts = op == &control_while;
  Passing p = {r, values(l, max), 0};
  RegionInputs in = {r, values(l, l->inputs)};
  Value **state = values(l, l->states), **tape = values(l, l->states), **out = values(l, l->states);
  Value *index = r && !counts ? graph_input(r, &(Type){.dtype = I32}, NULL) : NULL;
  if (l->g->error.status != OK) {
    graph_free(r);
    return;
  }
  if (counts) index = pass(&p, int32(l->g, 0));
  for (int s = 0; s < l->states; s++)
    if (l->walked[s])
      in.in[l->input_of[s]] = state[s] = pass(&p, value_of_input(l, l->input_of[s]));
  for (int s = 0; s < l->states && with_tapes; s++)
    if (l->taped[s]) tape[s] = pass(&p, new_tape(l, s)), tapes++;
  explicit_count = p.count;
  pass_constants(l, &p, &in);
  Value *stride = with_tapes && l->stride ? pass(&p, l->stride) : NULL;
  if (l->repeat) in.in[0] = index;
  for (int s = 0; s < l->states; s++)
    if (!state[s]) in.in[l->input_of[s]] = ops_zeros(r, &l->body->output[s]->type);
  Value *row = with_tapes ? row_of(r, l, index, stride) : NULL;
  for (int s = 0; s < l->states; s++)
    if (tape[s]) tape[s] = op3(r, "tape_set", tape[s], flat(r, state[s]), row);
  graph_inline(r, l->body, in.in, l->walked, out);
  if (counts) graph_output(r, ops_add(r, index, int32(r, 1)));
  for (int s = 0; s < l->states; s++)
    if (state[s]) graph_output(r, out[s]);
  for (int s = 0; s < l->states; s++)
    if (tape[s]) graph_output(r, tape[s]);
  Value **node_in = values(l, p.count + 1);
  if (!node_in) {
    graph_free(r);
    return;
  }
  node_in[0] = bound;
  for (int i = 0; i < p.count; i++) node_in[1 + i] = p.outer[i];
  Graph *condition = counts ? walk_condition(l, p.outer, p.count, tapes) : NULL;
  ControlParts parts = {.body = r, .other = condition, .explicit_count = explicit_count};
  Node *n = control_node(l->g, op, node_in, 1 + p.count, &parts);
  if (!n) return;
  if (counts) l->trips = &n->out[0];
  for (int s = 0, k = explicit_count - tapes; s < l->states; s++)
    if (tape[s]) l->tape[s] = &n->out[k++];
}

static bool any(const bool *flag, int count) {
  for (int i = 0; i < count; i++)
    if (flag[i]) return true;
  return false;
}

static void choose_stride(Loop *l) {
  Graph *g = l->g;
  Value *up = ops_add(g, l->trips, int32(g, l->rows - 1));
  l->stride = op2(g, "maximum", op2(g, "floordiv", up, int32(g, l->rows)), int32(g, 1));
}

static void forwards(Loop *l) {
  bool tapes = any(l->taped, l->states);
  if (l->repeat) l->trips = l->n->in[0];
  else walk_forwards(l, &control_while, l->n->in[0], tapes && !l->strided);
  if (l->strided && tapes) choose_stride(l);
  if (tapes && (l->repeat || l->strided)) walk_forwards(l, &control_repeat, l->trips, true);
}

/* ---- backwards ---- */

/* From the states at iteration `from` to those at t, inside of region r; state [states] is
 * replaced. */
static void walk_on(Loop *l, Graph *outer, Value *from, Value *t, Value **state,
                    Value *const *constants) {
  Graph *r = new_region(l);
  Passing p = {r, values(l, l->inputs + l->states + 2), 0};
  RegionInputs in = {r, values(l, l->inputs)};
  Value **out = values(l, l->states);
  if (l->g->error.status != OK) {
    graph_free(r);
    return;
  }
  p.outer[p.count++] = ops_sub(outer, t, from);
  Value *index = graph_input(r, &(Type){.dtype = I32}, NULL);
  int explicit_count = 0;
  for (int s = 0; s < l->states; s++)
    if (l->taped[s]) in.in[l->input_of[s]] = pass(&p, state[s]), explicit_count++;
  for (int i = 0; i < l->inputs; i++)
    if (is_constant(l, i)) in.in[i] = pass(&p, constants[i]);
  Value *begin = pass(&p, from);
  if (l->repeat) in.in[0] = ops_add(r, begin, index);
  for (int s = 0; s < l->states; s++)
    if (!l->taped[s]) in.in[l->input_of[s]] = ops_zeros(r, &l->body->output[s]->type);
  graph_inline(r, l->body, in.in, l->taped, out);
  for (int s = 0; s < l->states; s++)
    if (l->taped[s]) graph_output(r, out[s]);
  Node *n = control_node(outer, &control_repeat, p.outer, p.count,
                         &(ControlParts){.body = r, .explicit_count = explicit_count});
  for (int s = 0, k = 0; n && s < l->states; s++)
    if (l->taped[s]) state[s] = &n->out[k++];
}

/* The states at the beginning of iteration t. States that are not taped don't influence the wanted
 * gradients. */
static void read_states(Loop *l, Graph *r, Value *t, Value *stride, Value *const *tape,
                        Value **in) {
  Value **state = values(l, l->states);
  if (!state) return;
  Value *row = stride ? op2(r, "floordiv", t, stride) : t;
  for (int s = 0; s < l->states; s++) {
    const Type *type = &l->body->output[s]->type;
    state[s] =
        l->taped[s] ? ops_reshape(r, op2(r, "gather", tape[s], row), type) : ops_zeros(r, type);
  }
  if (stride) walk_on(l, r, ops_mul(r, row, stride), t, state, in);
  for (int s = 0; s < l->states; s++) in[l->input_of[s]] = state[s];
}

static void backwards(Loop *l, Value *const *dy, Value **dx) {
  Graph *g = l->g, *r = new_region(l);
  Passing p = {r, values(l, 4 * l->states + 2 * l->inputs + 4), 0};
  RegionInputs in = {r, values(l, l->inputs)};
  Value **d = values(l, l->states), **sum = values(l, l->inputs), **tape = values(l, l->states);
  Value **xs = values(l, l->inputs), **found = values(l, l->inputs), **out = values(l, l->states);
  Value **ys = values(l, l->states), **dys = values(l, l->states);
  if (g->error.status != OK) {
    graph_free(r);
    return;
  }
  p.outer[p.count++] = l->trips;
  Value *back = graph_input(r, &(Type){.dtype = I32}, NULL);
  for (int s = 0; s < l->states; s++)
    if (l->active[s]) d[s] = pass(&p, dy[s] ? dy[s] : ops_zeros(g, &l->n->out[s].type));
  for (int i = 0; i < l->inputs; i++)
    if (l->differentiated[i]) sum[i] = pass(&p, ops_zeros(g, &value_of_input(l, i)->type));
  int explicit_count = p.count - 1;
  for (int s = 0; s < l->states; s++) tape[s] = pass(&p, l->tape[s]);
  pass_constants(l, &p, &in);
  Value *trips = pass(&p, l->trips), *stride = l->stride ? pass(&p, l->stride) : NULL;
  Value *t = ops_sub(r, ops_sub(r, trips, int32(r, 1)), back);
  read_states(l, r, t, stride, tape, in.in);
  if (l->repeat) in.in[0] = t;
  /* an iteration depends on its states and on X alone, whatever led to those */
  for (int i = 0; i < l->inputs; i++)
    if (l->differentiated[i]) in.in[i] = op1(r, "identity", in.in[i]);
  graph_inline(r, l->body, in.in, l->active, out);
  int y_count = 0;
  for (int s = 0; s < l->states; s++)
    if (l->active[s]) ys[y_count] = out[s], dys[y_count++] = d[s];
  for (int i = l->first; i < l->inputs; i++)
    if (l->differentiated[i] || (l->state_of[i] >= 0 && l->active[l->state_of[i]]))
      xs[i] = in.in[i];
  autodiff(r, ys, dys, y_count, xs, l->inputs, found);
  for (int s = 0; s < l->states; s++) {
    if (!l->active[s]) continue;
    Value *f = found[l->input_of[s]];
    graph_output(r, f ? f : ops_zeros(r, &l->n->out[s].type));
  }
  for (int i = 0; i < l->inputs; i++)
    if (l->differentiated[i]) graph_output(r, found[i] ? ops_add(r, sum[i], found[i]) : sum[i]);
  Node *n = control_node(g, &control_repeat, p.outer, p.count,
                         &(ControlParts){.body = r, .explicit_count = explicit_count});
  int k = 0;
  for (int s = 0; n && s < l->states; s++)
    if (l->active[s]) dx[1 + l->input_of[s] - l->first] = &n->out[k++];
  for (int i = 0; n && i < l->inputs; i++)
    if (l->differentiated[i]) dx[1 + i - l->first] = &n->out[k++];
}

void loop_gradient(Graph *g, const Node *n, Value *const *dy, const bool *wanted, Value **dx) {
  Loop l = {.g = g, .n = n, .wanted = wanted};
  if (!prepare(&l)) return;
  for (int s = 0; s < l.states; s++) l.active[s] = dy[s] != NULL;
  while (analyse(&l)) {
  }
  if (g->error.status != OK) return;
  find_walked(&l);
  choose_rows(&l);
  forwards(&l);
  if (g->error.status == OK) backwards(&l, dy, dx);
}
