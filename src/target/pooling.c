/* Pooling as PopLibs plans it (PoolPlan.cpp). Channels move in groups of one or two vectors.
 * Groups, images and the field are cut over the tiles, and each tile receives the input of its
 * windows. The plan is the cut with the lowest cost of vertex and received bytes. */
#include <math.h>

#include "target/plan.h"

/* One pass. Forward each output reads its window; backward each input reads the gradients of its
 * windows. */
typedef struct Pooling {
  const Target *t;
  int rank;
  int64_t batch, channels; /* channels in vectors */
  int64_t field[COST_SPATIAL], kernel[COST_SPATIAL], stride[COST_SPATIAL];
  bool backward, widest; /* widest: the maximum */
} Pooling;

/* The work of one tile, and its cost. */
typedef struct PoolingPlan {
  int64_t vectors, groups; /* vectors of a channel group; groups on the tile */
  int64_t batch, field[COST_SPATIAL];
  double tiles, received, compute, cycles; /* cycles: by which plans are compared */
} PoolingPlan;

static double product(const int64_t *x, int rank) {
  double p = 1;
  for (int i = 0; i < rank; i++) p *= (double)x[i];
  return p;
}

/* PL getPoolingCycles: each row of a worker's range is gone over once for each point of the kernel,
 * group and vector. Backward over a stride, a point of the kernel meets only every stride-th point.
 * PL's planner assumes that it meets every row. */
static double row_cycles(const Pooling *q, const PoolingPlan *p, int64_t length, bool planned) {
  if (length <= 0) return 0;
  int last = q->rank - 1;
  bool gradient = q->backward && q->widest;
  double passes = product(q->kernel, q->rank), groups = (double)p->groups, points = (double)length;
  if (q->backward) points = ceil_ratio(points, (double)q->stride[last]);
  if (q->backward && !planned) passes /= product(q->stride, last);
  points -= 1;
  double vector = 3 + (gradient ? 7 + 5 * points : (q->widest ? 4 : 5) + 3 * points);
  return 15 + fmax(1, passes) * (23 + groups * (2 + (double)p->vectors * vector) +
                                 (groups - 1) * (gradient ? 6 : 4));
}

/* The tile's points in row order, in equal ranges; sums or maxima are cleared first. The slowest
 * worker counts. */
static double vertex_cycles(const Pooling *q, const PoolingPlan *p, bool planned) {
  int64_t columns = p->field[q->rank - 1], workers = q->t->workers;
  double points = (double)p->batch * product(p->field, q->rank), worst = 0, width = (double)columns;
  double clear = (double)p->groups * (4 + points * (double)p->vectors / (double)workers);
  for (double w = 0; w < (double)workers; w++) {
    double from = floor(w * points / (double)workers),
           to = floor((w + 1) * points / (double)workers);
    if (!(to > from)) continue;
    double head = fmin(to, (floor(from / width) + 1) * width) - from, left = to - from - head,
           rows = floor(left / width);
    double cycles = row_cycles(q, p, to_extent(head), planned) +
                    rows * row_cycles(q, p, columns, planned) +
                    row_cycles(q, p, to_extent(left - rows * width), planned);
    worst = fmax(worst, cycles);
  }
  return 13 + (double)workers * (41 + (q->backward && q->widest ? 10 : 0) + clear + worst);
}

/* Where an extent isn't cut evenly, the tiles with the smaller part may be slower: their rows are
 * cut otherwise over the workers (PL constructModel). */
static double slowest_tile(const Pooling *q, const PoolingPlan *p, bool planned) {
  double worst = vertex_cycles(q, p, planned);
  for (int i = 0; i < q->rank; i++) {
    if (q->field[i] % p->field[i] == 0) continue;
    PoolingPlan smaller = *p;
    smaller.field[i]--;
    worst = fmax(worst, vertex_cycles(q, &smaller, planned));
  }
  return worst;
}

/* Points of the other side that a block's windows meet. */
static double points_met(const Pooling *q, const PoolingPlan *p, bool strided) {
  double points = (double)p->batch;
  for (int i = 0; i < q->rank; i++) {
    double edge = (double)p->field[i], kernel = (double)q->kernel[i], stride = (double)q->stride[i];
    points *= !q->backward ? (edge - 1) * stride + kernel
              : strided    ? ceil_ratio(edge + kernel - 1, stride)
                           : edge + kernel - 1;
  }
  return points;
}

/* Backward the maximum reads the gradient, the output and the input. */
static double received_bytes(const Pooling *q, const PoolingPlan *p, bool strided) {
  double channels = (double)p->groups * (double)p->vectors * (double)q->t->vector_bytes,
         met = points_met(q, p, strided);
  if (!q->backward || !q->widest) return channels * met;
  return channels * (2 * met + (double)p->batch * product(p->field, q->rank));
}

static void consider(const Pooling *q, PoolingPlan p, int64_t present, PoolingPlan *best) {
  /* PL's planner forgets the stride here */
  double planned = received_bytes(q, &p, false) / (double)q->t->exchange_bytes_per_cycle;
  p.compute = slowest_tile(q, &p, false);
  p.cycles = slowest_tile(q, &p, true) + planned * (p.vectors == present ? 1 : 2);
  p.received = received_bytes(q, &p, true);
  if (best->cycles == 0 || p.cycles < best->cycles) *best = p;
}

/* The field's dimensions from the last to the first; the first takes the tiles that are left. */
static void cut_field(const Pooling *q, PoolingPlan p, int dimension, int64_t room, int64_t present,
                      PoolingPlan *best) {
  int64_t extent = q->field[dimension];
  if (dimension == 0) {
    p.field[0] = ceil_div(extent, room < extent ? room : extent);
    p.tiles *= (double)ceil_div(extent, p.field[0]);
    consider(q, p, present, best);
    return;
  }
  for (int64_t parts = 1; parts && parts <= room; parts = next_split(extent, parts)) {
    PoolingPlan cut = p;
    cut.field[dimension] = ceil_div(extent, parts), cut.tiles *= (double)parts;
    cut_field(q, cut, dimension - 1, room / parts, present, best);
  }
}

/* The best plan. present: the vectors in the operand's groups, which are cut, not joined. */
static PoolingPlan plan_pooling(const Pooling *q, int64_t present) {
  PoolingPlan best = {0};
  int64_t tiles = q->t->tiles;
  for (int64_t vectors = 1; vectors <= present && vectors <= q->channels; vectors++) {
    int64_t groups = ceil_div(q->channels, vectors);
    for (int64_t g = 1; g && g <= tiles; g = next_split(groups, g))
      for (int64_t b = 1; b && g * b <= tiles; b = next_split(q->batch, b)) {
        PoolingPlan p = {.vectors = vectors,
                         .groups = ceil_div(groups, g),
                         .batch = ceil_div(q->batch, b),
                         .tiles = (double)(g * b)};
        cut_field(q, p, q->rank - 1, tiles / (g * b), present, &best);
      }
  }
  return best;
}

static Pooling read_shape(const Target *t, Dtype d, PoolingKind kind, const ConvShape *s,
                          bool backward) {
  Pooling q = {.t = t,
               .rank = s->rank,
               .batch = clamp_extent(s->batch),
               .backward = backward,
               .widest = kind == POOLING_MAX};
  q.channels = ceil_div(times(clamp_extent(s->groups), clamp_extent(s->in_channels)),
                        (int64_t)vector_width(t, d));
  for (int i = 0; i < s->rank; i++) {
    int64_t in = clamp_extent(s->in[i]), kernel = clamp_extent(s->kernel[i]);
    q.field[i] = backward ? in : clamp_extent(s->out[i]);
    q.kernel[i] = kernel < in ? kernel : in; /* the rest is padding */
    q.stride[i] = s->stride[i] > 1 ? clamp_extent(s->stride[i]) : 1;
  }
  return q;
}

Cost cost_pooling(const Target *t, Dtype d, PoolingKind kind, const ConvShape *s, bool backward) {
  Cost c = cost_free();
  if (s->rank < 1 || s->rank > COST_SPATIAL) return c;
  double channels = (double)s->batch * (double)s->groups * (double)s->in_channels,
         bytes = element_bytes(d);
  double in = channels * product(s->in, s->rank), out = channels * product(s->out, s->rank);
  if (!(in > 0 && out > 0)) return c;
  enum { PRESENT = 2 }; /* vectors: convolutions leave channels in groups of 16 bytes */
  Pooling forward = read_shape(t, d, kind, s, false), q = read_shape(t, d, kind, s, backward);
  PoolingPlan p = plan_pooling(&forward, PRESENT);
  if (backward) p = plan_pooling(&q, p.vectors); /* the gradient lies as the output does */
  Cost pooling = cost_free();
  pooling.tiles = p.tiles;
  cost_step(&pooling, t, "pool", p.received, p.compute);
  pooling.flops = fmin(in, out) * product(q.kernel, q.rank);
  pooling.separate_bytes = p.received;
  cost_memory(&pooling, MEMORY_MESSAGE, p.received);
  /* the gradient, laid like the output */
  if (backward) cost_memory(&pooling, MEMORY_REARRANGEMENT, out * bytes / (double)t->tiles);
  cost_vertex(&pooling, t, VERTEX_POOL, 150, 200);
  cost_layout(&c, t, d, in, vector_width(t, d)); /* vectors of channels stay together */
  cost_layout(&c, t, d, out, vector_width(t, d));
  cost_then(&c, &pooling);
  return c;
}
