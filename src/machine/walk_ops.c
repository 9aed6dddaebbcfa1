/* The steps of ops, and the tile memory of their operands and results. */
#include "machine/walk_ops.h"

#include <string.h>

#include "graph/control.h"
#include "graph/observe.h"
#include "machine/costs.h"
#include "machine/place.h"
#include "machine/priced.h"
#include "machine/walk.h"
#include "ops/io/remote.h"
#include "program/region.h"

/* ---- lists ---- */

PricedStep *walk_add_step(PricingContext *w, PricedKind kind, const Node *n, int ipu) {
  Price *p = w->price;
  if (!arena_reserve(p->arena, &p->step, &p->step_capacity, p->step_count + 1, sizeof *p->step)) {
    w->failed = true;
    return NULL;
  }
  PricedStep *r = &p->step[p->step_count++];
  *r = (PricedStep){.kind = kind,
                    .node = n,
                    .parent = w->parent,
                    .end = p->step_count,
                    .ipu = ipu,
                    .stage = -1,
                    .times = w->times,
                    .repeats = 1,
                    .region = w->region,
                    .moved = -1,
                    .arrived = -1,
                    .ready = -1};
  return r;
}

int walk_add_allocation(PricingContext *w, PriceCategory category, const Node *n, double bytes,
                        int ipu) {
  Price *p = w->price;
  if (!arena_reserve(p->arena, &p->allocation, &p->allocation_capacity, p->allocation_count + 1,
                     sizeof *p->allocation)) {
    w->failed = true;
    return -1;
  }
  p->allocation[p->allocation_count] = (Allocation){.category = category,
                                                    .node = n,
                                                    .bytes = bytes,
                                                    .ipu = ipu,
                                                    .first = p->step_count,
                                                    .last = p->step_count,
                                                    .alias = -1};
  return p->allocation_count++;
}

void walk_touch(PricingContext *w, int allocation, int step) {
  if (allocation < 0) return;
  Allocation *h = &w->price->allocation[allocation];
  if (step < h->first) h->first = step;
  if (step > h->last) h->last = step;
}

int walk_ipu_of(const PricingContext *w, const Home *h) {
  if (h->stage >= 0) return price_ipu_of_stage(w->price, h->stage);
  return h->shard >= 0 ? h->shard : 0;
}

bool walk_is_on_host(const PricingContext *w, int allocation) {
  return allocation >= 0 && w->price->allocation[allocation].ipu == ON_HOST;
}

int *walk_slot_of(PricedRegion *in, const Value *v) {
  return &in->allocation[value_number(&in->region.values, v)];
}

/* The position of the last reader of n's results. For outputs of the region it is after all
 * nodes. */
static int last_read(const PricedRegion *in, const Node *n) {
  int last = -1;
  for (int i = in->region.reader_begin[n->id]; i < in->region.reader_begin[n->id + 1]; i++) {
    int at = region_position(&in->region, in->region.reader[i]);
    if (at > last) last = at;
  }
  return last;
}

void walk_set_slot(PricingContext *w, PricedRegion *in, const Value *v, int allocation) {
  *walk_slot_of(in, v) = allocation;
  if (allocation < in->first_allocation) return; /* somebody else's */
  Allocation *h = &w->price->allocation[allocation];
  int last = last_read(in, v->node);
  if (h->alias >= 0) return;
  if (h->region != in->graph || last > h->until) h->until = last;
  h->region = in->graph;
}

void walk_written(PricingContext *w, int allocation) {
  if (allocation >= 0) w->price->allocation[allocation].version++;
}

int *walk_new_list(PricingContext *w, int count) {
  int *list = arena_alloc(w->price->arena, (size_t)(count + 1) * sizeof *list);
  if (!list) w->failed = true;
  for (int i = 0; list && i < count; i++) list[i] = -1;
  return list;
}

/* ---- operands ---- */

/* A constant of equal elements takes one of them: it is broadcast where it is read. */
static double constant_bytes(const Tensor *t) {
  size_t bytes = type_bytes(&t->type), size = dtype_size(t->type.dtype);
  if (bytes <= size || !tensor_is_dense(t)) return (double)bytes;
  return memcmp(t->data, t->data + size, bytes - size) ? (double)bytes : (double)size;
}

/* The step after which v is there; the block's first where it comes from outside of the region. */
static int ready_step(const PricingContext *w, const Value *v) {
  const Price *p = w->price;
  const Node *n = value_root((Value *)(uintptr_t)v)->node;
  if (node_is_input(n)) return w->parent;
  for (int i = p->step_count - 1; i > w->parent; i--)
    if (p->step[i].node == n && p->step[i].region == w->region && p->step[i].kind != PRICED_LINK)
      return priced_is_block(p->step[i].kind) ? p->step[i].end - 1 : i;
  return n->in_count ? ready_step(w, n->in[0]) : w->parent; /* a broadcast is no step */
}

/* The region whose steps run whenever the steps of `in` do: for a called function the region of its
 * caller. */
static const Graph *running_region(const PricedRegion *in) {
  while (in->outer && control_calls(&in->regions)) in = in->outer;
  return in->graph;
}

static bool is_within(const PricedRegion *in, const Graph *region) {
  while (in && in->graph != region) in = in->outer;
  return in != NULL;
}

/* A value that was brought to that IPU before, in this region or around it, and not written
 * since. */
static int find_copy(const PricingContext *w, const PricedRegion *in, int allocation, int ipu,
                     bool constant) {
  const Allocation *from = &w->price->allocation[allocation];
  for (int i = w->price->allocation_count - 1; i > allocation; i--) {
    const Allocation *h = &w->price->allocation[i];
    if (h->alias != allocation || h->ipu != ipu) continue;
    if (constant || (h->version == from->version && is_within(in, h->region))) return i;
  }
  return -1;
}

/* The step of a move from one IPU to another, or between an IPU and the host. */
static PricedStep *add_move(PricingContext *w, const Node *n, int from, int to) {
  PricedKind kind = from == ON_HOST ? PRICED_HOST_IN
                    : to == ON_HOST ? PRICED_HOST_OUT
                                    : PRICED_LINK;
  PricedStep *r = walk_add_step(w, kind, n, to == ON_HOST ? from : to);
  if (!r) return NULL;
  if (kind == PRICED_LINK) r->from_ipu = from;
  r->stage = w->stage;
  r->backward = w->backward;
  return r;
}

/* The allocation of v, brought to that IPU, or to the host. */
int walk_local(PricingContext *w, PricedRegion *in, Value *v, int ipu, const Node *reader) {
  Value *root = value_root(v);
  int *slot = walk_slot_of(in, root);
  bool constant = node_is_constant(root->node);
  if (*slot < 0 && constant)
    *slot = walk_add_allocation(w, BYTES_CONSTANT, root->node,
                                constant_bytes(root->node->attr[0].tensor), ipu);
  int allocation = *slot;
  if (allocation < 0 || w->price->allocation[allocation].ipu == ipu) return allocation;
  int there = find_copy(w, in, allocation, ipu, constant);
  if (there >= 0) return there;
  Allocation from = w->price->allocation[allocation];
  bool moves = !constant && (ipu >= 0 || ipu == ON_HOST);
  if (moves) {
    bool host = from.ipu == ON_HOST || ipu == ON_HOST;
    PricedStep *r = add_move(w, from.node && !(host && reader) ? from.node : reader, from.ipu, ipu);
    if (!r) return -1;
    r->bytes = from.bytes;
    r->ready = ready_step(w, root);
    walk_touch(w, allocation, w->price->step_count - 1);
  }
  int copy =
      walk_add_allocation(w, constant ? BYTES_CONSTANT : BYTES_VALUE, from.node, from.bytes, ipu);
  if (copy < 0) return copy;
  w->price->allocation[copy].alias = allocation;
  w->price->allocation[copy].version = from.version;
  w->price->allocation[copy].region = running_region(in);
  w->price->allocation[copy].until = -1; /* nothing is written over it */
  w->price->allocation[copy].variable = from.variable;
  if (moves) {
    walk_touch(w, copy, w->price->step_count - 1); /* from the link on */
    w->price->step[w->price->step_count - 1].arrived = copy;
  }
  return copy;
}

/* The allocation that an operand of a control node is, without moving it. */
int walk_operand_allocation(PricingContext *w, PricedRegion *in, Value *v) {
  int allocation = *walk_slot_of(in, value_root(v));
  bool constant = node_is_constant(value_root(v)->node);
  return allocation < 0 && constant
             ? walk_local(w, in, v, walk_ipu_of(w, home_of(in->homes, v)), NULL)
             : allocation;
}

/* Is n the last reader of all that this allocation holds, in the region that made it? */
static bool ends_with(const PricingContext *w, const PricedRegion *in, int allocation,
                      const Node *n) {
  const Allocation *h = &w->price->allocation[allocation];
  return allocation >= in->first_allocation && h->region == in->graph &&
         h->until == region_position(&in->region, n->id);
}

/* Finds an operand that the result may be written over. It is on the result's IPU, has its size,
 * belongs to this region, and has no later reader. operands: the allocations of n's operands on
 * that IPU. */
static int reusable(PricingContext *w, PricedRegion *in, const Node *n, int output, int ipu,
                    const int *operands) {
  if (output != 0 || !operands) return -1;
  for (int k = 0; k < n->in_count && k < 8; k++) {
    if (!(n->op->traits & IN_PLACE(k))) continue;
    Value *root = value_root(n->in[k]);
    int allocation = operands[k];
    if (!node_is_made(root->node) || root->node->out_count > 1 || allocation < in->first_allocation)
      continue;
    Allocation *h = &w->price->allocation[allocation];
    if (h->category != BYTES_VALUE || h->ipu != ipu || h->offloaded ||
        h->bytes != (double)type_bytes(&n->out[output].type))
      continue;
    if (!ends_with(w, in, h->alias >= 0 ? h->alias : allocation, n)) continue;
    h->alias = -1; /* a copy is one no longer */
    h->variable = NULL;
    return allocation;
  }
  return -1;
}

/* A value that is made on one IPU and kept on another crosses the links. The first IPU holds it,
 * too, until it is written again. */
static void send_result(PricingContext *w, PricedRegion *in, const Node *n, int allocation, int ipu,
                        int step) {
  Allocation kept = w->price->allocation[allocation];
  int made = walk_add_allocation(w, BYTES_VALUE, n, kept.bytes, ipu);
  PricedStep *r = made >= 0 ? add_move(w, n, ipu, kept.ipu) : NULL;
  if (!r) return;
  r->bytes = kept.bytes;
  r->ready = step;
  r->arrived = allocation;
  Allocation *h = &w->price->allocation[made];
  h->alias = allocation, h->version = kept.version, h->region = running_region(in), h->until = -1;
  walk_touch(w, made, step);
  walk_touch(w, made, w->price->step_count - 1);
  walk_touch(w, allocation, w->price->step_count - 1);
}

static void allocate_outputs(PricingContext *w, PricedRegion *in, const Node *n, int ipu, int step,
                             const int *operands) {
  for (int i = 0; i < n->out_count; i++) {
    int allocation = *walk_slot_of(in, &n->out[i]);
    if (allocation < 0) allocation = reusable(w, in, n, i, ipu, operands);
    if (allocation >= 0 && w->price->allocation[allocation].category == BYTES_VARIABLE)
      w->price->allocation[allocation].writes = w->times;
    walk_written(w, allocation);
    if (allocation < 0)
      allocation = walk_add_allocation(w, BYTES_VALUE, n, (double)type_bytes(&n->out[i].type), ipu);
    walk_set_slot(w, in, &n->out[i], allocation);
    walk_touch(w, allocation, step);
    if (allocation >= 0 && w->price->allocation[allocation].ipu != ipu &&
        !w->price->allocation[allocation].offloaded)
      send_result(w, in, n, allocation, ipu, step);
  }
}

/* ---- ops ---- */

bool walk_is_free(const Node *n) { return (n->op->traits & VIEW) || node_is_broadcast(n); }

static void note_price(PricingContext *w, const Node *n, const Cost *c) {
  Price *p = w->price;
  p->op_count++;
  if (!node_has_price(n)) p->unpriced++;
  if (c->fits || p->why) return;
  p->why = c->why;
  p->why_node = n;
}

/* ---- layouts ---- */

static bool is_made_by_layer(const Value *v) {
  enum { BEHIND = 4 }; /* a bias, an activation, or the elementwise part of a normalisation */
  const Node *n = value_root((Value *)(uintptr_t)v)->node;
  for (int i = 0; i < BEHIND && (n->op->traits & ELEMENTWISE) && n->in_count; i++)
    n = value_root(n->in[0])->node;
  return n->op->layout == LAYOUT_CHOSEN;
}

static bool is_read_by_layers(const Region *r, const Node *n) {
  int from = r->reader_begin[n->id], to = r->reader_begin[n->id + 1];
  for (int i = from; i < to; i++)
    if (r->reader[i] >= r->graph->node_count ||
        r->graph->node[r->reader[i]]->op->layout != LAYOUT_CHOSEN)
      return false;
  return to > from;
}

/* Channels first or last: on an IPU the order of axes is a view. Convolutions choose the layouts of
 * their operands and results. So before and after them nothing is moved. */
static bool is_layout_only(const PricedRegion *in, const Node *n) {
  if (n->op->layout != LAYOUT_ORDER) return false;
  return is_read_by_layers(&in->region, n) || is_made_by_layer(n->in[0]);
}

static void walk_layout(PricingContext *w, PricedRegion *in, Node *n, int allocation) {
  static const Cost nothing = {.fits = true};
  note_price(w, n, &nothing);
  walk_set_slot(w, in, &n->out[0], allocation);
}

void walk_op(PricingContext *w, PricedRegion *in, Node *n) {
  const Home none = {.shard = -1, .stage = -1};
  const Home *home = n->out_count ? home_of(in->homes, &n->out[0]) : &none;
  int ipu = walk_ipu_of(w, home), at_ipu = ipu;
  if (n->place.device == DEVICE_HOST) ipu = ON_HOST;
  w->stage = home->stage;
  w->backward = n->place.backward || home->backward;
  int operands[MAX_INPUTS * 8], count = n->in_count < MAX_INPUTS * 8 ? n->in_count : MAX_INPUTS * 8;
  for (int i = 0; i < count; i++) operands[i] = walk_local(w, in, n->in[i], ipu, n);
  if (is_layout_only(in, n) && operands[0] >= 0 && *walk_slot_of(in, &n->out[0]) < 0) {
    walk_layout(w, in, n, operands[0]);
    return;
  }
  const Cost *c = cost_of_node(&w->costs, n);
  if (!c) {
    w->failed = true;
    return;
  }
  /* for replicas the operand is moved */
  bool collective = n->op->collective && n->in_count;
  PricedStep *r = walk_add_step(w, collective ? PRICED_COLLECTIVE : PRICED_OP, n, at_ipu);
  if (!r) return;
  r->stage = home->stage;
  r->backward = w->backward;
  if (collective) r->bytes = (double)type_bytes(&n->in[0]->type), r->moved = operands[0];
  else r->cost = c;
  note_price(w, n, c);
  int at = w->price->step_count - 1;
  for (int i = 0; i < count; i++) walk_touch(w, operands[i], at);
  allocate_outputs(w, in, n, ipu, at, operands);
}

/* Is there an earlier transfer of the same pass in the block? */
static bool follows_another(const Price *p, const PricedStep *r) {
  for (int i = p->step_count - 2; i > r->parent; i--) {
    const PricedStep *x = &p->step[i];
    if (x->kind == PRICED_STREAMING && x->parent == r->parent && x->ipu == r->ipu &&
        x->stage == r->stage && x->backward == r->backward)
      return true;
  }
  return false;
}

/* Between streaming memory and tiles. A value in streaming memory takes no tile memory. */
void walk_transfer(PricingContext *w, PricedRegion *in, Node *n) {
  bool loads = node_is_load(n);
  const Home *home = home_of(in->homes, &n->out[0]);
  int from = *walk_slot_of(in, value_root(n->in[0])), ipu = walk_ipu_of(w, home);
  if (!loads) from = walk_local(w, in, n->in[0], ipu, n);
  PricedStep *r = walk_add_step(w, PRICED_STREAMING, n, ipu);
  if (!r) return;
  r->stage = home->stage;
  r->backward = n->place.backward || home->backward;
  r->bytes = (double)type_bytes(loads ? &n->out[0].type : &n->in[0]->type);
  r->follows = follows_another(w->price, r);
  int at = w->price->step_count - 1, allocation = *walk_slot_of(in, &n->out[0]);
  walk_touch(w, from, at);
  if (allocation < 0 && !loads && node_moves_slot(n))
    allocation = *walk_slot_of(in, value_root(n->in[1]));
  walk_written(w, allocation);
  if (allocation < 0) allocation = walk_add_allocation(w, BYTES_VALUE, n, r->bytes, ipu);
  walk_set_slot(w, in, &n->out[0], allocation);
  int there = loads ? from : allocation;
  walk_touch(w, allocation, at);
  if (there < 0 || allocation < 0) return;
  Allocation *h = &w->price->allocation[there];
  h->offloaded = true;
  if (!node_moves_slot(n)) h->bytes = r->bytes; /* a replica's share */
  if (!loads) h->writes = w->times;
}

/* The operand of a broadcast is enough: nothing is expanded. */
void walk_broadcast(PricingContext *w, PricedRegion *in, Node *n) {
  Value *root = value_root(n->in[0]);
  int ipu = w->price->allocation_count ? walk_ipu_of(w, home_of(in->homes, &n->out[0])) : 0;
  int allocation = walk_local(w, in, root, n->place.device == DEVICE_HOST ? ON_HOST : ipu, n);
  if (*walk_slot_of(in, &n->out[0]) < 0) walk_set_slot(w, in, &n->out[0], allocation);
}

/* Is one of the steps just before, so many, of the same element and IPU? */
static bool brings_another(const PricedStep *r, int before) {
  for (int i = 1; i <= before; i++)
    if (r[-i].node == r->node && r[-i].ipu == r->ipu) return true;
  return false;
}

/* Each component of an infeed's element is copied to the IPU that reads it. */
void walk_dequeue(PricingContext *w, PricedRegion *in, Node *n) {
  for (int i = 0; i < n->out_count; i++) {
    const Home *home = home_of(in->homes, &n->out[i]);
    for (int k = in->region.reader_begin[n->id]; k < in->region.reader_begin[n->id + 1]; k++) {
      int reader = in->region.reader[k];
      if (reader >= in->graph->node_count) continue;
      Node *m = in->graph->node[reader];
      for (int o = 0; o < m->in_count; o++)
        if (value_root(m->in[o]) == &n->out[i] && m->out_count &&
            home_of(in->homes, &m->out[0])->known) {
          home = home_of(in->homes, &m->out[0]);
          k = in->region.reader_begin[n->id + 1];
          break;
        }
    }
    double bytes = (double)type_bytes(&n->out[i].type);
    int ipu = walk_ipu_of(w, home);
    PricedStep *r = walk_add_step(w, PRICED_HOST_IN, n, ipu);
    if (!r) return;
    r->bytes = w->price->machine.synthetic_infeed ? 0 : bytes;
    r->stage = home->stage;
    r->follows = brings_another(r, i);
    int allocation = walk_add_allocation(w, BYTES_VALUE, n, bytes, ipu);
    walk_set_slot(w, in, &n->out[i], allocation);
    walk_touch(w, allocation, w->price->step_count - 1);
  }
  if (n->out_count && n->out[0].type.rank && !w->price->batch)
    w->price->batch = n->out[0].type.shape[0];
}

/* Values for the host, from each IPU that holds some of them. Values that a function of the script
 * may read are moved only if it reads them. */
static void give_out(PricingContext *w, PricedRegion *in, Node *n, bool synthetic) {
  double *bytes = arena_alloc(w->price->arena, (size_t)w->price->shards * sizeof *bytes);
  bool any = false;
  if (!bytes) {
    w->failed = true;
    return;
  }
  for (int i = 0; i < node_shown(n); i++) {
    int allocation = walk_operand_allocation(w, in, n->in[i]);
    if (walk_is_on_host(w, allocation)) continue;
    int ipu = allocation >= 0 && w->price->allocation[allocation].ipu < w->price->shards
                  ? w->price->allocation[allocation].ipu
                  : 0;
    bytes[ipu] += (double)type_bytes(&n->in[i]->type);
  }
  for (int ipu = 0; ipu < w->price->shards; ipu++) {
    bool last = ipu == w->price->shards - 1 && !any; /* of nothing there is a step, too */
    if (!(bytes[ipu] > 0) && !last) continue;
    PricedStep *r = walk_add_step(w, PRICED_HOST_OUT, n, bytes[ipu] > 0 ? ipu : 0);
    if (!r) return;
    any = true;
    r->bytes = synthetic ? 0 : bytes[ipu];
    r->stage = w->stage;
  }
  for (int i = 0; i < n->in_count; i++)
    walk_touch(w, walk_operand_allocation(w, in, n->in[i]), w->price->step_count - 1);
}

void walk_enqueue(PricingContext *w, PricedRegion *in, Node *n) {
  w->stage = n->place.stage;
  give_out(w, in, n, w->price->machine.synthetic_outfeed);
}

/* A function on the host, in the middle of the program: operands go out, results come in, where
 * the function's scope is. */
void walk_host(PricingContext *w, PricedRegion *in, Node *n) {
  const Home none = {.shard = -1, .stage = -1},
             *home = n->out_count ? home_of(in->homes, &n->out[0]) : &none;
  double bytes = 0;
  int ipu = walk_ipu_of(w, home);
  w->stage = home->stage;
  for (int i = 0; i < n->out_count; i++) bytes += (double)type_bytes(&n->out[i].type);
  give_out(w, in, n, false);
  PricedStep *r = walk_add_step(w, PRICED_HOST_IN, n, ipu);
  if (r) r->bytes = bytes, r->stage = home->stage;
  allocate_outputs(w, in, n, ipu, w->price->step_count - 1, NULL);
}
