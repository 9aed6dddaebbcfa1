/* Every row of the registry at shapes that nobody listed. The extents of its samples are replaced,
 * equal ones by equal ones, from 1 to millions, with primes and powers of two among them. They
 * change all at once or one at a time: one row, one channel, a kernel as wide as the field. Calls
 * that infer accepts must have a price. It is finite, its parts add up, and it has a plan or a
 * reason. It is not below the roofline (the units' rate, the stores of the result) and not above a
 * plain way with vector instructions. It doesn't fall when one or all extents double. Rounds take
 * turns with five seeds; `price_check SEED` uses that one for all. The last line is "N passed, N
 * failed". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/support.h"
#include "samples.h"
#include "target/cost.h"

enum { ROUNDS = 14, EXTENTS = 32 };

static int passed, failed, priced;
static uint64_t states[] = {20250301, 31676, 47514, 118785, 158380};
static size_t seeds = sizeof states / sizeof *states, turn;

static uint64_t next_random(void) { /* xorshift64* */
  uint64_t x = states[turn];
  x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
  return (states[turn] = x) * 2685821657736338717ULL;
}

static int64_t random_extent(int64_t max) {
  static const int64_t odd[] = {1, 2, 3, 5, 7, 8, 16, 17, 31, 64, 97, 128, 512, 1009, 1024};
  if (next_random() % 2) return odd[next_random() % (sizeof odd / sizeof *odd)];
  double u = (double)(next_random() >> 11) / 9007199254740992.0;
  return (int64_t)exp(u * log((double)max));
}

static double seen, bound; /* the comparison of the next assertion, for its message */

static void check(bool ok, const char *what, const Sample *s, const Node *n) {
  if (ok) {
    passed++;
    return;
  }
  if (failed++ > 40) return;
  char text[TYPE_TEXT];
  printf("FAILED %s: %s, case '%.60s', at", s->op->name, what, s->text);
  for (int i = 0; n && i < n->in_count; i++) printf(" %s", type_text(&n->in[i]->type, text));
  printf(": %.6g cycles against %.6g\n", seen, bound);
}

/* The new value of each extent of a sample. */
typedef struct Mapping {
  int64_t from[EXTENTS], to[EXTENTS];
  int count;
} Mapping;

static int64_t map_extent(const Mapping *m, int64_t extent) {
  for (int i = 0; i < m->count; i++)
    if (m->from[i] == extent) return m->to[i];
  return extent;
}

static Mapping choose(const Sample *s, int round) {
  Mapping m = {.count = 0};
  int64_t max = round % 4 == 3 ? 2000000 : 4000;
  bool single = round >= 12; /* only one extent is another: very wide, or 1 */
  int chosen = (int)(next_random() % 6);
  for (int i = 0; i < s->count; i++)
    for (int k = 0; k < s->operand[i].type.rank; k++) {
      int64_t extent = s->operand[i].type.shape[k];
      if (extent < 2 || map_extent(&m, extent) != extent || m.count == EXTENTS) continue;
      m.from[m.count] = extent;
      int64_t to = single ? (round % 2 ? 1 : 1 + random_extent(2000000)) : random_extent(max);
      m.to[m.count] = round == 0 || (single && m.count != chosen % 6) ? extent : to;
      m.count++;
    }
  return m;
}

/* only: the one extent that is multiplied; -1: all. */
static Node *node_at(Graph *g, const Sample *s, const Mapping *m, Dtype real, int64_t factor,
                     int only) {
  Value *in[SAMPLE_OPERANDS];
  double elements = 0;
  for (int i = 0; i < s->count; i++) {
    Type type = sample_type(s, i, real, I32);
    double count = 1;
    for (int k = 0; k < type.rank; k++) {
      int64_t extent = type.shape[k];
      bool grows = extent > 1 && (only < 0 || (only < m->count && m->from[only] == extent));
      if (extent > 1) type.shape[k] = map_extent(m, extent) * (grows ? factor : 1);
      count *= (double)type.shape[k];
    }
    elements += count;
    in[i] = elements < 1e12 ? graph_input(g, &type, "x") : NULL;
    if (!in[i]) return NULL;
  }
  return graph_node(g, s->op, in, s->count, s->attr);
}

static double elements_of(Value *const *v, int count) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += (double)type_count(&v[i]->type);
  return sum;
}

static double output_elements(const Node *n) {
  double sum = 0;
  for (int i = 0; i < n->out_count; i++) sum += (double)type_count(&n->out[i].type);
  return sum;
}

static int64_t attr_product(const Node *n, const char *name) {
  int64_t p = 1;
  for (int i = 0; i < op_attr_count(n->op); i++)
    for (int k = 0; !strcmp(n->op->attrs[i].name, name) && k < n->attr[i].ints.n; k++)
      p *= n->attr[i].ints.v[k];
  return p;
}

/* Multiply-adds of a convolution if each output is as dear as the dearest one. Padding isn't
 * skipped. Outputs in the middle of a transposed convolution see most of the kernel, but no more
 * than all of the image. */
static double conv_macs(const Node *n) {
  const Type *y = &n->out[0].type;
  double outputs = output_elements(n),
         each = (double)type_count(&n->in[1]->type) / fmax(1, (double)y->shape[y->rank - 1]);
  if (!strstr(n->op->name, "transpose")) return outputs * each;
  return outputs *
         fmin(each / (double)attr_product(n, "strides"), (double)type_count(&n->in[0]->type));
}

/* Products without the matrix units and without a planner. Each multiply-add takes two vector
 * instructions of a worker, with three loads and stores. Each tile gets all operands that its share
 * of the results needs, at most every one. Sums and steps are added. */
static double plain_product(const Target *t, const Node *n, const Cost *c) {
  double tiles = (double)t->tiles, w = (double)t->workers,
         size = (double)dtype_size(n->in[0]->type.dtype);
  bool conv = strstr(n->op->name, "conv") && !(n->op->traits & INTERNAL);
  double macs = fmax(c->flops / 2, conv ? conv_macs(n) : 0), outputs = fmax(1, output_elements(n)),
         inputs = elements_of(n->in, n->in_count);
  double share = ceil(outputs / tiles), split = fmax(1, floor(tiles / outputs));
  double bytes = fmin(inputs, 2 * macs / tiles + inputs / tiles) * size;
  /* that way's operands don't fit either */
  if ((inputs + outputs) * size / tiles > 0.6 * (double)t->tile_bytes) return INFINITY;
  /* A vector is of channels: neighbours in a field aren't aligned. */
  const Type *kernel = conv ? &n->in[1]->type : NULL;
  double channels =
      conv ? (double)max(kernel->shape[kernel->rank - 1], kernel->shape[kernel->rank - 2]) : 0;
  double lanes = conv ? channels / ceil(channels * size / 8) : 8 / size;
  double compute = w * (100 + ceil(macs / tiles / lanes / w) * 5 + ceil(share / w) * 20);
  double moves = 4 * (inputs + outputs) * size / tiles * 1.25,
         sums = split > 1 ? split + w * (60 + 2 * split) : 0;
  return fmax(12, c->step_count) * (250 + w * 20) + bytes / 4 + moves + compute + sums +
         w * (30 + ceil(share / w));
}

/* Rows that aren't products alone. Each counted operation is a scalar function of a worker. Each
 * step, and each round of a sort, has a short vertex of its own. Everything is moved. */
static double plain_chain(const Target *t, const Node *n, const Cost *c) {
  double tiles = (double)t->tiles, w = (double)t->workers,
         all = elements_of(n->in, n->in_count) + output_elements(n);
  double levels = log2(all + 2), rounds = fmax(c->step_count, levels * (levels + 1) / 2);
  return rounds * (250 + w * 400) + 40 * ceil((c->flops + 4 * all) / tiles) * w + 16 * all +
         plain_product(t, n, c);
}

/* The limit of a planner. */
static double plain_way(const Target *t, const Sample *s, const Node *n, const Cost *c) {
  if (!n->in_count) return INFINITY;
  static const char *const products[] = {"matmul", "conv", "einsum"};
  for (size_t i = 0; i < sizeof products / sizeof *products; i++)
    if (strstr(s->op->name, products[i])) return plain_product(t, n, c);
  return plain_chain(t, n, c);
}

static double bytes_of(const Type *t) {
  return (double)type_count(t) * (double)dtype_size(t->dtype);
}

static bool names_any(const char *name, const char *const *words) {
  for (; *words; words++)
    if (strstr(name, *words)) return true;
  return false;
}

static const char *const product_rows[] = {"matmul",     "conv",        "einsum",    "lstm",
                                           "gru",        "rnn",         "attention", "cholesky",
                                           "triangular", "correlation", "linalg",    NULL};
/* The rest of the result stays as it was. */
static const char *const writes_parts[] = {"update", "scatter", NULL};
/* Slices, and what strides and diagonals leave out. */
static const char *const reads_parts[] = {"gather", "slice",   "lookup", "take", "scatter",
                                          "update", "slot",    "conv",   "pool", "einsum",
                                          "resize", "unstack", NULL};

/* The chip's least time is one sync, the launch of one step's workers, and then all tiles at work.
 * A tile stores 8 and loads 16 bytes a cycle. It makes the units' multiply-adds of the dtype, and
 * outside of products two operations of each lane. */
static void check_bounds(const Target *t, const Sample *s, const Node *n, const Cost *c) {
  double cycles = cost_cycles(c), tiles = (double)t->tiles, stored = 0, loaded = 0, size = 4;
  /* Attributes of internal rows hold other shapes' extents; nothing to do is free. */
  if (s->op->traits & INTERNAL || cycles == 0) return;
  for (int i = 0; i < n->out_count; i++) stored += bytes_of(&n->out[i].type);
  for (int i = 0; i < n->in_count; i++) loaded += bytes_of(&n->in[i]->type);
  if (n->in_count) size = (double)dtype_size(n->in[0]->type.dtype);
  double begin = (double)(t->sync_cycles + t->launch_cycles);
  seen = cycles, bound = begin + stored / (8 * tiles);
  if (!names_any(s->op->name, writes_parts))
    check(cycles >= 0.999 * bound, "not faster than its stores", s, n);
  bound = begin + loaded / (16 * tiles);
  bool held = loaded <= tiles * (double)t->tile_bytes; /* beyond, extents are clamped */
  if (held && !names_any(s->op->name, reads_parts))
    check(cycles >= 0.999 * bound, "not faster than its loads", s, n);
  double macs = (double)(size == 2 ? t->macs_f16 : t->macs_f32);
  double peak =
      2 * tiles * (names_any(s->op->name, product_rows) ? macs : (double)t->vector_bytes / size);
  bound = begin + c->flops / peak;
  if (held) check(cycles >= 0.999 * bound, "not below the roofline", s, n);
}

static void check_cost(const Target *t, const Sample *s, const Node *n, const Cost *c) {
  double cycles = cost_cycles(c), rows = 0;
  seen = cycles, bound = 0;
  check(isfinite(cycles) && cycles >= 0, "cycles are finite", s, n);
  for (int i = 0; i < c->row_count; i++)
    rows += c->steps[i].compute + c->steps[i].exchange + c->steps[i].sync + c->steps[i].stream;
  bound = rows;
  check(fabs(rows - cycles) <= 1e-6 * cycles + 1, "steps add up", s, n);
  check(c->fits || (c->why && *c->why), "fits, or says why not", s, n);
  bool sane = c->tiles >= 0 && c->tiles <= (double)t->tiles;
  for (int m = 0; m < MEMORY_COUNT; m++) sane = sane && c->bytes[m] >= 0 && isfinite(c->bytes[m]);
  check(sane, "memory and tiles are sane", s, n);
  check_bounds(t, s, n, c);
  bound = plain_way(t, s, n, c);
  check(!c->fits || cycles <= 1.2 * bound, "not over plain vector work", s, n);
}

/* One product that adds nothing up: a column times a row. */
static bool is_outer(const Node *n) {
  if (strcmp(n->op->name, "matmul")) return false;
  const Type *a = &n->in[0]->type, *y = &n->out[0].type;
  int64_t products = 1;
  for (int i = 0; i < y->rank - 2; i++) products *= y->shape[i];
  return products == 1 && a->rank > 0 && a->shape[a->rank - 1 - (n->attr[0].i && a->rank > 1)] == 1;
}

/* The least share of a smaller shape's price that a larger shape costs. A larger kernel leaves
 * fewer windows in a field, a longer tuple of indices picks smaller slices: less work. The
 * attributes of internal convolutions hold extents, which don't grow. A matrix that is trained on
 * one row stays where it is. Published, its layer takes twice the cycles that it takes with eight
 * rows. On GC2 they are 34,192 (fc_layer_1_1000_1000_float) and 16,865
 * (fc_layer_8_1000_1000_float). Most are for its gradient, a column times a row. PopLibs' plan of a
 * CTC loss is kept up to twice the best one's cycles. */
static double may_fall(const Node *n, const Node *twice, const Cost *before, const Cost *after) {
  bool internal = n->op->traits & INTERNAL && strstr(n->op->name, "conv");
  if (internal) return 0;
  if (strstr(n->op->name, "gather_nd")) return fmin(1, output_elements(twice) / output_elements(n));
  double work =
      before->flops > 0 && strstr(n->op->name, "conv") ? fmin(1, after->flops / before->flops) : 1;
  if (is_outer(n) && !is_outer(twice)) return 0.2;
  if (strstr(n->op->name, "ctc_loss")) return 0.8;
  const Type *y = &n->out[0].type, *larger = &twice->out[0].type;
  bool row = !strcmp(n->op->name, "matmul") && y->rank > 1 && y->shape[y->rank - 2] == 1 &&
             larger->shape[y->rank - 2] > 1;
  return row ? 0.5 : work;
}

static bool takes_step(const Cost *c, const char *name) {
  for (int i = 0; i < c->row_count; i++)
    if (!strcmp(c->steps[i].name, name)) return true;
  return false;
}

/* How often steps of that name are run. */
static double steps_named(const Cost *c, const char *name) {
  double times = 0;
  for (int i = 0; i < c->row_count; i++)
    if (!strcmp(c->steps[i].name, name)) times += c->steps[i].times;
  return times;
}

/* The part of a price that a larger shape may save. Elementwise rows have one plan. A copy may save
 * one of its two steps. Ops that pick by indices may have another plan, and saves three tenths. A
 * sum may save the step across tiles, or a quarter. A product's plan may save a fifth. Of a small
 * price it may save a stage of up to 1450 cycles, which is half of it or more where there are two.
 * A product that PopLibs would plan is multiplied element by element where that takes a third of
 * the plan's cycles, and not before. */
static double may_save(const Target *t, const Node *n, const Cost *before, const Cost *after) {
  if (n->op->traits & ELEMENTWISE) return 0;
  double cycles = cost_cycles(before),
         step = 1.05 * (double)(t->sync_cycles + t->exchange_start_cycles + t->launch_cycles);
  if (!names_any(n->op->name, product_rows)) {
    if (before->flops == 0 && !names_any(n->op->name, reads_parts)) return 0.502 * cycles;
    if (before->flops == 0) return fmin(0.502 * cycles, fmax(0.3 * cycles, 4.2 * step));
    double stages = 3 * step * fmax(1, steps_named(before, "reduce"));
    return fmin(0.5 * cycles, fmax(0.25 * cycles, stages));
  }
  bool planned = takes_step(before, "multiply"),
       by_elements = takes_step(after, "elementwise") && !takes_step(after, "multiply");
  if (planned && by_elements) return 0.67 * cycles;
  return fmin(0.55 * cycles, fmax(0.2 * cycles, 1450));
}

static void check_sample(const Target *t, const Sample *s, bool *any) {
  for (int round = 0; round < ROUNDS; round++) {
    turn = (size_t)round % seeds;
    Mapping m = choose(s, round);
    Dtype real = round % 3 == 1 ? F16 : F32;
    int only = round % 2 && m.count ? (int)(next_random() % (uint64_t)m.count) : -1;
    Graph *g = graph_new(), *larger = graph_new();
    Node *n = node_at(g, s, &m, real, 1, -1), *twice = node_at(larger, s, &m, real, 2, only);
    if (n) {
      Cost c = cost_free(), d = cost_free();
      s->op->cost(t, n, &c);
      priced++;
      *any = true;
      check_cost(t, s, n, &c);
      if (twice) {
        s->op->cost(t, twice, &d);
        double before = cost_cycles(&c), after = cost_cycles(&d),
               saved = may_fall(n, twice, &c, &d);
        seen = after, bound = saved * (before - may_save(t, n, &c, &d));
        check(!c.fits || !d.fits || after >= bound, "grows with size", s, twice);
      }
    }
    graph_free(g);
    graph_free(larger);
  }
}

static void check_row(const Target *t, const OpDef *op) {
  const char *text = op->sample;
  bool any = false, wanted = !(op->traits & (VIEW | CONTROL)) && op->sample;
  if (!wanted) return;
  Sample none = {.op = op, .text = ""};
  check(op->cost != NULL, "has a price", &none, NULL);
  Error e = {0};
  Arena *a = arena_new();
  Sample s;
  while (op->cost && a && sample_next(&e, a, op, &text, &s)) check_sample(t, &s, &any);
  if (op->cost) check(any, "some shape is accepted", &none, NULL);
  arena_free(a);
}

/* An elementwise row says what a pass of it takes; without numbers it would be free. */
static void check_cycles(const OpDef *op) {
  const VectorCycles *v = &op->cycles;
  bool wanted = (op->traits & ELEMENTWISE) || op->cost == cost_of_elementwise;
  bool there = v->f32 > 0 && v->f32_elements > 0 && v->f16 > 0 && v->f16_elements > 0;
  bool sane = vector_cycles(*v, F32) >= 1 && vector_cycles(*v, F16) >= 1;
  bool good = wanted ? there && sane : !v->f32;
  if (good) passed++;
  else failed++, printf("FAILED %s: %s cycles\n", op->name, wanted ? "needs" : "has no use for");
}

/* Cycles of a vector, float32 and float16, from PopLibs' estimators by hand. Ops that are several
 * operations there cost their sum, less 2 for each result that stays in a register. */
static void check_known_cycles(void) {
  static const struct {
    const char *name;
    double f32, f16;
  } known[] = {{"add", 3, 3},
               {"nn.bias_add", 3, 3},
               {"accumulate", 3, 3},
               {"squared_difference", 3, 3},
               {"div", 10, 21},
               {"pow", 624, 1300},
               {"less", 7, 9},
               {"exp", 6, 4},
               {"is_nan", 5, 5},
               {"clip_by_value", 10, 20},
               {"nn.gelu", 10, 5},
               {"nn.swish", 11, 5},
               {"nn.softsign", 11, 22},
               {"gelu_grad", 30, 15},
               {"gelu_tanh_grad", 10, 5},
               {"swish_grad", 15, 9},
               {"sigmoid_grad", 3, 3},
               {"sqrt_grad", 11, 22},
               {"rsqrt_grad", 6, 6},
               {"reciprocal_grad", 3, 3},
               {"softplus_grad", 13, 7},
               {"leaky_relu_grad", 16, 28},
               {"clip_grad", 20.5, 37}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    VectorCycles v = op_find(known[i].name)->cycles;
    if (vector_cycles(v, F32) == known[i].f32 && vector_cycles(v, F16) == known[i].f16) passed++;
    else failed++, printf("FAILED %s: other cycles than PopLibs'\n", known[i].name);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) seeds = 1, states[0] = strtoull(argv[1], NULL, 10);
  if (!states[0]) return fprintf(stderr, "usage: price_check [SEED], a positive integer\n"), 2;
  static const char *const chips[] = {"GC2", "Bow"};
  for (const OpDef *op = op_next(NULL); op; op = op_next(op)) check_cycles(op);
  check_known_cycles();
  for (int i = 0; i < 2; i++)
    for (const OpDef *op = op_next(NULL); op; op = op_next(op))
      check_row(target_find(chips[i]), op);
  printf("%d shapes priced\n%d passed, %d failed\n", priced, passed, failed);
  return failed != 0;
}
