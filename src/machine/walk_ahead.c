/* Values that a loop reads and doesn't change cross the links once, before it: their readers
 * inside, and where these are. */
#include "machine/walk_ahead.h"

#include "graph/control.h"
#include "machine/place.h"
#include "machine/walk.h"
#include "machine/walk_ops.h"
#include "program/region.h"

/* Of a region's inputs: reads[input * shards + ipu], is it read there? */
typedef struct Readers {
  PricingContext *walk;
  Arena *scratch;
  bool failed;
} Readers;

static bool *find_readers(Readers *s, const Graph *g);

/* Nodes in the regions read the values of n's operands. A value that a loop changes has been copied
 * first. */
static void find_inside(Readers *s, const Node *n, const int *input_of, bool *reads) {
  int shards = s->walk->price->shards;
  ControlRegions c = control_regions(n);
  for (int r = 0; r < c.count && !s->failed; r++) {
    const bool *inner = region_runs(&c.region[r]) ? find_readers(s, c.region[r].graph) : NULL;
    for (int i = c.skip + c.carried; inner && i < n->in_count; i++) {
      int input = input_of[value_root(n->in[i])->node->id];
      if (input < 0) continue;
      for (int ipu = 0; ipu < shards; ipu++)
        reads[input * shards + ipu] |= inner[control_input(&c, i) * shards + ipu];
    }
  }
}

static bool *find_readers(Readers *s, const Graph *g) {
  int shards = s->walk->price->shards;
  const Homes *homes = place_find(&s->walk->placer, g);
  bool *reads = arena_alloc(s->scratch, (size_t)(g->input_count * shards + 1) * sizeof *reads);
  int *input_of = arena_alloc(s->scratch, (size_t)(g->next_id + 1) * sizeof *input_of);
  s->failed = s->failed || !reads || !input_of || !homes;
  if (s->failed) return NULL;
  for (int i = 0; i < g->next_id; i++) input_of[i] = -1;
  for (int i = 0; i < g->input_count; i++) input_of[g->input[i]->node->id] = i;
  for (int i = 0; i < g->node_count; i++) {
    const Node *n = g->node[i];
    if (n->op->traits & CONTROL) {
      find_inside(s, n, input_of, reads);
      continue;
    }
    if (!n->out_count || (n->op->traits & VIEW)) continue;
    int ipu = walk_ipu_of(s->walk, home_of(homes, &n->out[0]));
    for (int k = 0; k < n->in_count; k++) {
      int input = input_of[value_root(n->in[k])->node->id];
      if (input >= 0 && ipu < shards) reads[input * shards + ipu] = true;
    }
  }
  return reads;
}

void walk_send_ahead(PricingContext *w, PricedRegion *in, Node *n, const bool *changes) {
  int shards = w->price->shards;
  ControlRegions c = control_regions(n);
  Readers s = {.walk = w, .scratch = shards > 1 ? arena_new() : NULL};
  for (int r = 0; r < c.count && s.scratch; r++) {
    const bool *reads = find_readers(&s, c.region[r].graph);
    for (int i = 1; reads && i < n->in_count; i++) {
      if (changes[i] || walk_operand_allocation(w, in, n->in[i]) < 0) continue;
      for (int ipu = 0; ipu < shards; ipu++)
        if (reads[control_input(&c, i) * shards + ipu]) walk_local(w, in, n->in[i], ipu, n);
    }
  }
  w->failed = w->failed || s.failed || (shards > 1 && !s.scratch);
  arena_free(s.scratch);
}
