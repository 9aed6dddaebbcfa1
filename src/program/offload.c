/* Offloading, graph → graph. Values in streaming memory pass through control nodes unchanged. A
 * load is placed just before the first op that reads a value, in a pipeline for each pass. A value
 * that replaces it is stored. A store comes after all elementwise ops on its value, so that they
 * stay one fused step. Activations are stored in the forward pass of their stage, and loaded in its
 * backward pass. */
#include "program/offload.h"

#include "graph/control.h"
#include "graph/numbering.h"
#include "ops/io/remote.h"
#include "program/passes.h"
#include "program/program.h"
#include "program/recompute.h"
#include "program/region.h"
#include "program/share.h"
#include "program/timetable.h"
#include "transform/clone.h"
#include "transform/verify.h"

typedef struct Pending {
  Value *value; /* of the old graph */
  int output;   /* a value that is stored; -1: an activation */
  int stage;    /* that keeps the activation */
  int next;     /* the next load with the same due node; -1: none */
} Pending;

/* A region being copied. */
typedef struct Part {
  Error *error;
  Arena *arena;
  const OffloadRequest *request;
  const Graph *g;
  Graph *to;
  const Node *loop; /* the pipeline whose body it is; NULL: no pipeline, so no passes */
  const PipelinePlan *plan;
  const int *pass; /* [node_count] */
  int passes, stages;
  const bool *wanted; /* [output_count] outputs that live in streaming memory */
  Numbering values;
  Value **made;   /* by value: its copy */
  bool *remote;   /* by value: it lives in streaming memory */
  Value **local;  /* by value and pass: the value as an op in that pass reads it */
  Value **stored; /* by value and stage: the activation in streaming memory */
  Value **result; /* [output_count] outputs that must be stored, stored */
  /* by node: the last node that is computed elementwise from it, in its pass */
  int *settled;
  int *due; /* by node: the first store after it; -1 */
  Pending *pending;
  int pending_count, pending_capacity;
} Part;

static Graph *copy_region(const Part *outer, const Graph *g, const Node *loop,
                          const PipelinePlan *plan, const bool *remote, const bool *wanted);

static Status no_memory(const Part *t) {
  return fail(t->error, ERR_OUT_OF_MEMORY, "out of memory while placing transfers");
}

static int pass_of(const Part *t, const Node *n) { return t->pass ? t->pass[n->id] : 0; }

static bool is_large(const Part *t, const Value *v) {
  size_t bytes = type_bytes(&v->type);
  return bytes > 0 && bytes >= t->request->offload.min;
}

/* ---- transfers ---- */

static void stand_at(Part *t, const Node *like, int pass) {
  graph_stand_at(t->to, like);
  if (!t->plan) return;
  t->to->scope.place.stage = plan_stage_of_pass(t->plan, pass);
  t->to->scope.place.shard = t->plan->ipu_of[t->to->scope.place.stage];
  t->to->scope.place.backward = pass >= t->stages;
}

/* ---- activations ---- */

/* A stage's backward pass that follows its forward pass at once has nothing to wait for. */
static bool keeps_copies(Part *t, int stage) {
  return plan_copies(t->error, t->plan, plan_program(t->plan, stage, false),
                     plan_program(t->plan, stage, true), false) > 1;
}

static bool is_activation(Part *t, const Value *v, int pass) {
  const Node *n = v->node;
  if (!t->plan || !t->request->offload.activations || !t->plan->training || pass < t->stages)
    return false;
  if (!node_is_made(n) || node_is_light(n) || node_is_load(n) || node_is_store(n) ||
      t->pass[n->id] >= t->stages)
    return false;
  return is_large(t, v) && keeps_copies(t, plan_stage_of_pass(t->plan, pass));
}

static bool add_pending(Part *t, Value *v, int output, int stage, int due) {
  if (!arena_reserve(t->arena, &t->pending, &t->pending_capacity, t->pending_count + 1,
                     sizeof *t->pending))
    return false;
  t->pending[t->pending_count] = (Pending){v, output, stage, t->due[due]};
  t->due[due] = t->pending_count++;
  return true;
}

/* The last node of the pass that needs v on the tiles. */
static int last_use(const Part *t, const Value *v, int pass) {
  int last = pass_of(t, v->node) == pass ? t->settled[v->node->id] : v->node->id;
  for (int i = v->node->id + 1; i < t->g->node_count; i++) {
    const Node *n = t->g->node[i];
    if (pass_of(t, n) != pass) continue;
    for (int k = 0; k < n->in_count; k++)
      if (n->in[k] == v && t->settled[i] > last) last = t->settled[i];
  }
  return last;
}

/* Node `reader`, of a later pass, takes v, which has been stored by then. Passes may be traced one
 * inside the other, so nodes of the forward pass may come after it. */
static bool need(Part *t, Value *v, int pass, int reader) {
  while (node_is_light(v->node) && t->pass[v->node->id] != pass) v = v->node->in[0];
  if (!is_activation(t, v, pass)) return true;
  int stage = plan_stage_of_pass(t->plan, pass);
  for (int i = 0; i < t->pending_count; i++)
    if (t->pending[i].value == v && t->pending[i].stage == stage) return true;
  int due = last_use(t, v, stage);
  return add_pending(t, v, -1, stage, due < reader ? due : reader - 1);
}

static bool find_activations(Part *t) {
  for (int i = 0; t->plan && i < t->g->node_count; i++) {
    const Node *n = t->g->node[i];
    for (int k = 0; node_is_made(n) && t->pass[i] >= t->stages && k < n->in_count; k++)
      if (!need(t, n->in[k], t->pass[i], i)) return false;
  }
  return true;
}

/* ---- operands of ops ---- */

/* v for an op of that pass. */
static Value *bring(Part *t, Value *v, int pass, const Node *reader) {
  const Node *n = v->node;
  int at = value_number(&t->values, v);
  Value **known = &t->local[at * t->passes + pass], *x = t->made[at];
  if (*known) return *known;
  if (t->remote[at]) {
    stand_at(t, reader, pass);
    x = remote_load(t->to, x, 1);
  } else if (is_activation(t, v, pass)) {
    stand_at(t, reader, pass);
    x = remote_load(t->to, t->stored[at * t->stages + plan_stage_of_pass(t->plan, pass)], 1);
  } else if (t->pass && node_is_light(n) && t->pass[n->id] != pass) {
    Value *from = bring(t, n->in[0], pass, reader);
    if (from != t->made[value_number(&t->values, n->in[0])]) {
      Node *again = from ? clone_node(t->to, n, &from) : NULL;
      if (again)
        again->place.stage = plan_stage_of_pass(t->plan, pass),
        again->place.backward = pass >= t->stages;
      x = again ? again->out : NULL;
    }
  }
  return *known = x;
}

static Value *keep(Part *t, Value *x, const Node *like, int pass) {
  stand_at(t, like, pass);
  return remote_store(t->to, x, NULL, 1);
}

static bool store_due(Part *t, int node) {
  for (int i = t->due[node]; i >= 0; i = t->pending[i].next) {
    Pending *p = &t->pending[i];
    const Node *n = p->value->node;
    int at = value_number(&t->values, p->value), pass = p->output >= 0 ? pass_of(t, n) : p->stage;
    Value *x = keep(t, t->made[at], n, pass);
    if (p->output >= 0) t->result[p->output] = x;
    else t->stored[at * t->stages + p->stage] = x;
    if (!x) return false;
  }
  return true;
}

/* ---- control nodes ---- */

/* Do its regions take a value in streaming memory as it is, and return it so? */
static bool passes_on(const ControlRegions *c) { return c->count && !control_calls(c); }

static bool writes(const Node *n, int extra) {
  for (int w = 0; w < control_written_count(n); w++)
    if (control_written(n, w) == extra) return true;
  return false;
}

static const PipelinePlan *plan_of(const Part *t, const Node *n) {
  if (control_plan(n)) return (const PipelinePlan *)control_plan(n);
  return loop_has_stages(n) ? t->request->plan : NULL;
}

/* Carried value i of a pipeline that sums gradients. */
static bool is_accumulator(const Part *t, const Node *loop, const PipelinePlan *plan, int i) {
  if (!plan || !plan->training || !t->request->offload.accumulators) return false;
  const Graph *body = control_body(loop);
  const Value *sum = body->input[1 + i];
  if (!is_large(t, sum)) return false;
  for (int k = 0; k < body->node_count; k++) {
    const Node *n = body->node[k];
    for (int j = 0; n->place.backward && j < n->in_count; j++)
      if (n->in[j] == sum) return !node_is_load(n);
  }
  return false;
}

/* The operands of a control node, and which of its regions' inputs and of its outputs are in
 * streaming memory. */
static bool hand_in(Part *t, const Node *n, const PipelinePlan *plan, Value **in, bool *inside,
                    bool *outside) {
  ControlRegions c = control_regions(n);
  bool through = passes_on(&c);
  int pass = pass_of(t, n);
  for (int i = 0; i < n->in_count; i++) {
    int extra = i - c.skip - c.carried;
    bool sums = c.loops && i >= c.skip && extra < 0 && is_accumulator(t, n, plan, i - c.skip);
    bool raw = through && extra >= 0 && t->remote[value_number(&t->values, n->in[i])] &&
               (!t->pass || writes(n, extra));
    in[i] = raw ? t->made[value_number(&t->values, n->in[i])] : bring(t, n->in[i], pass, n);
    if (sums && in[i]) in[i] = keep(t, in[i], n, pass);
    if (!in[i]) return false;
    if (i >= c.skip) inside[control_input(&c, i)] = raw || sums;
    if (sums) outside[i - c.skip] = true;
  }
  for (int i = control_explicit(n); through && i < n->out_count; i++)
    outside[i] = inside[control_input(&c, control_replaced(n, i))];
  return true;
}

static Node *copy_control(Part *t, const Node *n) {
  const PipelinePlan *plan = plan_of(t, n);
  size_t in_count = (size_t)n->in_count + 2;
  Value **in = arena_alloc(t->arena, in_count * sizeof *in);
  bool *inside = arena_alloc(t->arena, in_count),
       *outside = arena_alloc(t->arena, (size_t)n->out_count + 1);
  if (!in || !inside || !outside || !hand_in(t, n, plan, in, inside, outside)) return NULL;
  ControlRegions c = control_regions(n);
  Graph *copy[2] = {NULL, NULL};
  bool good = true;
  for (int r = 0; r < c.count && good; r++) {
    if (!region_runs(&c.region[r])) continue;
    copy[r] = copy_region(t, c.region[r].graph, n, plan, inside,
                          region_gives(&c.region[r]) ? outside : NULL);
    graph_adopt(t->to, copy[r]);
    good = copy[r] && t->to->error.status == OK;
  }
  Node *made = good ? clone_control(t->to, n, in, copy) : NULL;
  for (int i = 0; made && i < n->out_count; i++) t->remote[t->values.first[n->id] + i] = outside[i];
  return made;
}

/* ---- a region ---- */

static Value *copy_node(Part *t, const Node *n) {
  if (!node_is_made(n)) return clone_leaf(t->to, n);
  Node *made = NULL;
  if (n->op->traits & CONTROL) {
    made = copy_control(t, n);
  } else {
    Value **in = arena_alloc(t->arena, (size_t)(n->in_count + 1) * sizeof *in);
    bool raw = node_is_load(n); /* a transfer that was placed before */
    for (int k = 0; in && k < n->in_count; k++) {
      in[k] = raw && k == 0 ? t->made[value_number(&t->values, n->in[k])]
                            : bring(t, n->in[k], pass_of(t, n), n);
      if (!in[k]) return NULL;
    }
    made = in ? clone_node(t->to, n, in) : NULL;
  }
  return made ? made->out : NULL;
}

static bool copy_nodes(Part *t) {
  for (int i = 0; i < t->g->node_count; i++) {
    const Node *n = t->g->node[i];
    Value *out = copy_node(t, n);
    if (t->to->error.status != OK || (!out && n->out_count)) return false;
    for (int k = 0; k < n->out_count; k++) t->made[t->values.first[i] + k] = out + k;
    if (!store_due(t, i)) return false;
  }
  return true;
}

static bool copy_outputs(Part *t) {
  const Graph *g = t->g;
  for (int i = 0; i < g->input_count; i++)
    t->to->input[i] = t->made[value_number(&t->values, g->input[i])];
  for (int i = 0; i < g->output_count; i++) {
    Value *v = g->output[i];
    bool wanted = t->wanted && t->wanted[i];
    Value *x = t->result[i] ? t->result[i]
               : wanted     ? t->made[value_number(&t->values, v)]
                            : bring(t, v, pass_of(t, v->node), v->node);
    if (x) graph_output(t->to, x);
    else return false;
  }
  return t->to->error.status == OK;
}

/* Was it never touched, or is it stored elsewhere: inside a control node, or by a transfer placed
 * before? */
static bool is_stored(const Part *t, const Value *v) {
  const Node *n = v->node;
  ControlRegions c = control_regions(n);
  if (!passes_on(&c) || v->index < control_explicit(n))
    return t->remote[value_number(&t->values, v)] || node_is_store(n);
  return is_stored(t, n->in[control_replaced(n, v->index)]);
}

static bool find_results(Part *t) {
  for (int i = 0; t->wanted && i < t->g->output_count; i++) {
    Value *v = t->g->output[i];
    if (t->wanted[i] && !is_stored(t, v) && !add_pending(t, v, i, -1, t->settled[v->node->id]))
      return false;
  }
  return true;
}

static void settle(Part *t) {
  for (int i = t->g->node_count - 1; i >= 0; i--) {
    const Node *n = t->g->node[i];
    if (t->settled[i] < i) t->settled[i] = i;
    for (int k = 0; k < n->in_count; k++) {
      const Node *from = n->in[k]->node;
      if (pass_of(t, from) != pass_of(t, n)) continue;
      int last = node_is_fusible(n) || node_is_light(n) ? t->settled[i] : i;
      if (last > t->settled[from->id]) t->settled[from->id] = last;
    }
  }
}

static bool prepare(Part *t, const bool *remote) {
  size_t nodes = (size_t)t->g->node_count + 1;
  if (!number_values(t->arena, t->g, &t->values)) return false;
  size_t values = (size_t)t->values.count + 1;
  t->made = arena_alloc(t->arena, values * sizeof *t->made);
  t->remote = arena_alloc(t->arena, values);
  t->local = arena_alloc(t->arena, values * (size_t)t->passes * sizeof *t->local);
  t->stored = arena_alloc(t->arena, values * (size_t)(t->stages + 1) * sizeof *t->stored);
  t->result = arena_alloc(t->arena, (size_t)(t->g->output_count + 1) * sizeof *t->result);
  t->settled = arena_alloc(t->arena, nodes * sizeof *t->settled);
  t->due = arena_alloc(t->arena, nodes * sizeof *t->due);
  if (!t->made || !t->remote || !t->local || !t->stored || !t->result || !t->settled || !t->due)
    return false;
  for (int i = 0; i < t->g->node_count; i++) t->due[i] = -1;
  for (int i = 0; remote && i < t->g->input_count; i++)
    t->remote[value_number(&t->values, t->g->input[i])] = remote[i];
  return true;
}

static const int *find_passes(Part *t) {
  int inputs = t->g->input_count, outputs = t->g->output_count;
  int *pass = arena_alloc(t->arena, (size_t)(t->g->node_count + 1) * sizeof *pass);
  int *in = arena_alloc(t->arena, (size_t)(inputs + 1) * sizeof *in),
      *out = arena_alloc(t->arena, (size_t)(outputs + 1) * sizeof *out);
  if (!pass || !in || !out) {
    no_memory(t);
    return NULL;
  }
  ControlRegions c = control_regions(t->loop);
  for (int i = 0; i < inputs; i++) in[i] = i;
  for (int i = 0; i < outputs; i++) out[i] = control_input(&c, control_replaced(t->loop, i));
  return assign_passes(t->error, t->arena, t->g, t->plan, in, out, pass) == OK ? pass : NULL;
}

static Graph *copy_part(Part *t, const bool *remote) {
  Graph *again = NULL;
  if (t->plan && !(t->pass = find_passes(t))) return NULL;
  if (t->plan && t->plan->training && t->request->recompute != RECOMPUTE_NONE) {
    again = recompute_forward(t->g, t->plan, t->request->recompute, t->pass);
    t->g = again;
    if (!again || !(t->pass = find_passes(t))) {
      graph_free(again);
      return NULL;
    }
  }
  t->to = graph_beside(t->g);
  bool good = t->to && prepare(t, remote);
  if (good) settle(t);
  good = good && find_results(t) && find_activations(t) && copy_nodes(t) && copy_outputs(t);
  if (t->to && t->to->error.status != OK && t->error->status == OK) *t->error = t->to->error;
  if (!good && t->error->status == OK) no_memory(t);
  graph_free(again);
  if (good) return t->to;
  graph_free(t->to);
  return NULL;
}

/* loop: the node whose body g is, and its plan; NULL where it is no pipeline's. */
static Graph *copy_region(const Part *outer, const Graph *g, const Node *loop,
                          const PipelinePlan *plan, const bool *remote, const bool *wanted) {
  Part t = {.error = outer->error,
            .request = outer->request,
            .g = g,
            .loop = loop,
            .plan = plan,
            .wanted = wanted,
            .arena = arena_new()};
  t.stages = plan ? plan->stages : 0;
  t.passes = plan ? plan_passes(plan) : 1;
  Graph *to = t.arena ? copy_part(&t, remote) : NULL;
  if (!to) no_memory(&t); /* if nothing else was wrong */
  arena_free(t.arena);
  return to;
}

/* ---- the program ---- */

const PipelinePlan *graph_plan(const Graph *g) {
  const Node *loop = graph_pipeline(g);
  return loop ? (const PipelinePlan *)control_plan(loop) : NULL;
}

/* shares: the number of shares in which it is loaded already. */
static bool is_offloaded(const Program *p, const OffloadRequest *q, int variable, int shares) {
  const Variable *v = p->variable[variable];
  bool asked = v->of_optimizer ? q->offload.state : v->trainable && q->plan && q->offload.weights;
  bool large = type_bytes(&v->type) >= q->offload.min && type_bytes(&v->type) > 0;
  return (v->remote || (asked && large)) && !shares;
}

/* Transfers alone. */
static Graph *with_transfers(Error *e, const Program *p, const OffloadRequest *q) {
  const Graph *g = p->graph;
  Arena *arena = arena_new();
  bool *remote = arena ? arena_alloc(arena, (size_t)g->input_count + 1) : NULL;
  bool *wanted = arena ? arena_alloc(arena, (size_t)g->output_count + 1) : NULL;
  int *shares = arena ? arena_alloc(arena, ((size_t)g->input_count + 1) * sizeof *shares) : NULL;
  bool counted = shares && load_shares_of_inputs(g, shares);
  const Offload *o = &q->offload;
  bool any = q->plan && q->plan->training &&
             (q->recompute != RECOMPUTE_NONE || o->activations || o->accumulators);
  int output = p->result_count;
  for (int i = 0; remote && wanted && counted && i < p->variable_count; i++) {
    int input = p->argument_count + i;
    remote[input] = is_offloaded(p, q, i, shares[input]);
    any = any || remote[input];
    if (p->writes[i]) wanted[output++] = remote[input];
  }
  Part root = {.error = e, .request = q};
  Graph *to = NULL;
  if (!remote || !wanted || !counted) no_memory(&root);
  else if (any) to = copy_region(&root, g, NULL, NULL, remote, wanted);
  arena_free(arena);
  if (to && VERIFYING && graph_verify(e, to, "offloading") != OK) {
    graph_free(to);
    return NULL;
  }
  return to;
}

Graph *offload_graph(Error *e, const Program *p, const OffloadRequest *q) {
  Graph *g = with_transfers(e, p, q);
  bool shares = q->replicas > 1 && (q->offload.shard_state || q->offload.shard_weights);
  Graph *shared = shares && e->status == OK
                      ? share_graph(e, p, g ? g : p->graph, &q->offload, q->replicas)
                      : NULL;
  if (!shared && e->status == OK) return g;
  graph_free(g);
  return shared;
}
