/* Rows whose chunks don't depend on the team, so that teams can't tell on them, compared with plain
 * loops in float64. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "interpret.h"
#include "ops/ops.h"
#include "sizes.h"

typedef struct Plain {
  Pool *const *team;
  int teams, argc;
  char **argv;
  int *passed, *failed;
  Arena *arena;
} Plain;

typedef struct Ran {
  Sample sample;
  Graph *graph;
  Node *node;
  Tensor *in[SAMPLE_OPERANDS], *out[MAX_OUTPUTS];
} Ran;

static void tell(Plain *p, bool good, const char *op, const char *text) {
  if (good) ++*p->passed;
  else ++*p->failed, printf("FAIL %-28s plain       %s\n", op, text);
}

static void finish(Ran *r) {
  for (int i = 0; i < r->sample.count; i++) tensor_release(r->in[i]);
  for (int j = 0; j < r->node->out_count; j++) tensor_release(r->out[j]);
  graph_free(r->graph);
}

/* By every team: equal bits, or that is told. The first team's results stay. */
static bool run_with(Plain *p, Ran *r, const char *op, const char *text, const Kernels *kernels) {
  Error e = {0};
  const char *at = text;
  memset(r, 0, sizeof *r);
  if (!sample_wanted(op_find(op), p->argc, p->argv)) return false;
  if (!sample_next(&e, p->arena, op_find(op), &at, &r->sample))
    return tell(p, false, op, text), false;
  r->graph = graph_new();
  r->node = sample_node(r->graph, &r->sample, F32, I32);
  if (!r->node) return tell(p, false, op, text), graph_free(r->graph), false;
  for (int i = 0; i < r->sample.count; i++) r->in[i] = sample_tensor(&e, &r->sample, i, F32, I32);
  for (int t = 0; t < p->teams; t++) {
    Interpretation how = {.pool = p->team[t], .kernels = kernels};
    Tensor *out[MAX_OUTPUTS];
    bool good = interpret_node(&e, r->node, r->in, out, &how, -1) == OK;
    for (int j = 0; j < r->node->out_count && t > 0 && good; j++) {
      good = !memcmp(out[j]->data, r->out[j]->data, type_bytes(&out[j]->type));
      tensor_release(out[j]);
    }
    if (t == 0) memcpy(r->out, out, sizeof out);
    tell(p, good, op, text);
  }
  return true;
}

static bool run(Plain *p, Ran *r, const char *op, const char *text) {
  return run_with(p, r, op, text, NULL);
}

static double get(const Tensor *t, int64_t i) { return dtype_get(t->type.dtype, t->data, i); }
static bool close(double x, double y, double scale) {
  return fabs(x - y) <= 2e-5 * (fabs(y) + scale);
}

/* ---- products: both sides of tiles, panels, blocks of k, and of what decides how a product is cut
 * ---- */

static double product_at(const Ran *r, int64_t i, int64_t j, int64_t k, bool ta, bool tb) {
  const float *a = (const float *)(const void *)r->in[0]->data,
              *b = (const float *)(const void *)r->in[1]->data;
  int64_t m = r->out[0]->type.shape[0], n = r->out[0]->type.shape[1];
  double sum = 0;
  for (int64_t q = 0; q < k; q++)
    sum += (double)a[ta ? q * m + i : i * k + q] * (double)b[tb ? j * k + q : q * n + j];
  return sum;
}

/* By our own kernels, and as the process chooses where that may be OpenBLAS. */
static void compare_product(Plain *p, int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  enum { OWN, CHOSEN, WAYS };
  Error e = {0};
  const Kernels *chosen = interpret_kernels(&e);
  const char *text =
      arena_print(p->arena, "F[%lld,%lld] F[%lld,%lld] {transpose_a = %s, transpose_b = %s}",
                  (long long)(ta ? k : m), (long long)(ta ? m : k), (long long)(tb ? n : k),
                  (long long)(tb ? k : n), ta ? "true" : "false", tb ? "true" : "false");
  Ran r[WAYS];
  if (!chosen) {
    tell(p, false, "matmul", e.message);
    return;
  }
  if (!run_with(p, &r[OWN], "matmul", text, kernels_with_products(chosen, PRODUCTS_OWN))) return;
  int ways = m * n * k < 1000000 || !run_with(p, &r[CHOSEN], "matmul", text, chosen) ? 1 : WAYS;
  bool good[WAYS] = {true, true}, large = m * n * k > 50000000;
  for (int64_t i = 0; i < m;
       i += large && i < m - 17 ? 13 : 1) /* of large ones some rows, and all of the last panel */
    for (int64_t j = 0; j < n; j++) {
      double sum = product_at(&r[OWN], i, j, k, ta, tb);
      for (int w = 0; w < ways; w++)
        good[w] = good[w] && close(get(r[w].out[0], i * n + j), sum, sqrt((double)k));
    }
  for (int w = 0; w < ways; w++) tell(p, good[w], "matmul", text), finish(&r[w]);
}

/* The last six: few chunks of rows, so that columns are cut too, if there are enough of them. Too
 * short a batch to be cut by k. Parts of k that several chunks add up. Twelve rows of one vector. */
static void products(Plain *p) {
  static const int64_t extents[][3] = {
      {1, 1, 1},      {1, 129, 65},    {7, 15, 9},       {8, 16, 8},        {9, 17, 33},
      {14, 31, 64},   {15, 33, 127},   {17, 47, 129},    {31, 48, 200},     {33, 49, 511},
      {40, 64, 512},  {41, 65, 513},   {47, 7, 300},     {48, 9, 288},      {49, 9, 289},
      {63, 100, 600}, {64, 40, 512},   {65, 40, 520},    {96, 128, 100},    {97, 129, 99},
      {130, 513, 20}, {20, 960, 33},   {3, 481, 700},    {128, 256, 70},    {129, 3, 1030},
      {1, 700, 300},  {500, 1, 260},   {32, 257, 300},   {32, 193, 259},    {257, 511, 40},
      {513, 31, 17},  {150, 260, 128}, {529, 300, 1281}, {135, 1033, 1460}, {40, 500, 300},
      {56, 95, 2000}, {15, 300, 120},  {60, 300, 500},   {10, 9000, 128},   {12, 16, 30}};
  for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
    for (int t = 0; t < 4; t++)
      compare_product(p, extents[i][0], extents[i][1], extents[i][2], t & 1, t & 2);
}

/* ---- batch normalisation: chunks of 32,768 elements, of rows as many as fit ---- */

static void batch_moments(const Tensor *x, int64_t rows, int64_t channels, int64_t c, double *mean,
                          double *variance) {
  *mean = *variance = 0;
  for (int64_t i = 0; i < rows; i++) *mean += get(x, i * channels + c) / (double)rows;
  for (int64_t i = 0; i < rows; i++)
    *variance += pow(get(x, i * channels + c) - *mean, 2) / (double)rows;
}

static void compare_batch_norm(Plain *p, int64_t rows, int64_t channels, bool given) {
  Ran r;
  long long c = channels;
  const char *statistics = given ? arena_print(p->arena, " F[%lld] P[%lld]", c, c) : "";
  const char *text =
      arena_print(p->arena, "F[%lld,%lld] F[%lld] F[%lld]%s", (long long)rows, c, c, c, statistics);
  if (!run(p, &r, "nn.batch_norm", text)) return;
  bool good = true;
  for (int64_t k = 0; k < channels && good; k++) {
    double mean, variance;
    if (given) mean = get(r.in[3], k), variance = get(r.in[4], k);
    else batch_moments(r.in[0], rows, channels, k, &mean, &variance);
    good = close(get(r.out[1], k), mean, 1) && close(get(r.out[2], k), variance, 1);
    for (int64_t i = 0; i < rows && good; i++) {
      double y =
          (get(r.in[0], i * channels + k) - mean) / sqrt(variance + 0.001) * get(r.in[1], k) +
          get(r.in[2], k);
      good = close(get(r.out[0], i * channels + k), y, 2);
    }
  }
  tell(p, good, "nn.batch_norm", text);
  finish(&r);
}

static void compare_batch_norm_grad(Plain *p, int64_t rows, int64_t channels) {
  Ran r;
  long long n = rows, c = channels;
  const char *text = arena_print(p->arena, "F[%lld,%lld] F[%lld,%lld] F[%lld] P[%lld] F[%lld]", n,
                                 c, n, c, c, c, c);
  if (!run(p, &r, "nn.batch_norm_grad", text)) return;
  const Tensor *dy = r.in[0], *x = r.in[1];
  bool good = true;
  for (int64_t k = 0; k < channels && good; k++) {
    double mean = get(r.in[2], k), inverse = get(r.in[3], k), gamma = get(r.in[4], k), sum = 0,
           product = 0;
    for (int64_t i = k; i < rows * channels; i += channels)
      sum += get(dy, i), product += get(dy, i) * (get(x, i) - mean) * inverse;
    good = close(get(r.out[2], k), sum, sqrt((double)rows)) &&
           close(get(r.out[1], k), product, 10 * sqrt((double)rows));
    for (int64_t i = k; i < rows * channels && good; i += channels) {
      double normal = (get(x, i) - mean) * inverse;
      double dx =
          gamma * inverse * (get(dy, i) - sum / (double)rows - normal * product / (double)rows);
      good = close(get(r.out[0], i), dx, 10);
    }
  }
  tell(p, good, "nn.batch_norm_grad", text);
  finish(&r);
}

static void batch_norms(Plain *p) {
  static const int64_t extents[][2] = {{327, 100}, {328, 100}, {1000, 100}, {32768, 1},
                                       {32769, 1}, {3, 20001}, {2049, 33}};
  for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
    compare_batch_norm(p, extents[i][0], extents[i][1], false);
    compare_batch_norm(p, extents[i][0], extents[i][1], true);
    compare_batch_norm_grad(p, extents[i][0], extents[i][1]);
  }
}

/* ---- sums and their kin along each axis ---- */

static void compare_reduction(Plain *p, const char *op, int64_t outer, int64_t extent,
                              int64_t inner) {
  Ran r;
  const char *text = arena_print(p->arena, "F[%lld,%lld,%lld] {axis = 1}", (long long)outer,
                                 (long long)extent, (long long)inner);
  if (!run(p, &r, op, text)) return;
  bool good = true;
  for (int64_t o = 0; o < outer && good; o++)
    for (int64_t i = 0; i < inner && good; i++) {
      double sum = 0, size = 0, greatest = -INFINITY;
      for (int64_t e = 0; e < extent; e++) {
        double x = get(r.in[0], (o * extent + e) * inner + i);
        sum += x, size += x * x, greatest = fmax(greatest, x);
      }
      double y = get(r.out[0], o * inner + i);
      good = !strcmp(op, "reduce_max")
                 ? y == greatest
                 : close(y, !strcmp(op, "reduce_mean") ? sum / (double)extent : sum,
                         0.01 * sqrt(size));
    }
  tell(p, good, op, text);
  finish(&r);
}

static void reductions(Plain *p) {
  static const char *const ops[] = {"reduce_sum", "reduce_mean", "reduce_max"};
  static const int64_t extents[][3] = {{1, 32767, 1}, {1, 32769, 1}, {1, 70001, 1}, {1, 16385, 4},
                                       {1, 2049, 33}, {700, 97, 1},  {33, 31, 65},  {2, 20003, 2},
                                       {40001, 1, 1}, {1, 1, 40001}, {3, 2, 12001}};
  for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
      compare_reduction(p, ops[k], extents[i][0], extents[i][1], extents[i][2]);
}

/* ---- what replicas combine: chunks of 16,384 elements ---- */

enum { REPLICAS = 3 };

static double combined(const char *op, const Sample *s, int64_t at) {
  double sum = 0;
  for (int r = 0; r < REPLICAS; r++) {
    double x = s->operand[r].value[at];
    sum += !strcmp(op, "SQUARE_ADD") ? x * x : !strcmp(op, "MEAN") ? x / REPLICAS : x;
  }
  return sum;
}

/* The operands of a concatenation are the replicas' operands. */
static void compare_scatter(Plain *p, const char *combination, int64_t length) {
  const OpDef *op = op_find("reduce_scatter");
  long long n = length;
  const char *text = arena_print(p->arena, "F[%lld] F[%lld] F[%lld]", n, n, n), *at = text;
  const char *own = arena_print(p->arena, "F[%lld] {op = '%s', replication_factor = %d}", n,
                                combination, REPLICAS);
  Error e = {0};
  Sample values, s;
  if (!sample_wanted(op, p->argc, p->argv)) return;
  bool good = sample_next(&e, p->arena, op_find("concat"), &at, &values);
  at = own;
  good = good && sample_next(&e, p->arena, op, &at, &s);
  Graph *g = graph_new();
  Node *node = good ? sample_node(g, &s, F32, I32) : NULL;
  for (int t = 0; node && t < p->teams; t++) {
    Call call[REPLICAS];
    const Call *calls[REPLICAS];
    Tensor *in[REPLICAS], *out[REPLICAS];
    const void *in_data[REPLICAS];
    void *out_data[REPLICAS];
    const Type *in_type = &node->in[0]->type, *out_type = &node->out[0].type;
    for (int r = 0; r < REPLICAS; r++) {
      in[r] = sample_tensor(&e, &values, r, F32, I32), out[r] = tensor_new(&e, out_type);
      in_data[r] = in[r]->data, out_data[r] = out[r]->data;
      call[r] = (Call){.in = &in_data[r],
                       .out = &out_data[r],
                       .in_type = &in_type,
                       .out_type = &out_type,
                       .node = node,
                       .attr = node->attr,
                       .in_count = 1,
                       .out_count = 1,
                       .replica = r,
                       .kernels = interpret_kernels(&e),
                       .pool = p->team[t],
                       .error = &e};
      calls[r] = &call[r];
    }
    good = op->eval_collective(calls, REPLICAS) == OK;
    int64_t share = out_type->shape[0];
    for (int64_t i = 0; i < REPLICAS * share && good; i++) {
      double want = i < length ? !strcmp(combination, "LOCAL") ? values.operand[i / share].value[i]
                                                               : combined(combination, &values, i)
                               : 0;
      good = close(get(out[i / share], i % share), want, 0.1);
    }
    tell(p, good, op->name, own);
    for (int r = 0; r < REPLICAS; r++) tensor_release(in[r]), tensor_release(out[r]);
  }
  if (!node) tell(p, false, op->name, own);
  graph_free(g);
}

static void scatters(Plain *p) {
  static const char *const combinations[] = {"ADD", "MEAN", "SQUARE_ADD", "LOCAL"};
  static const int64_t lengths[] = {5, 3071, 3073, 49152, 49153, 100003};
  for (size_t c = 0; c < sizeof combinations / sizeof *combinations; c++)
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
      compare_scatter(p, combinations[c], lengths[i]);
}

void sizes_plain(Pool *const *team, int teams, int argc, char **argv, int *passed, int *failed) {
  Plain p = {team, teams, argc, argv, passed, failed, arena_new()};
  products(&p);
  batch_norms(&p);
  reductions(&p);
  scatters(&p);
  arena_free(p.arena);
}
