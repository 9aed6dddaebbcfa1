#include "machine/place.h"

#include "graph/control.h"
#include "program/region.h"

static Home *home_at(Homes *h, const Value *v) { return &h->home[value_number(&h->values, v)]; }

Homes *place_find(const Placer *p, const Graph *g) {
  Homes *h = p->list;
  while (h && h->graph != g) h = h->next;
  return h;
}

static Homes *make(Placer *p, const Graph *g) {
  Homes *h = arena_alloc(p->arena, sizeof *h);
  if (!h || !number_values(p->arena, g, &h->values)) return NULL;
  h->graph = g;
  h->home = arena_alloc(p->arena, (size_t)(h->values.count + 1) * sizeof *h->home);
  if (!h->home) return NULL;
  for (int i = 0; i < h->values.count; i++) h->home[i] = (Home){.shard = -1, .stage = -1};
  h->next = p->list;
  p->list = h;
  return h;
}

static bool is_given(const Node *n) { return n->place.stage >= 0 || n->place.shard >= 0; }

/* The home of the largest operand, of equal ones the newest: little is moved then. */
static Home operands_home(Homes *h, const Node *n) {
  Home best = {.shard = -1, .stage = -1};
  size_t max = 0;
  int newest = -2;
  for (int i = 0; i < n->in_count; i++) {
    const Home *at = home_at(h, n->in[i]);
    const Node *maker = value_root(n->in[i])->node;
    int age = node_is_made(maker) ? maker->id : -1;
    size_t bytes = type_bytes(&n->in[i]->type);
    bool better = !best.known || bytes > max || (bytes == max && age > newest);
    if (at->known && better) best = *at, max = bytes, newest = age;
  }
  return best;
}

static void claim(Homes *h, const Node *n, const Home *home) {
  for (int i = 0; i < n->in_count; i++) {
    Home *at = home_at(h, n->in[i]);
    if (!at->known) *at = *home;
  }
}

static void place_region(Placer *p, const Graph *g, Home *inputs, Home *outputs);

/* Regions inside n: the homes of operands are passed in, and the homes found inside come back. */
static void place_control(Placer *p, Homes *h, Node *n) {
  ControlRegions c = control_regions(n);
  Home *in = arena_alloc(p->arena, (size_t)(c.inputs + 1) * sizeof *in);
  Home *out = arena_alloc(p->arena, (size_t)(n->out_count + 1) * sizeof *out);
  if (!in || !out) {
    p->failed = true;
    return;
  }
  for (int i = 0; i < c.inputs; i++) in[i] = (Home){.shard = -1, .stage = -1};
  for (int i = c.skip; i < n->in_count; i++) in[control_input(&c, i)] = *home_at(h, n->in[i]);
  for (int round = 0; round < (c.loops ? 2 : 1); round++) {
    for (int r = c.count - 1; r >= 0; r--)
      if (region_runs(&c.region[r]))
        place_region(p, c.region[r].graph, in, region_gives(&c.region[r]) ? out : NULL);
    for (int i = 0; i < c.carried; i++)
      if (!in[c.lead + i].known) in[c.lead + i] = out[i];
  }
  for (int i = c.skip; i < n->in_count; i++) {
    Home *at = home_at(h, n->in[i]);
    if (!at->known) *at = in[control_input(&c, i)];
  }
  for (int i = 0; i < n->out_count; i++) *home_at(h, &n->out[i]) = out[i];
}

static void place_node(Placer *p, Homes *h, Node *n) {
  if (n->op->traits & CONTROL) {
    place_control(p, h, n);
    return;
  }
  if (!node_is_made(n)) return;
  Home home = {.shard = n->place.shard,
               .stage = n->place.stage,
               .backward = n->place.backward,
               .known = true};
  if (!is_given(n)) home = operands_home(h, n);
  if (!home.known) return;
  if (home.stage > p->max_stage) p->max_stage = home.stage;
  if (home.shard > p->max_shard) p->max_shard = home.shard;
  for (int i = 0; i < n->out_count; i++) *home_at(h, &n->out[i]) = home;
  claim(h, n, &home);
}

static void place_region(Placer *p, const Graph *g, Home *inputs, Home *outputs) {
  Homes *h = place_find(p, g);
  if (!h) h = make(p, g);
  if (!h) {
    p->failed = true;
    return;
  }
  for (int i = 0; i < g->input_count; i++)
    if (inputs[i].known) *home_at(h, g->input[i]) = inputs[i];
  for (int i = 0; i < g->node_count; i++) place_node(p, h, g->node[i]);
  for (int i = g->node_count - 1; i >= 0; i--) {
    const Node *n = g->node[i];
    if (n->out_count == 0 || (n->op->traits & CONTROL) || !home_at(h, &n->out[0])->known) continue;
    Home home = *home_at(h, &n->out[0]);
    claim(h, n, &home);
  }
  for (int i = 0; i < g->input_count; i++) inputs[i] = *home_at(h, g->input[i]);
  for (int i = 0; outputs && i < g->output_count; i++)
    if (home_at(h, g->output[i])->known) outputs[i] = *home_at(h, g->output[i]);
}

void place_program(Placer *p, const Graph *g) {
  Home *inputs = arena_alloc(p->arena, (size_t)(g->input_count + 1) * sizeof *inputs);
  p->max_stage = p->max_shard = -1;
  if (!inputs) {
    p->failed = true;
    return;
  }
  for (int i = 0; i < g->input_count; i++) inputs[i] = (Home){.shard = -1, .stage = -1};
  place_region(p, g, inputs, NULL);
  if (p->max_stage < 0 && p->max_shard < 0) return;
  place_region(p, g, inputs, NULL); /* homes that only later readers decided */
}
