/* Sums to which operands are added one after the other. */
#include "ops/support.h"

static void strip_accumulate(const Node *n, Elementwise *kernel, double p[4]) {
  (void)n;
  *kernel = EW_ADD;
  p[0] = 1; /* float16 sums may become infinite */
}

static void grad_accumulate(Graph *g, const Node *n, Value *const *dys, Value **dx) {
  (void)g, (void)n;
  dx[0] = dx[1] = dys[0];
}

static Status infer_accumulate(Error *e, Node *n) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  if (!type_equal(&n->in[0]->type, &n->in[1]->type))
    return fail(e, ERR_INVALID_ARGUMENT, "%s can't be added to the accumulator %s",
                type_text(&n->in[1]->type, b), type_text(&n->in[0]->type, a));
  return infer_number(e, n);
}

const OpDef ops_accumulate[] = {
    {.name = "accumulate",
     .summary = "accumulator + x of one type; where float16 overflows, infinity.",
     .shapes = "a, x → a",
     .inputs = {"accumulator", "x"},
     .traits = ELEMENTWISE | INTERNAL | IN_PLACE(0) | IN_PLACE(1),
     .infer = infer_accumulate,
     .strip = strip_accumulate,
     .grad = grad_accumulate,
     .cost = cost_of_elementwise,
     .cycles = VECTOR_ADD,
     .sample = "F[2,3] F[2,3] | I9[4] I9[4] | F[] F[]"},
    {0}};
