/* The error of prices for each family of ops: mean |error| of cycles and of total bytes against
 * published rows. Each number is the largest of three. The first is the error of the model as it
 * is. The others have the fitted constants from one half of the workloads, or from one chip, and
 * are tested on the other. docs/machine-model.md says more. */
#ifndef IPULUA_TARGET_BAND_H
#define IPULUA_TARGET_BAND_H

/* clang-format off */
#define COST_FAMILIES(X)                                                     \
  X(OTHER, 0.18, 0.14) /* no published rows: the error of whole programs */           \
  X(PRODUCT, 0.044, 0.046) /* dense layers; single products: 0.022 */ \
  X(CONVOLUTION, 0.033, 0.12)                                                \
  X(DEPTHWISE, 0.076, 0.079)                                                 \
  X(POOLING, 0.075, 0.065)                                                   \
  X(REDUCTION, 0.039, 0.053)                                                 \
  X(LSTM, 0.051, 0.061) X(GRU, 0.021, 0.031)                                 \
  X(CHOLESKY, 0.038, 0.10) X(TRIANGULAR, 0.12, 0.13) X(CTC, 0.058, 0.055)
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
