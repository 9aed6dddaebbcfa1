/* The elementwise part of recurrent cells. */
#include "kernels/fill.h"
#include "kernels/simd.h"

#include "kernels/real_f32.h"
#include "kernels/cells.h"

#include "kernels/real_f64.h"
#include "kernels/cells.h"

void FILL(cells)(Kernels *k) {
  k->lstm_state[F32] = lstm_state_f32;
  k->lstm_state[F64] = lstm_state_f64;
  k->lstm_cell_grad[F32] = lstm_cell_grad_f32;
  k->lstm_cell_grad[F64] = lstm_cell_grad_f64;
  k->gru_state[F32] = gru_state_f32;
  k->gru_state[F64] = gru_state_f64;
  k->gru_cell_grad[F32] = gru_cell_grad_f32;
  k->gru_cell_grad[F64] = gru_cell_grad_f64;
}
