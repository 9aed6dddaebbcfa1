/* An op in C for custom_op.lua: y = x + amount * sin(x * frequency)^2 / frequency, the
 * "snake" activation. */
#include <ipulua_op.h>
#include <math.h>

static int infer(const IpuHost *h, IpuNode *n) {
  const IpuType *x = h->input_type(n, 0);
  if (x->dtype != IPU_FLOAT32 && x->dtype != IPU_FLOAT64)
    return h->fail(n, "operands must be float32 or float64");
  if (h->get_float(n, 0) <= 0) return h->fail(n, "frequency must be positive");
  return h->set_output(n, 0, x);
}

typedef struct Work {
  const IpuCall *call;
  double frequency;
} Work;

static double snake(double x, double a) { return x + sin(a * x) * sin(a * x) / a; }

static void body(void *context, int64_t begin, int64_t end) {
  const Work *w = context;
  const void *x = w->call->in[0];
  void *y = w->call->out[0];
  for (int64_t i = begin; i < end; i++) {
    if (w->call->in_type[0]->dtype == IPU_FLOAT32)
      ((float *)y)[i] = (float)snake(((const float *)x)[i], w->frequency);
    else ((double *)y)[i] = snake(((const double *)x)[i], w->frequency);
  }
}

static int eval(const IpuHost *h, const IpuCall *c) {
  Work w = {c, h->get_float(c->node, 0)};
  h->parallel(c, h->count(c->in_type[0]), 4096, body, &w);
  return 0;
}

/* dx = dy * (1 + sin(2 a x)) */
static int grad(const IpuHost *h, IpuGraph *g, const IpuNode *n, IpuValue *const *dy,
                IpuValue **dx) {
  IpuValue *x = h->input(n, 0);
  int dtype = h->input_type(n, 0)->dtype;
  IpuValue *angle =
      h->apply(g, "mul", (IpuValue *[]){x, h->number(g, dtype, 2 * h->get_float(n, 0))}, 2, NULL);
  IpuValue *slope = h->apply(
      g, "add", (IpuValue *[]){h->apply(g, "sin", &angle, 1, NULL), h->number(g, dtype, 1)}, 2,
      NULL);
  dx[0] = h->apply(g, "mul", (IpuValue *[]){dy[0], slope}, 2, NULL);
  return 0;
}

/* Two elements in a vector, about 40 cycles each for the sine. */
static void cost(const IpuHost *h, const IpuNode *n, const IpuTile *tile, IpuCost *c) {
  c->compute_cycles = 40 * (double)h->count(h->input_type(n, 0)) / 2 / tile->tiles;
}

static const IpuOp ops[] = {{.name = "snake",
                             .summary = "x + sin(frequency x)^2 / frequency.",
                             .shapes = "[...] -> [...]",
                             .inputs = {"x"},
                             .attributes = {{"frequency", IPU_ATTR_FLOAT, "1"}},
                             .infer = infer,
                             .eval = eval,
                             .grad = grad,
                             .cost = cost},
                            {.name = NULL}};

const IpuOpLibrary *ipulua_op_library(const IpuHost *host) {
  static const IpuOpLibrary library = {IPU_OP_ABI, sizeof(IpuOp), ops};
  return host->abi == IPU_OP_ABI ? &library : NULL;
}
