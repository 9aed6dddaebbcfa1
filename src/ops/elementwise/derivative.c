/* Derivatives of elementwise ops that are one pass: dy and the op's result y or operand x → dx.
 * All are linear in dy; the second column of the table differentiates them by the other operand,
 * with u the gradient that comes in. */
#include "ops/support.h"

static Value *plus(Graph *g, Value *x, double v) { return ops_add(g, x, ops_number(g, x, v)); }
static Value *times(Graph *g, Value *a, Value *b) { return ops_mul(g, a, b); }
static Value *square(Graph *g, Value *x) { return op1(g, "square", x); }

/* The same row for another dy. */
static Value *again(Graph *g, const Node *n, Value *dy) {
  return op_with(g, n->op->name, (Value *[]){dy, n->in[1]}, 2, n->attr);
}

/* z where s > 0 is false. */
static Value *below_zero(Graph *g, Value *s, Value *z) {
  return ops_where(g, op2(g, "greater", s, ops_number(g, s, 0)), ops_number(g, z, 0), z);
}

/* -2 sign(x) / (1 + |x|)^3 */
static Value *softsign_second(Graph *g, Value *x) {
  Value *r = op1(g, "reciprocal", plus(g, op1(g, "abs", x), 1));
  return ops_scale(g, times(g, op1(g, "sign", x), times(g, square(g, r), r)), -2);
}

/* s (1 - s) (2 + x (1 - 2 s)) with s the sigmoid of x */
static Value *swish_second(Graph *g, Value *x) {
  Value *s = op1(g, "sigmoid", x);
  Value *bend = plus(g, times(g, x, plus(g, ops_scale(g, s, -2), 1)), 2);
  return op2(g, "sigmoid_grad", bend, s);
}

/* (2 - x^2) exp(-x^2 / 2) / sqrt(2 pi) */
static Value *gelu_second(Graph *g, Value *x) {
  Value *density =
      ops_scale(g, op1(g, "exp", ops_scale(g, square(g, x), -0.5)), 0.3989422804014327);
  return times(g, density, plus(g, ops_neg(g, square(g, x)), 2));
}

/* With u = c (x + a x^3), t = tanh(u): (1 - t^2) (u' + x u'' / 2 - x t u'^2). */
static Value *gelu_tanh_second(Graph *g, Value *x) {
  const double c = 0.7978845608028654, a = 0.044715;
  Value *xx = square(g, x);
  Value *t = op1(g, "tanh", ops_scale(g, times(g, x, plus(g, ops_scale(g, xx, a), 1)), c));
  Value *first = ops_scale(g, plus(g, ops_scale(g, xx, 3 * a), 1), c); /* u' */
  Value *bend = ops_scale(g, xx, 3 * a * c);                           /* x u'' / 2 */
  Value *sum = ops_sub(g, ops_add(g, first, bend), times(g, times(g, x, t), square(g, first)));
  return op2(g, "tanh_grad", sum, t);
}

/* Cycles of a worker, by row. */
/* clang-format off */
#define CYCLES_relu VECTOR_GRADIENT
#define CYCLES_relu6 FUSED(7 + 7 + 2.5 + 10 - 6, 9 + 9 + 5 + 20 - 6) /* greater, less, and, select */
#define CYCLES_leaky_relu FUSED(7 + 3 + 10 - 4, 9 + 3 + 20 - 4) /* greater, mul, select */
#define CYCLES_elu FUSED(7 + 3 + 3 + 10 - 6, 9 + 3 + 3 + 20 - 6) /* greater, add, mul, select */
#define CYCLES_selu FUSED(7 + 3 + 3 + 3 + 10 - 8, 9 + 3 + 3 + 3 + 20 - 8) /* greater, mul, add, mul, select */
#define CYCLES_sigmoid VECTOR_GRADIENT
#define CYCLES_tanh VECTOR_GRADIENT
#define CYCLES_softplus FUSED(12 + 3 - 2, 6 + 3 - 2) /* sigmoid, mul */
#define CYCLES_softsign FUSED(2 + 3 + 2 + 10 - 6, 2 + 3 + 2 + 21 - 6) /* abs, add, square, div */
#define CYCLES_swish {15, 2, 9, 4, 0}
#define CYCLES_gelu {30, 2, 15, 4, 0}
#define CYCLES_gelu_tanh {10, 2, 5, 4, 0}
#define CYCLES_hard_sigmoid FUSED(7 + 7 + 2.5 + 3 + 10 - 8, 9 + 9 + 5 + 3 + 20 - 8) /* greater, less, and, mul, select */
#define CYCLES_clip CYCLES_relu6 /* the same */
#define CYCLES_sqrt FUSED(3 + 10 - 2, 3 + 21 - 2) /* mul, div */
#define CYCLES_rsqrt FUSED(3 + 3 + 3 + 3 - 6, 3 + 3 + 3 + 3 - 6) /* four products */
#define CYCLES_reciprocal FUSED(2 + 3 + 2 - 4, 2 + 3 + 2 - 4) /* square, mul, neg */
/* clang-format on */

/* Row, kernel, attributes, the other operand, derivative by it (NULL: none), sample, formula. s
 * is the other operand, y the result. */
/* clang-format off */
#define DERIVATIVES(X)                                                                                       \
  X(relu, RELU, NONE, "y", NULL, "F[2,3] F[2,3]", "y > 0 ? dy : 0.")                                         \
  X(relu6, RELU6, NONE, "y", NULL, "F[2,3] F[2,3]", "0 < y < 6 ? dy : 0.")                                   \
  X(leaky_relu, LEAKY_RELU, SLOPE, "x", NULL, "F[2,3] F[2,3] {alpha = 0.3}", "x >= 0 ? dy : alpha dy.")      \
  X(elu, ELU, LIMIT, "y", below_zero(g, s, times(g, u, dy)), "F[2,3] F[2,3] {alpha = 0.5}",                  \
    "y > 0 ? dy : dy (y + alpha).")                                                                          \
  X(selu, SELU, NONE, "y", below_zero(g, s, times(g, u, dy)), "F[2,3] F[2,3]",                               \
    "y > 0 ? 1.0507 dy : dy (y + 1.7581).")                                                                  \
  X(sigmoid, SIGMOID, NONE, "y", times(g, times(g, u, dy), plus(g, ops_scale(g, s, -2), 1)), "F[2,3] F[2,3]",\
    "dy y (1 - y).")                                                                                         \
  X(tanh, TANH, NONE, "y", ops_scale(g, times(g, times(g, u, dy), s), -2), "F[2,3] F[2,3]", "dy (1 - y y).") \
  X(softplus, SOFTPLUS, NONE, "x", op2(g, "sigmoid_grad", times(g, u, dy), op1(g, "sigmoid", s)),            \
    "F[2,3] F[2,3]", "dy sigmoid(x).")                                                                       \
  X(softsign, SOFTSIGN, NONE, "x", times(g, times(g, u, dy), softsign_second(g, s)), "F[2,3] F[2,3]",        \
    "dy / (1 + |x|)^2.")                                                                                     \
  X(swish, SWISH, NONE, "x", times(g, times(g, u, dy), swish_second(g, s)), "F[2,3] F[2,3]",                 \
    "dy times the derivative of x sigmoid(x).")                                                              \
  X(gelu, GELU, NONE, "x", times(g, times(g, u, dy), gelu_second(g, s)), "F[2,3] F[2,3]",                    \
    "dy times the derivative of x Phi(x).")                                                                  \
  X(gelu_tanh, GELU_TANH, NONE, "x", times(g, times(g, u, dy), gelu_tanh_second(g, s)), "F[2,3] F[2,3]",     \
    "dy times the derivative of gelu's tanh form.")                                                          \
  X(hard_sigmoid, HARD_SIGMOID, NONE, "x", NULL, "F[2,3] F[2,3]", "dy / 5 where the result isn't clipped.")  \
  X(clip, CLIP, RANGE, "x", NULL, "F[2,3] F[2,3] {min = -1, max = 0.5}", "min <= x <= max ? dy : 0.")        \
  X(sqrt, SQRT, NONE, "y", ops_neg(g, ops_div(g, times(g, u, y), s)), "F[2,3] P[2,3]", "dy / (2 y).")        \
  X(rsqrt, RSQRT, NONE, "y", ops_scale(g, times(g, times(g, u, dy), square(g, s)), -1.5), "F[2,3] P[2,3]",   \
    "-dy y^3 / 2.")                                                                                          \
  X(reciprocal, RECIPROCAL, NONE, "y", ops_scale(g, times(g, times(g, u, dy), s), -2), "F[2,3] P[2,3]",      \
    "-dy y^2.")
/* clang-format on */

#define NONE {0}
#define SLOPE {"alpha", ATTR_FLOAT, "0.2", NULL, "slope below 0"}
#define LIMIT {"alpha", ATTR_FLOAT, "1.0", NULL, "minus the limit for small x"}
#define RANGE                                          \
  {"min", ATTR_FLOAT, NULL, NULL, "the least result"}, \
      {"max", ATTR_FLOAT, NULL, NULL, "the greatest"}

static void parameters(const Node *n, double p[4]) {
  for (int i = 0; i < op_attr_count(n->op); i++) p[i] = n->attr[i].f;
}

#define ROW(id, kernel_id, attributes, other, derivative, samples, text)         \
  static void strip_##id(const Node *n, Elementwise *kernel, double p[4]) {      \
    *kernel = EW_##kernel_id##_GRAD;                                             \
    parameters(n, p);                                                            \
  }                                                                              \
  static void grad_##id(Graph *g, const Node *n, Value *const *du, Value **dx) { \
    Value *u = du[0], *dy = n->in[0], *s = n->in[1], *y = &n->out[0];            \
    (void)dy, (void)s, (void)y;                                                  \
    dx[0] = again(g, n, u);                                                      \
    dx[1] = derivative;                                                          \
  }
DERIVATIVES(ROW)
#undef ROW

const OpDef ops_derivative[] = {
#define ROW(id, kernel_id, attributes, other, derivative, samples, text) \
  {.name = #id "_grad",                                                  \
   .summary = text,                                                      \
   .shapes = "any, the same → the same",                                 \
   .inputs = {"dy", other},                                              \
   .traits = ELEMENTWISE | INTERNAL | IN_PLACE(0) | IN_PLACE(1),         \
   .infer = infer_float_pair,                                            \
   .strip = strip_##id,                                                  \
   .grad = grad_##id,                                                    \
   .cost = cost_of_elementwise,                                          \
   .cycles = CYCLES_##id,                                                \
   .attrs = {attributes},                                                \
   .sample = samples},
    DERIVATIVES(ROW)
#undef ROW
        {0}};
