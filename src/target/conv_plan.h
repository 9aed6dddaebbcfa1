/* Declarations shared by the planners of convolutions: the planner's description of a convolution,
 * and its methods. Inside target/ only. */
#ifndef IPULUA_TARGET_CONV_PLAN_H
#define IPULUA_TARGET_CONV_PLAN_H
#include "target/plan.h"

/* A convolution as the planner sees it: two field dimensions, stride 1 or more, padding as part
 * of the input. */
typedef struct Problem {
  int64_t groups, batch, in_channels, out_channels;
  int64_t rows, columns;       /* of the output */
  int64_t in_rows, in_columns; /* of the input, without padding */
  int64_t kernel_rows, kernel_columns, stride_rows, stride_columns;
  /* a point of the kernel works on every stride-th output of a dimension: backward over a stride */
  int64_t phase_rows, phase_columns;
  /* between the image's points, if it takes the kernel's place; else 0 */
  int64_t gap_rows, gap_columns;
  bool swapped;                            /* image and kernel are swapped */
  int64_t dilation_rows, dilation_columns; /* between the kernel's points, or 0 */
  bool spread; /* zeros lie between the points of the input, which SLIC can't take */
  /* plans are compared by the charged cost of moves, not by the expectation of PopLibs' planner */
  bool as_charged;
  /* cycles, on one tile, that it expects for bringing operands and result into a method's layout */
  double moved;
  double limit;
} Problem;

/* A kernel and the extents that one call covers: convolution groups, channels of each, columns of a
 * weight window. */
typedef struct Method {
  VertexKind kernel;
  int64_t groups, in, out, window;
  int64_t height; /* kernel rows of one pass, where the channels fill a part of the units */
} Method;

/* The outputs (of one dimension) on which a point of the kernel works. Backward over a stride that
 * is one phase of them. */
static inline int64_t of_phase(int64_t outputs, int64_t phases) {
  return ceil_div(outputs, max(phases, 1));
}
/* The points of the kernel that a block needs at all. */
static inline int64_t taps_needed(int64_t taps, int64_t outputs, int64_t stride, int64_t in,
                                  int64_t phases) {
  return min(taps,
             times(max(phases, 1), times(of_phase(outputs, phases) - 1, stride) + max(in, 1)));
}

int64_t conv_product(const int64_t *extents, int rank);

/* --- conv_cut.c: one method, cut over tiles --- */
/* Sets *best to the best cut of that method, if it is better. The operand is first expanded to that
 * many bytes, on all tiles together; 0: it isn't. */
void try_method(const Target *t, const Units *u, const Problem *q, Method m, double expanded_bytes,
                Plan *best);
Method amp_method(const Units *u);
bool has_phases(const Problem *q);
/* The kernel's rows, columns or both as input channels, and the bytes that the input has then. */
Problem expand(const Problem *q, bool rows, bool columns);
double expanded_bytes(const Problem *e, const Units *u);
/* Points of the kernel become channels. The planner expects a higher cost than is charged. */
void add_expanded(const Target *t, Plan *p, double bytes, bool as_charged);
/* The planner's cycles for changing the layout of some bytes (of all tiles), element by element.
 * rate is in cycles for each 2 bytes. It is lower if channels don't come in vectors. */
double planned_move(const Target *t, double bytes, double rate, bool exchanged);
#define EVEN_CHANNELS (5.0 / 4)
#define ODD_CHANNELS (5.0 / 3)

/* --- conv_methods.c: the best of all methods --- */
Plan plan_conv(const Target *t, Dtype d, Dtype partials, const Problem *q, double proportion);
/* Of the weight gradient. */
Plan plan_weights(const Target *t, Dtype d, Dtype partials, const ConvShape *s, double proportion,
                  bool as_charged);
#endif
