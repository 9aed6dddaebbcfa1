/* What the planners of this layer share. Inside target/ only. */
#ifndef IPULUA_TARGET_PLAN_H
#define IPULUA_TARGET_PLAN_H
#include "base/arith.h"
#include "target/cost.h"

/* PL cycle estimators: entering and leaving a vertex that a supervisor splits over the workers. */
#define SUPERVISOR_CYCLES 11
/* Control code of one program step on one tile: whole models in Graphcore's profile tests agree on
 * 7.2 bytes. */
#define CONTROL_BYTES 7.2

/* PL reductions: cycles of a vector of sums in the log domain. */
#define LOG_ADD_VECTOR_F32 23
#define LOG_ADD_VECTOR_F16 13

double ceil_ratio(double a, double b);
double element_bytes(Dtype d);
double vector_width(const Target *t, Dtype d);
double tile_share(const Target *t, Dtype d, double elements);
double tiles_used(const Target *t, Dtype d, double elements);
double worker_cycles(const Target *t, double prologue, double elements, double per_vector,
                     double width);
/* Entering an elementwise vertex of that many operands. */
double pass_prologue(Dtype d, int operands);
/* Compute cycles of moving bytes per tile in runs of that many contiguous bytes. */
double rearrange_cycles(const Target *t, double bytes, double run_bytes);

/* A compute set whose operands lie where they are needed: nothing is exchanged before it. */
void cost_local(Cost *c, const Target *t, const char *name, double compute);
void cost_vertex(Cost *c, const Target *t, VertexKind kind, double state_bytes,
                 double exchange_code_bytes);
/* At least so many bytes per tile of that category. */
void cost_memory(Cost *c, CostCategory category, double bytes_per_tile);

static inline int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

/* Extents come from scripts: products stay below 2^52, where int64_t and double both hold them. */
#define EXTENT_MAX ((int64_t)1 << 52)
static inline int64_t clamp_extent(int64_t a) {
  return a < 0 ? 0 : a < EXTENT_MAX ? a : EXTENT_MAX;
}
static inline int64_t times(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? EXTENT_MAX : clamp_extent(product);
}

static inline int64_t to_extent(double a) {
  return a < (double)EXTENT_MAX ? (int64_t)a : EXTENT_MAX;
}

/* How a product or a convolution is spread over tiles: what the fullest tile holds and does. */
typedef struct Plan {
  VertexKind kernel;
  int64_t group_split, row_split, out_split, in_split, serial;
  int64_t group_share; /* products of one tile, one after the other */
  /* blocks of one tile, padded to what the units take */
  double input_bytes, weight_bytes, partial_bytes;
  double outputs; /* of one tile's block */
  /* of the input block: what the planner takes for present on the tile */
  double own_bytes;
  /* of one tile: the result while serial parts are joined */
  double joined_bytes;
  /* nothing was summed between calls: no cast follows */
  bool written_narrow;
  /* rows by columns, one sum at a time: partial sums need no interleaved memory */
  bool dots;
  double tiles;
  /* rearranging operands or result for this plan */
  double prepare_exchange, prepare, prepare_steps;
  double exchange_in, compute; /* cycles of one serial part */
  double reduce_exchange, reduce, reduce_steps, convert, update;
  double cycles; /* what the planner compares: not what the plan is charged */
  bool fits;
} Plan;

/* What multiplies, for one pair of types: the AMP units, or the workers' own vector
 * instructions. */
typedef struct Units {
  VertexKind kernel;
  /* channels of a pass in and out; bytes of an element and of a sum */
  int64_t group, units, element, sum;
  double load;    /* cycles to load the weights of one pass */
  double per_row; /* cycles of one row and worker, once running */
} Units;

/* What one tile holds of the operands and sums. */
static inline double block_bytes(const Plan *p) {
  return p->input_bytes + p->weight_bytes + p->partial_bytes;
}
Units find_units(const Target *t, Dtype d, Dtype partials);
/* Rows stream past the units, output channels are loaded into them. */
typedef struct MatmulShape {
  int64_t groups, rows, in, out;
  bool regrouped; /* the result is read in whole in-groups */
  bool fixed;     /* neither operand may take the other's place */
} MatmulShape;

/* The better of two ways round; the other one moves bytes to get there. */
Plan plan_matmul(const Target *t, Dtype d, Dtype partials, const MatmulShape *s,
                 const MatmulShape *other, double moved_bytes, double proportion);
/* One row times a matrix that is trained: the three products of a training step share one plan,
 * in which the matrix stays where it is and isn't streamed past the row. */
Plan plan_row(const Target *t, Dtype d, Dtype partials, int64_t in, int64_t out, double proportion);
/* A column times a row: the gradient of a matrix that one row was multiplied with. Each tile
 * makes the block that it holds then, with the instructions that it multiplies the block with. */
Plan plan_outer(const Target *t, Dtype d, Dtype partials, int64_t rows, int64_t columns,
                double proportion);
/* Add the plan's steps, memory and code to c. */
void cost_plan(Cost *c, const Target *t, const Plan *p);
/* Exchange, reduction of in_split sums or conversion, steps and total of a plan whose blocks and
 * compute are set. */
void finish_plan(const Target *t, const Units *u, Plan *p);
/* The better of two: one that fits, then the cheaper. */
bool is_better(const Plan *p, const Plan *than);
/* PopLibs' choice is what would run, and what was published: small products take up to two and a
 * half times as long as they could. Another way is taken only where it saves a third and some
 * steps, or two thirds, else a large operation could be priced far below a smaller one. */
bool is_far_better(const Cost *other, const Cost *choice);
/* Products of [m, k] by [k, n] multiplied element by element, one operand repeated, then added
 * up; in the fewest parts of the groups that fit, one after the other. */
Cost cost_serial_dots(const Target *t, Dtype d, int64_t groups, int64_t m, int64_t k, int64_t n,
                      double limit);
/* Cycles to place, or to add, a share of outputs after each serial part. */
double join_cycles(const Target *t, const Units *u, double share, bool adds);
double plan_limit(const Target *t, double proportion);
/* Bytes spread over all tiles change their layout before or after the plan: contiguous runs of
 * run_bytes. */
void add_prepare(const Target *t, Plan *p, double bytes, double run_bytes);
/* The next larger number of parts that makes the parts of `extent` smaller; 0 when there is
 * none. */
int64_t next_split(int64_t extent, int64_t parts);
double step_cycles(const Target *t);
/* Cycles of summing them: outputs of one tile (before the split), bytes of a partial; exchange in
 * *exchange. */
double reduce_partials(const Target *t, double outputs, double depth, double partial_bytes,
                       bool half_out, double *exchange, double *steps);
/* An operand, a result or a whole tensor changes its layout; a step more when bytes are shuffled on
 * the tile. */
void cost_layout(Cost *c, const Target *t, Dtype d, double elements, double run_elements);
/* x += k y over elements spread over all tiles. */
void cost_scaled_add(Cost *c, const Target *t, Dtype d, double elements);
#endif
