/* C = A B. A tile of C lives in registers while a run of k passes: each step loads a row of B's vectors and
 * broadcasts a column of A's elements. Operands are read where they lie as long as that is fast; B is transposed or
 * packed first when its rows run along k, A when the problem is large. Each element of C is one chain of
 * multiply-adds per block of k (the blocks depend on the extents alone), added block after block: neither the chunks nor
 * the packing move a bit. Only the dot form, chosen by the extents and strides, sums along k in lanes. */
#include "kernels/fill.h"
#include "kernels/simd.h"
#include "kernels/transpose.h"

enum {
  PANEL = 16,          /* rows of A packed together */
  K_BLOCK_BYTES = 2048, /* of k, for one row or column: 512 float32 */
  WIDE = 3             /* vectors of the widest tile */
};

/* A tile of C: k steps; a and b advance by a_col and b_row; the last vector of b and c has `last` lanes. */
typedef void (*Tile)(int64_t k, const void *a, int64_t a_row, int64_t a_col, const void *b, int64_t b_row, void *c,
                     int64_t c_row, int64_t last, bool add);

INLINE void tile_f32(int rows, int vectors, bool partial, int64_t k, const float *a, int64_t a_row, int64_t a_col,
                     const float *b, int64_t b_row, float *c, int64_t c_row, int64_t last, bool add) {
  f32v sum[PANEL][WIDE];
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = (f32v){0};
  if (add)
    UNROLL for (int i = 0; i < rows; i++)
      UNROLL for (int j = 0; j < vectors; j++) __builtin_prefetch(c + i * c_row + j * F32_LANES);
  for (int64_t p = 0; p < k; p++, a += a_col, b += b_row) {
    f32v row[WIDE];
    UNROLL for (int j = 0; j < vectors; j++)
      row[j] = partial && j == vectors - 1 ? load_some_f32(b + j * F32_LANES, last) : load_f32(b + j * F32_LANES);
    UNROLL for (int i = 0; i < rows; i++) {
      f32v x = splat_f32(a[i * a_row]);
      UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = fma_f32(x, row[j], sum[i][j]);
    }
  }
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < vectors; j++) {
      float *to = c + i * c_row + j * F32_LANES;
      if (partial && j == vectors - 1)
        store_some_f32(to, last, add ? load_some_f32(to, last) + sum[i][j] : sum[i][j]);
      else
        store_f32(to, add ? load_f32(to) + sum[i][j] : sum[i][j]);
    }
}

INLINE void tile_f64(int rows, int vectors, bool partial, int64_t k, const double *a, int64_t a_row, int64_t a_col,
                     const double *b, int64_t b_row, double *c, int64_t c_row, int64_t last, bool add) {
  f64v sum[PANEL][WIDE];
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = (f64v){0};
  if (add)
    UNROLL for (int i = 0; i < rows; i++)
      UNROLL for (int j = 0; j < vectors; j++) __builtin_prefetch(c + i * c_row + j * F64_LANES);
  for (int64_t p = 0; p < k; p++, a += a_col, b += b_row) {
    f64v row[WIDE];
    UNROLL for (int j = 0; j < vectors; j++)
      row[j] = partial && j == vectors - 1 ? load_some_f64(b + j * F64_LANES, last) : load_f64(b + j * F64_LANES);
    UNROLL for (int i = 0; i < rows; i++) {
      f64v x = splat_f64(a[i * a_row]);
      UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = fma_f64(x, row[j], sum[i][j]);
    }
  }
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < vectors; j++) {
      double *to = c + i * c_row + j * F64_LANES;
      if (partial && j == vectors - 1)
        store_some_f64(to, last, add ? load_some_f64(to, last) + sum[i][j] : sum[i][j]);
      else
        store_f64(to, add ? load_f64(to) + sum[i][j] : sum[i][j]);
    }
}

#define TILE(rows, vectors)                                                                                        \
  static void full_f32_##rows##_##vectors(int64_t k, const void *a, int64_t a_row, int64_t a_col, const void *b,    \
                                          int64_t b_row, void *c, int64_t c_row, int64_t last, bool add) {         \
    tile_f32(rows, vectors, false, k, a, a_row, a_col, b, b_row, c, c_row, last, add);                             \
  }                                                                                                                \
  static void part_f32_##rows##_##vectors(int64_t k, const void *a, int64_t a_row, int64_t a_col, const void *b,    \
                                          int64_t b_row, void *c, int64_t c_row, int64_t last, bool add) {         \
    tile_f32(rows, vectors, true, k, a, a_row, a_col, b, b_row, c, c_row, last, add);                              \
  }                                                                                                                \
  static void full_f64_##rows##_##vectors(int64_t k, const void *a, int64_t a_row, int64_t a_col, const void *b,    \
                                          int64_t b_row, void *c, int64_t c_row, int64_t last, bool add) {         \
    tile_f64(rows, vectors, false, k, a, a_row, a_col, b, b_row, c, c_row, last, add);                             \
  }                                                                                                                \
  static void part_f64_##rows##_##vectors(int64_t k, const void *a, int64_t a_row, int64_t a_col, const void *b,    \
                                          int64_t b_row, void *c, int64_t c_row, int64_t last, bool add) {         \
    tile_f64(rows, vectors, true, k, a, a_row, a_col, b, b_row, c, c_row, last, add);                              \
  }
TILES_1(TILE) TILES_2(TILE) TILES_3(TILE)
#undef TILE

/* [float64][partial][vectors][rows] */
static const Tile tiles[2][2][WIDE + 1][PANEL + 1] = {
#define TILE(r, v) [0][0][v][r] = full_f32_##r##_##v, [0][1][v][r] = part_f32_##r##_##v, \
                   [1][0][v][r] = full_f64_##r##_##v, [1][1][v][r] = part_f64_##r##_##v,
  TILES_1(TILE) TILES_2(TILE) TILES_3(TILE)
#undef TILE
};
static const int64_t tile_rows[WIDE + 1] = {0, TILE_ROWS_1, TILE_ROWS_2, TILE_ROWS_3};
/* Tiles of packed rows don't cross a panel; tiles of rows that lie apart should not run out of address registers. */
enum { PACKED_TILE_ROWS = TILE_ROWS_3 >= 8 ? 8 : 4 };

/* Dots: both operands run along k. lanes of partial sums, folded at the end. */
enum { DOT = 4 }; /* rows and columns of a tile */

/* The sums of four vectors' lanes. */
INLINE void fold_four_f32(const f32v v[DOT], float sums[DOT]) {
  f32v a = low_1(v[0], v[1]) + high_1(v[0], v[1]), b = low_1(v[2], v[3]) + high_1(v[2], v[3]);
  f32v each = low_2(a, b) + high_2(a, b); /* in every 128-bit part */
  float lanes[F32_LANES];
  store_f32(lanes, fold_parts_f32(each));
  memcpy(sums, lanes, DOT * sizeof *sums);
}

INLINE double fold_f64(f64v v) {
  double lane[F64_LANES];
  store_f64(lane, v);
  for (int width = F64_LANES / 2; width > 0; width /= 2)
    for (int l = 0; l < width; l++) lane[l] += lane[l + width];
  return lane[0];
}

INLINE void dots_f32(int rows, int cols, int64_t k, const float *a, int64_t a_row, const float *b, int64_t b_col,
                     float *c, int64_t c_row, bool add) {
  f32v sum[DOT][DOT];
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < cols; j++) sum[i][j] = (f32v){0};
  int64_t p = 0;
  for (; p + F32_LANES <= k; p += F32_LANES) {
    f32v y[DOT];
    UNROLL for (int j = 0; j < cols; j++) y[j] = load_f32(b + j * b_col + p);
    UNROLL for (int i = 0; i < rows; i++) {
      f32v x = load_f32(a + i * a_row + p);
      UNROLL for (int j = 0; j < cols; j++) sum[i][j] = fma_f32(x, y[j], sum[i][j]);
    }
  }
  if (p < k) UNROLL for (int i = 0; i < rows; i++) {
    f32v x = load_some_f32(a + i * a_row + p, k - p);
    UNROLL for (int j = 0; j < cols; j++) sum[i][j] = fma_f32(x, load_some_f32(b + j * b_col + p, k - p), sum[i][j]);
  }
  UNROLL for (int i = 0; i < rows; i++) {
    float dot[DOT];
    UNROLL for (int j = cols; j < DOT; j++) sum[i][j] = (f32v){0};
    fold_four_f32(sum[i], dot);
    UNROLL for (int j = 0; j < cols; j++) c[i * c_row + j] = add ? c[i * c_row + j] + dot[j] : dot[j];
  }
}

INLINE void dots_f64(int rows, int cols, int64_t k, const double *a, int64_t a_row, const double *b, int64_t b_col,
                     double *c, int64_t c_row, bool add) {
  f64v sum[DOT][DOT];
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < cols; j++) sum[i][j] = (f64v){0};
  int64_t p = 0;
  for (; p + F64_LANES <= k; p += F64_LANES) {
    f64v y[DOT];
    UNROLL for (int j = 0; j < cols; j++) y[j] = load_f64(b + j * b_col + p);
    UNROLL for (int i = 0; i < rows; i++) {
      f64v x = load_f64(a + i * a_row + p);
      UNROLL for (int j = 0; j < cols; j++) sum[i][j] = fma_f64(x, y[j], sum[i][j]);
    }
  }
  if (p < k) UNROLL for (int i = 0; i < rows; i++) {
    f64v x = load_some_f64(a + i * a_row + p, k - p);
    UNROLL for (int j = 0; j < cols; j++) sum[i][j] = fma_f64(x, load_some_f64(b + j * b_col + p, k - p), sum[i][j]);
  }
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < cols; j++) {
      double dot = fold_f64(sum[i][j]);
      c[i * c_row + j] = add ? c[i * c_row + j] + dot : dot;
    }
}

typedef void (*Dots)(int64_t k, const void *a, int64_t a_row, const void *b, int64_t b_col, void *c, int64_t c_row,
                     bool add);
#define DOTS(X) X(1, 1) X(1, 2) X(1, 3) X(1, 4) X(2, 1) X(2, 2) X(2, 3) X(2, 4) \
  X(3, 1) X(3, 2) X(3, 3) X(3, 4) X(4, 1) X(4, 2) X(4, 3) X(4, 4)
#define X(r, n)                                                                                                     \
  static void dots_f32_##r##_##n(int64_t k, const void *a, int64_t a_row, const void *b, int64_t b_col, void *c,    \
                                 int64_t c_row, bool add) {                                                         \
    dots_f32(r, n, k, a, a_row, b, b_col, c, c_row, add);                                                           \
  }                                                                                                                 \
  static void dots_f64_##r##_##n(int64_t k, const void *a, int64_t a_row, const void *b, int64_t b_col, void *c,    \
                                 int64_t c_row, bool add) {                                                         \
    dots_f64(r, n, k, a, a_row, b, b_col, c, c_row, add);                                                           \
  }
DOTS(X)
#undef X
/* [float64][rows][columns] */
static const Dots dots[2][DOT + 1][DOT + 1] = {
#define X(r, n) [0][r][n] = dots_f32_##r##_##n, [1][r][n] = dots_f64_##r##_##n,
  DOTS(X)
#undef X
};

/* How a problem is cut and what is packed; a function of its extents and strides alone. */
typedef enum BSource {
  B_DIRECT, /* B's rows are contiguous: read in place */
  B_SHARED, /* all of B transposed by gemm_pack */
  B_SLOT,   /* a chunk's block of B packed when needed: each is used by few chunks */
  B_DOTS    /* dot form, B in place */
} BSource;
typedef struct Layout {
  int64_t rows, cols;             /* of a chunk */
  int64_t row_chunks, col_chunks;
  int64_t k_part, k_parts;        /* more than one: chunks make sums over parts of k, which gemm_finish adds */
  int64_t k_block;
  BSource b;
  int64_t b_stride;               /* of packed B, elements */
  bool pack_a;
} Layout;

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/* Rows of packed B: whole vectors, and no power of two, whose lines would crowd a few sets of the cache. */
static int64_t packed_stride(int64_t cols) {
  int64_t stride = round_up(cols, F32_LANES);
  return stride % 256 ? stride : stride + 16;
}

/* The size of a chunk of n rows or columns that should be about `width`: an even number of equal ones, in whole 16s. */
static int64_t split(int64_t n, int64_t width) {
  int64_t parts = ceil_div(n, width);
  return parts == 1 ? n : round_up(ceil_div(n, round_up(parts, 2)), 16);
}

/* Large problems: A in panels, blocks of B in the slot; a chunk is tall so that packing a block of B pays. */
static void layout_large(const Gemm *g, Layout *l) {
  l->pack_a = true;
  l->b = B_SLOT;
  l->rows = round_up(ceil_div(g->m, ceil_div(g->m, 512)), PANEL);
  l->cols = split(g->n, 128);
}

/* B, or an A whose columns are contiguous, is long: few tall chunks, since each reads its part of both again. */
static void layout_long(const Gemm *g, Layout *l) {
  l->cols = split(g->n, g->m <= 64 && g->n <= 256 ? 64 : 128);
  l->rows = g->m <= 64 || (g->m <= 128 && l->cols < g->n) ? g->m : split(g->m, 96);
}

/* Chunks of whole rows of C; columns are split where those are long, or make too few chunks. */
static void layout_small(const Gemm *g, Layout *l) {
  double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;
  int64_t want = flops < 5e5 ? 1 : flops < 32e6 ? at_least((int64_t)(flops / 5e5), 2) : 64;
  l->cols = g->n <= 512 ? g->n : round_up(ceil_div(g->n, ceil_div(g->n, 480)), 48);
  l->rows = round_up(at_least(ceil_div(g->m, want), at_most(8, g->m)), 8);
  int64_t chunks = ceil_div(g->m, l->rows) * ceil_div(g->n, l->cols);
  if (chunks < at_most(want, 8) && flops / (double)chunks > 2e6 && l->cols >= 96) {
    int64_t parts = at_most(ceil_div(at_most(want, 8), chunks), l->cols / 48);
    l->cols = round_up(ceil_div(l->cols, parts), 16);
  }
}

/* The three products of a dense layer whose batch is short and whose weights [K, N] are therefore the largest matrix:
 * its output [batch, K] [K, N], the weights' gradient [K, batch] [batch, N] and the input's [batch, N] [N, K]. A line of
 * the weights that another processor wrote comes from there, at many times the cost of a line of one's own, and the
 * prefetchers ask for the lines beside those that are wanted. So all three are cut alike, by parts of K: whole rows. */
typedef enum Role { ROLE_OTHER, ROLE_OUTPUT, ROLE_WEIGHTS, ROLE_INPUT } Role;
enum { SHORT_BATCH = 64, LONG_WEIGHTS = 8 };

static bool is_worth_parting(int64_t batch, int64_t k) { return batch > 1 && batch <= SHORT_BATCH && k >= LONG_WEIGHTS * batch && k >= 128; }

static Role role_of(const Gemm *g) {
  double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;
  if (flops < 1e6 || flops > 64e6) return ROLE_OTHER;
  if (g->a_col == 1 && g->b_col == 1) return g->n >= 32 && is_worth_parting(g->m, g->k) ? ROLE_OUTPUT : ROLE_OTHER;
  if (g->a_row == 1 && g->b_col == 1) return is_worth_parting(g->k, g->m) ? ROLE_WEIGHTS : ROLE_OTHER;
  if (g->a_col == 1 && g->b_row == 1) return is_worth_parting(g->m, g->n) ? ROLE_INPUT : ROLE_OTHER;
  return ROLE_OTHER;
}

/* Parts are few, since each one's sums are kept apart: half or a quarter of K. */
static int64_t weights_part(int64_t batch, int64_t k) { return round_up(ceil_div(k, k >= 2 * LONG_WEIGHTS * batch ? 4 : 2), 16); }

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
  bool dot = role != ROLE_INPUT && g->a_col == 1 && g->b_row == 1 && (g->n == 1 || (along_k && g->m <= 48 && g->k >= 6 * g->m));
  if (!dot && role != ROLE_OTHER)
    layout_dense(g, role, &l);
  else if (!dot && (double)g->m * (double)g->n * (double)g->k >= 2e8 && g->n >= 256 && g->m >= 128)
    layout_large(g, &l);
  else if (g->k * g->n * element_bytes > 768 * 1024 || (g->a_col != 1 && g->k >= 512))
    layout_long(g, &l);
  else
    layout_small(g, &l);
  l.k_block = at_least(round_up(ceil_div(l.k_part, at_least(ceil_div(l.k_part, k_limit), 1)), 8), 8);
  l.row_chunks = ceil_div(g->m, l.rows);
  l.col_chunks = ceil_div(g->n, l.cols);
  if (dot)
    l.b = B_DOTS;
  else if (along_k && l.b == B_DIRECT)
    l.b = l.row_chunks > 1 ? B_SHARED : B_SLOT;
  l.b_stride = l.b == B_SHARED ? packed_stride(g->n) : packed_stride(at_most(l.cols, g->n));
  return l;
}

/* One column of C from an A whose columns are contiguous is better one row: C' = B' A'. */
static bool is_swapped(const Gemm *g) { return g->n == 1 && g->m > 1 && g->a_row == 1 && (!g->c || g->c_row == 1); }
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

static size_t block_bytes(int64_t rows, int64_t cols, int64_t element_bytes) {
  return (size_t)round_up(rows * cols * element_bytes, 64);
}

/* The slot holds the packed block of B, then (c NULL) the block of C. */
static size_t slot_b_bytes(const Layout *l, int64_t element_bytes) {
  return l->b == B_SLOT ? block_bytes(l->k_block, l->b_stride, element_bytes) : 0;
}
static int64_t own_c_row(const Gemm *g, const Layout *l) { return at_most(l->cols, g->n); }

/* Sums are added up by the caller alone where they are few. */
static int64_t finish_rows_at_once(const Gemm *g) {
  return g->m * g->n <= 16384 ? g->m : at_least(round_up(8192 / g->n, 8), 8);
}

static GemmPlan plan(Dtype d, const Gemm *given) {
  Gemm other = is_swapped(given) ? swapped(given) : *given;
  const Gemm *g = &other;
  int64_t element_bytes = d == F64 ? 8 : 4;
  GemmPlan p = {0};
  if (g->m <= 0 || g->n <= 0) return p;
  Layout l = layout_of(g, d == F64);
  p.chunks = l.row_chunks * l.col_chunks * l.k_parts;
  p.k_blocks = l.b == B_DOTS ? 1 : ceil_div(g->k, l.k_block);
  p.slot_bytes = slot_b_bytes(&l, element_bytes);
  if (l.k_parts > 1) {
    p.shared_bytes = block_bytes(l.k_parts * g->m, g->n, element_bytes);
    p.finish_chunks = ceil_div(g->m, finish_rows_at_once(g));
    return p;
  }
  if (!g->c) p.slot_bytes += block_bytes(at_most(l.rows, g->m), own_c_row(g, &l), element_bytes);
  if (l.pack_a) {
    p.pack_chunks = ceil_div(g->m, PANEL);
    p.shared_bytes = block_bytes(round_up(g->m, PANEL), g->k, element_bytes);
  } else if (l.b == B_SHARED) {
    p.pack_chunks = ceil_div(g->n, 64);
    p.shared_bytes = block_bytes(g->k, l.b_stride, element_bytes);
  }
  return p;
}

/* Rows of `width` float32, padded with zeros to whole vectors. */
static void copy_rows(const float *src, int64_t src_row, int64_t width, int64_t rows, float *dst, int64_t dst_row) {
  for (int64_t r = 0; r < rows; r++, src += src_row, dst += dst_row) {
    int64_t i = 0, ahead = r + 16 < rows ? 16 * src_row : 0; /* rows may lie pages apart: no hardware prefetch */
    for (; i + F32_LANES <= width; i += F32_LANES) {
      __builtin_prefetch(src + ahead + i);
      store_f32(dst + i, load_f32(src + i));
    }
    if (i < width) store_f32(dst + i, load_some_f32(src + i, width - i));
  }
}

/* dst[p * dst_row + i] = element (i, p) of a matrix with these strides, one of which is 1; rows are padded with
 * zeros to whole vectors. */
static void pack(bool f64, const void *src, int64_t row, int64_t col, int64_t rows, int64_t k, void *dst, int64_t dst_row) {
  int64_t words = f64 ? 2 : 1; /* float32 of an element, where bits are only moved */
  if (row == 1)
    copy_rows(src, col * words, rows * words, k, dst, dst_row * words);
  else if (f64)
    transpose_f64(src, row, rows, k, dst, dst_row, true);
  else
    transpose_f32(src, row, rows, k, dst, dst_row, true);
}

static void gemm_pack(Dtype d, const Gemm *given, int64_t chunk) {
  Gemm other = is_swapped(given) ? swapped(given) : *given;
  const Gemm *g = &other;
  bool f64 = d == F64;
  int64_t element_bytes = f64 ? 8 : 4;
  Layout l = layout_of(g, f64);
  if (l.pack_a) {
    int64_t row = chunk * PANEL;
    pack(f64, (const char *)g->a + row * g->a_row * element_bytes, g->a_row, g->a_col, at_most(PANEL, g->m - row), g->k,
         (char *)g->shared + row * g->k * element_bytes, PANEL);
  } else if (l.b == B_SHARED) {
    int64_t col = chunk * 64;
    pack(f64, (const char *)g->b + col * g->b_col * element_bytes, g->b_col, g->b_row, at_most(64, g->n - col), g->k,
         (char *)g->shared + col * element_bytes, l.b_stride);
  }
}

/* Memory that will be read soon: `rows` stretches of `lines` cache lines, fetched a few at each tile. */
typedef struct Ahead {
  const char *at;
  int64_t row_bytes, rows, lines, line; /* line: the next one of the stretch at `at` */
  int64_t at_once;
} Ahead;

enum { LINE_BYTES = 64 };

static void fetch_ahead(Ahead *a) {
  for (int64_t i = 0; i < a->at_once && a->rows > 0; i++) {
    __builtin_prefetch(a->at + a->line * LINE_BYTES, 0, 2);
    if (++a->line < a->lines) continue;
    a->line = 0;
    a->at += a->row_bytes;
    a->rows--;
  }
}

/* A block of C in the making: rows x cols at c, from k steps of a and b. */
typedef struct Block {
  bool f64, packed_a, swapped;
  int64_t rows, cols, k;
  const char *a, *b;
  int64_t a_row, a_col, b_row;
  int64_t panel_bytes; /* from one packed panel of a to the next */
  char *c;
  int64_t c_row;
  bool add;
  Ahead ahead; /* of the next block of b */
} Block;

/* Vectors of the next tile when `left` remain: threes, and twos rather than a lone one. */
static int64_t next_width(int64_t left) { return left == 4 || left == 2 ? 2 : at_most(left, WIDE); }

/* Rows [first, first + height) of the block; g's `ahead` is told of each tile at (row + …, col + …) of C. */
static void run_strip(Block *b, int64_t first, int64_t height, const Gemm *g, int64_t block_row, int64_t block_col) {
  int64_t element_bytes = b->f64 ? 8 : 4, lanes = b->f64 ? F64_LANES : F32_LANES;
  for (int64_t col = 0, width; col < b->cols; col += width * lanes) {
    width = next_width(ceil_div(b->cols - col, lanes));
    int64_t last = at_most(b->cols - col - (width - 1) * lanes, lanes);
    const Tile *row_tiles = tiles[b->f64][last < lanes][width];
    int64_t limit = b->packed_a || b->a_row != 1 ? at_most(PACKED_TILE_ROWS, tile_rows[width]) : tile_rows[width];
    int64_t count = ceil_div(height, limit), end = first + height;
    for (int64_t t = 0, row = first, rows; t < count; t++, row += rows) {
      rows = b->packed_a ? at_most(limit, end - row) : (end - row) / (count - t);
      if (g) g->ahead(g->context, block_row + row, rows, block_col + col, at_most(width * lanes, b->cols - col));
      fetch_ahead(&b->ahead);
      const char *a = b->packed_a ? b->a + row / PANEL * b->panel_bytes + row % PANEL * element_bytes
                                  : b->a + row * b->a_row * element_bytes;
      row_tiles[rows](b->k, a, b->a_row, b->a_col, b->b + col * element_bytes, b->b_row,
                      b->c + (row * b->c_row + col) * element_bytes, b->c_row, last, b->add);
    }
  }
}

static void run_dots(const Block *b, int64_t b_col) {
  int64_t element_bytes = b->f64 ? 8 : 4;
  for (int64_t col = 0; col < b->cols; col += DOT)
    for (int64_t row = 0; row < b->rows; row += DOT)
      dots[b->f64][at_most(DOT, b->rows - row)][at_most(DOT, b->cols - col)](
        b->k, b->a + row * b->a_row * element_bytes, b->a_row, b->b + col * b_col * element_bytes, b_col,
        b->c + (row * b->c_row + col) * element_bytes, b->c_row, b->add);
}

/* The block of b after the one at k, as it lies in memory: fetched in equal shares by the tiles of this one. */
static Ahead next_block(const Gemm *g, const Layout *l, const Block *b, int64_t k, int64_t col) {
  int64_t bytes = b->f64 ? 8 : 4, next = k + l->k_block, depth = at_most(l->k_block, g->k - next);
  if (l->b != B_SLOT || !l->pack_a || depth <= 0) return (Ahead){0};
  bool along_k = g->b_row == 1;
  int64_t calls = ceil_div(b->rows, PACKED_TILE_ROWS) * ceil_div(b->cols, WIDE * (b->f64 ? F64_LANES : F32_LANES));
  Ahead a = {.at = (const char *)g->b + (next * g->b_row + col * g->b_col) * bytes,
             .row_bytes = (along_k ? g->b_col : g->b_row) * bytes,
             .rows = along_k ? b->cols : depth,
             .lines = ceil_div((along_k ? depth : b->cols) * bytes, LINE_BYTES)};
  a.at_once = ceil_div(a.rows * a.lines, calls);
  return a;
}

/* Rows [first, first + height) of the block are final. A swapped problem's one row is a column of the given one. */
static void finish_rows(const Block *b, const Gemm *g, int64_t row, int64_t first, int64_t height, int64_t col, int slot) {
  if (b->swapped) g->epilogue(g->context, b->c, 1, col, b->cols, 0, 1, slot);
  else g->epilogue(g->context, b->c + first * b->c_row * (b->f64 ? 8 : 4), b->c_row, row + first, height, col, b->cols, slot);
}

/* The epilogue of a large block, or of one that is soon computed, takes panel after panel, which is still near. */
static void run_last_strips(Block *b, const Gemm *g, int64_t row, int64_t col, int slot) {
  int64_t height = b->packed_a || g->k <= SHORT_BATCH ? PANEL : b->rows;
  for (int64_t first = 0; first < b->rows; first += height) {
    int64_t rows = at_most(height, b->rows - first);
    run_strip(b, first, rows, b->packed_a && g->ahead ? g : NULL, row, col);
    finish_rows(b, g, row, first, rows, col, slot);
  }
}

/* The sums over one part of k of a block of C. */
static void run_part(const Gemm *g, const Layout *l, Block *b, int64_t part, int64_t row, int64_t col) {
  int64_t bytes = b->f64 ? 8 : 4, begin = part * l->k_part, end = at_most(begin + l->k_part, g->k);
  b->c = (char *)g->shared + (part * g->m * g->n + row * g->n + col) * bytes;
  b->c_row = g->n;
  for (int64_t k = begin; k < end; k += l->k_block) {
    b->k = at_most(l->k_block, end - k);
    b->add = k > begin;
    b->a = (const char *)g->a + (row * g->a_row + k * g->a_col) * bytes;
    b->b = (const char *)g->b + (k * g->b_row + col * g->b_col) * bytes;
    run_strip(b, 0, b->rows, NULL, row, col);
  }
}

/* to[i] (+)= the sum over parts of part[p * apart + i]. */
#define DEFINE_SUM(bits)                                                                                                     \
  static void sum_parts_f##bits(real##bits *to, const real##bits *part, int64_t parts, int64_t apart, int64_t n, bool add) { \
    for (int64_t i = 0; i < n; i += F##bits##_LANES) {                                                                       \
      int64_t left = n - i;                                                                                                  \
      bool whole = left >= F##bits##_LANES;                                                                                  \
      const real##bits *first = add ? to + i : part + i;                                                                     \
      f##bits##v sum = whole ? load_f##bits(first) : load_some_f##bits(first, left);                                         \
      for (int64_t p = !add; p < parts; p++)                                                                                 \
        sum += whole ? load_f##bits(part + p * apart + i) : load_some_f##bits(part + p * apart + i, left);                   \
      if (whole) store_f##bits(to + i, sum);                                                                                 \
      else store_some_f##bits(to + i, left, sum);                                                                            \
    }                                                                                                                        \
  }
typedef float real32;
typedef double real64;
DEFINE_SUM(32)
DEFINE_SUM(64)
#undef DEFINE_SUM

static void gemm_finish(Dtype d, const Gemm *g, int64_t chunk, int slot) {
  Layout l = layout_of(g, d == F64);
  int64_t bytes = d == F64 ? 8 : 4, at_once = finish_rows_at_once(g);
  int64_t row = chunk * at_once, rows = at_most(at_once, g->m - row), c_row = g->c ? g->c_row : g->n;
  char *part = (char *)g->shared + row * g->n * bytes, *c = g->c ? (char *)g->c + row * g->c_row * bytes : part;
  for (int64_t r = 0; r < rows; r++) {
    char *to = c + r * c_row * bytes, *from = part + r * g->n * bytes;
    if (d == F64) sum_parts_f64((real64 *)to, (const real64 *)from, l.k_parts, g->m * g->n, g->n, g->accumulate);
    else sum_parts_f32((real32 *)to, (const real32 *)from, l.k_parts, g->m * g->n, g->n, g->accumulate);
  }
  if (g->epilogue) g->epilogue(g->context, c, c_row, row, rows, 0, g->n, slot);
}

static void run_k_blocks(const Gemm *g, const Layout *l, Block *b, int64_t row, int64_t col, char *scratch, int slot) {
  int64_t element_bytes = b->f64 ? 8 : 4;
  for (int64_t k = 0; k == 0 || k < g->k; k += l->k_block) {
    b->k = at_most(l->k_block, g->k - k);
    b->add = g->accumulate || k > 0;
    b->a = l->pack_a ? (const char *)g->shared + (row * g->k + k * PANEL) * element_bytes
                     : (const char *)g->a + (row * g->a_row + k * g->a_col) * element_bytes;
    const char *source = (const char *)g->b + (k * g->b_row + col * g->b_col) * element_bytes;
    if (l->b == B_DIRECT) {
      b->b = source;
    } else if (l->b == B_SHARED) {
      b->b = (const char *)g->shared + (k * l->b_stride + col) * element_bytes;
    } else {
      pack(b->f64, source, g->b_col, g->b_row, b->cols, b->k, scratch, l->b_stride);
      b->b = scratch;
    }
    b->ahead = next_block(g, l, b, k, col);
    if (g->epilogue && k + l->k_block >= g->k) run_last_strips(b, g, row, col, slot);
    else run_strip(b, 0, b->rows, NULL, row, col);
  }
}

static void gemm_run(Dtype d, const Gemm *given, int64_t chunk, int slot) {
  bool swap = is_swapped(given);
  Gemm other;
  if (swap) other = swapped(given);
  const Gemm *g = swap ? &other : given;
  int64_t element_bytes = d == F64 ? 8 : 4;
  Layout l = layout_of(g, d == F64);
  int64_t part = chunk / (l.row_chunks * l.col_chunks), place = chunk % (l.row_chunks * l.col_chunks);
  int64_t row = place / l.col_chunks * l.rows, col = place % l.col_chunks * l.cols;
  char *scratch = (char *)g->slots + (size_t)slot * g->slot_bytes;
  Block b = {.f64 = d == F64, .packed_a = l.pack_a, .swapped = swap, .rows = at_most(l.rows, g->m - row), .cols = at_most(l.cols, g->n - col)};
  b.a_row = b.packed_a ? 1 : g->a_row;
  b.a_col = b.packed_a ? PANEL : g->a_col;
  b.panel_bytes = g->k * PANEL * element_bytes;
  b.b_row = l.b == B_DIRECT ? g->b_row : l.b_stride;
  b.c_row = g->c ? g->c_row : own_c_row(g, &l);
  b.c = g->c ? (char *)g->c + (row * g->c_row + col) * element_bytes : scratch + slot_b_bytes(&l, element_bytes);
  if (l.k_parts > 1) {
    run_part(g, &l, &b, part, row, col);
  } else if (l.b == B_DOTS) {
    b.k = g->k;
    b.add = g->accumulate;
    b.a = (const char *)g->a + row * g->a_row * element_bytes;
    b.b = (const char *)g->b + col * g->b_col * element_bytes;
    run_dots(&b, g->b_col);
    if (g->epilogue) finish_rows(&b, g, row, 0, b.rows, col, slot);
  } else {
    run_k_blocks(g, &l, &b, row, col, scratch, slot);
  }
}

void FILL(matmul)(Kernels *k) {
  k->gemm_plan = plan;
  k->gemm_pack = gemm_pack;
  k->gemm_run = gemm_run;
  k->gemm_finish = gemm_finish;
}
