/* Convolutions of channels-last images without im2col. Three forms cover everything: the correlation itself,
 * its adjoint in the image, its adjoint in the kernel; the public rows are these with a geometry of their
 * own.
 *
 * A correlation computes a lattice of destination positions (every `every`-th) from source positions that
 * advance by `step`, with the kernel's taps at equal distances. The forward pass is one lattice; the adjoint
 * in the image is one lattice for each residue of the position by the stride, each with the taps that reach
 * it:
 *
 *     stride 2, kernel 3:   dx[0] dx[1] dx[2] dx[3] …      dx[even] ← taps 0, 2    dx[odd] ← tap 1
 *
 * Neighbouring taps of a row of pixels are one run of memory, so a row of results is a product of strided
 * runs with a panel of the kernel (kernels.h, PanelMul). Where taps reach beyond the image, a block of rows
 * is copied into scratch with zeros around it. */
#include <string.h>

#include "ops/nn.h"
#include "target/cost.h"

enum {
  BLOCK_BYTES = 256 * 1024,
  PARTIAL_BYTES = 8 << 20,
  MOST_CHUNKS = 16,
  MOST_PARTS = 8,
  ONE_CHUNK_FLOPS = 400000,
  LEAST_PIXELS = 28 /* of a row: two tiles */
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- geometry ---- */

/* The convolution that a node is, or is an adjoint of: image [batch, in…, channels_in], kernel [taps…,
 * channels_in / groups, channels_out], result [batch, out…, channels_out]. */
typedef struct Geometry {
  Window w;
  int64_t batch, channels_in, channels_out, groups;
} Geometry;

static void spatial_of(const Type *t, int first, int rank, int64_t out[SPATIAL]) {
  for (int i = 0; i < SPATIAL; i++) out[i] = 1;
  for (int i = 0; i < rank; i++) out[SPATIAL - rank + i] = t->shape[first + i];
}

static Type image_type(Dtype d, int64_t batch, int rank, const int64_t extent[SPATIAL], int64_t channels) {
  Type t = {.dtype = d, .rank = rank + 2};
  t.shape[0] = batch;
  for (int i = 0; i < rank; i++) t.shape[1 + i] = extent[SPATIAL - rank + i];
  t.shape[rank + 1] = channels;
  return t;
}

static Status check_channels(Error *e, const Type *x, const Type *kernel, int64_t groups) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  int64_t have = x->shape[x->rank - 1], per_group = kernel->shape[kernel->rank - 2],
          out = kernel->shape[kernel->rank - 1];
  if (groups < 1) return fail(e, ERR_VALUE, "groups must be at least 1, got %lld", (long long)groups);
  if (have != per_group * groups)
    return fail(e, ERR_INVALID_ARGUMENT,
                "x %s has %lld channels, but kernel %s with groups = %lld takes %lld", shape_text(x, a),
                (long long)have, shape_text(kernel, b), (long long)groups, (long long)(per_group * groups));
  if (out % groups)
    return fail(e, ERR_INVALID_ARGUMENT, "groups = %lld don't divide the %lld output channels of kernel %s",
                (long long)groups, (long long)out, shape_text(kernel, b));
  return OK;
}

static Status check_extents(Error *e, const Type *kernel) {
  char text[TYPE_TEXT];
  for (int i = 0; i < kernel->rank; i++)
    if (kernel->shape[i] < 1 || kernel->shape[i] > INT32_MAX)
      return fail(e, ERR_INVALID_ARGUMENT, "kernel %s must have extents from 1 to %d",
                  shape_text(kernel, text), INT32_MAX);
  return OK;
}

static const int64_t ones[SPATIAL] = {1, 1, 1};

/* ---- infer: convN d and depthwise_conv2d ---- */

enum { STRIDES, PADDING, DILATIONS, GROUPS }; /* attributes */

static bool is_depthwise(const Node *n) { return !strcmp(n->op->name, "nn.depthwise_conv2d"); }

static Status forward_geometry(Error *e, const Node *n, int rank, Geometry *g) {
  const Type *x = &n->in[0]->type, *kernel = &n->in[1]->type;
  bool depthwise = is_depthwise(n);
  memset(g, 0, sizeof *g);
  Status s = nn_want_float(e, n, 0, 2);
  if (s == OK) s = nn_want_rank(e, "x", x, rank + 2);
  if (s == OK) s = nn_want_rank(e, "kernel", kernel, rank + 2);
  if (s == OK) s = check_extents(e, kernel);
  if (s != OK) return s;
  g->batch = x->shape[0];
  g->channels_in = x->shape[rank + 1];
  g->groups = depthwise ? g->channels_in : n->attr[GROUPS].i;
  g->channels_out = depthwise ? g->channels_in * kernel->shape[rank + 1] : kernel->shape[rank + 1];
  if (depthwise && kernel->shape[rank] != g->channels_in) s = check_channels(e, x, kernel, 1);
  if (!depthwise) s = check_channels(e, x, kernel, g->groups);
  g->w.rank = rank;
  spatial_of(x, 1, rank, g->w.in);
  spatial_of(kernel, 0, rank, g->w.kernel);
  if (s == OK) s = nn_spatial(e, "strides", &n->attr[STRIDES], rank, 1, ones, g->w.stride);
  if (s == OK) s = nn_spatial(e, "dilations", &n->attr[DILATIONS], rank, 1, ones, g->w.dilation);
  return s == OK ? nn_window(e, &n->attr[PADDING], &g->w) : s;
}

static Status infer_forward(Error *e, Node *n, int rank) {
  Geometry g;
  Status s = forward_geometry(e, n, rank, &g);
  if (s == OK) n->out[0].type = image_type(n->in[0]->type.dtype, g.batch, rank, g.w.out, g.channels_out);
  return s;
}
static Status infer_1(Error *e, Node *n) { return infer_forward(e, n, 1); }
static Status infer_2(Error *e, Node *n) { return infer_forward(e, n, 2); }
static Status infer_3(Error *e, Node *n) { return infer_forward(e, n, 3); }

/* ---- infer: transposes. The convolution whose adjoint they are has this op's result as its image. ---- */

enum { T_STRIDES, T_PADDING, T_OUTPUT_PADDING, T_DILATIONS };

static Status transpose_extents(Error *e, const Node *n, Window *w) {
  bool same = nn_is(&n->attr[T_PADDING], "SAME"), explicit = n->attr[T_OUTPUT_PADDING].kind != ATTR_NONE;
  int64_t extra[SPATIAL];
  Status s = nn_spatial(e, "output_padding", &n->attr[T_OUTPUT_PADDING], w->rank, 0, ones, extra);
  if (s == OK && !same && !nn_is(&n->attr[T_PADDING], "VALID"))
    return fail(e, ERR_VALUE, "padding must be VALID or SAME, got %s",
                n->attr[T_PADDING].s ? n->attr[T_PADDING].s : "nothing");
  for (int i = SPATIAL - w->rank; s == OK && i < SPATIAL; i++) {
    if (w->out[i] > INT32_MAX || (w->kernel[i] - 1) * w->dilation[i] >= INT32_MAX)
      return fail(e, ERR_INVALID_ARGUMENT, "extents and windows must be less than %d", INT32_MAX);
    int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1, beyond = most(reach - w->stride[i], 0);
    if (!explicit) {
      w->in[i] = w->out[i] * w->stride[i] + (same ? 0 : beyond);
      w->pad[i] = same ? beyond / 2 : 0;
      continue;
    }
    if (extra[i] >= w->stride[i])
      return fail(e, ERR_VALUE, "output_padding %lld must be less than the stride %lld", (long long)extra[i],
                  (long long)w->stride[i]);
    int64_t covered = (w->out[i] - 1) * w->stride[i] + reach;
    w->in[i] = most(covered - (same ? reach / 2 * 2 : 0) + extra[i], 0);
    w->pad[i] = same ? most(covered - w->in[i], 0) / 2 : 0; /* as SAME pads an image of that extent */
  }
  return s;
}

static Status transpose_geometry(Error *e, const Node *n, int rank, Geometry *g) {
  const Type *x = &n->in[0]->type, *kernel = &n->in[1]->type;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  memset(g, 0, sizeof *g);
  Status s = nn_want_float(e, n, 0, 2);
  if (s == OK) s = nn_want_rank(e, "x", x, rank + 2);
  if (s == OK) s = nn_want_rank(e, "kernel", kernel, rank + 2);
  if (s == OK) s = check_extents(e, kernel);
  if (s != OK) return s;
  if (x->shape[rank + 1] != kernel->shape[rank + 1])
    return fail(e, ERR_INVALID_ARGUMENT,
                "x %s has %lld channels, but the last extent of kernel %s, its input channels, is %lld",
                shape_text(x, a), (long long)x->shape[rank + 1], shape_text(kernel, b),
                (long long)kernel->shape[rank + 1]);
  g->batch = x->shape[0];
  g->groups = 1;
  g->channels_out = kernel->shape[rank + 1];
  g->channels_in = kernel->shape[rank];
  g->w.rank = rank;
  for (int i = 0; i < SPATIAL; i++) g->w.in[i] = 1;
  spatial_of(x, 1, rank, g->w.out);
  spatial_of(kernel, 0, rank, g->w.kernel);
  s = nn_spatial(e, "strides", &n->attr[T_STRIDES], rank, 1, ones, g->w.stride);
  if (s == OK) s = nn_spatial(e, "dilations", &n->attr[T_DILATIONS], rank, 1, ones, g->w.dilation);
  return s == OK ? transpose_extents(e, n, &g->w) : s;
}

static Status infer_transpose(Error *e, Node *n, int rank) {
  Geometry g;
  Status s = transpose_geometry(e, n, rank, &g);
  if (s == OK) n->out[0].type = image_type(n->in[0]->type.dtype, g.batch, rank, g.w.in, g.channels_in);
  return s;
}
static Status infer_transpose_1(Error *e, Node *n) { return infer_transpose(e, n, 1); }
static Status infer_transpose_2(Error *e, Node *n) { return infer_transpose(e, n, 2); }
static Status infer_transpose_3(Error *e, Node *n) { return infer_transpose(e, n, 3); }

/* ---- infer: the three forms with an explicit geometry ---- */

enum { G_STRIDES, G_PADS, G_DILATIONS, G_GROUPS, G_SHAPE };
typedef enum Form { FORM_FORWARD, FORM_IMAGE, FORM_KERNEL } Form;

static Status explicit_geometry(Error *e, const Node *n, Form form, Geometry *g) {
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type;
  int rank = a->rank - 2;
  memset(g, 0, sizeof *g);
  Status s = nn_want_float(e, n, 0, 2);
  if (s != OK) return s;
  if (rank < 1 || rank > SPATIAL || b->rank != a->rank)
    return fail(e, ERR_INVALID_ARGUMENT, "operands of ranks %d and %d are no images", a->rank, b->rank);
  g->w.rank = rank;
  g->batch = a->shape[0];
  g->groups = n->attr[G_GROUPS].i;
  s = nn_spatial(e, "strides", &n->attr[G_STRIDES], rank, 1, ones, g->w.stride);
  if (s == OK) s = nn_spatial(e, "dilations", &n->attr[G_DILATIONS], rank, 1, ones, g->w.dilation);
  if (s == OK) s = nn_spatial(e, "pads", &n->attr[G_PADS], rank, -INT32_MAX, ones, g->w.pad);
  int64_t shape[SPATIAL];
  if (s == OK) s = nn_spatial(e, "shape", &n->attr[G_SHAPE], rank, 0, ones, shape);
  if (s != OK) return s;
  for (int i = 0; i < SPATIAL - rank; i++) g->w.pad[i] = 0;
  if (form != FORM_IMAGE) spatial_of(a, 1, rank, g->w.in);
  if (form == FORM_FORWARD) spatial_of(b, 0, rank, g->w.kernel), memcpy(g->w.out, shape, sizeof shape);
  if (form == FORM_IMAGE)
    spatial_of(a, 1, rank, g->w.out), spatial_of(b, 0, rank, g->w.kernel),
        memcpy(g->w.in, shape, sizeof shape);
  if (form == FORM_KERNEL) spatial_of(b, 1, rank, g->w.out), memcpy(g->w.kernel, shape, sizeof shape);
  g->channels_out = b->shape[rank + 1];
  g->channels_in = form == FORM_IMAGE ? b->shape[rank] * g->groups : a->shape[rank + 1];
  return OK;
}

static Status infer_explicit_forward(Error *e, Node *n) {
  Geometry g;
  Status s = explicit_geometry(e, n, FORM_FORWARD, &g);
  if (s == OK) s = check_channels(e, &n->in[0]->type, &n->in[1]->type, g.groups);
  if (s == OK) n->out[0].type = image_type(n->in[0]->type.dtype, g.batch, g.w.rank, g.w.out, g.channels_out);
  return s;
}
static Status infer_grad_input(Error *e, Node *n) {
  Geometry g;
  Status s = explicit_geometry(e, n, FORM_IMAGE, &g);
  if (s == OK) n->out[0].type = image_type(n->in[0]->type.dtype, g.batch, g.w.rank, g.w.in, g.channels_in);
  return s;
}
static Status infer_grad_kernel(Error *e, Node *n) {
  Geometry g;
  Status s = explicit_geometry(e, n, FORM_KERNEL, &g);
  if (s != OK) return s;
  Type t = {.dtype = n->in[0]->type.dtype, .rank = g.w.rank + 2};
  for (int i = 0; i < g.w.rank; i++) t.shape[i] = g.w.kernel[SPATIAL - g.w.rank + i];
  t.shape[g.w.rank] = g.channels_in / g.groups;
  t.shape[g.w.rank + 1] = g.channels_out;
  n->out[0].type = t;
  return OK;
}

/* What infer has accepted can't fail. */
static Form geometry_of(const Node *n, Geometry *g) {
  Error ignored = {0};
  const char *name = n->op->name;
  int rank = n->in[0]->type.rank - 2;
  Form form = !strcmp(name, "nn.conv_grad_kernel")  ? FORM_KERNEL
              : !strcmp(name, "nn.conv_grad_input") ? FORM_IMAGE
                                                    : FORM_FORWARD;
  if (n->op->traits & INTERNAL) {
    explicit_geometry(&ignored, n, form, g);
  } else if (strstr(name, "transpose")) {
    transpose_geometry(&ignored, n, rank, g);
    form = FORM_IMAGE;
  } else {
    forward_geometry(&ignored, n, rank, g);
  }
  return form;
}

/* ---- correlations ---- */

/* One spatial dimension: destination position start + every j reads source positions step j + offset + spread
 * m, for each of the taps m, which is kernel position first + next m. */
typedef struct Line {
  int64_t source, dest, count, start, every, step, taps, offset, spread, first, next;
} Line;

typedef struct Correlation {
  Line line[SPATIAL];
  int64_t batch, groups, source_channels, dest_channels, taps;
  int64_t multiplier; /* depthwise: results for each channel of the image; 0: not depthwise */
  bool expand,
      fold; /* depthwise with a multiplier > 1: repeat source channels; add up destination channels */
  int64_t kernel_extent[SPATIAL];
  int64_t kernel_tap, kernel_source, kernel_dest, kernel_group; /* strides of the kernel, elements */
  bool copies; /* a block of the source is copied and padded */
  int64_t segments, length;
  int64_t block[SPATIAL];     /* destination positions of a chunk; block[0] is 1 */
  int64_t rows, cols, planes; /* of the copied block */
  int64_t pixel, row, plane;  /* strides of what is read, elements */
  int64_t blocks[SPATIAL], chunks;
  Dtype dtype;
  size_t size;
  const char *source, *kernel;
  char *dest, *weights;
  int64_t *offset;
  const Kernels *kernels;
} Correlation;

static int64_t line_last(const Line *l) {
  return l->step * (l->count - 1) + l->offset + (l->taps - 1) * l->spread;
}
static int64_t line_extent(const Line *l, int64_t count) {
  return l->step * (count - 1) + (l->taps - 1) * l->spread + 1;
}

static Line forward_line(const Window *w, int i) {
  return (Line){.source = w->in[i],
                .dest = w->out[i],
                .count = w->out[i],
                .every = 1,
                .step = w->stride[i],
                .taps = w->kernel[i],
                .offset = -w->pad[i],
                .spread = w->dilation[i],
                .next = 1};
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Drop taps that meet only the zeros beyond the image; far dilations would otherwise cost memory. */
static void prune(Line *l) {
  if (l->taps == 0 || l->count == 0 || l->spread == 0) return;
  int64_t reach = l->step * (l->count - 1) + l->offset;
  int64_t in_front = reach < 0 ? least(ceil_div(-reach, l->spread), l->taps) : 0;
  l->first += in_front * l->next;
  l->offset += in_front * l->spread;
  l->taps -= in_front;
  if (l->offset >= l->source) l->taps = 0;
  else l->taps = least(l->taps, (l->source - 1 - l->offset) / l->spread + 1);
}

/* The destination positions start, start + stride, …: kernel position k reaches p when (p + pad - k dilation)
 * is a multiple of the stride. */
static Line image_line(const Window *w, int i, int64_t start) {
  int64_t s = w->stride[i], d = w->dilation[i], k = 0;
  int64_t residue = ((start + w->pad[i]) % s + s) % s;
  Line l = {.source = w->out[i], .dest = w->in[i], .every = s, .step = 1, .start = start};
  if (start < l.dest) l.count = (l.dest - 1 - start) / s + 1;
  int64_t next = s / common_divisor(s, d);
  while (k < next && k < w->kernel[i] && k * d % s != residue) k++;
  if (k == next || k >= w->kernel[i]) return l;
  l.taps = (w->kernel[i] - 1 - k) / next + 1;
  l.first = k + (l.taps - 1) * next; /* the last tap lies furthest to the left */
  l.next = -next;
  l.offset = (start + w->pad[i] - l.first * d) / s;
  l.spread = next * d / s;
  return l;
}

static void choose_blocks(Correlation *c) {
  Line *l = c->line;
  int64_t bytes = (int64_t)c->size * c->source_channels * (c->expand ? c->multiplier : 1);
  int64_t planes = line_extent(&l[0], 1), pixels = most(BLOCK_BYTES / (bytes * planes), 1);
  int64_t height = line_extent(&l[1], 1);
  c->block[0] = 1;
  c->block[2] = l[2].count;
  if (line_extent(&l[2], l[2].count) > 4 * pixels / height) {
    int64_t fit = (4 * pixels / height - line_extent(&l[2], 1)) / l[2].step + 1;
    c->block[2] = least(most(fit, LEAST_PIXELS), l[2].count);
  }
  int64_t fit = (pixels / line_extent(&l[2], c->block[2]) - height) / l[1].step + 1;
  c->block[1] = least(most(fit, 1), l[1].count);
  double flops = 2.0 * (double)c->batch * (double)(l[0].count * l[1].count * l[2].count) * (double)c->taps *
                 (double)(c->source_channels / c->groups) * (double)c->dest_channels;
  int64_t want =
      flops > (double)MOST_CHUNKS * ONE_CHUNK_FLOPS ? MOST_CHUNKS : (int64_t)(flops / ONE_CHUNK_FLOPS) + 1;
  int64_t others = most(c->batch * l[0].count, 1);
  if (others < want) c->block[1] = least(c->block[1], most(ceil_div(l[1].count, ceil_div(want, others)), 1));
  others *= ceil_div(l[1].count, c->block[1]);
  if (others < want)
    c->block[2] = least(c->block[2], most(ceil_div(l[2].count, ceil_div(want, others)), LEAST_PIXELS));
  for (int i = 0; i < SPATIAL; i++) {
    c->blocks[i] = ceil_div(l[i].count, c->block[i]);
    c->block[i] = ceil_div(l[i].count, c->blocks[i]); /* of nearly equal heights */
    c->blocks[i] = ceil_div(l[i].count, c->block[i]);
  }
  c->chunks = c->batch * c->blocks[0] * c->blocks[1] * c->blocks[2];
}

/* After the lines are set: blocks, runs, strides. */
static void finish_correlation(Correlation *c) {
  Line *l = c->line;
  for (int i = 0; i < SPATIAL; i++) prune(&l[i]);
  c->taps = l[0].taps * l[1].taps * l[2].taps;
  if (c->taps == 0 || l[0].count * l[1].count * l[2].count == 0) return;
  c->copies = c->expand;
  for (int i = 0; i < SPATIAL; i++) c->copies |= l[i].offset < 0 || line_last(&l[i]) >= l[i].source;
  choose_blocks(c);
  c->pixel = c->source_channels * (c->expand ? c->multiplier : 1);
  c->planes = line_extent(&l[0], 1);
  c->rows = c->copies ? line_extent(&l[1], c->block[1]) : l[1].source;
  c->cols = c->copies ? line_extent(&l[2], c->block[2]) : l[2].source;
  c->row = c->cols * c->pixel;
  c->plane = c->rows * c->row;
  bool runs = c->groups == 1 && (l[2].spread == 1 || l[2].taps == 1) && !c->multiplier;
  c->segments = runs ? l[0].taps * l[1].taps : c->taps;
  c->length = c->multiplier ? 1 : c->source_channels / c->groups * (runs ? l[2].taps : 1);
}

static Correlation correlation_base(const Node *n, const Geometry *g, Form form) {
  Correlation c = {.batch = g->batch, .groups = g->groups, .dtype = dtype_to_compute(n->in[0]->type.dtype)};
  int64_t in = g->channels_in / g->groups, out = g->channels_out / g->groups;
  c.size = dtype_size(c.dtype);
  memcpy(c.kernel_extent, g->w.kernel, sizeof c.kernel_extent);
  c.kernel_tap = in * g->channels_out;
  c.kernel_group = out;
  bool image = form == FORM_IMAGE;
  c.source_channels = image ? g->channels_out : g->channels_in;
  c.dest_channels = image ? g->channels_in : g->channels_out;
  c.kernel_source = image ? 1 : g->channels_out;
  c.kernel_dest = image ? g->channels_out : 1;
  if (in == 1 && g->groups > 1) {
    c.multiplier = out;
    c.expand = !image && out > 1;
    c.fold = image && out > 1;
  }
  return c;
}

static Correlation forward_correlation(const Node *n, const Geometry *g, Form form) {
  Correlation c = correlation_base(n, g, form);
  for (int i = 0; i < SPATIAL; i++) c.line[i] = forward_line(&g->w, i);
  finish_correlation(&c);
  return c;
}

/* The lattices of the adjoint in the image, by the position that each starts at. */
static int64_t lattice_count(const Window *w) {
  int64_t count = 1;
  for (int i = 0; i < SPATIAL; i++) count *= least(w->stride[i], w->in[i]);
  return count;
}
static Correlation image_correlation(const Node *n, const Geometry *g, int64_t lattice) {
  Correlation c = correlation_base(n, g, FORM_IMAGE);
  for (int i = SPATIAL - 1; i >= 0; i--) {
    int64_t starts = least(g->w.stride[i], g->w.in[i]);
    c.line[i] = image_line(&g->w, i, lattice % starts);
    lattice /= starts;
  }
  finish_correlation(&c);
  return c;
}

/* ---- scratch: weights, offsets, then each slot's block and row of results to fold ---- */

static int64_t panels_of(const Correlation *c) { return ceil_div(c->dest_channels / c->groups, PANEL_COLS); }
static int64_t panel_elements(const Correlation *c) {
  return c->taps * (c->source_channels / c->groups) * PANEL_COLS;
}
static size_t weight_bytes(const Correlation *c) {
  int64_t depthwise = c->taps * c->groups * c->multiplier;
  return (size_t)(c->multiplier ? depthwise : c->groups * panels_of(c) * panel_elements(c)) * c->size;
}
static size_t block_bytes(const Correlation *c) {
  size_t bytes = c->copies ? (size_t)(c->planes * c->plane) * c->size : 0;
  return (bytes + 63) & ~(size_t)63;
}
static size_t slot_bytes(const Correlation *c) {
  size_t fold = c->fold ? (size_t)(c->block[2] * c->source_channels) * c->size : 0;
  return block_bytes(c) + ((fold + 63) & ~(size_t)63);
}
static char *take_correlation(Room *r, Correlation *c) {
  c->weights = room_take(r, weight_bytes(c));
  c->offset = room_take(r, (size_t)c->segments * sizeof *c->offset);
  return room_take(r, slot_bytes(c) * NN_SLOTS);
}

/* ---- running a correlation ---- */

static int64_t tap_of(const Correlation *c, int64_t m) {
  const Line *l = c->line;
  int64_t m2 = m % l[2].taps, m1 = m / l[2].taps % l[1].taps, m0 = m / l[2].taps / l[1].taps;
  int64_t k0 = l[0].first + m0 * l[0].next, k1 = l[1].first + m1 * l[1].next,
          k2 = l[2].first + m2 * l[2].next;
  return (k0 * c->kernel_extent[1] + k1) * c->kernel_extent[2] + k2;
}

static void pack_panel(void *context, int64_t index, void *scratch) {
  (void)scratch;
  const Correlation *c = context;
  int64_t panels = panels_of(c), group = index / panels, col = index % panels * PANEL_COLS;
  int64_t in = c->source_channels / c->groups, cols = least(c->dest_channels / c->groups - col, PANEL_COLS);
  char *to = c->weights + (size_t)(index * panel_elements(c)) * c->size;
  /* A group's channels lie beside each other along the kernel's last extent, which is the source's in the
   * adjoint. */
  for (int64_t m = 0; m < c->taps; m++) {
    int64_t from = tap_of(c, m) * c->kernel_tap + group * c->kernel_group + col * c->kernel_dest;
    c->kernels->panel_pack[c->dtype](c->kernel + (size_t)from * c->size, c->kernel_source, c->kernel_dest, in,
                                     cols, to + (size_t)(m * in * PANEL_COLS) * c->size);
  }
}

static void fill_offsets(const Correlation *c) {
  const Line *l = c->line;
  int64_t inner = c->segments / (l[0].taps * l[1].taps);
  for (int64_t s = 0; s < c->segments; s++) {
    int64_t m2 = s % inner, m1 = s / inner % l[1].taps, m0 = s / inner / l[1].taps;
    c->offset[s] = m0 * l[0].spread * c->plane + m1 * l[1].spread * c->row + m2 * l[2].spread * c->pixel;
  }
}

static void pack_weights(const Call *call, const Correlation *c) {
  if (!c->multiplier) {
    nn_run(call, c->groups * panels_of(c), NULL, 0, pack_panel, (void *)(uintptr_t)c);
    return;
  }
  size_t bytes = (size_t)(c->groups * c->multiplier) * c->size;
  for (int64_t m = 0; m < c->taps; m++)
    memcpy(c->weights + (size_t)m * bytes, c->kernel + (size_t)(tap_of(c, m) * c->kernel_tap) * c->size,
           bytes);
}

/* Where a chunk begins. */
typedef struct Place {
  int64_t image, at[SPATIAL], count[SPATIAL];
} Place;

static Place place_of(const Correlation *c, int64_t chunk) {
  Place p;
  for (int i = SPATIAL - 1; i >= 0; i--) {
    p.at[i] = chunk % c->blocks[i] * c->block[i];
    p.count[i] = least(c->block[i], c->line[i].count - p.at[i]);
    chunk /= c->blocks[i];
  }
  p.image = chunk;
  return p;
}

/* Pixels [first, first + count) of a row of the source, zeros beyond its ends; each channel `repeat` times.
 */
static void copy_pixels(const Correlation *c, const char *row, int64_t first, int64_t count, char *to) {
  size_t pixel = (size_t)c->pixel * c->size;
  int64_t lead = least(most(-first, 0), count), end = most(least(c->line[2].source - first, count), lead);
  memset(to, 0, (size_t)lead * pixel);
  memset(to + (size_t)end * pixel, 0, (size_t)(count - end) * pixel);
  const char *from = row + (size_t)(first + lead) * (size_t)c->source_channels * c->size;
  to += (size_t)lead * pixel;
  if (!c->expand) {
    memcpy(to, from, (size_t)(end - lead) * pixel);
    return;
  }
  for (int64_t i = 0; i < (end - lead) * c->source_channels; i++, from += c->size)
    for (int64_t m = 0; m < c->multiplier; m++, to += c->size) memcpy(to, from, c->size);
}

static void copy_block(const Correlation *c, const Place *p, char *block) {
  const Line *l = c->line;
  int64_t rows = line_extent(&l[1], p->count[1]), cols = line_extent(&l[2], p->count[2]);
  size_t source_row = (size_t)(l[2].source * c->source_channels) * c->size,
         row_bytes = (size_t)c->row * c->size;
  for (int64_t plane = 0; plane < c->planes; plane++)
    for (int64_t row = 0; row < rows; row++) {
      int64_t z = l[0].step * p->at[0] + l[0].offset + plane, y = l[1].step * p->at[1] + l[1].offset + row;
      char *to = block + (size_t)(plane * c->rows + row) * row_bytes;
      if (z < 0 || z >= l[0].source || y < 0 || y >= l[1].source)
        memset(to, 0, (size_t)(cols * c->pixel) * c->size);
      else
        copy_pixels(c, c->source + (size_t)((p->image * l[0].source + z) * l[1].source + y) * source_row,
                    l[2].step * p->at[2] + l[2].offset, cols, to);
    }
}

/* The chunk's source: its first tap's first pixel. */
static const char *chunk_source(const Correlation *c, const Place *p, char *block) {
  const Line *l = c->line;
  if (c->copies) {
    copy_block(c, p, block);
    return block;
  }
  int64_t z = l[0].step * p->at[0] + l[0].offset, y = l[1].step * p->at[1] + l[1].offset,
          x = l[2].step * p->at[2] + l[2].offset;
  return c->source +
         (size_t)((((p->image * l[0].source + z) * l[1].source + y) * l[2].source + x) * c->source_channels) *
             c->size;
}

static char *dest_row(const Correlation *c, const Place *p, int64_t row) {
  const Line *l = c->line;
  int64_t z = l[0].start + l[0].every * p->at[0], y = l[1].start + l[1].every * (p->at[1] + row);
  int64_t x = l[2].start + l[2].every * p->at[2];
  return c->dest +
         (size_t)((((p->image * l[0].dest + z) * l[1].dest + y) * l[2].dest + x) * c->dest_channels) *
             c->size;
}

/* The runs [*first, *end) of row `row` that meet the image: those of flat images that lie above or below it
 * add nothing. */
static void runs_inside(const Correlation *c, const Place *p, int64_t row, int64_t *first, int64_t *end) {
  const Line *l = &c->line[1];
  *first = 0;
  *end = c->segments;
  if (c->line[0].taps != 1 || l->spread < 1) return;
  int64_t per_tap = c->segments / l->taps, y = l->step * (p->at[1] + row) + l->offset;
  int64_t above = y < 0 ? least(ceil_div(-y, l->spread), l->taps) : 0;
  int64_t inside = y >= l->source ? 0 : least((l->source - 1 - y) / l->spread + 1, l->taps);
  *first = above * per_tap;
  *end = most(inside, above) * per_tap;
}

static void correlate_dense(const Correlation *c, const Place *p, const char *source) {
  int64_t panels = panels_of(c), out = c->dest_channels / c->groups;
  PanelMul m = {.x_row = c->line[2].step * c->pixel,
                .length = c->length,
                .y_row = c->line[2].every * c->dest_channels,
                .rows = p->count[2]};
  for (int64_t i = 0; i < c->groups * panels; i++) {
    int64_t group = i / panels, col = i % panels * PANEL_COLS;
    const char *panel = c->weights + (size_t)(i * panel_elements(c)) * c->size;
    m.cols = least(out - col, PANEL_COLS);
    for (int64_t row = 0; row < p->count[1]; row++) {
      int64_t first, end;
      runs_inside(c, p, row, &first, &end);
      m.offset = c->offset + first;
      m.segments = end - first;
      m.w = panel + (size_t)(first * c->length * PANEL_COLS) * c->size;
      m.x = source +
            (size_t)(row * c->line[1].step * c->row + group * (c->source_channels / c->groups)) * c->size;
      m.y = dest_row(c, p, row) + (size_t)(group * out + col) * c->size;
      c->kernels->panel_mul[c->dtype](&m);
    }
  }
}

/* dest[i, c] = sum over m of products[i, c multiplier + m]. */
static void fold_row(const Correlation *c, const char *products, char *dest, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    for (int64_t ch = 0; ch < c->dest_channels; ch++) {
      double sum = 0;
      for (int64_t m = 0; m < c->multiplier; m++)
        sum += dtype_get(c->dtype, products, (i * c->dest_channels + ch) * c->multiplier + m);
      dtype_set(c->dtype, dest, i * c->line[2].every * c->dest_channels + ch, sum);
    }
}

static void correlate_depthwise(const Correlation *c, const Place *p, const char *source, char *products) {
  Depthwise d = {.w = c->weights,
                 .x_row = c->line[2].step * c->pixel,
                 .offset = c->offset,
                 .taps = c->taps,
                 .y_row = c->line[2].every * c->dest_channels,
                 .rows = p->count[2],
                 .channels = c->groups * c->multiplier};
  if (c->fold) d.y_row = d.channels;
  for (int64_t row = 0; row < p->count[1]; row++) {
    d.x = source + (size_t)(row * c->line[1].step * c->row) * c->size;
    d.y = c->fold ? products : dest_row(c, p, row);
    c->kernels->depthwise[c->dtype](&d);
    if (c->fold) fold_row(c, products, dest_row(c, p, row), p->count[2]);
  }
}

static void correlate_chunk(void *context, int64_t chunk, void *scratch) {
  const Correlation *c = context;
  Place p = place_of(c, chunk);
  const char *source = chunk_source(c, &p, scratch);
  if (c->multiplier) correlate_depthwise(c, &p, source, (char *)scratch + block_bytes(c));
  else correlate_dense(c, &p, source);
}

static void correlate(const Call *call, Correlation *c) {
  if (c->chunks == 0) return;
  Room room = {call->scratch, 0};
  char *slots = take_correlation(&room, c);
  c->kernels = call->kernels;
  c->source = call->in[0];
  c->kernel = call->in[1];
  c->dest = call->out[0];
  fill_offsets(c);
  pack_weights(call, c);
  nn_run(call, c->chunks, slots, slot_bytes(c), correlate_chunk, c);
}

/* ---- the adjoint in the kernel ---- */

/* Items (blocks of rows of an image) are dealt to parts in order; a part sums its own kernel gradient, the
 * parts are added in order. Where the kernel is too large for many parts, its runs and panels are split too.
 */
typedef struct KernelGrad {
  Correlation c; /* the forward one: its source is x, its destination's place holds dy */
  const char *dy;
  char *parts; /* [part_count][kernel], or the result when there is one part */
  char *result;
  int64_t part_count, splits, elements, pieces; /* pieces: (run, group, panel) triples to be split */
  bool clears; /* some of the kernel is reached by no piece, or each piece only adds */
} KernelGrad;

static KernelGrad kernel_grad(const Node *n, const Geometry *g) {
  KernelGrad k = {.c = forward_correlation(n, g, FORM_KERNEL)};
  Correlation *c = &k.c;
  k.elements =
      g->w.kernel[0] * g->w.kernel[1] * g->w.kernel[2] * g->channels_in / g->groups * g->channels_out;
  if (c->chunks == 0) return k;
  int64_t room = most(PARTIAL_BYTES / most(k.elements * (int64_t)c->size, 1), 1);
  double flops = 2.0 * (double)k.elements * (double)c->batch *
                 (double)(c->line[0].count * c->line[1].count * c->line[2].count);
  int64_t want =
      flops > (double)MOST_CHUNKS * ONE_CHUNK_FLOPS ? MOST_CHUNKS : (int64_t)(flops / ONE_CHUNK_FLOPS) + 1;
  k.part_count = least(least(least(want, MOST_PARTS), room), c->chunks);
  k.pieces = c->multiplier ? 1 : c->segments * c->groups * panels_of(c);
  k.splits = least(ceil_div(least(want, MOST_PARTS), k.part_count), k.pieces);
  k.clears = c->multiplier || c->taps < g->w.kernel[0] * g->w.kernel[1] * g->w.kernel[2];
  return k;
}

static char *take_kernel_grad(Room *r, KernelGrad *k) {
  size_t bytes = (size_t)k->elements * k->c.size;
  k->c.offset = room_take(r, (size_t)k->c.segments * sizeof *k->c.offset);
  k->parts = room_take(r, k->part_count > 1 ? bytes * (size_t)k->part_count : 0);
  return room_take(r, block_bytes(&k->c) * NN_SLOTS);
}

static void add_piece(const KernelGrad *k, const Place *p, const char *source, char *part, int64_t piece,
                      bool accumulate) {
  const Correlation *c = &k->c;
  int64_t panels = panels_of(c), out = c->dest_channels / c->groups, in = c->source_channels / c->groups;
  int64_t segment = piece / (c->groups * panels), group = piece / panels % c->groups,
          col = piece % panels * PANEL_COLS;
  PanelOuter o = {.x_line = c->line[1].step * c->row,
                  .x_row = c->line[2].step * c->pixel,
                  .d_line = c->line[2].dest * c->dest_channels,
                  .d_row = c->dest_channels,
                  .lines = p->count[1],
                  .rows = p->count[2],
                  .y_row = c->dest_channels,
                  .length = c->length,
                  .cols = least(out - col, PANEL_COLS),
                  .accumulate = accumulate};
  o.x = source + (size_t)(c->offset[segment] + group * in) * c->size;
  o.d = dest_row(c, p, 0) + (size_t)(group * out + col) * c->size;
  int64_t tap = tap_of(c, segment * (c->taps / c->segments));
  o.y = part + (size_t)(tap * c->kernel_tap + group * out + col) * c->size;
  c->kernels->panel_outer[c->dtype](&o);
}

static void add_depthwise(const KernelGrad *k, const Place *p, const char *source, char *part) {
  const Correlation *c = &k->c;
  int64_t run = c->line[2].taps;
  Depthwise d = {.x_row = c->line[2].step * c->pixel,
                 .taps = run,
                 .y_row = c->dest_channels,
                 .rows = p->count[2],
                 .channels = c->dest_channels};
  for (int64_t row = 0; row < p->count[1]; row++) {
    d.x = source + (size_t)(row * c->line[1].step * c->row) * c->size;
    for (int64_t m = 0; m < c->taps; m += run) {
      d.offset = c->offset + m;
      c->kernels->depthwise_outer[c->dtype](&d, dest_row(c, p, row),
                                            part + (size_t)(tap_of(c, m) * c->kernel_tap) * c->size);
    }
  }
}

static void kernel_grad_chunk(void *context, int64_t chunk, void *scratch) {
  const KernelGrad *k = context;
  const Correlation *c = &k->c;
  int64_t part = chunk / k->splits, split = chunk % k->splits;
  int64_t first = part * c->chunks / k->part_count, end = (part + 1) * c->chunks / k->part_count;
  char *to = k->parts + (size_t)(part * k->elements) * c->size;
  for (int64_t item = first; item < end; item++) {
    Place p = place_of(c, item);
    const char *source = chunk_source(c, &p, scratch);
    if (c->multiplier) add_depthwise(k, &p, source, to);
    else
      for (int64_t i = split * k->pieces / k->splits; i < (split + 1) * k->pieces / k->splits; i++)
        add_piece(k, &p, source, to, i, k->clears || item > first);
  }
}

static void add_parts(void *context, int64_t begin, int64_t end) {
  const KernelGrad *k = context;
  Dtype d = k->c.dtype;
  size_t size = k->c.size;
  Strip add = k->c.kernels->strip[EW_ADD][d];
  char *to = k->result + (size_t)begin * size;
  memcpy(to, k->parts + (size_t)begin * size, (size_t)(end - begin) * size);
  for (int64_t p = 1; p < k->part_count; p++)
    add((const void *[]){to, k->parts + (size_t)(p * k->elements + begin) * size}, 0, to, end - begin, NULL);
}

static Status run_kernel_grad(const Call *call, const Geometry *g) {
  KernelGrad k = kernel_grad(call->node, g);
  if (k.c.chunks == 0) {
    memset(call->out[0], 0, (size_t)k.elements * k.c.size);
    return OK;
  }
  Room room = {call->scratch, 0};
  char *slots = take_kernel_grad(&room, &k);
  k.c.kernels = call->kernels;
  k.c.source = call->in[0];
  k.c.dest = (char *)(uintptr_t)call->in[1];
  k.result = call->out[0];
  if (k.part_count == 1) k.parts = k.result;
  if (k.clears) memset(k.parts, 0, (size_t)(k.elements * k.part_count) * k.c.size);
  fill_offsets(&k.c);
  nn_run(call, k.part_count * k.splits, slots, block_bytes(&k.c), kernel_grad_chunk, &k);
  if (k.part_count > 1) parallel_for(call, k.elements, 16384, add_parts, &k);
  return OK;
}

/* ---- eval and scratch of all rows ---- */

enum { CLEAR_GRAIN = 1 << 18 };
static void clear(void *context, int64_t begin, int64_t end) {
  memset((char *)context + begin, 0, (size_t)(end - begin));
}

static Status inner(const Call *call) {
  Geometry g;
  Form form = geometry_of(call->node, &g);
  if (form == FORM_KERNEL) return run_kernel_grad(call, &g);
  if (form == FORM_FORWARD) {
    Correlation c = forward_correlation(call->node, &g, form);
    if (c.chunks == 0)
      parallel_for(call, (int64_t)type_bytes(call->out_type[0]), CLEAR_GRAIN, clear, call->out[0]);
    correlate(call, &c);
    return OK;
  }
  int64_t lattices = lattice_count(&g.w);
  bool holes = false;
  for (int64_t r = 0; r < lattices && !holes; r++) holes = image_correlation(call->node, &g, r).taps == 0;
  if (holes) parallel_for(call, (int64_t)type_bytes(call->out_type[0]), CLEAR_GRAIN, clear, call->out[0]);
  for (int64_t r = 0; r < lattices; r++) {
    Correlation c = image_correlation(call->node, &g, r);
    correlate(call, &c);
  }
  return OK;
}
static Status eval(const Call *call) { return eval_wide(call, inner); }

static size_t scratch(const Node *n) {
  Geometry g;
  Form form = geometry_of(n, &g);
  size_t bytes = 0;
  if (form == FORM_KERNEL) {
    KernelGrad k = kernel_grad(n, &g);
    Room r = {0};
    if (k.c.chunks) take_kernel_grad(&r, &k);
    bytes = r.used;
  } else if (form == FORM_FORWARD) {
    Correlation c = forward_correlation(n, &g, form);
    Room r = {0};
    if (c.chunks) take_correlation(&r, &c);
    bytes = r.used;
  } else {
    for (int64_t i = 0; i < lattice_count(&g.w); i++) {
      Correlation c = image_correlation(n, &g, i);
      Room r = {0};
      if (c.chunks) take_correlation(&r, &c);
      if (r.used > bytes) bytes = r.used;
    }
  }
  return wide_scratch(n, bytes);
}

static void cost(const Target *t, const Node *n, Cost *c) {
  Geometry g;
  Form form = geometry_of(n, &g);
  ConvShape s = {.batch = g.batch,
                 .groups = g.groups,
                 .in_channels = g.channels_in / g.groups,
                 .out_channels = g.channels_out / g.groups,
                 .rank = g.w.rank};
  for (int i = 0; i < g.w.rank; i++) {
    int from = SPATIAL - g.w.rank + i;
    s.in[i] = g.w.in[from], s.out[i] = g.w.out[from], s.kernel[i] = g.w.kernel[from];
    s.stride[i] = g.w.stride[from], s.dilation[i] = g.w.dilation[from];
  }
  ConvPass pass = form == FORM_FORWARD ? CONV_FORWARD : form == FORM_IMAGE ? CONV_BACKWARD : CONV_WEIGHTS;
  *c = cost_conv(t, n->in[0]->type.dtype, nn_partials(n), &s, pass, NULL);
}

/* ---- gradients: the three forms are each other's ---- */

static Value *form(Graph *g, const char *name, Value *a, Value *b, const Geometry *geometry,
                   const int64_t *shape) {
  const Window *w = &geometry->w;
  int skip = SPATIAL - w->rank, rank = w->rank;
  Attr attrs[MAX_ATTRS] = {attr_ints(w->stride + skip, rank), attr_ints(w->pad + skip, rank),
                           attr_ints(w->dilation + skip, rank), attr_int(geometry->groups),
                           attr_ints(shape + skip, rank)};
  return op_with(g, name, (Value *[]){a, b}, 2, attrs);
}
static Value *forward(Graph *g, Value *x, Value *kernel, const Geometry *geometry) {
  return form(g, "nn.conv_general", x, kernel, geometry, geometry->w.out);
}
static Value *grad_input(Graph *g, Value *dy, Value *kernel, const Geometry *geometry) {
  return form(g, "nn.conv_grad_input", dy, kernel, geometry, geometry->w.in);
}
static Value *grad_kernel(Graph *g, Value *x, Value *dy, const Geometry *geometry) {
  return form(g, "nn.conv_grad_kernel", x, dy, geometry, geometry->w.kernel);
}

static void grad_forward(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Geometry geometry;
  geometry_of(n, &geometry);
  Value *x = n->in[0], *kernel = n->in[1];
  if (is_depthwise(n)) { /* [h, w, c, m] is [h, w, 1, c m] in c groups */
    Type t = kernel->type;
    t.shape[t.rank - 1] *= t.shape[t.rank - 2];
    t.shape[t.rank - 2] = 1;
    kernel = ops_reshape(g, kernel, &t);
  }
  dx[0] = grad_input(g, dy[0], kernel, &geometry);
  dx[1] = ops_reshape_like(g, grad_kernel(g, x, dy[0], &geometry), n->in[1]);
}

/* Of the adjoint in the image (dy, kernel) → dx, and so of the transposed convolution. */
static void grad_image(Graph *g, const Node *n, Value *const *u, Value **dx) {
  Geometry geometry;
  geometry_of(n, &geometry);
  dx[0] = forward(g, u[0], n->in[1], &geometry);
  dx[1] = grad_kernel(g, u[0], n->in[0], &geometry);
}

/* Of the adjoint in the kernel (x, dy) → dkernel. */
static void grad_of_kernel(Graph *g, const Node *n, Value *const *u, Value **dx) {
  Geometry geometry;
  geometry_of(n, &geometry);
  dx[0] = grad_input(g, n->in[1], u[0], &geometry);
  dx[1] = forward(g, n->in[0], u[0], &geometry);
}

#define A_STRIDES                                                         \
  {                                                                       \
    .name = "strides", .kind = ATTR_INTS, .fallback = "1",                \
    .summary = "Steps between windows, one or one for each spatial axis." \
  }
#define A_PADDING(words)                                                                               \
  {                                                                                                    \
    .name = "padding", .kind = ATTR_STRING, .fallback = "'VALID'", .choices = words,                   \
    .summary =                                                                                         \
        "VALID: only whole windows; SAME: zeros around, so that the extent is divided by the stride, " \
        "rounding up."                                                                                 \
  }
#define A_DILATIONS                                          \
  {                                                          \
    .name = "dilations", .kind = ATTR_INTS, .fallback = "1", \
    .summary = "Steps between the taps of a window."         \
  }
#define A_GROUPS                                                 \
  {                                                              \
    .name = "groups", .kind = ATTR_INT, .fallback = "1",         \
    .summary = "Parts of the channels that are convolved apart." \
  }
#define A_OUTPUT                                                    \
  {                                                                 \
    .name = "output_padding", .kind = ATTR_INTS, .fallback = "nil", \
    .summary = "Extra extent at the end, less than the stride."     \
  }
#define EXPLICIT                                                                                           \
  {                                                                                                        \
    {.name = "strides", .kind = ATTR_INTS}, {.name = "pads", .kind = ATTR_INTS},                           \
        {.name = "dilations", .kind = ATTR_INTS}, {.name = "groups", .kind = ATTR_INT, .fallback = "1"}, { \
      .name = "shape", .kind = ATTR_INTS                                                                   \
    }                                                                                                      \
  }

const OpDef ops_conv[] = {
    {.name = "nn.conv1d",
     .summary = "Convolution of sequences. CAUSAL padding stands in front only.",
     .shapes = "[n, t, c], [k, c / groups, d] → [n, t', d]",
     .inputs = {"x", "kernel"},
     .attrs = {A_STRIDES, A_PADDING("VALID SAME CAUSAL"), A_DILATIONS, A_GROUPS},
     .infer = infer_1,
     .eval = eval,
     .scratch = scratch,
     .cost = cost,
     .grad = grad_forward,
     .sample = "F[2,7,2] F[3,2,3] | F[1,8,3] F[3,3,2] {strides = 2, padding = 'SAME'} | "
               "F[1,7,2] F[4,2,1] {strides = 3, padding = 'CAUSAL'} | F[1,9,4] F[2,2,4] {dilations = 3, "
               "groups = 2}"},
    {.name = "nn.conv2d",
     .summary = "Convolution of channels-last images.",
     .shapes = "[n, h, w, c], [kh, kw, c / groups, d] → [n, h', w', d]",
     .inputs = {"x", "kernel"},
     .attrs = {A_STRIDES, A_PADDING("VALID SAME"), A_DILATIONS, A_GROUPS},
     .infer = infer_2,
     .eval = eval,
     .scratch = scratch,
     .cost = cost,
     .grad = grad_forward,
     .sample = "F[2,5,7,3] F[3,2,3,4] {padding = 'SAME'} | F[2,6,5,2] F[2,3,2,3] {strides = {2, 1}} | "
               "F[1,5,5,4] F[3,3,2,6] {padding = 'SAME', groups = 2} | F[1,7,7,2] F[3,3,2,2] {dilations = 2, "
               "padding = 'SAME'} | "
               "F[1,8,8,2] F[3,3,2,2] {strides = 3, dilations = 2, padding = 'SAME'}"},
    {.name = "nn.conv3d",
     .summary = "Convolution of channels-last volumes.",
     .shapes = "[n, z, h, w, c], [kz, kh, kw, c / groups, d] → [n, z', h', w', d]",
     .inputs = {"x", "kernel"},
     .attrs = {A_STRIDES, A_PADDING("VALID SAME"), A_DILATIONS, A_GROUPS},
     .infer = infer_3,
     .eval = eval,
     .scratch = scratch,
     .cost = cost,
     .grad = grad_forward,
     .sample =
         "F[1,3,4,4,2] F[2,2,3,2,3] {padding = 'SAME'} | F[2,4,3,3,1] F[2,2,2,1,2] {strides = {2, 1, 1}}"},
    {.name = "nn.depthwise_conv2d",
     .summary = "Each channel convolved with its own kernels; channel c gives channels c m … c m + m - 1.",
     .shapes = "[n, h, w, c], [kh, kw, c, m] → [n, h', w', c m]",
     .inputs = {"x", "kernel"},
     .attrs = {A_STRIDES, A_PADDING("VALID SAME"), A_DILATIONS},
     .infer = infer_2,
     .eval = eval,
     .scratch = scratch,
     .cost = cost,
     .grad = grad_forward,
     .sample = "F[1,5,5,2] F[3,3,2,1] | F[2,4,5,3] F[3,2,3,2] {padding = 'SAME'} | F[1,6,6,1] F[3,3,1,4] "
               "{strides = 2} | "
               "F[1,7,7,2] F[2,3,2,2] {padding = 'SAME', dilations = 2}"},
#define TRANSPOSED(rank, shape_words, sample_words)                                                        \
  {                                                                                                        \
    .name = "nn.conv" #rank "d_transpose",                                                                 \
    .summary = "The adjoint of a convolution: spreads each element over a window.", .shapes = shape_words, \
    .inputs = {"x", "kernel"}, .attrs = {A_STRIDES, A_PADDING("VALID SAME"), A_OUTPUT, A_DILATIONS},       \
    .infer = infer_transpose_##rank, .eval = eval, .scratch = scratch, .cost = cost, .grad = grad_image,   \
    .sample = sample_words                                                                                 \
  }
    TRANSPOSED(1, "[n, t, c], [k, d, c] → [n, t', d]", "F[2,4,2] F[3,3,2] {strides = 2, padding = 'SAME'}"),
    TRANSPOSED(2, "[n, h, w, c], [kh, kw, d, c] → [n, h', w', d]",
               "F[1,3,3,2] F[3,3,1,2] | F[2,3,4,2] F[3,3,3,2] {strides = 2, padding = 'SAME'} | F[1,3,3,1] "
               "F[2,2,2,1] {strides = 3} | "
               "F[1,3,3,2] F[3,3,2,2] {strides = 2, padding = 'SAME', output_padding = 1}"),
    TRANSPOSED(3, "[n, z, h, w, c], [kz, kh, kw, d, c] → [n, z', h', w', d]",
               "F[1,2,3,2,2] F[2,3,2,2,2] {strides = 2}"),
#undef TRANSPOSED
    {.name = "nn.conv_general",
     .summary = "Convolution with explicit padding and result extents.",
     .shapes = "image, kernel → result",
     .inputs = {"x", "kernel"},
     .attrs = EXPLICIT,
     .traits = INTERNAL,
     .infer = infer_explicit_forward,
     .eval = eval,
     .scratch = scratch,
     .cost = cost,
     .grad = grad_forward,
     .sample = "F[2,5,4,2] F[3,2,2,3] {strides = {2, 1}, pads = {1, 0}, dilations = {1, 1}, groups = 1, "
               "shape = {3, 4}}"},
    {.name = "nn.conv_grad_input",
     .summary = "Convolution's adjoint in the image; shape is the image's.",
     .shapes = "result, kernel → image",
     .inputs = {"dy", "kernel"},
     .attrs = EXPLICIT,
     .traits = INTERNAL,
     .infer = infer_grad_input,
     .eval = eval,
     .scratch = scratch,
     .cost = cost,
     .grad = grad_image,
     .sample = "F[2,3,4,3] F[3,2,2,3] {strides = {2, 1}, pads = {1, 0}, dilations = {1, 1}, groups = 1, "
               "shape = {5, 4}} | "
               "F[1,3,3,4] F[1,1,1,4] {strides = 2, pads = 0, dilations = 1, groups = 2, shape = {6, 5}}"},
    {.name = "nn.conv_grad_kernel",
     .summary = "Convolution's adjoint in the kernel; shape is the kernel's.",
     .shapes = "image, result → kernel",
     .inputs = {"x", "dy"},
     .attrs = EXPLICIT,
     .traits = INTERNAL,
     .infer = infer_grad_kernel,
     .eval = eval,
     .scratch = scratch,
     .cost = cost,
     .grad = grad_of_kernel,
     .sample = "F[2,5,4,2] F[2,3,4,3] {strides = {2, 1}, pads = {1, 0}, dilations = {1, 1}, groups = 1, "
               "shape = {3, 2}}"},
    {0}};
