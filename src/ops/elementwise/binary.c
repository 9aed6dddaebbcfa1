/* Elementwise ops of two and three operands. Shapes broadcast; a gradient is summed back to its
 * operand's shape. */
#include "ops/same.h"
#include "ops/support.h"

static Value *number(Graph *g, const Value *x, double v) { return ops_number(g, x, v); }
static Value *mul(Graph *g, Value *a, Value *b) { return ops_mul(g, a, b); }

/* ---- infer ---- */

static Status infer_numbers(Error *e, Node *n) {
  Status s = infer_broadcast(e, n);
  if (s == OK && n->in[0]->type.dtype == BOOL)
    return fail(e, ERR_TYPE, "operands must be numbers, got bool");
  return s;
}

/* Two integers give float32. */
static Status infer_division(Error *e, Node *n) {
  Status s = infer_numbers(e, n);
  if (s == OK && dtype_is_integer(n->in[0]->type.dtype)) n->out[0].type.dtype = F32;
  return s;
}

static Status infer_order(Error *e, Node *n) {
  Status s = infer_numbers(e, n);
  n->out[0].type.dtype = BOOL;
  return s;
}

static Status infer_logic(Error *e, Node *n) {
  Status s = infer_broadcast(e, n);
  if (s == OK && n->in[0]->type.dtype != BOOL)
    return fail(e, ERR_TYPE, "operands must be bool, got %s", dtype_name(n->in[0]->type.dtype));
  return s;
}

/* ---- gradients ---- */

static bool constant_of(const Value *v, double *out) {
  if (!v || !node_is_constant(v->node) || type_count(&v->type) != 1) return false;
  *out = tensor_get(v->node->attr[0].tensor, 0);
  return true;
}

/* b a^(b-1), and 0 where b is 0, whatever a is. */
static Value *power_slope(Graph *g, Value *a, Value *b) {
  double v;
  if (constant_of(b, &v)) {
    if (v == 0 || v == 1) return number(g, a, v == 1);
    if (v == 2) return ops_add(g, a, a);
    return mul(g, b, op2(g, "pow", a, number(g, a, v - 1)));
  }
  Value *zero = number(g, b, 0),
        *slope = mul(g, b, op2(g, "pow", a, ops_sub(g, b, number(g, b, 1))));
  return ops_where(g, op2(g, "equal", b, zero), zero, slope);
}

/* log a, or 0 where a isn't positive: the slope of a^b along b. */
static Value *safe_log(Graph *g, Value *a) {
  Value *positive = op2(g, "greater", a, number(g, a, 0));
  return op1(g, "log", ops_where(g, positive, a, number(g, a, 1)));
}

static Value *pick(Graph *g, const char *test, Value *a, Value *b, Value *yes, Value *no) {
  return ops_where(g, op2(g, test, a, b), yes ? yes : number(g, no, 0),
                   no ? no : number(g, yes, 0));
}

/* x / (a^2 + b^2) */
static Value *over_squares(Graph *g, Value *x, Value *a, Value *b) {
  return ops_div(g, x, ops_add(g, op1(g, "square", a), op1(g, "square", b)));
}

/* Cycles of a worker, by row. */
/* clang-format off */
#define CYCLES_add VECTOR_ADD
#define CYCLES_sub VECTOR_SUB
#define CYCLES_mul VECTOR_MUL
#define CYCLES_div VECTOR_DIV
#define CYCLES_pow {312, 1, 325, 1, VECTOR_INTEGER_DIVISION}
#define CYCLES_maximum VECTOR_EXTREME
#define CYCLES_minimum VECTOR_EXTREME
#define CYCLES_mod {133, 2, 300, 4, VECTOR_INTEGER_DIVISION}
#define CYCLES_floordiv {145, 2, 330, 4, VECTOR_INTEGER_DIVISION}
#define CYCLES_squared_difference FUSED(3 + 2 - 2, 3 + 2 - 2) /* sub, square */
#define CYCLES_atan2 {272, 2, 578, 4, 0}
#define CYCLES_equal VECTOR_COMPARE
#define CYCLES_not_equal {20, 4, 11, 4, 0}
#define CYCLES_less VECTOR_COMPARE
#define CYCLES_less_equal VECTOR_COMPARE
#define CYCLES_greater VECTOR_COMPARE
#define CYCLES_greater_equal VECTOR_COMPARE
#define CYCLES_logical_and VECTOR_LOGIC
#define CYCLES_logical_or VECTOR_LOGIC
#define CYCLES_logical_xor VECTOR_LOGIC
/* clang-format on */

/* Row, kernel, traits, operands, gradients by a and by b (in terms of a, b, y, dy), samples,
 * text. */
/* clang-format off */
#define BINARY(X)                                                                                            \
  X(add, ADD, COMMUTATIVE, numbers, dy, dy, PAIRS, "a + b.")                                                 \
  X(sub, SUB, 0, numbers, dy, ops_neg(g, dy), PAIRS, "a - b.")                                               \
  X(mul, MUL, COMMUTATIVE, numbers, mul(g, dy, b), mul(g, dy, a), PAIRS, "a b.")                             \
  X(div, DIV, 0, division, ops_div(g, dy, b), ops_neg(g, ops_div(g, mul(g, dy, y), b)),                      \
    "F[2,3] P[2,3] | F[5,1,3] P[2,1] | F[] P[4] | I9[4] I9[4]", "a / b; two integers give float32.")         \
  X(pow, POW, 0, numbers, mul(g, dy, power_slope(g, a, b)), mul(g, mul(g, dy, y), safe_log(g, a)),           \
    "P[2,3] F[2,3] | P[5,1] F[3] | I4[3] I3[3]",                                                             \
    "a to the power b; of integers a negative power is rounded towards 0.")                                  \
  X(maximum, MAXIMUM, COMMUTATIVE, numbers, pick(g, "greater_equal", a, b, dy, NULL),                        \
    pick(g, "greater_equal", a, b, NULL, dy), PAIRS, "The greater of a and b; the gradient of equals goes to a.") \
  X(minimum, MINIMUM, COMMUTATIVE, numbers, pick(g, "less_equal", a, b, dy, NULL),                           \
    pick(g, "less_equal", a, b, NULL, dy), PAIRS, "The smaller of a and b; the gradient of equals goes to a.") \
  X(mod, MOD, 0, numbers, dy, ops_neg(g, mul(g, dy, op2(g, "floordiv", a, b))),                              \
    "F[2,3] P[3] | I9[4] I5[4]", "a - b floor(a / b), with b's sign; for integers 0 where b is 0.")          \
  X(floordiv, FLOORDIV, 0, numbers, ops_zeros_of(g, y), ops_zeros_of(g, y), "F[2,3] P[3] | I9[4] I5[4]",     \
    "floor(a / b); for integers 0 where b is 0.")                                                            \
  X(squared_difference, SQUARED_DIFFERENCE, COMMUTATIVE, numbers, ops_scale(g, mul(g, dy, ops_sub(g, a, b)), 2), \
    ops_scale(g, mul(g, dy, ops_sub(g, b, a)), 2), PAIRS, "(a - b)^2.")                                      \
  X(atan2, ATAN2, 0, float_pair, mul(g, dy, over_squares(g, b, a, b)),                                       \
    ops_neg(g, mul(g, dy, over_squares(g, a, a, b))), "F[2,3] F[2,3] | F[3,1] P[4]",                         \
    "The angle of the point (b, a), in [-pi, pi] radians.")
/* clang-format on */
#define PAIRS \
  "F[2,3] F[2,3] | F[5,1,3] F[2,1] | F[] F[4] | F[3,0] F[1] | F[200,300] F[300] | I9[3,1] I9[4]"

/* clang-format off */
#define COMPARE(X)                                                                                           \
  X(equal, EQUAL, COMMUTATIVE, compare, "I3[8] I3[8] | F[2,3] F[3] | B[4] B[4]", "a = b.")                   \
  X(not_equal, NOT_EQUAL, COMMUTATIVE, compare, "I3[8] I3[8] | F[2,3] F[3] | B[4] B[4]", "a ≠ b.")           \
  X(less, LESS, 0, order, "F[2,3] F[3] | I3[8] I3[8] | F[0] F[1]", "a < b.")                                 \
  X(less_equal, LESS_EQUAL, 0, order, "F[2,3] F[3] | I3[8] I3[8]", "a ≤ b.")                                 \
  X(greater, GREATER, 0, order, "F[3,1] F[1,5] | I3[8] I3[8]", "a > b.")                                     \
  X(greater_equal, GREATER_EQUAL, 0, order, "F[] F[3] | I3[8] I3[8]", "a ≥ b.")                              \
  X(logical_and, LOGICAL_AND, COMMUTATIVE, logic, "B[2,3] B[3] | B[] B[]", "Whether both hold.")             \
  X(logical_or, LOGICAL_OR, COMMUTATIVE, logic, "B[2,3] B[3]", "Whether any of the two holds.")              \
  X(logical_xor, LOGICAL_XOR, COMMUTATIVE, logic, "B[2,3] B[3]", "Whether exactly one holds.")
/* clang-format on */

#define STRIP(id, kernel_id)                                                \
  static void strip_##id(const Node *n, Elementwise *kernel, double p[4]) { \
    (void)n, (void)p;                                                       \
    *kernel = EW_##kernel_id;                                               \
  }
#define ROW(id, kernel_id, also, takes, by_a, by_b, samples, text)                \
  STRIP(id, kernel_id)                                                            \
  static void grad_##id(Graph *g, const Node *n, Value *const *dys, Value **dx) { \
    Value *a = n->in[0], *b = n->in[1], *y = &n->out[0], *dy = dys[0];            \
    (void)a, (void)b, (void)y, (void)dy;                                          \
    dx[0] = ops_sum_to(g, by_a, &a->type);                                        \
    dx[1] = ops_sum_to(g, by_b, &b->type);                                        \
  }
BINARY(ROW)
#undef ROW
#define ROW(id, kernel_id, also, takes, samples, text) STRIP(id, kernel_id)
COMPARE(ROW)
#undef ROW

/* ---- where ---- */

STRIP(where, WHERE)

static Status infer_where(Error *e, Node *n) {
  const Type *c = &n->in[0]->type, *a = &n->in[1]->type, *b = &n->in[2]->type;
  char tc[TYPE_TEXT], ta[TYPE_TEXT], tb[TYPE_TEXT];
  if (c->dtype != BOOL)
    return fail(e, ERR_TYPE, "the condition must be bool, got %s", dtype_name(c->dtype));
  if (a->dtype != b->dtype)
    return fail(e, ERR_TYPE, "dtypes %s and %s differ; ipu.cast one of them", type_text(a, ta),
                type_text(b, tb));
  Type both;
  if (!type_broadcast(a, b, &both) || !type_broadcast(&both, c, &n->out[0].type))
    return fail(e, ERR_INVALID_ARGUMENT, "shapes %s, %s and %s don't broadcast", shape_text(c, tc),
                shape_text(a, ta), shape_text(b, tb));
  return OK;
}

static void grad_where(Graph *g, const Node *n, Value *const *dys, Value **dx) {
  Value *c = n->in[0], *dy = dys[0], *zero = number(g, dy, 0);
  dx[1] = ops_sum_to(g, ops_where(g, c, dy, zero), &n->in[1]->type);
  dx[2] = ops_sum_to(g, ops_where(g, c, zero, dy), &n->in[2]->type);
}

const OpDef ops_binary[] = {
#define ROW(id, kernel_id, also, takes, by_a, by_b, samples, text) \
  {.name = #id,                                                    \
   .summary = text,                                                \
   .shapes = "a, b → broadcast",                                   \
   .inputs = {"a", "b"},                                           \
   .traits = ELEMENTWISE | (also) | IN_PLACE(0) | IN_PLACE(1),     \
   .infer = infer_##takes,                                         \
   .simplify = simplify_binary,                                    \
   .strip = strip_##id,                                            \
   .grad = grad_##id,                                              \
   .cost = cost_of_elementwise,                                    \
   .cycles = CYCLES_##id,                                          \
   .sample = samples},
    BINARY(ROW)
#undef ROW
#define ROW(id, kernel_id, also, takes, samples, text) \
  {.name = #id,                                        \
   .summary = text,                                    \
   .shapes = "a, b → broadcast, bool",                 \
   .inputs = {"a", "b"},                               \
   .traits = ELEMENTWISE | NO_GRADIENT | (also),       \
   .infer = infer_##takes,                             \
   .strip = strip_##id,                                \
   .cost = cost_of_elementwise,                        \
   .cycles = CYCLES_##id,                              \
   .sample = samples},
        COMPARE(ROW)
#undef ROW
            {.name = "where",
             .summary =
                 "a where the condition holds, else b. The condition alone: where it is true, as nonzero.",
             .shapes = "condition, a, b → broadcast",
             .inputs = {"condition", "a", "b"},
             .traits = ELEMENTWISE | SELECTS | IN_PLACE(1) | IN_PLACE(2),
             .infer = infer_where,
             .strip = strip_where,
             .grad = grad_where,
             .cost = cost_of_elementwise,
             .cycles = VECTOR_SELECT,
             .sample =
                 "B[2,3] F[2,3] F[2,3] | B[5,1] F[3] F[5,3] | B[] F[4] F[] | B[4] I5[4] I5[4] | B[4] "
                 "B[4] B[4]"},
    {0}};
