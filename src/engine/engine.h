/* Who runs programs: the team of threads, the kernels, the numerics and the seed of one Lua
 * state. */
#ifndef IPULUA_ENGINE_ENGINE_H
#define IPULUA_ENGINE_ENGINE_H
#include "engine/synthetic.h"
#include "graph/observe.h"
#include "program/program.h"

typedef struct Engine {
  int threads; /* all that computes, dataset workers included */
  Pool *pool;  /* made at first use */
  Pool **old;  /* [old_count] teams before; datasets that are being read still use them */
  int old_count;
  const Kernels *kernels;
  Numerics numerics;
  Synthetic synthetic;
  uint64_t seed;
  uint64_t rounding_seed;   /* of stochastic rounding; engine_seed_rounding sets it */
  int64_t rounding_epoch;   /* grows when it is set */
  uint64_t eager_roundings; /* eager ops that rounded so since then: their step */
  /* the scopes' settings for eager ops; -1: as configured */
  int8_t eager_rounding, eager_products, eager_convolutions;
  _Atomic int running;  /* programs, one inside of the other's callback */
  const Observed *seen; /* by the function of the script that a program is calling; or NULL */
  /* this process and its peers; NULL: it is alone, or they have not begun */
  struct Instances *instances;
  int64_t random_count; /* eager random calls so far: their step */
} Engine;

/* Kernels of at most that class, as the environment says; NULL or "": the best. */
Status engine_choose_kernels(Error *e, Engine *g, const char *at_most, const char *products);
Engine *engine_new(Error *e, int threads, uint64_t seed); /* threads 0: the CPU's cores */
void engine_free(Engine *g);
Pool *engine_pool(Engine *g);
Status engine_set_threads(Error *e, Engine *g, int threads);

/* Eager ops round and add up as scopes say of new nodes. */
void engine_follow_scopes(Engine *g, const Placement *p);
/* Stochastic rounding begins a sequence of numbers. */
void engine_seed_rounding(Engine *g, uint64_t seed);
#endif
