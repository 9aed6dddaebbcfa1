/* Convolutions of channels-last images without im2col. There are three forms: the correlation
 * itself, its adjoint in the image, and its adjoint in the kernel. The public rows are these forms,
 * each with its own geometry.
 *
 * A correlation computes a lattice of destination positions (every `every`-th) from source
 * positions that advance by `step`, with the kernel's taps at equal distances. The forward pass is
 * one lattice. The adjoint in the image is a lattice for each residue of the position by the
 * stride, with the taps that reach it.
 *
 *   stride 2, kernel 3:   dx[0] dx[1] dx[2] dx[3] …   dx[even] ← taps 0, 2   dx[odd] ← tap 1
 *
 * Neighbouring taps of a row of pixels are one run of memory. So a row of results is a product of
 * strided runs with a panel of the kernel (kernels.h, PanelMul). If taps reach beyond the image, a
 * block of rows is copied into scratch with zeros around it. */
#include <string.h>
#include "ops/conv/conv.h"

/* ---- correlations ---- */

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

/* Drop taps that meet only the zeros beyond the image; far dilations would otherwise cost
 * memory. */
static void prune(Line *l) {
  if (l->taps == 0 || l->count == 0 || l->spread == 0) return;
  int64_t reach = l->step * (l->count - 1) + l->offset;
  int64_t in_front = reach < 0 ? min(ceil_div(-reach, l->spread), l->taps) : 0;
  l->first += in_front * l->next;
  l->offset += in_front * l->spread;
  l->taps -= in_front;
  if (l->offset >= l->source) l->taps = 0;
  else l->taps = min(l->taps, (l->source - 1 - l->offset) / l->spread + 1);
}

/* The destination positions start, start + stride, …: kernel position k reaches p when (p + pad
 * - k dilation) is a multiple of the stride. */
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
  int64_t planes = line_extent(&l[0], 1), pixels = max(BLOCK_BYTES / (bytes * planes), 1);
  int64_t height = line_extent(&l[1], 1);
  c->block[0] = 1;
  c->block[2] = l[2].count;
  if (line_extent(&l[2], l[2].count) > 4 * pixels / height) {
    int64_t fit = (4 * pixels / height - line_extent(&l[2], 1)) / l[2].step + 1;
    c->block[2] = min(max(fit, MIN_PIXELS), l[2].count);
  }
  int64_t fit = (pixels / line_extent(&l[2], c->block[2]) - height) / l[1].step + 1;
  c->block[1] = min(max(fit, 1), l[1].count);
  double flops = 2.0 * (double)c->batch * (double)(l[0].count * l[1].count * l[2].count) *
                 (double)c->taps * (double)(c->source_channels / c->groups) *
                 (double)c->dest_channels;
  int64_t want = flops > (double)MAX_CHUNKS * ONE_CHUNK_FLOPS
                     ? MAX_CHUNKS
                     : (int64_t)(flops / ONE_CHUNK_FLOPS) + 1;
  int64_t others = max(c->batch * l[0].count, 1);
  if (others < want)
    c->block[1] = min(c->block[1], max(ceil_div(l[1].count, ceil_div(want, others)), 1));
  others *= ceil_div(l[1].count, c->block[1]);
  if (others < want)
    c->block[2] = min(c->block[2], max(ceil_div(l[2].count, ceil_div(want, others)), MIN_PIXELS));
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
  Correlation c = {
      .batch = g->batch, .groups = g->groups, .dtype = dtype_to_compute(n->in[0]->type.dtype)};
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

Correlation conv_forward_correlation(const Node *n, const Geometry *g, Form form) {
  Correlation c = correlation_base(n, g, form);
  for (int i = 0; i < SPATIAL; i++) c.line[i] = forward_line(&g->w, i);
  finish_correlation(&c);
  return c;
}

/* The lattices of the adjoint in the image, by the position that each starts at. */
int64_t conv_lattice_count(const Window *w) {
  int64_t count = 1;
  for (int i = 0; i < SPATIAL; i++) count *= min(w->stride[i], w->in[i]);
  return count;
}
Correlation conv_image_correlation(const Node *n, const Geometry *g, int64_t lattice) {
  Correlation c = correlation_base(n, g, FORM_IMAGE);
  for (int i = SPATIAL - 1; i >= 0; i--) {
    int64_t starts = min(g->w.stride[i], g->w.in[i]);
    c.line[i] = image_line(&g->w, i, lattice % starts);
    lattice /= starts;
  }
  finish_correlation(&c);
  return c;
}

/* ---- scratch: weights, offsets, then each slot's block and row of results to fold ---- */

int64_t conv_panels_of(const Correlation *c) {
  return ceil_div(c->dest_channels / c->groups, PANEL_COLS);
}
static int64_t panel_elements(const Correlation *c) {
  return c->taps * (c->source_channels / c->groups) * PANEL_COLS;
}
static size_t weight_bytes(const Correlation *c) {
  int64_t depthwise = c->taps * c->groups * c->multiplier;
  return (size_t)(c->multiplier ? depthwise : c->groups * conv_panels_of(c) * panel_elements(c)) *
         c->size;
}
size_t conv_block_bytes(const Correlation *c) {
  size_t bytes = c->copies ? (size_t)(c->planes * c->plane) * c->size : 0;
  return (bytes + 63) & ~(size_t)63;
}
static size_t slot_bytes(const Correlation *c) {
  size_t fold = c->fold ? (size_t)(c->block[2] * c->source_channels) * c->size : 0;
  return conv_block_bytes(c) + ((fold + 63) & ~(size_t)63);
}
char *conv_take_correlation(Room *r, Correlation *c) {
  c->weights = room_take(r, weight_bytes(c));
  c->offset = room_take(r, (size_t)c->segments * sizeof *c->offset);
  return room_take(r, slot_bytes(c) * NN_SLOTS);
}

/* ---- running a correlation ---- */

int64_t conv_tap_of(const Correlation *c, int64_t m) {
  const Line *l = c->line;
  int64_t m2 = m % l[2].taps, m1 = m / l[2].taps % l[1].taps, m0 = m / l[2].taps / l[1].taps;
  int64_t k0 = l[0].first + m0 * l[0].next, k1 = l[1].first + m1 * l[1].next,
          k2 = l[2].first + m2 * l[2].next;
  return (k0 * c->kernel_extent[1] + k1) * c->kernel_extent[2] + k2;
}

static void pack_panel(void *context, int64_t index, void *scratch) {
  (void)scratch;
  const Correlation *c = context;
  int64_t panels = conv_panels_of(c), group = index / panels, col = index % panels * PANEL_COLS;
  int64_t in = c->source_channels / c->groups,
          cols = min(c->dest_channels / c->groups - col, PANEL_COLS);
  char *to = c->weights + (size_t)(index * panel_elements(c)) * c->size;
  /* A group's channels lie beside each other along the kernel's last extent, which is the
   * source's in the adjoint. */
  for (int64_t m = 0; m < c->taps; m++) {
    int64_t from =
        conv_tap_of(c, m) * c->kernel_tap + group * c->kernel_group + col * c->kernel_dest;
    c->kernels->panel_pack[c->dtype](c->kernel + (size_t)from * c->size, c->kernel_source,
                                     c->kernel_dest, in, cols,
                                     to + (size_t)(m * in * PANEL_COLS) * c->size);
  }
}

void conv_fill_offsets(const Correlation *c) {
  const Line *l = c->line;
  int64_t inner = c->segments / (l[0].taps * l[1].taps);
  for (int64_t s = 0; s < c->segments; s++) {
    int64_t m2 = s % inner, m1 = s / inner % l[1].taps, m0 = s / inner / l[1].taps;
    c->offset[s] =
        m0 * l[0].spread * c->plane + m1 * l[1].spread * c->row + m2 * l[2].spread * c->pixel;
  }
}

static void pack_weights(const Call *call, const Correlation *c) {
  if (!c->multiplier) {
    nn_run(call, c->groups * conv_panels_of(c), NULL, 0, pack_panel, (void *)(uintptr_t)c);
    return;
  }
  size_t bytes = (size_t)(c->groups * c->multiplier) * c->size;
  for (int64_t m = 0; m < c->taps; m++)
    memcpy(c->weights + (size_t)m * bytes,
           c->kernel + (size_t)(conv_tap_of(c, m) * c->kernel_tap) * c->size, bytes);
}

Position conv_position_of(const Correlation *c, int64_t chunk) {
  Position p;
  for (int i = SPATIAL - 1; i >= 0; i--) {
    p.at[i] = chunk % c->blocks[i] * c->block[i];
    p.count[i] = min(c->block[i], c->line[i].count - p.at[i]);
    chunk /= c->blocks[i];
  }
  p.image = chunk;
  return p;
}

/* Pixels [first, first + count) of a row of the source, zeros beyond its ends; each channel
 * `repeat` times. */
static void copy_pixels(const Correlation *c, const char *row, int64_t first, int64_t count,
                        char *to) {
  size_t pixel = (size_t)c->pixel * c->size;
  int64_t lead = min(max(-first, 0), count), end = max(min(c->line[2].source - first, count), lead);
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

static void copy_block(const Correlation *c, const Position *p, char *block) {
  const Line *l = c->line;
  int64_t rows = line_extent(&l[1], p->count[1]), cols = line_extent(&l[2], p->count[2]);
  size_t source_row = (size_t)(l[2].source * c->source_channels) * c->size,
         row_bytes = (size_t)c->row * c->size;
  for (int64_t plane = 0; plane < c->planes; plane++)
    for (int64_t row = 0; row < rows; row++) {
      int64_t z = l[0].step * p->at[0] + l[0].offset + plane,
              y = l[1].step * p->at[1] + l[1].offset + row;
      char *to = block + (size_t)(plane * c->rows + row) * row_bytes;
      if (z < 0 || z >= l[0].source || y < 0 || y >= l[1].source)
        memset(to, 0, (size_t)(cols * c->pixel) * c->size);
      else
        copy_pixels(
            c, c->source + (size_t)((p->image * l[0].source + z) * l[1].source + y) * source_row,
            l[2].step * p->at[2] + l[2].offset, cols, to);
    }
}

/* The chunk's source: its first tap's first pixel. */
const char *conv_chunk_source(const Correlation *c, const Position *p, char *block) {
  const Line *l = c->line;
  if (c->copies) {
    copy_block(c, p, block);
    return block;
  }
  int64_t z = l[0].step * p->at[0] + l[0].offset, y = l[1].step * p->at[1] + l[1].offset,
          x = l[2].step * p->at[2] + l[2].offset;
  return c->source + (size_t)((((p->image * l[0].source + z) * l[1].source + y) * l[2].source + x) *
                              c->source_channels) *
                         c->size;
}

char *conv_dest_row(const Correlation *c, const Position *p, int64_t row) {
  const Line *l = c->line;
  int64_t z = l[0].start + l[0].every * p->at[0], y = l[1].start + l[1].every * (p->at[1] + row);
  int64_t x = l[2].start + l[2].every * p->at[2];
  return c->dest + (size_t)((((p->image * l[0].dest + z) * l[1].dest + y) * l[2].dest + x) *
                            c->dest_channels) *
                       c->size;
}

/* The runs [*first, *end) of row `row` that meet the image. Runs of flat images above or below it
 * add nothing. */
static void runs_inside(const Correlation *c, const Position *p, int64_t row, int64_t *first,
                        int64_t *end) {
  const Line *l = &c->line[1];
  *first = 0;
  *end = c->segments;
  if (c->line[0].taps != 1 || l->spread < 1) return;
  int64_t per_tap = c->segments / l->taps, y = l->step * (p->at[1] + row) + l->offset;
  int64_t above = y < 0 ? min(ceil_div(-y, l->spread), l->taps) : 0;
  int64_t inside = y >= l->source ? 0 : min((l->source - 1 - y) / l->spread + 1, l->taps);
  *first = above * per_tap;
  *end = max(inside, above) * per_tap;
}

static void correlate_dense(const Correlation *c, const Position *p, const char *source) {
  int64_t panels = conv_panels_of(c), out = c->dest_channels / c->groups;
  PanelMul m = {.x_row = c->line[2].step * c->pixel,
                .length = c->length,
                .y_row = c->line[2].every * c->dest_channels,
                .rows = p->count[2]};
  for (int64_t i = 0; i < c->groups * panels; i++) {
    int64_t group = i / panels, col = i % panels * PANEL_COLS;
    const char *panel = c->weights + (size_t)(i * panel_elements(c)) * c->size;
    m.cols = min(out - col, PANEL_COLS);
    for (int64_t row = 0; row < p->count[1]; row++) {
      int64_t first, end;
      runs_inside(c, p, row, &first, &end);
      m.offset = c->offset + first;
      m.segments = end - first;
      m.w = panel + (size_t)(first * c->length * PANEL_COLS) * c->size;
      m.x = source +
            (size_t)(row * c->line[1].step * c->row + group * (c->source_channels / c->groups)) *
                c->size;
      m.y = conv_dest_row(c, p, row) + (size_t)(group * out + col) * c->size;
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

static void correlate_depthwise(const Correlation *c, const Position *p, const char *source,
                                char *products) {
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
    d.y = c->fold ? products : conv_dest_row(c, p, row);
    c->kernels->depthwise[c->dtype](&d);
    if (c->fold) fold_row(c, products, conv_dest_row(c, p, row), p->count[2]);
  }
}

static void correlate_chunk(void *context, int64_t chunk, void *scratch) {
  const Correlation *c = context;
  Position p = conv_position_of(c, chunk);
  const char *source = conv_chunk_source(c, &p, scratch);
  if (c->multiplier) correlate_depthwise(c, &p, source, (char *)scratch + conv_block_bytes(c));
  else correlate_dense(c, &p, source);
}

void conv_correlate(const Call *call, Correlation *c) {
  if (c->chunks == 0) return;
  Room room = {call->scratch, 0};
  char *slots = conv_take_correlation(&room, c);
  c->kernels = call->kernels;
  c->source = call->in[0];
  c->kernel = call->in[1];
  c->dest = call->out[0];
  conv_fill_offsets(c);
  pack_weights(call, c);
  nn_run(call, c->chunks, slots, slot_bytes(c), correlate_chunk, c);
}
