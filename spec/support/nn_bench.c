/* Speeds of the neural-network rows at the shapes that matter, forward and backward, straight
 * through op_eval.
 *   nn_bench [THREADS] [NAME…]   names select rows of the table whose label starts so
 *   nn_bench same [NAME…]        the same bits without a team and with teams of two and three */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <time.h>

#include "base/clock.h"
#include "ops/ops.h"

/* One thread's own time, so that a busy machine disturbs less; with a team the wall's. */
static double stopwatch(const Pool *pool) {
  struct timespec t;
  if (pool_size(pool) > 1) return clock_seconds();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct Bench {
  Graph *graph;
  Node *node;
  void *in[MAX_INPUTS], *out[MAX_OUTPUTS], *scratch;
  const Type *in_type[MAX_INPUTS], *out_type[MAX_OUTPUTS];
} Bench;

static void *filled(const Type *t, int seed) {
  size_t bytes = (type_bytes(t) + 127) & ~(size_t)63;
  void *data = aligned_alloc(64, bytes);
  memset(data, 0, bytes);
  for (int64_t i = 0; i < type_count(t); i++) {
    double x = (double)((i * 2654435761 + seed * 977) >> 7 & 1023) / 2048 - 0.25;
    dtype_set(t->dtype, data, i, dtype_is_float(t->dtype) ? x : 1);
  }
  return data;
}

static void open_buffers(Bench *b) {
  const Node *n = b->node;
  for (int i = 0; i < n->in_count; i++)
    b->in_type[i] = &n->in[i]->type, b->in[i] = filled(b->in_type[i], i);
  for (int i = 0; i < n->out_count; i++)
    b->out_type[i] = &n->out[i].type, b->out[i] = filled(b->out_type[i], i);
  size_t room = n->op->scratch ? n->op->scratch(n) : 0;
  b->scratch = aligned_alloc(64, (room + 127) & ~(size_t)63);
}

static void close_buffers(Bench *b) {
  for (int i = 0; i < b->node->in_count; i++) free(b->in[i]);
  for (int i = 0; i < b->node->out_count; i++) free(b->out[i]);
  free(b->scratch);
}

static Call call_of(Bench *b, Pool *pool, Error *error) {
  const Node *n = b->node;
  return (Call){.in = (const void *const *)b->in,
                .out = b->out,
                .in_type = b->in_type,
                .out_type = b->out_type,
                .node = n,
                .attr = n->attr,
                .in_count = n->in_count,
                .out_count = n->out_count,
                .kernels = kernels_select(),
                .pool = pool,
                .scratch = b->scratch,
                .error = error};
}

/* Whether teams give the bits that a single thread gives. */
static bool same_bits(Bench *b) {
  Error error = {0};
  void *first[MAX_OUTPUTS];
  bool same = true;
  for (int threads = 1; threads <= 3; threads++) {
    Pool *pool = threads > 1 ? pool_new(threads) : NULL;
    Call c = call_of(b, pool, &error);
    for (int i = 0; i < c.out_count; i++) memset(b->out[i], threads, type_bytes(b->out_type[i]));
    same &= op_eval(b->node->op, &c) == OK;
    for (int i = 0; i < c.out_count; i++) {
      size_t bytes = type_bytes(b->out_type[i]);
      if (threads == 1) first[i] = memcpy(malloc(bytes + 1), b->out[i], bytes);
      else same &= !memcmp(first[i], b->out[i], bytes);
    }
    pool_free(pool);
  }
  for (int i = 0; i < b->node->out_count; i++) free(first[i]);
  return same;
}

static double seconds(Bench *b, Pool *pool, const char *label) {
  Error error = {0};
  Call c = call_of(b, pool, &error);
  double best = 1e9;
  double begin = clock_seconds();
  for (int i = 0; i < 200 && (i < 5 || clock_seconds() - begin < 0.6); i++) {
    double start = stopwatch(pool);
    if (op_eval(b->node->op, &c) != OK) printf("%s: %s\n", label, error.message);
    double s = stopwatch(pool) - start;
    if (s < best) best = s;
  }
  return best;
}

static void run(const char *label, const char *op, const Type *types, int count, const Attr *attrs,
                double flops, Pool *pool) {
  Bench b = {.graph = graph_new()};
  Value *in[MAX_INPUTS];
  for (int i = 0; i < count; i++) in[i] = graph_input(b.graph, &types[i], "x");
  b.node = graph_node(b.graph, op_find(op), in, count, attrs);
  if (!b.node) {
    printf("%s: %s\n", label, b.graph->error.message);
  } else {
    open_buffers(&b);
    if (!pool) {
      printf("%s %s %s\n", same_bits(&b) ? "same" : "DIFFERENT", label, op);
    } else {
      double s = seconds(&b, pool, label);
      printf("%-22s %-22s %9.1f us %8.1f GFLOP/s\n", label, op, s * 1e6, flops / s / 1e9);
    }
    close_buffers(&b);
  }
  graph_free(b.graph);
}

static Type type4(int64_t a, int64_t b, int64_t c, int64_t d) {
  return type_make(F32, 4, (int64_t[]){a, b, c, d});
}
static Type type3(int64_t a, int64_t b, int64_t c) {
  return type_make(F32, 3, (int64_t[]){a, b, c});
}
static Type type2(int64_t a, int64_t b) { return type_make(F32, 2, (int64_t[]){a, b}); }
static Type type1(int64_t a) { return type_make(F32, 1, (int64_t[]){a}); }

static const struct Conv {
  const char *label;
  int64_t batch, extent, in, out, kernel, stride;
  const char *padding;
} convs[] = {
    {"W3.conv1", 64, 28, 1, 32, 3, 1, "VALID"},  {"W3.conv2", 64, 26, 32, 64, 3, 1, "VALID"},
    {"W4.stem", 32, 32, 3, 16, 3, 1, "SAME"},    {"W4.s1", 32, 32, 16, 16, 3, 1, "SAME"},
    {"W4.s2", 32, 16, 32, 32, 3, 1, "SAME"},     {"W4.s3", 32, 8, 64, 64, 3, 1, "SAME"},
    {"W4.down2", 32, 32, 16, 32, 3, 2, "SAME"},  {"W4.down3", 32, 16, 32, 64, 3, 2, "SAME"},
    {"W4.short2", 32, 32, 16, 32, 1, 2, "SAME"}, {"big", 8, 56, 64, 256, 1, 1, "SAME"},
    {"big3", 4, 14, 256, 256, 3, 1, "SAME"}};

static void bench_conv(const struct Conv *v, Pool *pool) {
  int64_t s = v->stride, k = v->kernel, h = v->extent,
          out = !strcmp(v->padding, "SAME") ? (h + s - 1) / s : (h - k) / s + 1;
  int64_t total = (out - 1) * s + k - h, pad = total > 0 ? total / 2 : 0;
  Type x = type4(v->batch, h, h, v->in), w = type4(k, k, v->in, v->out),
       y = type4(v->batch, out, out, v->out);
  double flops = 2.0 * (double)(v->batch * out * out * k * k * v->in * v->out);
  Attr forward[MAX_ATTRS] = {attr_ints(&s, 1), attr_string(v->padding)};
  run(v->label, "nn.conv2d", (Type[]){x, w}, 2, forward, flops, pool);
  int64_t one = 1;
  Attr back[MAX_ATTRS] = {attr_ints(&s, 1), attr_ints(&pad, 1), attr_ints(&one, 1), attr_int(1),
                          attr_ints(&h, 1)};
  run(v->label, "nn.conv_grad_input", (Type[]){y, w}, 2, back, flops, pool);
  back[4] = attr_ints(&k, 1);
  run(v->label, "nn.conv_grad_kernel", (Type[]){x, y}, 2, back, flops, pool);
}

static void bench_pool(Pool *pool) {
  Type x = type4(64, 24, 24, 64), y = type4(64, 12, 12, 64), index = y;
  index.dtype = U8;
  double elements = (double)type_count(&x); /* so GFLOP/s reads as elements per nanosecond */
  run("W3.pool", "nn.max_pool", &x, 1, NULL, elements, pool);
  Attr back[MAX_ATTRS] = {[3] = attr_ints(x.shape + 1, 2)};
  run("W3.pool", "nn.max_pool_grad", (Type[]){y, index}, 2, back, elements, pool);
}

static void bench_norm(Pool *pool) {
  Type x = type4(32, 32, 32, 16), c = type1(16);
  double elements = (double)type_count(&x);
  Attr attrs[MAX_ATTRS] = {[2] = attr_bool(true)};
  run("W4.norm", "nn.batch_norm", (Type[]){x, c, c}, 3, attrs, elements, pool);
  run("W4.norm", "nn.batch_norm_grad", (Type[]){x, x, c, c, c}, 5, NULL, elements, pool);
  Type t = type2(2048, 128), d = type1(128), rows = type1(2048);
  run("W5.norm", "nn.layer_norm", (Type[]){t, d, d}, 3, NULL, (double)type_count(&t), pool);
  run("W5.norm", "nn.layer_norm_grad", (Type[]){t, t, rows, rows, d}, 5, NULL,
      (double)type_count(&t), pool);
}

static void bench_rnn(Pool *pool) {
  int64_t b = 32, t = 64, f = 128, u = 256;
  double flops = 2.0 * (double)(b * t * (f + u) * 4 * u),
         recurrent = 2.0 * (double)(b * t * u * 4 * u);
  Type x = type3(b, t, f), w = type2(f, 4 * u), r = type2(u, 4 * u), bias = type1(4 * u),
       s = type2(b, u), y = type3(b, t, u);
  run("W6.lstm", "nn.lstm", (Type[]){x, w, r, bias, s, s}, 6, NULL, flops, pool);
  run("W6.lstm", "nn.lstm_grad", (Type[]){y, s, s, r, type3(b, t, 4 * u), y}, 6, NULL, recurrent,
      pool);
  Type w3 = type2(f, 3 * u), r3 = type2(u, 3 * u), bias3 = type2(2, 3 * u);
  run("W6.gru", "nn.gru", (Type[]){x, w3, r3, bias3, s}, 5, NULL, flops * 0.75, pool);
  run("W6.gru", "nn.gru_grad", (Type[]){y, s, r3, type3(b, t, 3 * u), y, y}, 6, NULL,
      recurrent * 0.75, pool);
}

static void bench_attention(Pool *pool) {
  Type q = type4(16, 128, 4, 32);
  double flops = 2.0 * 2 * 16 * 4 * 128 * 128 * 32; /* in full: causal ones do half */
  Attr causal[MAX_ATTRS] = {attr_bool(true)};
  run("W5.attention", "nn.dot_product_attention", (Type[]){q, q, q}, 3, NULL, flops, pool);
  run("W5.causal", "nn.dot_product_attention", (Type[]){q, q, q}, 3, causal, flops, pool);
  run("W5.attention", "nn.attention_grad", (Type[]){q, q, q, q}, 4, NULL, flops * 2.5, pool);
  run("W5.causal", "nn.attention_grad", (Type[]){q, q, q, q}, 4, causal, flops * 2.5, pool);
  Type l = type4(1, 2048, 8, 64);
  run("long", "nn.dot_product_attention", (Type[]){l, l, l}, 3, causal, 4.0 * 8 * 2048 * 2048 * 64,
      pool);
  run("long", "nn.attention_grad", (Type[]){l, l, l, l}, 4, causal, 10.0 * 8 * 2048 * 2048 * 64,
      pool);
}

static bool wanted(int count, char **names, const char *name) {
  for (int i = 2; i < count; i++)
    if (!strncmp(name, names[i], strlen(names[i]))) return true;
  return count <= 2;
}

int main(int count, char **arguments) {
  int threads = count > 1 ? atoi(arguments[1]) : 1;
  bool same = count > 1 && !strcmp(arguments[1], "same");
  Pool *pool = same ? NULL : pool_new(threads > 0 ? threads : 1);
  for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
    if (wanted(count, arguments, convs[i].label)) bench_conv(&convs[i], pool);
  if (wanted(count, arguments, "pool")) bench_pool(pool);
  if (wanted(count, arguments, "norm")) bench_norm(pool);
  if (wanted(count, arguments, "rnn")) bench_rnn(pool);
  if (wanted(count, arguments, "attention")) bench_attention(pool);
  pool_free(pool);
  return 0;
}
