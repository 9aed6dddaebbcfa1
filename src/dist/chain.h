/* Combinations in the order of instances. */
#ifndef IPULUA_DIST_CHAIN_H
#define IPULUA_DIST_CHAIN_H
#include <stddef.h>

#include "dist/instances.h"

/* A combination that goes along the chain of instances: element by element, the ones of lower
 * numbers first. */
typedef struct ChainSum {
  int64_t count; /* elements */
  size_t element_bytes;
  /* Put this instance's share in: acc holds elements [begin, begin + n) of those before, if any. */
  void (*add)(void *context, int64_t begin, int64_t n, void *acc, bool is_first);
  /* The combination of all is there. */
  void (*take)(void *context, int64_t begin, int64_t n, const void *acc);
  void *context;
} ChainSum;

/* A combination in the order of instances: the prefix goes from each to the next, the whole
 * back. */
Status instances_chain(Instances *t, const Meeting *m, const ChainSum *sum, Error *e);
#endif
