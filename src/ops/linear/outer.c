/* Outer products. */
#include "ops/support.h"
#include "target/cost.h"

static Status infer_outer(Error *e, Node *n) {
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type;
  char ta[TYPE_TEXT], tb[TYPE_TEXT];
  if (a->dtype == BOOL) return fail(e, ERR_TYPE, "operands must be numbers, got bool");
  Status s = want_same_dtype(e, "b", b, a->dtype);
  if (s != OK) return s;
  if (a->rank != 1 || b->rank != 1)
    return fail(e, ERR_INVALID_ARGUMENT, "operands must be two vectors, got %s and %s",
                shape_text(a, ta), shape_text(b, tb));
  n->out[0].type = (Type){.dtype = a->dtype, .rank = 2, .shape = {a->shape[0], b->shape[0]}};
  return OK;
}

static Status body_outer(const Call *c) {
  Type column = *c->in_type[0];
  column.rank = 2, column.shape[1] = 1;
  const Type *types[] = {&column, c->in_type[1]};
  double none[4] = {0};
  if (type_count(c->out_type[0]))
    run_kernel(c, EW_MUL, 2, types, c->in, c->out_type[0], c->out[0], none);
  return OK;
}
static Status eval_outer(const Call *c) { return eval_wide(c, body_outer); }

static Value *product_of(Graph *g, Value *dy, Value *vector, bool turned) {
  if (!dy || !vector) return NULL;
  int64_t n = vector->type.shape[0];
  Type column = {.dtype = vector->type.dtype, .rank = 2, .shape = {n, 1}};
  Type flat = {.dtype = vector->type.dtype, .rank = 1, .shape = {dy->type.shape[turned ? 1 : 0]}};
  return ops_reshape(g, ops_matmul(g, dy, ops_reshape(g, vector, &column), turned, false), &flat);
}

static void grad_outer(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = product_of(g, dy[0], n->in[1], false);
  dx[1] = product_of(g, dy[0], n->in[0], true);
}

static void cost_of_outer(const Target *t, const Node *n, Cost *cost) {
  Dtype d = n->in[0]->type.dtype;
  int64_t small = max(n->in[0]->type.shape[0], n->in[1]->type.shape[0]);
  *cost = cost_broadcast(t, d, type_count(&n->out[0].type), small, VECTOR(MUL, d));
}

const OpDef ops_outer[] = {{.name = "outer",
                            .summary = "The product of each element of a with each of b.",
                            .shapes = "[n], [m] → [n, m]",
                            .inputs = {"a", "b"},
                            .infer = infer_outer,
                            .cost = cost_of_outer,
                            .eval = eval_outer,
                            .scratch = scratch_wide,
                            .grad = grad_outer,
                            .sample = "F[3] F[4] | I9[3] I9[2] | F[0] F[3] | F[1] F[1]"},
                           {0}};
