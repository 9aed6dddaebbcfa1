/* Blocks of elements of replicas, combined in the order of replicas. Inside of io/ only. */
#ifndef IPULUA_OPS_IO_COMBINING_H
#define IPULUA_OPS_IO_COMBINING_H
#include "dist/instances.h"
#include "graph/op.h"

/* Elements combined at a time. Chunks of parallel loops are whole blocks. */
enum { BLOCK = 1024, COLLECTIVE_GRAIN = 16 * BLOCK };

typedef enum Combination {
  ADD,
  MUL,
  MIN,
  MAX,
  LOGICAL_AND,
  LOGICAL_OR,
  SQUARE_ADD,
  LOCAL,
  MEAN
} Combination;

extern const char *const combination_names[]; /* by Combination */

/* A block as it is computed with: narrow floats widened, all integers and bool as int64. */
typedef union Block {
  float f32[BLOCK];
  double f64[BLOCK];
  int64_t integer[BLOCK];
} Block;

/* Member i of group g is replica g * group + i * member. */
typedef struct Groups {
  int count, size, group, member;
} Groups;

typedef struct Combining {
  const Call *const *replica;
  Groups groups;
  Combination combination;
  int64_t count, share; /* elements of an input; of a replica's share of it */
  _Atomic bool overflow;
} Combining;

Combination combination_of(const char *name);
/* position: of the first element among all that are rounded together. */
void block_store(const Call *c, const Block *from, void *to, int64_t begin, int64_t n,
                 int64_t position);
/* Whether a finite number went beyond float16 where that traps. */
bool block_overflows(const Call *c, const Block *x, int64_t n);
/* Sums and means that are added straight from where their operands lie. */
bool is_plain_sum(Dtype d, Combination o);
/* A group's elements [begin, begin + n) added, of MEAN their shares. */
void add_group(const Call *const *replica, const Groups *g, int group, Combination o, int64_t begin,
               int64_t n, float *acc);
/* Elements [begin, begin + n) of input 0, n <= BLOCK, combined over a group; LOCAL: those of one
 * member. */
void combine_group(const Call *const *replica, const Groups *g, int group, Combination o,
                   int64_t begin, int64_t n, Block *acc);
/* Fails after an overflow. */
Status combining_finish(const Combining *m);
/* A combination of all replicas along the chain of instances: of `all`, `count` are here. */
Status collective_far(const Call *const *replica, int count, int all, const FarMeeting *far,
                      Combination o);
#endif
