/* How fast a dataset delivers: the measuring; the report is made above. */
#ifndef IPULUA_DATA_BENCHMARK_H
#define IPULUA_DATA_BENCHMARK_H
#include "data/dataset.h"

typedef struct BenchmarkEpoch {
  int64_t elements, bytes;
  double seconds;
} BenchmarkEpoch;

/* Pull elements (at least 1) from where the iterator is. copy: into memory of the caller's, as
 * feeding a device does; else as tensors. ERR_OUT_OF_RANGE when the data ends early,
 * ERR_INVALID_ARGUMENT for a component of no bytes. */
Status benchmark_epoch(Iterator *it, int64_t elements, bool copy, BenchmarkEpoch *out, Error *e);
#endif
