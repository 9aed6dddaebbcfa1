/* The chunks of a product, and which operands are packed. They are a function of its extents and
 * strides, so the result's bits don't depend on threads or memory. For matmul.c. */
#ifndef IPULUA_KERNELS_LAYOUT_H
#define IPULUA_KERNELS_LAYOUT_H
#include "base/arith.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"

enum {
  PANEL = 16,          /* rows of A packed together */
  K_BLOCK_BYTES = 2048 /* of k, for one row or column: 512 float32 */
};

typedef enum BSource {
  B_DIRECT, /* B's rows are contiguous: read in place */
  B_SHARED, /* all of B transposed by gemm_pack */
  B_SLOT,   /* a chunk's block of B packed when needed: each is used by few chunks */
  B_DOTS    /* dot form, B in place */
} BSource;
typedef struct Layout {
  int64_t rows, cols; /* of a chunk */
  int64_t row_chunks, col_chunks;
  /* more than one: chunks make sums over parts of k, which gemm_finish adds */
  int64_t k_part, k_parts;
  int64_t k_block;
  BSource b;
  int64_t b_stride; /* of packed B, elements */
  bool pack_a;
} Layout;

/* Rows of packed B are whole vectors. A power of two is avoided, as it would map all rows to a few
 * sets of the cache. */
static int64_t packed_stride(int64_t cols) {
  int64_t stride = round_up(cols, F32_LANES);
  return stride % 256 ? stride : stride + 16;
}

/* The size of a chunk of n rows or columns that should be about `width`: an even number of equal
 * ones, in whole 16s. */
static int64_t split(int64_t n, int64_t width) {
  int64_t parts = ceil_div(n, width);
  return parts == 1 ? n : round_up(ceil_div(n, round_up(parts, 2)), 16);
}

/* Large problems: A in panels, blocks of B in the slot; a chunk is tall so that packing a block
 * of B pays. */
static void layout_large(const Gemm *g, Layout *l) {
  l->pack_a = true;
  l->b = B_SLOT;
  l->rows = round_up(ceil_div(g->m, ceil_div(g->m, 512)), PANEL);
  l->cols = split(g->n, 128);
}

/* B, or an A whose columns are contiguous, is long: few tall chunks, since each reads its part
 * of both again. */
static void layout_long(const Gemm *g, Layout *l) {
  l->cols = split(g->n, g->m <= 64 && g->n <= 256 ? 64 : 128);
  l->rows = g->m <= 64 || (g->m <= 128 && l->cols < g->n) ? g->m : split(g->m, 96);
}

/* Chunks of whole rows of C; columns are split where those are long, or make too few chunks. */
static void layout_small(const Gemm *g, Layout *l) {
  double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;
  int64_t want = flops < 5e5 ? 1 : flops < 32e6 ? max((int64_t)(flops / 5e5), 2) : 64;
  l->cols = g->n <= 512 ? g->n : round_up(ceil_div(g->n, ceil_div(g->n, 480)), 48);
  l->rows = round_up(max(ceil_div(g->m, want), min(8, g->m)), 8);
  int64_t chunks = ceil_div(g->m, l->rows) * ceil_div(g->n, l->cols);
  if (chunks < min(want, 8) && flops / (double)chunks > 2e6 && l->cols >= 96) {
    int64_t parts = min(ceil_div(min(want, 8), chunks), l->cols / 48);
    l->cols = round_up(ceil_div(l->cols, parts), 16);
  }
}

/* The three products of a dense layer with a small batch, where the weights [K, N] are the largest
 * matrix. The output is [batch, K] [K, N]. The gradient of the weights is [K, batch] [batch, N].
 * The gradient of the input is [batch, N] [N, K]. A cache line of the weights that another core
 * wrote costs many times as much as one of the own core. Hardware prefetchers also load the
 * neighbours of the lines that are read. So all three are cut alike, by whole rows: parts of K. */
typedef enum Role { ROLE_OTHER, ROLE_OUTPUT, ROLE_WEIGHTS, ROLE_INPUT } Role;
enum { SHORT_BATCH = 64, LONG_WEIGHTS = 8 };

static bool is_worth_parting(int64_t batch, int64_t k) {
  return batch > 1 && batch <= SHORT_BATCH && k >= LONG_WEIGHTS * batch && k >= 128;
}

static Role role_of(const Gemm *g) {
  double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;
  if (flops < 1e6 || flops > 64e6) return ROLE_OTHER;
  if (g->a_col == 1 && g->b_col == 1)
    return g->n >= 32 && is_worth_parting(g->m, g->k) ? ROLE_OUTPUT : ROLE_OTHER;
  if (g->a_row == 1 && g->b_col == 1)
    return is_worth_parting(g->k, g->m) ? ROLE_WEIGHTS : ROLE_OTHER;
  if (g->a_col == 1 && g->b_row == 1) return is_worth_parting(g->m, g->n) ? ROLE_INPUT : ROLE_OTHER;
  return ROLE_OTHER;
}

/* Few parts, half or a quarter of K, because the sums of each are stored separately. */
static int64_t weights_part(int64_t batch, int64_t k) {
  return round_up(ceil_div(k, k >= 2 * LONG_WEIGHTS * batch ? 4 : 2), 16);
}

static void layout_dense(const Gemm *g, Role role, Layout *l) {
  l->rows = g->m;
  l->cols = g->n;
  if (role == ROLE_OUTPUT) {
    l->cols = g->n <= 256 ? g->n : split(g->n, 192);
    l->k_part = weights_part(g->m, g->k);
    l->k_parts = ceil_div(g->k, l->k_part);
  } else if (role == ROLE_WEIGHTS) {
    l->rows = weights_part(g->k, g->m) / 4;
  } else {
    l->cols = weights_part(g->m, g->n);
  }
}

static Layout layout_of(const Gemm *g, bool f64) {
  int64_t element_bytes = f64 ? 8 : 4;
  int64_t k_limit = K_BLOCK_BYTES / element_bytes;
  Layout l = {.b = B_DIRECT, .k_part = g->k, .k_parts = 1};
  bool along_k = g->b_col != 1;
  Role role = role_of(g);
  bool dot = role != ROLE_INPUT && g->a_col == 1 && g->b_row == 1 &&
             (g->n == 1 || (along_k && g->m <= 48 && g->k >= 6 * g->m));
  if (!dot && role != ROLE_OTHER) layout_dense(g, role, &l);
  else if (!dot && (double)g->m * (double)g->n * (double)g->k >= 2e8 && g->n >= 256 && g->m >= 128)
    layout_large(g, &l);
  else if (g->k * g->n * element_bytes > 768 * 1024 || (g->a_col != 1 && g->k >= 512))
    layout_long(g, &l);
  else layout_small(g, &l);
  l.k_block = max(round_up(ceil_div(l.k_part, max(ceil_div(l.k_part, k_limit), 1)), 8), 8);
  l.row_chunks = ceil_div(g->m, l.rows);
  l.col_chunks = ceil_div(g->n, l.cols);
  if (dot) l.b = B_DOTS;
  else if (along_k && l.b == B_DIRECT) l.b = l.row_chunks > 1 ? B_SHARED : B_SLOT;
  l.b_stride = l.b == B_SHARED ? packed_stride(g->n) : packed_stride(min(l.cols, g->n));
  return l;
}

/* One column of C from an A whose columns are contiguous is better one row: C' = B' A'. */
static bool is_swapped(const Gemm *g) {
  return g->n == 1 && g->m > 1 && g->a_row == 1 && (!g->c || g->c_row == 1);
}
static Gemm swapped(const Gemm *g) {
  Gemm t = *g;
  t.m = 1;
  t.n = g->m;
  t.a = g->b;
  t.a_row = 1;
  t.a_col = g->b_row;
  t.b = g->a;
  t.b_row = g->a_col;
  t.b_col = 1;
  t.c_row = g->m;
  return t;
}
#endif
