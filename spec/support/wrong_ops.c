/* A library of ops. Each does one thing wrong; spec/lua/custom_spec.lua says how each is refused.
 * With -DROW=… it has that row alone, which is wrong as it stands. */
#include <ipulua_op.h>
#include <string.h>

static int same(const IpuHost *h, IpuNode *n) { return h->set_output(n, 0, h->input_type(n, 0)); }

static int copy(const IpuHost *h, const IpuCall *c) {
  memcpy(c->out[0], c->in[0], h->bytes(c->out_type[0]));
  return 0;
}

#ifdef ROW
static const IpuOp ops[] = {ROW, {.name = 0}};
#else
static int shape(const IpuHost *h, IpuNode *n, int rank, int64_t extent) {
  IpuType t = *h->input_type(n, 0);
  t.rank = rank;
  for (int i = 0; i < IPU_OP_RANK; i++) t.shape[i] = extent;
  return h->set_output(n, 0, &t);
}
static int negative(const IpuHost *h, IpuNode *n) { return shape(h, n, 1, -5); }
static int huge(const IpuHost *h, IpuNode *n) { return shape(h, n, 2, (int64_t)1 << 62); }
static int ninth(const IpuHost *h, IpuNode *n) { return shape(h, n, 9, 1); }
static int nothing(const IpuHost *h, IpuNode *n) { return (void)h, (void)n, 0; }
static int wordless(const IpuHost *h, IpuNode *n) { return (void)h, (void)n, 7; }

static int percent(const IpuHost *h, const IpuCall *c) { return h->fail(c->node, "100% %s %n"); }
static int sets_late(const IpuHost *h, const IpuCall *c) {
  return h->set_output((IpuNode *)c->node, 0, c->in_type[0]);
}

static size_t most(const IpuHost *h, const IpuNode *n) { return (void)h, (void)n, (size_t)-1; }
static size_t much(const IpuHost *h, const IpuNode *n) { return (void)h, (void)n, (size_t)1 << 62; }

static void no_number(const IpuHost *h, const IpuNode *n, const IpuTile *tile, IpuCost *c) {
  (void)h, (void)n, (void)tile;
  c->compute_cycles = -1e9;
  c->exchange_bytes = 1e308 * 10;
}

#define GRADIENT(name, op, count, attributes)                                           \
  static int name(const IpuHost *h, IpuGraph *g, const IpuNode *n, IpuValue *const *dy, \
                  IpuValue **dx) {                                                      \
    IpuValue *in[] = {dy[0], dy[0], dy[0], h->input(n, 7)};                             \
    dx[0] = h->apply(g, op, in, count, attributes);                                     \
    return 0;                                                                           \
  }
GRADIENT(fine, "nn.softmax", 1, "{ axis = 0 }")
GRADIENT(few, "mul", 1, NULL)
GRADIENT(many, "neg", 3, NULL)
GRADIENT(absent, "concat", 4, "{axis = 0}")
GRADIENT(draws, "random.normal", 0, "{shape = {2}}")
GRADIENT(inner, "while", 1, NULL)
GRADIENT(no_shape, "reshape", 1, NULL)
GRADIENT(word, "nn.softmax", 1, "{axis = 'x'}")
GRADIENT(cut, "nn.softmax", 1, "{axis")
GRADIENT(open_list, "reshape", 1, "{shape = {1, {2}")
GRADIENT(large, "nn.softmax", 1, "{axis = 99999999999999999999}")
GRADIENT(behind, "nn.softmax", 1, "{axis = 0} and more")

#define OP(text, i, e, ...) {.name = text, .inputs = {"x"}, .infer = i, .eval = e, __VA_ARGS__}
#define DERIVED(name) OP("wrong_" #name, same, copy, .grad = name)
static const IpuOp ops[] = {OP("wrong_negative", negative, copy, .outputs = 1),
                            OP("wrong_huge", huge, copy, .outputs = 1),
                            OP("wrong_ninth", ninth, copy, .outputs = 1),
                            OP("wrong_nothing", nothing, copy, .outputs = 1),
                            OP("wrong_wordless", wordless, copy, .outputs = 1),
                            OP("wrong_percent", same, percent, .outputs = 1),
                            OP("wrong_sets_late", same, sets_late, .outputs = 1),
                            OP("wrong_most", same, copy, .scratch = most),
                            OP("wrong_much", same, copy, .scratch = much),
                            OP("wrong_cost", same, copy, .cost = no_number),
                            OP("right_cost", same, copy, .outputs = 1),
                            DERIVED(fine),
                            DERIVED(few),
                            DERIVED(many),
                            DERIVED(absent),
                            DERIVED(draws),
                            DERIVED(inner),
                            DERIVED(no_shape),
                            DERIVED(word),
                            DERIVED(cut),
                            DERIVED(open_list),
                            DERIVED(large),
                            DERIVED(behind),
                            {.name = 0}};
#endif

const IpuOpLibrary *ipulua_op_library(const IpuHost *host) {
  static const IpuOpLibrary library = {IPU_OP_ABI, sizeof(IpuOp), ops};
  (void)same, (void)copy;
  return host->abi == IPU_OP_ABI ? &library : 0;
}
