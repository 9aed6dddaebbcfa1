/* Evaluation of the three forms of a convolution: correlations forward and in the image, and the
 * adjoint in the kernel. */
#include "ops/conv/conv.h"

/* ---- the adjoint in the kernel ---- */

/* Items (blocks of rows of an image) are dealt to parts in order. A part sums its own kernel
 * gradient, and the parts are added in order. If the kernel is too large for many parts, its runs
 * and panels are split too. */
typedef struct KernelGrad {
  Correlation c; /* the forward one: its source is x, its destination holds dy */
  const char *dy;
  char *parts; /* [part_count][kernel], or the result when there is one part */
  char *result;
  /* pieces: (run, group, panel) triples to be split */
  int64_t part_count, splits, elements, pieces;
  bool clears; /* some of the kernel is reached by no piece, or each piece only adds */
} KernelGrad;

static KernelGrad kernel_grad(const Node *n, const Geometry *g) {
  KernelGrad k = {.c = conv_forward_correlation(n, g, FORM_KERNEL)};
  Correlation *c = &k.c;
  k.elements = g->w.kernel[0] * g->w.kernel[1] * g->w.kernel[2] * g->channels_in / g->groups *
               g->channels_out;
  if (c->chunks == 0) return k;
  int64_t room = max(PARTIAL_BYTES / max(k.elements * (int64_t)c->size, 1), 1);
  double flops = 2.0 * (double)k.elements * (double)c->batch *
                 (double)(c->line[0].count * c->line[1].count * c->line[2].count);
  int64_t want = flops > (double)MAX_CHUNKS * ONE_CHUNK_FLOPS
                     ? MAX_CHUNKS
                     : (int64_t)(flops / ONE_CHUNK_FLOPS) + 1;
  k.part_count = min(min(min(want, MAX_PARTS), room), c->chunks);
  k.pieces = c->multiplier ? 1 : c->segments * c->groups * conv_panels_of(c);
  k.splits = min(ceil_div(min(want, MAX_PARTS), k.part_count), k.pieces);
  k.clears = c->multiplier || c->taps < g->w.kernel[0] * g->w.kernel[1] * g->w.kernel[2];
  return k;
}

static char *take_kernel_grad(Room *r, KernelGrad *k) {
  size_t bytes = (size_t)k->elements * k->c.size;
  k->c.offset = room_take(r, (size_t)k->c.segments * sizeof *k->c.offset);
  k->parts = room_take(r, k->part_count > 1 ? bytes * (size_t)k->part_count : 0);
  return room_take(r, conv_block_bytes(&k->c) * NN_SLOTS);
}

static void add_piece(const KernelGrad *k, const Position *p, const char *source, char *part,
                      int64_t piece, bool accumulate) {
  const Correlation *c = &k->c;
  int64_t panels = conv_panels_of(c), out = c->dest_channels / c->groups,
          in = c->source_channels / c->groups;
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
                  .cols = min(out - col, PANEL_COLS),
                  .accumulate = accumulate};
  o.x = source + (size_t)(c->offset[segment] + group * in) * c->size;
  o.d = conv_dest_row(c, p, 0) + (size_t)(group * out + col) * c->size;
  int64_t tap = conv_tap_of(c, segment * (c->taps / c->segments));
  o.y = part + (size_t)(tap * c->kernel_tap + group * out + col) * c->size;
  c->kernels->panel_outer[c->dtype](&o);
}

static void add_depthwise(const KernelGrad *k, const Position *p, const char *source, char *part) {
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
      c->kernels->depthwise_outer[c->dtype](
          &d, conv_dest_row(c, p, row),
          part + (size_t)(conv_tap_of(c, m) * c->kernel_tap) * c->size);
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
    Position p = conv_position_of(c, item);
    const char *source = conv_chunk_source(c, &p, scratch);
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
    add((const void *[]){to, k->parts + (size_t)(p * k->elements + begin) * size}, 0, to,
        end - begin, NULL);
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
  conv_fill_offsets(&k.c);
  nn_run(call, k.part_count * k.splits, slots, conv_block_bytes(&k.c), kernel_grad_chunk, &k);
  if (k.part_count > 1) parallel_for(call, k.elements, 16384, add_parts, &k);
  return OK;
}

/* ---- conv_eval and scratch of all rows ---- */

enum { CLEAR_GRAIN = 1 << 18 };
static void clear(void *context, int64_t begin, int64_t end) {
  memset((char *)context + begin, 0, (size_t)(end - begin));
}

static Status inner(const Call *call) {
  Geometry g;
  Form form = conv_geometry_of(call->node, &g);
  if (form == FORM_KERNEL) return run_kernel_grad(call, &g);
  if (form == FORM_FORWARD) {
    Correlation c = conv_forward_correlation(call->node, &g, form);
    if (c.chunks == 0)
      parallel_for(call, (int64_t)type_bytes(call->out_type[0]), CLEAR_GRAIN, clear, call->out[0]);
    conv_correlate(call, &c);
    return OK;
  }
  int64_t lattices = conv_lattice_count(&g.w);
  bool holes = false;
  for (int64_t r = 0; r < lattices && !holes; r++)
    holes = conv_image_correlation(call->node, &g, r).taps == 0;
  if (holes)
    parallel_for(call, (int64_t)type_bytes(call->out_type[0]), CLEAR_GRAIN, clear, call->out[0]);
  for (int64_t r = 0; r < lattices; r++) {
    Correlation c = conv_image_correlation(call->node, &g, r);
    conv_correlate(call, &c);
  }
  return OK;
}

static bool wants_half_partials(const Call *c) {
  int8_t half = c->node->place.half_convolutions;
  return c->in_type[0]->dtype == F16 &&
         (half >= 0 ? half : c->numerics && c->numerics->half_convolutions);
}
Status conv_eval(const Call *call) {
  return wants_half_partials(call) ? conv_eval_half(call) : eval_wide(call, inner);
}

size_t conv_scratch(const Node *n) {
  Geometry g;
  Form form = conv_geometry_of(n, &g);
  size_t bytes = 0;
  if (form == FORM_KERNEL) {
    KernelGrad k = kernel_grad(n, &g);
    Room r = {0};
    if (k.c.chunks) take_kernel_grad(&r, &k);
    bytes = r.used;
  } else if (form == FORM_FORWARD) {
    Correlation c = conv_forward_correlation(n, &g, form);
    Room r = {0};
    if (c.chunks) conv_take_correlation(&r, &c);
    bytes = r.used;
  } else {
    for (int64_t i = 0; i < conv_lattice_count(&g.w); i++) {
      Correlation c = conv_image_correlation(n, &g, i);
      Room r = {0};
      if (c.chunks) conv_take_correlation(&r, &c);
      if (r.used > bytes) bytes = r.used;
    }
  }
  return wide_scratch(n, bytes);
}
