/* The walk over a program's graph: rows in program order, and what holds tile memory from which row to which. Fused loops of
 * the CPU play no part: nodes are priced one by one, as an IPU runs them. */
#include <limits.h>
#include <string.h>

#include "graph/control.h"
#include "machine/rows.h"
#include "ops/remote.h"
#include "program/offload.h"
#include "program/region.h"

typedef struct Inside Inside; /* a region being walked */
struct Inside {
  const Graph *graph;
  Region region;
  const Homes *homes;
  int *held; /* by value; -1: none yet */
  Inside *outer;
  const Node *control; /* the node of outer that holds the region; its operands are the region's inputs from lead on */
  int skip, lead;
};

typedef struct Walk {
  Error *error;
  Price *price;
  const Program *program;
  CostTable costs;
  Placer placer;
  double times;
  int parent;
  int stage; /* of the node being walked */
  bool backward;
  bool failed; /* memory is out */
} Walk;

static void walk_region(Walk *w, Inside *in, const int *inputs, const int *targets, int *outputs);

/* ---- lists ---- */

static Row *add_row(Walk *w, RowKind kind, const Node *n, int ipu) {
  Price *p = w->price;
  if (!arena_reserve(p->arena, &p->row, &p->row_capacity, p->row_count + 1, sizeof *p->row)) {
    w->failed = true;
    return NULL;
  }
  Row *r = &p->row[p->row_count++];
  *r = (Row){.kind = kind, .node = n, .parent = w->parent, .end = p->row_count, .ipu = ipu, .stage = -1, .times = w->times, .repeats = 1};
  return r;
}

static int add_held(Walk *w, PriceCategory category, const Node *n, double bytes, int ipu) {
  Price *p = w->price;
  if (!arena_reserve(p->arena, &p->held, &p->held_capacity, p->held_count + 1, sizeof *p->held)) {
    w->failed = true;
    return -1;
  }
  p->held[p->held_count] = (Held){.category = category, .node = n, .bytes = bytes, .ipu = ipu, .first = p->row_count,
                                  .last = p->row_count, .alias = -1};
  return p->held_count++;
}

static void touch(Walk *w, int held, int row) {
  if (held < 0) return;
  Held *h = &w->price->held[held];
  if (row < h->first) h->first = row;
  if (row > h->last) h->last = row;
}

static int ipu_of(const Walk *w, const Home *h) {
  if (h->stage >= 0) return price_ipu_of_stage(w->price, h->stage);
  return h->shard >= 0 ? h->shard : 0;
}

static int *slot_of(Inside *in, const Value *v) { return &in->held[in->region.first_value[v->node->id] + v->index]; }

/* ---- operands ---- */

/* A constant of equal elements takes one of them: it is broadcast where it is read. */
static double constant_bytes(const Tensor *t) {
  size_t bytes = type_bytes(&t->type), size = dtype_size(t->type.dtype);
  if (bytes <= size || !tensor_is_dense(t)) return (double)bytes;
  return memcmp(t->data, t->data + size, bytes - size) ? (double)bytes : (double)size;
}

/* The Held of v, brought to that IPU. */
static int local(Walk *w, Inside *in, Value *v, int ipu, const Node *reader) {
  Value *root = value_root(v);
  int *slot = slot_of(in, root);
  bool constant = node_is_constant(root->node);
  if (*slot < 0 && constant) *slot = add_held(w, BYTES_CONSTANT, root->node, constant_bytes(root->node->attr[0].tensor), ipu);
  int held = *slot;
  if (held < 0 || w->price->held[held].ipu == ipu) return held;
  for (int i = 0; i < w->price->held_count; i++) /* there already? */
    if (w->price->held[i].alias == held && w->price->held[i].ipu == ipu) return i;
  Held from = w->price->held[held];
  if (!constant && ipu >= 0) {
    Row *r = add_row(w, ROW_LINK, from.node ? from.node : reader, ipu);
    if (!r) return -1;
    r->from_ipu = from.ipu;
    r->bytes = from.bytes;
    r->stage = w->stage;
    r->backward = w->backward;
    touch(w, held, w->price->row_count - 1);
  }
  int copy = add_held(w, constant ? BYTES_CONSTANT : BYTES_VALUE, from.node, from.bytes, ipu);
  if (copy < 0) return copy;
  w->price->held[copy].alias = held;
  w->price->held[copy].variable = from.variable;
  if (!constant) touch(w, copy, w->price->row_count - 1); /* from the link on */
  return copy;
}

static int last_reader(const Region *r, const Node *n) {
  int last = -1;
  for (int i = r->reader_begin[n->id]; i < r->reader_begin[n->id + 1]; i++)
    if (r->reader[i] > last) last = r->reader[i];
  return last;
}

/* An operand that may be written over: read for the last time, of the result's size, and the region's own. */
static int reusable(Walk *w, Inside *in, const Node *n, int output) {
  if (output != 0) return -1;
  for (int k = 0; k < n->in_count && k < 8; k++) {
    if (!(n->op->traits & IN_PLACE(k))) continue;
    Value *root = value_root(n->in[k]);
    if (node_is_input(root->node) || node_is_constant(root->node) || root->node->out_count > 1) continue;
    int held = *slot_of(in, root);
    if (held < 0 || last_reader(&in->region, root->node) != n->id) continue;
    const Held *h = &w->price->held[held];
    if (h->category == BYTES_VALUE && h->bytes == (double)type_bytes(&n->out[output].type)) return held;
  }
  return -1;
}

static void hold_outputs(Walk *w, Inside *in, const Node *n, int ipu, int row) {
  for (int i = 0; i < n->out_count; i++) {
    int *slot = slot_of(in, &n->out[i]);
    if (*slot < 0) *slot = reusable(w, in, n, i);
    if (*slot >= 0 && w->price->held[*slot].category == BYTES_VARIABLE) w->price->held[*slot].writes = w->times;
    if (*slot < 0) *slot = add_held(w, BYTES_VALUE, n, (double)type_bytes(&n->out[i].type), ipu);
    touch(w, *slot, row);
  }
}

/* ---- ops ---- */

static bool is_free(const Node *n) { return (n->op->traits & VIEW) || !strcmp(n->op->name, "broadcast_to"); }

/* Ops in which replicas meet; what they move is their operand. */
static bool is_collective(const Node *n) {
  static const char *const names[] = {"cross_replica_sum", "cross_replica_mean", "all_gather", "reduce_scatter", "all_to_all"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(n->op->name, names[i])) return true;
  return false;
}

static void note_price(Walk *w, const Node *n, const Cost *c) {
  Price *p = w->price;
  p->op_count++;
  if (!node_has_price(n)) p->unpriced++;
  if (c->fits || p->why) return;
  p->why = c->why;
  p->why_node = n;
}

/* What replicas do together goes over links, too. */
static void walk_meeting(Walk *w, const Node *n, int ipu) {
  if (!n->op->meet || w->price->replicas < 2) return;
  Row *r = add_row(w, ROW_COLLECTIVE, n, ipu);
  if (!r) return;
  r->stage = w->stage;
  r->backward = w->backward;
  r->bytes = (double)type_bytes(&n->in[0]->type);
}

static void walk_op(Walk *w, Inside *in, Node *n) {
  const Home none = {.shard = -1, .stage = -1};
  const Home *home = n->out_count ? home_of(in->homes, &n->out[0]) : &none;
  int ipu = ipu_of(w, home);
  w->stage = home->stage;
  w->backward = n->place.backward || home->backward;
  int operands[MAX_INPUTS * 8], count = n->in_count < MAX_INPUTS * 8 ? n->in_count : MAX_INPUTS * 8;
  for (int i = 0; i < count; i++) operands[i] = local(w, in, n->in[i], ipu, n);
  const Cost *c = cost_of_node(&w->costs, n);
  if (!c) {
    w->failed = true;
    return;
  }
  bool meets = is_collective(n) && n->in_count;
  Row *r = add_row(w, meets ? ROW_COLLECTIVE : ROW_OP, n, ipu);
  if (!r) return;
  r->stage = home->stage;
  r->backward = w->backward;
  if (meets) r->bytes = (double)type_bytes(&n->in[0]->type);
  else r->cost = c;
  note_price(w, n, c);
  int at = w->price->row_count - 1;
  for (int i = 0; i < count; i++) touch(w, operands[i], at);
  hold_outputs(w, in, n, ipu, at);
  walk_meeting(w, n, ipu);
}

/* Is there an earlier transfer of the same pass in the block? */
static bool follows_another(const Price *p, const Row *r) {
  for (int i = p->row_count - 2; i > r->parent; i--) {
    const Row *x = &p->row[i];
    if (x->kind == ROW_STREAMING && x->parent == r->parent && x->ipu == r->ipu && x->stage == r->stage && x->backward == r->backward)
      return true;
  }
  return false;
}

/* Between streaming memory and tiles; what is there is on no tile. */
static void walk_transfer(Walk *w, Inside *in, Node *n) {
  bool loads = node_is_load(n);
  const Home *home = home_of(in->homes, &n->out[0]);
  int from = *slot_of(in, value_root(n->in[0])), ipu = ipu_of(w, home);
  if (!loads) from = local(w, in, n->in[0], ipu, n);
  Row *r = add_row(w, ROW_STREAMING, n, ipu);
  if (!r) return;
  r->stage = home->stage;
  r->backward = n->place.backward || home->backward;
  r->bytes = (double)type_bytes(loads ? &n->out[0].type : &n->in[0]->type);
  r->follows = follows_another(w->price, r);
  int at = w->price->row_count - 1, *slot = slot_of(in, &n->out[0]);
  touch(w, from, at);
  if (*slot < 0 && !loads && node_moves_slot(n)) *slot = *slot_of(in, value_root(n->in[1]));
  if (*slot < 0) *slot = add_held(w, BYTES_VALUE, n, r->bytes, ipu);
  int there = loads ? from : *slot;
  touch(w, *slot, at);
  if (there < 0 || *slot < 0) return;
  Held *h = &w->price->held[there];
  h->offloaded = true;
  if (!node_moves_slot(n)) h->bytes = r->bytes; /* a replica's share */
  if (!loads) h->writes = w->times;
}

/* What a broadcast reads is enough: nothing is expanded. */
static void walk_broadcast(Walk *w, Inside *in, Node *n) {
  Value *root = value_root(n->in[0]);
  int held = local(w, in, root, w->price->held_count ? ipu_of(w, home_of(in->homes, &n->out[0])) : 0, n);
  int *slot = slot_of(in, &n->out[0]);
  if (*slot < 0) *slot = held;
}

/* Each component of an infeed's element goes to the IPU that reads it. */
static void walk_dequeue(Walk *w, Inside *in, Node *n) {
  for (int i = 0; i < n->out_count; i++) {
    const Home *home = home_of(in->homes, &n->out[i]);
    for (int k = in->region.reader_begin[n->id]; k < in->region.reader_begin[n->id + 1]; k++) {
      int reader = in->region.reader[k];
      if (reader >= in->graph->node_count) continue;
      Node *m = in->graph->node[reader];
      for (int o = 0; o < m->in_count; o++)
        if (value_root(m->in[o]) == &n->out[i] && m->out_count && home_of(in->homes, &m->out[0])->known) {
          home = home_of(in->homes, &m->out[0]);
          k = in->region.reader_begin[n->id + 1];
          break;
        }
    }
    double bytes = (double)type_bytes(&n->out[i].type);
    int ipu = ipu_of(w, home);
    Row *r = add_row(w, ROW_HOST_IN, n, ipu);
    if (!r) return;
    r->bytes = w->price->machine.synthetic_infeed ? 0 : bytes;
    r->stage = home->stage;
    int held = add_held(w, BYTES_VALUE, n, bytes, ipu);
    *slot_of(in, &n->out[i]) = held;
    touch(w, held, w->price->row_count - 1);
  }
  w->price->elements += w->times;
  if (n->out_count && n->out[0].type.rank && !w->price->batch) w->price->batch = n->out[0].type.shape[0];
}

static void walk_enqueue(Walk *w, Inside *in, Node *n) {
  double bytes = 0;
  int ipu = 0;
  for (int i = 0; i < n->in_count; i++) {
    int held = *slot_of(in, value_root(n->in[i]));
    bytes += (double)type_bytes(&n->in[i]->type);
    touch(w, held, w->price->row_count);
    if (held >= 0) ipu = w->price->held[held].ipu;
  }
  Row *r = add_row(w, ROW_HOST_OUT, n, ipu);
  if (r) r->bytes = w->price->machine.synthetic_outfeed ? 0 : bytes;
}

/* A function on the host, in the middle of the program: operands go out, results come in. */
static void walk_host(Walk *w, Inside *in, Node *n) {
  double bytes = 0;
  for (int i = 0; i < n->out_count; i++) bytes += (double)type_bytes(&n->out[i].type);
  walk_enqueue(w, in, n);
  Row *r = add_row(w, ROW_HOST_IN, n, 0);
  if (r) r->bytes = bytes;
  hold_outputs(w, in, n, 0, w->price->row_count - 1);
}

/* ---- control ---- */

static bool scalar_of(const Tensor *t, int64_t *value) {
  if (type_count(&t->type) != 1) return false;
  *value = (int64_t)tensor_get(t, 0);
  return true;
}

/* A loop's count, when it is a constant or an argument whose value is known; -1 otherwise. */
static int64_t known_count(const Walk *w, const Inside *in, Value *v) {
  for (;;) {
    Value *root = value_root(v);
    int64_t value;
    if (node_is_constant(root->node)) return scalar_of(root->node->attr[0].tensor, &value) ? value : -1;
    if (!node_is_input(root->node)) return -1;
    int index = 0;
    while (index < in->graph->input_count && in->graph->input[index] != root) index++;
    if (index == in->graph->input_count) return -1;
    if (!in->outer) {
      const int64_t *known = w->price->machine.argument;
      return known && index < w->program->argument_count ? known[index] : -1;
    }
    if (index < in->lead) return -1;
    v = in->control->in[index - in->lead + in->skip];
    in = in->outer;
  }
}

/* What was there before the block and is used in it stays until its end, for the next time round. */
static void extend_over(Walk *w, int begin) {
  Price *p = w->price;
  for (int i = 0; i < p->held_count; i++)
    if (p->held[i].first <= begin && p->held[i].last > begin) touch(w, i, p->row_count);
}

static void enter(Walk *w, Inside *in, Node *n, const Graph *g, int skip, int lead, const int *inputs, const int *targets, int *outputs) {
  Inside inner = {.graph = g, .outer = in, .control = n, .skip = skip, .lead = lead};
  walk_region(w, &inner, inputs, targets, outputs);
}

static int *new_list(Walk *w, int count) {
  int *list = arena_alloc(w->price->arena, (size_t)(count + 1) * sizeof *list);
  if (!list) w->failed = true;
  for (int i = 0; list && i < count; i++) list[i] = -1;
  return list;
}

/* The Held that an operand of a control node is, without moving it. */
static int held_operand(Walk *w, Inside *in, Value *v) {
  int held = *slot_of(in, value_root(v));
  bool constant = node_is_constant(value_root(v)->node);
  return held < 0 && constant ? local(w, in, v, ipu_of(w, home_of(in->homes, v)), NULL) : held;
}

/* Its own, or the program's where its body has stages. */
static PipelinePlan *plan_of_loop(const Walk *w, const Node *n) {
  PipelinePlan *own = (PipelinePlan *)control_plan(n), *changed = w->price->plan;
  if (own) return w->price->machine.interleave && changed && changed->stages == own->stages ? changed : own;
  return n->op == &control_repeat && region_has_stages(control_body(n)) ? w->price->plan : NULL;
}

static void walk_loop(Walk *w, Inside *in, Node *n) {
  bool repeat = n->op == &control_repeat;
  int carried = control_explicit(n), lead = repeat ? 1 : 0, inputs_count = n->in_count - 1 + lead;
  int *inputs = new_list(w, inputs_count), *targets = new_list(w, n->out_count), *outputs = new_list(w, n->out_count);
  if (!inputs || !targets || !outputs) return;
  int64_t count = known_count(w, in, n->in[0]);
  PipelinePlan *plan = plan_of_loop(w, n);
  Row *r = add_row(w, plan ? ROW_PIPELINE : ROW_LOOP, n, 0);
  if (!r) return;
  if (plan) r->plan = (PipelinePlan *)object_retain(&plan->object);
  int at = w->price->row_count - 1, parent = w->parent;
  double times = w->times;
  r->repeats = count >= 0 ? (double)count : 1;
  w->times *= r->repeats;
  w->parent = at;
  for (int i = 1; i < n->in_count; i++) {
    int held = held_operand(w, in, n->in[i]);
    bool taken = i <= carried && held >= 0 && node_is_store(n->in[i]->node); /* the loop changes it where it is */
    if (taken) {
      targets[i - 1] = held;
    } else if (i <= carried) { /* a copy that the loop changes */
      int own = add_held(w, BYTES_VALUE, n, (double)type_bytes(&n->in[i]->type), ipu_of(w, home_of(in->homes, &n->out[i - 1])));
      touch(w, held, at);
      held = own;
      targets[i - 1] = own;
    }
    touch(w, held, at);
    inputs[i - 1 + lead] = held;
  }
  for (int k = 0; k < control_written_count(n); k++) targets[carried + k] = inputs[lead + carried + control_written(n, k)];
  if (!repeat) enter(w, in, n, control_other(n), 1, lead, inputs, NULL, NULL);
  enter(w, in, n, control_body(n), 1, lead, inputs, targets, outputs);
  w->times = times;
  w->parent = parent;
  w->price->row[at].end = w->price->row_count;
  for (int i = 0; i < n->out_count; i++) {
    touch(w, targets[i], w->price->row_count);
    *slot_of(in, &n->out[i]) = targets[i];
  }
  extend_over(w, at);
}

static double cycles_between(const Price *p, int begin, int end) {
  double sum = 0;
  for (int i = begin; i < end; i++) sum += row_is_block(p->row[i].kind) || !p->row[i].cost ? 0 : p->row[i].times * cost_cycles(p->row[i].cost);
  return sum;
}

/* One branch runs: the dearer one is charged, both must fit. */
static void walk_branches(Walk *w, Inside *in, Node *n) {
  bool cond = n->op == &control_cond;
  int skip = cond ? 1 : 0;
  int *inputs = new_list(w, n->in_count), *outputs = new_list(w, n->out_count), *targets = new_list(w, n->out_count);
  if (!inputs || !outputs || !targets) return;
  Row *r = add_row(w, cond ? ROW_BRANCH : ROW_CALL, n, 0);
  if (!r) return;
  int at = w->price->row_count - 1, parent = w->parent, explicit_count = control_explicit(n);
  w->parent = at;
  for (int i = skip; i < n->in_count; i++) {
    inputs[i - skip] = held_operand(w, in, n->in[i]);
    touch(w, inputs[i - skip], at);
  }
  for (int k = 0; cond && k < control_written_count(n); k++) targets[explicit_count + k] = inputs[control_written(n, k)];
  enter(w, in, n, control_body(n), skip, 0, inputs, targets, outputs);
  int middle = w->price->row_count;
  for (int i = 0; i < n->out_count; i++)
    if (targets[i] < 0) targets[i] = outputs[i];
  if (cond) {
    enter(w, in, n, control_other(n), skip, 0, inputs, targets, outputs);
    Price *p = w->price;
    bool first = cycles_between(p, at + 1, middle) >= cycles_between(p, middle, p->row_count);
    for (int i = first ? middle : at + 1; i < (first ? p->row_count : middle); i++) p->row[i].times = 0;
  }
  w->parent = parent;
  w->price->row[at].end = w->price->row_count;
  for (int i = 0; i < n->out_count; i++) {
    touch(w, targets[i], w->price->row_count);
    *slot_of(in, &n->out[i]) = targets[i];
  }
  extend_over(w, at);
}

/* ---- regions ---- */

static void walk_node(Walk *w, Inside *in, Node *n) {
  if (n->op == &control_repeat || n->op == &control_while) walk_loop(w, in, n);
  else if (n->op->traits & CONTROL) walk_branches(w, in, n);
  else if (node_is_transfer(n)) walk_transfer(w, in, n);
  else if (node_is_dequeue(n)) walk_dequeue(w, in, n);
  else if (node_is_enqueue(n)) walk_enqueue(w, in, n);
  else if (!strcmp(n->op->name, "host_function")) walk_host(w, in, n);
  else if (!(n->op->traits & VIEW) && is_free(n)) walk_broadcast(w, in, n);
  else if (!is_free(n)) walk_op(w, in, n);
}

/* A result made here goes straight to where it is wanted, if its bytes fit there. */
static void aim_outputs(Walk *w, Inside *in, const int *targets) {
  for (int i = 0; targets && i < in->graph->output_count; i++) {
    Value *root = value_root(in->graph->output[i]);
    if (targets[i] < 0 || node_is_input(root->node) || node_is_constant(root->node)) continue;
    int *slot = slot_of(in, root);
    Held *h = &w->price->held[targets[i]];
    if (*slot >= 0 || h->bytes != (double)type_bytes(&root->type)) continue;
    *slot = targets[i];
  }
}

static void walk_region(Walk *w, Inside *in, const int *inputs, const int *targets, int *outputs) {
  const Graph *g = in->graph;
  Arena *scratch = arena_new();
  in->homes = place_find(&w->placer, g);
  if (!scratch || !in->homes || !region_analyse(&in->region, g, NULL, w->program->kernels, false, scratch)) {
    w->failed = true;
    arena_free(scratch);
    return;
  }
  in->held = in->region.buffer; /* all -1 */
  for (int i = 0; i < g->input_count; i++) *slot_of(in, g->input[i]) = inputs[i];
  aim_outputs(w, in, targets);
  for (int i = 0; i < g->node_count && !w->failed; i++) {
    Node *n = g->node[i];
    if (in->region.live[i] && !node_is_input(n) && !node_is_constant(n)) walk_node(w, in, n);
  }
  for (int i = 0; i < g->output_count && !w->failed; i++) {
    int held = held_operand(w, in, g->output[i]);
    touch(w, held, w->price->row_count);
    if (outputs) outputs[i] = held;
  }
  arena_free(scratch);
}

/* ---- the program ---- */

static int hold_variable(Walk *w, int i, const Home *home) {
  const Variable *v = w->program->variable[i];
  int held = add_held(w, BYTES_VARIABLE, NULL, (double)type_bytes(&v->type), ipu_of(w, home));
  if (held < 0) return held;
  Held *h = &w->price->held[held];
  h->variable = v;
  h->written = w->program->writes[i];
  h->first = INT_MAX, h->last = -1; /* until a row touches it */
  return held;
}

/* Arguments arrive before, results leave after. */
static void walk_call(Walk *w, RowKind kind, double bytes) {
  Row *r = bytes > 0 ? add_row(w, kind, NULL, 0) : NULL;
  if (r) r->bytes = bytes, r->times = w->price->machine.calls >= 0 ? 1 : 0;
}

static void walk_root(Walk *w) {
  const Program *p = w->program;
  const Graph *g = w->price->graph ? w->price->graph : p->graph;
  Inside in = {.graph = g};
  int *inputs = new_list(w, g->input_count), *targets = new_list(w, g->output_count);
  const Homes *homes = place_find(&w->placer, g);
  if (!inputs || !targets || !homes) return;
  double in_bytes = 0, out_bytes = 0;
  for (int i = 0; i < p->argument_count; i++) in_bytes += (double)type_bytes(&g->input[i]->type);
  for (int i = 0; i < p->result_count; i++) out_bytes += (double)type_bytes(&p->result_type[i]);
  for (int i = 0; i < g->input_count; i++) {
    const Home *home = home_of(homes, g->input[i]);
    if (i >= p->argument_count) inputs[i] = hold_variable(w, i - p->argument_count, home);
    else inputs[i] = add_held(w, BYTES_VALUE, g->input[i]->node, (double)type_bytes(&g->input[i]->type), ipu_of(w, home));
  }
  walk_call(w, ROW_HOST_IN, in_bytes);
  int at = p->result_count;
  for (int i = 0; i < p->variable_count; i++)
    if (p->writes[i] && at < g->output_count) targets[at++] = inputs[p->argument_count + i];
  walk_region(w, &in, inputs, targets, NULL);
  walk_call(w, ROW_HOST_OUT, out_bytes);
}

/* What the machine asks for beside what the program does already. */
static Status place_more(Error *e, Walk *w) {
  Price *p = w->price;
  OffloadRequest q = {.offload = p->machine.offload, .plan = p->plan, .replicas = p->replicas};
  if (p->machine.recompute && p->plan && p->plan->recomputation == RECOMPUTE_NONE) q.recompute = RECOMPUTE_STAGE;
  p->graph = offload_graph(e, w->program, &q);
  if (!p->graph) return e->status;
  w->placer = (Placer){.arena = p->arena};
  place_program(&w->placer, p->graph);
  w->failed = w->failed || w->placer.failed;
  return OK;
}

Status walk_program(Error *e, Price *p, const Program *program) {
  Walk w = {.error = e, .price = p, .program = program, .times = 1, .parent = -1};
  w.costs = (CostTable){.arena = p->arena, .by_key = map_new(), .machine = &p->machine};
  w.placer.arena = p->arena;
  w.failed = !w.costs.by_key;
  if (!w.failed) place_program(&w.placer, program->graph);
  w.failed = w.failed || w.placer.failed;
  Status s = w.failed ? OK : choose_layout(e, p, program->graph, &w.placer);
  if (s == OK && !w.failed) s = place_more(e, &w);
  if (s == OK && !w.failed) walk_root(&w);
  map_free(w.costs.by_key);
  if (w.failed) return fail(e, ERR_OUT_OF_MEMORY, "out of memory while pricing '%s'", p->name);
  return s;
}
