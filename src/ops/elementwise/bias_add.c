/* A bias along the last axis. */
#include "ops/support.h"

static Status infer_bias(Error *e, Node *n) {
  const Type *x = &n->in[0]->type, *bias = &n->in[1]->type;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  if (x->dtype != bias->dtype)
    return fail(e, ERR_TYPE, "dtypes %s and %s differ; ipu.cast one of them", type_text(x, a),
                type_text(bias, b));
  if (x->rank == 0 || bias->rank != 1 || bias->shape[0] != x->shape[x->rank - 1])
    return fail(e, ERR_INVALID_ARGUMENT,
                "bias %s doesn't fit x %s: it must have one element for each of the last axis",
                shape_text(bias, b), shape_text(x, a));
  n->out[0].type = *x;
  return OK;
}

static void strip_bias(const Node *n, Elementwise *kernel, double p[4]) {
  (void)n, (void)p;
  *kernel = EW_ADD;
}

static void grad_bias(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = dy[0];
  dx[1] = ops_sum_to(g, dy[0], &n->in[1]->type);
}

const OpDef ops_bias_add[] = {{.name = "nn.bias_add",
                               .summary = "x + bias, the bias along the last axis.",
                               .shapes = "[…, n], [n] → […, n]",
                               .inputs = {"x", "bias"},
                               .traits = ELEMENTWISE | IN_PLACE(0),
                               .infer = infer_bias,
                               .strip = strip_bias,
                               .cost = cost_of_elementwise,
                               .cycles = VECTOR_ADD,
                               .grad = grad_bias,
                               .sample = "F[2,3,4] F[4] | I9[2,3] I9[3]"},
                              {0}};
