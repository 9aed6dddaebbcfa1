/* The planner of matrix products: which tile multiplies which block.
 *
 * A product of m rows, k inputs and n outputs is cut into row x out x in (x group) parts, one per
 * tile. Each tile receives its blocks of both operands and multiplies them with the AMP units. If
 * the inner extent was cut, it sends partial sums to be added. All cuts are priced, except those
 * whose blocks don't fit the allowed memory. The cheapest one is the plan. Formulas:
 * docs/pricing.md. */
#include <math.h>

#include "target/plan.h"

double step_cycles(const Target *t) {
  return (double)(t->sync_cycles + t->exchange_start_cycles + t->launch_cycles);
}

double plan_limit(const Target *t, double proportion) {
  return (proportion > 0 ? proportion : 0.6) * (double)t->tile_bytes;
}

Units find_units(const Target *t, Dtype d, Dtype partials) {
  bool wide = element_bytes(d) >= 4, wide_sum = wide || element_bytes(partials) >= 4;
  Units u = {.kernel = VERTEX_AMP_1X1,
             .group = wide ? t->group_f32 : t->group_f16,
             .units = wide       ? t->units_f32
                      : wide_sum ? t->units_f16_f32
                                 : t->units_f16_f16,
             .element = wide ? 4 : 2,
             .sum = wide_sum ? 4 : 2};
  if (u.units < 1) u.units = 1;
  u.load = (double)(u.units * u.group * u.element) / (double)t->weight_bytes_per_cycle;
  /* 4 on f16, 4 or 8 on f32 */
  u.per_row = (double)(u.units * u.group) / target_macs(t, u.element, u.sum);
  return u;
}

/* PL also plans with half of sixteen units, which take as long for a row: less padding for few
 * outputs. */
static Units half_of(const Units *u) {
  Units half = *u;
  half.units /= 2, half.load /= 2;
  return half;
}

/* The workers' multiply-accumulate: dot products of a vector's channels, any number of outputs. */
static Units find_vector_units(const Target *t, Dtype d) {
  Units u = {
      .kernel = VERTEX_VECTOR_MAC, .units = 1, .element = element_bytes(d) >= 4 ? 4 : 2, .sum = 4};
  u.group = (int64_t)vector_width(t, d);
  return u;
}

/* Worker cycles of one pass over `rows` rows (PL PerformanceEstimation); the first also clears
 * the sums. */
static double pass_cycles(const Units *u, int64_t rows, bool first) {
  double e = (double)rows, extra = e > 3 ? u->per_row * (e - 3) : 0;
  if (u->element == 4) {
    static const double base[] = {24, 47, 46};
    return (rows < 3 ? base[rows] : 46 + extra) + (first ? 2 + (u->units == 16 ? 8 : 4) * e : 0);
  }
  if (u->sum == 2 && u->units <= 8) {
    static const double base[] = {24, 39, 40};
    return (rows < 3 ? base[rows] : 41 + extra) + (first ? 2 + 2 * e : 0) - 7;
  }
  static const double base[] = {22, 33, 42};
  return (rows < 3 ? base[rows] : 38 + extra) - (first ? 1 : 0) - 7;
}

/* PL horizontal multiply-accumulate: a dot product over all input channels for each row and
 * output. f32 has no instruction that multiplies and adds a vector. */
static double dot_cycles(const Target *t, const Units *u, int64_t rows, int64_t in_groups,
                         int64_t out) {
  double w = (double)t->workers, e = (double)ceil_div(rows, t->workers), no = (double)out;
  double dot = 7 + (double)in_groups * (u->element == 4 ? (double)u->group : 1);
  double clear = w * no * (5 + ceil(e / 2));
  return 63 + 9 * w + 23 + 15 + no * (10 + w * (16 + 16 + 19 + e * (7 + dot))) + clear;
}

/* A block of rows x in_groups x out_groups, each of some passes, by the 1x1 kernel. */
static double block_cycles(const Target *t, const Units *u, int64_t rows, int64_t in_groups,
                           int64_t out_groups, int64_t passes) {
  if (u->kernel == VERTEX_VECTOR_MAC) return dot_cycles(t, u, rows, in_groups, out_groups);
  int64_t e = ceil_div(rows, t->workers);
  double w = (double)t->workers, ni = (double)in_groups, no = (double)out_groups,
         n = (double)passes;
  double state = u->element == 2 ? w * (7 + 3 * (ni - 1)) : 0;
  return 50 + state + 13 +
         (ni - 1) * (15 + no * (19 + n * (6 + u->load + w * pass_cycles(u, e, false)))) + 11 +
         no * (19 + n * (6 + u->load + w * pass_cycles(u, e, true)));
}

/* Stages in which `depth` partial sums become one. */
static int reduce_stages(double depth) { return depth < 16 ? 1 : depth < 125 ? 2 : 3; }

/* Sums that a tile collects lie in one region if two conditions hold (PL
 * checkPartialsSizeForSingleInputReduce). In whole memory elements they take less than a sixteenth
 * of the tile's memory, and they fill vectors. On GC2 one element is a sixteenth. */
static bool in_one_region(const Target *t, double outputs, double depth, double partial_bytes) {
  double element = (double)t->element_bytes, collected = (depth - 1) * outputs * partial_bytes;
  return ceil(collected / element) * element < (double)t->tile_bytes / 16 &&
         fmod(outputs, partial_bytes >= 4 ? 4 : 8) == 0;
}

/* One reduce vertex: outputs of one tile, each a sum of depth partials (PL
 * getReduceCycleEstimate). */
static double reduce_vertex(const Target *t, double outputs, double depth, double partial_bytes,
                            bool half_out) {
  double group = partial_bytes >= 4 ? 4 : 8, w = (double)t->workers;
  double store = (partial_bytes >= 4 ? 8 : 10) - (half_out ? 1 : 0);
  if (in_one_region(t, outputs, depth, partial_bytes))
    return w * (20 + (2 * (depth - 1) + store) * ceil_ratio(outputs / group, w)) + 33;
  /* A region for each partial. Loops beside those that all workers have are of one output each. */
  double cycles = 32, loops = floor(outputs / group);
  int rest = (int)(outputs - group * loops);
  for (int i = 1; i < (int)group; i *= 2) loops += rest & i ? 1 : 0;
  double all = floor(loops / w);
  if (all * w < loops && rest) cycles += 2 * depth + (partial_bytes >= 4 ? 13 : 11);
  else if (all * w < loops) all++;
  return w * (cycles + (3 * depth + store - 1) * all);
}

/* Partial sums come together in stages: the depth of each but the last. */
static double stage_depth(double depth) {
  return fmax(2, round(pow(depth, 1.0 / reduce_stages(depth))));
}

double reduce_partials(const Target *t, double outputs, double depth, double partial_bytes,
                       bool half_out, double *exchange, double *steps) {
  int stages = reduce_stages(depth);
  double cycles = 0, left = depth, rate = (double)t->exchange_bytes_per_cycle,
         each = stage_depth(depth);
  *exchange = 0;
  *steps = 2 * stages;
  for (int s = 0; s < stages; s++) {
    double d = s + 1 < stages ? fmin(each, left) : left;
    *exchange += outputs * (1 - 1 / d) * partial_bytes / rate;
    outputs = ceil_ratio(outputs, d);
    cycles += reduce_vertex(t, outputs, d, partial_bytes, half_out && s + 1 == stages);
    left = ceil_ratio(left, d);
  }
  return cycles;
}

void add_prepare(const Target *t, Plan *p, double bytes, double run_bytes) {
  double share = bytes / (double)t->tiles, compute = rearrange_cycles(t, share, run_bytes);
  p->prepare_exchange += share / (double)t->exchange_bytes_per_cycle;
  p->prepare += compute;
  p->prepare_steps += compute > 0 ? 2 : 1;
  p->cycles += share / (double)t->exchange_bytes_per_cycle + compute +
               (compute > 0 ? 2 : 1) * step_cycles(t);
}

/* The cycles that PopLibs' planner expects for the exchange of a plan. The plan is charged other
 * ones. The planner counts bytes on the tile as present, and counts sums as sent at every stage,
 * even if nothing is added. */
static double planned_exchange(const Target *t, const Units *u, const Plan *p, double pair) {
  double outputs = p->outputs, left = (double)p->in_split, each = stage_depth(left), sums = 0;
  for (int s = 0; s < reduce_stages((double)p->in_split); s++)
    sums += outputs, outputs = ceil_ratio(outputs, fmin(each, left)), left = ceil_ratio(left, each);
  double inputs = (p->input_bytes - p->own_bytes) / pair;
  double weights = p->weight_bytes * (1 - 1 / (double)p->row_split);
  return (inputs + weights + sums * (p->written_narrow ? 2 : (double)u->sum)) /
         (double)t->exchange_bytes_per_cycle;
}

void finish_plan(const Target *t, const Units *u, Plan *p) {
  double rate = (double)t->exchange_bytes_per_cycle;
  double pair = t->exchange_pair && p->out_split % 2 == 0 ? 2 : 1;
  p->exchange_in = (p->input_bytes / pair + p->weight_bytes) / rate;
  if (p->in_split > 1)
    p->reduce = reduce_partials(t, p->outputs, (double)p->in_split, (double)u->sum, u->element == 2,
                                &p->reduce_exchange, &p->reduce_steps);
  else if (u->element == 2 && !p->written_narrow) p->convert = 26 + ceil_ratio(p->outputs, 4) + 12;
  p->serial = 1;
  p->cycles = planned_exchange(t, u, p, pair) + p->compute + p->reduce + p->convert;
}

/* Plans within so much of each other count as equal: less memory decides. */
static const double equal_share = 0.003;

static double plan_bytes(const Plan *p) { return block_bytes(p) * p->tiles; }

bool is_better(const Plan *p, const Plan *than) {
  if (than->cycles == 0) return true;
  if (p->fits != than->fits) return p->fits;
  if (!p->fits) return block_bytes(p) < block_bytes(than); /* as little over as can be */
  bool equal = fabs(p->cycles - than->cycles) <= equal_share * than->cycles &&
               plan_bytes(p) != plan_bytes(than);
  return equal ? plan_bytes(p) < plan_bytes(than) : p->cycles < than->cycles;
}

int64_t next_split(int64_t extent, int64_t parts) {
  int64_t size = ceil_div(extent, parts);
  return size <= 1 ? 0 : ceil_div(extent, size - 1);
}

typedef struct Problem {
  int64_t groups, m, k, n, grain; /* grain: output channels that stay together */
  double limit;
  bool spread; /* rows lie evenly on the tiles that read them */
} Problem;

static void consider(const Target *t, const Units *u, const Problem *q, int64_t gs, int64_t ns,
                     int64_t ks, Plan *best) {
  int64_t room = t->tiles / (gs * ns * ks), in_groups = ceil_div(q->k, u->group),
          out_groups = ceil_div(q->n, q->grain);
  Plan p = {.kernel = u->kernel,
            .group_split = gs,
            .out_split = ns,
            .in_split = ks,
            .group_share = ceil_div(q->groups, gs),
            .dots = u->kernel == VERTEX_VECTOR_MAC};
  int64_t rows = ceil_div(q->m, room < q->m ? room : q->m), in = ceil_div(in_groups, ks),
          out = ceil_div(out_groups, ns);
  double share = (double)p.group_share, in_width = (double)in * (double)u->group;
  double out_width = (double)out * (double)q->grain, r = (double)rows;
  p.row_split = ceil_div(q->m, rows);
  p.written_narrow =
      u->element == 2 && (u->sum == 2 || (u->kernel == VERTEX_AMP_1X1 && q->k <= u->group));
  p.outputs = share * r * out_width;
  p.input_bytes = share * r * in_width * (double)u->element;
  p.weight_bytes = share * in_width * out_width * (double)u->element;
  p.partial_bytes = p.outputs * (p.written_narrow ? 2 : (double)u->sum);
  p.own_bytes = q->spread ? p.input_bytes / (double)ns : 0;
  p.fits = p.input_bytes + p.weight_bytes + p.partial_bytes <= q->limit;
  /* Most cuts are far from the best. A lower bound by bytes and multiplications excludes them. */
  double min = p.weight_bytes * (1 - 1 / (double)p.row_split) / (double)t->exchange_bytes_per_cycle;
  if (u->kernel == VERTEX_AMP_1X1)
    min += share * (double)in * out_width / (double)u->units * (u->load + u->per_row * r);
  if (best->cycles > 0 && (p.fits ? best->fits && min > best->cycles
                                  : best->fits || block_bytes(&p) >= block_bytes(best)))
    return;
  p.compute = share * block_cycles(t, u, rows, in, out, q->grain / u->units);
  p.tiles = (double)(gs * p.row_split * ns * ks);
  finish_plan(t, u, &p);
  if (is_better(&p, best)) *best = p;
}

static Plan search(const Target *t, const Units *u, const Problem *q) {
  Plan best = {0};
  int64_t in_groups = ceil_div(q->k, u->group), out_groups = ceil_div(q->n, q->grain),
          tiles = t->tiles;
  for (int64_t gs = 1; gs && gs <= tiles; gs = next_split(q->groups, gs))
    for (int64_t ns = 1; ns && gs * ns <= tiles; ns = next_split(out_groups, ns))
      for (int64_t ks = 1; ks && gs * ns * ks <= tiles; ks = next_split(in_groups, ks))
        consider(t, u, q, gs, ns, ks, &best);
  return best;
}

double join_cycles(const Target *t, const Units *u, double share, bool adds) {
  double w = (double)t->workers, width = (double)t->vector_bytes / (double)u->element;
  double vectors = ceil_ratio(ceil_ratio(share, w), width), moved = share * (double)u->element;
  if (adds) return w * (58 + 3 * ceil_ratio(ceil_ratio(share, w), 2)) + SUPERVISOR_CYCLES;
  return moved / (double)t->exchange_bytes_per_cycle + rearrange_cycles(t, moved, 8) + 25 +
         w * (63 + 2 * vectors);
}

/* One of so many serial parts: of the outputs, the groups or the inputs. */
typedef enum SerialCut { CUT_OUTPUTS, CUT_GROUPS, CUT_INPUTS } SerialCut;

static Plan search_part(const Target *t, const Units *u, const Problem *q, SerialCut cut,
                        int64_t parts) {
  Problem part = *q;
  bool adds = cut == CUT_INPUTS;
  /* of a tile */
  double outputs = (double)q->groups * (double)q->m * (double)q->n / (double)t->tiles,
         n = (double)parts;
  if (adds) part.k = ceil_div(q->k, parts), part.limit -= outputs * (double)u->sum;
  else if (cut == CUT_GROUPS) part.groups = ceil_div(q->groups, parts);
  else part.n = ceil_div(q->n, parts);
  if (outputs / (adds ? 1 : n) * 2 > part.limit) return (Plan){0}; /* not even the results fit */
  Plan p = search(t, u, &part);
  p.serial = parts;
  p.update = join_cycles(t, u, adds ? outputs : outputs / n, adds);
  if (adds) p.partial_bytes += outputs * (double)u->sum;
  p.joined_bytes = outputs * (double)u->element;
  p.cycles = n * (p.cycles + p.update);
  return p;
}

/* The fewest parts that fit; where none does, the nearest to it. */
static Plan fewest_parts(const Target *t, const Units *u, const Problem *q, SerialCut cut,
                         int64_t extent) {
  static const int64_t parts[] = {2, 3, 4, 5, 6, 8, 12, 16, 24, 32};
  Plan best = {0};
  for (size_t i = 0; i < sizeof parts / sizeof *parts && parts[i] <= extent && !best.fits; i++) {
    Plan p = search_part(t, u, q, cut, parts[i]);
    if (p.cycles > 0 && is_better(&p, &best)) best = p;
  }
  return best;
}

/* Where a whole plan doesn't fit: parts of the outputs, else of the groups or the inputs, one
 * after the other. */
static Plan search_serial(const Target *t, const Units *u, const Problem *q) {
  Plan best = fewest_parts(t, u, q, CUT_OUTPUTS, q->n);
  if (best.fits) return best;
  Plan others[] = {fewest_parts(t, u, q, CUT_GROUPS, q->groups),
                   fewest_parts(t, u, q, CUT_INPUTS, q->k)};
  for (int i = 0; i < 2; i++)
    if (others[i].cycles > 0 && is_better(&others[i], &best)) best = others[i];
  return best.cycles > 0 ? best : search(t, u, q);
}

static Plan plan_grain(const Target *t, const Units *u, const MatmulShape *s, int64_t grain,
                       double proportion) {
  Problem q = {s->groups, s->rows, s->in, s->out, grain, plan_limit(t, proportion), s->regrouped};
  Plan p = search(t, u, &q);
  return p.fits ? p : search_serial(t, u, &q);
}

/* A convolution's reader takes channels in whole in-groups. So they stay together here, or they are
 * regrouped. */
static Plan plan_rows(const Target *t, Dtype d, Dtype partials, const MatmulShape *s,
                      double proportion) {
  Units u = find_units(t, d, partials), v = find_vector_units(t, d);
  Plan p = plan_grain(t, &u, s, u.units, proportion);
  if (u.units == 16) {
    Units half = half_of(&u);
    Plan few = plan_grain(t, &half, s, half.units, proportion);
    if (is_better(&few, &p)) p = few;
    half.group /= 2;
    few = plan_grain(t, &half, s, half.units, proportion);
    if (is_better(&few, &p)) p = few;
  }
  double macs = (double)s->groups * (double)s->rows * (double)s->in * (double)s->out;
  double per_cycle = (double)t->tiles * (u.element == 4 ? 1 : (double)v.group);
  /* where the units would mostly multiply padding */
  if (((!s->fixed || u.units < 16) && macs / per_cycle < p.cycles) || !p.fits) {
    MatmulShape long_side = *s; /* a dot product doesn't mind which operand comes first */
    if (s->out > s->rows && !s->fixed) long_side.rows = s->out, long_side.out = s->rows;
    Plan dots = plan_grain(t, &v, &long_side, 1, proportion);
    /* published solves: both operands and the sum in elements of their own */
    bool vectors = s->rows == 1 && s->out == 1;
    if ((dots.fits && !p.fits) || (dots.fits == p.fits && (vectors || dots.cycles < p.cycles)))
      return dots;
  }
  if (!s->regrouped || u.group % u.units || u.group == u.units) return p;
  double share = (double)s->groups * (double)s->rows * (double)s->out / (double)t->tiles;
  double regroup = rearrange_cycles(t, share * (double)u.element, 8);
  Plan whole = plan_grain(t, &u, s, u.group, proportion);
  p.convert += regroup, p.cycles += regroup;
  return is_better(&whole, &p) ? whole : p;
}

Plan plan_matmul(const Target *t, Dtype d, Dtype partials, const MatmulShape *s,
                 const MatmulShape *other, double moved_bytes, double proportion) {
  Plan p = plan_rows(t, d, partials, s, proportion);
  Plan swapped = plan_rows(t, d, partials, other, proportion);
  add_prepare(t, &swapped, moved_bytes, element_bytes(d));
  return is_better(&swapped, &p) ? swapped : p;
}

/* Blocks of a matrix that only one tile reads lie there already, except for their padding. */
static void keep_matrix(const Target *t, Plan *p, double bytes) {
  double held = fmin(p->input_bytes, bytes / (p->tiles * (double)p->serial)),
         saved = held / (double)t->exchange_bytes_per_cycle;
  p->exchange_in -= saved, p->cycles -= saved * (double)p->serial;
  p->input_bytes -= held;
}

/* PL outer product: one column after the other, each worker takes a share of its rows. */
static double outer_cycles(const Target *t, const Units *u, double rows, double columns) {
  double per_row = u->element == 4 ? 12 : 12.5, per_column = u->element == 4 ? 11 : 10;
  return (double)t->workers *
         (25 + columns * (per_column + ceil_ratio(rows, (double)t->workers) * per_row));
}

Plan plan_row(const Target *t, Dtype d, Dtype partials, int64_t in, int64_t out,
              double proportion) {
  MatmulShape s = {.groups = 1, .rows = out, .in = in, .out = 1, .fixed = true};
  Plan p = plan_rows(t, d, partials, &s, proportion);
  keep_matrix(t, &p, (double)in * (double)out * element_bytes(d));
  return p;
}

Plan plan_outer(const Target *t, Dtype d, Dtype partials, int64_t rows, int64_t columns,
                double proportion) {
  Plan held = plan_row(t, d, partials, rows, columns, proportion), p = held;
  Units u = find_units(t, d, partials);
  bool amp = held.kernel == VERTEX_AMP_1X1;
  int64_t in = ceil_div(ceil_div(rows, amp ? u.group : 1), held.in_split) * (amp ? u.group : 1),
          out = ceil_div(columns, held.row_split);
  p.kernel = amp ? VERTEX_AMP_1X1 : VERTEX_OUTER, p.dots = false;
  p.in_split = p.serial = 1;
  p.written_narrow = true;
  p.outputs = (double)in * (double)out;
  p.input_bytes = (double)in * (double)u.element;
  p.weight_bytes = (double)out * (double)u.element;
  p.partial_bytes = p.outputs * (double)u.element;
  p.compute = amp ? block_cycles(t, &u, in, 1, ceil_div(out, u.units), 1)
                  : outer_cycles(t, &u, (double)in, (double)out);
  p.fits = p.input_bytes + p.weight_bytes + p.partial_bytes <= plan_limit(t, proportion);
  p.reduce = p.reduce_exchange = p.reduce_steps = p.convert = 0;
  finish_plan(t, &u, &p);
  return p;
}
