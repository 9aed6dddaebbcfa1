/* dst[c, r] = src[r, c] for float32 and float64, in squares of registers. With pad, the rows
 * missing to a whole vector count as zeros and dst has room for them. */
#ifndef IPULUA_KERNELS_TRANSPOSE_H
#define IPULUA_KERNELS_TRANSPOSE_H
#include "kernels/simd.h"

/* At most F32_LANES rows and columns. */
INLINE void transpose_corner_f32(const float *src, int64_t src_row, int64_t rows, int64_t cols,
                                 float *dst, int64_t dst_row, bool pad) {
  f32v r[F32_LANES];
  UNROLL for (int i = 0; i < F32_LANES; i++) r[i] =
      i < rows ? load_some_f32(src + i * src_row, cols) : (f32v){0};
  transpose_square_f32(r);
  UNROLL for (int i = 0; i < F32_LANES; i++) {
    if (i >= cols) continue;
    if (pad) store_f32(dst + i * dst_row, r[i]);
    else store_some_f32(dst + i * dst_row, rows, r[i]);
  }
}

INLINE void transpose_full_f32(const float *src, int64_t src_row, float *dst, int64_t dst_row) {
  f32v r[F32_LANES];
  UNROLL for (int i = 0; i < F32_LANES; i++) r[i] = load_f32(src + i * src_row);
  transpose_square_f32(r);
  UNROLL for (int i = 0; i < F32_LANES; i++) store_f32(dst + i * dst_row, r[i]);
}

static inline void transpose_f32(const float *src, int64_t src_row, int64_t rows, int64_t cols,
                                 float *dst, int64_t dst_row, bool pad) {
  for (int64_t r = 0; r < rows; r += F32_LANES) {
    int64_t height = rows - r < F32_LANES ? rows - r : F32_LANES, c = 0;
    if (height == F32_LANES)
      for (; c + F32_LANES <= cols; c += F32_LANES)
        transpose_full_f32(src + r * src_row + c, src_row, dst + c * dst_row + r, dst_row);
    for (; c < cols; c += F32_LANES)
      transpose_corner_f32(src + r * src_row + c, src_row, height,
                           cols - c < F32_LANES ? cols - c : F32_LANES, dst + c * dst_row + r,
                           dst_row, pad);
  }
}

static inline void transpose_f64(const double *src, int64_t src_row, int64_t rows, int64_t cols,
                                 double *dst, int64_t dst_row, bool pad) {
  enum { BLOCK = 8 }; /* a cache line of doubles */
  for (int64_t r = 0; r < rows; r += BLOCK) {
    int64_t height = rows - r < BLOCK ? rows - r : BLOCK;
    int64_t room = pad && height % F64_LANES ? height + F64_LANES - height % F64_LANES : height;
    for (int64_t c = 0; c < cols; c++) {
      const double *s = src + r * src_row + c;
      double *d = dst + c * dst_row + r;
      int64_t i = 0;
      for (; i < height; i++) d[i] = s[i * src_row];
      for (; i < room; i++) d[i] = 0;
    }
  }
}
#endif
