/* Our side of `make bench-ops`: rows at the shapes at which the peer
 * (examples/bench/peers/torch_ops.py) is timed too. usage: ops_bench THREADS [NAME…] prints
 * "name shape microseconds", the best of some rounds: of the thread's own time, or with two
 * threads of the wall's. Names select rows that begin so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "ops/ops.h"
#include "transform/autodiff.h"

enum { ROUNDS = 7, MAX_VALUES = 64 };
#define ROUND_SECONDS 0.02

/* A graph whose nodes are evaluated one after the other. */
typedef struct Bench {
  Graph *graph;
  int first; /* the nodes that are timed begin here */
  Tensor *made[MAX_VALUES][MAX_OUTPUTS];
  void *data[MAX_VALUES][MAX_OUTPUTS];
  Call call[MAX_VALUES];
  const void *in[MAX_VALUES][MAX_INPUTS];
  const Type *in_type[MAX_VALUES][MAX_INPUTS], *out_type[MAX_VALUES][MAX_OUTPUTS];
  Error error;
} Bench;

/* Memory as tensors have it. */
static Tensor *buffer(const Type *t, uint32_t seed) {
  Error e = {0};
  Tensor *tensor = tensor_new(&e, t);
  if (!tensor) exit(1);
  for (int64_t i = 0; i < type_count(t); i++)
    dtype_set(t->dtype, tensor->data, i,
              (double)(((uint64_t)i * 2654435761u + seed * 977) >> 7 & 1023) / 256 - 2);
  return tensor;
}

static void prepare_node(Bench *b, const Node *n, Pool *pool) {
  int id = n->id;
  for (int i = 0; i < n->out_count; i++) {
    bool constant = node_is_constant(n), view = n->op->traits & VIEW;
    b->out_type[id][i] = &n->out[i].type;
    if (!constant && !view) b->made[id][i] = buffer(&n->out[i].type, (uint32_t)id);
    b->data[id][i] = constant ? n->attr[0].tensor->data
                     : view   ? b->data[n->in[0]->node->id][n->in[0]->index]
                              : b->made[id][i]->data;
  }
  for (int i = 0; i < n->in_count; i++) {
    b->in_type[id][i] = &n->in[i]->type;
    b->in[id][i] = b->data[n->in[i]->node->id][n->in[i]->index];
  }
  size_t scratch = n->op->scratch ? n->op->scratch(n) : 0;
  b->call[id] = (Call){.in = b->in[id],
                       .out = b->data[id],
                       .in_type = b->in_type[id],
                       .out_type = b->out_type[id],
                       .node = n,
                       .attr = n->attr,
                       .in_count = n->in_count,
                       .out_count = n->out_count,
                       .kernels = kernels_select(),
                       .pool = pool,
                       .scratch = scratch ? aligned_alloc(64, (scratch + 127) & ~(size_t)63) : NULL,
                       .error = &b->error};
}

static bool is_work(const Node *n) {
  return !node_is_input(n) && !node_is_constant(n) && !(n->op->traits & VIEW);
}

static void run(Bench *b) {
  for (int i = b->first; i < b->graph->node_count; i++)
    if (is_work(b->graph->node[i])) op_eval(b->graph->node[i]->op, &b->call[i]);
}

static double stopwatch(const Pool *pool) {
  struct timespec t;
  if (pool_size(pool) > 1) return clock_seconds();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double measure(Bench *b, Pool *pool) {
  run(b);
  double start = stopwatch(pool), best = 1e9;
  run(b);
  int repeats = (int)(ROUND_SECONDS / (stopwatch(pool) - start + 1e-7)) + 1;
  for (int r = 0; r < ROUNDS; r++) {
    start = stopwatch(pool);
    for (int i = 0; i < repeats; i++) run(b);
    double each = (stopwatch(pool) - start) / repeats;
    if (each < best) best = each;
  }
  return best;
}

static void finish(Bench *b, const char *name, const char *shape, Pool *pool) {
  Graph *g = b->graph;
  if (g->error.status != OK || g->node_count > MAX_VALUES) {
    printf("%s %s failed: %s\n", name, shape, g->error.message);
  } else {
    for (int i = 0; i < g->node_count; i++) prepare_node(b, g->node[i], pool);
    /* values that a gradient is computed from are there */
    int first = b->first;
    b->first = 0;
    run(b);
    b->first = first;
    double seconds = measure(b, pool);
    if (b->error.status == OK) printf("%s %s %.3f\n", name, shape, seconds * 1e6);
    else printf("%s %s failed: %s\n", name, shape, b->error.message);
    for (int i = 0; i < g->node_count; i++) {
      free(b->call[i].scratch);
      for (int k = 0; k < g->node[i]->out_count; k++) tensor_release(b->made[i][k]);
    }
  }
  fflush(stdout);
  graph_free(g);
}

static bool wanted(int argc, char **argv, const char *name) {
  for (int i = 2; i < argc; i++)
    if (!strncmp(name, argv[i], strlen(argv[i]))) return true;
  return argc <= 2;
}

static Value *input(Graph *g, int rank, const int64_t *shape) {
  return graph_input(g, &(Type){F32, rank, {shape[0], shape[1], shape[2], shape[3]}}, NULL);
}

/* ---- what is timed ---- */

static void bench_flat(int argc, char **argv, Pool *pool) {
  static const int64_t sizes[] = {1024, 10240, 102400, 1024000, 10240000};
  static const char *const names[] = {"add", "relu", "exp", "gelu", "sum"};
  for (int s = 0; s < 5; s++)
    for (int i = 0; i < 5; i++) {
      if (!wanted(argc, argv, names[i])) continue;
      Bench b = {.graph = graph_new()};
      Graph *g = b.graph;
      int64_t shape[4] = {sizes[s]};
      Value *x = input(g, 1, shape);
      Attr tanh_form[MAX_ATTRS] = {attr_bool(true)};
      if (i == 0) ops_add(g, x, input(g, 1, shape));
      else if (i == 3) op_with(g, "nn.gelu", &x, 1, tanh_form);
      else op1(g, (const char *[]){"", "nn.relu", "exp", "", "reduce_sum"}[i], x);
      char text[32];
      snprintf(text, sizeof text, "%lld", (long long)sizes[s]);
      finish(&b, names[i], text, pool);
    }
}

static void bench_rows(int argc, char **argv, Pool *pool) {
  static const int64_t shapes[][4] = {{32, 16}, {2048, 80}, {8192, 128}, {1024, 1024}};
  static const char *const names[] = {"softmax", "layernorm", "transpose"};
  for (int s = 0; s < 4; s++)
    for (int i = 0; i < 3; i++) {
      if (!wanted(argc, argv, names[i])) continue;
      Bench b = {.graph = graph_new()};
      Graph *g = b.graph;
      Value *x = input(g, 2, shapes[s]);
      int64_t last[4] = {shapes[s][1]}, perm[] = {1, 0};
      if (i == 0) op1(g, "nn.softmax", x);
      else if (i == 1) op3(g, "nn.layer_norm", x, input(g, 1, last), input(g, 1, last));
      else ops_transpose(g, x, perm);
      char text[64];
      snprintf(text, sizeof text, "%lldx%lld", (long long)shapes[s][0], (long long)shapes[s][1]);
      finish(&b, names[i], text, pool);
    }
}

static void bench_conv(int argc, char **argv, Pool *pool) {
  static const struct {
    const char *name;
    int64_t batch, in, out, extent;
    const char *padding;
  } convs[] = {{"W3.conv1", 64, 1, 32, 28, "VALID"},
               {"W3.conv2", 64, 32, 64, 26, "VALID"},
               {"W4.s1", 32, 16, 16, 32, "SAME"},
               {"W4.s2", 32, 32, 32, 16, "SAME"},
               {"W4.s3", 32, 64, 64, 8, "SAME"}};
  for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
    for (int backward = 0; backward < 2; backward++) {
      const char *name = backward ? "conv-bwd" : "conv-fwd";
      if (!wanted(argc, argv, name)) continue;
      Bench b = {.graph = graph_new()};
      Graph *g = b.graph;
      Value *x =
          input(g, 4, (int64_t[]){convs[i].batch, convs[i].extent, convs[i].extent, convs[i].in});
      Value *w = input(g, 4, (int64_t[]){3, 3, convs[i].in, convs[i].out}), *dx[2];
      Attr attrs[MAX_ATTRS] = {{.kind = ATTR_NONE}, attr_string(convs[i].padding)};
      Value *y = op_with(g, "nn.conv2d", (Value *[]){x, w}, 2, attrs);
      if (backward && y) {
        Value *dy = graph_input(g, &y->type, NULL);
        b.first = g->node_count;
        autodiff(g, &y, &dy, 1, (Value *[]){x, w}, 2, dx);
      }
      finish(&b, name, convs[i].name, pool);
    }
}

/* The products of a layer: Y [batch, out] = X [batch, in] W [in, out], dW = X' dY, dX = dY W'. */
static void bench_gemm(int argc, char **argv, Pool *pool) {
  static const struct {
    const char *name;
    int64_t batch, in, out;
  } layers[] = {
      {"W1.l1", 32, 784, 128},     {"W1.l2", 32, 128, 10},     {"W2.l1", 32, 784, 256},
      {"W2.l2", 32, 256, 128},     {"W2.l3", 32, 128, 64},     {"W2.l4", 32, 64, 32},
      {"W2.l5", 32, 32, 10},       {"W3.fc1", 64, 9216, 128},  {"W5.qkv", 2048, 128, 384},
      {"W5.proj", 2048, 128, 128}, {"W5.fc1", 2048, 128, 512}, {"W5.fc2", 2048, 512, 128},
      {"W5.head", 2048, 128, 65},  {"W6.step", 32, 256, 1024}, {"W6.in", 2048, 128, 1024},
      {"W6.head", 2048, 256, 65},  {"W7.l1", 256, 1024, 4096}, {"W7.l2", 256, 4096, 4096},
      {"W7.l3", 256, 4096, 1024},  {"sq512", 512, 512, 512},   {"sq2048", 2048, 2048, 2048}};
  static const char *const names[] = {"gemm-fwd", "gemm-dW", "gemm-dX"};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (int pass = 0; pass < 3; pass++) {
      if (!wanted(argc, argv, names[pass])) continue;
      Bench b = {.graph = graph_new()};
      Graph *g = b.graph;
      int64_t x[4] = {layers[i].batch, layers[i].in}, w[4] = {layers[i].in, layers[i].out},
              y[4] = {layers[i].batch, layers[i].out};
      if (pass == 0) ops_matmul(g, input(g, 2, x), input(g, 2, w), false, false);
      if (pass == 1) ops_matmul(g, input(g, 2, x), input(g, 2, y), true, false);
      if (pass == 2) ops_matmul(g, input(g, 2, y), input(g, 2, w), false, true);
      finish(&b, names[pass], layers[i].name, pool);
    }
}

int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 1;
  Pool *pool = pool_new(threads < 1 ? 1 : threads);
  bench_flat(argc, argv, pool);
  bench_rows(argc, argv, pool);
  bench_conv(argc, argv, pool);
  bench_gemm(argc, argv, pool);
  pool_free(pool);
  return 0;
}
