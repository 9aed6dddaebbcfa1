/* Sharing, graph → graph. The elementwise ops between a load and the store of one tensor run on
 * vectors of a share's length. If another op reads their values, the shares are gathered for it. So
 * a norm over the tensor has the same bits as without sharing. */
#include "program/share.h"

#include <stdlib.h>

#include "graph/control.h"
#include "graph/numbering.h"
#include "ops/io/remote.h"
#include "ops/ops.h"
#include "program/program.h"
#include "program/region.h"
#include "transform/clone.h"
#include "transform/verify.h"

/* Variables that are equal on all replicas if their updates are: a trainable variable, and its
 * optimizer's variables. */
enum { KEPT_APART, KEPT_WEIGHT, KEPT_STATE };

/* A region being checked or copied. */
typedef struct Part {
  Error *error;
  Arena *arena;
  int replicas;
  const Graph *g;
  Graph *to;
  bool staged;              /* a pipeline's body: tensors are whole in all its ops */
  const bool *shared_input; /* [input_count] */
  const char *kept_input;   /* [input_count] KEPT_… */
  const int *replaced;      /* [output_count] the input that it replaces; -1: none */
  Numbering values;
  bool *shared;          /* by value: such a variable */
  char *kept;            /* by value: KEPT_… */
  bool *agreed;          /* by node: all replicas have the same value */
  bool *divided;         /* by node: each replica has its share */
  bool *stored;          /* by input: its shares were replaced */
  Value **made, **share; /* by value: whole, and this replica's share; NULL: not yet */
} Part;

static Graph *share_region(const Part *outer, const Graph *g, bool staged, const bool *shared,
                           const char *kept, const int *replaced, bool *fits);

static bool is_number(const Value *v) { return type_count(&v->type) == 1; }
static bool is_plain(const Node *n) {
  return (n->op->traits & ELEMENTWISE) && !(n->op->traits & VIEW) && n->out_count == 1;
}

/* A sum or mean over all replicas. */
static bool is_sum(const Node *n) {
  Collective c = n->op->collective;
  return (c == COLLECTIVE_SUM || c == COLLECTIVE_MEAN) && n->attr[0].kind == ATTR_NONE;
}

/* ---- which variables can be shared ---- */

static bool agrees(const Part *t, const Node *n) {
  if (node_is_constant(n) || is_sum(n) || (node_is_load(n) && !node_moves_slot(n))) return true;
  if (node_is_input(n)) return t->kept[value_number(&t->values, n->out)] != KEPT_APART;
  if (!is_plain(n) && !node_is_light(n)) return false;
  for (int k = 0; k < n->in_count; k++)
    if (!is_number(n->in[k]) && !t->agreed[n->in[k]->node->id]) return false;
  return true;
}

/* False: an update of shares reads a value that differs between replicas, or mixes elements. */
static bool divide(Part *t, const Node *n) {
  bool *divided = &t->divided[n->id];
  *divided = node_is_load(n) && t->shared[value_number(&t->values, n->in[0])];
  if (*divided || t->staged || !is_plain(n)) return true;
  for (int k = 0; k < n->in_count; k++)
    *divided = *divided || (t->divided[n->in[k]->node->id] && !is_number(n->in[k]));
  for (int k = 0; *divided && k < n->in_count; k++) {
    const Value *v = n->in[k];
    if (is_number(v)) continue;
    if (!t->agreed[v->node->id] && !t->divided[v->node->id]) return false;
    if (t->divided[v->node->id] && !shape_equal(&v->type, &n->out[0].type)) return false;
  }
  return true;
}

/* The input that output i, which a store makes, takes the place of; -1: it is none that is
 * shared. */
static int stored_input(const Part *t, int i) {
  int input = t->replaced ? t->replaced[i] : -1;
  return input >= 0 && t->shared_input[input] ? input : -1;
}

/* ---- values ---- */

static Type list_of(Dtype d, int64_t length) { return type_make(d, 1, &length); }

static Value *whole(Part *t, Value *v);

static Value *gather(Part *t, Value *share, const Type *like) {
  Attr factor = attr_int(t->replicas);
  Value *all = op_with(t->to, "all_gather", &share, 1, &factor);
  if (!all) return NULL;
  int64_t zero = 0, length = type_count(like), padded = type_count(&all->type);
  Type flat = list_of(like->dtype, padded);
  Attr range[2] = {attr_ints(&zero, 1), attr_ints(&length, 1)};
  Value *list = ops_reshape(t->to, all, &flat);
  if (padded > length) list = op_with(t->to, "slice", &list, 1, range);
  return ops_reshape(t->to, list, like);
}

static Value *scatter(Part *t, const Node *n) {
  Value *x = whole(t, n->in[0]);
  Attr attrs[2] = {attr_string(n->op->collective == COLLECTIVE_MEAN ? "MEAN" : "ADD"),
                   attr_int(t->replicas)};
  Type flat = list_of(n->out[0].type.dtype, type_count(&n->out[0].type));
  graph_stand_at(t->to, n);
  x = x ? ops_reshape(t->to, x, &flat) : NULL;
  return x ? op_with(t->to, "reduce_scatter", &x, 1, attrs) : NULL;
}

static Value *share_of(Part *t, Value *v);

static Value *share_of_plain(Part *t, const Node *n) {
  Value **in = arena_alloc(t->arena, (size_t)n->in_count * sizeof *in);
  Type number = {0};
  for (int k = 0; in && k < n->in_count; k++) {
    in[k] = is_number(n->in[k]) ? whole(t, n->in[k]) : share_of(t, n->in[k]);
    if (in[k] && is_number(n->in[k])) in[k] = ops_reshape(t->to, in[k], &number);
    if (!in[k]) return NULL;
  }
  graph_stand_at(t->to, n);
  Node *made = in ? graph_node(t->to, n->op, in, n->in_count, n->attr) : NULL;
  if (!made) return NULL;
  made->stream = n->stream;
  return made->out;
}

static Value *make_share(Part *t, Value *v) {
  const Node *n = v->node;
  int64_t length = (type_count(&v->type) + t->replicas - 1) / t->replicas;
  if (is_sum(n)) return scatter(t, n);
  if (is_plain(n) && (t->divided[n->id] || t->agreed[n->id])) return share_of_plain(t, n);
  if (t->divided[n->id]) {
    Value *x = t->made[value_number(&t->values, n->in[0])];
    graph_stand_at(t->to, n);
    return remote_load(t->to, x, t->replicas);
  }
  Value *x = whole(t, node_is_light(n) && is_number(n->in[0]) ? n->in[0] : v);
  graph_stand_at(t->to, n);
  if (!x || !node_is_light(n) || !is_number(n->in[0]))
    return x ? replica_share(t->to, x, t->replicas) : NULL;
  Type number = {0}, list = list_of(v->type.dtype, length);
  x = ops_reshape(t->to, x, &number);
  return x ? ops_broadcast(t->to, x, &list) : NULL;
}

static Value *share_of(Part *t, Value *v) {
  Value **known = &t->share[value_number(&t->values, v)];
  if (!*known) *known = make_share(t, v);
  return *known;
}

static Value *whole(Part *t, Value *v) {
  Value **known = &t->made[value_number(&t->values, v)];
  if (*known || !t->divided[v->node->id]) return *known;
  Value *x = share_of(t, v);
  graph_stand_at(t->to, v->node);
  return *known = x ? gather(t, x, &v->type) : NULL;
}

/* ---- nodes ---- */

static bool hand_in(Part *t, const Node *n, Value **in, bool *shared, char *kept) {
  ControlRegions c = control_regions(n);
  for (int i = 0; i < n->in_count; i++) {
    int at = value_number(&t->values, n->in[i]);
    if (!(in[i] = whole(t, n->in[i]))) return false;
    if (i < c.skip + c.carried) continue;
    shared[control_input(&c, i)] = t->shared[at];
    kept[control_input(&c, i)] = t->kept[at];
  }
  for (int i = control_explicit(n); !control_calls(&c) && i < n->out_count; i++) {
    int from = control_input(&c, control_replaced(n, i)), to = t->values.first[n->id] + i;
    t->shared[to] = shared[from];
    t->kept[to] = kept[from];
  }
  return true;
}

/* The variables that the outputs of n's regions replace. */
static int *replaced_in(const Part *t, const Node *n) {
  ControlRegions c = control_regions(n);
  int *replaced = arena_alloc(t->arena, (size_t)(n->out_count + 1) * sizeof *replaced);
  for (int i = 0; replaced && i < n->out_count; i++) {
    int operand = i < control_explicit(n) ? -1 : control_replaced(n, i);
    replaced[i] = operand < 0 ? -1 : control_input(&c, operand);
  }
  return replaced;
}

static Node *copy_control(Part *t, const Node *n, bool *fits) {
  size_t count = (size_t)n->in_count + 2;
  Value **in = arena_alloc(t->arena, count * sizeof *in);
  bool *shared = arena_alloc(t->arena, count);
  char *kept = arena_alloc(t->arena, count);
  int *replaced = replaced_in(t, n);
  if (!in || !shared || !kept || !replaced || !hand_in(t, n, in, shared, kept)) return NULL;
  ControlRegions c = control_regions(n);
  Graph *copy[2] = {NULL, NULL};
  bool staged = t->staged || control_plan(n), good = true;
  for (int r = 0; r < c.count && good; r++) {
    if (!region_runs(&c.region[r])) continue;
    copy[r] = share_region(t, c.region[r].graph, staged, shared, kept,
                           region_gives(&c.region[r]) ? replaced : NULL, fits);
    graph_adopt(t->to, copy[r]);
    good = copy[r] && t->to->error.status == OK;
  }
  return good ? clone_control(t->to, n, in, copy) : NULL;
}

static Value *copy_node(Part *t, const Node *n, bool *fits) {
  if (!node_is_made(n)) return clone_leaf(t->to, n);
  Node *made = NULL;
  if (n->op->traits & CONTROL) {
    made = copy_control(t, n, fits);
  } else {
    Value **in = arena_alloc(t->arena, (size_t)(n->in_count + 1) * sizeof *in);
    for (int k = 0; in && k < n->in_count; k++)
      if (!(in[k] = whole(t, n->in[k]))) return NULL;
    made = in ? clone_node(t->to, n, in) : NULL;
  }
  return made ? made->out : NULL;
}

/* The output that a store makes of a shared variable; -1: none. */
static int output_of(const Part *t, const Node *n) {
  for (int i = 0; node_is_store(n) && i < t->g->output_count; i++)
    if (t->g->output[i] == n->out && stored_input(t, i) >= 0) return i;
  return -1;
}

static bool put_share(Part *t, const Node *n, int output) {
  t->stored[stored_input(t, output)] = true;
  Value *x = share_of(t, n->in[0]),
        *whole_before = t->made[value_number(&t->values, t->g->input[stored_input(t, output)])];
  graph_stand_at(t->to, n);
  return x && (t->made[value_number(&t->values, n->out)] =
                   remote_store(t->to, x, whole_before, t->replicas)) != NULL;
}

/* Does n read a tensor as it was before its shares were replaced, in the one memory that they
 * have? */
static bool reads_replaced(const Part *t, const Node *n) {
  for (int i = 0; i < t->g->input_count; i++)
    for (int k = 0; t->stored[i] && k < n->in_count; k++)
      if (n->in[k] == t->g->input[i]) return true;
  return false;
}

static bool copy_nodes(Part *t, bool *fits) {
  for (int i = 0; i < t->g->node_count && *fits; i++) {
    const Node *n = t->g->node[i];
    t->agreed[i] = agrees(t, n);
    *fits = divide(t, n) && !reads_replaced(t, n);
    int output = output_of(t, n);
    if (!*fits) return false;
    if (output >= 0 ? !put_share(t, n, output) : t->divided[i] && !share_of(t, n->out))
      return false;
    if (output >= 0 || t->divided[i]) continue;
    Value *out = copy_node(t, n, fits);
    if (t->to->error.status != OK || !*fits || (!out && n->out_count)) return false;
    for (int k = 0; k < n->out_count; k++) t->made[t->values.first[i] + k] = out + k;
  }
  return true;
}

/* Does output i give each replica another value of an optimizer's variable that isn't shared? */
static bool parts_company(const Part *t, int i) {
  int input = t->replaced ? t->replaced[i] : -1;
  const Node *n = t->g->output[i]->node;
  if (node_is_store(n)) n = n->in[0]->node;
  if (input < 0 || t->kept_input[input] != KEPT_STATE || t->shared_input[input] ||
      !node_is_made(n) || is_number(t->g->output[i]))
    return false;
  return !(n->op->traits & CONTROL) && !t->agreed[n->id] && !t->divided[n->id];
}

/* A shared variable is replaced by a store of shares, by a region that does so, or by nothing. */
static bool copy_outputs(Part *t, bool *fits) {
  const Graph *g = t->g;
  for (int i = 0; i < g->input_count; i++)
    t->to->input[i] = t->made[value_number(&t->values, g->input[i])];
  for (int i = 0; i < g->output_count; i++) {
    Value *v = g->output[i];
    if (parts_company(t, i)) *fits = false;
    if (stored_input(t, i) >= 0 && output_of(t, v->node) < 0 &&
        !t->shared[value_number(&t->values, v)])
      *fits = false;
    Value *x = *fits ? whole(t, v) : NULL;
    if (!x) return false;
    graph_output(t->to, x);
  }
  return t->to->error.status == OK;
}

static bool prepare(Part *t) {
  size_t nodes = (size_t)t->g->node_count + 1;
  if (!number_values(t->arena, t->g, &t->values)) return false;
  size_t values = (size_t)t->values.count + 1;
  t->shared = arena_alloc(t->arena, values);
  t->kept = arena_alloc(t->arena, values);
  t->agreed = arena_alloc(t->arena, nodes);
  t->divided = arena_alloc(t->arena, nodes);
  t->stored = arena_alloc(t->arena, (size_t)t->g->input_count + 1);
  t->made = arena_alloc(t->arena, values * sizeof *t->made);
  t->share = arena_alloc(t->arena, values * sizeof *t->share);
  if (!t->shared || !t->kept || !t->agreed || !t->divided || !t->stored || !t->made || !t->share)
    return false;
  for (int i = 0; i < t->g->input_count; i++) {
    t->shared[value_number(&t->values, t->g->input[i])] = t->shared_input[i];
    t->kept[value_number(&t->values, t->g->input[i])] = t->kept_input[i];
  }
  return true;
}

/* NULL: *fits is false, or the error is filled. */
static Graph *share_region(const Part *outer, const Graph *g, bool staged, const bool *shared,
                           const char *kept, const int *replaced, bool *fits) {
  Part t = {.error = outer->error,
            .replicas = outer->replicas,
            .g = g,
            .staged = staged,
            .shared_input = shared,
            .kept_input = kept,
            .replaced = replaced,
            .arena = arena_new(),
            .to = graph_beside(g)};
  bool good = t.arena && t.to && prepare(&t) && copy_nodes(&t, fits) && copy_outputs(&t, fits);
  if (t.to && t.to->error.status != OK && t.error->status == OK) *t.error = t.to->error;
  /* if nothing else was wrong */
  if (!good && *fits) fail(t.error, ERR_OUT_OF_MEMORY, "out of memory while sharing tensors out");
  arena_free(t.arena);
  if (good) return t.to;
  graph_free(t.to);
  return NULL;
}

/* ---- the program ---- */

/* The graph's inputs that the regions of a node load. input_of: [id of a node], from 1. */
static bool add_loads(const Graph *g, const Node *n, const int *input_of, int *shares) {
  ControlRegions c = control_regions(n);
  for (int r = 0; r < c.count; r++) {
    if (!region_gives(&c.region[r])) continue;
    const Graph *region = c.region[r].graph;
    int *inner = calloc((size_t)region->input_count + 1, sizeof *inner);
    bool good = inner && load_shares_of_inputs(region, inner);
    for (int k = 0; good && k < n->in_count; k++) {
      int input = n->in[k]->node->id < g->next_id ? input_of[n->in[k]->node->id] - 1 : -1,
          at = control_input(&c, k);
      if (input >= 0 && at >= 0 && !shares[input]) shares[input] = inner[at];
    }
    free(inner);
    if (!good) return false;
  }
  return true;
}

bool load_shares_of_inputs(const Graph *g, int *shares) {
  int *input_of = calloc((size_t)g->next_id + 1, sizeof *input_of);
  if (!input_of) return false;
  for (int i = 0; i < g->input_count; i++) input_of[g->input[i]->node->id] = i + 1;
  bool good = true;
  for (int i = 0; i < g->node_count && good; i++) {
    const Node *n = g->node[i];
    if (!node_is_load(n)) {
      good = add_loads(g, n, input_of, shares);
      continue;
    }
    for (int k = 0; k < n->in_count; k++) {
      int input = input_of[n->in[k]->node->id] - 1;
      if (input >= 0 && !shares[input]) shares[input] = node_shares(n);
    }
  }
  free(input_of);
  return good;
}

Graph *share_graph(Error *e, const Program *p, const Graph *g, const Offload *o, int replicas) {
  Arena *arena = arena_new();
  size_t inputs = (size_t)g->input_count + 1, outputs = (size_t)g->output_count + 1;
  bool *shared = arena ? arena_alloc(arena, inputs) : NULL;
  char *kept = arena ? arena_alloc(arena, inputs) : NULL;
  int *replaced = arena ? arena_alloc(arena, outputs * sizeof *replaced) : NULL;
  int *loaded = arena ? arena_alloc(arena, inputs * sizeof *loaded) : NULL;
  bool good = shared && kept && replaced && loaded && load_shares_of_inputs(g, loaded);
  bool any = false, fits = true;
  Graph *to = NULL;
  Part root = {.error = e, .replicas = replicas};
  int output = p->result_count;
  for (int i = 0; good && i < p->result_count; i++) replaced[i] = -1;
  for (int i = 0; good && i < p->variable_count; i++) {
    const Variable *v = p->variable[i];
    int input = p->argument_count + i;
    bool asked = v->of_optimizer ? o->shard_state : v->trainable && o->shard_weights;
    shared[input] = asked && loaded[input] == 1;
    kept[input] = v->of_optimizer ? KEPT_STATE : v->trainable ? KEPT_WEIGHT : KEPT_APART;
    any = any || shared[input];
    if (p->writes[i]) replaced[output++] = input;
  }
  if (!good) fail(e, ERR_OUT_OF_MEMORY, "out of memory while sharing tensors out");
  else if (any) to = share_region(&root, g, false, shared, kept, replaced, &fits);
  arena_free(arena);
  if (to && VERIFYING && graph_verify(e, to, "sharing") != OK) {
    graph_free(to);
    return NULL;
  }
  return to;
}
