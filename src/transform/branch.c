#include "transform/branch.h"

#include "graph/control.h"
#include "ops/ops.h"
#include "transform/autodiff.h"
#include "transform/clone.h"

/* One call or branch to differentiate: its operands stand behind `lead` others of the node. */
typedef struct Branch {
  Graph *graph;
  const Node *node;
  Value *const *dy;
  const bool *wanted; /* by operand of the node */
  int lead;
} Branch;

/* What can't be done a second time; NULL when there is nothing. */
static const Node *find_effect(const Graph *g) {
  for (int i = 0; i < g->node_count; i++) {
    const Node *n = g->node[i], *inner = NULL;
    if ((n->op->traits & STATEFUL) && !(n->op->traits & CONTROL)) return n;
    if (n->op->traits & CONTROL) inner = find_effect(control_body(n));
    if (!inner && (n->op->traits & CONTROL) && control_other(n)) inner = find_effect(control_other(n));
    if (inner) return inner;
  }
  return NULL;
}

/* Inputs of the branch, then a gradient for each output that has one → gradients of the wanted inputs. */
static Status build(const Branch *b, Graph *to, Value **work) {
  int out_count = b->node->out_count, in_count = to->input_count, y_count = 0, x_count = 0;
  Value **ys = work, **dys = ys + out_count, **xs = dys + out_count, **dx = xs + in_count;
  for (int i = 0; i < out_count; i++) {
    if (!b->dy[i]) continue;
    ys[y_count] = to->output[i];
    dys[y_count++] = graph_input(to, &b->dy[i]->type, "gradient");
  }
  for (int i = 0; i < in_count; i++)
    if (b->wanted[b->lead + i]) xs[x_count++] = to->input[i];
  if (autodiff(to, ys, dys, y_count, xs, x_count, dx) != OK) return to->error.status;
  to->output_count = 0;
  for (int i = 0; i < x_count; i++) graph_output(to, dx[i] ? dx[i] : ops_zeros(to, &xs[i]->type));
  return to->error.status;
}

static Graph *differentiate(const Branch *b, const Graph *branch) {
  Error *e = &b->graph->error;
  Graph *to = graph_copy(branch), *live = NULL;
  Value **work = arena_alloc(b->graph->arena, (size_t)(2 * (b->node->out_count + branch->input_count) + 1) * sizeof *work);
  if (!to || !work) fail(e, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
  else if (build(b, to, work) != OK) *e = to->error;
  else if (!(live = graph_copy_live(to))) fail(e, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
  graph_free(to);
  const Node *effect = live ? find_effect(live) : NULL;
  if (effect)
    fail_at(e, effect->source, ERR_NOT_IMPLEMENTED,
            "gradients: a branch is computed again for its gradient, which %s inside it does not allow; do that outside",
            effect->op->name);
  if (e->status == OK) return live;
  graph_free(live);
  return NULL;
}

/* The node's operands, then the gradients that its outputs have. */
static Node *make_node(const Branch *b, Graph *body, Graph *other, int out_count) {
  const Node *n = b->node;
  Graph *g = b->graph;
  Value **in = arena_alloc(g->arena, (size_t)(n->in_count + n->out_count) * sizeof *in);
  if (!in) return NULL;
  int in_count = 0;
  for (int i = 0; i < n->in_count; i++) in[in_count++] = n->in[i];
  for (int i = 0; i < n->out_count; i++)
    if (b->dy[i]) in[in_count++] = b->dy[i];
  Attr attrs[MAX_ATTRS] = {{.kind = ATTR_GRAPH, .graph = body}, {.kind = ATTR_GRAPH, .graph = other}, attr_int(out_count),
                           attr_ints(NULL, 0)};
  Node *made = graph_node(g, n->op, in, in_count, attrs);
  if (!made || !node_outputs(g->arena, made, out_count)) return NULL;
  for (int i = 0; i < out_count; i++) made->out[i].type = body->output[i]->type;
  return made;
}

void branch_grad(Graph *g, const Node *n, Value *const *dy, const bool *wanted, Value **dx) {
  Branch b = {g, n, dy, wanted, n->op == &control_cond ? 1 : 0};
  int out_count = 0;
  for (int i = b.lead; i < n->in_count; i++) out_count += wanted[i];
  if (!out_count) return;
  Graph *body = differentiate(&b, control_body(n));
  Graph *other = body && control_other(n) ? differentiate(&b, control_other(n)) : NULL;
  graph_adopt(g, body);
  graph_adopt(g, other);
  if (g->error.status != OK) return;
  Node *made = make_node(&b, body, other, out_count);
  if (!made) {
    if (g->error.status == OK) fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
    return;
  }
  for (int i = b.lead, k = 0; i < n->in_count; i++)
    if (wanted[i]) dx[i] = &made->out[k++];
}
