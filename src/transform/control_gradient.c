/* Branches and calls: a node of the same kind whose regions compute their values again and
 * differentiate them. */
#include "transform/control_gradient.h"

#include "graph/control.h"
#include "ops/ops.h"
#include "transform/autodiff.h"
#include "transform/clone.h"
#include "transform/loop_gradient.h"

/* The inputs that both regions of a cond share: the node's inputs after the test, then the upstream
 * gradients. */
typedef struct Branches {
  Graph *g;
  const Node *n;
  Value *const *dy;
  const bool *wanted;
  int skip; /* inputs of the node that are no inputs of its regions */
  int count;
  bool *needed; /* outputs with an upstream gradient */
} Branches;

/* region and its derivative, without outputs yet; dx [count] is filled. */
static Graph *differentiate_branch(const Branches *b, const Graph *region, Value **dx) {
  Graph *r = graph_beside(b->g);
  Arena *a = b->g->arena;
  int outputs = b->n->out_count;
  Value **in = arena_alloc(a, (size_t)(b->count + 1) * sizeof *in),
        **xs = arena_alloc(a, (size_t)(b->count + 1) * sizeof *xs);
  Value **out = arena_alloc(a, (size_t)(3 * outputs + 1) * sizeof *out);
  if (!r || !in || !xs || !out) {
    fail(&b->g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
    graph_free(r);
    return NULL;
  }
  Value **ys = out + outputs, **dys = ys + outputs;
  int y_count = 0;
  for (int i = 0; i < b->count; i++) {
    in[i] = graph_input(r, &b->n->in[b->skip + i]->type, NULL);
    xs[i] = b->wanted[b->skip + i] && in[i] && dtype_is_float(in[i]->type.dtype) ? in[i] : NULL;
  }
  graph_inline(r, region, in, b->needed, out);
  for (int i = 0; i < outputs; i++) {
    if (!b->needed[i]) continue;
    ys[y_count] = out[i];
    dys[y_count++] = graph_input(r, &b->n->out[i].type, NULL);
  }
  autodiff(r, ys, dys, y_count, xs, b->count, dx);
  return r;
}

static void give_gradients(Graph *r, const bool *found, int count, const Node *n, int skip,
                           Value *const *dx) {
  for (int i = 0; i < count; i++)
    if (found[i]) graph_output(r, dx[i] ? dx[i] : ops_zeros(r, &n->in[skip + i]->type));
}

/* op: n's own, or control_call where its body is differentiated alone. */
static void branch_gradient(Graph *g, const Node *n, const OpDef *op, Value *const *dy,
                            const bool *wanted, Value **dx) {
  Branches b = {g, n, dy, wanted, op->control->skip, 0, NULL};
  b.count = n->in_count - b.skip;
  size_t room = (size_t)(b.count + n->out_count + n->in_count + 1);
  Value **yes = arena_alloc(g->arena, room * sizeof *yes),
        **no = arena_alloc(g->arena, room * sizeof *no);
  Value **in = arena_alloc(g->arena, room * sizeof *in);
  bool *found = arena_alloc(g->arena, room);
  b.needed = arena_alloc(g->arena, room);
  if (!yes || !no || !in || !found || !b.needed) {
    fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
    return;
  }
  int in_count = 0, found_count = 0;
  for (int i = 0; i < n->in_count; i++) in[in_count++] = n->in[i];
  for (int i = 0; i < n->out_count; i++) {
    b.needed[i] = dy[i] != NULL;
    if (dy[i]) in[in_count++] = dy[i];
  }
  Graph *body = differentiate_branch(&b, control_body(n), yes);
  Graph *other = op->control->other == REGION_RESULTS && body
                     ? differentiate_branch(&b, control_other(n), no)
                     : NULL;
  for (int i = 0; i < b.count; i++) found_count += found[i] = yes[i] || no[i];
  if (body) give_gradients(body, found, b.count, n, b.skip, yes);
  if (other) give_gradients(other, found, b.count, n, b.skip, no);
  Node *made =
      control_node(g, op, in, in_count,
                   &(ControlParts){.body = body, .other = other, .explicit_count = found_count});
  for (int i = 0, k = 0; made && i < b.count; i++)
    if (found[i]) dx[b.skip + i] = &made->out[k++];
}

/* The region that the node brings along, in its place. */
static void own_gradient(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  const Graph *region = control_other(n);
  const Attr *upstream = &n->attr[CONTROL_UPSTREAM], *saved = &n->attr[CONTROL_SAVED],
             *given = &n->attr[CONTROL_GIVEN];
  Value **in = arena_alloc(g->arena, (size_t)(region->input_count + 1) * sizeof *in);
  Value **out = arena_alloc(g->arena, (size_t)(region->output_count + 1) * sizeof *out);
  if (!in || !out) {
    fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
    return;
  }
  int at = 0;
  for (int i = 0; i < upstream->ints.n; i++) {
    int64_t k = upstream->ints.v[i];
    in[at++] = dy[k] ? dy[k] : ops_zeros(g, &n->out[k].type);
  }
  for (int i = 0; i < saved->ints.n; i++) {
    int64_t k = saved->ints.v[i];
    in[at++] = k >= 0 ? n->in[k] : &n->out[-1 - k];
  }
  graph_inline_whole(g, region, in, out);
  for (int i = 0; i < given->ints.n; i++) dx[given->ints.v[i]] = out[i];
}

/* Gradients of results unknown to the region, such as values of the body and assigned variables,
 * pass through the body. */
static void custom_gradient(Graph *g, const Node *n, Value *const *dy, const bool *wanted,
                            Value **dx) {
  const Attr *upstream = &n->attr[CONTROL_UPSTREAM];
  size_t ins = (size_t)n->in_count + 1;
  Value **inner = arena_copy(g->arena, dy, (size_t)n->out_count * sizeof *inner),
        **more = arena_alloc(g->arena, ins * sizeof *more);
  bool given = false, hidden = false;
  if (!inner || !more) {
    fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
    return;
  }
  for (int i = 0; i < upstream->ints.n; i++) {
    given = given || dy[upstream->ints.v[i]];
    inner[upstream->ints.v[i]] = NULL;
  }
  for (int i = 0; i < n->out_count; i++) hidden = hidden || inner[i];
  if (given) own_gradient(g, n, dy, dx);
  if (!hidden) return;
  branch_gradient(g, n, &control_call, inner, wanted, more);
  for (int i = 0; i < n->in_count; i++)
    if (more[i]) dx[i] = dx[i] ? ops_add(g, dx[i], more[i]) : more[i];
}

void control_gradient(Graph *g, const Node *n, Value *const *dy, const bool *wanted, Value **dx) {
  if (n->op->control->loops) loop_gradient(g, n, dy, wanted, dx);
  else if (n->op->control->other == REGION_GRADIENT) custom_gradient(g, n, dy, wanted, dx);
  else branch_gradient(g, n, n->op, dy, wanted, dx);
}
