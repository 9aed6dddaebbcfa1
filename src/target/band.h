/* How far prices are off, by what an op is: mean |error| against published rows, cycles and total
 * bytes. The rows were kept back while rules were chosen, and priced before the last changes of the
 * model: the figures are not of the model as it is. docs/machine-model.md says more. */
#ifndef IPULUA_TARGET_BAND_H
#define IPULUA_TARGET_BAND_H

/* clang-format off */
#define COST_FAMILIES(X)                                                     \
  X(OTHER, 0.14, 0.13) /* no rows of their own: whole programs' */           \
  X(PRODUCT, 0.042, 0.13) /* dense layers; single products: 0.032 */ \
  X(CONVOLUTION, 0.044, 0.13)                                                \
  X(DEPTHWISE, 0.18, 0.13)                                                   \
  X(POOLING, 0.128, 0.15)                                                    \
  X(REDUCTION, 0.053, 0.30)                                                  \
  X(LSTM, 0.21, 0.35) X(GRU, 0.11, 0.15)                                     \
  X(CHOLESKY, 0.034, 0.43) X(TRIANGULAR, 0.11, 0.20) X(CTC, 0.11, 0.15)
/* clang-format on */
#define X(id, cycles, memory) FAMILY_##id,
typedef enum CostFamily { COST_FAMILIES(X) FAMILY_COUNT } CostFamily;
#undef X

/* Relative: 0.1 is ±10 %. */
typedef struct Band {
  double cycles, memory;
} Band;
Band cost_band(CostFamily f);
#endif
