/* What the planners of this layer share. Inside target/ only. */
#ifndef IPULUA_TARGET_PLAN_H
#define IPULUA_TARGET_PLAN_H
#include "target/cost.h"

/* PL cycle estimators: entering and leaving a vertex that a supervisor splits over the workers. */
#define SUPERVISOR_CYCLES 11
/* Control code of one program step on one tile: whole models in Graphcore's profile tests agree on 7.2 bytes. */
#define CONTROL_BYTES 7.2

double ceil_div(double a, double b);
double element_bytes(Dtype d);
double vector_width(const Target *t, Dtype d);
double tile_share(const Target *t, Dtype d, double elements);
double tiles_used(const Target *t, Dtype d, double elements);
double worker_cycles(const Target *t, double prologue, double elements, double per_vector, double width);
/* Compute cycles of moving bytes per tile in runs of that many contiguous bytes. */
double rearrange_cycles(const Target *t, double bytes, double run_bytes);

void cost_stream(Cost *c, const char *name, double bytes, double cycles);
void cost_vertex(Cost *c, const Target *t, double code_bytes, double state_bytes, double exchange_code_bytes);
/* At least so many bytes per tile of that category. */
void cost_memory(Cost *c, CostCategory category, double bytes_per_tile);

static inline int64_t idiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* How one product [m, k] . [k, n] (times groups) is spread over tiles: what the fullest tile holds and does. */
typedef struct MatmulPlan {
  int64_t group_split, row_split, out_split, in_split, serial;
  int64_t rows, in, out; /* of one tile's block, channels padded to what the units take */
  int64_t group_share;   /* products of one tile, one after the other */
  double input_bytes, weight_bytes, partial_bytes; /* per tile */
  double tiles;
  double exchange_in, compute;                     /* cycles */
  double reduce, convert, update;                  /* cycles of partial sums, of the cast, of joining serial parts */
  double reduce_exchange, reduce_steps, steps;
  double cycles;                                   /* everything, steps included */
  bool fits;
} MatmulPlan;

MatmulPlan plan_matmul(const Target *t, Dtype d, Dtype partials, int64_t groups, int64_t m, int64_t k, int64_t n,
                       double proportion);
/* Add the plan's steps, memory and code to c. */
void cost_plan(Cost *c, const Target *t, const MatmulPlan *p);
double step_cycles(const Target *t);
/* Stages in which `depth` partial sums become one. */
int reduce_stages(double depth);
/* Cycles of summing them: outputs of one tile (before the split), bytes of a partial; exchange in *exchange. */
double reduce_partials(const Target *t, double outputs, double depth, double partial_bytes, bool half_out,
                       double *exchange, double *steps);
#endif
