/* Elementwise ops of one operand: a line each. */
#include "ops/same.h"
#include "ops/support.h"

static Value *constant(Graph *g, const Value *x, double v) { return ops_number(g, x, v); }
static Value *plus(Graph *g, Value *x, double v) { return ops_add(g, x, constant(g, x, v)); }
static Value *with(Graph *g, const char *name, Value *a, Value *b, const Attr *attrs) {
  return op_with(g, name, (Value *[]){a, b}, 2, attrs);
}

static const double TWO_OVER_SQRT_PI = 1.1283791670955126;

/* 1 - x^2, and 1 + x^2. */
static Value *one_minus_square(Graph *g, Value *x) {
  return ops_neg(g, plus(g, op1(g, "square", x), -1));
}
static Value *one_plus_square(Graph *g, Value *x) { return plus(g, op1(g, "square", x), 1); }
static Value *gauss(Graph *g, Value *x) { return op1(g, "exp", ops_neg(g, op1(g, "square", x))); }

/* Cycles of a worker, by row. */
/* clang-format off */
#define CYCLES_abs VECTOR_SIMPLE
#define CYCLES_neg VECTOR_SIMPLE
#define CYCLES_sign VECTOR_TEST
#define CYCLES_ceil VECTOR_SIMPLE
#define CYCLES_floor VECTOR_SIMPLE
#define CYCLES_round VECTOR_SIMPLE
#define CYCLES_square VECTOR_SQUARE
#define CYCLES_exp VECTOR_EXP
#define CYCLES_expm1 {4, 1, 5, 4, 0}
#define CYCLES_log {12, 2, 4, 4, 0}
#define CYCLES_log1p {18, 2, 18, 4, 0}
#define CYCLES_sqrt {10, 2, 23, 4, 0}
#define CYCLES_rsqrt {8, 2, 19, 4, 0}
#define CYCLES_reciprocal VECTOR_RECIPROCAL
#define CYCLES_sin {25, 1, 25, 1, 0}
#define CYCLES_cos {25, 1, 25, 1, 0}
#define CYCLES_tan {25 + 25 + 5, 1, 25 + 25 + 5, 1, 0} /* XLA: sin / cos; PL's own vertex takes 5100, 5700 */
#define CYCLES_asin {102, 1, 102, 1, 0}
#define CYCLES_acos {102, 1, 102, 1, 0}
#define CYCLES_atan {102, 1, 102, 1, 0}
#define CYCLES_sinh FUSED(6 + 6 + 3 + 3 - 6, 4 + 15 + 3 + 3 - 6) /* (e - 1 / e) / 2: exp, reciprocal, sub, mul */
#define CYCLES_cosh FUSED(6 + 6 + 3 + 3 - 6, 4 + 15 + 3 + 3 - 6) /* exp, reciprocal, add, mul */
#define CYCLES_tanh VECTOR_TANH
#define CYCLES_sigmoid VECTOR_SIGMOID
#define CYCLES_erf {41, 1, 13, 1, 0}
#define CYCLES_relu VECTOR_GRADIENT
#define CYCLES_relu6 VECTOR_CLAMP
#define CYCLES_selu FUSED(7 + 8 + 3 + 3 + 10 - 8, 9 + 5 + 3 + 3 + 20 - 8) /* greater, expm1, mul, mul, select */
#define CYCLES_softplus VECTOR_SOFTPLUS
#define CYCLES_softsign FUSED(2 + 3 + 10 - 4, 2 + 3 + 21 - 4) /* abs, add, div */
#define CYCLES_swish {11, 2, 5, 4, 0}
#define CYCLES_hard_sigmoid FUSED(3 + 3 + 10 - 4, 3 + 3 + 20 - 4) /* mul, add, clamp */
#define CYCLES_leaky_relu FUSED(7 + 3 + 10 - 4, 9 + 3 + 20 - 4) /* greater, mul, select */
#define CYCLES_elu FUSED(7 + 8 + 3 + 10 - 6, 9 + 5 + 3 + 20 - 6) /* greater, expm1, mul, select */
#define CYCLES_clip VECTOR_CLAMP
#define CYCLES_gelu {10, 2, 5, 4, 0} /* of the tanh form */
#define CYCLES_is_nan VECTOR_TEST
#define CYCLES_is_inf VECTOR_TEST
#define CYCLES_is_finite VECTOR_TEST
#define CYCLES_logical_not VECTOR_LOGIC
/* clang-format on */

/* Row, attributes, Lua name, kernel, operands, gradient (in terms of x, y, dy), samples,
 * summary. */
/* clang-format off */
#define UNARY(X)                                                                                             \
  X(abs, NONE, "abs", ABS, number, ops_mul(g, dy, op1(g, "sign", x)), NUMBERS, "|x|.")                       \
  X(neg, NONE, "neg", NEG, number, ops_neg(g, dy), NUMBERS, "-x.")                                           \
  X(sign, NONE, "sign", SIGN, number, ops_zeros_of(g, x), NUMBERS, "-1, 0 or 1, as x is below, at or above 0.") \
  X(ceil, NONE, "ceil", CEIL, number, ops_zeros_of(g, x), NUMBERS, "The least integer not below x.")         \
  X(floor, NONE, "floor", FLOOR, number, ops_zeros_of(g, x), NUMBERS, "The greatest integer not above x.")   \
  X(round, NONE, "round", ROUND, number, ops_zeros_of(g, x), NUMBERS, "The nearest integer; halves go to the even one.") \
  X(square, NONE, "square", SQUARE, number, ops_mul(g, dy, ops_add(g, x, x)), NUMBERS, "x^2.")               \
  X(exp, NONE, "exp", EXP, float, ops_mul(g, dy, y), "F[2,3] | F[]", "e^x.")                                 \
  X(expm1, NONE, "expm1", EXPM1, float, ops_mul(g, dy, op1(g, "exp", x)), "F[2,3]", "e^x - 1, exact near 0.")\
  X(log, NONE, "log", LOG, float, ops_div(g, dy, x), "P[2,3]", "The natural logarithm.")                     \
  X(log1p, NONE, "log1p", LOG1P, float, ops_div(g, dy, plus(g, x, 1)), "P[2,3]", "log(1 + x), exact near 0.")\
  X(sqrt, NONE, "sqrt", SQRT, float, op2(g, "sqrt_grad", dy, y), "P[2,3]", "The square root.")               \
  X(rsqrt, NONE, "rsqrt", RSQRT, float, op2(g, "rsqrt_grad", dy, y), "P[2,3]", "1 / sqrt(x).")               \
  X(reciprocal, NONE, "reciprocal", RECIPROCAL, float, op2(g, "reciprocal_grad", dy, y), "P[2,3]", "1 / x.") \
  X(sin, NONE, "sin", SIN, float, ops_mul(g, dy, op1(g, "cos", x)), "F[2,3]", "The sine; x in radians.")     \
  X(cos, NONE, "cos", COS, float, ops_neg(g, ops_mul(g, dy, op1(g, "sin", x))), "F[2,3]", "The cosine; x in radians.") \
  X(tan, NONE, "tan", TAN, float, ops_mul(g, dy, one_plus_square(g, y)), "U[2,3]", "The tangent; x in radians.") \
  X(asin, NONE, "asin", ASIN, float, ops_mul(g, dy, op1(g, "rsqrt", one_minus_square(g, x))), "U[2,3]",      \
    "The angle in [-pi/2, pi/2] radians whose sine is x.")                                                   \
  X(acos, NONE, "acos", ACOS, float, ops_neg(g, ops_mul(g, dy, op1(g, "rsqrt", one_minus_square(g, x)))), "U[2,3]", \
    "The angle in [0, pi] radians whose cosine is x.")                                                       \
  X(atan, NONE, "atan", ATAN, float, ops_div(g, dy, one_plus_square(g, x)), "F[2,3]",                        \
    "The angle in (-pi/2, pi/2) radians whose tangent is x.")                                                \
  X(sinh, NONE, "sinh", SINH, float, ops_mul(g, dy, op1(g, "cosh", x)), "F[2,3]", "The hyperbolic sine.")    \
  X(cosh, NONE, "cosh", COSH, float, ops_mul(g, dy, op1(g, "sinh", x)), "F[2,3]", "The hyperbolic cosine.")  \
  X(tanh, NONE, "tanh", TANH, float, op2(g, "tanh_grad", dy, y), "F[2,3] | F[40000]", "The hyperbolic tangent.") \
  X(sigmoid, NONE, "sigmoid", SIGMOID, float, op2(g, "sigmoid_grad", dy, y), "F[2,3] | F[0,3]", "1 / (1 + e^-x).") \
  X(erf, NONE, "erf", ERF, float, ops_mul(g, dy, ops_scale(g, gauss(g, x), TWO_OVER_SQRT_PI)), "F[2,3]",     \
    "The error function.")                                                                                   \
  X(relu, NONE, "nn.relu", RELU, number, op2(g, "relu_grad", dy, y), NUMBERS, "max(x, 0).")                  \
  X(relu6, NONE, "nn.relu6", RELU6, number, op2(g, "relu6_grad", dy, y), NUMBERS, "min(max(x, 0), 6).")      \
  X(selu, NONE, "nn.selu", SELU, float, op2(g, "selu_grad", dy, y), "F[2,3]",                                \
    "1.0507 x for x > 0, else 1.7581 (e^x - 1).")                                                            \
  X(softplus, NONE, "nn.softplus", SOFTPLUS, float, op2(g, "softplus_grad", dy, x), "F[2,3]", "log(1 + e^x).") \
  X(softsign, NONE, "nn.softsign", SOFTSIGN, float, op2(g, "softsign_grad", dy, x), "F[2,3]", "x / (1 + |x|).") \
  X(swish, NONE, "nn.swish", SWISH, float, op2(g, "swish_grad", dy, x), "F[2,3]", "x sigmoid(x).")           \
  X(hard_sigmoid, NONE, "nn.hard_sigmoid", HARD_SIGMOID, float, op2(g, "hard_sigmoid_grad", dy, x), "F[2,3]",\
    "min(max(0.2 x + 0.5, 0), 1).")                                                                          \
  X(leaky_relu, SLOPE, "nn.leaky_relu", LEAKY_RELU, float, with(g, "leaky_relu_grad", dy, x, n->attr),       \
    "F[2,3] | F[4] {alpha = 0.3}", "x for x >= 0, else alpha x.")                                            \
  X(elu, LIMIT, "nn.elu", ELU, float, with(g, "elu_grad", dy, y, n->attr), "F[2,3] | F[4] {alpha = 0.5}",    \
    "x for x > 0, else alpha (e^x - 1).")                                                                    \
  X(clip, RANGE, "clip_by_value", CLIP, number, with(g, "clip_grad", dy, x, n->attr),                        \
    "F[2,3] {min = -1, max = 0.5} | I9[4] {min = 2, max = 5}", "min(max(x, min), max); NaN stays.")          \
  X(gelu, FORM, "nn.gelu", GELU, float, op2(g, n->attr[0].i ? "gelu_tanh_grad" : "gelu_grad", dy, x),        \
    "F[2,3] | F[4] {approximate = false}", "x Phi(x), Phi of the normal distribution; by default its tanh form, as nn_ops.gelu of Graphcore's TensorFlow 2.6.")
/* clang-format on */
#define NUMBERS "F[2,3] | F[] | F[0] | I8[4]"

/* Rows with attributes: their definitions, and which kernel with which parameters they give. */
#define NONE {0}
#define SLOPE {"alpha", ATTR_FLOAT, "0.2", NULL, "slope below 0"}
#define LIMIT {"alpha", ATTR_FLOAT, "1.0", NULL, "minus the limit for small x"}
#define FORM {"approximate", ATTR_BOOL, "true", NULL, "the tanh form instead of erf"}
#define RANGE                                          \
  {"min", ATTR_FLOAT, NULL, NULL, "the least result"}, \
      {"max", ATTR_FLOAT, NULL, NULL, "the greatest"}

static void parameters(const Node *n, Elementwise *kernel, double p[4]) {
  if (*kernel == EW_GELU && n->attr[0].i) *kernel = EW_GELU_TANH;
  if (*kernel == EW_LEAKY_RELU || *kernel == EW_ELU) p[0] = n->attr[0].f;
  if (*kernel == EW_CLIP) p[0] = n->attr[0].f, p[1] = n->attr[1].f;
}

#define ROW(id, attributes, lua, kernel_id, takes, gradient, samples, text)       \
  static void strip_##id(const Node *n, Elementwise *kernel, double p[4]) {       \
    *kernel = EW_##kernel_id;                                                     \
    parameters(n, kernel, p);                                                     \
  }                                                                               \
  static void grad_##id(Graph *g, const Node *n, Value *const *dys, Value **dx) { \
    Value *x = n->in[0], *y = &n->out[0], *dy = dys[0];                           \
    (void)x, (void)y, (void)dy;                                                   \
    dx[0] = gradient;                                                             \
  }
UNARY(ROW)
#undef ROW

/* The row's numbers are gelu's tanh form, popnn's; the erf form is popops'. */
static void cost(const struct Target *t, const Node *n, struct Cost *c) {
  VectorCycles erf_form = {22, 1, 16, 1, 0};
  Elementwise kernel;
  double p[4];
  n->op->strip(n, &kernel, p);
  cost_pass(t, n, kernel == EW_GELU ? erf_form : n->op->cycles, c);
}

/* ---- tests ---- */

static Status infer_test(Error *e, Node *n) {
  Status s = infer_float(e, n);
  n->out[0].type.dtype = BOOL;
  return s;
}

static Status infer_bool(Error *e, Node *n) {
  if (n->in[0]->type.dtype != BOOL)
    return fail(e, ERR_TYPE, "operands must be bool, got %s", dtype_name(n->in[0]->type.dtype));
  return infer_same(e, n);
}

/* clang-format off */
#define TESTS(X)                                                                                             \
  X(is_nan, IS_NAN, test, "F[2,3]", "Whether x is not a number.")                                            \
  X(is_inf, IS_INF, test, "F[2,3]", "Whether x is infinite.")                                                \
  X(is_finite, IS_FINITE, test, "F[2,3]", "Whether x is neither infinite nor not a number.")                 \
  X(logical_not, LOGICAL_NOT, bool, "B[2,3] | B[]", "Whether x is false.")
/* clang-format on */
#define ROW(id, kernel_id, takes, samples, text)                            \
  static void strip_##id(const Node *n, Elementwise *kernel, double p[4]) { \
    (void)n, (void)p;                                                       \
    *kernel = EW_##kernel_id;                                               \
  }
TESTS(ROW)
#undef ROW

/* ---- not computed ---- */

static void grad_identity(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  (void)g, (void)n;
  dx[0] = dy[0];
}

/* For the gradient by the variable itself, each reading counts, and assigned values don't. For any
 * other gradient assigned values count. */
static bool is_by_itself(const Graph *g, const Node *n) {
  return g->apart && n->attr[0].i == g->apart;
}

static void grad_reading(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[is_by_itself(g, n) ? 1 : 0] = dy[0];
}

static Status eval_known(const Call *c) {
  copy_bytes(c, c->out[0], c->in[1], type_bytes(c->out_type[0]));
  return OK;
}

static Value *simplify_known(Node *n) { return n->in[1]; }

static Status eval_zeros(const Call *c) {
  fill_zero(c, c->out[0], type_bytes(c->out_type[0]));
  return OK;
}

static Status eval_ones(const Call *c) {
  Type one = {.dtype = c->out_type[0]->dtype};
  int64_t bits = 0;
  dtype_set(one.dtype, &bits, 0, 1);
  run_kernel(c, ELEMENTWISE_COUNT, 1, (const Type *[]){&one}, (const void *[]){&bits},
             c->out_type[0], c->out[0], NULL);
  return OK;
}

const OpDef ops_unary[] = {
#define ROW(id, attributes, lua, kernel_id, takes, gradient, samples, text) \
  {.name = lua,                                                             \
   .summary = text,                                                         \
   .shapes = "any",                                                         \
   .inputs = {"x"},                                                         \
   .traits = ELEMENTWISE | IN_PLACE(0),                                     \
   .infer = infer_##takes,                                                  \
   .strip = strip_##id,                                                     \
   .grad = grad_##id,                                                       \
   .cost = cost,                                                            \
   .cycles = CYCLES_##id,                                                   \
   .sample = samples,                                                       \
   .attrs = {attributes}},
    UNARY(ROW)
#undef ROW
#define ROW(id, kernel_id, takes, samples, text) \
  {.name = #id,                                  \
   .summary = text,                              \
   .shapes = "any",                              \
   .inputs = {"x"},                              \
   .traits = ELEMENTWISE | NO_GRADIENT,          \
   .infer = infer_##takes,                       \
   .strip = strip_##id,                          \
   .cost = cost_of_elementwise,                  \
   .cycles = CYCLES_##id,                        \
   .sample = samples},
        TESTS(ROW)
#undef ROW
            {.name = "identity",
             .summary = "x itself.",
             .shapes = "any",
             .inputs = {"x"},
             .traits = VIEW,
             .infer = infer_same,
             .simplify = simplify_view,
             .cost = cost_of_view,
             .eval = eval_copy,
             .grad = grad_identity,
             .sample = "F[2,3] | I5[4] | B[2]"},
    {.name = "reading",
     .summary =
         "x: the value of a variable after x was assigned; `former` derives from its value before.",
     .shapes = "any",
     .inputs = {"x", "former"},
     .attrs = {{"variable", ATTR_INT, "0", NULL, "which one"}},
     .traits = VIEW | INTERNAL | MARKER,
     .infer = infer_same,
     .simplify = simplify_whole,
     .cost = cost_of_view,
     .eval = eval_copy,
     .grad = grad_reading,
     .is_source = is_by_itself,
     .sample = "F[2,3] F[2,3]"},
    {.name = "known",
     .summary = "value, a constant computed from x while tracing; its gradient goes to x.",
     .shapes = "any",
     .inputs = {"x", "value"},
     .traits = INTERNAL | MARKER,
     .infer = infer_same,
     .value_from = 1,
     .simplify = simplify_known,
     .cost = cost_of_view,
     .eval = eval_known,
     .grad = grad_identity},
    {.name = "recomputation_checkpoint",
     .summary = "x itself; kept where a pipeline stage is computed again.",
     .shapes = "any",
     .inputs = {"x"},
     .traits = VIEW | INTERNAL,
     .infer = infer_same,
     .keeps = true,
     .cost = cost_of_view,
     .eval = eval_copy,
     .grad = grad_identity,
     .sample = "F[2,3]"},
    {.name = "stop_gradient",
     .summary = "x itself; gradients end here.",
     .shapes = "any",
     .inputs = {"x"},
     .traits = VIEW | NO_GRADIENT,
     .infer = infer_same,
     .simplify = simplify_view,
     .cost = cost_of_view,
     .eval = eval_copy,
     .sample = "F[2,3]"},
    {.name = "zeros_like",
     .summary = "Zeros of x's shape and dtype.",
     .shapes = "any",
     .inputs = {"x"},
     .traits = NO_GRADIENT,
     .infer = infer_same,
     .cost = cost_of_fill,
     .fill = FILL_ZEROS,
     .eval = eval_zeros,
     .sample = "F[2,3] | I5[4] | B[2]"},
    {.name = "ones_like",
     .summary = "Ones of x's shape and dtype.",
     .shapes = "any",
     .inputs = {"x"},
     .traits = NO_GRADIENT,
     .infer = infer_same,
     .cost = cost_of_fill,
     .fill = FILL_ONES,
     .eval = eval_ones,
     .sample = "F[2,3] | I5[4] | B[2]"},
    {0}};
