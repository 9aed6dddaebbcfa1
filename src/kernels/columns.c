/* Sums down the columns of a matrix and the maps that use them: batch, group and instance
 * normalisation. */
#include "kernels/fill.h"
#include "kernels/simd.h"

#include "kernels/real_f32.h"

#include "kernels/columns.h"

#include "kernels/real_f64.h"

#include "kernels/columns.h"

void FILL(columns)(Kernels *k) {
  k->column_sums[F32] = column_sums_f32;
  k->column_sums[F64] = column_sums_f64;
  k->column_squares[F32] = column_squares_f32;
  k->column_squares[F64] = column_squares_f64;
  k->column_products[F32] = column_products_f32;
  k->column_products[F64] = column_products_f64;
  k->column_scale[F32] = column_scale_f32;
  k->column_scale[F64] = column_scale_f64;
  k->column_combine[F32] = column_combine_f32;
  k->column_combine[F64] = column_combine_f64;
}
