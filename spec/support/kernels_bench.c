/* Speed of the kernels on one thread: matrix products of the layers that the workloads train, and
 * elementwise and row kernels. usage: kernels_bench [isa [gemm|ops]] (isa: base, avx2, avx512;
 * the best one when left out) */
#include "kernels/blas.h"
#include "kernels/products.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 7 };

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* time that other programs took doesn't count */
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of one call: the best of some rounds of about 15 ms, since other work on the machine
 * only adds. */
static double measure(void (*f)(void *), void *context) {
  f(context);
  double start = seconds(), each, best = 0;
  f(context);
  each = seconds() - start;
  int repeats = (int)(0.015 / (each + 1e-9)) + 1;
  for (int r = 0; r < ROUNDS; r++) {
    start = seconds();
    for (int i = 0; i < repeats; i++) f(context);
    double t = (seconds() - start) / repeats;
    if (r == 0 || t < best) best = t;
  }
  return best;
}

static void *buffer(size_t bytes) {
  float *p = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
  if (!p) exit(1);
  for (size_t i = 0; i < bytes / 4; i++)
    p[i] = (float)((i * 2654435761u >> 16) & 1023) / 1024 - 0.5f;
  return p;
}

typedef struct GemmCall {
  const Kernels *k;
  Gemm g;
  GemmPlan plan;
} GemmCall;

static void call_gemm(void *context) {
  GemmCall *c = context;
  for (int64_t i = 0; i < c->plan.pack_chunks; i++) product_pack(c->k, &c->plan, F32, &c->g, i);
  for (int64_t i = 0; i < c->plan.chunks; i++) product_chunk(c->k, &c->plan, F32, &c->g, i, 0);
  for (int64_t i = 0; i < c->plan.finish_chunks; i++)
    product_finish(c->k, &c->plan, F32, &c->g, i, 0);
}

static double measure_gemm(const Kernels *k, ProductUse use, const Gemm *g) {
  GemmCall call = {.k = kernels_with_products(k, use), .g = *g};
  call.plan = product_plan(call.k, F32, g);
  call.g.shared = aligned_alloc(64, (call.plan.shared_bytes + 127) / 64 * 64);
  call.g.slots = aligned_alloc(64, (call.plan.slot_bytes + 127) / 64 * 64);
  call.g.slot_bytes = call.plan.slot_bytes;
  double t = measure(call_gemm, &call);
  free(call.g.shared);
  free(call.g.slots);
  return t;
}

/* The products of a layer: Y [batch, out] = X [batch, in] W [in, out], dW = X' dY, dX = dY W'. */
static const struct {
  const char *name;
  int64_t batch, in, out;
} layers[] = {
    {"W1.l1", 32, 784, 128},      {"W1.l2", 32, 128, 10},       {"W2.l1", 32, 784, 256},
    {"W2.l2", 32, 256, 128},      {"W2.l3", 32, 128, 64},       {"W2.l4", 32, 64, 32},
    {"W2.l5", 32, 32, 10},        {"W3.conv1/img", 676, 9, 32}, {"W3.conv2/img", 576, 288, 64},
    {"W3.fc1", 64, 9216, 128},    {"W4.s1/img", 1024, 144, 16}, {"W4.s2/img", 256, 288, 32},
    {"W4.s3/img", 64, 576, 64},   {"W5.qkv", 2048, 128, 384},   {"W5.proj", 2048, 128, 128},
    {"W5.fc1", 2048, 128, 512},   {"W5.fc2", 2048, 512, 128},   {"W5.head", 2048, 128, 65},
    {"W5.qk/head", 128, 32, 128}, {"W5.av/head", 128, 128, 32}, {"W6.step", 32, 256, 1024},
    {"W6.in", 2048, 128, 1024},   {"W6.head", 2048, 256, 65},   {"W7.l1", 256, 1024, 4096},
    {"W7.l2", 256, 4096, 4096},   {"W7.l3", 256, 4096, 1024},   {"sq64", 64, 64, 64},
    {"sq128", 128, 128, 128},     {"sq256", 256, 256, 256},     {"sq512", 512, 512, 512},
    {"sq2048", 2048, 2048, 2048}};

static void bench_product(const Kernels *k, const Gemm *g, const char *name, const char *pass,
                          bool has_blas) {
  double own = measure_gemm(k, PRODUCTS_OWN, g), flops = 2e-9 * (double)g->m * (double)g->n;
  double blas = has_blas ? measure_gemm(k, PRODUCTS_OPENBLAS, g) : 0;
  char shape[64];
  flops *= (double)g->k;
  snprintf(shape, sizeof shape, "%dx%dx%d", (int)g->m, (int)g->n, (int)g->k);
  printf("%-14s %-7s %16s %10.2f %8.1f", name, pass, shape, own * 1e6, flops / own);
  if (has_blas)
    printf(" %8.1f %6.2f  %s", flops / blas, own / blas,
           product_plan(k, F32, g).openblas ? "openblas" : "own");
  printf("\n");
  fflush(stdout);
}

static void bench_gemm(const Kernels *k) {
  size_t max = (size_t)4096 * 4096 * 4;
  void *a = buffer(max), *b = buffer(max), *c = buffer(max);
  blas_choose_core(k->core);
  const Blas *blas = blas_open();
  bool has_blas = blas && blas->is_openblas;
  if (has_blas) printf("OpenBLAS %s, core %s\n", blas->version, blas->core);
  printf("%-14s %-7s %16s %10s %8s %8s %6s  goes to\n", "layer", "pass", "m x n x k", "us own",
         "GFLOP/s", "openblas", "ratio");
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (int pass = 0; pass < 3; pass++) {
      int64_t batch = layers[i].batch, in = layers[i].in, out = layers[i].out;
      Gemm g = {.a = a, .b = b, .c = c, .a_col = 1, .b_col = 1};
      if (pass == 0) g.m = batch, g.n = out, g.k = in, g.a_row = in, g.b_row = out;
      if (pass == 1) g.m = in, g.n = out, g.k = batch, g.a_row = 1, g.a_col = in, g.b_row = out;
      if (pass == 2) g.m = batch, g.n = in, g.k = out, g.a_row = out, g.b_row = 1, g.b_col = out;
      g.c_row = g.n;
      bench_product(k, &g, layers[i].name, (const char *[]){"fwd-NN", "dW-TN", "dX-NT"}[pass],
                    has_blas);
    }
  free(a);
  free(b);
  free(c);
}

typedef struct StripCall {
  const Kernels *k;
  Strip strip;
  const void *in[3];
  void *out;
  int64_t n;
} StripCall;

static void call_strip(void *context) {
  StripCall *c = context;
  const double p[4] = {0.1, 1, 0, 0};
  c->strip(c->in, 0, c->out, c->n, p);
}

typedef struct RowsCall {
  const Kernels *k;
  int what;
  int64_t rows, n;
  float *x, *y, *z;
} RowsCall;

static void call_rows(void *context) {
  RowsCall *c = context;
  const Kernels *k = c->k;
  float *mean = c->z, *inverse = mean + c->rows, *gamma = inverse + c->rows, *beta = gamma + c->n;
  switch (c->what) {
    case 0:
      k->softmax[F32](c->x, c->rows, c->n, c->y);
      break;
    case 1:
      k->layer_norm[F32](c->x, gamma, beta, 1e-5, c->rows, c->n, c->y, mean, inverse);
      break;
    case 2:
      k->layer_norm_grad[F32](c->y, c->x, gamma, mean, inverse, c->rows, c->n, c->z + (1 << 20));
      break;
    case 3:
      k->layer_norm_sums[F32](c->y, c->x, mean, inverse, c->rows, c->n, gamma, beta);
      break;
    case 4:
      k->transpose(4, c->x, 1, c->rows, c->n, c->y);
      break;
    case 5:
      k->reduce[REDUCE_SUM][F32](c->x, 1, c->rows * c->n, 1, c->y);
      break;
    case 6:
      k->reduce[REDUCE_SUM][F32](c->x, 1, c->rows, c->n, c->y);
      break;
    case 7:
      k->reduce[REDUCE_MAX][F32](c->x, c->rows, c->n, 1, c->y);
      break;
    case 8:
      k->softmax_grad[F32](c->x, c->y, c->rows, c->n, c->z);
      break;
    default:
      break;
  }
}

static void bench_ops(const Kernels *k) {
  static const struct {
    const char *name;
    Elementwise id;
  } strips[] = {
      {"add", EW_ADD}, {"mul", EW_MUL},   {"relu", EW_RELU},           {"relu_grad", EW_RELU_GRAD},
      {"exp", EW_EXP}, {"log", EW_LOG},   {"tanh", EW_TANH},           {"sigmoid", EW_SIGMOID},
      {"erf", EW_ERF}, {"gelu", EW_GELU}, {"gelu_grad", EW_GELU_GRAD}, {"gelu_tanh", EW_GELU_TANH},
      {"sin", EW_SIN}, {"sqrt", EW_SQRT}, {"maximum", EW_MAXIMUM},     {"less", EW_LESS}};
  static const int64_t sizes[] = {1024, 10240, 102400, 1024000};
  static const struct {
    Dtype from, to;
    const char *name;
  } casts[] = {{F32, F16, "f32 to f16"},   {F16, F32, "f16 to f32"}, {F32, BF16, "f32 to bf16"},
               {BF16, F32, "bf16 to f32"}, {U8, F32, "u8 to f32"},   {I32, F32, "i32 to f32"},
               {F32, I32, "f32 to i32"}};
  static const char *const rows[] = {"softmax",         "layer_norm", "layer_norm_grad",
                                     "layer_norm_sums", "transpose",  "sum",
                                     "column_sum",      "row_max",    "softmax_grad"};
  static const int64_t shapes[][2] = {{32, 16}, {2048, 80}, {8192, 128}, {1024, 1024}};
  size_t max = (size_t)12 << 20;
  float *x = buffer(max), *y = buffer(max), *z = buffer(max);
  printf("%-16s %12s %10s\n", "op", "size", "us");
  for (size_t i = 0; i < sizeof strips / sizeof *strips; i++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      StripCall c = {k, k->strip[strips[i].id][F32], {x, y}, z, sizes[s]};
      printf("%-16s %12d %10.2f\n", strips[i].name, (int)sizes[s], measure(call_strip, &c) * 1e6);
    }
  for (size_t i = 0; i < sizeof casts / sizeof *casts; i++) {
    StripCall c = {k, k->cast[casts[i].from][casts[i].to], {x}, z, 102400};
    printf("%-16s %12d %10.2f\n", casts[i].name, 102400, measure(call_strip, &c) * 1e6);
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
      RowsCall c = {k, (int)i, shapes[s][0], shapes[s][1], x, y, z};
      char shape[32];
      snprintf(shape, sizeof shape, "%dx%d", (int)c.rows, (int)c.n);
      printf("%-16s %12s %10.2f\n", rows[i], shape, measure(call_rows, &c) * 1e6);
    }
  free(x);
  free(y);
  free(z);
}

int main(int argc, char **argv) {
  const Kernels *k = kernels_at_most(argc > 1 ? argv[1] : NULL);
  if (!k || (argc > 1 && strcmp(k->name, argv[1]))) {
    fprintf(stderr, "this CPU has no %s\n", argv[1]);
    return 1;
  }
  printf("%s\n", k->name);
  if (argc < 3 || !strcmp(argv[2], "gemm")) bench_gemm(k);
  if (argc < 3 || !strcmp(argv[2], "ops")) bench_ops(k);
  return 0;
}
