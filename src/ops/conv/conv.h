/* Declarations shared by the files of convolution.
 *   conv_shapes.c  shapes
 *   correlation.c  products of runs of pixels
 *   conv_run.c     evaluation
 *   conv_half.c    evaluation with float16 sums
 *   conv.c         rows and gradients */
#ifndef IPULUA_OPS_CONV_CONV_H
#define IPULUA_OPS_CONV_CONV_H
#include <string.h>

#include "base/arith.h"
#include "ops/nn.h"
#include "target/cost.h"

enum {
  BLOCK_BYTES = 256 * 1024,
  PARTIAL_BYTES = 8 << 20,
  MAX_CHUNKS = 16,
  MAX_PARTS = 8,
  ONE_CHUNK_FLOPS = 400000,
  MIN_PIXELS = 28 /* of a row: two tiles */
};

/* The convolution that a node computes, or whose adjoint it computes. The image is [batch, in…,
 * channels_in], the kernel [taps…, channels_in / groups, channels_out], the result [batch, out…,
 * channels_out]. */
typedef struct Geometry {
  Window w;
  int64_t batch, channels_in, channels_out, groups;
} Geometry;

/* Forms of the rows. The rows with explicit geometry are last. */
typedef enum ConvRow {
  CONV_ROW_PLAIN,
  CONV_ROW_DEPTHWISE,
  CONV_ROW_TRANSPOSE,
  CONV_ROW_GENERAL,
  CONV_ROW_GRAD_INPUT,
  CONV_ROW_GRAD_KERNEL,
} ConvRow;
typedef enum Form { FORM_FORWARD, FORM_IMAGE, FORM_KERNEL } Form;

/* One spatial dimension. Destination position start + every j reads source positions step j +
 * offset + spread m, for each tap m. Tap m is kernel position first + next m. */
typedef struct Line {
  int64_t source, dest, count, start, every, step, taps, offset, spread, first, next;
} Line;

typedef struct Correlation {
  Line line[SPATIAL];
  int64_t batch, groups, source_channels, dest_channels, taps;
  int64_t multiplier; /* depthwise: results for each channel of the image; 0: not depthwise */
  bool expand,
      /* depthwise with a multiplier > 1: repeat source channels; add up destination channels */
      fold;
  int64_t kernel_extent[SPATIAL];
  /* strides of the kernel, elements */
  int64_t kernel_tap, kernel_source, kernel_dest, kernel_group;
  bool copies; /* a block of the source is copied and padded */
  int64_t segments, length;
  int64_t block[SPATIAL];     /* destination positions of a chunk; block[0] is 1 */
  int64_t rows, cols, planes; /* of the copied block */
  int64_t pixel, row, plane;  /* strides of the image that is read, in elements */
  int64_t blocks[SPATIAL], chunks;
  Dtype dtype;
  size_t size;
  const char *source, *kernel;
  char *dest, *weights;
  int64_t *offset;
  const Kernels *kernels;
} Correlation;

/* Where a chunk begins. */
typedef struct Position {
  int64_t image, at[SPATIAL], count[SPATIAL];
} Position;

/* ---- shapes ---- */

bool conv_is_depthwise(const Node *n);
Status conv_infer_1(Error *e, Node *n);
Status conv_infer_2(Error *e, Node *n);
Status conv_infer_3(Error *e, Node *n);
Status conv_infer_explicit_forward(Error *e, Node *n);
Status conv_infer_grad_input(Error *e, Node *n);
Status conv_infer_grad_kernel(Error *e, Node *n);
Form conv_geometry_of(const Node *n, Geometry *g);
Status conv_infer_transpose_1(Error *e, Node *n);
Status conv_infer_transpose_2(Error *e, Node *n);
Status conv_infer_transpose_3(Error *e, Node *n);

/* ---- correlations ---- */

Correlation conv_forward_correlation(const Node *n, const Geometry *g, Form form);
int64_t conv_lattice_count(const Window *w);
Correlation conv_image_correlation(const Node *n, const Geometry *g, int64_t lattice);
int64_t conv_panels_of(const Correlation *c);
size_t conv_block_bytes(const Correlation *c);
char *conv_take_correlation(Room *r, Correlation *c);
int64_t conv_tap_of(const Correlation *c, int64_t m);
void conv_fill_offsets(const Correlation *c);
Position conv_position_of(const Correlation *c, int64_t chunk);
const char *conv_chunk_source(const Correlation *c, const Position *p, char *block);
char *conv_dest_row(const Correlation *c, const Position *p, int64_t row);
void conv_correlate(const Call *call, Correlation *c);

/* ---- evaluation of all rows ---- */

Status conv_eval(const Call *call);
Status conv_eval_half(const Call *call); /* conv_half.c */
size_t conv_scratch(const Node *n);

#endif
