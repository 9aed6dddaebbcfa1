/* Batches of matrices, transposed in blocks that both sides' cache lines and pages survive. */
#include "kernels/transpose.h"
#include "kernels/fill.h"

enum { BLOCK = 64 }; /* rows and columns of a block */

static void block_4(const void *x, int64_t x_row, int64_t rows, int64_t cols, void *y,
                    int64_t y_row) {
  transpose_f32(x, x_row, rows, cols, y, y_row, false);
}
static void block_8(const void *x, int64_t x_row, int64_t rows, int64_t cols, void *y,
                    int64_t y_row) {
  transpose_f64(x, x_row, rows, cols, y, y_row, false);
}
#define BLOCK_OF(name, T)                                                                 \
  static void name(const void *from, int64_t x_row, int64_t rows, int64_t cols, void *to, \
                   int64_t y_row) {                                                       \
    const T *x = from;                                                                    \
    T *y = to;                                                                            \
    for (int64_t c = 0; c < cols; c++)                                                    \
      for (int64_t r = 0; r < rows; r++) y[c * y_row + r] = x[r * x_row + c];             \
  }
BLOCK_OF(block_1, uint8_t)
BLOCK_OF(block_2, uint16_t)

static void transpose(size_t size, const void *x, int64_t batch, int64_t rows, int64_t cols,
                      void *y) {
  void (*block)(const void *, int64_t, int64_t, int64_t, void *, int64_t) = size == 8   ? block_8
                                                                            : size == 4 ? block_4
                                                                            : size == 2 ? block_2
                                                                                        : block_1;
  int64_t bytes = (int64_t)size;
  for (int64_t b = 0; b < batch; b++) {
    const char *from = (const char *)x + b * rows * cols * bytes;
    char *to = (char *)y + b * rows * cols * bytes;
    for (int64_t r = 0; r < rows; r += BLOCK)
      for (int64_t c = 0; c < cols; c += BLOCK)
        block(from + (r * cols + c) * bytes, cols, rows - r < BLOCK ? rows - r : BLOCK,
              cols - c < BLOCK ? cols - c : BLOCK, to + (c * rows + r) * bytes, rows);
  }
}

void FILL(transpose)(Kernels *k) { k->transpose = transpose; }
