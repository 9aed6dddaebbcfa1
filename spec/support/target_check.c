/* The cost functions on shapes that nobody listed. Each has a plan or says why not. Its cycles are
 * finite and positive, no less than the roofline, and at most a fifth more than plain vector work.
 * They grow with size. `target_check SEED` draws other shapes; the last line is "N passed, N
 * failed". */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "column_order.h"
#include "target/cost.h"
#include "target/pod.h"

static int passed, failed;
static uint64_t state = 20240607;

static void check(bool ok, const char *what, const char *op, const int64_t *x, int n) {
  if (ok) {
    passed++;
    return;
  }
  if (failed++ > 40) return;
  printf("FAILED %s: %s (", op, what);
  for (int i = 0; i < n; i++) printf("%s%lld", i ? ", " : "", (long long)x[i]);
  printf(")\n");
}

static uint64_t next_random(void) { /* xorshift64* */
  state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
  return state * 2685821657736338717ULL;
}

/* Extents of every size: 1, small, primes and powers of two in between, up to most. */
static int64_t extent(int64_t max) {
  static const int64_t odd[] = {1,  2,  3,   5,   7,   13,   16,   17,   31,
                                64, 97, 128, 251, 512, 1009, 1024, 4093, 4096};
  uint64_t r = next_random();
  if (r % 3 == 0) {
    int64_t x = odd[r / 3 % (sizeof odd / sizeof *odd)];
    return x < max ? x : max;
  }
  double u = (double)(next_random() >> 11) / 9007199254740992.0;
  int64_t x = (int64_t)exp(u * log((double)max));
  return x < 1 ? 1 : x;
}

static void check_sane(const Cost *c, const Target *t, const char *op, const int64_t *x, int n) {
  double cycles = cost_cycles(c), rows = 0;
  check(isfinite(cycles) && cycles > 0, "cycles are positive", op, x, n);
  check(c->fits || (c->why && *c->why), "fits, or says why not", op, x, n);
  for (int i = 0; i < c->row_count; i++)
    rows += c->steps[i].compute + c->steps[i].exchange + c->steps[i].sync + c->steps[i].stream;
  check(fabs(rows - cycles) <= 1e-6 * cycles + 1, "steps add up to the total", op, x, n);
  double sum = 0;
  bool positive = true;
  for (int m = 0; m < MEMORY_COUNT; m++)
    positive = positive && c->bytes[m] >= 0 && isfinite(c->bytes[m]), sum += c->bytes[m];
  check(positive && sum > 0, "memory is positive", op, x, n);
  check(c->tiles >= 1 && c->tiles <= (double)t->tiles, "uses some of the tiles", op, x, n);
}

/* The chip without its matrix units and without a planner: multiply and add are two vector
 * instructions with three loads or stores. Operands are sent whole, and sums take a pass of their
 * own. */
static double plain_product(const Target *t, Dtype d, double groups, double m, double k, double n) {
  double tiles = (double)t->tiles, width = 8 / (double)dtype_size(d), outputs = groups * m * n;
  double share = ceil(outputs / tiles), split = fmax(1, floor(tiles / outputs)),
         depth = ceil(k / split);
  double edge = fmin(share, fmax(1, sqrt(share))),
         bytes = (edge + share / edge) * depth * (double)dtype_size(d);
  double vectors = ceil(depth / width) * share, w = (double)t->workers;
  double compute = w * (100 + ceil(vectors / w) * 5 + ceil(share / w) * 20);
  double sums = split > 1 ? 4 * 250 + split * 4 / 4 + w * (60 + 2 * split) : 0;
  return 5 * 250 + bytes / 4 + compute + sums + w * (30 + ceil(share / w));
}

/* Twice the work isn't cheaper. If one of several plans is taken (min below 1), the price may fall.
 * A planner prefers the matrix units by a quarter. Tiles of a whole output don't need a stage of
 * sums, which is a step and 510 cycles of adding up. A product leaves its plan at two thirds of a
 * small price. Plans that don't fit aren't compared. */
static bool has_grown_by(const Cost *c, const Cost *larger, double min) {
  if (!c->fits || !larger->fits) return true;
  double before = cost_cycles(c), after = cost_cycles(larger);
  if (min >= 1) return after >= min * before;
  return after >= (before > 2500 ? min : fmin(min, 0.33)) * before || before - after <= 250 + 510;
}

static bool has_grown(const Cost *c, const Cost *larger) { return has_grown_by(c, larger, 0.75); }

static void check_matmul(const Target *t) {
  for (int i = 0; i < 250; i++) {
    int64_t x[4] = {extent(64), extent(40000), extent(40000), extent(40000)};
    Dtype d = next_random() % 3 ? F16 : F32, sums = next_random() % 4 ? F32 : F16;
    Cost c = cost_matmul(t, d, sums, x[0], x[1], x[2], x[3], NULL);
    double macs = (double)x[0] * (double)x[1] * (double)x[2] * (double)x[3],
           cycles = cost_cycles(&c);
    double roof = macs / ((double)t->tiles * target_macs(t, (int64_t)dtype_size(d), 2));
    check_sane(&c, t, "matmul", x, 4);
    check(cycles >= roof, "not under the roofline", "matmul", x, 4);
    double plain = plain_product(t, d, (double)x[0], (double)x[1], (double)x[2], (double)x[3]);
    check(cycles <= 1.2 * plain, "not over plain vector work", "matmul", x, 4);
    Cost more = cost_matmul(t, d, sums, x[0], 8 * x[1], x[2], 8 * x[3], NULL);
    check(cost_cycles(&more) > (macs < 1e6 ? 0.4 : 1) * cycles || !c.fits,
          "64 times the work costs more", "matmul", x, 4);
    int axis = (int)(next_random() % 4);
    int64_t y[4] = {x[0], x[1], x[2], x[3]};
    y[axis] *= 2;
    Cost larger = cost_matmul(t, d, sums, y[0], y[1], y[2], y[3], NULL);
    check(has_grown(&c, &larger), "grows with size", "matmul", y, 4);
  }
}

static ConvShape random_conv(void) {
  ConvShape s = {.batch = extent(64), .groups = 1, .rank = 1 + (int)(next_random() % 3)};
  bool depthwise = next_random() % 5 == 0;
  s.in_channels = depthwise ? 1 : extent(1024);
  s.out_channels = depthwise ? 1 : extent(1024);
  if (depthwise || next_random() % 6 == 0) s.groups = extent(512);
  for (int i = 0; i < COST_SPATIAL; i++) {
    s.kernel[i] = next_random() % 3 ? extent(7) : extent(40);
    s.stride[i] = next_random() % 4 ? 1 : extent(4);
    s.dilation[i] = 1;
    s.out[i] = extent(s.rank == 3 ? 32 : 256);
    s.in[i] = (s.out[i] - 1) * s.stride[i] + s.kernel[i];
  }
  return s;
}

static void check_conv(const Target *t) {
  for (int i = 0; i < 60; i++) {
    ConvShape s = random_conv();
    Dtype d = next_random() % 3 ? F16 : F32;
    int64_t x[] = {s.batch,     s.groups,    s.in_channels, s.out_channels, s.rank,     s.out[0],
                   s.kernel[0], s.stride[0], s.out[1],      s.kernel[1],    s.stride[1]};
    double window = 1, points = (double)s.batch;
    for (int k = 0; k < s.rank; k++) window *= (double)s.kernel[k], points *= (double)s.out[k];
    double macs =
        points * window * (double)s.groups * (double)s.in_channels * (double)s.out_channels;
    for (int pass = CONV_FORWARD; pass <= CONV_WEIGHTS; pass++) {
      Cost c = cost_conv(t, d, F32, &s, (ConvPass)pass, NULL);
      check_sane(&c, t, "conv", x, 11);
      double rate = target_macs(t, (int64_t)dtype_size(d), 2);
      check(cost_cycles(&c) >= 0.99 * macs / ((double)t->tiles * rate) || pass == CONV_BACKWARD,
            "not under the roofline", "conv", x, 11);
      if (pass != CONV_FORWARD) continue;
      double moved = 5 * 250 + points * window * (double)s.groups * (double)s.in_channels *
                                   (double)dtype_size(d) / (double)t->tiles / 2;
      double plain = plain_product(t, d, (double)s.groups, points, window * (double)s.in_channels,
                                   (double)s.out_channels);
      bool roomy =
          /* else the plan pays for memory, which plain work ignores */
          moved < 0.1 * (double)t->tile_bytes;
      check(!roomy || cost_cycles(&c) <= 1.2 * (moved + plain), "not over plain vector work",
            "conv", x, 11);
      ConvShape larger = s;
      larger.batch *= 2;
      Cost twice = cost_conv(t, d, F32, &larger, CONV_FORWARD, NULL);
      check(has_grown(&c, &twice), "grows with size", "conv", x, 11);
    }
  }
}

typedef Cost (*PriceFunction)(const Target *t, const int64_t *x);

static Cost price_elementwise(const Target *t, const int64_t *x) {
  return cost_elementwise(t, F16, x[0] * x[1], 2, 3);
}
static Cost price_broadcast(const Target *t, const int64_t *x) {
  return cost_broadcast(t, F32, x[0] * x[1], x[0], 2);
}
static Cost price_cast(const Target *t, const int64_t *x) {
  return cost_cast(t, F16, F32, x[0] * x[1]);
}
static Cost price_fill(const Target *t, const int64_t *x) { return cost_fill(t, F16, x[0] * x[1]); }
static Cost price_random(const Target *t, const int64_t *x) {
  return cost_random(t, F32, x[0] * x[1], RANDOM_NORMAL);
}
static Cost price_copy(const Target *t, const int64_t *x) { return cost_copy(t, x[0] * x[1]); }
static Cost price_rearrange(const Target *t, const int64_t *x) {
  return cost_rearrange(t, x[0] * x[1], 2);
}
static Cost price_transpose(const Target *t, const int64_t *x) {
  return cost_transpose(t, F16, x[0] * x[1]);
}
static Cost price_slice(const Target *t, const int64_t *x) {
  return cost_slice(t, F16, x[0] * x[1]);
}
static Cost price_sum(const Target *t, const int64_t *x) {
  return cost_reduce(t, F16, COST_SUM, x[0], x[1], x[2]);
}
static Cost price_max(const Target *t, const int64_t *x) {
  return cost_reduce(t, F32, COST_MAX, x[0], x[1], x[2]);
}
static Cost price_arg(const Target *t, const int64_t *x) {
  return cost_reduce(t, F32, COST_ARG, x[0], x[1], 1);
}
static Cost price_sort(const Target *t, const int64_t *x) {
  return cost_sort(t, F32, x[0], x[1] + 1);
}
static Cost price_top_k(const Target *t, const int64_t *x) {
  return cost_top_k(t, F32, x[0], x[1] + 1, x[2] % 50 + 1);
}
static Cost price_scan(const Target *t, const int64_t *x) { return cost_scan(t, F32, x[0], x[1]); }
static Cost price_softmax(const Target *t, const int64_t *x) {
  return cost_softmax(t, F16, x[0], x[1], x[2] % 2);
}
static Cost price_loss(const Target *t, const int64_t *x) {
  return cost_cross_entropy(t, F16, x[0], x[1], x[2] % 2);
}
static Cost price_norm(const Target *t, const int64_t *x) {
  return cost_norm(t, F16, x[0], x[1], x[2] % 2);
}
static Cost price_gather(const Target *t, const int64_t *x) {
  return cost_gather(t, F16, x[0], x[1], x[2]);
}
static Cost price_scatter(const Target *t, const int64_t *x) {
  return cost_scatter(t, F16, x[0], x[1], x[2]);
}
static Cost price_one_hot(const Target *t, const int64_t *x) {
  return cost_one_hot(t, F16, x[0], x[1]);
}
static Cost price_ctc(const Target *t, const int64_t *x) {
  return cost_ctc_loss(t, F32, x[0], x[1], x[2], 40);
}
static Cost price_cholesky(const Target *t, const int64_t *x) {
  return cost_cholesky(t, F32, x[0], x[1] % 2000 + 1, 16);
}

static Cost price_solve(const Target *t, const int64_t *x) {
  return cost_triangular_solve(t, F32, x[0], x[1] % 500 + 1, x[2] % 500 + 1, 32);
}

static Cost price_rnn(const Target *t, const int64_t *x) {
  RnnShape s = {.batch = x[0] % 64 + 1,
                .steps = x[1] % 100 + 1,
                .inputs = x[1] % 1000 + 1,
                .outputs = x[2] % 1000 + 1,
                .training = true};
  return x[0] % 2 ? cost_lstm(t, F16, F32, &s, x[1] % 2, NULL)
                  : cost_gru(t, F16, F32, &s, x[1] % 2, NULL);
}

static Cost price_attention(const Target *t, const int64_t *x) {
  return cost_attention(t, F16, F32, x[0] % 64 + 1, x[1] % 1000 + 1, x[2] % 1000 + 1, 64, 64,
                        x[0] % 2);
}

static Cost price_pool(const Target *t, const int64_t *x) {
  ConvShape s = {.batch = x[0] % 16 + 1, .groups = 1, .in_channels = x[1] % 512 + 1, .rank = 2};
  s.out_channels = s.in_channels;
  for (int i = 0; i < 2; i++) {
    s.kernel[i] = 1 + x[2] % 5, s.stride[i] = 1 + x[0] % 3, s.dilation[i] = 1;
    s.out[i] = 1 + x[2] % 100, s.in[i] = (s.out[i] - 1) * s.stride[i] + s.kernel[i];
  }
  return cost_pooling(t, F16, x[0] % 2 ? POOLING_MAX : POOLING_AVERAGE, &s, x[1] % 2);
}

/* min: what doubling the first extent may make of the price (0: sizes are drawn from it).
 * PopLibs' plan of a CTC loss is taken up to twice the best one. Sums of twice as many outputs come
 * from half as many tiles, and below PopLibs' limit they need a stage less. */
static const struct {
  const char *name;
  PriceFunction price;
  double min;
} ops[] = {{"elementwise", price_elementwise, 1},
           {"broadcast", price_broadcast, 1},
           {"cast", price_cast, 1},
           {"fill", price_fill, 1},
           {"random", price_random, 1},
           {"copy", price_copy, 1},
           {"rearrange", price_rearrange, 1},
           {"transpose", price_transpose, 1},
           {"slice", price_slice, 1},
           {"reduce_sum", price_sum, 0.7},
           {"reduce_max", price_max, 0.7},
           {"argmax", price_arg, 0.7},
           {"sort", price_sort, 1},
           {"top_k", price_top_k, 1},
           {"scan", price_scan, 0.75},
           {"softmax", price_softmax, 0.75},
           {"cross_entropy", price_loss, 0.75},
           {"norm", price_norm, 0.75},
           {"gather", price_gather, 0},
           {"scatter", price_scatter, 0},
           {"one_hot", price_one_hot, 1},
           {"ctc_loss", price_ctc, 0.5},
           {"cholesky", price_cholesky, 0.75},
           {"triangular_solve", price_solve, 0.75},
           {"rnn", price_rnn, 0},
           {"attention", price_attention, 0},
           {"pool", price_pool, 0}};

static void check_others(const Target *t, bool growth) {
  for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
    for (int i = 0; i < 40; i++) {
      int64_t x[3] = {extent(100000), extent(20000), extent(5000)};
      Cost c = ops[k].price(t, x);
      check_sane(&c, t, ops[k].name, x, 3);
      if (ops[k].min <= 0 || !growth) continue;
      int64_t y[3] = {2 * x[0], x[1], x[2]};
      Cost larger = ops[k].price(t, y);
      check(has_grown_by(&c, &larger, ops[k].min), "grows with size", ops[k].name, y, 3);
    }
}

static Cost price_max_f16(const Target *t, const int64_t *x) {
  return cost_reduce(t, F16, COST_MAX, x[0], x[1], 1);
}

/* The cost of one more element of a tile with so many rows, each on one tile, that nothing else
 * counts. Cycles are by hand, from the elements of a vector (four float16, two float32). A
 * broadcast operand comes at four bytes a cycle, one element for each of the result. */
static const struct {
  const char *name;
  PriceFunction price;
  int64_t rows, columns, third; /* of a tile; what x[2] stands for */
  int grows;                    /* axis */
  double cycles;
} rates[] = {
    {"elementwise", price_elementwise, 240, 128, 0, 1, 3.0 / 4},
    {"broadcast", price_broadcast, 240, 128, 0, 1, 2.0 / 2 + 4.0 / 4},
    {"cast", price_cast, 240, 128, 0, 1, 1.0 / 2},
    {"fill", price_fill, 240, 128, 0, 1, 1.0 / 4},
    {"random", price_random, 240, 128, 0, 1, 4.0 / 2},
    {"copy", price_copy, 240, 128, 0, 1, 1.0 / 8},
    /* a vertex moves a run, with a quarter more for finding it */
    {"rearrange", price_rearrange, 240, 128, 0, 1, 1.0 / 4 + 1.25 / 2},
    {"transpose", price_transpose, 240, 128, 0, 1, 2 * (1.0 / 4 + 1.25 / 2)},
    {"slice", price_slice, 240, 128, 0, 1, 2.0 / 4},
    {"reduce_sum", price_sum, 240, 128, 1, 1, 1.0 / 4},
    {"reduce_max", price_max_f16, 240, 128, 0, 1, 1.0 / 4},
    {"argmax", price_arg, 240, 128, 0, 1, 3.0 / 4},
    {"one_hot", price_one_hot, 240, 128, 0, 1, 1.0 / 4},
    {"scan", price_scan, 240, 128, 0, 0, 3},
    /* largest, less it, exp, sum, times its reciprocal */
    {"softmax", price_softmax, 240, 128, 0, 1, (1 + 2 + 4 + 1 + 2) / 4.0 + 2 * 2 / 4.0},
    {"softmax, backward", price_softmax, 240, 128, 1, 1, (3 + 1 + 2 + 3) / 4.0 + 2 / 4.0},
    {"cross_entropy", price_loss, 240, 128, 0, 1, (10 + 9 + 1) / 4.0 + 3 * 2 / 4.0},
    {"cross_entropy, backward", price_loss, 240, 128, 1, 1, 9 / 4.0 + 2 / 4.0},
    /* sums, sums of squares, four passes with what a group has */
    {"norm", price_norm, 240, 128, 0, 1, (1 + 2 + 4 * 2) / 4.0 + 4 * 2 / 4.0},
    {"norm, backward", price_norm, 240, 128, 1, 1, (1 + 2 + 3 + 4 * 2) / 4.0 + 4 * 2 / 4.0},
    /* ten levels: 55 rounds of 20 cycles a vector */
    {"sort", price_sort, 8, 1023, 0, 0, 55 * 20.0 / 2},
};

static void check_rates(const Target *t) {
  for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
    int64_t x[3] = {rates[i].rows * t->tiles, rates[i].columns, rates[i].third}, y[3];
    memcpy(y, x, sizeof y);
    y[rates[i].grows] *= 2;
    Cost less = rates[i].price(t, x), more = rates[i].price(t, y);
    double each = (cost_cycles(&more) - cost_cycles(&less)) / (double)(y[0] * y[1] - x[0] * x[1]) *
                  (double)t->tiles;
    check(fabs(each / rates[i].cycles - 1) < 0.01, "cycles of an element", rates[i].name, x, 2);
  }
}

static double cycles_named(const Cost *c, const char *name) {
  for (int i = 0; i < c->row_count; i++)
    if (!strcmp(c->steps[i].name, name)) return c->steps[i].compute;
  return 0;
}

/* Recurrent layers grow with the batch, the state, the inputs and the steps. Passes over the gates
 * grow in proportion to a tile's share of them, once that is large. The whole grows in proportion
 * to the steps, but for weight gradients that join the backward loop. */
static void check_recurrent(const Target *t) {
  typedef Cost (*Layer)(const Target *, Dtype, Dtype, const RnnShape *, bool, const PlanOptions *);
  static const Layer layers[] = {cost_lstm, cost_gru};
  static const char *const names[] = {"lstm", "gru"};
  for (int i = 0; i < 120; i++) {
    RnnShape s = {.batch = extent(4096),
                  .steps = extent(1000),
                  .inputs = extent(4096),
                  .outputs = extent(4096),
                  .training = true};
    int64_t x[] = {s.batch, s.steps, s.inputs, s.outputs};
    bool backward = i % 2, lstm = i / 2 % 2 == 0;
    Dtype d = i % 3 ? F16 : F32;
    Layer price = layers[!lstm];
    Cost c = price(t, d, F32, &s, backward, NULL);
    check_sane(&c, t, names[!lstm], x, 4);
    check(cost_cycles(&c) * (double)t->macs_f16 * 2 * (double)t->tiles >= c.flops,
          "not below the roofline", names[!lstm], x, 4);
    for (int axis = 0; axis < 4; axis++) {
      RnnShape larger = s;
      int64_t *const extents[] = {&larger.batch, &larger.steps, &larger.inputs, &larger.outputs};
      *extents[axis] *= 2;
      Cost twice = price(t, d, F32, &larger, backward, NULL);
      bool apart = s.inputs + s.outputs > s.batch * s.steps,
           joined = apart && larger.inputs + larger.outputs <= larger.batch * larger.steps;
      double before = cost_cycles(&c), after = cost_cycles(&twice);
      check(!c.fits || !twice.fits || after >= 0.75 * before || (joined && after >= 0.5 * before),
            "grows with size", names[!lstm], x, 4);
      if (axis == 1 && !joined)
        check(after >= before && after <= 2.01 * before, "is made of its steps", names[!lstm], x,
              4);
      double share = (double)s.batch * (double)s.outputs / (double)t->tiles;
      double ratio = cycles_named(&twice, "gates") / cycles_named(&c, "gates");
      if ((axis == 0 || axis == 3) && share > 4000 && s.outputs % 16 == 0 && !joined)
        check(ratio > 1.7 && ratio < 2.1, "passes over the gates grow with their elements",
              names[!lstm], x, 4);
    }
  }
}

/* An LSTM of 64 units, one sample in float16. Inputs and state are 32 bytes on each of 4 tiles, so
 * a step keeps 32 + 7 x 32 there. 10,000 steps are 2,560,000 bytes, 200 are 51,200. A tenth of a
 * GC200's tile is 63,897.6 bytes: 41 loops and 1. A chip of 4 tiles has no others to go to. */
static void check_shards(void) {
  RnnShape s = {.batch = 1, .steps = 200, .inputs = 64, .outputs = 64};
  Target few = *target_find("GC200");
  int64_t x[] = {1, 64, 64};
  for (int tiles = 4; tiles <= 1472; tiles += 1468) {
    few.tiles = tiles, s.steps = 200;
    Cost one = cost_lstm(&few, F16, F32, &s, false, NULL);
    s.steps = 10000;
    Cost many = cost_lstm(&few, F16, F32, &s, false, NULL);
    double ratio = many.bytes[MEMORY_VERTEX_STATE] / one.bytes[MEMORY_VERTEX_STATE],
           shards = tiles == 4 ? 1 : 41, copies = shards - 1;
    check(fabs(ratio - shards) < 1e-9, "a tenth of a tile's memory for each loop", "lstm", x, 3);
    double steps = (many.step_count - copies) / one.step_count;
    check(fabs(steps - 50) < 1e-9, "each loop takes over the state", "lstm", x, 3);
  }
}

/* Two updates of 780 columns in float32, a vector of 8 bytes on each of 390 tiles. Two tables that
 * are added up afterwards would cost more than both on one tile. They take a step of 250 cycles, 24
 * bytes at 4 a cycle, and six workers of 18 + 24 cycles (PL's estimator of an update). */
static void check_few_updates(const Target *t) {
  Cost c = cost_scatter(t, F32, 50, 780, 2);
  int64_t x[] = {50, 780, 2};
  check(fabs(cost_cycles(&c) - (250 + 6 + 252)) < 1e-9 && c.tiles == 390, "on a tile's own columns",
        "scatter", x, 3);
}

/* Extents far beyond any chip must neither overflow nor take long. */
static void check_huge(const Target *t) {
  static const int64_t huge[] = {INT64_MAX, 1LL << 60, 1LL << 40, 1000003};
  for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
    int64_t h = huge[i], x[1] = {h};
    Cost c = cost_matmul(t, F16, F32, h, h, h, h, NULL);
    check(cost_cycles(&c) > 0 && !c.fits && c.why, "huge product", "matmul", x, 1);
    ConvShape s = {h, h, h, h, 2, {h, h, h}, {h, h, h}, {h, h, h}, {h, h, h}, {h, h, h}};
    c = cost_conv(t, F16, F32, &s, CONV_FORWARD, NULL);
    check(cost_cycles(&c) > 0, "huge convolution", "conv", x, 1);
    c = cost_pooling(t, F16, POOLING_MAX, &s, true);
    check(cost_cycles(&c) > 0, "huge pooling", "pool", x, 1);
    RnnShape r = {.batch = h, .steps = h, .inputs = h, .outputs = h, .training = true};
    c = cost_lstm(t, F16, F32, &r, true, NULL);
    check(cost_cycles(&c) > 0, "huge layer", "lstm", x, 1);
    c = cost_triangular_solve(t, F32, h, h, h, 1);
    check(cost_cycles(&c) > 0, "huge system", "triangular_solve", x, 1);
    c = cost_cholesky(t, F32, h, h, 1);
    check(cost_cycles(&c) > 0, "huge factorisation", "cholesky", x, 1);
    c = cost_sort(t, F32, h, h);
    check(cost_cycles(&c) > 0, "huge sort", "sort", x, 1);
    c = cost_top_k(t, F32, h, h, h / 2 + 1);
    check(cost_cycles(&c) > 0, "huge top_k", "top_k", x, 1);
    c = cost_gather(t, F16, h, h, h);
    check(cost_cycles(&c) > 0, "huge table", "gather", x, 1);
  }
  Cost none = cost_matmul(t, F16, F32, 1, 0, 5, 5, NULL);
  int64_t zero[1] = {0};
  check(cost_cycles(&none) == 0, "an empty product is free", "matmul", zero, 1);
}

static void check_targets(void) {
  static const char *const names[] = {"GC2", "gc200", "Bow", "c600", "ipu1", "ipu2", "ipu21"};
  int64_t x[1] = {0};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    check(target_find(names[i]) != NULL, names[i], "target", x, 1);
  check(!target_find("ipu9") && !target_find(NULL), "unknown chips are NULL", "target", x, 1);
  static const char *const bad[] = {"",
                                    "[]",
                                    "{",
                                    "{\"tiles\": 0}",
                                    "{\"tiles\": 1.5}",
                                    "{\"tiles\": \"many\"}",
                                    "{\"nonsense\": 1}",
                                    "{\"base\": \"ipu9\"}",
                                    "{\"name\": \"\"}",
                                    "{\"tiles\": 1e300}",
                                    "{\"code\": 1}",
                                    "{\"region0_bytes\": 999999999}"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    Error e = {0};
    Target t;
    check(target_parse(&e, bad[i], strlen(bad[i]), &t) != OK && e.message[0], bad[i],
          "target_parse", x, 1);
  }
  Error e = {0};
  Target changed;
  const char *nameless = "{\"tiles\": 2944}";
  check(target_parse(&e, nameless, strlen(nameless), &changed) == OK &&
            !strcmp(changed.name, "GC200 (changed)") && changed.tiles == 2944,
        "a chip without base and name", "target_parse", x, 1);
  Target small = *target_find("GC200");
  check(target_restrict(&e, &small, 8, 2) == OK && small.tiles == 6, "eight tiles, two for I/O",
        "target", x, 1);
  check(target_restrict(&e, &small, 9999, 0) != OK, "more tiles than there are", "target", x, 1);
  double macs = 1216 * 1.6e9 * 2 * target_macs(target_find("GC2"), 2, 4),
         bow = 1472 * 1.85e9 * 2 * target_macs(target_find("Bow"), 2, 2);
  check(fabs(macs / 124.5e12 - 1) < 0.005 && fabs(bow / 348.6e12 - 1) < 0.005,
        "published peak rates", "target", x, 1);
}

/* Published, on eight tiles: float32 [64, 64] by [64, 64] in blocks of 16 takes 607,984 cycles
 * (lower) or 611,601 (upper), to a tenth. Most of them are rows of products. */
static void check_published_solve(const Target *chip) {
  Error e = {0};
  Target t = *chip;
  int64_t x[] = {64, 64, 16};
  bool ok = target_restrict(&e, &t, 8, 0) == OK;
  Cost c = cost_triangular_solve(&t, F32, 1, 64, 64, 16);
  check(ok && fabs(cost_cycles(&c) / 607984 - 1) < 0.1, "published cycles", "triangular_solve", x,
        3);
}

/* PopLibs' published table (its rows stand in spec/machine/benchmarks.jsonl): float16, on GC2 and
 * GC200, cycles to a tenth. Fullest tiles of 16,440 bytes on GC2 are those with eight sums (float32)
 * in a memory element of their own. */
static void check_published_reductions(void) {
  static const struct {
    ReduceKind kind;
    int rank;
    int64_t extents[5], tiles[2];
    unsigned reduced; /* bit i: axis i */
    double cycles[2], separate[2];
  } rows[] = {
      {COST_MAX, 5, {16, 4, 16, 32, 8}, {1024, 1024}, 1 << 1 | 1 << 3, {1466, 1466}, {0, 0}},
      {COST_SUM, 5, {16, 4, 16, 32, 8}, {1024, 1024}, 1 << 1 | 1 << 3, {1882, 1882}, {0, 0}},
      {COST_SUM, 4, {16, 256, 8, 4}, {1024, 1024}, 1 << 1 | 1 << 3, {2758, 2758}, {0, 0}},
      {COST_SUM, 3, {4, 3136, 8}, {1216, 1472}, 1 << 1, {2611, 2536}, {32, 0}},
      {COST_SUM, 3, {4, 25088, 8}, {1216, 1472}, 1 << 1, {3232, 3040}, {32, 0}}};
  static const char *const chips[] = {"GC2", "GC200"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int chip = 0; chip < 2; chip++) {
      Error e = {0};
      Target t = *target_find(chips[chip]);
      ReduceAxis axes[5];
      for (int a = 0; a < rows[i].rank; a++)
        axes[a] = (ReduceAxis){rows[i].extents[a], rows[i].reduced >> a & 1};
      bool ok = target_restrict(&e, &t, (int)rows[i].tiles[chip], 0) == OK;
      Cost c = cost_reduce_axes(&t, F16, rows[i].kind, axes, rows[i].rank);
      check(ok && fabs(cost_cycles(&c) / rows[i].cycles[chip] - 1) < 0.1, "published cycles",
            "reduce", rows[i].extents, rows[i].rank);
      check(c.separate_bytes == rows[i].separate[chip], "sums in an element of their own", "reduce",
            rows[i].extents, rows[i].rank);
    }
}

/* A number has no axes. Its sum is one vertex on one tile, and nothing is exchanged. */
static void check_reductions_of_a_number(const Target *t) {
  for (ReduceKind kind = COST_SUM; kind <= COST_ARG; kind++) {
    Cost c = cost_reduce_axes(t, F32, kind, NULL, 0);
    check(c.tiles == 1 && c.flops == 1 && cost_cycles(&c) < 1000, "a reduction of a number",
          "reduce", NULL, 0);
  }
}

/* Runs on tiles by their ends, against every element looked at. */
static void check_column_order(const Target *chip) {
  int copied = 0;
  for (int i = 0; i < 400; i++) {
    int64_t x[4] = {extent(4), extent(400), extent(64), 1 + extent(200)};
    bool half = i % 2, sum = i / 2 % 2;
    if (x[0] * x[1] * x[2] > 100000 || x[1] < 2) continue;
    Target t = *chip;
    t.tiles = x[3];
    Cost c = cost_reduce(&t, half ? F16 : F32, sum ? COST_SUM : COST_MAX, x[0], x[1], x[2]);
    int width = half ? 4 : 2;
    ColumnOrder o = {.outer = (int)x[0], .rows = (int)x[1], .kept = (int)x[2]};
    o.tiles = (int)x[3], o.width = width, o.grain = sum ? 2 * width : width;
    o.workers = (int)t.workers;
    /* A run of fewer than two rows may be one group of two blocks. */
    bool whole = x[0] * x[1] > 2 * x[3];
    int64_t columns = whole && c.step_count > 1 ? copied_by_elements(&o) : 0;
    if (whole)
      check(c.separate_bytes == (double)columns * (sum || !half ? 4 : 2), "columns out of order",
            "reduce", x, 4);
    copied += columns > 0;
  }
  int64_t n[1] = {copied};
  check(copied > 20, "shapes with columns out of order", "reduce", n, 1);
}

/* The vertex takes in one vector of four partials a cycle, whatever their type. */
static void check_reductions(const Target *t) {
  for (int i = 0; i < 200; i++) {
    int64_t x[3] = {extent(20000), extent(20000), extent(5000)};
    Cost c = cost_reduce(t, i % 2 ? F16 : F32, i / 2 % 2 ? COST_SUM : COST_MAX, x[0], x[1], x[2]);
    double partials = (double)x[0] * (double)x[1] * (double)x[2] / (double)t->tiles;
    check(cost_cycles(&c) >= 0.999 * partials / 4, "a cycle for each vector of partials", "reduce",
          x, 3);
  }
}

static double compute_of(const Cost *c, const char *step) {
  for (int i = 0; i < c->row_count; i++)
    if (!strcmp(c->steps[i].name, step)) return c->steps[i].compute;
  return -1;
}

/* PopLibs' formula of a pooling vertex (getPoolingCycles) by hand, on one tile. A gradient has 6 x 6
 * points of four channels in float16, the windows are 2 x 2, every two points. Each of six workers
 * has a row of six points, and a point of the kernel meets three of them. It goes over the row
 * twice, in 25 cycles and what the three points take. */
static void check_pooling_by_hand(const Target *chip) {
  static const double rows[] = {15 + 2 * (25 + 3 + 5 + 3 * 2), 15 + 2 * (25 + 3 + 7 + 5 * 2)},
                      begin[] = {41, 41 + 10};
  static const PoolingKind kinds[] = {POOLING_AVERAGE, POOLING_MAX};
  Target t = *chip;
  t.tiles = 1;
  ConvShape s = {.batch = 1, .groups = 1, .in_channels = 4, .out_channels = 4, .rank = 2};
  for (int i = 0; i < 2; i++)
    s.kernel[i] = s.stride[i] = 2, s.dilation[i] = 1, s.in[i] = 6, s.out[i] = 3;
  for (int k = 0; k < 2; k++) {
    int64_t x[1] = {k};
    Cost c = cost_pooling(&t, F16, kinds[k], &s, true);
    double clear = 4 + 36.0 / 6,
           want = 13 + 6 * (begin[k] + clear + rows[k]) + (double)t.launch_cycles;
    check(fabs(compute_of(&c, "pool") - want) < 1e-9, "cycles by hand", "pool", x, 1);
  }
}

/* The same of 11 x 5 points and windows of 3 x 3 on two tiles. One has six rows, a row for each
 * worker. The other has five, so that a worker has parts of two rows, here of one and three points.
 * It is slower though it has less to do. */
static void check_uneven_pooling_by_hand(const Target *chip) {
  Target t = *chip;
  t.tiles = 2;
  ConvShape s = {.batch = 1, .groups = 1, .in_channels = 4, .out_channels = 4, .rank = 2};
  for (int i = 0; i < 2; i++)
    s.kernel[i] = 3, s.stride[i] = s.dilation[i] = 1, s.in[i] = i ? 5 : 11, s.out[i] = i ? 3 : 9;
  Cost c = cost_pooling(&t, F16, POOLING_AVERAGE, &s, true);
  double parts = 15 + 9 * (25 + 3 + 5 + 3 * 0) + 15 + 9 * (25 + 3 + 5 + 3 * 2),
         want = 13 + 6 * (41 + 4 + 25.0 / 6 + parts) + (double)t.launch_cycles;
  check(fabs(compute_of(&c, "pool") - want) < 1e-9, "cycles by hand", "pool", s.in, 2);
}

/* Exponentials are kept until they are divided by their sum. Each of ten tables has seven sums. */
static void check_small_by_hand(const Target *chip) {
  Target one = *chip;
  one.tiles = 1;
  int64_t x[2] = {40, 50};
  Cost c = cost_softmax(&one, F32, x[0], x[1], false);
  check(c.bytes[MEMORY_TEMPORARY] >= 40 * 50 * 4, "memory of the exponentials", "softmax", x, 2);
  c = cost_take_along(chip, F32, 10, 1000, 7, true);
  check(c.flops == 10 * 7, "an addition for each lookup", "take_along", x, 0);
}

static void check_pods(void) {
  Error e = {0};
  Pod p;
  int64_t x[1] = {0};
  check(pod_make(&e, target_find("GC2"), 16, NULL, &p) == OK, "sixteen C2 chips", "pod", x, 1);
  check(pod_make(&e, target_find("Bow"), 0, NULL, &p) != OK, "no IPUs", "pod", x, 1);
  check(pod_make(&e, target_find("Bow"), 4, "star", &p) != OK, "no such topology", "pod", x, 1);
  for (int n = 2; n <= 128; n *= 2) {
    check(pod_make(&e, target_find("Bow"), n, "mesh", &p) == OK, "a pod", "pod", x, 1);
    Cost near = cost_link(&p, 0, 1, 1e6), far = cost_link(&p, 0, n - 1, 1e6),
         all = cost_all_reduce(&p, n, 1, 1e8);
    check(cost_cycles(&far) >= cost_cycles(&near) && cost_cycles(&near) > 1e6 / 200,
          "distance costs", "pod", x, 1);
    check(cost_cycles(&all) > 2 * 1e8 * (n - 1) / n / 200, "an all-reduce moves its bytes", "pod",
          x, 1);
  }
  Transfer both[2] = {{0, 2, 1e6}, {1, 2, 1e6}};
  check(pod_make(&e, target_find("GC200"), 4, NULL, &p) == OK, "a pod", "pod", x, 1);
  Cost one = cost_links(&p, both, 1), two = cost_links(&p, both, 2);
  check(cost_cycles(&two) > cost_cycles(&one), "shared channels add up", "pod", x, 1);
  Cost host = cost_host(&p, 1e6, 4);
  p.model_host = true;
  Cost model = cost_host(&p, 40e6, 1);
  check(cost_cycles(&host) > 50000, "host latency", "pod", x, 1);
  check(fabs(cost_cycles(&model) / 6663551 - 1) < 0.01,
        "40 MB take the IPU Model 6.66 million cycles", "pod", x, 1);
}

int main(int argc, char **argv) {
  if (argc > 1) state = strtoull(argv[1], NULL, 10);
  if (!state) return fprintf(stderr, "usage: target_check [SEED], a positive integer\n"), 2;
  double start = clock_seconds();
  check_targets();
  check_pods();
  check_published_reductions();
  check_shards();
  for (int i = 0; target_at(i); i++) {
    if (i > 1) continue; /* the others differ in clock and links only */
    check_published_solve(target_at(i));
    check_few_updates(target_at(i));
    check_matmul(target_at(i));
    check_conv(target_at(i));
    check_recurrent(target_at(i));
    check_reductions(target_at(i));
    check_column_order(target_at(i));
    check_reductions_of_a_number(target_at(i));
    check_pooling_by_hand(target_at(i));
    check_uneven_pooling_by_hand(target_at(i));
    check_small_by_hand(target_at(i));
    check_rates(target_at(i));
    check_others(target_at(i), true);
    check_huge(target_at(i));
  }
  Error e = {0};
  Target odd;
  const char *text =
      "{\"base\": \"GC2\", \"name\": \"odd\", \"tiles\": 7, \"workers\": 5, \"units_f16_f32\": 3, "
      "\"group_f16\": 10}";
  int64_t x[1] = {0};
  check(target_parse(&e, text, strlen(text), &odd) == OK, "a chip of one's own", "target", x, 1);
  check_others(&odd, false); /* on seven tiles a saved stage outweighs anything */
  check_huge(&odd);
  printf("%.1f s\n%d passed, %d failed\n", clock_seconds() - start, passed, failed);
  return failed > 0;
}
