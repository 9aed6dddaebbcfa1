/* A chain of elementwise steps over one output shape. It runs block by block, so that intermediate
 * results stay in the first-level cache. An eager call is a chain of one step, a fused program step
 * one of many. Both compute the same bits. */
#ifndef IPULUA_KERNELS_CHAIN_H
#define IPULUA_KERNELS_CHAIN_H
#include "kernels/kernels.h"
#include "kernels/numerics.h"
#include "tensor/type.h"

enum { CHAIN_SLOTS = 40, CHAIN_STEPS = 32, CHAIN_TEMPORARIES = 12, CHAIN_BLOCK_BYTES = 4096 };

typedef enum ChainRole {
  CHAIN_FULL,      /* dense, the chain's own shape */
  CHAIN_SINGLE,    /* one element for all */
  CHAIN_ROW,       /* [n]: the same for every row of the last (collapsed) dimension */
  CHAIN_GENERAL,   /* broadcast some other way: strides */
  CHAIN_TEMPORARY, /* lives within a block */
  CHAIN_BLOCK,     /* given with each call: a block of a product's result */
} ChainRole;

typedef struct ChainSlot {
  ChainRole role;
  Dtype dtype;
  void *data;    /* FULL, SINGLE, ROW, GENERAL */
  int temporary; /* TEMPORARY: which buffer */
  /* GENERAL: elements, by collapsed dimension; the innermost is 0 or 1 */
  int64_t stride[MAX_RANK];
  bool is_read, is_written; /* by steps; is_read: before it is written */
} ChainSlot;

typedef struct ChainStep {
  Elementwise kernel; /* ELEMENTWISE_COUNT: a cast from slot in[0]'s dtype to slot out's */
  int arity, in[3], out;
  double p[4];
  /* the random stream for stochastic rounding, after the chain's own; chain_step sets 0 */
  uint32_t stream;
  const void *of; /* set by the chain's builder: the step's op, for messages */
  /* a cast of bytes that only the next step, a division, reads: one pass for both */
  bool joined;
} ChainStep;

typedef struct Chain {
  int rank; /* collapsed, >= 1 */
  int64_t extent[MAX_RANK], rows, cols, count;
  int slot_count, step_count;
  ChainSlot slot[CHAIN_SLOTS];
  ChainStep step[CHAIN_STEPS];
  const Kernels *kernels;
  const Numerics *numerics; /* NULL: defaults */
  RngKey rng;
} Chain;

/* Begin a chain over a shape; then add operands (their shapes broadcast to it), temporaries and
 * steps. All return the slot, or -1 when the chain is full or a kernel is missing for that
 * dtype. */
void chain_begin(Chain *c, const Kernels *k, const Type *shape);
int chain_operand(Chain *c, const Type *type, void *data);
int chain_temporary(Chain *c, Dtype d, int buffer);
int chain_block_slot(Chain *c, Dtype d);
bool chain_step(Chain *c, Elementwise kernel, int arity, const int *in, int out, const double *p);
bool chain_can(const Kernels *k, Elementwise kernel, Dtype operand);
/* Called once, after all operands have been added. It merges dimensions with compatible strides in
 * all operands. keep_cols keeps the last dimension, for chain_run_block. */
void chain_finish(Chain *c, bool keep_cols);

/* Computes elements [begin, end) of the row-major output. Disjoint ranges may run at once. Returns
 * 0, or chain_events(step, events) of the first step with events that trap. */
int chain_run(const Chain *c, int64_t begin, int64_t end);
/* Rows [row, row + rows), columns [col, col + cols) of a [rows, cols] chain whose CHAIN_BLOCK
 * slots are at block[r * block_row + c]. */
int chain_run_block(const Chain *c, void *block, int64_t block_row, int64_t row, int64_t rows,
                    int64_t col, int64_t cols);
static inline int chain_events(int step, int events) { return events ? step << 4 | events : 0; }
static inline int chain_step_of(int result) { return result >> 4; }
static inline int chain_events_of(int result) { return result & 15; }
/* Combines the results of two ranges: the earlier step wins, and for one step the events are
 * united. */
static inline int chain_first_events(int a, int b) {
  if (!a || !b || chain_step_of(a) == chain_step_of(b)) return a | b;
  return a < b ? a : b;
}
/* Prefetches the memory, other than the block, that chain_run_block will access there. */
void chain_fetch_block(const Chain *c, int64_t row, int64_t rows, int64_t col, int64_t cols);
#endif
