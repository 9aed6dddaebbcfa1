/* Between dtypes. Float to integer truncates towards zero and saturates; anything to bool is x ≠
 * 0. */
#include "ops/same.h"
#include "ops/support.h"

static Status infer(Error *e, Node *n) {
  infer_same(e, n);
  n->out[0].type.dtype = (Dtype)n->attr[0].i;
  return OK;
}

/* A chain's own step between dtypes. */
static void strip(const Node *n, Elementwise *kernel, double p[4]) {
  (void)n, (void)p;
  *kernel = ELEMENTWISE_COUNT;
}

static void grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Dtype d = n->in[0]->type.dtype;
  dx[0] = dtype_is_float(d) && dtype_is_float(n->out[0].type.dtype) ? ops_cast(g, dy[0], d) : NULL;
}

const OpDef ops_convert[] = {
    {.name = "cast",
     .summary =
         "x as another dtype; to int32 and int64 it truncates towards zero and saturates (NaN: the smallest); int8 and "
         "uint8 are the low bits of that int32.",
     .shapes = "any",
     .inputs = {"x"},
     .attrs = {{"dtype", ATTR_DTYPE, NULL, NULL, "of the result"}},
     .traits = ELEMENTWISE,
     .infer = infer,
     .simplify = simplify_cast,
     .strip = strip,
     .grad = grad,
     .cost = cost_of_cast,
     .cycles = VECTOR_MOVE,
     .sample =
         "F[2,3] {dtype = 'float64'} | F[4] {dtype = 'int32'} | I9[4] {dtype = 'float32'} | B[3] "
         "{dtype = 'float32'} | "
         "F[] {dtype = 'bool'} | I9[0] {dtype = 'int8'}"},
    {0}};
