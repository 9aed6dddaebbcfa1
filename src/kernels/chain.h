/* A chain of elementwise steps over one output shape, run block by block so that everything
 * between the steps stays in the first-level cache. One step alone is an eager call; many are a
 * fused program step: the arithmetic, and so every bit, is the same. */
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
  CHAIN_BLOCK,     /* handed over per call: a block of a product's results */
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
  /* for stochastic rounding, behind that of the chain's rng; chain_step leaves it 0 */
  uint32_t stream;
  const void *of; /* whoever builds the chain: what the step is of, for messages */
  bool joined;    /* a cast of bytes that only the division behind it reads: one pass for both */
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
/* After all operands are known: merge dimensions that every operand walks alike; keep_cols
 * leaves the last one alone, as chain_run_block needs it. Call once. */
void chain_finish(Chain *c, bool keep_cols);

/* Elements [begin, end) of the row-major output. Ranges that don't share elements may run at
 * once. Returns 0, or the events of the first step that had some that trap, and its number:
 * chain_events(step, events). */
int chain_run(const Chain *c, int64_t begin, int64_t end);
/* Rows [row, row + rows), columns [col, col + cols) of a [rows, cols] chain whose CHAIN_BLOCK
 * slots are at block[r * block_row + c]. */
int chain_run_block(const Chain *c, void *block, int64_t block_row, int64_t row, int64_t rows,
                    int64_t col, int64_t cols);
static inline int chain_events(int step, int events) { return events ? step << 4 | events : 0; }
static inline int chain_step_of(int result) { return result >> 4; }
static inline int chain_events_of(int result) { return result & 15; }
/* Of two ranges' results that of the earlier step; of one step the events of both. */
static inline int chain_first_events(int a, int b) {
  if (!a || !b || chain_step_of(a) == chain_step_of(b)) return a | b;
  return a < b ? a : b;
}
/* Ask memory for what chain_run_block will read and write there besides the block. */
void chain_fetch_block(const Chain *c, int64_t row, int64_t rows, int64_t col, int64_t cols);
#endif
