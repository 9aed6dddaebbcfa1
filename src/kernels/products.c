#include "kernels/products.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "kernels/blas.h"

/* ---- which products OpenBLAS computes ---- */

/* Products of at least so many multiply-adds, extents and columns of C are faster by OpenBLAS (make
 * bench-gemm; docs/performance.md has the measurements). */
typedef struct Faster {
  const char *class;
  const char *core; /* NULL: whatever OpenBLAS takes */
  double work;
  int64_t min, columns;
} Faster;
static const Faster faster[] = {
#if defined(__x86_64__)
    {"avx2", "Haswell", 64e6, 128, 256},
    {"base", "Prescott", 8e6, 128, 128},
    {"base", "Sandybridge", 1e6, 16, 16},
#else
    {"base", NULL, 1e6, 16, 16},
#endif
};

static bool is_faster(const Kernels *k, const Gemm *g) {
  double work = (double)g->m * (double)g->n * (double)g->k;
  for (size_t i = 0; i < sizeof faster / sizeof *faster; i++) {
    const Faster *f = &faster[i];
    if (strcmp(f->class, k->name) || (f->core && strcmp(f->core, k->core))) continue;
    if (work >= f->work && g->m >= f->min && g->n >= f->min && g->k >= f->min && g->n >= f->columns)
      return true;
  }
  return false;
}

/* Rows that lie apart by no less than their length, in int. */
static bool is_readable(int64_t row, int64_t col, int64_t rows, int64_t cols) {
  int64_t apart = col == 1 ? row : row == 1 ? col : 0;
  return apart >= (col == 1 ? cols : rows) && apart > 0 && apart <= INT_MAX;
}

static bool can_take(const Gemm *g) {
  return g->m > 0 && g->n > 0 && g->k > 0 && g->m <= INT_MAX && g->n <= INT_MAX &&
         g->k <= INT_MAX && g->c_row <= INT_MAX && is_readable(g->a_row, g->a_col, g->m, g->k) &&
         is_readable(g->b_row, g->b_col, g->k, g->n);
}

static bool goes_to_openblas(const Kernels *k, const Gemm *g) {
  if (k->products == PRODUCTS_OWN || !can_take(g)) return false;
  if (k->products == PRODUCTS_BY_TABLE && !is_faster(k, g)) return false;
  const Blas *b = blas_open();
  return b && b->is_openblas;
}

/* ---- OpenBLAS in the form of our own ---- */

/* Of a chunk. OpenBLAS packs both operands of each call: smaller ones would cost time. */
enum { CHUNK_ROWS = 256, CHUNK_COLS = 512, MIN_CHUNKS = 4, MIN_EXTENT = 64, EPILOGUE_ROWS = 16 };

typedef struct Cut {
  int64_t rows, cols, row_chunks, col_chunks;
} Cut;

/* n in equal parts of at most `most`, in whole 16s. */
static int64_t part_of(int64_t n, int64_t max) {
  int64_t parts = ceil_div(n, max), size = ceil_div(n, parts);
  return parts == 1 ? n : (size + 15) / 16 * 16;
}

static Cut cut_of(const Gemm *g) {
  Cut c = {.rows = part_of(g->m, CHUNK_ROWS), .cols = part_of(g->n, CHUNK_COLS)};
  /* a product of few chunks leaves threads idle: a gradient of weights is often one */
  while (ceil_div(g->m, c.rows) * ceil_div(g->n, c.cols) < MIN_CHUNKS &&
         (c.rows > c.cols ? c.rows : c.cols) >= 2 * MIN_EXTENT) {
    int64_t *longer = c.rows > c.cols ? &c.rows : &c.cols;
    *longer = part_of(*longer, ceil_div(*longer, 2));
  }
  c.row_chunks = (g->m + c.rows - 1) / c.rows;
  c.col_chunks = (g->n + c.cols - 1) / c.cols;
  return c;
}

static GemmPlan plan_blas(Dtype d, const Gemm *g) {
  Cut c = cut_of(g);
  /* how the sums are formed is the library's: adding into C isn't taken for adding the product */
  GemmPlan p = {.openblas = true, .chunks = c.row_chunks * c.col_chunks, .k_blocks = 2};
  if (!g->c) p.slot_bytes = ((size_t)(c.rows * c.cols) * dtype_size(d) + 63) / 64 * 64;
  return p;
}

/* C = A B (+ C) as C' = B' A' of column-major matrices. */
static void multiply(const Blas *blas, Dtype d, const Gemm *g, const void *a, const void *b,
                     void *c, int64_t c_row, int64_t rows, int64_t cols) {
  int m = (int)rows, n = (int)cols, k = (int)g->k, ldc = (int)c_row;
  bool turn_a = g->a_col != 1, turn_b = g->b_col != 1;
  int lda = (int)(turn_a ? g->a_col : g->a_row), ldb = (int)(turn_b ? g->b_col : g->b_row);
  const char *ta = turn_a ? "T" : "N", *tb = turn_b ? "T" : "N";
  if (d == F64) {
    double one = 1, add = g->accumulate ? 1 : 0;
    blas->f64.gemm(tb, ta, &n, &m, &k, &one, b, &ldb, a, &lda, &add, c, &ldc, 1, 1);
  } else {
    float one = 1, add = g->accumulate ? 1 : 0;
    blas->f32.gemm(tb, ta, &n, &m, &k, &one, b, &ldb, a, &lda, &add, c, &ldc, 1, 1);
  }
}

static void run_blas(Dtype d, const Gemm *g, int64_t chunk, int slot) {
  Cut cut = cut_of(g);
  int64_t size = (int64_t)dtype_size(d);
  int64_t row = chunk / cut.col_chunks * cut.rows, col = chunk % cut.col_chunks * cut.cols;
  int64_t rows = g->m - row < cut.rows ? g->m - row : cut.rows;
  int64_t cols = g->n - col < cut.cols ? g->n - col : cut.cols;
  const char *a = (const char *)g->a + row * g->a_row * size;
  const char *b = (const char *)g->b + col * g->b_col * size;
  int64_t c_row = g->c ? g->c_row : cols;
  char *c = g->c ? (char *)g->c + (row * g->c_row + col) * size
                 : (char *)g->slots + (size_t)slot * g->slot_bytes;
  multiply(blas_open(), d, g, a, b, c, c_row, rows, cols);
  for (int64_t r = 0; g->epilogue && r < rows; r += EPILOGUE_ROWS)
    g->epilogue(g->context, c + r * c_row * size, c_row, row + r,
                rows - r < EPILOGUE_ROWS ? rows - r : EPILOGUE_ROWS, col, cols, slot);
}

/* ---- the choice ---- */

GemmPlan product_plan(const Kernels *k, Dtype d, const Gemm *g) {
  return goes_to_openblas(k, g) ? plan_blas(d, g) : k->gemm_plan(d, g);
}

void product_pack(const Kernels *k, const GemmPlan *p, Dtype d, const Gemm *g, int64_t chunk) {
  if (!p->openblas) k->gemm_pack(d, g, chunk);
}

void product_chunk(const Kernels *k, const GemmPlan *p, Dtype d, const Gemm *g, int64_t chunk,
                   int slot) {
  if (p->openblas) run_blas(d, g, chunk, slot);
  else k->gemm_run(d, g, chunk, slot);
}

void product_finish(const Kernels *k, const GemmPlan *p, Dtype d, const Gemm *g, int64_t chunk,
                    int slot) {
  if (!p->openblas) k->gemm_finish(d, g, chunk, slot);
}

bool products_use(const char *name, ProductUse *use) {
  bool none = !name || !*name;
  *use = none ? PRODUCTS_BY_TABLE : !strcmp(name, "own") ? PRODUCTS_OWN : PRODUCTS_OPENBLAS;
  return none || *use == PRODUCTS_OWN || !strcmp(name, "openblas");
}

static bool has_rows(const Kernels *k) {
  for (size_t i = 0; i < sizeof faster / sizeof *faster; i++)
    if (!strcmp(faster[i].class, k->name) && (!faster[i].core || !strcmp(faster[i].core, k->core)))
      return true;
  return false;
}

const char *products_text(const Kernels *k, char text[PRODUCTS_TEXT]) {
  bool asks = k->products == PRODUCTS_OPENBLAS || (k->products == PRODUCTS_BY_TABLE && has_rows(k));
  const Blas *b = asks ? blas_open() : NULL;
  if (!b || !b->is_openblas) return "own kernels";
  snprintf(text, PRODUCTS_TEXT, "OpenBLAS %s (%s)%s", b->version, b->core,
           k->products == PRODUCTS_OPENBLAS ? "" : " where it is faster");
  return text;
}
