/* Pooling windows over channels-last images: channels side by side in vectors. */
#include "kernels/fill.h"
#include "kernels/simd.h"

#include "kernels/real_f32.h"

#include "kernels/pooling.h"

#include "kernels/real_f64.h"

#include "kernels/pooling.h"

void FILL(pooling)(Kernels *k) {
  k->pool_max[F32] = pool_max_f32;
  k->pool_max[F64] = pool_max_f64;
  k->pool_max_grad[F32] = pool_max_grad_f32;
  k->pool_max_grad[F64] = pool_max_grad_f64;
  k->pool_max_pick[F32] = pool_max_pick_f32;
  k->pool_max_pick[F64] = pool_max_pick_f64;
  k->pool_sum[F32] = pool_sum_f32;
  k->pool_sum[F64] = pool_sum_f64;
  k->pool_spread[F32] = pool_spread_f32;
  k->pool_spread[F64] = pool_spread_f64;
}
