/* Measures how fast a dataset delivers elements. The script layer makes the report. */
#ifndef IPULUA_DATA_BENCHMARK_H
#define IPULUA_DATA_BENCHMARK_H
#include "data/dataset.h"

typedef struct BenchmarkEpoch {
  int64_t elements, bytes;
  double seconds;
} BenchmarkEpoch;

/* Reads elements (at least 1) from the iterator's position. copy: into buffers, as feeding a device
 * does; otherwise as tensors. ERR_OUT_OF_RANGE if the data ends early, ERR_INVALID_ARGUMENT for a
 * component of no bytes. */
Status benchmark_epoch(Iterator *it, int64_t elements, bool copy, BenchmarkEpoch *out, Error *e);
#endif
