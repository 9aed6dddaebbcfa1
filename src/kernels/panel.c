/* Products of strided runs of memory and a panel of 32 columns, without a copy of the runs.
 * Convolutions, recurrences and attention consist of them. Each element of a result is one chain of
 * multiply-adds in a fixed order. */
#include "kernels/fill.h"
#include "kernels/simd.h"
#include "kernels/transpose.h"

/* Rows of a tile of one vector: more need more addresses than there are registers for. */
enum { MUL_ROWS_1 = TILE_ROWS_1 < 12 ? TILE_ROWS_1 : 12 };

#include "kernels/real_f32.h"

#include "kernels/panel.h"

#include "kernels/real_f64.h"

#include "kernels/panel.h"

void FILL(panel)(Kernels *k) {
  k->panel_mul[F32] = panel_mul_f32;
  k->panel_mul[F64] = panel_mul_f64;
  k->panel_outer[F32] = panel_outer_f32;
  k->panel_outer[F64] = panel_outer_f64;
  k->panel_pack[F32] = panel_pack_f32;
  k->panel_pack[F64] = panel_pack_f64;
  k->depthwise[F32] = depthwise_f32;
  k->depthwise[F64] = depthwise_f64;
  k->depthwise_outer[F32] = depthwise_outer_f32;
  k->depthwise_outer[F64] = depthwise_outer_f64;
}
