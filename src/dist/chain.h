/* Reductions in the order of instances. */
#ifndef IPULUA_DIST_CHAIN_H
#define IPULUA_DIST_CHAIN_H
#include <stddef.h>

#include "dist/instances.h"

/* An elementwise reduction over the chain of instances, in the order of their numbers. */
typedef struct ChainSum {
  int64_t count; /* elements */
  size_t element_bytes;
  /* Adds this instance's elements [begin, begin + n). acc holds the prefix of the instances before
   * it, unless is_first. */
  void (*add)(void *context, int64_t begin, int64_t n, void *acc, bool is_first);
  /* Receives elements [begin, begin + n) of the complete result. */
  void (*take)(void *context, int64_t begin, int64_t n, const void *acc);
  void *context;
} ChainSum;

/* Runs a reduction: prefixes go from each instance to the next, and the result comes back. */
Status instances_chain(Instances *t, const Meeting *m, const ChainSum *sum, Error *e);
#endif
