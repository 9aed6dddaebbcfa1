/* Declarations shared by the planners of this layer. Inside target/ only. */
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
/* Cycles to enter an elementwise vertex of that many operands. */
double pass_prologue(Dtype d, int operands);
/* Compute cycles of moving bytes per tile in runs of that many contiguous bytes. */
double rearrange_cycles(const Target *t, double bytes, double run_bytes);

/* A compute set whose operands are on their tiles already: nothing is exchanged before it. */
void cost_local(Cost *c, const Target *t, const char *name, double compute);
void cost_vertex(Cost *c, const Target *t, VertexKind kind, double state_bytes,
                 double exchange_code_bytes);
/* Raises the bytes per tile of that category to at least so many. */
void cost_memory(Cost *c, CostCategory category, double bytes_per_tile);

static inline int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

/* Extents come from scripts. Products are limited to 2^52, which int64_t and double hold
 * exactly. */
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

/* The distribution of a product or a convolution over tiles: the bytes and cycles of the fullest
 * tile. */
typedef struct Plan {
  VertexKind kernel;
  int64_t group_split, row_split, out_split, in_split, serial;
  int64_t group_share; /* products of one tile, one after the other */
  /* blocks of one tile, padded to the blocks of the units */
  double input_bytes, weight_bytes, partial_bytes;
  double outputs; /* of one tile's block */
  /* the part of the input block that the planner assumes to be on the tile */
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
  double cycles; /* compared by the planner; other cycles are charged */
  bool fits;
} Plan;

/* The multipliers for one pair of types: the AMP units, or the workers' vector instructions. */
typedef struct Units {
  VertexKind kernel;
  /* channels of a pass in and out; bytes of an element and of a sum */
  int64_t group, units, element, sum;
  double load;    /* cycles to load the weights of one pass */
  double per_row; /* cycles of one row and worker, once running */
} Units;

/* The bytes of operands and sums on one tile. */
static inline double block_bytes(const Plan *p) {
  return p->input_bytes + p->weight_bytes + p->partial_bytes;
}
Units find_units(const Target *t, Dtype d, Dtype partials);
/* A matrix product. Rows stream past the units, and output channels are loaded into them. */
typedef struct MatmulShape {
  int64_t groups, rows, in, out;
  bool regrouped; /* the result is read in whole in-groups */
  bool fixed;     /* neither operand may take the other's place */
} MatmulShape;

/* The better of two orders of the operands; `other` has to move bytes for it. */
Plan plan_matmul(const Target *t, Dtype d, Dtype partials, const MatmulShape *s,
                 const MatmulShape *other, double moved_bytes, double proportion);
/* One row times a trained matrix. The three products of a training step share one plan, in which
 * the matrix stays on its tiles instead of being streamed past the row. */
Plan plan_row(const Target *t, Dtype d, Dtype partials, int64_t in, int64_t out, double proportion);
/* A column times a row: the gradient of a matrix that one row was multiplied with. Each tile
 * computes the block that it will hold, with the instructions that also multiply with it. */
Plan plan_outer(const Target *t, Dtype d, Dtype partials, int64_t rows, int64_t columns,
                double proportion);
/* Add the plan's steps, memory and code to c. */
void cost_plan(Cost *c, const Target *t, const Plan *p);
/* Exchange, reduction of in_split sums or conversion, steps and total of a plan whose blocks and
 * compute are set. */
void finish_plan(const Target *t, const Units *u, Plan *p);
/* The better of two: one that fits, then the cheaper. */
bool is_better(const Plan *p, const Plan *than);
/* Whether to price `other` instead of PopLibs' choice, which is what would run and was published.
 * By it small products take up to two and a half times as long as they could. `other` must save a
 * third and some steps, or two thirds. With a lower limit a large operation could be priced far
 * below a smaller one. */
bool is_far_better(const Cost *other, const Cost *choice);
/* Products of [m, k] by [k, n] by elementwise multiplication, with one operand repeated, and a
 * reduction. The groups are cut into the fewest serial parts that fit. */
Cost cost_serial_dots(const Target *t, Dtype d, int64_t groups, int64_t m, int64_t k, int64_t n,
                      double limit);
/* Cycles to place, or to add, a share of outputs after each serial part. */
double join_cycles(const Target *t, const Units *u, double share, bool adds);
double plan_limit(const Target *t, double proportion);
/* The layout of bytes, spread over all tiles, changes before or after the plan, in contiguous runs
 * of run_bytes. */
void add_prepare(const Target *t, Plan *p, double bytes, double run_bytes);
/* The next larger number of parts that makes the parts of `extent` smaller; 0 when there is
 * none. */
int64_t next_split(int64_t extent, int64_t parts);
double step_cycles(const Target *t);
/* Cycles to sum partials. outputs: of one tile before the split. partial_bytes: of one partial.
 * *exchange and *steps get the exchange's cycles and the steps. */
double reduce_partials(const Target *t, double outputs, double depth, double partial_bytes,
                       bool half_out, double *exchange, double *steps);
/* The layout of an operand, a result or a whole tensor changes. It takes one more step if bytes are
 * rearranged on the tile. */
void cost_layout(Cost *c, const Target *t, Dtype d, double elements, double run_elements);
/* x += k y over elements spread over all tiles. */
void cost_scaled_add(Cost *c, const Target *t, Dtype d, double elements);
#endif
