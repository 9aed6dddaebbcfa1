#include "program/recompute.h"

#include <stdlib.h>

#include "ops/io/remote.h"
#include "program/passes.h"
#include "program/schedule.h"
#include "program/timetable.h"
#include "transform/clone.h"

typedef struct Recompute {
  const Graph *g;
  const PipelinePlan *plan;
  Recomputation mode;
  const int *pass;
  Graph *to;
  Arena *arena;
  /* by node: the copies of its outputs, and those made again for the backward pass */
  Value **made, **again;
} Recompute;

/* The last position's backward pass follows its forward pass at once: nothing is saved there,
 * unless the schedule says so. */
static bool stage_recomputes(const PipelinePlan *p, int stage) {
  return p->position_of[stage] < p->positions - 1 || p->schedule->recomputes_last;
}

static bool is_checkpoint(const Recompute *r, const Node *n) {
  return r->mode == RECOMPUTE_INTERLEAVED && n->op->keeps;
}

/* Is the value of n kept for the backward pass `pass`? */
static bool is_kept(const Recompute *r, const Node *n, int pass) {
  int own = r->pass[n->id];
  if (!node_is_made(n) || own >= r->plan->stages || own != plan_stage_of_pass(r->plan, pass))
    return true;
  return !stage_recomputes(r->plan, own) || (n->op->traits & (STATEFUL | CONTROL)) ||
         is_checkpoint(r, n) || node_is_store(n);
}

static Value *copy_of(Value *const *first, const Value *v) {
  return first[v->node->id] ? first[v->node->id] + v->index : NULL;
}

/* v for a node of a backward pass: as it was made, or made again. */
static Value *backward_value(Recompute *r, const Value *v, int pass) {
  const Node *n = v->node;
  if (is_kept(r, n, pass)) return copy_of(r->made, v);
  if (r->again[n->id]) return copy_of(r->again, v);
  Value **in = arena_alloc(r->arena, (size_t)(n->in_count + 1) * sizeof *in);
  for (int k = 0; in && k < n->in_count; k++)
    if (!(in[k] = backward_value(r, n->in[k], pass))) return NULL;
  Node *made = in ? clone_node(r->to, n, in) : NULL;
  if (!made) return NULL;
  made->place.stage = plan_stage_of_pass(r->plan, pass);
  made->place.backward = true;
  r->again[n->id] = made->out;
  return copy_of(r->again, v);
}

static bool copy_all(Recompute *r) {
  for (int i = 0; i < r->g->node_count; i++) {
    const Node *n = r->g->node[i];
    bool backward = node_is_made(n) && r->pass[i] >= r->plan->stages;
    Value **in = arena_alloc(r->arena, (size_t)(n->in_count + 1) * sizeof *in);
    if (!in) return false;
    for (int k = 0; k < n->in_count; k++) {
      in[k] = backward ? backward_value(r, n->in[k], r->pass[i]) : copy_of(r->made, n->in[k]);
      if (!in[k]) return false;
    }
    if (node_is_input(n)) {
      r->made[i] = graph_input(r->to, &n->out[0].type, n->name);
    } else if (node_is_constant(n)) {
      r->made[i] = graph_constant(r->to, n->attr[0].tensor);
    } else {
      Node *made = clone_node(r->to, n, in);
      if (!made) return false;
      r->made[i] = made->out;
    }
    if (r->to->error.status != OK || (!r->made[i] && n->out_count)) return false;
  }
  for (int i = 0; i < r->g->input_count; i++) r->to->input[i] = copy_of(r->made, r->g->input[i]);
  for (int i = 0; i < r->g->output_count; i++)
    graph_output(r->to, copy_of(r->made, r->g->output[i]));
  return r->to->error.status == OK;
}

Graph *recompute_forward(const Graph *g, const PipelinePlan *plan, Recomputation mode,
                         const int *pass) {
  size_t n = (size_t)g->node_count + 1;
  Recompute r = {.g = g,
                 .plan = plan,
                 .mode = mode,
                 .pass = pass,
                 .to = graph_beside(g),
                 .arena = arena_new()};
  if (r.arena) {
    r.made = arena_alloc(r.arena, n * sizeof *r.made);
    r.again = arena_alloc(r.arena, n * sizeof *r.again);
  }
  bool good = r.to && r.made && r.again && copy_all(&r);
  arena_free(r.arena);
  if (good) return r.to;
  graph_free(r.to);
  return NULL;
}
