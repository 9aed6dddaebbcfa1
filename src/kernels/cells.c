/* The elementwise part of recurrent cells. */
#include "kernels/fill.h"
#include "kernels/simd.h"
#include "kernels/vmath.h"

#include <math.h>

INLINE f32v sigmoids_f32(f32v x) { return sigmoid_f32v(x); }
INLINE f32v tanhs_f32(f32v x) { return tanh_f32v(x); }
INLINE f64v sigmoids_f64(f64v x) {
  for (int l = 0; l < F64_LANES; l++) x[l] = 1 / (1 + exp(-x[l]));
  return x;
}
INLINE f64v tanhs_f64(f64v x) {
  for (int l = 0; l < F64_LANES; l++) x[l] = tanh(x[l]);
  return x;
}

#include "kernels/real_f32.h"

#include "kernels/cells.h"

#include "kernels/real_f64.h"

#include "kernels/cells.h"

void FILL(cells)(Kernels *k) {
  k->lstm_cell[F32] = lstm_cell_f32;
  k->lstm_cell[F64] = lstm_cell_f64;
  k->lstm_cell_grad[F32] = lstm_cell_grad_f32;
  k->lstm_cell_grad[F64] = lstm_cell_grad_f64;
  k->gru_state[F32] = gru_state_f32;
  k->gru_state[F64] = gru_state_f64;
  k->gru_cell_grad[F32] = gru_cell_grad_f32;
  k->gru_cell_grad[F64] = gru_cell_grad_f64;
}
