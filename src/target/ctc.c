/* Connectionist temporal classification as PopLibs' popnn plans and runs it (CTCLossPlan.cpp,
 * CTCLoss.cpp). Batch, time and labels are cut over the tiles. Every tile has all classes of its
 * time steps, as data and as a gradient of its own. One half of the time steps runs forwards, the
 * other backwards. A loop finds the paths up to the middle; a second loop goes on and adds up the
 * gradient. Each pass is one time step. At the end the tiles' gradients are added in the log
 * domain, on the tiles of the logits. */
#include <math.h>

#include "target/plan.h"

/* PL popnn/PerformanceEstimation.hpp, labels with their blanks at one point of time: sums of
 * paths, products, loads and stores. */
static const double log_add = 16, log_multiply = 1;
static double path_cycles(double labels) {
  return labels * (2 * 4 + 2 * log_add + 2 * log_multiply + 2);
}
static double gradient_cycles(double labels) {
  return path_cycles(labels) + labels * 2 * (3 + log_multiply + log_add);
}

enum { AT_ONCE = 512 }; /* gradients that PopLibs adds in one stage */

typedef struct CtcShape {
  int64_t batch, time, labels, classes;
} CtcShape;

typedef struct CtcPlan {
  int64_t batch_parts, time_parts, label_parts;
  double batch, time, labels, extended; /* of one tile; extended: with blanks */
  double passes;                        /* of each of the two loops */
  double path, gradient, received;      /* of a pass */
  /* cycles of the loops, and of adding the gradients up afterwards */
  double bytes, cycles, sum;
  int stages; /* of that sum */
  /* spread: it is made on all tiles, not where the logits lie */
  bool fits, spread;
  /* a tile has the classes of one point of time, sent there for its pass */
  bool sent;
} CtcPlan;

static double in_grains(const Target *t, double elements) {
  return 16 * ceil_ratio(elements / 16, (double)t->tiles);
}

static void add_up(Cost *c, const Target *t, double share, double depth) {
  double w = (double)t->workers, vectors = ceil_ratio(ceil_ratio(share, vector_width(t, F32)), w),
         bytes = share * depth * element_bytes(F32);
  cost_step(c, t, "sum of gradients", bytes,
            w * (55 + vectors * (depth * LOG_ADD_VECTOR_F32 + 12)));
  cost_memory(c, MEMORY_MESSAGE, bytes);
}

static double points_of_sum(const CtcShape *s, const CtcPlan *p) {
  return p->sent ? (double)p->time_parts : (double)s->time;
}

/* A tile has whole points of time of the result, as of the logits. Time is cut over as many of the
 * plan's tiles as it has points. */
static double parts_of_sum(const CtcShape *s, const CtcPlan *p) {
  return fmin((double)(p->time_parts * p->label_parts), points_of_sum(s, p));
}

static double share_here(const CtcShape *s, const CtcPlan *p) {
  return p->batch * ceil_ratio(points_of_sum(s, p), parts_of_sum(s, p)) * (double)s->classes;
}

static double all_of_sum(const CtcShape *s, const CtcPlan *p) {
  return (double)s->batch * points_of_sum(s, p) * (double)s->classes;
}

static double depth_of_stage(const CtcPlan *p) {
  return ceil(pow((double)p->label_parts, 1.0 / p->stages));
}

/* Adds up the gradients of all parts of the labels, after all passes, or after each pass if the
 * classes are sent. The sum is made where the logits lie, or on all tiles in grains of 16, and then
 * goes there. Stages before the last one are on all tiles. */
static Cost cost_sum(const Target *t, const CtcShape *s, const CtcPlan *p) {
  Cost c = cost_free();
  if (p->label_parts <= 1) return c;
  double depth = depth_of_stage(p), size = element_bytes(F32), all = all_of_sum(s, p),
         here = share_here(s, p), spread = in_grains(t, all);
  cost_memory(&c, MEMORY_PARTIALS, p->batch * (p->sent ? 1 : p->time) * (double)s->classes * size);
  for (int stage = 1; stage < p->stages; stage++)
    add_up(&c, t, in_grains(t, all * pow(depth, p->stages - stage)), depth);
  c.tiles = p->spread ? fmin((double)t->tiles, ceil_ratio(all, spread))
                      : (double)p->batch_parts * parts_of_sum(s, p);
  add_up(&c, t, p->spread ? spread : here, depth);
  if (p->spread) cost_step(&c, t, "sum of gradients", here * size, 0);
  cost_vertex(&c, t, VERTEX_REDUCE, 70, 40);
  if (p->sent) cost_repeat(&c, p->passes);
  return c;
}

/* The cycles that PopLibs expects for adding `depth` gradients of `share` elements on a tile
 * (ReductionPlan.cpp). */
static double expected_cycles(const Target *t, double share, double depth) {
  return depth * ceil_ratio(share, vector_width(t, F32));
}

/* One stage up to 512 (the published 200 and 480 are added in one), on all tiles where PopLibs
 * expects that to be quicker. */
static void plan_sum(const Target *t, const CtcShape *s, CtcPlan *p) {
  p->stages = p->label_parts > AT_ONCE ? 2 : 1;
  double depth = depth_of_stage(p), share = in_grains(t, all_of_sum(s, p));
  double moved = share * depth * element_bytes(F32) / (double)t->exchange_bytes_per_cycle;
  p->spread = expected_cycles(t, share, depth) + moved + step_cycles(t) <
              expected_cycles(t, share_here(s, p), depth);
  Cost sum = cost_sum(t, s, p);
  p->sum = cost_cycles(&sum);
}

static void plan_best_sum(const Target *t, const CtcShape *s, CtcPlan *p) {
  CtcPlan q = *p;
  for (q.stages = 1; q.stages <= 4; q.stages++)
    for (int spread = 0; spread < 2; spread++) {
      q.spread = spread;
      Cost sum = cost_sum(t, s, &q);
      q.sum = cost_cycles(&sum);
      if (q.sum < p->sum) *p = q;
    }
}

static CtcPlan cut(const Target *t, Dtype d, const CtcShape *s, int64_t batch, int64_t time,
                   int64_t labels, bool sent) {
  CtcPlan p = {batch,
               time,
               labels,
               .batch = (double)ceil_div(s->batch, batch),
               .time = (double)ceil_div(s->time, time),
               .sent = sent};
  /* a worker takes one sequence */
  double w = (double)t->workers, size = element_bytes(F32), rounds = ceil_ratio(p.batch, w);
  p.labels = (double)ceil_div(s->labels, labels);
  p.extended = 2 * p.labels + 1;
  /* of odd parts the middle one waits */
  p.passes = time % 2 ? p.time * (double)ceil_div(time, 2) : ceil_ratio((double)s->time, 2);
  p.path = rounds * w * path_cycles(p.labels);
  p.gradient = rounds * w * gradient_cycles(p.labels);
  /* the last two points of time; of the next labels the nearest */
  p.received = p.batch * (2 * p.extended + 2) * size;
  p.bytes = p.batch * ((sent ? 1 : p.time) * (double)s->classes * (element_bytes(d) + 2 * size) +
                       4 * p.extended * size);
  /* PL's planner: of one sequence */
  double planned = (2 + 4 * p.labels) * size / (double)t->exchange_bytes_per_cycle;
  if (sent) {
    double row = p.batch * (double)s->classes * element_bytes(d);
    p.received += row;
    planned = p.received / (double)t->exchange_bytes_per_cycle;
    p.bytes += row + (double)s->batch * (double)s->time * (double)s->classes *
                         (element_bytes(d) + size) / (double)t->tiles;
  }
  p.cycles = p.passes * (2 * step_cycles(t) + 2 * planned + p.path + p.gradient);
  p.fits = p.bytes <= plan_limit(t, 0);
  return p;
}

static double whole_cycles(const CtcPlan *p) { return p->cycles + p->sum; }

static bool is_better_cut(const CtcPlan *p, const CtcPlan *than, bool summed) {
  if (than->batch_parts == 0) return true;
  if (p->fits != than->fits) return p->fits;
  if (!p->fits) return p->bytes < than->bytes;
  double cycles = summed ? whole_cycles(p) : p->cycles,
         others = summed ? whole_cycles(than) : than->cycles;
  return cycles != others ? cycles < others : p->bytes < than->bytes;
}

static void try_cut(const Target *t, const CtcShape *s, CtcPlan *p, CtcPlan *best) {
  if (best->fits && p->cycles > whole_cycles(best)) return;
  plan_sum(t, s, p), plan_best_sum(t, s, p);
  if (is_better_cut(p, best, true)) *best = *p;
}

/* PopLibs' planner leaves out the sum at the end, and the cost of adding logarithms. Its plan is
 * taken, since it would run, with two exceptions. One is a plan that takes twice as long as the
 * best one: otherwise a larger loss could be priced below a smaller one. The other is a very long
 * time for which sending the classes is quicker, which PopLibs can't do: there most tiles would
 * wait. */
static CtcPlan plan_ctc(const Target *t, Dtype d, const CtcShape *s) {
  CtcPlan popnn = {0}, whole = {0}, sent = {0};
  int64_t tiles = t->tiles;
  for (int64_t b = 1; b && b <= tiles; b = next_split(s->batch, b))
    for (int64_t l = 1; l && b * l <= tiles; l = next_split(s->labels, l))
      for (int64_t time = 1; time && b * l * time <= tiles; time = next_split(s->time, time)) {
        CtcPlan p = cut(t, d, s, b, time, l, false), q = cut(t, d, s, b, time, l, true);
        if (is_better_cut(&p, &popnn, false)) popnn = p;
        try_cut(t, s, &p, &whole);
        try_cut(t, s, &q, &sent);
      }
  plan_sum(t, s, &popnn);
  CtcPlan best = 2 * whole_cycles(&whole) < whole_cycles(&popnn) ? whole : popnn;
  return is_better_cut(&sent, &best, true) ? sent : best;
}

static double tiles_of(const CtcPlan *p) {
  return (double)(p->batch_parts * p->time_parts * p->label_parts);
}

static Cost cost_loops(const Target *t, Dtype d, const CtcShape *s, const CtcPlan *p) {
  Cost c = cost_free();
  /* of a tile */
  double points =
      p->sent ? (double)s->batch * (double)s->time / (double)t->tiles : p->batch * p->time;
  double classes = points * (double)s->classes, size = element_bytes(F32);
  c.tiles = p->sent ? (double)t->tiles : tiles_of(p);
  cost_step(&c, t, "classes", classes * element_bytes(d),
            worker_cycles(t, 7, classes, 1, vector_width(t, F32)));
  cost_steps(&c, t, "paths", p->passes, p->received, p->path);
  cost_steps(&c, t, "gradient", p->passes, p->received, p->gradient);
  cost_memory(&c, MEMORY_MESSAGE, classes * element_bytes(d) + p->received);
  cost_memory(&c, MEMORY_PARTIALS, classes * size);
  cost_memory(&c, MEMORY_TEMPORARY, p->batch * p->time * p->extended * size + p->received);
  cost_vertex(&c, t, VERTEX_CTC, 200, 200);
  if (!p->fits) c.fits = false, c.why = "no plan's classes fit the available memory of a tile";
  return c;
}

Cost cost_ctc_loss(const Target *t, Dtype d, int64_t batch, int64_t time, int64_t labels,
                   int64_t classes) {
  if (batch <= 0 || time <= 0 || labels < 0 || classes <= 0) return cost_free();
  CtcShape s = {clamp_extent(batch), clamp_extent(time), clamp_extent(labels > 0 ? labels : 1),
                clamp_extent(classes)};
  CtcPlan p = plan_ctc(t, d, &s);
  int64_t outputs = times(times(s.batch, s.time), s.classes);
  Cost c = cost_softmax(t, d, times(s.batch, s.time), s.classes, false),
       loops = cost_loops(t, d, &s, &p), sum = cost_sum(t, &s, &p);
  /* e^logits minus e^(gradient + loss) */
  Cost last = cost_elementwise(t, F32, outputs, 3, 2 * VECTOR(EXP, F32) + 2 * VECTOR(ADD, F32));
  /* on the tiles that sum */
  double more = fmax(0, cost_temporary(&sum) - cost_temporary(&loops)) * sum.tiles;
  sum.temporary_total = loops.temporary_total + more;
  Cost *const parts[] = {&loops, &sum, &last};
  for (int i = 0; i < 3; i++) cost_then(&c, parts[i]);
  c.flops += 8 * (double)s.labels * (double)s.batch * (double)s.time;
  return c;
}
