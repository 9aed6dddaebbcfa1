/* Elementwise ops of one operand: a line each. */
#include "ops/ops.h"

/* Lua name, kernel, gradient in terms of x, y, dy; cycles per vector on the machine; samples; what it says. */
#define UNARY(X)                                                                                              \
  X(abs, "abs", ABS, ops_mul(g, dy, op1(g, "sign", x)), 1, "F[2,3] | I8[4]", "|x|.")                           \
  X(neg, "neg", NEG, ops_neg(g, dy), 1, "F[2,3] | I8[4]", "-x.")                                               \
  X(square, "square", SQUARE, ops_mul(g, dy, ops_add(g, x, x)), 1, "F[2,3] | I8[4]", "x^2.")                   \
  X(exp, "exp", EXP, ops_mul(g, dy, y), 6, "F[2,3]", "e^x.")                                                   \
  X(expm1, "expm1", EXPM1, ops_mul(g, dy, op1(g, "exp", x)), 8, "F[2,3]", "e^x - 1, exact near 0.")            \
  X(log, "log", LOG, ops_div(g, dy, x), 8, "P[2,3]", "The natural logarithm.")                                 \
  X(log1p, "log1p", LOG1P, ops_div(g, dy, ops_add(g, x, graph_number(g, x->type.dtype, 1))), 8, "P[2,3]",      \
    "log(1 + x), exact near 0.")                                                                               \
  X(sqrt, "sqrt", SQRT, op2(g, "sqrt_grad", dy, y), 4, "P[2,3]", "The square root.")                           \
  X(rsqrt, "rsqrt", RSQRT, op2(g, "rsqrt_grad", dy, y), 4, "P[2,3]", "1 / sqrt(x).")                           \
  X(reciprocal, "reciprocal", RECIPROCAL, op2(g, "reciprocal_grad", dy, y), 4, "P[2,3]", "1 / x.")             \
  X(sin, "sin", SIN, ops_mul(g, dy, op1(g, "cos", x)), 10, "F[2,3]", "The sine.")                              \
  X(cos, "cos", COS, ops_neg(g, ops_mul(g, dy, op1(g, "sin", x))), 10, "F[2,3]", "The cosine.")                \
  X(tanh, "tanh", TANH, op2(g, "tanh_grad", dy, y), 6, "F[2,3]", "The hyperbolic tangent.")                    \
  X(sigmoid, "sigmoid", SIGMOID, op2(g, "sigmoid_grad", dy, y), 6, "F[2,3]", "1 / (1 + e^-x).")                \
  X(relu, "nn.relu", RELU, op2(g, "relu_grad", dy, y), 1, "F[2,3]", "max(x, 0).")

#define ROW(id, lua, kernel_id, gradient, cycles, samples, text)                                          \
  static void strip_##id(const Node *n, Elementwise *kernel, double p[4]) {                               \
    (void)n, (void)p;                                                                                     \
    *kernel = EW_##kernel_id;                                                                             \
  }                                                                                                       \
  static void grad_##id(Graph *g, const Node *n, Value *const *dys, Value **dx) {                         \
    Value *x = n->in[0], *y = &n->out[0], *dy = dys[0];                                                   \
    (void)x, (void)y;                                                                                     \
    dx[0] = gradient;                                                                                     \
  }
UNARY(ROW)
#undef ROW

const OpDef ops_unary[] = {
#define ROW(id, lua, kernel_id, gradient, cycles, samples, text)                                          \
  {.name = lua, .summary = text, .shapes = "any", .inputs = {"x"}, .traits = ELEMENTWISE | IN_PLACE(0),   \
   .infer = infer_same, .strip = strip_##id, .grad = grad_##id, .sample = samples},
    UNARY(ROW)
#undef ROW
    {0}};
