/* Scaled dot-product attention, [batch, time, heads, width]: its rows, shapes and gradients.
 *
 * Causal: query i sees keys 0 … i, and the work for later keys is not done. A query without any key
 * attends to all keys evenly, as with large negative scores everywhere. It gives no gradient to
 * scores. */
#include "ops/linear/attention.h"

#include "target/cost.h"

static Status infer(Error *e, Node *n) {
  Attention a;
  Status s = nn_want_float(e, n, 0, 3);
  if (s == OK) s = attention_of(e, n, Q, &a);
  if (s != OK) return s;
  n->out[0].type =
      type_make(n->in[Q]->type.dtype, 4, (int64_t[]){a.batch, a.queries, a.heads, a.value_width});
  return OK;
}

static Status infer_grad(Error *e, Node *n) {
  Attention a;
  Status s = nn_want_float(e, n, 0, 4);
  if (s == OK) s = attention_of(e, n, G_Q, &a);
  if (s != OK) return s;
  Type y = type_make(F32, 4, (int64_t[]){a.batch, a.queries, a.heads, a.value_width});
  if (!shape_equal(&y, &n->in[G_DY]->type))
    return fail(e, ERR_INVALID_ARGUMENT, "dy must have the shape of the result");
  for (int i = 0; i < 3; i++) n->out[i].type = n->in[G_Q + i]->type;
  return OK;
}

static size_t scratch(const Node *n) {
  Error ignored = {0};
  Attention a;
  bool backward = n->op->traits & INTERNAL;
  attention_of(&ignored, n, backward ? G_Q : Q, &a);
  return wide_scratch(n, attention_slot_bytes(&a, backward) * NN_SLOTS);
}

static void grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *in[MAX_INPUTS] = {dy[0], n->in[Q], n->in[K], n->in[V],
                           n->in_count > MASK ? n->in[MASK] : NULL};
  Node *back = graph_node(g, op_find("nn.attention_grad"), in, n->in_count + 1,
                          (Attr[MAX_ATTRS]){n->attr[CAUSAL], n->attr[SCALE]});
  for (int i = 0; back && i < 3; i++) dx[i] = &back->out[i];
}

/* ---- the gradient of other ops ---- */

/* [batch, time, heads, width] as [batch, heads, time, width], and back. */
static Value *swapped(Graph *g, Value *v) { return ops_transpose(g, v, (int64_t[]){0, 2, 1, 3}); }

/* [queries, keys]: whether a query comes no earlier than the key. */
static Value *causal_mask(Graph *g, const Attention *a) {
  Tensor *t =
      tensor_new(&g->error, &(Type){.dtype = BOOL, .rank = 2, .shape = {a->queries, a->keys}});
  for (int64_t i = 0; t && i < a->queries * a->keys; i++)
    ((uint8_t *)t->data)[i] = i / a->keys >= i % a->keys;
  Value *v = t ? graph_constant(g, t) : NULL;
  tensor_release(t);
  return v;
}

/* Scores that may not be seen become as low as a number can be; their slopes are zero. */
static Value *visible(Graph *g, const Node *n, const Attention *a, Value *scores, bool slopes) {
  double low = slopes ? 0 : scores && scores->type.dtype == F16 ? -6e4 : -1e30;
  if (!scores || (!a->causal && n->in_count <= G_MASK)) return scores;
  Value *hidden = ops_number(g, scores, low);
  if (n->in_count > G_MASK) scores = ops_where(g, n->in[G_MASK], scores, hidden);
  return a->causal ? ops_where(g, causal_mask(g, a), scores, hidden) : scores;
}

static void compose_grad(Graph *g, const Node *n, Value **out) {
  Attention a;
  if (attention_of(&g->error, n, G_Q, &a) != OK) return;
  Value *q = swapped(g, n->in[G_Q]), *k = swapped(g, n->in[G_K]), *v = swapped(g, n->in[G_V]),
        *dy = swapped(g, n->in[G_DY]);
  Value *scores = ops_scale(g, ops_matmul(g, q, k, false, true), a.scale);
  Value *weights = op1(g, "nn.softmax", visible(g, n, &a, scores, false));
  Value *slopes = op2(g, "nn.softmax_grad", ops_matmul(g, dy, v, false, true), weights);
  slopes = ops_scale(g, visible(g, n, &a, slopes, true), a.scale);
  out[0] = swapped(g, ops_matmul(g, slopes, k, false, false));
  out[1] = swapped(g, ops_matmul(g, slopes, q, true, false));
  out[2] = swapped(g, ops_matmul(g, weights, dy, true, false));
}

static void cost(const Target *t, const Node *n, Cost *c) {
  Error ignored = {0};
  Attention a;
  bool backward = n->op->traits & INTERNAL;
  attention_of(&ignored, n, backward ? G_Q : Q, &a);
  *c = cost_attention(t, n->in[0]->type.dtype, nn_partials(n), a.batch * a.heads, a.queries, a.keys,
                      a.width, a.value_width, backward);
}

#define ATTRS                                     \
  {{.name = "is_causal",                          \
    .kind = ATTR_BOOL,                            \
    .fallback = "false",                          \
    .summary = "Query i sees keys 0 to i only."}, \
   {.name = "scale",                              \
    .kind = ATTR_FLOAT,                           \
    .fallback = "nil",                            \
    .summary = "Factor of the scores; 1 / sqrt(width) when absent."}}

const OpDef ops_attention[] = {
    {.name = "nn.dot_product_attention",
     .summary =
         "softmax(scale q k') v in each head. mask (true: attend) broadcasts to [batch, heads, "
         "queries, keys].",
     .shapes = "[n, t, h, d], [n, s, h, d], [n, s, h, e], mask → [n, t, h, e]",
     .source = "Vaswani et al., Attention is all you need, 2017",
     .inputs = {"q", "k", "v", "mask?"},
     .attrs = ATTRS,
     .infer = infer,
     .eval = attention_eval,
     .scratch = scratch,
     .cost = cost,
     .grad = grad,
     .sample =
         "F[2,3,2,4] F[2,5,2,4] F[2,5,2,3] | F[1,4,1,3] F[1,4,1,3] F[1,4,1,3] {is_causal = true} | "
         "F[1,3,2,4] F[1,3,2,4] F[1,3,2,4] B[1,1,3,3] | F[2,3,2,2] F[2,4,2,2] F[2,4,2,2] B[2,1,1,4] "
         "{scale = 0.3, is_causal = true} | "
         "F[1,2,1,2] F[1,70,1,2] F[1,70,1,40]"},
    {.name = "nn.attention_grad",
     .summary = "The gradient of attention; the scores are computed again.",
     .shapes = "dy, q, k, v, mask → dq, dk, dv",
     .inputs = {"dy", "q", "k", "v", "mask?"},
     .attrs = ATTRS,
     .traits = INTERNAL,
     .outputs = 3,
     .compose = compose_grad,
     .infer = infer_grad,
     .eval = attention_eval_grad,
     .scratch = scratch,
     .cost = cost,
     .sample =
         "F[2,3,2,3] F[2,3,2,4] F[2,5,2,4] F[2,5,2,3] | F[1,4,1,3] F[1,4,1,3] F[1,4,1,3] F[1,4,1,3] "
         "B[4,4] {is_causal = true}"},
    {0}};
