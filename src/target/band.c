#include "target/band.h"

Band cost_band(CostFamily f) {
#define X(id, cycles, memory) [FAMILY_##id] = {cycles, memory},
  static const Band bands[] = {COST_FAMILIES(X)};
#undef X
  return bands[f];
}
