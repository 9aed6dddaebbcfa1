/* The cost of an operation on one IPU, from its sizes: cycles by phase and bytes by category. All
 * functions are pure functions of a Target, shapes and options, without state. Nothing is executed.
 * docs/machine-model.md explains the model.
 *
 * An operation is a list of steps; each step exchanges, syncs and computes, and waits for its
 * slowest tile. */
#ifndef IPULUA_TARGET_COST_H
#define IPULUA_TARGET_COST_H
#include <stdbool.h>
#include <stdint.h>

#include "target/target.h"
#include "target/vector.h"
#include "tensor/dtype.h"

/* Phases, which cycles are counted for. */
#define COST_PHASES(X) \
  X(COMPUTE, "compute") X(EXCHANGE, "exchange") X(SYNC, "sync") X(STREAM, "stream")
#define X(id, name) PHASE_##id,
typedef enum CostPhase { COST_PHASES(X) PHASE_COUNT } CostPhase;
#undef X

/* Categories of a tile's bytes. The operation's inputs and outputs are counted for the program
 * instead. */
#define COST_CATEGORIES(X)                                                                        \
  X(MESSAGE, "message", "exchange buffers: what a step receives from other tiles")                \
  X(REARRANGEMENT, "rearrangement", "a copy in another layout")                                   \
  X(PARTIALS, "partials", "sums not yet complete; kept in interleaved memory by the AMP kernels") \
  X(TEMPORARY, "temporary", "other values that live inside the operation")                        \
  X(VERTEX_CODE, "vertexCode", "programs of the workers, one per kind of vertex")                 \
  X(VERTEX_STATE, "vertexInstanceState", "fields of each vertex")                                 \
  X(EXCHANGE_CODE, "internalExchangeCode", "send and receive sequences")                          \
  X(CONTROL_CODE, "controlCode", "the program itself")
#define X(id, name, summary) MEMORY_##id,
typedef enum CostCategory { COST_CATEGORIES(X) MEMORY_COUNT } CostCategory;
#undef X

/* Kinds of vertices and the bytes of their programs (fit to whole models in Graphcore's profile
 * tests). A tile holds each kind once, however many operations use it. */
/* clang-format off */
#define COST_VERTICES(X) \
  X(AMP_1X1, 900) X(AMP_NX1, 1500) X(SLIC, 1600) X(VECTOR_MAC, 1200) X(OUTER, 500) X(REDUCE, 500) \
  X(REDUCE_PARTIALS, 500) X(ELEMENTWISE, 170) X(BROADCAST, 250) X(CAST, 150) X(NORM, 600) X(SLICE, 400) \
  X(MULTI_SLICE, 740) X(MULTI_UPDATE, 740) X(POOL, 900) X(TRANSPOSE, 500) X(COPY, 500) X(RANDOM, 300) \
  X(SORT, 700) X(SCAN, 300) X(SOLVE, 1500) X(CTC, 2000)
/* clang-format on */
#define X(id, bytes) VERTEX_##id,
typedef enum VertexKind { COST_VERTICES(X) VERTEX_COUNT } VertexKind;
#undef X

/* Steps of one kind. Sums are over all `times` of them. */
typedef struct CostStep {
  const char *name; /* a literal: "conv", "reduce", "exchange" ... */
  double times;
  double compute, exchange, sync, stream; /* cycles */
  double bytes;                           /* received by the busiest tile */
} CostStep;

enum { COST_STEPS = 20 };

typedef struct Cost {
  double cycles[PHASE_COUNT];
  /* on each tile in use; of temporaries the peak */
  double bytes[MEMORY_COUNT];
  double tiles;           /* tiles in use */
  double temporary_total; /* bytes of temporaries on all tiles together, at their peak */
  /* of one tile: the largest block of partial sums, kept in interleaved memory */
  double interleaved_bytes;
  /* of one tile: the largest operand that must lie in a memory element of its own */
  double separate_bytes;
  double uneven_bytes; /* on the fullest tile, more than on the others: collected partial sums */
  uint32_t vertices;   /* a bit for each VertexKind in use */
  double flops;
  double moved_bytes;    /* received through the exchange by the busiest tile */
  double streamed_bytes; /* to and from the host, streaming memory or other IPUs */
  double step_count;
  int row_count; /* of steps[]; further ones are added to the last row */
  CostStep steps[COST_STEPS];
  bool fits;       /* a plan stays inside the memory that the options allow */
  const char *why; /* when it doesn't: the reason, a literal; else NULL */
} Cost;

double cost_code_bytes(uint32_t vertices); /* of one tile: the programs of those kinds */
double cost_cycles(const Cost *c);         /* all phases */
double cost_temporary(const Cost *c);      /* bytes per tile that are not always live */
const char *cost_phase_name(CostPhase p);

/* --- building costs --- */
Cost cost_free(void); /* a view: nothing */
/* One step: bytes received by the busiest tile, worker cycles of the slowest tile. */
void cost_step(Cost *c, const Target *t, const char *name, double exchange_bytes, double compute);
/* The same, `times` times. */
void cost_steps(Cost *c, const Target *t, const char *name, double times, double exchange_bytes,
                double compute);
/* A transfer from outside the chip, or to it. */
void cost_stream(Cost *c, const char *name, double bytes, double cycles);
/* Adds cycles to a transfer's row in that phase (stream or sync). Negative ones are hidden by other
 * work. */
void cost_wait(Cost *c, const char *name, CostPhase phase, double cycles);
/* Adds b to a, as a sequence. Cycles, code and state add up; of temporaries the larger counts. The
 * caller, which knows the program's code so far, shares the code of equal kinds. */
void cost_then(Cost *a, const Cost *b);
void cost_repeat(Cost *c, double times); /* a loop: the same code and memory, more cycles */

/* --- vector work --- */
/* One pass over `elements`, spread over all tiles; operands counts the inputs. cycles_per_vector
 * per worker (vector.h). */
Cost cost_elementwise(const Target *t, Dtype d, int64_t elements, int operands,
                      double cycles_per_vector);
/* A pass whose smaller operand (bytes) must first be broadcast, or laid out like the larger one's
 * tiles. */
Cost cost_broadcast(const Target *t, Dtype d, int64_t elements, int64_t small_elements,
                    double cycles_per_vector);
Cost cost_cast(const Target *t, Dtype from, Dtype to, int64_t elements);
Cost cost_fill(const Target *t, Dtype d, int64_t elements);
typedef enum RandomKind {
  RANDOM_UNIFORM,
  RANDOM_NORMAL,
  RANDOM_TRUNCATED_NORMAL,
  RANDOM_BERNOULLI,
  RANDOM_DROPOUT,
} RandomKind;
Cost cost_random(const Target *t, Dtype d, int64_t elements, RandomKind kind);

/* --- moving --- */
Cost cost_copy(const Target *t, int64_t bytes); /* same layout, tile by tile */
Cost cost_rearrange(const Target *t, int64_t bytes,
                    int64_t run_bytes); /* another layout; runs stay contiguous */
Cost cost_transpose(const Target *t, Dtype d, int64_t elements);
/* dynamic slice or update of that many */
Cost cost_slice(const Target *t, Dtype d, int64_t elements);
/* Rows of a table [rows, width] by index; scatter adds rows back (or sets them). */
Cost cost_gather(const Target *t, Dtype d, int64_t rows, int64_t width, int64_t indices);
Cost cost_scatter(const Target *t, Dtype d, int64_t rows, int64_t width, int64_t indices);
/* Reads elements of columns, or adds to them. Each column has lookups of its own. */
Cost cost_take_along(const Target *t, Dtype d, int64_t tables, int64_t rows, int64_t lookups,
                     bool add);
Cost cost_one_hot(const Target *t, Dtype d, int64_t indices, int64_t depth);

/* --- reductions --- */
typedef enum ReduceKind { COST_SUM, COST_MAX, COST_LOG_ADD, COST_ARG } ReduceKind;
/* [outer, extent, inner] over the middle: sums accumulate in f32, max in its own type. */
Cost cost_reduce(const Target *t, Dtype d, ReduceKind kind, int64_t outer, int64_t extent,
                 int64_t inner);
/* The same over any axes, outermost first. */
typedef struct ReduceAxis {
  int64_t extent;
  bool reduced;
} ReduceAxis;
Cost cost_reduce_axes(const Target *t, Dtype d, ReduceKind kind, const ReduceAxis *axes, int rank);
/* rows of extent, with indices */
Cost cost_sort(const Target *t, Dtype d, int64_t rows, int64_t extent);
Cost cost_top_k(const Target *t, Dtype d, int64_t rows, int64_t extent, int64_t k);
/* cumulative sum or product */
Cost cost_scan(const Target *t, Dtype d, int64_t rows, int64_t extent);

/* --- softmax, loss, normalisation --- */
Cost cost_softmax(const Target *t, Dtype d, int64_t rows, int64_t columns, bool backward);
Cost cost_cross_entropy(const Target *t, Dtype d, int64_t rows, int64_t columns, bool backward);
/* `groups` statistics over `extent` elements each, then scale and shift. training keeps batch
 * statistics. */
Cost cost_norm(const Target *t, Dtype d, int64_t groups, int64_t extent, bool backward);

/* --- matrix products --- */
typedef struct PlanOptions {
  double available_memory_proportion; /* of a tile, for temporaries of a plan; 0 means 0.6 */
  bool left_moved,
      /* the operand has another product's layout, as a transposed one has: it is moved */
      right_moved;
  bool result_moved; /* the result gets another product's layout (a weight gradient) */
  bool accumulate;   /* the result is added into an existing tensor (an update, C += AB) */
  /* one of the products that train a matrix: forward, for its input's gradient, for its own */
  bool trained;
  /* operands are in the plan's layout already (weights inside a loop): not copied */
  bool resident;
} PlanOptions;

/* groups x ([m, k] . [k, n]); options may be NULL. */
Cost cost_matmul(const Target *t, Dtype d, Dtype partials, int64_t groups, int64_t m, int64_t k,
                 int64_t n, const PlanOptions *options);

/* --- convolutions and pooling: fields up to three dimensions, [depth,] height, width --- */
enum { COST_SPATIAL = 3 };
typedef enum ConvPass { CONV_FORWARD, CONV_BACKWARD, CONV_WEIGHTS } ConvPass;
typedef struct ConvShape {
  int64_t batch, groups, in_channels, out_channels; /* channels per group */
  int rank;                                         /* 1 to 3 */
  int64_t in[COST_SPATIAL], out[COST_SPATIAL], kernel[COST_SPATIAL], stride[COST_SPATIAL],
      dilation[COST_SPATIAL];
} ConvShape;
/* One pass of a convolution. s is the forward pass's shape in every case. Moves between the passes'
 * layouts are included. Backward moves the weights. The weight gradient moves the input, the output
 * gradient and the result. */
Cost cost_conv(const Target *t, Dtype d, Dtype partials, const ConvShape *s, ConvPass pass,
               const PlanOptions *options);
/* Convolutions planned side by side, each on its own share of the tiles (octave convolution). A
 * part may average its input over 2 x 2 points first. It may also repeat its output 2 x 2 times,
 * and add it to another part's. */
typedef struct ConvPart {
  ConvShape shape;
  bool pooled, upsampled;
} ConvPart;
Cost cost_octave(const Target *t, Dtype d, Dtype partials, const ConvPart *parts, int count,
                 ConvPass pass, const PlanOptions *options);
typedef enum PoolingKind { POOLING_MAX, POOLING_AVERAGE } PoolingKind;
Cost cost_pooling(const Target *t, Dtype d, PoolingKind kind, const ConvShape *s, bool backward);

/* --- sequences --- */
typedef struct RnnShape {
  int64_t batch, steps, inputs, outputs;
  bool training; /* the forward pass keeps values for the backward pass */
  /* backward stops at the gates: the gradients of inputs and weights are products of their own,
   * over all steps */
  bool gradients_apart;
} RnnShape;
Cost cost_lstm(const Target *t, Dtype d, Dtype partials, const RnnShape *s, bool backward,
               const PlanOptions *options);
Cost cost_gru(const Target *t, Dtype d, Dtype partials, const RnnShape *s, bool backward,
              const PlanOptions *options);
/* softmax(Q K^T) V; groups = batch x heads, rows x keys scores, head and value widths. */
Cost cost_attention(const Target *t, Dtype d, Dtype partials, int64_t groups, int64_t rows,
                    int64_t keys, int64_t width, int64_t value_width, bool backward);
Cost cost_ctc_loss(const Target *t, Dtype d, int64_t batch, int64_t time, int64_t labels,
                   int64_t classes);

/* --- solvers; block 0: the quickest one --- */
Cost cost_cholesky(const Target *t, Dtype d, int64_t batch, int64_t n, int64_t block);
Cost cost_triangular_solve(const Target *t, Dtype d, int64_t batch, int64_t n, int64_t columns,
                           int64_t block);
#endif
