/* One method of computing a convolution, cut over tiles: batch, field, channels and groups. All
 * cuts are priced, and the cheapest one is the method's plan. */
#include <math.h>

#include "target/conv_plan.h"

/* How the field of one tile is cut. */
typedef struct Block {
  int64_t batch, rows, columns;
} Block;

static int64_t input_extent(int64_t outputs, int64_t stride, int64_t taps, int64_t dilation,
                            int64_t phase, int64_t in) {
  return min((times(outputs - 1, stride) + times(taps - 1, max(dilation, 1))) / max(phase, 1) + 1,
             max(in, 1));
}

/* Points read for a block: the halo, but no more than there is. */
static double input_points(const Problem *q, const Block *b, int64_t kernel_rows,
                           int64_t kernel_columns) {
  int64_t rows = input_extent(b->rows, q->stride_rows, kernel_rows, q->dilation_rows, q->phase_rows,
                              q->in_rows);
  int64_t columns = input_extent(b->columns, q->stride_columns, kernel_columns, q->dilation_columns,
                                 q->phase_columns, q->in_columns);
  return (double)b->batch * (double)rows * (double)columns;
}

/* A point of the kernel works on the outputs of a block whose input lies in the field. No pass is
 * made for padding (PL: output ranges by kernel index). Any output meets any input at one point at
 * most. One dimension. */
static int64_t outputs_met(int64_t outputs, int64_t stride, int64_t in, int64_t phases) {
  return min(of_phase(outputs, phases), ceil_div(max(in, 1), stride));
}

static int64_t taps_met(int64_t taps, int64_t outputs, int64_t stride, int64_t in, int64_t phases,
                        int64_t gap) {
  return min(taps,
             ceil_div(times(max(phases, 1), max(times(of_phase(outputs, phases), stride), in)),
                      max(gap, 1)));
}

/* Where a part begins, in row order, when each row has so many. */
static double point_of_part(double part, double split, double columns) {
  return floor(part / split) * columns + floor(fmod(part, split) * columns / split);
}

/* Rows are cut into so many equal parts that each worker gets as many as any other, one after
 * the other (PL's partition). A worker pays a set-up, each of its pieces within a row, and its
 * points. The slowest one counts. */
static double slowest_worker(const Target *t, int64_t rows, int64_t columns, double per_piece,
                             double per_point) {
  enum { SET_UP = 17 };
  int64_t workers = t->workers, a = common_divisor(rows, workers);
  double split = (double)(workers / max(1, a)), share = (double)(rows / max(1, a)),
         width = (double)columns, worst = 0;
  for (int64_t w = 0; w < workers; w++) {
    double from = point_of_part((double)w * share, split, width),
           to = point_of_part((double)(w + 1) * share, split, width);
    if (!(to > from)) continue;
    double pieces = floor((to - 1) / width) - floor(from / width) + 1;
    worst = fmax(worst, SET_UP + pieces * per_piece + (to - from) * per_point);
  }
  return worst;
}

/* PL n x 1 estimators: a pass for each kernel point, weights loaded each time, plus clearing the
 * sums. */
static double amp_cycles(const Target *t, const Units *u, const Block *b, double points,
                         int64_t in_groups, int64_t out_passes, double kernel_rows,
                         double kernel_columns, int64_t height) {
  double w = (double)t->workers, ni = (double)in_groups, no = (double)out_passes;
  double worker =
      slowest_worker(t, times(b->batch, b->rows), b->columns, 28 - 3 * u->per_row, u->per_row);
  double clear_width = u->sum == 4 ? 2 : 4;
  double start = height >= 4 ? 75 : height == 2 ? 61 : 30; /* pointers of each row */
  double clear = w * no * (5 + ceil_ratio(ceil_ratio(points * (double)u->units, w), clear_width));
  return 217 + 23 * no + 16 +
         ni * (14 + no * (14 + kernel_rows * (14 + kernel_columns * (start + u->load)) +
                          kernel_rows * kernel_columns * w * worker)) +
         clear;
}

/* PL vertical multiply-accumulate: the rows of the kernel under each output are cut into equal
 * parts. Each worker gets as many parts as any other. Each has sums of its own, cleared before and
 * added up after. */
static double vertical_cycles(const Target *t, const Block *b, double in, double kernel_rows,
                              double kernel_columns) {
  int64_t outputs = times(times(b->rows, b->columns), b->batch), workers = t->workers;
  double w = (double)workers, points = (double)b->rows * (double)b->columns,
         split = (double)(workers / common_divisor(workers, outputs));
  double parts = ceil_ratio((double)outputs * split, w), whole = floor(parts / split),
         left = parts - whole * split;
  double part =
      left > 0 ? 20 + 2 * (ceil_ratio(left * (kernel_columns + split - 1), split) - 1) : 0;
  double worker = 6 + kernel_rows * (whole * (20 + 2 * (kernel_columns - 1)) + part);
  double clear = 4 + points, sum = 10 + (9 + 2 * (w - 1)) * ceil_ratio(points, w) / 4;
  return clear + 32 + in * (24 + w * worker) + sum;
}

/* PL SLIC estimators: windows of four kernel columns, loaded once each; the input passes twice. */
static double window_cycles(const Target *t, const Block *b, double packs, double windows,
                            bool one_group, double stride) {
  double w = (double)t->workers, load = (one_group ? 34 : 31 + 10 * w) + 19;
  double worker = slowest_worker(t, times(b->batch, b->rows), b->columns,
                                 13 + 2 * (stride > 1 ? 8 : 9), 2 * stride);
  return 28 + 21 * packs + windows * (load + 6) + packs * windows * w * worker;
}

typedef struct Search {
  const Target *t;
  const Units *u;
  const Problem *q;
  Method method;
  int64_t in_groups, out_groups, groups; /* to be cut */
  /* the least ratio between the numbers of parts of two cuts; more than 1 if there would be too
   * many cuts */
  double growth;
  Plan *best;
} Search;

/* The next cut to look at. */
static int64_t next_cut(const Search *s, int64_t extent, int64_t parts) {
  int64_t min = (int64_t)((double)parts * s->growth);
  return next_split(extent, min > parts && min < extent ? min - 1 : parts);
}

static double count_cuts(int64_t extent, int64_t max) {
  double count = 0;
  for (int64_t parts = 1; parts && parts <= max; parts = next_split(extent, parts)) count++;
  return count;
}

/* b: the outputs on which a point of the kernel works; points: the block's outputs. */
static double kernel_cycles(const Search *s, const Block *b, double points, double share,
                            int64_t in, int64_t out, double rows, double columns) {
  const Problem *q = s->q;
  switch (s->method.kernel) {
    case VERTEX_SLIC:
      return window_cycles(s->t, b, share, rows * ceil_ratio(columns, 4), s->method.groups == 1,
                           (double)q->stride_columns);
    case VERTEX_VECTOR_MAC:
      return 100 + share * vertical_cycles(s->t, b, (double)in, rows, columns);
    default:
      return share * amp_cycles(s->t, s->u, b, points, in, out,
                                ceil_ratio(rows, (double)s->method.height), columns,
                                s->method.height);
  }
}

typedef struct Cut {
  int64_t group_parts, out_parts, in_parts, kernel_parts;
} Cut;

/* A window's blocks are padded on the tile: the kernel to whole windows, the field by as much and
 * where it has no neighbours. */
static double padding_cycles(const Search *s, const Block *b, const Plan *p, int64_t taps,
                             int64_t columns) {
  const Problem *q = s->q;
  int64_t rows = times(b->rows - 1, q->stride_rows) + taps,
          wide = times(b->columns - 1, q->stride_columns) + columns;
  double points = (double)b->batch * (double)rows * (double)wide,
         share = p->input_bytes / input_points(q, b, taps, columns);
  double kernel =
      p->weight_bytes * (double)(columns - min(q->kernel_columns, columns)) / (double)columns;
  return fmax(0, points * share - p->input_bytes + kernel) / (double)s->t->exchange_bytes_per_cycle;
}

/* A tile's part of a block: groups of channels, and taps and columns of the kernel, all of them and
 * the ones that meet inputs. */
typedef struct Tile {
  int64_t in, out, taps, columns;
  double share; /* groups of the convolution */
  double in_width;
  Block met;
  double met_rows, met_columns;
} Tile;

static Tile tile_of(const Search *s, const Cut *cut, const Block *b) {
  const Problem *q = s->q;
  const Method *m = &s->method;
  int64_t kernel_rows = ceil_div(q->kernel_rows, cut->kernel_parts),
          seen = taps_needed(q->kernel_columns, b->columns, q->stride_columns, q->in_columns,
                             q->phase_columns);
  Tile t = {.in = ceil_div(s->in_groups, cut->in_parts),
            .out = ceil_div(s->out_groups, cut->out_parts),
            .taps = taps_needed(kernel_rows, b->rows, q->stride_rows, q->in_rows, q->phase_rows),
            .columns = ceil_div(seen, m->window) * m->window,
            .share = (double)ceil_div(s->groups, cut->group_parts)};
  t.in_width = (double)m->groups * (double)t.in * (double)m->in;
  /* several rows in one pass: the zeros between them are passed too */
  int64_t phase_rows = m->height > 1 ? 0 : q->phase_rows;
  t.met =
      (Block){b->batch,
              outputs_met(b->rows, q->stride_rows, max(q->phase_rows, 1) * q->in_rows, phase_rows),
              outputs_met(b->columns, q->stride_columns, q->in_columns, q->phase_columns)};
  t.met_rows = (double)taps_met(kernel_rows, b->rows, q->stride_rows, q->in_rows, q->phase_rows,
                                q->gap_rows);
  t.met_columns = (double)taps_met(q->kernel_columns, b->columns, q->stride_columns, q->in_columns,
                                   q->phase_columns, q->gap_columns);
  return t;
}

static double block_points(const Block *b) {
  return (double)b->batch * (double)b->rows * (double)b->columns;
}

/* A plan of the cut, with its bytes. */
static Plan plan_of_tile(const Search *s, const Cut *cut, const Block *b, const Tile *t) {
  const Units *u = s->u;
  const Method *m = &s->method;
  double bytes = (double)u->element,
         out_width = (double)m->groups * (double)t->out * (double)m->out;
  Plan p = {.kernel = m->kernel,
            .group_split = cut->group_parts,
            .out_split = cut->out_parts,
            .in_split = cut->in_parts * cut->kernel_parts,
            .group_share = ceil_div(s->groups, cut->group_parts)};
  p.written_narrow = u->element == 2 && u->sum == 2;
  p.outputs = t->share * block_points(b) * out_width;
  p.input_bytes = t->share * input_points(s->q, b, t->taps, t->columns) * t->in_width * bytes;
  p.weight_bytes = t->share * (double)t->taps * (double)t->columns * (double)t->out *
                   (double)m->out * t->in_width * bytes;
  p.partial_bytes = p.outputs * (p.written_narrow ? 2 : (double)u->sum);
  if (m->kernel == VERTEX_SLIC)
    p.partial_bytes += p.partial_bytes / t->share + 208; /* a second, shifted set of sums */
  p.fits = p.input_bytes + p.weight_bytes + p.partial_bytes <= s->q->limit;
  return p;
}

/* Cycles that the plan takes at least. */
static double least_cycles(const Search *s, const Tile *t, const Plan *p) {
  const Units *u = s->u;
  const Method *m = &s->method;
  double least =
      p->weight_bytes * (1 - 1 / (double)p->row_split) / (double)s->t->exchange_bytes_per_cycle;
  if (m->kernel == VERTEX_AMP_NX1)
    least += t->share * (double)t->in * (double)t->out *
             ceil_ratio(t->met_rows, (double)m->height) * t->met_columns *
             (u->load +
              u->per_row * (double)t->met.batch * (double)t->met.rows * (double)t->met.columns);
  return least;
}

static bool may_be_best(const Search *s, const Tile *t, const Plan *p) {
  const Plan *best = s->best;
  if (!(best->cycles > 0)) return true;
  if (p->fits) return !best->fits || !(least_cycles(s, t, p) > best->cycles);
  return !best->fits && !(block_bytes(p) >= block_bytes(best));
}

static void consider(const Search *s, const Cut *cut, const Block *b, int64_t field_parts) {
  const Problem *q = s->q;
  VertexKind kernel = s->method.kernel;
  /* these take one group of channels on a tile */
  if (kernel != VERTEX_AMP_NX1 && s->out_groups > cut->out_parts) return;
  if (kernel == VERTEX_SLIC && s->in_groups > cut->in_parts) return;
  Tile t = tile_of(s, cut, b);
  Plan p = plan_of_tile(s, cut, b, &t);
  p.row_split = field_parts;
  if (!may_be_best(s, &t, &p)) return;
  p.compute =
      kernel_cycles(s, &t.met, block_points(b), t.share, t.in, t.out, t.met_rows, t.met_columns);
  p.tiles = (double)(cut->group_parts * field_parts * cut->out_parts) * (double)p.in_split;
  double own = t.share * (double)q->batch * (double)q->in_rows * (double)q->in_columns /
               (double)field_parts * t.in_width * (double)s->u->element;
  /* values that neighbours hold aren't on this tile */
  p.own_bytes = fmin(own, p.input_bytes) / (double)cut->out_parts;
  finish_plan(s->t, s->u, &p);
  if (!q->as_charged) p.cycles += q->moved * (double)s->t->tiles / p.tiles;
  if (kernel == VERTEX_SLIC) {
    double padding = padding_cycles(s, b, &p, t.taps, t.columns);
    p.exchange_in += padding, p.cycles += padding;
  }
  if (is_better(&p, s->best)) *s->best = p;
}

/* Images, then a few columns or all, then as many rows as tiles are left. */
static void cut_field(const Search *s, const Cut *cut) {
  const Problem *q = s->q;
  int64_t room =
      s->t->tiles / (cut->group_parts * cut->out_parts * cut->in_parts * cut->kernel_parts);
  for (int64_t images = 1; images && images <= room; images = next_cut(s, q->batch, images))
    for (int64_t columns = 1; columns && images * columns <= room;
         columns = columns < 8 || columns == q->columns ? next_split(q->columns, columns)
                   : q->columns <= room / images        ? q->columns
                                                        : 0) {
      int64_t left = room / (images * columns);
      Block b = {.batch = ceil_div(q->batch, images), .columns = ceil_div(q->columns, columns)};
      b.rows = ceil_div(q->rows, min(left, q->rows));
      consider(s, cut, &b, images * columns * ceil_div(q->rows, b.rows));
      if (columns == q->columns) break;
    }
}

/* Absurd extents would have millions of cuts: then coarser steps. */
static double choose_growth(const Search *s) {
  enum { MANY = 50000 };
  int64_t tiles = s->t->tiles;
  double cuts = count_cuts(s->groups, tiles) * count_cuts(s->out_groups, tiles) *
                count_cuts(s->in_groups, tiles) * count_cuts(s->q->kernel_rows, tiles) *
                count_cuts(s->q->batch, tiles);
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

/* Cycles that the planner expects for moving bytes of all tiles to another layout, element by
 * element. Its rate is lower if channels aren't in vectors. */
double planned_move(const Target *t, double bytes, double per_vector, bool exchanged) {
  double share = bytes / (double)t->tiles;
  return share * per_vector / 2 + (exchanged ? share / (double)t->exchange_bytes_per_cycle : 0);
}

/* Points of the kernel become channels: the planner takes it for dearer than it is charged. */
void add_expanded(const Target *t, Plan *p, double bytes, bool as_charged) {
  double planned =
      p->cycles + planned_move(t, bytes, EVEN_CHANNELS, true) * (double)t->tiles / p->tiles;
  add_prepare(t, p, bytes, 8);
  if (!as_charged) p->cycles = planned;
}

/* Cycles that the planner expects for padding channels to whole groups of the units: the whole
 * operand moves. */
static double planned_padding(const Target *t, const Units *u, const Problem *q, const Method *m) {
  double images = (double)q->groups * (double)q->batch * (double)u->element, cycles = 0;
  double rate = q->in_channels % 4 && q->out_channels % 4 ? ODD_CHANNELS : EVEN_CHANNELS;
  if (q->in_channels % m->in)
    cycles += planned_move(t,
                           images * (double)q->in_rows * (double)q->in_columns *
                               (double)(ceil_div(q->in_channels, m->in) * m->in),
                           rate, true);
  if (q->out_channels % m->out)
    cycles += planned_move(t,
                           images * (double)q->rows * (double)q->columns *
                               (double)(ceil_div(q->out_channels, m->out) * m->out),
                           rate, true);
  return cycles;
}

void try_method(const Target *t, const Units *u, const Problem *q, Method m, double expanded_bytes,
                Plan *best) {
  Plan found = {0};
  Problem padded = *q;
  if (m.kernel == VERTEX_AMP_NX1) padded.moved += planned_padding(t, u, q, &m);
  Search s = {t,
              u,
              &padded,
              m,
              ceil_div(q->in_channels, m.in),
              ceil_div(q->out_channels, m.out),
              ceil_div(q->groups, m.groups),
              1,
              &found};
  s.growth = choose_growth(&s);
  search(&s);
  if (found.cycles == 0) return;
  if (expanded_bytes > 0) add_expanded(t, &found, expanded_bytes, q->as_charged);
  if (is_better(&found, best)) *best = found;
}

bool has_phases(const Problem *q) { return q->phase_rows > 1 || q->phase_columns > 1; }

Method amp_method(const Units *u) { return (Method){VERTEX_AMP_NX1, 1, u->group, u->units, 1, 1}; }

/* The kernel's rows, columns or both as input channels. */
Problem expand(const Problem *q, bool rows, bool columns) {
  Problem e = *q;
  if (rows)
    e.in_channels = times(e.in_channels, q->kernel_rows), e.in_rows = q->rows,
    e.kernel_rows = e.stride_rows = 1, e.phase_rows = e.dilation_rows = 0;
  if (columns)
    e.in_channels = times(e.in_channels, q->kernel_columns), e.in_columns = q->columns,
    e.kernel_columns = e.stride_columns = 1, e.phase_columns = e.dilation_columns = 0;
  return e;
}

double expanded_bytes(const Problem *e, const Units *u) {
  return (double)e->groups * (double)e->batch * (double)e->in_rows * (double)e->in_columns *
         (double)e->in_channels * (double)u->element;
}
