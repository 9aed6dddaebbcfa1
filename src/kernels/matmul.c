/* C = A B. A tile of C stays in registers over a range of k. Each step loads a row of B in vectors,
 * and broadcasts a column of A element by element. Operands are read in place if that is fast. B is
 * transposed or packed first if its rows run along k, and A if the problem is large.
 *
 * Each element of C is a chain of multiply-adds for each block of k, and the blocks are added in
 * order. The blocks depend on the extents alone, so chunks and packing don't change a bit. Only the
 * dot form, which extents and strides select, sums along k in lanes. */
#include "kernels/fill.h"
#include "kernels/layout.h"
#include "kernels/simd.h"
#include "kernels/transpose.h"

enum {
  LINE_BYTES = 64,
  WIDE = 3, /* vectors of the widest tile */
  DOT = 4   /* rows and columns of a tile of dots */
};
/* clang-format off */
#define DOTS(X) X(1, 1) X(1, 2) X(1, 3) X(1, 4) X(2, 1) X(2, 2) X(2, 3) X(2, 4) \
  X(3, 1) X(3, 2) X(3, 3) X(3, 4) X(4, 1) X(4, 2) X(4, 3) X(4, 4)
/* clang-format on */

/* The sums of four vectors' lanes. */
INLINE void fold_four_f32(const f32v v[DOT], float sums[DOT]) {
  f32v a = low_1(v[0], v[1]) + high_1(v[0], v[1]), b = low_1(v[2], v[3]) + high_1(v[2], v[3]);
  f32v each = low_2(a, b) + high_2(a, b); /* in every 128-bit part */
  float lanes[F32_LANES];
  store_f32(lanes, fold_parts_f32(each));
  memcpy(sums, lanes, DOT * sizeof *sums);
}

/* The sum of each of a row's vectors. */
INLINE void fold_row_f32(int cols, f32v row[DOT], float sums[DOT]) {
  UNROLL for (int j = cols; j < DOT; j++) row[j] = (f32v){0};
  fold_four_f32(row, sums);
}

INLINE double fold_f64(f64v v) {
  double lane[F64_LANES];
  store_f64(lane, v);
  for (int width = F64_LANES / 2; width > 0; width /= 2)
    for (int l = 0; l < width; l++) lane[l] += lane[l + width];
  return lane[0];
}

INLINE void fold_row_f64(int cols, const f64v row[DOT], double sums[DOT]) {
  UNROLL for (int j = 0; j < cols; j++) sums[j] = fold_f64(row[j]);
}

#include "kernels/real_f32.h"

#include "kernels/matmul.h"

#include "kernels/real_f64.h"

#include "kernels/matmul.h"

/* [float64][partial][vectors][rows] */
typedef void (*Tile)(int64_t k, const void *a, int64_t a_row, int64_t a_col, const void *b,
                     int64_t b_row, void *c, int64_t c_row, int64_t last, bool add,
                     const char *ahead, int64_t lines);
static const Tile tiles[2][2][WIDE + 1][PANEL + 1] = {
#define TILE(r, v)                                                          \
  [0][0][v][r] = full_##r##_##v##_f32, [0][1][v][r] = part_##r##_##v##_f32, \
  [1][0][v][r] = full_##r##_##v##_f64, [1][1][v][r] = part_##r##_##v##_f64,
    TILES_1(TILE) TILES_2(TILE) TILES_3(TILE)
#undef TILE
};
static const int64_t tile_rows[WIDE + 1] = {0, TILE_ROWS_1, TILE_ROWS_2, TILE_ROWS_3};
/* Tiles of packed rows don't cross a panel; tiles of rows that lie apart should not run out of
 * address registers. */
enum { PACKED_TILE_ROWS = TILE_ROWS_3 >= 8 ? 8 : 4 };

/* [float64][rows][columns] */
typedef void (*Dots)(int64_t k, const void *a, int64_t a_row, const void *b, int64_t b_col, void *c,
                     int64_t c_row, bool add);
static const Dots dots[2][DOT + 1][DOT + 1] = {
#define X(r, n) [0][r][n] = dots_##r##_##n##_f32, [1][r][n] = dots_##r##_##n##_f64,
    DOTS(X)
#undef X
};

static size_t block_bytes(int64_t rows, int64_t cols, int64_t element_bytes) {
  return (size_t)round_up(rows * cols * element_bytes, 64);
}

/* The slot holds the packed block of B, then (c NULL) the block of C. */
static size_t slot_b_bytes(const Layout *l, int64_t element_bytes) {
  return l->b == B_SLOT ? block_bytes(l->k_block, l->b_stride, element_bytes) : 0;
}
static int64_t own_c_row(const Gemm *g, const Layout *l) { return min(l->cols, g->n); }

/* A few sums are added by the calling thread alone. */
static int64_t finish_rows_at_once(const Gemm *g) {
  return g->m * g->n <= 16384 ? g->m : max(round_up(8192 / g->n, 8), 8);
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
  if (!g->c) p.slot_bytes += block_bytes(min(l.rows, g->m), own_c_row(g, &l), element_bytes);
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
static void copy_rows(const float *src, int64_t src_row, int64_t width, int64_t rows, float *dst,
                      int64_t dst_row) {
  for (int64_t r = 0; r < rows; r++, src += src_row, dst += dst_row) {
    /* rows may lie pages apart: no hardware prefetch */
    int64_t i = 0, ahead = r + 16 < rows ? 16 * src_row : 0;
    for (; i + F32_LANES <= width; i += F32_LANES) {
      __builtin_prefetch(src + ahead + i);
      store_f32(dst + i, load_f32(src + i));
    }
    if (i < width) store_f32(dst + i, load_some_f32(src + i, width - i));
  }
}

/* dst[p * dst_row + i] = element (i, p) of a matrix with these strides. One stride is 1. Rows of
 * dst are padded with zeros to whole vectors. */
static void pack(bool f64, const void *src, int64_t row, int64_t col, int64_t rows, int64_t k,
                 void *dst, int64_t dst_row) {
  int64_t words = f64 ? 2 : 1; /* float32 of an element, where bits are only moved */
  if (row == 1) copy_rows(src, col * words, rows * words, k, dst, dst_row * words);
  else if (f64) transpose_f64(src, row, rows, k, dst, dst_row, true);
  else transpose_f32(src, row, rows, k, dst, dst_row, true);
}

/* Not for a swapped problem: its one row and the rows of its B are read in place. */
static void gemm_pack(Dtype d, const Gemm *g, int64_t chunk) {
  bool f64 = d == F64;
  int64_t element_bytes = f64 ? 8 : 4;
  Layout l = layout_of(g, f64);
  if (l.pack_a) {
    int64_t row = chunk * PANEL;
    pack(f64, (const char *)g->a + row * g->a_row * element_bytes, g->a_row, g->a_col,
         min(PANEL, g->m - row), g->k, (char *)g->shared + row * g->k * element_bytes, PANEL);
  } else { /* B_SHARED */
    int64_t col = chunk * 64;
    pack(f64, (const char *)g->b + col * g->b_col * element_bytes, g->b_col, g->b_row,
         min(64, g->n - col), g->k, (char *)g->shared + col * element_bytes, l.b_stride);
  }
}

/* Memory to be prefetched: `rows` stretches of `lines` cache lines, which the tiles share
 * equally. */
typedef struct Ahead {
  const char *at;
  int64_t row_bytes, rows, lines, line; /* line: the next one of the stretch at `at` */
  int64_t at_once;
} Ahead;

static int64_t take_stretch(Ahead *a, int64_t max, const char **from) {
  int64_t lines = min(max, a->lines - a->line);
  *from = a->at + a->line * LINE_BYTES;
  a->line += lines;
  if (a->line == a->lines) {
    a->line = 0;
    a->at += a->row_bytes;
    a->rows--;
  }
  return lines;
}

/* The number of lines that the next tile prefetches, and their address. Lines of earlier stretches
 * are prefetched here. */
static int64_t take_ahead(Ahead *a, const char **from) {
  int64_t left = a->at_once, lines = 0;
  while (a->rows > 0 && left > 0) {
    for (int64_t i = 0; i < lines; i++) __builtin_prefetch(*from + i * LINE_BYTES, 0, 2);
    lines = take_stretch(a, left, from);
    left -= lines;
  }
  return lines;
}

/* A block of C that is being computed: rows x cols at c, from k steps of a and b. */
typedef struct Block {
  bool f64, packed_a, swapped;
  int64_t rows, cols, k;
  const char *a, *b;
  int64_t a_row, a_col, b_row;
  int64_t panel_bytes; /* from one packed panel of a to the next */
  char *c;
  int64_t c_row;
  bool add;
  Ahead ahead; /* of the next block of b, or of the next product */
} Block;

/* Vectors of the next tile when `left` remain: threes, and twos rather than a lone one. */
static int64_t next_width(int64_t left) { return left == 4 || left == 2 ? 2 : min(left, WIDE); }

/* Computes rows [first, first + height) of the block, whose first element is (row, col) of C.
 * g->ahead is called for each tile. */
static void run_strip(Block *b, int64_t first, int64_t height, const Gemm *g, int64_t block_row,
                      int64_t block_col) {
  int64_t element_bytes = b->f64 ? 8 : 4, lanes = b->f64 ? F64_LANES : F32_LANES;
  for (int64_t col = 0, width; col < b->cols; col += width * lanes) {
    width = next_width(ceil_div(b->cols - col, lanes));
    int64_t last = min(b->cols - col - (width - 1) * lanes, lanes);
    const Tile *row_tiles = tiles[b->f64][last < lanes][width];
    int64_t limit =
        b->packed_a || b->a_row != 1 ? min(PACKED_TILE_ROWS, tile_rows[width]) : tile_rows[width];
    int64_t count = ceil_div(height, limit), end = first + height;
    for (int64_t t = 0, row = first, rows; t < count; t++, row += rows) {
      rows = b->packed_a ? min(limit, end - row) : (end - row) / (count - t);
      if (g)
        g->ahead(g->context, block_row + row, rows, block_col + col,
                 min(width * lanes, b->cols - col));
      const char *ahead = NULL;
      int64_t lines = take_ahead(&b->ahead, &ahead);
      const char *a = b->packed_a
                          ? b->a + row / PANEL * b->panel_bytes + row % PANEL * element_bytes
                          : b->a + row * b->a_row * element_bytes;
      row_tiles[rows](b->k, a, b->a_row, b->a_col, b->b + col * element_bytes, b->b_row,
                      b->c + (row * b->c_row + col) * element_bytes, b->c_row, last, b->add, ahead,
                      lines);
    }
  }
}

static void run_dots(const Block *b, int64_t b_col) {
  int64_t element_bytes = b->f64 ? 8 : 4;
  for (int64_t col = 0; col < b->cols; col += DOT)
    for (int64_t row = 0; row < b->rows; row += DOT)
      dots[b->f64][min(DOT, b->rows - row)][min(DOT, b->cols - col)](
          b->k, b->a + row * b->a_row * element_bytes, b->a_row, b->b + col * b_col * element_bytes,
          b_col, b->c + (row * b->c_row + col) * element_bytes, b->c_row, b->add);
}

/* The block of b after the one at k, which is not the last, in memory. The tiles of this block
 * prefetch it in equal shares. */
static Ahead next_block(const Gemm *g, const Layout *l, const Block *b, int64_t k, int64_t col) {
  int64_t bytes = b->f64 ? 8 : 4, next = k + l->k_block, depth = min(l->k_block, g->k - next);
  if (l->b != B_SLOT || !l->pack_a) return (Ahead){0};
  bool along_k = g->b_row == 1;
  int64_t calls = ceil_div(b->rows, PACKED_TILE_ROWS) *
                  ceil_div(b->cols, WIDE * (b->f64 ? F64_LANES : F32_LANES));
  Ahead a = {.at = (const char *)g->b + (next * g->b_row + col * g->b_col) * bytes,
             .row_bytes = (along_k ? g->b_col : g->b_row) * bytes,
             .rows = along_k ? b->cols : depth,
             .lines = ceil_div((along_k ? depth : b->cols) * bytes, LINE_BYTES)};
  a.at_once = ceil_div(a.rows * a.lines, calls);
  return a;
}

/* The chunk's share of the next product's B, if that fits beside what this one needs. */
static Ahead next_product(const Gemm *g, const Layout *l, const Block *b, int64_t chunk) {
  enum { MAX_BYTES = 1024 * 1024 };
  const Gemm *next = g->next;
  int64_t bytes = next ? next->k * next->n * (b->f64 ? 8 : 4) : 0,
          chunks = l->row_chunks * l->col_chunks * l->k_parts;
  if (bytes == 0 || bytes > MAX_BYTES || next->b == g->a || next->b == g->b || next->b == g->c)
    return (Ahead){0};
  int64_t share = ceil_div(ceil_div(bytes, LINE_BYTES), chunks);
  int64_t calls = ceil_div(b->rows, PACKED_TILE_ROWS) *
                  ceil_div(b->cols, WIDE * (b->f64 ? F64_LANES : F32_LANES));
  return (Ahead){.at = (const char *)next->b + chunk * share * LINE_BYTES,
                 .rows = 1,
                 .lines = share,
                 .at_once = ceil_div(share, calls)};
}

/* Calls the epilogue for rows [first, first + height) of the block. The one row of a swapped
 * problem is a column of the given one. */
static void finish_rows(const Block *b, const Gemm *g, int64_t row, int64_t first, int64_t height,
                        int64_t col, int slot) {
  if (b->swapped) g->epilogue(g->context, b->c, 1, col, b->cols, 0, 1, slot);
  else
    g->epilogue(g->context, b->c + first * b->c_row * (b->f64 ? 8 : 4), b->c_row, row + first,
                height, col, b->cols, slot);
}

/* The epilogue of a large block, or of one that is soon computed, takes panel after panel, which
 * is still near. */
static void run_last_strips(Block *b, const Gemm *g, int64_t row, int64_t col, int slot) {
  int64_t height = b->packed_a || g->k <= SHORT_BATCH ? PANEL : b->rows;
  /* prefetching takes longer than a short product */
  bool fetches = g->ahead && !b->swapped && (b->packed_a || (g->next && g->k > SHORT_BATCH));
  for (int64_t first = 0; first < b->rows; first += height) {
    int64_t rows = min(height, b->rows - first);
    run_strip(b, first, rows, fetches ? g : NULL, row, col);
    finish_rows(b, g, row, first, rows, col, slot);
  }
}

/* The sums over one part of k of a block of C. */
static void run_part(const Gemm *g, const Layout *l, Block *b, int64_t chunk, int64_t part,
                     int64_t row, int64_t col) {
  int64_t bytes = b->f64 ? 8 : 4, begin = part * l->k_part, end = min(begin + l->k_part, g->k);
  b->c = (char *)g->shared + (part * g->m * g->n + row * g->n + col) * bytes;
  b->c_row = g->n;
  for (int64_t k = begin; k < end; k += l->k_block) {
    b->k = min(l->k_block, end - k);
    b->add = k > begin;
    b->a = (const char *)g->a + (row * g->a_row + k * g->a_col) * bytes;
    b->b = (const char *)g->b + (k * g->b_row + col * g->b_col) * bytes;
    if (end - k <= l->k_block) b->ahead = next_product(g, l, b, chunk);
    run_strip(b, 0, b->rows, NULL, row, col);
  }
}

static void gemm_finish(Dtype d, const Gemm *g, int64_t chunk, int slot) {
  Layout l = layout_of(g, d == F64);
  int64_t bytes = d == F64 ? 8 : 4, at_once = finish_rows_at_once(g);
  int64_t row = chunk * at_once, rows = min(at_once, g->m - row), c_row = g->c ? g->c_row : g->n;
  char *part = (char *)g->shared + row * g->n * bytes,
       *c = g->c ? (char *)g->c + row * g->c_row * bytes : part;
  for (int64_t r = 0; r < rows; r++) {
    char *to = c + r * c_row * bytes, *from = part + r * g->n * bytes;
    if (d == F64)
      sum_parts_f64((double *)to, (const double *)from, l.k_parts, g->m * g->n, g->n,
                    g->accumulate);
    else
      sum_parts_f32((float *)to, (const float *)from, l.k_parts, g->m * g->n, g->n, g->accumulate);
  }
  if (g->epilogue) g->epilogue(g->context, c, c_row, row, rows, 0, g->n, slot);
}

static void run_k_blocks(const Gemm *g, const Layout *l, Block *b, int64_t chunk, int64_t row,
                         int64_t col, char *scratch, int slot) {
  int64_t element_bytes = b->f64 ? 8 : 4;
  for (int64_t k = 0; k == 0 || k < g->k; k += l->k_block) {
    b->k = min(l->k_block, g->k - k);
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
    b->ahead = k + l->k_block < g->k ? next_block(g, l, b, k, col) : next_product(g, l, b, chunk);
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
  int64_t part = chunk / (l.row_chunks * l.col_chunks),
          place = chunk % (l.row_chunks * l.col_chunks);
  int64_t row = place / l.col_chunks * l.rows, col = place % l.col_chunks * l.cols;
  char *scratch = (char *)g->slots + (size_t)slot * g->slot_bytes;
  Block b = {.f64 = d == F64,
             .packed_a = l.pack_a,
             .swapped = swap,
             .rows = min(l.rows, g->m - row),
             .cols = min(l.cols, g->n - col)};
  b.a_row = b.packed_a ? 1 : g->a_row;
  b.a_col = b.packed_a ? PANEL : g->a_col;
  b.panel_bytes = g->k * PANEL * element_bytes;
  b.b_row = l.b == B_DIRECT ? g->b_row : l.b_stride;
  b.c_row = g->c ? g->c_row : own_c_row(g, &l);
  b.c = g->c ? (char *)g->c + (row * g->c_row + col) * element_bytes
             : scratch + slot_b_bytes(&l, element_bytes);
  if (l.k_parts > 1) {
    run_part(g, &l, &b, chunk, part, row, col);
  } else if (l.b == B_DOTS) {
    b.k = g->k;
    b.add = g->accumulate;
    b.a = (const char *)g->a + row * g->a_row * element_bytes;
    b.b = (const char *)g->b + col * g->b_col * element_bytes;
    run_dots(&b, g->b_col);
    if (g->epilogue) finish_rows(&b, g, row, 0, b.rows, col, slot);
  } else {
    run_k_blocks(g, &l, &b, chunk, row, col, scratch, slot);
  }
}

void FILL(matmul)(Kernels *k) {
  k->gemm_plan = plan;
  k->gemm_pack = gemm_pack;
  k->gemm_run = gemm_run;
  k->gemm_finish = gemm_finish;
}
