/* The planner of convolutions: which method, and which tile computes which part of the field.
 *
 * Methods: the n x 1 AMP kernel (one pass over the rows per kernel point), the kernel's columns, rows or both
 * expanded into input channels (more channels, fewer passes, the input copied once per point), SLIC (four
 * kernel columns of four channels in one pass) for the first layer of a network, vector multiply-adds for one
 * channel per group. All are priced with all cuts of batch, field, channels and groups, the cheapest one is
 * the plan. */
#include <math.h>
#include <string.h>

#include "target/plan.h"

/* A convolution as the planner sees it: two field dimensions, stride 1 or more, padding as part of the input.
 */
typedef struct Problem {
  int64_t groups, batch, in_channels, out_channels;
  int64_t rows, columns;       /* of the output */
  int64_t in_rows, in_columns; /* of the input, without padding */
  int64_t kernel_rows, kernel_columns, stride_rows, stride_columns;
  int64_t phase_rows, phase_columns; /* a point of the kernel works on every so manieth output of a dimension: backward over a stride */
  int64_t gap_rows, gap_columns;       /* between the image's points where it takes the kernel's place, or 0 */
  int64_t dilation_rows, dilation_columns; /* between the kernel's points, or 0 */
  bool spread; /* zeros lie between the points of the input, which SLIC can't take */
  double moved; /* cycles, on one tile, that the planner expects for bringing operands and result into a method's layout */
  double limit;
} Problem;

/* How the field of one tile is cut. */
typedef struct Block {
  int64_t batch, rows, columns;
} Block;

static int64_t product(const int64_t *x, int rank) {
  int64_t p = 1;
  for (int i = 0; i < rank; i++) p = times(p, x[i]);
  return p;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t input_extent(int64_t outputs, int64_t stride, int64_t taps, int64_t dilation, int64_t phase, int64_t in) {
  return least((times(outputs - 1, stride) + times(taps - 1, most(dilation, 1))) / most(phase, 1) + 1, most(in, 1));
}
/* Points read for a block: the halo, but no more than there is. */
static double input_points(const Problem *q, const Block *b, int64_t kernel_rows, int64_t kernel_columns) {
  int64_t rows = input_extent(b->rows, q->stride_rows, kernel_rows, q->dilation_rows, q->phase_rows, q->in_rows);
  int64_t columns = input_extent(b->columns, q->stride_columns, kernel_columns, q->dilation_columns, q->phase_columns, q->in_columns);
  return (double)b->batch * (double)rows * (double)columns;
}

/* A point of the kernel works on the outputs of a block whose input lies in the field; beyond it is padding, which no pass is made
 * for (PL: output ranges by kernel index). Any output meets any input at one point at most. One dimension. */
static int64_t of_phase(int64_t outputs, int64_t phases) { return idiv(outputs, most(phases, 1)); }
static int64_t outputs_met(int64_t outputs, int64_t stride, int64_t in, int64_t phases) {
  return least(of_phase(outputs, phases), idiv(most(in, 1), stride));
}
static int64_t taps_met(int64_t taps, int64_t outputs, int64_t stride, int64_t in, int64_t phases, int64_t gap) {
  return least(taps, idiv(times(most(phases, 1), most(times(of_phase(outputs, phases), stride), in)), most(gap, 1)));
}
/* The points of the kernel that a block needs at all. */
static int64_t taps_needed(int64_t taps, int64_t outputs, int64_t stride, int64_t in, int64_t phases) {
  return least(taps, times(most(phases, 1), times(of_phase(outputs, phases) - 1, stride) + most(in, 1)));
}

/* Where a part begins, in row order, when each row has so many. */
static double point_of_part(double part, double split, double columns) {
  return floor(part / split) * columns + floor(fmod(part, split) * columns / split);
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

/* Rows are cut into so many equal parts that each worker gets as many as any other, one after the other (PL's partition). A worker
 * pays a set-up, each of its pieces within a row, and its points. The slowest one counts. */
static double slowest_worker(const Target *t, int64_t rows, int64_t columns, double per_range,
                             double per_piece, double per_point) {
  int64_t workers = t->workers, a = common_divisor(rows, workers);
  double split = (double)(workers / most(1, a)), share = (double)(rows / most(1, a)), width = (double)columns, worst = 0;
  for (int64_t w = 0; w < workers; w++) {
    double from = point_of_part((double)w * share, split, width), to = point_of_part((double)(w + 1) * share, split, width);
    if (!(to > from)) continue;
    double pieces = floor((to - 1) / width) - floor(from / width) + 1;
    worst = fmax(worst, per_range + pieces * per_piece + (to - from) * per_point);
  }
  return worst;
}

/* PL n x 1 estimators: a pass for each kernel point, weights loaded each time, plus clearing the sums. */
static double amp_cycles(const Target *t, const Units *u, const Block *b, double points, int64_t in_groups,
                         int64_t out_passes, double kernel_rows, double kernel_columns, int64_t height) {
  double w = (double)t->workers, ni = (double)in_groups, no = (double)out_passes;
  double worker =
      slowest_worker(t, times(b->batch, b->rows), b->columns, 17, 28 - 3 * u->per_row, u->per_row);
  double clear_width = u->sum == 4 ? 2 : 4;
  double start = height >= 4 ? 75 : height == 2 ? 61 : 30; /* pointers of each row */
  double clear = w * no * (5 + ceil_div(ceil_div(points * (double)u->units, w), clear_width));
  return 217 + 23 * no + 16 +
         ni * (14 + no * (14 + kernel_rows * (14 + kernel_columns * (start + u->load)) +
                          kernel_rows * kernel_columns * w * worker)) +
         clear;
}

/* PL vertical multiply-accumulate: the rows of the kernel under each output are cut into so many equal parts that each worker gets as
 * many as any other. Each has sums of its own, cleared before and added up after. */
static double vertical_cycles(const Target *t, const Block *b, double in, double kernel_rows,
                              double kernel_columns) {
  int64_t outputs = times(times(b->rows, b->columns), b->batch), workers = t->workers;
  double w = (double)workers, points = (double)b->rows * (double)b->columns, split = (double)(workers / common_divisor(workers, outputs));
  double parts = ceil_div((double)outputs * split, w), whole = floor(parts / split), left = parts - whole * split;
  double part = left > 0 ? 20 + 2 * (ceil_div(left * (kernel_columns + split - 1), split) - 1) : 0;
  double worker = 6 + kernel_rows * (whole * (20 + 2 * (kernel_columns - 1)) + part);
  double clear = 4 + points, sum = 10 + (9 + 2 * (w - 1)) * ceil_div(points, w) / 4;
  return clear + 32 + in * (24 + w * worker) + sum;
}

/* PL SLIC estimators: windows of four kernel columns, loaded once each; the input passes twice. */
static double window_cycles(const Target *t, const Block *b, double packs, double windows, bool one_group,
                            double stride) {
  double w = (double)t->workers, load = (one_group ? 34 : 31 + 10 * w) + 19;
  double worker =
      slowest_worker(t, times(b->batch, b->rows), b->columns, 17, 13 + 2 * (stride > 1 ? 8 : 9), 2 * stride);
  return 28 + 21 * packs + windows * (load + 6) + packs * windows * w * worker;
}

/* A kernel and what one call of it covers: convolution groups, channels of each, columns of a weight window.
 */
typedef struct Method {
  VertexKind kernel;
  int64_t groups, in, out, window;
  int64_t height; /* kernel rows of one pass, where the channels fill a part of the units */
} Method;

typedef struct Search {
  const Target *t;
  const Units *u;
  const Problem *q;
  Method method;
  int64_t in_groups, out_groups, groups; /* to be cut */
  double growth; /* of the number of parts from one cut to the next, at least: more than 1 where there would be too many */
  Plan *best;
} Search;

/* The next cut to look at. */
static int64_t next_cut(const Search *s, int64_t extent, int64_t parts) {
  int64_t least = (int64_t)((double)parts * s->growth);
  return next_split(extent, least > parts && least < extent ? least - 1 : parts);
}

static double count_cuts(int64_t extent, int64_t most) {
  double count = 0;
  for (int64_t parts = 1; parts && parts <= most; parts = next_split(extent, parts)) count++;
  return count;
}

/* b: what a point of the kernel works on; points: the block's outputs. */
static double kernel_cycles(const Search *s, const Block *b, double points, double share, int64_t in, int64_t out,
                            double rows, double columns) {
  const Problem *q = s->q;
  switch (s->method.kernel) {
    case VERTEX_SLIC:
      return window_cycles(s->t, b, share, rows * ceil_div(columns, 4), s->method.groups == 1,
                           (double)q->stride_columns);
    case VERTEX_VECTOR_MAC:
      return 100 + share * vertical_cycles(s->t, b, (double)in, rows, columns);
    default:
      return share * amp_cycles(s->t, s->u, b, points, in, out, ceil_div(rows, (double)s->method.height), columns, s->method.height);
  }
}

typedef struct Cut {
  int64_t group_parts, out_parts, in_parts, kernel_parts;
} Cut;

/* A window's blocks are padded on the tile: the kernel to whole windows, the field by as much and by what it has no neighbours for. */
static double padding_cycles(const Search *s, const Block *b, const Plan *p, int64_t taps, int64_t columns) {
  const Problem *q = s->q;
  int64_t rows = times(b->rows - 1, q->stride_rows) + taps, wide = times(b->columns - 1, q->stride_columns) + columns;
  double points = (double)b->batch * (double)rows * (double)wide, share = p->input_bytes / input_points(q, b, taps, columns);
  double kernel = p->weight_bytes * (double)(columns - least(q->kernel_columns, columns)) / (double)columns;
  return fmax(0, points * share - p->input_bytes + kernel) / (double)s->t->exchange_bytes_per_cycle;
}

static void consider(const Search *s, const Cut *cut, const Block *b, int64_t field_parts) {
  const Problem *q = s->q;
  const Units *u = s->u;
  const Method *m = &s->method;
  int64_t in = idiv(s->in_groups, cut->in_parts), out = idiv(s->out_groups, cut->out_parts);
  int64_t taps = taps_needed(idiv(q->kernel_rows, cut->kernel_parts), b->rows, q->stride_rows, q->in_rows, q->phase_rows),
          seen = taps_needed(q->kernel_columns, b->columns, q->stride_columns, q->in_columns, q->phase_columns),
          columns = idiv(seen, m->window) * m->window;
  if (m->kernel != VERTEX_AMP_NX1 && out > 1) return; /* these take one group of channels on a tile */
  if (m->kernel == VERTEX_SLIC && in > 1) return;
  Plan p = {.kernel = m->kernel,
            .group_split = cut->group_parts,
            .row_split = field_parts,
            .out_split = cut->out_parts,
            .in_split = cut->in_parts * cut->kernel_parts,
            .group_share = idiv(s->groups, cut->group_parts)};
  double share = (double)p.group_share, points = (double)b->batch * (double)b->rows * (double)b->columns,
         bytes = (double)u->element;
  double in_width = (double)m->groups * (double)in * (double)m->in,
         out_width = (double)m->groups * (double)out * (double)m->out;
  p.written_narrow = u->element == 2 && u->sum == 2;
  p.outputs = share * points * out_width;
  p.input_bytes = share * input_points(q, b, taps, columns) * in_width * bytes;
  p.weight_bytes = share * (double)taps * (double)columns * (double)out * (double)m->out * in_width * bytes;
  p.partial_bytes = p.outputs * (p.written_narrow ? 2 : (double)u->sum);
  if (m->kernel == VERTEX_SLIC)
    p.partial_bytes += p.partial_bytes / share + 208; /* a second, shifted set of sums */
  p.fits = p.input_bytes + p.weight_bytes + p.partial_bytes <= q->limit;
  int64_t phase_rows = m->height > 1 ? 0 : q->phase_rows; /* several rows in one pass: the zeros between them are passed too */
  Block met = {b->batch, outputs_met(b->rows, q->stride_rows, most(q->phase_rows, 1) * q->in_rows, phase_rows),
               outputs_met(b->columns, q->stride_columns, q->in_columns, q->phase_columns)};
  double met_rows = (double)taps_met(idiv(q->kernel_rows, cut->kernel_parts), b->rows, q->stride_rows, q->in_rows, q->phase_rows,
                                     q->gap_rows);
  
  double met_columns = (double)taps_met(q->kernel_columns, b->columns, q->stride_columns, q->in_columns, q->phase_columns, q->gap_columns);
  double least = p.weight_bytes * (1 - 1 / (double)p.row_split) / (double)s->t->exchange_bytes_per_cycle;
  if (m->kernel == VERTEX_AMP_NX1)
    least += share * (double)in * (double)out * ceil_div(met_rows, (double)m->height) * met_columns *
             (u->load + u->per_row * (double)met.batch * (double)met.rows * (double)met.columns);
  const Plan *best = s->best;
  if (best->cycles > 0 && (p.fits ? best->fits && least > best->cycles : best->fits || block_bytes(&p) >= block_bytes(best)))
    return;
  p.compute = kernel_cycles(s, &met, points, share, in, out, met_rows, met_columns);
  p.tiles = (double)(cut->group_parts * field_parts * cut->out_parts) * (double)p.in_split;
  double own = share * (double)q->batch * (double)q->in_rows * (double)q->in_columns / (double)field_parts * in_width * bytes;
  p.own_bytes = fmin(own, p.input_bytes) / (double)cut->out_parts; /* what neighbours hold, too, isn't here */
  finish_plan(s->t, u, &p);
  p.cycles += q->moved * (double)s->t->tiles / p.tiles;
  if (m->kernel == VERTEX_SLIC) {
    double padding = padding_cycles(s, b, &p, taps, columns);
    p.exchange_in += padding, p.cycles += padding;
  }
  if (is_better(&p, s->best)) *s->best = p;
}

/* Images, then a few columns or all, then as many rows as tiles are left. */
static void cut_field(const Search *s, const Cut *cut) {
  const Problem *q = s->q;
  int64_t room = s->t->tiles / (cut->group_parts * cut->out_parts * cut->in_parts * cut->kernel_parts);
  for (int64_t images = 1; images && images <= room; images = next_cut(s, q->batch, images))
    for (int64_t columns = 1; columns && images * columns <= room;
         columns = columns < 8 || columns == q->columns ? next_split(q->columns, columns)
                   : q->columns <= room / images        ? q->columns
                                                        : 0) {
      int64_t left = room / (images * columns);
      Block b = {.batch = idiv(q->batch, images), .columns = idiv(q->columns, columns)};
      b.rows = idiv(q->rows, least(left, q->rows));
      consider(s, cut, &b, images * columns * idiv(q->rows, b.rows));
      if (columns == q->columns) break;
    }
}

/* Absurd extents would have millions of cuts: then coarser steps. */
static double choose_growth(const Search *s) {
  enum { MANY = 50000 };
  int64_t tiles = s->t->tiles;
  double cuts = count_cuts(s->groups, tiles) * count_cuts(s->out_groups, tiles) * count_cuts(s->in_groups, tiles) *
                count_cuts(s->q->kernel_rows, tiles) * count_cuts(s->q->batch, tiles);
  return cuts <= MANY ? 1 : cuts <= 1000.0 * MANY ? 1.3 : 1.8;
}

static void search(const Search *s) {
  int64_t tiles = s->t->tiles;
  Cut c;
  for (c.group_parts = 1; c.group_parts && c.group_parts <= tiles;
       c.group_parts = next_cut(s, s->groups, c.group_parts))
    for (c.out_parts = 1; c.out_parts && c.group_parts * c.out_parts <= tiles;
         c.out_parts = next_cut(s, s->out_groups, c.out_parts))
      for (c.in_parts = 1; c.in_parts && c.group_parts * c.out_parts * c.in_parts <= tiles;
           c.in_parts = next_cut(s, s->in_groups, c.in_parts))
        for (c.kernel_parts = 1;
             c.kernel_parts && c.group_parts * c.out_parts * c.in_parts * c.kernel_parts <= tiles;
             c.kernel_parts = next_cut(s, s->q->kernel_rows, c.kernel_parts))
          cut_field(s, &c);
}

/* Cycles that the planner expects for bytes of all tiles that come or go in another layout, element by element; its rate is lower
 * where channels don't come in vectors. */
static double planned_move(const Target *t, double bytes, double per_vector, bool exchanged) {
  double share = bytes / (double)t->tiles;
  return share * per_vector / 2 + (exchanged ? share / (double)t->exchange_bytes_per_cycle : 0);
}
static const double even_channels = 5.0 / 4, odd_channels = 5.0 / 3;

/* What the planner expects for padding channels to whole groups of the units: all of the operand moves. */
static double planned_padding(const Target *t, const Units *u, const Problem *q, const Method *m) {
  double images = (double)q->groups * (double)q->batch * (double)u->element, cycles = 0;
  double rate = q->in_channels % 4 && q->out_channels % 4 ? odd_channels : even_channels;
  if (q->in_channels % m->in)
    cycles += planned_move(t, images * (double)q->in_rows * (double)q->in_columns * (double)(idiv(q->in_channels, m->in) * m->in), rate, true);
  if (q->out_channels % m->out)
    cycles += planned_move(t, images * (double)q->rows * (double)q->columns * (double)(idiv(q->out_channels, m->out) * m->out), rate, true);
  return cycles;
}

static void try_method(const Target *t, const Units *u, const Problem *q, Method m, double expanded_bytes,
                       Plan *best) {
  Plan found = {0};
  Problem padded = *q;
  if (m.kernel == VERTEX_AMP_NX1) padded.moved += planned_padding(t, u, q, &m);
  Search s = {
      t,     u, &padded, m, idiv(q->in_channels, m.in), idiv(q->out_channels, m.out), idiv(q->groups, m.groups),
      1, &found};
  s.growth = choose_growth(&s);
  search(&s);
  if (found.cycles == 0) return;
  if (expanded_bytes > 0) add_prepare(t, &found, expanded_bytes, 8);
  if (is_better(&found, best)) *best = found;
}

static bool has_phases(const Problem *q) { return q->phase_rows > 1 || q->phase_columns > 1; }

static Method amp_method(const Units *u) { return (Method){VERTEX_AMP_NX1, 1, u->group, u->units, 1, 1}; }

/* The kernel's rows, columns or both as input channels. */
static Problem expand(const Problem *q, bool rows, bool columns) {
  Problem e = *q;
  if (rows)
    e.in_channels = times(e.in_channels, q->kernel_rows), e.in_rows = q->rows,
    e.kernel_rows = e.stride_rows = 1, e.phase_rows = e.dilation_rows = 0;
  if (columns)
    e.in_channels = times(e.in_channels, q->kernel_columns), e.in_columns = q->columns,
    e.kernel_columns = e.stride_columns = 1, e.phase_columns = e.dilation_columns = 0;
  return e;
}

static double expanded_bytes(const Problem *e, const Units *u) {
  return (double)e->groups * (double)e->batch * (double)e->in_rows * (double)e->in_columns *
         (double)e->in_channels * (double)u->element;
}

/* The vertical multiply-accumulate; where its blocks don't fit, the fewest serial parts of the groups that do. Its inner loop goes
 * along the kernel's columns: a taller kernel is laid on its side. */
static void try_vertical(const Target *t, const Units *u, const Problem *q, Plan *best) {
  static const int64_t parts[] = {1, 2, 3, 4, 6, 8, 12, 16};
  Method m = {VERTEX_VECTOR_MAC, u->element == 2 ? 4 : 2, 1, 1, 1, 1};
  Problem side = *q;
  bool tall = q->kernel_rows > q->kernel_columns;
  if (tall) {
    side.rows = q->columns, side.in_rows = q->in_columns, side.kernel_rows = q->kernel_columns, side.stride_rows = q->stride_columns;
    side.columns = q->rows, side.in_columns = q->in_rows, side.kernel_columns = q->kernel_rows, side.stride_columns = q->stride_rows;
    side.gap_rows = q->gap_columns, side.gap_columns = q->gap_rows;
  }
  double field = (double)q->batch * (double)q->rows * (double)q->columns;
  double image = (double)q->groups * (double)q->batch * (double)q->in_rows * (double)q->in_columns * (double)u->element;
  Plan found = {0};
  for (size_t i = 0; i < sizeof parts / sizeof *parts && parts[i] <= q->groups && !found.fits; i++) {
    Plan p = {0};
    Problem part = *q, turned = side;
    part.groups = turned.groups = idiv(q->groups, parts[i]);
    try_method(t, u, &part, m, 0, &p);
    if (tall) try_method(t, u, &turned, m, image / (double)parts[i], &p);
    if (p.cycles == 0) continue;
    if (parts[i] > 1) {
      p.serial = parts[i];
      p.joined_bytes = field * (double)q->groups / (double)t->tiles * (double)u->element;
      p.update = join_cycles(t, u, field * (double)part.groups / (double)t->tiles, false);
      p.cycles = (double)parts[i] * (p.cycles + p.update);
    }
    if (is_better(&p, &found)) found = p;
  }
  if (found.cycles > 0 && is_better(&found, best)) *best = found;
}

/* An operand whose single elements come out of vectors of channels: on the tile they are copied one by one (PL ConvModel's regression
 * over random copies). The planner expects less; planned: bytes that it takes for moved. */
static void add_scattered(const Target *t, Plan *p, double bytes, double planned) {
  double share = bytes / (double)t->tiles;
  p->prepare_exchange += share / (double)t->exchange_bytes_per_cycle;
  p->prepare += 587 + 5.1484 * share;
  p->prepare_steps += 2;
  p->cycles += planned_move(t, planned, even_channels, true) * (double)t->tiles / p->tiles;
}

/* One channel per group: several groups at a time, or, on f16, several as one group with zeros off the diagonal. */
static void try_single(const Target *t, const Units *u, const Problem *q, Plan *best) {
  bool half = u->element == 2;
  double in = (double)q->groups * (double)q->batch * (double)q->in_rows * (double)q->in_columns * (double)u->element;
  double out = (double)q->groups * (double)q->batch * (double)q->rows * (double)q->columns * (double)u->element;
  for (int64_t n = 4; half && q->groups > 1 && n <= u->group; n *= 2) {
    Problem combined = *q;
    combined.in_channels = combined.out_channels = n;
    combined.groups = idiv(q->groups, n);
    combined.moved = planned_move(t, in + out, even_channels, true);
    try_method(t, u, &combined, (Method){VERTEX_AMP_NX1, 1, n, u->units, 1, u->group / n}, 0, best);
  }
  if (has_phases(q)) return; /* the other two multiply by the zeros */
  Problem several = *q;
  several.moved = planned_move(t, out, odd_channels, false);
  try_vertical(t, u, &several, best);
  if (half && q->groups > 1 && q->stride_columns <= 2 && !q->spread) try_method(t, u, &several, (Method){VERTEX_SLIC, 4, 1, 1, 4, 1}, 0, best);
}

/* The kernel as the field and the image as what goes over it (PL: swapOperands): fewer passes where the image is the smaller one.
 * Points that a strided field left out lie between the image's points then. */
static void try_swapped(const Target *t, const Units *u, const Problem *q, Plan *best) {
  Problem s = *q;
  s.batch = q->out_channels, s.out_channels = q->batch;
  s.in_rows = q->kernel_rows, s.in_columns = q->kernel_columns;
  s.kernel_rows = q->in_rows, s.kernel_columns = q->in_columns;
  s.gap_rows = q->phase_rows, s.gap_columns = q->phase_columns;
  s.phase_rows = s.phase_columns = 0;
  double images = (double)q->batch * (double)q->in_rows * (double)q->in_columns;
  double kernels = (double)q->out_channels * (double)q->kernel_rows * (double)q->kernel_columns;
  Plan found = {0};
  try_method(t, u, &s, amp_method(u), 0, &found);
  if (s.in_channels == 1 && s.out_channels == 1) try_single(t, u, &s, &found);
  if (found.cycles == 0) return;
  add_prepare(t, &found, (double)q->groups * (double)q->in_channels * (images + kernels) * (double)u->element, 8);
  if (is_better(&found, best)) *best = found;
}

static Plan plan_conv(const Target *t, Dtype d, Dtype partials, const Problem *q, double proportion) {
  Units u = find_units(t, d, partials);
  int64_t points = times(times(q->batch, q->rows), q->columns),
          window = times(q->kernel_rows, q->kernel_columns);
  MatmulShape s = {q->groups, points, times(q->in_channels, window), q->out_channels, true, false};
  MatmulShape other = {q->groups, q->out_channels, s.in, points, true, false};
  double moved = (double)q->groups * ((double)points * (double)s.in + (double)s.in * (double)s.out +
                                      (double)points * (double)s.out);
  Plan best = plan_matmul(t, d, partials, &s, &other, moved * element_bytes(d), proportion);
  Problem all = expand(q, true, true);
  bool single = q->in_channels == 1 && q->out_channels == 1;
  if (window > 1 && single && q->groups > 1) add_scattered(t, &best, expanded_bytes(&all, &u), expanded_bytes(&all, &u));
  else if (window > 1) add_prepare(t, &best, expanded_bytes(&all, &u), 8);
  if (single) try_single(t, &u, q, &best);
  if (window == 1) return best;
  bool dense = q->stride_rows == 1 && q->stride_columns == 1 && !q->spread;
  if (dense && times(q->in_rows, q->in_columns) <= window) try_swapped(t, &u, q, &best);
  Method amp = amp_method(&u);
  try_method(t, &u, q, amp, 0, &best);
  if (q->kernel_rows > 1 && q->kernel_columns > 1) {
    Problem rows = expand(q, true, false), columns = expand(q, false, true);
    try_method(t, &u, &rows, amp, expanded_bytes(&rows, &u), &best);
    try_method(t, &u, &columns, amp, expanded_bytes(&columns, &u), &best);
  }
  if (u.element == 2 && q->in_channels <= 4 && q->stride_columns <= 2 && !has_phases(q))
    try_method(t, &u, q, (Method){VERTEX_SLIC, 1, 4, 4, 4, 1}, 0, &best);
  return best;
}

/* Dimensions beyond the last two are part of the batch; their kernel extent is expanded into channels. */
static Problem read_shape(const ConvShape *s, bool backward, bool phases, double limit) {
  int last = s->rank - 1, rows = s->rank - 2;
  int64_t depth_kernel = 1; /* a point sees no more of it than its phase, and than there is input */
  if (s->rank > 2) depth_kernel = least(backward ? idiv(s->kernel[0], s->stride[0]) : s->kernel[0], most(1, backward ? s->out[0] : s->in[0]));
  Problem q = {.groups = s->groups, .batch = s->batch, .limit = limit};
  const int64_t *field = backward ? s->in : s->out, *in = backward ? s->out : s->in;
  if (s->rank > 2) q.batch = times(q.batch, field[0]);
  q.in_channels = times(backward ? s->out_channels : s->in_channels, depth_kernel);
  q.out_channels = backward ? s->in_channels : s->out_channels;
  q.columns = field[last], q.in_columns = in[last];
  q.kernel_columns = s->kernel[last], q.stride_columns = s->stride[last];
  q.rows = q.in_rows = q.kernel_rows = q.stride_rows = 1;
  if (rows >= 0)
    q.rows = field[rows], q.in_rows = in[rows], q.kernel_rows = s->kernel[rows],
    q.stride_rows = s->stride[rows];
  if (backward && phases) { /* each phase of a strided field sees its own points of the kernel; of a single one, a field without gaps */
    if (q.kernel_rows == 1) q.rows = idiv(q.rows, q.stride_rows);
    else if (q.stride_rows > 1) q.phase_rows = q.stride_rows;
    if (q.kernel_columns == 1) q.columns = idiv(q.columns, q.stride_columns);
    else if (q.stride_columns > 1) q.phase_columns = q.stride_columns;
  }
  q.spread = backward && !phases && (s->stride[last] > 1 || (rows >= 0 && s->stride[rows] > 1));
  if (backward && !phases)
    q.in_rows = times(q.in_rows, q.stride_rows),
    q.in_columns = times(q.in_columns, q.stride_columns); /* zeros between points */
  if (backward) q.stride_rows = q.stride_columns = 1;
  q.kernel_rows = taps_needed(q.kernel_rows, q.rows, q.stride_rows, q.in_rows, q.phase_rows);
  q.kernel_columns = taps_needed(q.kernel_columns, q.columns, q.stride_columns, q.in_columns, q.phase_columns);
  return q;
}

/* Channels are regrouped before the exchange, so that it moves more than single elements, and after it. */
static void transpose(Cost *c, const Target *t, Dtype d, double elements) {
  cost_layout(c, t, d, elements, 1);
  if (element_bytes(d) == 2) cost_step(c, t, "rearrange", 0, 0);
}

/* The weight gradient of single channels: the images are the channels, the points of the kernel the field. Rows or columns of the
 * points that are summed over may become channels, too, which can be cut over more tiles. */
static void try_depthwise_weights(const Target *t, const Units *u, const ConvShape *s, double proportion, bool rows, bool columns,
                                  double read, double deltas, Plan *best) {
  Problem q = {.groups = s->groups,
               .batch = 1,
               .in_channels = s->batch,
               .out_channels = 1,
               .rows = s->kernel[0],
               .columns = s->kernel[1],
               .stride_rows = 1,
               .stride_columns = 1,
               .kernel_rows = s->out[0],
               .kernel_columns = s->out[1],
               .in_rows = s->in[0],
               .in_columns = s->in[1],
               .dilation_rows = s->stride[0],
               .dilation_columns = s->stride[1],
               .limit = plan_limit(t, proportion)};
  if (rows) read *= (double)s->kernel[0] * (double)s->out[0] / (double)s->in[0];
  if (columns) read *= (double)s->kernel[1] * (double)s->out[1] / (double)s->in[1];
  if (rows || columns) q = expand(&q, rows, columns);
  q.moved = planned_move(t, read + deltas, even_channels, true);
  Plan found = {0};
  try_method(t, u, &q, (Method){VERTEX_VECTOR_MAC, 4, 1, 1, 1, 1}, 0, &found);
  if (found.cycles == 0) return;
  double ranked = found.cycles;
  if (rows || columns) add_prepare(t, &found, read, 8);
  found.cycles = ranked;
  if (is_better(&found, best)) *best = found;
}

/* The weight gradient is a convolution of the input by the output's gradient, over the points of the kernel.
 */
static Plan plan_weights(const Target *t, Dtype d, Dtype partials, const ConvShape *s, double proportion) {
  Units u = find_units(t, d, partials);
  int64_t window = product(s->kernel, s->rank), points = times(s->batch, product(s->out, s->rank));
  double bytes = (double)s->groups * (double)s->in_channels * (double)u.element;
  MatmulShape inwards = {s->groups, times(s->in_channels, window), points, s->out_channels, true, false};
  MatmulShape outwards = {s->groups, s->out_channels, points, times(s->in_channels, window), true, false};
  Plan best = plan_matmul(t, d, partials, &outwards, &inwards,
                          bytes * (double)window * (double)s->out_channels, proportion);
  if (window == 1) return best;
  double expanded = bytes * (double)points * (double)window;
  if (u.element == 2 && s->in_channels == 1 && s->out_channels == 1 && s->groups > 1 && s->rank == 2) {
    double read = bytes * (double)s->batch * (double)product(s->in, 2), deltas = bytes * (double)points;
    add_scattered(t, &best, expanded, expanded + deltas);
    for (int rows = 1; rows >= 0; rows--)
      for (int columns = 1; columns >= 0; columns--) try_depthwise_weights(t, &u, s, proportion, rows, columns, read, deltas, &best);
    return best;
  }
  add_prepare(t, &best, expanded, 8);
  if (s->rank != 2) return best;
  const int64_t *out = s->out, *kernel = s->kernel;
  if (product(s->stride, 2) > 1) return best;
  for (int i = 0; i < 2; i++) { /* one dimension expanded, the other one walked along */
    Problem q = {.groups = s->groups,
                 .batch = s->in_channels,
                 .in_channels = times(s->batch, out[i]),
                 .out_channels = s->out_channels,
                 .rows = kernel[0],
                 .columns = kernel[1],
                 .stride_rows = 1,
                 .stride_columns = 1,
                 .kernel_rows = 1,
                 .kernel_columns = 1,
                 .limit = plan_limit(t, proportion)};
    q.in_rows = kernel[0], q.in_columns = kernel[1];
    int64_t walked = out[1 - i] + kernel[1 - i] - 1;
    if (i == 1) q.kernel_rows = out[0], q.in_rows = walked;
    else q.kernel_columns = out[1], q.in_columns = walked;
    double copied =
        kernel[i] > 1 ? bytes * (double)s->batch * (double)out[i] * (double)kernel[i] * (double)walked : 0;
    try_method(t, &u, &q, amp_method(&u), copied, &best);
  }
  return best;
}

/* Channels regrouped in runs of one vector while they are exchanged. */
static void regroup(Cost *c, const Target *t, Dtype d, double elements) {
  double share = elements * element_bytes(d) / (double)t->tiles;
  cost_step(c, t, "regroup", share, rearrange_cycles(t, share, (double)t->vector_bytes));
  cost_vertex(c, t, VERTEX_COPY, 16, 60);
}

static bool is_depthwise(const ConvShape *s) {
  return s->in_channels == 1 && s->out_channels == 1 && s->groups > 1;
}

static Cost weights_cost(const Target *t, Dtype d, Dtype partials, const ConvShape *s, const PlanOptions *o) {
  Cost c = cost_free();
  int64_t window = product(s->kernel, s->rank), points = times(s->batch, product(s->out, s->rank));
  double g = (double)s->groups;
  double read = window > 1 ? (double)s->batch * (double)product(s->in, s->rank) : (double)points;
  double in = g * read * (double)s->in_channels, out = g * (double)points * (double)s->out_channels;
  double weights = g * (double)window * (double)s->in_channels * (double)s->out_channels;
  Plan p = plan_weights(t, d, partials, s, o->available_memory_proportion);
  if (p.kernel == VERTEX_VECTOR_MAC && is_depthwise(s)) {
    if (p.prepare_steps == 0) regroup(&c, t, d, in);
    regroup(&c, t, d, out);
    p.joined_bytes += (in + out) * element_bytes(d) / (double)t->tiles;
  } else transpose(&c, t, d, in), transpose(&c, t, d, out); /* the points become channels */
  if (window == 1)
    p.joined_bytes += g * ((double)points * (double)s->out_channels + read * (double)s->in_channels) *
                      element_bytes(d) / (double)t->tiles;
  cost_plan(&c, t, &p);
  if (window > 1) cost_layout(&c, t, d, weights, 1);
  if (o->accumulate) cost_scaled_add(&c, t, d, weights);
  return c;
}

static ConvShape clamp_shape(const ConvShape *s) {
  ConvShape c = *s;
  c.batch = clamp_extent(s->batch), c.groups = clamp_extent(s->groups);
  c.in_channels = clamp_extent(s->in_channels), c.out_channels = clamp_extent(s->out_channels);
  for (int i = 0; i < COST_SPATIAL; i++) {
    c.in[i] = clamp_extent(s->in[i]), c.out[i] = clamp_extent(s->out[i]),
    c.kernel[i] = clamp_extent(s->kernel[i]);
    c.stride[i] = most(1, clamp_extent(s->stride[i]));
  }
  return c;
}

Cost cost_conv(const Target *t, Dtype d, Dtype partials, const ConvShape *shape, ConvPass pass,
               const PlanOptions *options) {
  PlanOptions chosen = options ? *options : (PlanOptions){0};
  if (!(chosen.available_memory_proportion > 0)) chosen.available_memory_proportion = t->conv_proportion;
  const PlanOptions *o = &chosen;
  ConvShape whole = clamp_shape(shape), *s = &whole;
  Cost c = cost_free();
  if (s->rank < 1 || s->rank > COST_SPATIAL) return c;
  int64_t window = product(s->kernel, s->rank), points = times(s->batch, product(s->out, s->rank)), seen = 1;
  for (int i = 0; i < s->rank; i++) seen = times(seen, least(s->kernel[i], s->in[i])); /* by one output: the rest is padding */
  double g = (double)s->groups, width = (double)s->in_channels;
  bool empty = points <= 0 || window <= 0 || s->groups <= 0 || s->in_channels <= 0 || s->out_channels <= 0;
  if (empty) return c;
  c.flops = 2 * g * (double)points * (double)seen * width * (double)s->out_channels;
  Cost work;
  if (pass == CONV_WEIGHTS) {
    work = weights_cost(t, d, partials, s, o);
    cost_then(&c, &work);
    return c;
  }
  double in_points = (double)s->batch * (double)product(s->in, s->rank);
  if (pass == CONV_BACKWARD && !is_depthwise(s))
    transpose(&c, t, d, g * (double)window * width * (double)s->out_channels);
  bool strided = pass == CONV_BACKWARD && product(s->stride, s->rank) > 1;
  double limit = plan_limit(t, o->available_memory_proportion);
  Problem q = read_shape(s, pass == CONV_BACKWARD, true, limit);
  Plan p = plan_conv(t, d, partials, &q, o->available_memory_proportion);
  if (strided && is_depthwise(s)) { /* or all points, zeros between them */
    q = read_shape(s, true, false, limit);
    Plan all = plan_conv(t, d, partials, &q, o->available_memory_proportion);
    if (is_better(&all, &p)) p = all;
  }
  if (is_depthwise(s) && p.prepare_steps == 0)
    regroup(&c, t, d, g * (pass == CONV_FORWARD ? in_points : (double)points));
  if (is_depthwise(s) && p.kernel == VERTEX_AMP_NX1)
    regroup(&c, t, d, g * (pass == CONV_FORWARD ? (double)points : in_points));
  if (pass == CONV_FORWARD && s->in_channels < t->group_f16 / 2 && p.kernel == VERTEX_AMP_NX1 &&
      p.prepare_steps == 0 && !is_depthwise(s))
    cost_layout(&c, t, d, g * in_points * (double)t->group_f16, 1); /* padded to a whole in-group */
  if (strided && window == 1) /* computed densely, then spread over the field */
    add_prepare(t, &p, g * in_points * width * element_bytes(d), 8);
  cost_plan(&c, t, &p);
  return c;
}

static double macs_of(const ConvShape *s) {
  return (double)s->batch * (double)product(s->out, s->rank) * (double)product(s->kernel, s->rank) *
         (double)s->groups * (double)s->in_channels * (double)s->out_channels;
}

/* b runs beside a, on other tiles: each kind of step lasts as long as the slower of the two. */
static void run_beside(Cost *a, const Cost *b) {
  for (int i = 0; i < b->row_count; i++) {
    const CostStep *from = &b->steps[i];
    CostStep *row = NULL;
    for (int k = 0; k < a->row_count && !row; k++)
      if (!strcmp(a->steps[k].name, from->name)) row = &a->steps[k];
    if (!row && a->row_count < COST_STEPS)
      row = &a->steps[a->row_count++], *row = (CostStep){.name = from->name};
    if (!row) continue;
    row->times = fmax(row->times, from->times);
    row->compute = fmax(row->compute, from->compute);
    row->exchange = fmax(row->exchange, from->exchange);
    row->sync = fmax(row->sync, from->sync);
    row->bytes = fmax(row->bytes, from->bytes);
  }
  for (int m = 0; m < MEMORY_COUNT; m++) a->bytes[m] = fmax(a->bytes[m], b->bytes[m]);
  a->temporary_total += b->temporary_total;
  a->interleaved_bytes = fmax(a->interleaved_bytes, b->interleaved_bytes);
  a->vertices |= b->vertices;
  a->tiles += b->tiles;
  a->flops += b->flops;
  if (a->fits && !b->fits) a->fits = false, a->why = b->why;
}

/* The sums that follow from the rows. */
static void add_up(Cost *c) {
  memset(c->cycles, 0, sizeof c->cycles);
  c->step_count = c->moved_bytes = 0;
  for (int i = 0; i < c->row_count; i++) {
    c->cycles[PHASE_COMPUTE] += c->steps[i].compute;
    c->cycles[PHASE_EXCHANGE] += c->steps[i].exchange;
    c->cycles[PHASE_SYNC] += c->steps[i].sync;
    c->step_count += c->steps[i].times;
    c->moved_bytes += c->steps[i].bytes;
  }
}

/* Inputs averaged over 2 x 2 points, outputs repeated 2 x 2 times and added to another part's. */
static void resample(Cost *c, const Target *t, Dtype d, const ConvPart *part) {
  const ConvShape *s = &part->shape;
  double in = (double)s->batch * (double)s->in_channels * (double)product(s->in, s->rank);
  double out = (double)s->batch * (double)s->out_channels * (double)product(s->out, s->rank);
  double tiles = (double)t->tiles, w = (double)t->workers;
  if (part->pooled) {
    cost_step(c, t, "average", 0, w * (73 + 19 * ceil_div(4 * in, 8 * w * tiles)));
    cost_layout(c, t, d, 4 * in, 8);
  }
  if (part->upsampled) {
    cost_layout(c, t, d, 4 * out, 8);
    cost_scaled_add(c, t, d, 4 * out);
  }
}

static double cycles_on(const Target *t, Dtype d, Dtype partials, const ConvShape *s, ConvPass pass, const PlanOptions *options,
                        int64_t tiles) {
  Target share = *t;
  share.tiles = tiles;
  Cost c = cost_conv(&share, d, partials, s, pass, options);
  return cost_cycles(&c);
}

/* As PopLibs plans convolutions side by side (its perConvReservedTiles and cycleBackOff, at their defaults): the largest part is
 * planned without 50 tiles for each other part, then takes the fewest tiles on which it is no more than a tenth slower for each of
 * them. What is left is shared by the others in proportion to their work. */
enum { RESERVED_TILES = 50 };
static const double back_off = 0.1;

static int64_t tiles_of_largest(const Target *t, Dtype d, Dtype partials, const ConvPart *largest, int count, ConvPass pass,
                                const PlanOptions *options) {
  int64_t others = count - 1, reserved = most(1, least(t->tiles / (2 * (int64_t)count), RESERVED_TILES));
  int64_t high = most(1, t->tiles - reserved * others), low = most(1, high / 4);
  double limit = (1 + back_off * (double)others) * cycles_on(t, d, partials, &largest->shape, pass, options, high);
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (cycles_on(t, d, partials, &largest->shape, pass, options, middle) <= limit) high = middle;
    else low = middle + 1;
  }
  return high;
}

Cost cost_octave(const Target *t, Dtype d, Dtype partials, const ConvPart *parts, int count, ConvPass pass,
                 const PlanOptions *options) {
  Cost all = cost_free();
  double others = 0;
  int largest = 0;
  for (int i = 1; i < count; i++)
    if (macs_of(&parts[i].shape) > macs_of(&parts[largest].shape)) largest = i;
  for (int i = 0; i < count; i++) others += i == largest ? 0 : macs_of(&parts[i].shape);
  if (count < 1 || !(macs_of(&parts[largest].shape) > 0)) return all;
  int64_t tiles = others > 0 ? tiles_of_largest(t, d, partials, &parts[largest], count, pass, options) : t->tiles;
  for (int i = 0; i < count; i++) {
    double work = macs_of(&parts[i].shape);
    Target share = *t;
    share.tiles = i == largest ? tiles : most(1, (int64_t)((double)(t->tiles - tiles) * work / fmax(1, others)));
    Cost c = cost_conv(&share, d, partials, &parts[i].shape, pass, options);
    run_beside(&all, &c);
  }
  all.tiles = fmin(all.tiles, (double)t->tiles);
  add_up(&all);
  for (int i = 0; i < count && pass == CONV_FORWARD; i++) resample(&all, t, d, &parts[i]);
  return all;
}
