/* Every kernel's name, result and parameters. A kernel knows pointers and extents, not tensors. The struct of
 * pointers below is filled once per instruction set (base, avx2, avx512: one text, compiled three times);
 * kernels_select() picks the best for this CPU. Sixteen partial sums on every instruction set make sums equal
 * across them; only GEMM, convolution and their kin multiply and add in one rounding. */
#ifndef IPULUA_KERNELS_KERNELS_H
#define IPULUA_KERNELS_KERNELS_H
#include "tensor/dtype.h"

/* Elementwise kernels: id, Lua name, number of operands. Operand and result dtypes: "same" unless said.
 * Parameters p[0..3] are doubles. The formulas are the contract: evaluated in the element's own precision, each
 * operation rounding once, so a fused chain equals separate calls bit for bit. */
#define ELEMENTWISE(X)                                                                                   \
  X(IDENTITY, 1) X(ABS, 1) X(NEG, 1) X(SIGN, 1) X(CEIL, 1) X(FLOOR, 1) X(ROUND, 1) /* half to even */      \
  X(EXP, 1) X(EXPM1, 1) X(LOG, 1) X(LOG1P, 1) X(SQRT, 1) X(RSQRT, 1) X(SQUARE, 1) X(RECIPROCAL, 1)        \
  X(SIN, 1) X(COS, 1) X(TAN, 1) X(ASIN, 1) X(ACOS, 1) X(ATAN, 1) X(SINH, 1) X(COSH, 1) X(TANH, 1)         \
  X(SIGMOID, 1) X(ERF, 1) X(RELU, 1) X(RELU6, 1)                                                          \
  X(LEAKY_RELU, 1)   /* x >= 0 ? x : p0 x */                                                              \
  X(ELU, 1)          /* x > 0 ? x : p0 (exp(x) - 1) */                                                    \
  X(SELU, 1) X(SOFTPLUS, 1) X(SOFTSIGN, 1) X(SWISH, 1)                                                    \
  X(GELU, 1)         /* erf form */                                                                      \
  X(GELU_TANH, 1)    /* tanh approximation */                                                            \
  X(HARD_SIGMOID, 1) /* clip(0.2 x + 0.5, 0, 1) */                                                        \
  X(CLIP, 1)         /* p0 <= x <= p1 */                                                                 \
  X(IS_NAN, 1) X(IS_INF, 1) X(IS_FINITE, 1) /* result bool */                                            \
  X(LOGICAL_NOT, 1)                         /* bool */                                                   \
  X(ADD, 2) X(SUB, 2) X(MUL, 2) X(DIV, 2) X(POW, 2) X(MAXIMUM, 2) X(MINIMUM, 2)                           \
  X(MOD, 2) X(FLOORDIV, 2) /* sign of the divisor, rounding down; integer division by zero gives 0 */     \
  X(SQUARED_DIFFERENCE, 2) X(ATAN2, 2)                                                                    \
  X(EQUAL, 2) X(NOT_EQUAL, 2) X(LESS, 2) X(LESS_EQUAL, 2) X(GREATER, 2) X(GREATER_EQUAL, 2) /* bool */    \
  X(LOGICAL_AND, 2) X(LOGICAL_OR, 2) X(LOGICAL_XOR, 2)                                      /* bool */    \
  X(WHERE, 3) /* operand 0 is bool */                                                                    \
  /* Derivatives that are one pass: operands (dy, y) or (dy, x). */                                       \
  X(RELU_GRAD, 2)       /* y > 0 ? dy : 0 */                                                              \
  X(RELU6_GRAD, 2)      /* 0 < y < 6 ? dy : 0 */                                                          \
  X(LEAKY_RELU_GRAD, 2) /* x >= 0 ? dy : p0 dy   (operand x) */                                           \
  X(ELU_GRAD, 2)        /* y > 0 ? dy : dy (y + p0) */                                                    \
  X(SELU_GRAD, 2) X(SIGMOID_GRAD, 2) /* dy y (1 - y) */ X(TANH_GRAD, 2) /* dy (1 - y y) */                \
  X(SOFTPLUS_GRAD, 2)   /* dy sigmoid(x) */                                                               \
  X(SOFTSIGN_GRAD, 2) X(SWISH_GRAD, 2) X(GELU_GRAD, 2) X(GELU_TANH_GRAD, 2) X(HARD_SIGMOID_GRAD, 2) /* x */ \
  X(CLIP_GRAD, 2)       /* p0 <= x <= p1 ? dy : 0 */                                                      \
  X(SQRT_GRAD, 2)       /* 0.5 dy / y */                                                                  \
  X(RSQRT_GRAD, 2)      /* -0.5 dy y y y */                                                               \
  X(RECIPROCAL_GRAD, 2) /* -dy y y */

#define X(id, arity) EW_##id,
typedef enum Elementwise { ELEMENTWISE(X) ELEMENTWISE_COUNT } Elementwise;
#undef X

/* n elements. Bit i of single: operand i is one element for all. out may be one of the (non-single) operands. */
typedef void (*Strip)(const void *const *in, unsigned single, void *out, int64_t n, const double *p);

/* C = A B (+ C), float32 or float64 by table entry. Strides in elements; c_col is 1. A's element (i, k) is
 * a[i * a_row + k * a_col], B's (k, j) is b[k * b_row + j * b_col]; each of A and B has a unit stride one way.
 * The work is cut into chunks by m, n, k alone. When a block of C is final, epilogue (may be NULL) is called with
 * it: rows [row, row + rows) and columns [col, col + cols) at block[r * block_row + c]. With c NULL the block lives in
 * the slot's scratch and is gone afterwards. */
typedef struct Gemm Gemm;
typedef void (*GemmEpilogue)(void *context, void *block, int64_t block_row, int64_t row, int64_t rows,
                             int64_t col, int64_t cols, int slot);
struct Gemm {
  int64_t m, n, k;
  const void *a, *b;
  int64_t a_row, a_col, b_row, b_col;
  void *c;
  int64_t c_row;
  bool accumulate; /* C += A B (needs c) */
  GemmEpilogue epilogue;
  void *context;
  void *shared;    /* scratch for packed operands: gemm_plan()'s shared_bytes, 64-byte aligned; filled by gemm_pack */
  void *slots;     /* slot i's scratch at slots + i * slot_bytes */
  size_t slot_bytes;
};
typedef struct GemmPlan {
  size_t shared_bytes, slot_bytes;
  int64_t pack_chunks; /* 0: nothing to pack */
  int64_t chunks;
} GemmPlan;

typedef enum Reduction { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD, REDUCE_ANY, REDUCE_ALL, REDUCTION_COUNT } Reduction;

typedef struct Kernels {
  const char *name; /* "base", "avx2", "avx512" */
  Strip strip[ELEMENTWISE_COUNT][DTYPE_COUNT];  /* [kernel][dtype of operand 0 (WHERE: operand 1)]; NULL: none. float16 and
                                                   bfloat16 have none: callers widen to float32 and round */
  Strip cast[DTYPE_COUNT][DTYPE_COUNT];         /* [from][to]; all pairs */
  GemmPlan (*gemm_plan)(Dtype d, const Gemm *g);
  void (*gemm_pack)(Dtype d, const Gemm *g, int64_t chunk);          /* chunks of packing are independent … */
  void (*gemm_run)(Dtype d, const Gemm *g, int64_t chunk, int slot); /* … and all come before any of running */
  /* x [outer, extent, inner] → y [outer, inner]. Sums: f32 and f64; integers sum in int64. Accumulators of sums of
     float32 are float32 in sixteen partial sums, blocked pairwise, so that 1e6 ones sum exactly. */
  void (*reduce[REDUCTION_COUNT][DTYPE_COUNT])(const void *x, int64_t outer, int64_t extent, int64_t inner, void *y);
  /* rows × n, in place allowed; max is subtracted first */
  void (*softmax[DTYPE_COUNT])(const void *x, int64_t rows, int64_t n, void *y);
  void (*log_softmax[DTYPE_COUNT])(const void *x, int64_t rows, int64_t n, void *y);
  void (*softmax_grad[DTYPE_COUNT])(const void *dy, const void *y, int64_t rows, int64_t n, void *dx); /* y (dy - sum dy y) */
  void (*log_softmax_grad[DTYPE_COUNT])(const void *dy, const void *y, int64_t rows, int64_t n, void *dx); /* dy - exp(y) sum dy */
  /* logits [rows, n], labels [rows] → loss [rows] = logsumexp - logit, slope [rows, n] = softmax - one-hot. A label outside
     0 … n-1 gives NaN loss and slope. slope may be NULL. */
  void (*sparse_xent[DTYPE_COUNT])(const void *logits, const int32_t *labels, int64_t rows, int64_t n, void *loss, void *slope);
  /* x [rows, n] → y, mean [rows], inverse deviation [rows]; gamma, beta [n] may be NULL */
  void (*layer_norm[DTYPE_COUNT])(const void *x, const void *gamma, const void *beta, double epsilon, int64_t rows, int64_t n,
                                  void *y, void *mean, void *inverse);
  /* dx only; dgamma and dbeta are column sums made by layer_norm_sums */
  void (*layer_norm_grad[DTYPE_COUNT])(const void *dy, const void *x, const void *gamma, const void *mean, const void *inverse,
                                       int64_t rows, int64_t n, void *dx);
  void (*layer_norm_sums[DTYPE_COUNT])(const void *dy, const void *x, const void *mean, const void *inverse, int64_t rows, int64_t n,
                                       void *dgamma, void *dbeta);
  /* y[j, i] = x[i, j] for each of batch matrices [rows, cols]; element size 1, 2, 4, 8 */
  void (*transpose)(size_t size, const void *x, int64_t batch, int64_t rows, int64_t cols, void *y);
} Kernels;

/* The best table for this CPU, or the named one ("base", "avx2", "avx512"; NULL when this CPU lacks it). */
const Kernels *kernels_select(void);
const Kernels *kernels_find(const char *name);
#endif
