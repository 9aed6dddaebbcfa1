/* The compiler: a finished root trace becomes a program. Region by region: analyse (fuse.c), decide which values may be
 * written over the variable or carried value they replace, emit steps; then one memory plan, and every pointer is set. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "graph/control.h"
#include "ops/remote.h"
#include "program/lower.h"
#include "program/offload.h"
#include "program/replicas.h"
#include "transform/verify.h"

/* Elementwise work and products smaller than this run on one thread: a hand-off would cost as much. */
enum { PARALLEL_ELEMENTS = 32768, PARALLEL_FLOPS = 400000 };

/* ---- buffers and links ---- */

Status lower_no_memory(Lower *l) { return fail(l->error, ERR_OUT_OF_MEMORY, "out of memory while compiling '%s'", l->p->name); }

int lower_buffer(Lower *l, BufferKind kind, size_t bytes, const Node *node) {
  Program *p = l->p;
  if (!array_reserve(&p->buffer, &p->buffer_capacity, p->buffer_count + 1, sizeof *p->buffer)) {
    lower_no_memory(l);
    return -1;
  }
  p->buffer[p->buffer_count] = (Buffer){.kind = kind, .bytes = bytes, .first = -1, .last = -1, .argument = -1, .node = node, .lane = -1, .copies = 1};
  return p->buffer_count++;
}

void lower_touch(Lower *l, int buffer, int position) {
  if (buffer < 0) return;
  Buffer *b = &l->p->buffer[buffer];
  if (b->first < 0 || position < b->first) b->first = position;
  if (position > b->last) b->last = position;
}

/* *where will point to buffer; the step being emitted uses it. */
void lower_link(Lower *l, int buffer, void *where) {
  Program *p = l->p;
  lower_touch(l, buffer, l->position);
  if (!array_reserve(&p->link, &p->link_capacity, p->link_count + 1, sizeof *p->link)) {
    lower_no_memory(l);
    return;
  }
  p->link[p->link_count++] = (Link){buffer, where, l->pass};
}

Step *lower_step(Lower *l, Block *b, StepKind kind, const Node *n) {
  if (!arena_reserve(l->p->arena, &b->step, &b->capacity, b->count + 1, sizeof *b->step)) {
    lower_no_memory(l);
    return NULL;
  }
  Step *s = &b->step[b->count++];
  *s = (Step){.kind = kind, .node = n, .position = l->position};
  l->p->step_count++;
  return s;
}

int *region_slot(Region *r, const Value *v) { return &r->buffer[r->first_value[v->node->id] + v->index]; }

static int buffer_of(Lower *l, Region *r, Value *v) {
  Value *root = value_root(v);
  int *slot = region_slot(r, root);
  if (*slot < 0 && node_is_constant(root->node)) {
    *slot = lower_buffer(l, BUFFER_CONSTANT, type_bytes(&root->type), root->node);
    if (*slot >= 0) l->p->buffer[*slot].data = root->node->attr[0].tensor->data;
  }
  if (*slot < 0)
    fail_at(l->error, root->node->source, ERR_INTERNAL, "compiling '%s': the result of %s is used before it is made",
            l->p->name, root->node->op->name);
  return *slot;
}

/* The buffer that v is written to: decided before (in place, result), or new. */
static int output_buffer(Lower *l, Region *r, Value *v) {
  int *slot = region_slot(r, v);
  if (*slot < 0) *slot = lower_buffer(l, BUFFER_ARENA, type_bytes(&v->type), v->node);
  return *slot;
}

static bool is_zero(const Buffer *b) {
  const char *data = b->data;
  return b->kind == BUFFER_CONSTANT && !data[0] && !memcmp(data, data + 1, b->bytes - 1);
}

void lower_copy(Lower *l, Block *b, int from, int to, size_t bytes, const Node *n) {
  if (from == to || bytes == 0) return;
  l->position++;
  Step *s = lower_step(l, b, STEP_COPY, n);
  void **ends = arena_alloc(l->p->arena, 2 * sizeof *ends);
  if (!s || !ends) return;
  s->copy_bytes = bytes;
  s->cell = ends;
  if (!is_zero(&l->p->buffer[from])) lower_link(l, from, &ends[0]); /* zeros are written, not read */
  lower_link(l, to, &ends[1]);
}

/* ---- ops ---- */

/* What a scope said of a node's rounding wins over the configuration. */
static const Numerics *node_numerics(Lower *l, const Node *n) {
  const Numerics *common = &l->p->numerics;
  int8_t stochastic = n->place.stochastic_rounding;
  if (stochastic < 0 || stochastic == common->stochastic_rounding) return common;
  Numerics *own = arena_copy(l->p->arena, common, sizeof *common);
  if (!own) return common;
  own->stochastic_rounding = stochastic;
  return own;
}

static void *call_arrays(Lower *l, Call *c, const Node *n) {
  size_t in = (size_t)n->in_count, out = (size_t)n->out_count;
  void **pointers = arena_alloc(l->p->arena, (in + out + 1) * sizeof *pointers);
  const Type **types = arena_alloc(l->p->arena, (in + out + 1) * sizeof *types);
  if (!pointers || !types) {
    lower_no_memory(l);
    return NULL;
  }
  *c = (Call){.in = (const void *const *)pointers, .out = pointers + in, .in_type = types, .out_type = types + in};
  c->node = n;
  c->attr = n->attr;
  c->in_count = n->in_count;
  c->out_count = n->out_count;
  c->replica = l->p->replica;
  c->kernels = l->p->kernels;
  c->numerics = node_numerics(l, n);
  c->rng.stream = (uint32_t)n->stream;
  c->source = n->source;
  for (size_t i = 0; i < in; i++) types[i] = &n->in[i]->type;
  for (size_t i = 0; i < out; i++) types[in + i] = &n->out[i].type;
  return pointers;
}

static void emit_op(Lower *l, Region *r, const Node *n, StepKind kind, Block *b) {
  Call call;
  void **pointers = call_arrays(l, &call, n);
  if (!pointers) return;
  l->position++;
  Step *s = lower_step(l, b, kind, n);
  if (!s) return;
  for (int i = 0; i < n->in_count; i++) lower_link(l, buffer_of(l, r, n->in[i]), &pointers[i]);
  for (int i = 0; i < n->out_count; i++) lower_link(l, output_buffer(l, r, &n->out[i]), &pointers[n->in_count + i]);
  size_t scratch = n->op->scratch ? n->op->scratch(n) : 0;
  if (scratch) {
    s->cell = arena_alloc(l->p->arena, sizeof *s->cell);
    if (!s->cell) return;
    lower_link(l, lower_buffer(l, BUFFER_ARENA, scratch, n), s->cell);
  }
  s->call = call;
}

/* ---- transfers ---- */

/* A variable has memory of its own, which is its place in streaming memory: what is loaded from there is read where it lies, and
 * what is stored is written there at once, where nobody still needs what was there. */
static bool is_read_in_place(const Program *p, const Node *n, int from) {
  return node_is_load(n) && node_shares(n) == 1 && p->buffer[from].kind == BUFFER_ARGUMENT;
}

/* Replicas write their shares of one variable side by side: none may copy the whole of it. */
static bool has_shared_variables(const Program *p) {
  for (int i = 0; i < p->variable_count; i++)
    if (p->shared[i]) return true;
  return false;
}

static void emit_transfer(Lower *l, Region *r, const Node *n, Block *b) {
  bool loads = node_is_load(n);
  int from = buffer_of(l, r, n->in[0]);
  if (!loads && node_shares(n) > 1 && has_shared_variables(l->p) && output_buffer(l, r, n->out) != buffer_of(l, r, n->in[1]))
    fail_at(l->error, n->source, ERR_INTERNAL, "compiling '%s': a share can't be stored in its place", l->p->name);
  if (from < 0) return;
  if (is_read_in_place(l->p, n, from)) *region_slot(r, n->out) = from;
  int to = output_buffer(l, r, n->out);
  if (to < 0) return;
  l->p->buffer[loads ? from : to].remote = true;
  if (from != to) {
    emit_op(l, r, n, loads ? STEP_LOAD : STEP_STORE, b);
    return;
  }
  l->position++;
  lower_step(l, b, loads ? STEP_LOAD : STEP_STORE, n);
  lower_touch(l, from, l->position);
}

/* ---- chains ---- */

typedef struct ChainBuild {
  Lower *lower;
  Region *region;
  const Group *group;
  Chain *chain;
  int slot_of_member[GROUP_MEMBERS];
  int buffer_user[CHAIN_TEMPORARIES]; /* last reader (member index) of what each temporary holds; -1: free */
  const Value *operand[CHAIN_SLOTS];
  int operand_slot[CHAIN_SLOTS], operand_count;
  int gemm_slot;
} ChainBuild;

static int member_index(const Group *g, int node) {
  for (int i = 0; i < g->count; i++)
    if (g->member[i] == node) return i;
  return -1;
}

static int operand_slot(ChainBuild *b, Value *v) {
  const Node *root = value_root(v)->node;
  int member = member_index(b->group, root->id);
  if (member >= 0) return b->slot_of_member[member];
  if (b->group->gemm == root->id) return b->gemm_slot;
  for (int i = 0; i < b->operand_count; i++)
    if (b->operand[i] == v) return b->operand_slot[i];
  int slot = chain_operand(b->chain, &v->type, NULL);
  lower_link(b->lower, buffer_of(b->lower, b->region, v), &b->chain->slot[slot].data);
  b->operand[b->operand_count] = v;
  b->operand_slot[b->operand_count++] = slot;
  return slot;
}

static int last_reader(const ChainBuild *b, int member) {
  const Region *r = b->region;
  int node = b->group->member[member], last = member;
  for (int i = r->reader_begin[node]; i < r->reader_begin[node + 1]; i++) {
    int m = member_index(b->group, r->reader[i]);
    if (m > last) last = m;
  }
  return last;
}

/* A value that leaves the group goes to memory; others live in a block buffer while somebody still reads them. */
static int member_slot(ChainBuild *b, int member) {
  Region *r = b->region;
  Node *n = r->graph->node[b->group->member[member]];
  if (!region_read_outside(r, n->id)) {
    for (int t = 0; t < CHAIN_TEMPORARIES; t++) {
      if (b->buffer_user[t] >= member) continue;
      b->buffer_user[t] = last_reader(b, member);
      return chain_temporary(b->chain, n->out[0].type.dtype, t);
    }
  }
  int slot = chain_operand(b->chain, &n->out[0].type, NULL);
  lower_link(b->lower, output_buffer(b->lower, r, &n->out[0]), &b->chain->slot[slot].data);
  return slot;
}

static Chain *build_chain(Lower *l, Region *r, const Group *g) {
  Chain *chain = arena_alloc(l->p->arena, sizeof *chain);
  if (!chain) {
    lower_no_memory(l);
    return NULL;
  }
  ChainBuild b = {.lower = l, .region = r, .group = g, .chain = chain, .gemm_slot = -1};
  for (int t = 0; t < CHAIN_TEMPORARIES; t++) b.buffer_user[t] = -1;
  chain_begin(chain, l->p->kernels, &g->shape);
  if (g->gemm >= 0) b.gemm_slot = chain_block_slot(chain, r->graph->node[g->gemm]->out[0].type.dtype);
  for (int m = 0; m < g->count; m++) {
    const Node *n = r->graph->node[g->member[m]];
    Elementwise kernel;
    double p[4] = {0};
    n->op->strip(n, &kernel, p);
    int in[3];
    for (int k = 0; k < n->in_count; k++) in[k] = operand_slot(&b, value_operand(n, k));
    b.slot_of_member[m] = member_slot(&b, m);
    int first = chain->step_count;
    chain_step(chain, kernel, n->in_count, in, b.slot_of_member[m], p);
    for (int i = first; i < chain->step_count; i++) chain->step[i].stream = (uint32_t)n->stream;
  }
  chain->numerics = node_numerics(l, r->graph->node[g->member[0]]);
  chain_finish(chain, g->gemm >= 0);
  return chain;
}

/* A product that is only added to what lies where the sum goes: the kernel adds as it stores. Each sum must be whole before it
 * is added, or the bits would differ. */
static bool accumulates(Lower *l, Region *r, const Group *g, const GemmPlan *plan) {
  Node *n = r->graph->node[g->member[0]], *gemm = r->graph->node[g->gemm];
  Elementwise kernel;
  double p[4];
  if (g->count != 1 || plan->k_blocks != 1 || n->in_count != 2 || region_read_outside(r, gemm->id)) return false;
  n->op->strip(n, &kernel, p);
  const Numerics *m = node_numerics(l, n);
  if (kernel != EW_ADD || m->trap_invalid || m->trap_divide || m->trap_overflow) return false;
  Value *other = value_operand(n, value_root(value_operand(n, 0))->node == gemm);
  return value_root(other)->node != gemm && shape_equal(&other->type, &g->shape) &&
         buffer_of(l, r, other) == output_buffer(l, r, &n->out[0]);
}

static void emit_gemm(Lower *l, Region *r, Node *n, const Group *g, Block *b) {
  GemmStep *gs = arena_alloc(l->p->arena, sizeof *gs);
  if (!gs) {
    lower_no_memory(l);
    return;
  }
  l->position++;
  Step *s = lower_step(l, b, STEP_GEMM, g ? r->graph->node[g->last] : n);
  if (!s) return;
  Gemm *m = &gs->gemm;
  gemm_extents(n, &m->m, &m->n, &m->k);
  bool ta = n->attr[0].i, tb = n->attr[1].i;
  gs->dtype = n->in[0]->type.dtype;
  m->a_row = ta ? 1 : m->k, m->a_col = ta ? m->m : 1;
  m->b_row = tb ? 1 : m->n, m->b_col = tb ? m->k : 1;
  m->c_row = m->n;
  lower_link(l, buffer_of(l, r, n->in[0]), &m->a);
  lower_link(l, buffer_of(l, r, n->in[1]), &m->b);
  gs->plan = l->p->kernels->gemm_plan(gs->dtype, m);
  m->accumulate = g && accumulates(l, r, g, &gs->plan);
  if (!g || m->accumulate || region_read_outside(r, n->id)) {
    lower_link(l, output_buffer(l, r, m->accumulate ? &r->graph->node[g->last]->out[0] : &n->out[0]), &m->c);
    m->c = m; /* present, for the plan */
  }
  if (g && !m->accumulate) gs->epilogue = build_chain(l, r, g);
  gs->plan = l->p->kernels->gemm_plan(gs->dtype, m);
  if (gs->plan.shared_bytes) lower_link(l, lower_buffer(l, BUFFER_ARENA, gs->plan.shared_bytes, n), &m->shared);
  if (gs->plan.slot_bytes > l->p->slot_bytes) l->p->slot_bytes = gs->plan.slot_bytes;
  s->gemm = gs;
  s->parallel = 2.0 * (double)m->m * (double)m->n * (double)m->k >= PARALLEL_FLOPS;
}

static void emit_group(Lower *l, Region *r, const Group *g, Block *b) {
  if (g->gemm >= 0) {
    emit_gemm(l, r, r->graph->node[g->gemm], g, b);
    return;
  }
  l->position++;
  Step *s = lower_step(l, b, STEP_CHAIN, r->graph->node[g->last]);
  Chain *chain = build_chain(l, r, g);
  if (!s || !chain) return;
  s->chain = chain;
  s->parallel = chain->count * chain->step_count >= PARALLEL_ELEMENTS;
}

/* ---- control ---- */

/* Everything the loop touches that was there before it must stay until its end. */
static void lower_extend(Lower *l, int begin) {
  for (int i = 0; i < l->p->buffer_count; i++) {
    Buffer *b = &l->p->buffer[i];
    if (b->first >= 0 && b->first <= begin && b->last > begin) lower_touch(l, i, l->position);
  }
}

static Block *new_block(Lower *l) {
  Block *b = arena_alloc(l->p->arena, sizeof *b);
  if (!b) lower_no_memory(l);
  return b;
}

/* Buffers of a region's inputs: lead ones given, then the extras; written extras are the node's own output buffers. */
static int *lower_inputs(Lower *l, Region *r, const Node *n, const int *lead, int lead_count, int node_lead, bool carried) {
  int extras = n->in_count - node_lead;
  int *in = arena_alloc(l->p->arena, (size_t)(lead_count + extras + 1) * sizeof *in);
  if (!in) {
    lower_no_memory(l);
    return NULL;
  }
  memcpy(in, lead, (size_t)lead_count * sizeof *in);
  for (int i = 0; i < extras; i++) in[lead_count + i] = buffer_of(l, r, n->in[node_lead + i]);
  for (int w = 0; carried && w < control_written_count(n); w++)
    in[lead_count + control_written(n, w)] = *region_slot(r, &n->out[control_explicit(n) + w]);
  return in;
}

static bool is_read_last_by(const Region *r, const Value *v, const Node *last);

/* What was put into streaming memory for a loop to carry is there already. */
static void take_over_stores(Lower *l, Region *r, Node *n) {
  for (int i = 0; i < control_explicit(n); i++) {
    Value *first = n->in[1 + i];
    int *slot = region_slot(r, &n->out[i]);
    if (*slot < 0 && node_is_store(first->node) && is_read_last_by(r, first, n)) *slot = buffer_of(l, r, first);
  }
}

static void emit_loop(Lower *l, Region *r, Node *n, Block *b) {
  bool repeat = n->op == &control_repeat;
  PipelinePlan *plan = (PipelinePlan *)control_plan(n);
  int carried = control_explicit(n), written = control_written_count(n);
  int *targets = arena_alloc(l->p->arena, (size_t)(n->out_count + 1) * sizeof *targets);
  int *lead = arena_alloc(l->p->arena, (size_t)(carried + 1) * sizeof *lead);
  if (!targets || !lead) {
    lower_no_memory(l);
    return;
  }
  take_over_stores(l, r, n);
  for (int i = 0; i < n->out_count; i++) targets[i] = output_buffer(l, r, &n->out[i]);
  for (int i = 0; i < carried; i++) lower_copy(l, b, buffer_of(l, r, n->in[1 + i]), targets[i], type_bytes(&n->out[i].type), n);
  for (int w = 0; w < written; w++) {
    Value *from = n->in[1 + carried + control_written(n, w)];
    lower_copy(l, b, buffer_of(l, r, from), targets[carried + w], type_bytes(&from->type), n);
  }
  l->position++;
  Step *s = lower_step(l, b, plan ? STEP_PIPELINE : repeat ? STEP_REPEAT : STEP_WHILE, n);
  Block *body = new_block(l), *other = repeat ? NULL : new_block(l);
  void **pointers = arena_alloc(l->p->arena, 3 * sizeof *pointers); /* test, limit, index */
  if (!s || !body || !pointers) return;
  int begin = l->position, index = -1, test = -1;
  if (repeat) {
    index = lower_buffer(l, BUFFER_ARENA, sizeof(int32_t), n);
    lower_link(l, buffer_of(l, r, n->in[0]), &pointers[CELL_TEST]);
    lower_link(l, index, &pointers[CELL_INDEX]);
    lead[0] = index;
  } else {
    test = lower_buffer(l, BUFFER_ARENA, 1, n);
    lower_link(l, test, &pointers[CELL_TEST]);
    lower_link(l, buffer_of(l, r, n->in[0]), &pointers[CELL_LIMIT]);
  }
  for (int i = 0; i < carried; i++) lead[repeat + i] = targets[i];
  for (int i = 0; i < n->out_count; i++) lower_touch(l, targets[i], begin);
  int *inputs = lower_inputs(l, r, n, lead, carried + repeat, 1 + carried, true);
  s->cell = pointers;
  if (!inputs) return;
  for (int i = carried + repeat; i < carried + repeat + n->in_count - 1 - carried; i++) lower_touch(l, inputs[i], begin);
  if (plan) {
    s->pipeline = lower_pipeline(l, n, plan, inputs, targets, begin);
  } else {
    s->control.body = body;
    s->control.other = other;
    if (other) lower_region(l, control_other(n), inputs, &test, other);
    lower_region(l, control_body(n), inputs, targets, body);
  }
  l->position++;
  lower_touch(l, index, l->position);
  lower_touch(l, test, l->position);
  for (int i = 0; i < n->out_count; i++) lower_touch(l, targets[i], l->position);
  lower_extend(l, begin);
}

static void emit_branches(Lower *l, Region *r, Node *n, Block *b) {
  bool cond = n->op == &control_cond;
  int *targets = arena_alloc(l->p->arena, (size_t)(n->out_count + 1) * sizeof *targets);
  l->position++;
  Step *s = lower_step(l, b, cond ? STEP_COND : STEP_CALL, n);
  Block *body = new_block(l), *other = cond ? new_block(l) : NULL;
  void **pointers = arena_alloc(l->p->arena, 3 * sizeof *pointers);
  if (!targets || !s || !body || !pointers) return;
  if (cond) lower_link(l, buffer_of(l, r, n->in[0]), &pointers[CELL_TEST]);
  for (int i = 0; i < n->out_count; i++) {
    targets[i] = output_buffer(l, r, &n->out[i]);
    lower_touch(l, targets[i], l->position);
  }
  /* all of the node's inputs but the test are the regions' inputs, in order */
  int skip = cond ? 1 : 0;
  int *inputs = arena_alloc(l->p->arena, (size_t)(n->in_count + 1) * sizeof *inputs);
  if (!inputs) return;
  for (int i = skip; i < n->in_count; i++) {
    inputs[i - skip] = buffer_of(l, r, n->in[i]);
    lower_touch(l, inputs[i - skip], l->position);
  }
  s->control.body = body;
  s->control.other = other;
  s->cell = pointers;
  int begin = l->position;
  lower_region(l, control_body(n), inputs, targets, body);
  if (other) lower_region(l, control_other(n), inputs, targets, other);
  l->position++;
  for (int i = 0; i < n->out_count; i++) lower_touch(l, targets[i], l->position);
  /* only one branch runs, so what either needs must be there for both */
  lower_extend(l, begin);
}

/* ---- writing over what a value replaces ---- */

static int times_read(const Node *n, const Value *root) {
  int times = 0;
  for (int i = 0; i < n->in_count; i++) times += value_root(n->in[i]) == root;
  return times;
}

/* Reader of the old value x at the very step that makes the new one: allowed where each element is read before it is
 * written, or where the node takes the buffer over as its carried value. */
static bool may_read_at_step(const Region *r, const Node *reader, const Value *old, const Value *made) {
  const Node *maker = made->node;
  int group = region_group(r, maker->id);
  if (reader == maker && (maker->op->traits & CONTROL)) {
    if (maker->op != &control_repeat && maker->op != &control_while) return true;
    int explicit_count = control_explicit(maker), at = made->index < explicit_count
                             ? 1 + made->index
                             : 1 + explicit_count + control_written(maker, made->index - explicit_count);
    return times_read(maker, old) == 1 && value_root(maker->in[at]) == old;
  }
  for (int k = 0; reader == maker && group < 0 && k < 8 && k < maker->in_count; k++)
    if ((maker->op->traits & IN_PLACE(k)) && value_root(maker->in[k]) == old) return times_read(maker, old) == 1;
  if (group >= 0 && r->group[group].gemm == maker->id) return false; /* a product is there before anything that runs with it */
  if (group < 0 || region_group(r, reader->id) != group || reader->id > maker->id || reader->id == r->group[group].gemm)
    return false;
  for (int k = 0; k < reader->in_count; k++) {
    Value *v = value_operand(reader, k);
    if (value_root(v) == old && !shape_equal(&v->type, &r->group[group].shape)) return false;
  }
  return true;
}

static bool is_whole_load(const Node *n) { return node_is_load(n) && node_shares(n) == 1; }

/* Is everybody done with the old value when made is written over it? What is loaded from it may be read where it lies. */
static bool is_replaceable(const Region *r, const Value *old, const Value *made) {
  const Graph *g = r->graph;
  int position = region_position(r, made->node->id);
  for (int k = r->reader_begin[old->node->id]; k < r->reader_begin[old->node->id + 1]; k++) {
    int reader = r->reader[k], at = region_position(r, reader);
    if (reader < g->node_count && is_whole_load(g->node[reader]) && !is_replaceable(r, g->node[reader]->out, made)) return false;
    if (at < position) continue;
    /* later passes of a pipeline read a stashed copy */
    if (r->pass && reader < g->node_count && r->pass[reader] != r->pass[made->node->id]) continue;
    if (at > position || !may_read_at_step(r, g->node[reader], old, made)) return false;
  }
  return true;
}

/* Can made be written straight to target, given every region input that lives there? */
static bool may_write_over(Lower *l, const Region *r, const int *inputs, int target, const Value *made) {
  if (l->p->buffer[target].bytes != type_bytes(&made->type)) return false;
  for (int i = 0; i < r->graph->input_count; i++)
    if (inputs[i] == target && !is_replaceable(r, r->graph->input[i], made)) return false;
  return true;
}

bool node_is_made(const Node *n) { return !node_is_input(n) && !node_is_constant(n); }

static bool target_taken(const int *targets, const bool *direct, int count, int target) {
  for (int i = 0; i < count; i++)
    if (direct[i] && targets[i] == target) return true;
  return false;
}

/* What a branch or loop is given for the place of its output `made`, and hands on where nothing changes it; NULL: nothing. */
static Value *replaced_by(const Value *made) {
  const Node *n = made->node;
  bool cond = n->op == &control_cond;
  if (!cond && n->op != &control_repeat && n->op != &control_while) return NULL;
  int carried = control_explicit(n), written = made->index - carried;
  if (written < 0) return cond ? NULL : value_root(n->in[1 + made->index]);
  return value_root(n->in[1 + (cond ? 0 : carried) + control_written(n, written)]);
}

static bool is_read_last_by(const Region *r, const Value *v, const Node *last) {
  if (last->op != &control_cond && times_read(last, v) > 1) return false;
  for (int k = r->reader_begin[v->node->id]; k < r->reader_begin[v->node->id + 1]; k++) {
    int reader = r->reader[k];
    if (reader == last->id) continue;
    if (region_position(r, reader) >= last->id) return false;
    const Node *n = r->graph->node[reader];
    if (is_whole_load(n) && (times_read(last, n->out) || !is_read_last_by(r, n->out, last))) return false;
  }
  return true;
}

/* What is stored in a variable is made there, where that can be. */
static void follow_stored(Lower *l, Region *r, const int *inputs, int target, const Value *made) {
  if (!node_is_store(made->node) || node_shares(made->node) > 1 || l->p->buffer[target].kind != BUFFER_ARGUMENT) return;
  Value *v = value_root(made->node->in[0]);
  int *slot = region_slot(r, v);
  if (node_is_made(v->node) && *slot < 0 && may_write_over(l, r, inputs, target, v)) *slot = target;
}

/* The value that `made` replaces goes to the same place, so that a branch that leaves it alone has nothing to copy. */
static void follow_replaced(Lower *l, Region *r, const int *inputs, int target, const Value *made) {
  for (Value *v = replaced_by(made); v && !r->pass; made = v, v = replaced_by(v)) {
    int *slot = region_slot(r, v);
    if (!node_is_made(v->node) || *slot >= 0 || !is_read_last_by(r, v, made->node) || !may_write_over(l, r, inputs, target, v))
      return;
    *slot = target;
  }
}

/* Decide which outputs go straight to their targets; the rest are copied at the end. */
void lower_in_place(Lower *l, Region *r, const int *inputs, const int *targets, bool *direct) {
  const Graph *g = r->graph;
  for (int i = g->output_count - 1; i >= 0; i--) {
    Value *made = value_root(g->output[i]);
    int *slot = region_slot(r, made);
    if (!node_is_made(made->node) || *slot >= 0 || target_taken(targets, direct, g->output_count, targets[i])) continue;
    if (!may_write_over(l, r, inputs, targets[i], made)) continue;
    *slot = targets[i];
    direct[i] = true;
    follow_stored(l, r, inputs, targets[i], made);
    follow_replaced(l, r, inputs, targets[i], made);
  }
}

int region_output_pass(const Region *r, int output) {
  const Node *n = value_root(r->graph->output[output])->node;
  return r->pass && node_is_made(n) ? r->pass[n->id] : 0;
}

/* Copies happen as if at once: one whose target another still reads waits; a ring is broken by a spare buffer. */
void lower_outputs(Lower *l, Region *r, const int *targets, int pass, Block *b) {
  const Graph *g = r->graph;
  int count = g->output_count, left = 0;
  int *from = arena_alloc(r->arena, (size_t)(count + 1) * sizeof *from);
  bool *waiting = arena_alloc(r->arena, (size_t)(count + 1));
  if (!from || !waiting) {
    lower_no_memory(l);
    return;
  }
  for (int i = 0; i < count; i++) {
    if (region_output_pass(r, i) != pass) continue;
    from[i] = buffer_of(l, r, g->output[i]);
    waiting[i] = from[i] != targets[i];
    left += waiting[i];
  }
  while (left > 0 && l->error->status == OK) {
    bool moved = false;
    for (int i = 0; i < count; i++) {
      if (!waiting[i]) continue;
      bool read = false;
      for (int k = 0; k < count; k++) read = read || (k != i && waiting[k] && from[k] == targets[i]);
      if (read) continue;
      lower_copy(l, b, from[i], targets[i], type_bytes(&g->output[i]->type), g->output[i]->node);
      waiting[i] = false, moved = true, left--;
    }
    for (int i = 0; i < count && !moved; i++) {
      if (!waiting[i]) continue;
      int spare = lower_buffer(l, BUFFER_ARENA, l->p->buffer[from[i]].bytes, NULL);
      if (spare < 0) return;
      lower_copy(l, b, from[i], spare, l->p->buffer[from[i]].bytes, g->output[i]->node);
      for (int k = count - 1; k >= 0; k--)
        if (k != i && from[k] == from[i]) from[k] = spare;
      from[i] = spare;
      moved = true;
    }
  }
}

/* ---- a region ---- */

void lower_node(Lower *l, Region *r, Node *n, Block *b) {
  int group = region_group(r, n->id);
  if (group >= 0) {
    if (r->group[group].last == n->id) emit_group(l, r, &r->group[group], b);
  } else if (n->op == &control_repeat || n->op == &control_while) {
    emit_loop(l, r, n, b);
  } else if (n->op->traits & CONTROL) {
    emit_branches(l, r, n, b);
  } else if (node_is_transfer(n)) {
    emit_transfer(l, r, n, b);
  } else if (node_is_dequeue(n)) {
    emit_op(l, r, n, STEP_DEQUEUE, b);
  } else if (node_is_enqueue(n)) {
    emit_op(l, r, n, STEP_ENQUEUE, b);
  } else if (node_is_gemm(n) && !l->p->numerics.check_finite) {
    emit_gemm(l, r, n, NULL, b);
  } else {
    emit_op(l, r, n, STEP_OP, b);
  }
}

Status lower_region(Lower *l, const Graph *g, const int *inputs, const int *targets, Block *block) {
  if (l->error->status != OK) return l->error->status;
  Arena *scratch = arena_new();
  Region r;
  bool *direct = scratch ? arena_alloc(scratch, (size_t)g->output_count + 1) : NULL;
  if (!direct || !region_analyse(&r, g, NULL, l->p->kernels, !l->p->numerics.check_finite, scratch)) {
    arena_free(scratch);
    return lower_no_memory(l);
  }
  for (int i = 0; i < g->input_count; i++) *region_slot(&r, g->input[i]) = inputs[i];
  lower_in_place(l, &r, inputs, targets, direct);
  for (int i = 0; i < g->node_count && l->error->status == OK; i++) {
    Node *n = g->node[i];
    if (r.live[i] && node_is_made(n) && !(n->op->traits & VIEW)) lower_node(l, &r, n, block);
  }
  if (l->error->status == OK) lower_outputs(l, &r, targets, 0, block);
  arena_free(scratch);
  return l->error->status;
}

/* ---- pointers ---- */

static int by_argument(const void *a, const void *b) {
  const Link *x = a, *y = b;
  return x->buffer != y->buffer ? (x->buffer > y->buffer) - (x->buffer < y->buffer) : (x->where > y->where) - (x->where < y->where);
}

static char *home_of(const Program *p, const Buffer *b) { return b->remote ? p->remote : p->memory; }

static void add_stash(Lower *l, const Link *link, const Buffer *b) {
  Pass *q = link->pass;
  if (!arena_reserve(l->p->arena, &q->stash, &q->stash_capacity, q->stash_count + 1, sizeof *q->stash)) {
    lower_no_memory(l);
    return;
  }
  q->stash[q->stash_count++] = (StashLink){link->where, home_of(l->p, b) + b->offset, b->bytes / (size_t)b->copies, b->copies};
}

/* A lane alone uses the whole team, side by side each its own. */
static int slots_for(const Program *p, int threads) { return threads + (p->lanes ? p->lanes - 1 : 0); }

static bool make_slots(Program *p, int threads) {
  char *slots = NULL;
  if (posix_memalign((void **)&slots, 64, p->slot_bytes * (size_t)slots_for(p, threads) + 64)) return false;
  free(p->slots);
  p->slots = slots;
  p->slot_count = slots_for(p, threads);
  return true;
}

/* Huge pages where there is room for one: fewer faults, and activations' rows don't each want an address translation. */
static char *working_memory(size_t bytes) {
  enum { HUGE_PAGE = 2 << 20 };
  bool huge = bytes >= HUGE_PAGE;
  size_t alignment = huge ? HUGE_PAGE : 64, rounded = (bytes + alignment) / alignment * alignment;
  void *memory = NULL;
  if (!memory_has_room(rounded) || posix_memalign(&memory, alignment, rounded)) return NULL;
  if (huge) madvise(memory, rounded, MADV_HUGEPAGE); /* advice: failure changes nothing */
  return memory;
}

static Status place(Lower *l) {
  Program *p = l->p;
  size_t bytes = p->memory_bytes = plan_memory(p->buffer, p->buffer_count, false);
  p->remote_bytes = plan_memory(p->buffer, p->buffer_count, true);
  if (bytes == SIZE_MAX || p->remote_bytes == SIZE_MAX) return lower_no_memory(l);
  p->slot_bytes = (p->slot_bytes + 63) / 64 * 64;
  p->memory = working_memory(bytes);
  if (p->remote_bytes && !(p->remote = working_memory(p->remote_bytes)))
    return fail(l->error, ERR_OUT_OF_MEMORY, "'%s' needs %.1f MiB of streaming memory", p->name, (double)p->remote_bytes / 1048576);
  if (!p->memory || !make_slots(p, l->threads))
    return fail(l->error, ERR_OUT_OF_MEMORY, "'%s' needs %.1f MiB of working memory", p->name, (double)bytes / 1048576);
  if (p->link_count) qsort(p->link, (size_t)p->link_count, sizeof *p->link, by_argument);
  for (int i = 0; i < p->link_count; i++) {
    const Buffer *b = &p->buffer[p->link[i].buffer];
    void *data = b->kind == BUFFER_ARENA ? home_of(p, b) + b->offset : b->kind == BUFFER_CONSTANT ? b->data : NULL;
    *p->link[i].where = data;
    if (b->copies > 1) add_stash(l, &p->link[i], b);
  }
  return l->error->status;
}

/* Where the links of each bound buffer begin in the sorted list. */
static Status index_bindings(Lower *l) {
  Program *p = l->p;
  int count = p->argument_count + p->variable_count + p->result_count;
  p->link_begin = arena_alloc(p->arena, (size_t)(2 * count + 2) * sizeof *p->link_begin);
  if (!p->link_begin) return lower_no_memory(l);
  for (int i = 0; i < count; i++) {
    int at = 0, end = p->link_count;
    while (at < end) {
      int middle = at + (end - at) / 2;
      if (p->link[middle].buffer < p->binding[i].buffer) at = middle + 1;
      else end = middle;
    }
    p->link_begin[2 * i] = at;
    while (at < p->link_count && p->link[at].buffer == p->binding[i].buffer) at++;
    p->link_begin[2 * i + 1] = at;
  }
  return OK;
}

/* Scratch never moves: hand it to the steps once. */
static void give_scratch(Program *p, Block *b, int lane) {
  for (int i = 0; i < b->count; i++) {
    Step *s = &b->step[i];
    if (s->kind == STEP_GEMM) {
      s->gemm->gemm.slots = p->slots + (size_t)lane * p->slot_bytes;
      s->gemm->gemm.slot_bytes = p->slot_bytes;
    } else if (s->kind == STEP_OP && s->cell) {
      s->call.scratch = *s->cell;
    } else if (s->kind == STEP_PIPELINE) {
      for (int k = 0; k < s->pipeline->pass_count; k++) give_scratch(p, &s->pipeline->pass[k].body, s->pipeline->pass[k].lane);
    } else if (s->kind >= STEP_REPEAT) {
      give_scratch(p, s->control.body, lane);
      if (s->control.other) give_scratch(p, s->control.other, lane);
    }
  }
}

Status program_fit_team(Error *e, Program *p, int threads) {
  if (p->outline || slots_for(p, threads) <= p->slot_count) return OK;
  if (!make_slots(p, threads)) return fail(e, ERR_OUT_OF_MEMORY, "'%s': out of memory for %d threads", p->name, threads);
  give_scratch(p, &p->main, 0);
  return OK;
}

/* ---- the program ---- */

static int bind_buffer(Lower *l, int index, size_t bytes) {
  int b = lower_buffer(l, BUFFER_ARGUMENT, bytes, NULL);
  if (b < 0) return -1;
  l->p->buffer[b].argument = index;
  l->p->binding[index] = (Binding){b, NULL};
  return b;
}

static Status describe(Lower *l, int argument_count, int variable_count, int result_count) {
  Program *p = l->p;
  p->argument_count = argument_count;
  p->result_count = result_count;
  size_t count = (size_t)(argument_count + variable_count + result_count) + 1;
  p->variable = arena_alloc(p->arena, count * sizeof *p->variable);
  p->writes = arena_alloc(p->arena, count);
  p->shared = arena_alloc(p->arena, count);
  p->result_type = arena_alloc(p->arena, count * sizeof *p->result_type);
  p->binding = arena_alloc(p->arena, count * sizeof *p->binding);
  if (!p->variable || !p->writes || !p->shared || !p->result_type || !p->binding) return lower_no_memory(l);
  p->variable_count = variable_count;
  for (int i = 0; i < result_count; i++) p->result_type[i] = p->graph->output[i]->type;
  return OK;
}

/* Outputs beyond the results are the variables that the program changes, in order. */
static Status lower_program(Lower *l) {
  Program *p = l->p;
  const Graph *g = p->graph;
  int *inputs = arena_alloc(p->arena, (size_t)(g->input_count + 1) * sizeof *inputs);
  int *targets = arena_alloc(p->arena, (size_t)(g->output_count + 1) * sizeof *targets);
  if (!inputs || !targets) return lower_no_memory(l);
  int lead = p->argument_count + p->variable_count, at = p->result_count;
  for (int i = 0; i < g->input_count; i++) inputs[i] = bind_buffer(l, i, type_bytes(&g->input[i]->type));
  for (int i = 0; i < p->result_count; i++) targets[i] = bind_buffer(l, lead + i, type_bytes(&g->output[i]->type));
  for (int i = 0; i < p->variable_count; i++)
    if (p->writes[i]) targets[at++] = inputs[p->argument_count + i];
  Status s = VERIFYING ? graph_verify(l->error, g, "tracing") : OK;
  if (s == OK) s = lower_region(l, g, inputs, targets, &p->main);
  if (s == OK) s = place(l);
  if (s == OK && VERIFYING) s = program_verify(l->error, p);
  if (s == OK) s = index_bindings(l);
  if (s == OK) give_scratch(p, &p->main, 0);
  return s;
}

static Program *new_program(Error *e, const char *name, const Kernels *kernels, const Numerics *numerics, Graph *graph) {
  Program *p = calloc(1, sizeof *p);
  if (p) p->arena = arena_new();
  if (!p || !p->arena) {
    free(p);
    fail(e, ERR_OUT_OF_MEMORY, "out of memory while compiling '%s'", name);
    return NULL;
  }
  p->kernels = kernels;
  p->replicas = 1;
  if (numerics) p->numerics = *numerics;
  p->name = arena_string(p->arena, name ? name : "program");
  p->graph = graph;
  return p;
}

/* What was asked of the whole program, and of its pipeline. */
static Status place_transfers(Error *e, Program *p, const Trace *root) {
  OffloadRequest q = {.offload = root->offload, .plan = graph_plan(p->graph), .replicas = root->replicas};
  if (q.plan) {
    q.offload = q.plan->offload;
    q.recompute = q.plan->recomputation;
  }
  Graph *g = offload_graph(e, p, &q);
  if (!g) return e->status;
  graph_free(p->graph);
  p->graph = g;
  for (int i = 0; i < p->variable_count; i++) p->shared[i] = load_shares(g, g->input[p->argument_count + i]) > 1;
  return OK;
}

/* threads 0: an outline. */
static Program *compile(Error *e, Trace *root, int result_count, const int *written, int written_count,
                        const Kernels *kernels, const Numerics *numerics, int threads, const char *name) {
  if (root->graph->error.status != OK) {
    if (e->status == OK) *e = root->graph->error;
    return NULL;
  }
  Program *p = new_program(e, name, kernels, numerics, NULL);
  if (!p) return NULL;
  p->graph = trace_take_graph(root);
  p->outline = threads < 1;
  Lower l = {.error = e, .p = p, .threads = threads};
  Status s = describe(&l, root->argument_count, root->extra_count, result_count);
  for (int i = 0; i < p->variable_count; i++) p->variable[i] = variable_retain(root->extra[i].variable);
  for (int i = 0; i < written_count && s == OK; i++) p->writes[written[i]] = true;
  if (s == OK) s = place_transfers(e, p, root);
  if (s == OK && (p->outline || lower_program(&l) == OK)) return p;
  program_free(p);
  return NULL;
}

Program *program_compile(Error *e, Trace *root, int result_count, const int *written, int written_count,
                         const Kernels *kernels, const Numerics *numerics, int threads, const char *name) {
  return compile(e, root, result_count, written, written_count, kernels, numerics, threads < 1 ? 1 : threads, name);
}

Program *program_outline(Error *e, Trace *root, int result_count, const int *written, int written_count,
                         const Kernels *kernels, const Numerics *numerics, const char *name) {
  return compile(e, root, result_count, written, written_count, kernels, numerics, 0, name);
}

Program *program_copy(Error *e, const Program *from, int threads) { return program_instance(e, from, threads, 0); }

Program *program_instance(Error *e, const Program *from, int threads, int replica) {
  Program *p = new_program(e, from->name, from->kernels, &from->numerics, from->graph);
  if (!p) return NULL;
  p->borrows_graph = true;
  p->replica = replica;
  Lower l = {.error = e, .p = p, .threads = threads < 1 ? 1 : threads};
  Status s = describe(&l, from->argument_count, from->variable_count, from->result_count);
  for (int i = 0; i < p->variable_count; i++) {
    p->variable[i] = variable_retain(from->variable[i]);
    p->writes[i] = from->writes[i];
    p->shared[i] = from->shared[i];
  }
  if (s == OK && lower_program(&l) == OK) return p;
  program_free(p);
  return NULL;
}

void program_free(Program *p) {
  if (!p) return;
  replication_free(p->replication);
  for (int i = 0; i < p->variable_count; i++) variable_release(p->variable[i]);
  for (int i = 0; i < p->pipeline_count; i++) timetable_free(p->pipeline[i]->timetable);
  free(p->pipeline);
  free(p->buffer);
  free(p->link);
  free(p->memory);
  free(p->remote);
  free(p->slots);
  if (!p->borrows_graph) graph_free(p->graph);
  arena_free(p->arena);
  free(p);
}
