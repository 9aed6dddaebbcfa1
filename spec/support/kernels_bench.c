/* Speed of the kernels on one thread: GEMM of the layers that the workloads train, and elementwise and row kernels.
 * usage: kernels_bench [isa [gemm|ops]]      (isa: base, avx2, avx512; the best one when left out) */
#include "kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 7 };

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median seconds of one call over rounds of about 15 ms. */
static double measure(void (*f)(void *), void *context) {
  f(context);
  double start = seconds(), each, times[ROUNDS];
  f(context);
  each = seconds() - start;
  int repeats = (int)(0.015 / (each + 1e-9)) + 1;
  for (int r = 0; r < ROUNDS; r++) {
    start = seconds();
    for (int i = 0; i < repeats; i++) f(context);
    times[r] = (seconds() - start) / repeats;
  }
  qsort(times, ROUNDS, sizeof *times, compare);
  return times[ROUNDS / 2];
}

static void *buffer(size_t bytes) {
  float *p = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
  if (!p) exit(1);
  for (size_t i = 0; i < bytes / 4; i++) p[i] = (float)((i * 2654435761u >> 16) & 1023) / 1024 - 0.5f;
  return p;
}

typedef struct GemmCall {
  const Kernels *k;
  Gemm g;
  GemmPlan plan;
} GemmCall;

static void call_gemm(void *context) {
  GemmCall *c = context;
  for (int64_t i = 0; i < c->plan.pack_chunks; i++) c->k->gemm_pack(F32, &c->g, i);
  for (int64_t i = 0; i < c->plan.chunks; i++) c->k->gemm_run(F32, &c->g, i, 0);
}

/* Forward of a layer Y [batch, out] = X [batch, in] W [in, out]; dW = X' dY; dX = dY W'. */
static const struct {
  const char *name;
  int64_t batch, in, out;
} layers[] = {{"W1.l1", 32, 784, 128},        {"W1.l2", 32, 128, 10},        {"W2.l1", 32, 784, 256},
              {"W2.l2", 32, 256, 128},        {"W2.l3", 32, 128, 64},        {"W2.l4", 32, 64, 32},
              {"W2.l5", 32, 32, 10},          {"W3.conv1/img", 676, 9, 32},  {"W3.conv2/img", 576, 288, 64},
              {"W3.fc1", 64, 9216, 128},      {"W4.s1/img", 1024, 144, 16},  {"W4.s2/img", 256, 288, 32},
              {"W4.s3/img", 64, 576, 64},     {"W5.qkv", 2048, 128, 384},    {"W5.proj", 2048, 128, 128},
              {"W5.fc1", 2048, 128, 512},     {"W5.fc2", 2048, 512, 128},    {"W5.head", 2048, 128, 65},
              {"W5.qk/head", 128, 32, 128},   {"W5.av/head", 128, 128, 32},  {"W6.step", 32, 256, 1024},
              {"W6.in", 2048, 128, 1024},     {"W6.head", 2048, 256, 65},    {"W7.l1", 256, 1024, 4096},
              {"W7.l2", 256, 4096, 4096},     {"W7.l3", 256, 4096, 1024},    {"sq512", 512, 512, 512},
              {"sq2048", 2048, 2048, 2048}};

static void bench_gemm(const Kernels *k) {
  size_t most = (size_t)4096 * 4096 * 4;
  void *a = buffer(most), *b = buffer(most), *c = buffer(most);
  printf("%-14s %-7s %16s %10s %8s\n", "layer", "pass", "m x n x k", "us", "GFLOP/s");
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (int pass = 0; pass < 3; pass++) {
      int64_t batch = layers[i].batch, in = layers[i].in, out = layers[i].out;
      GemmCall call = {.k = k, .g = {.a = a, .b = b, .c = c, .a_col = 1, .b_col = 1}};
      Gemm *g = &call.g;
      if (pass == 0) g->m = batch, g->n = out, g->k = in, g->a_row = in, g->b_row = out;
      if (pass == 1) g->m = in, g->n = out, g->k = batch, g->a_row = 1, g->a_col = in, g->b_row = out;
      if (pass == 2) g->m = batch, g->n = in, g->k = out, g->a_row = out, g->b_row = 1, g->b_col = out;
      g->c_row = g->n;
      call.plan = k->gemm_plan(F32, g);
      g->shared = aligned_alloc(64, call.plan.shared_bytes + 64);
      g->slots = aligned_alloc(64, call.plan.slot_bytes + 64);
      g->slot_bytes = call.plan.slot_bytes;
      double t = measure(call_gemm, &call);
      char shape[64];
      snprintf(shape, sizeof shape, "%dx%dx%d", (int)g->m, (int)g->n, (int)g->k);
      printf("%-14s %-7s %16s %10.2f %8.1f   %d chunks\n", layers[i].name, (const char *[]){"fwd-NN", "dW-TN", "dX-NT"}[pass], shape,
             t * 1e6, 2e-9 * (double)g->m * (double)g->n * (double)g->k / t, (int)call.plan.chunks);
      free(g->shared);
      free(g->slots);
    }
  free(a);
  free(b);
  free(c);
}

int main(int argc, char **argv) {
  const Kernels *k = argc > 1 ? kernels_find(argv[1]) : kernels_select();
  if (!k) {
    fprintf(stderr, "this CPU has no %s\n", argv[1]);
    return 1;
  }
  printf("%s\n", k->name);
  bench_gemm(k);
  return 0;
}
