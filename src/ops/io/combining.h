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
/* position: the index of the first element, by which elements are rounded. */
void block_store(const Call *c, const Block *from, void *to, int64_t begin, int64_t n,
                 int64_t position);
/* Whether a finite number is beyond float16, and overflow traps. */
bool block_overflows(const Call *c, const Block *x, int64_t n);
/* Whether it is a sum or mean that is added directly from the operands' memory. */
bool is_plain_sum(Dtype d, Combination o);
/* Adds a group's elements [begin, begin + n); for MEAN each divided by the group's size. */
void add_group(const Call *const *replica, const Groups *g, int group, Combination o, int64_t begin,
               int64_t n, float *acc);
/* Combines elements [begin, begin + n) of input 0 over a group, n <= BLOCK. LOCAL: takes the
 * elements of one member. */
void combine_group(const Call *const *replica, const Groups *g, int group, Combination o,
                   int64_t begin, int64_t n, Block *acc);
/* Fails after an overflow. */
Status combining_finish(const Combining *m);
/* Combines the values of all replicas along the chain of instances; `count` of `all` are here. */
Status collective_far(const Call *const *replica, int count, int all, const FarMeeting *far,
                      Combination o);
#endif
