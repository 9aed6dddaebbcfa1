/* Every kernel's name, result and parameters. Kernels take pointers and extents, not tensors.
 *
 * The struct of pointers below is filled for each instruction set: base, avx2 and avx512. The same
 * source is compiled for each, and kernels_select() picks the best for this CPU. Macros make most
 * names of kernels, and symbols.txt lists them with their macros.
 *
 * Sums use sixteen partial sums on every instruction set, so that their bits agree. Products,
 * convolutions and the polynomials of exp, log and erf use fused multiply-adds, where the
 * instruction set has them. */
#ifndef IPULUA_KERNELS_KERNELS_H
#define IPULUA_KERNELS_KERNELS_H
#include "base/rng.h"
#include "tensor/dtype.h"

/* Elementwise kernels: id, Lua name, number of operands. Operand and result dtypes: "same" unless
 * said. Parameters p[0..3] are doubles. The formulas are evaluated in the element's own precision,
 * and each operation rounds once. So a fused chain equals separate calls bit for bit. */
/* clang-format off */
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
/* clang-format on */

#define X(id, arity) EW_##id,
typedef enum Elementwise { ELEMENTWISE(X) ELEMENTWISE_COUNT } Elementwise;
#undef X

/* n elements. Bit i of single: operand i is one element for all. out may be one of the
 * (non-single) operands. */
typedef void (*Strip)(const void *const *in, unsigned single, void *out, int64_t n,
                      const double *p);

/* C = A B (+ C), float32 or float64 by table entry. Strides in elements; c_col is 1. Element (i, k)
 * of A is `a[i * a_row + k * a_col]`, and element (k, j) of B is `b[k * b_row + j * b_col]`. One of
 * the two strides of each is 1. The work is cut into chunks by m, n, k alone.
 *
 * epilogue (may be NULL) is called for each final block of C. It gets rows [row, row + rows) and
 * columns [col, col + cols) at block[r * block_row + c]. With c NULL the block is in the slot's
 * scratch memory, and is valid during the call only.
 *
 * In large problems, and if next is given, ahead (may be NULL) is called for each tile before it is
 * computed. It prefetches the operands of the epilogue. B of next is prefetched, too. */
typedef struct Gemm Gemm;
typedef void (*GemmAhead)(void *context, int64_t row, int64_t rows, int64_t col, int64_t cols);
typedef void (*GemmEpilogue)(void *context, void *block, int64_t block_row, int64_t row,
                             int64_t rows, int64_t col, int64_t cols, int slot);
struct Gemm {
  int64_t m, n, k;
  const void *a, *b;
  int64_t a_row, a_col, b_row, b_col;
  void *c;
  int64_t c_row;
  bool accumulate; /* C += A B (needs c) */
  GemmEpilogue epilogue;
  GemmAhead ahead;
  /* the product after this one, if its operands have probably left the cache; else NULL */
  const Gemm *next;
  void *context;
  /* scratch for packed operands or partial sums: gemm_plan()'s shared_bytes, 64-byte aligned */
  void *shared;
  void *slots; /* slot i's scratch at slots + i * slot_bytes */
  size_t slot_bytes;
};
typedef struct GemmPlan {
  bool openblas; /* kernels/products.h: not for our own kernels */
  size_t shared_bytes, slot_bytes;
  int64_t pack_chunks; /* 0: nothing to pack */
  int64_t chunks;
  int64_t finish_chunks; /* 0: the chunks leave nothing to do */
  /* partial sums of each element; with 1, accumulating equals adding the product afterwards */
  int64_t k_blocks;
} GemmPlan;

/* Products of rows and a panel of up to PANEL_COLS columns, for convolutions, recurrences and
 * attention. The sum is over s and l:
 *   y[i, j] (+)= sum of x[i * x_row + offset[s] + l] * w[(s * length + l) * PANEL_COLS + j] */
enum { PANEL_COLS = 32 };
typedef struct PanelMul {
  const void *x;
  int64_t x_row;
  const int64_t *offset; /* [segments] */
  int64_t segments, length;
  const void *w; /* made by panel_pack */
  void *y;
  int64_t y_row, rows, cols;
  bool accumulate;
} PanelMul;
/* The gradient of a panel. The sum is over lines and i:
 *   y[l, j] (+)= sum of x[line * x_line + i * x_row + l] * d[line * d_line + i * d_row + j] */
typedef struct PanelOuter {
  const void *x, *d;
  int64_t x_line, x_row, d_line, d_row, lines, rows;
  void *y;
  int64_t y_row, length, cols;
  bool accumulate;
} PanelOuter;
/* y[i, c] = sum over t of x[i * x_row + offset[t] + c] * w[t, c]. */
typedef struct Depthwise {
  const void *x, *w;
  int64_t x_row;
  const int64_t *offset; /* [taps] */
  int64_t taps;
  void *y;
  int64_t y_row, rows, channels;
} Depthwise;
/* A run of pooling windows. Channel c of window i covers x[i * x_row + offset[t] + c] for each tap
 * t. index records tap[t], the position of t in the whole window. */
typedef struct PoolRun {
  const void *x; /* or dy of gradients */
  int64_t x_row;
  const int64_t *offset; /* [taps] */
  const int32_t *tap;
  int64_t taps;
  void *y; /* or dx of gradients */
  int64_t y_row, rows, channels;
  void *index;     /* beside y (gradients: beside dy), rows of `channels` */
  bool wide_index; /* int32; otherwise uint8 */
  double scale;
} PoolRun;

typedef enum Reduction {
  REDUCE_SUM,
  REDUCE_MAX,
  REDUCE_MIN,
  REDUCE_PROD,
  REDUCE_ANY,
  REDUCE_ALL,
  REDUCTION_COUNT
} Reduction;

/* Who computes products: chosen by the table of kernels/products.c, always our own kernels, or
 * always OpenBLAS. */
typedef enum ProductUse {
  PRODUCTS_BY_TABLE,
  PRODUCTS_OWN,
  PRODUCTS_OPENBLAS,
  PRODUCT_USES
} ProductUse;

typedef struct Kernels {
  const char *name; /* "base", "avx2", "avx512" */
  const char *core; /* of OpenBLAS: the best of this class; NULL: its own choice */
  ProductUse products;
  /* [kernel][dtype of operand 0 (WHERE: operand 1)]; NULL: none. float16 and bfloat16 have none:
   * callers widen to float32 and round */
  Strip strip[ELEMENTWISE_COUNT][DTYPE_COUNT];
  Strip cast[DTYPE_COUNT][DTYPE_COUNT]; /* [from][to]; all pairs */
  /* as a cast and a division, bit for bit */
  void (*divide_bytes)(const uint8_t *x, float by, float *y, int64_t n);
  GemmPlan (*gemm_plan)(Dtype d, const Gemm *g);
  /* chunks of packing are independent … */
  void (*gemm_pack)(Dtype d, const Gemm *g, int64_t chunk);
  /* … and all come before any of running, … */
  void (*gemm_run)(Dtype d, const Gemm *g, int64_t chunk, int slot);
  /* … which come before any of finishing */
  void (*gemm_finish)(Dtype d, const Gemm *g, int64_t chunk, int slot);
  /* x [outer, extent, inner] → y [outer, inner], of x's dtype. Sums: f32 and f64; integers sum
   * in int64 and wrap. Accumulators of sums of float32 are float32 in sixteen partial sums,
   * blocked pairwise, so that 1e6 ones sum exactly. */
  void (*reduce[REDUCTION_COUNT][DTYPE_COUNT])(const void *x, int64_t outer, int64_t extent,
                                               int64_t inner, void *y);
  /* rows × n, in place allowed; max is subtracted first */
  void (*softmax[DTYPE_COUNT])(const void *x, int64_t rows, int64_t n, void *y);
  void (*log_softmax[DTYPE_COUNT])(const void *x, int64_t rows, int64_t n, void *y);
  /* y (dy - sum dy y) */
  void (*softmax_grad[DTYPE_COUNT])(const void *dy, const void *y, int64_t rows, int64_t n,
                                    void *dx);
  /* dy - exp(y) sum dy */
  void (*log_softmax_grad[DTYPE_COUNT])(const void *dy, const void *y, int64_t rows, int64_t n,
                                        void *dx);
  /* logits [rows, n], labels [rows] → loss [rows] = logsumexp - logit, slope [rows, n] = softmax
   * - one-hot. A label outside 0 … n-1 gives NaN loss and slope. slope may be NULL. */
  void (*sparse_xent[DTYPE_COUNT])(const void *logits, const int32_t *labels, int64_t rows,
                                   int64_t n, void *loss, void *slope);
  /* x [rows, n] → y, mean [rows], inverse deviation [rows]; gamma, beta [n] may be NULL */
  void (*layer_norm[DTYPE_COUNT])(const void *x, const void *gamma, const void *beta,
                                  double epsilon, int64_t rows, int64_t n, void *y, void *mean,
                                  void *inverse);
  /* dx only; dgamma and dbeta are column sums made by layer_norm_sums */
  void (*layer_norm_grad[DTYPE_COUNT])(const void *dy, const void *x, const void *gamma,
                                       const void *mean, const void *inverse, int64_t rows,
                                       int64_t n, void *dx);
  void (*layer_norm_sums[DTYPE_COUNT])(const void *dy, const void *x, const void *mean,
                                       const void *inverse, int64_t rows, int64_t n, void *dgamma,
                                       void *dbeta);
  /* y[j, i] = x[i, j] for each of batch matrices [rows, cols]; element size 1, 2, 4, 8 */
  void (*transpose)(size_t size, const void *x, int64_t batch, int64_t rows, int64_t cols, void *y);
  /* Products with panels, and packing and gradients of panels: see above. */
  void (*panel_mul[DTYPE_COUNT])(const PanelMul *p);
  void (*panel_outer[DTYPE_COUNT])(const PanelOuter *p);
  /* panel[r, j] = source[r * row + j * col]: rows of PANEL_COLS, the columns beyond cols are
   * zero. row or col is 1. */
  void (*panel_pack[DTYPE_COUNT])(const void *source, int64_t row, int64_t col, int64_t rows,
                                  int64_t cols, void *panel);
  void (*depthwise[DTYPE_COUNT])(const Depthwise *p);
  /* dw[t, c] += x dy; dy's rows are y_row apart */
  void (*depthwise_outer[DTYPE_COUNT])(const Depthwise *p, const void *dy, void *dw);
  /* Pooling. max: the first of equals wins, a NaN always; its gradient adds dy where index says
   * so. Sums are times scale. */
  void (*pool_max[DTYPE_COUNT])(const PoolRun *p);
  /* y[i * y_row + offset[t] + c] += index == tap[t] ? x[i * x_row + c] : 0 */
  void (*pool_max_grad[DTYPE_COUNT])(const PoolRun *p);
  void (*pool_max_pick[DTYPE_COUNT])(const PoolRun *p); /* y[i, c] = the x that index names */
  void (*pool_sum[DTYPE_COUNT])(const PoolRun *p);
  /* y[i * y_row + offset[t] + c] += scale x[i * x_row + c] */
  void (*pool_spread[DTYPE_COUNT])(const PoolRun *p);
  /* Columns of x [rows, n]. */
  /* sum += x */
  void (*column_sums[DTYPE_COUNT])(const void *x, int64_t rows, int64_t n, void *sum);
  /* sum += (x - mean)^2 */
  void (*column_squares[DTYPE_COUNT])(const void *x, const void *mean, int64_t rows, int64_t n,
                                      void *sum);
  void (*column_products[DTYPE_COUNT])(const void *dy, const void *x, const void *mean,
                                       int64_t rows, int64_t n, void *sum,
                                       void *product); /* sum += dy, product += dy (x - mean) */
  void (*column_scale[DTYPE_COUNT])(const void *x, const void *mean, const void *scale,
                                    const void *shift, int64_t rows, int64_t n,
                                    void *y); /* y = (x - mean) scale + shift */
  void (*column_combine[DTYPE_COUNT])(const void *dy, const void *x, const void *mean,
                                      const void *p, const void *q,
                                      /* dx = dy p + (x - mean) q + r */
                                      const void *r, int64_t rows, int64_t n, void *dx);
  /* Cells of recurrences, n units each. LSTM gates stand as i, f, c, o. gates holds the input's
   * part on entry, and the activations afterwards. z is the recurrent part. bias may be NULL. */
  void (*lstm_cell[DTYPE_COUNT])(int64_t n, void *gates, const void *z, const void *bias,
                                 const void *c_before, void *c, void *h);
  /* dc: of c in, of c_before out; dgates: before activation */
  void (*lstm_cell_grad[DTYPE_COUNT])(int64_t n, const void *gates, const void *c_before,
                                      const void *dh, void *dc, void *dgates);
  /* GRU gates stand as z, r, h; candidate holds tanh(...). */
  void (*gru_state[DTYPE_COUNT])(int64_t n, const void *z, const void *candidate,
                                 const void *before, void *h);
  void (*gru_cell_grad[DTYPE_COUNT])(int64_t n, const void *gates, const void *before,
                                     const void *inner, const void *dh, void *dgates, void *dinner,
                                     void *dbefore);
  /* Words of the blocks [block, block + count) of rng_block (base/rng.h) → out [4 count]. */
  void (*random_words)(const RngKey *key, uint64_t block, int64_t count, uint32_t *out);
} Kernels;

/* The best table for this CPU, or the named one ("base", "avx2", "avx512"; NULL when this CPU
 * lacks it). */
const Kernels *kernels_select(void);
const Kernels *kernels_find(const char *name);
/* The best one of at most that class; NULL when there is no such class. Without a name (or "")
 * the best. */
const Kernels *kernels_at_most(const char *name);
/* KERNELS_VARIABLE is the environment variable with that class. KERNELS_WORDS is the error for a
 * wrong value. */
/* The same kernels, with products going elsewhere. */
const Kernels *kernels_with_products(const Kernels *k, ProductUse use);
#define KERNELS_VARIABLE "IPULUA_CPU"
#define KERNELS_WORDS \
  KERNELS_VARIABLE " must be base, avx2 or avx512 (kernels of at most that class), got '%.40s'"
#endif
