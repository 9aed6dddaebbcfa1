/* Elements left out by chance. */
#include <string.h>

#include "ops/random/random.h"

enum { RATE, NOISE_SHAPE };

static Status infer_dropout(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  const Attr *noise = &n->attr[NOISE_SHAPE];
  double rate = n->attr[RATE].f;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Status s = infer_float(e, n);
  if (s == OK) s = random_check_counter(e, n);
  if (s != OK) return s;
  if (!(rate >= 0 && rate < 1))
    return fail(e, ERR_VALUE, "rate must be at least 0 and below 1, got %g", rate);
  if (!attr_given(noise)) return OK;
  if (noise->ints.n > x->rank)
    return fail(e, ERR_VALUE, "noise_shape has %d extent%s, but x is %s", noise->ints.n,
                plural(noise->ints.n), shape_text(x, b));
  Type mask = type_make(BOOL, noise->ints.n, noise->ints.v), both;
  for (int i = 0; i < mask.rank; i++)
    if (mask.shape[i] == -1 && mask.rank == x->rank) mask.shape[i] = x->shape[i];
  s = type_check(e, "noise_shape", &mask);
  if (s != OK) return s;
  if (!type_broadcast(x, &mask, &both) || !shape_equal(&both, x))
    return fail(e, ERR_INVALID_ARGUMENT, "noise_shape %s doesn't broadcast to %s",
                shape_text(&mask, a), shape_text(x, b));
  return set_ints(e, n, NOISE_SHAPE, mask.shape, mask.rank);
}

/* Kept where the word isn't below this. */
static uint32_t limit_of(const Call *c) { return (uint32_t)(c->attr[RATE].f * 0x1p32); }

/* A mask of bits instead of a choice, which would be a guess half of the time. */
#define KEEP(id, T, B)                                                                \
  static void keep_##id(const Draw *d, const uint32_t *w, int64_t first, int64_t n) { \
    uint32_t limit = limit_of(d->call);                                               \
    T scale = (T)(1 / (1 - d->call->attr[RATE].f));                                   \
    const T *x = (const T *)d->call->in[0] + first;                                   \
    T *y = (T *)d->call->out[0] + first;                                              \
    for (int64_t i = 0; i < n; i++) {                                                 \
      T kept = x[i] * scale;                                                          \
      B bits;                                                                         \
      memcpy(&bits, &kept, sizeof bits);                                              \
      bits &= (B)0 - (B)(w[i] >= limit);                                              \
      memcpy(&y[i], &bits, sizeof bits);                                              \
    }                                                                                 \
  }
KEEP(f32, float, uint32_t)
KEEP(f64, double, uint64_t)

static void dropout_part(void *context, int64_t begin, int64_t end) {
  const Draw *d = context;
  random_each_batch(d, 1, begin, end, d->dtype == F64 ? keep_f64 : keep_f32);
}

/* A mask that is the same along some axes. */
static void drop_alike(const Call *c, const Type *mask) {
  const Type *x = c->in_type[0];
  Type one = {.dtype = x->dtype};
  RngKey key = random_key(c);
  uint8_t *kept = c->scratch;
  double zero = 0;
  for (int64_t i = 0; i < type_count(mask); i++)
    kept[i] = rng_bits(&key, (uint64_t)i) >= limit_of(c);
  run_kernel(c, EW_WHERE, 3, (const Type *[]){mask, x, &one},
             (const void *[]){kept, c->in[0], &zero}, x, c->out[0], NULL);
  run_number(c, EW_MUL, x, c->out[0], 1 / (1 - c->attr[RATE].f), c->out[0]);
}

static Status body_dropout(const Call *c) {
  const Attr *noise = &c->attr[NOISE_SHAPE];
  if (!attr_given(noise)) return random_draw(c, dropout_part);
  Type mask = type_make(BOOL, noise->ints.n, noise->ints.v);
  drop_alike(c, &mask);
  return OK;
}
static Status eval_dropout(const Call *c) { return eval_wide(c, body_dropout); }
static size_t scratch_dropout(const Node *n) {
  const Attr *noise = &n->attr[NOISE_SHAPE];
  Type mask = type_make(BOOL, noise->ints.n, noise->ints.v);
  return wide_scratch(n, attr_given(noise) ? (size_t)type_count(&mask) : 0);
}

/* The same counter draws the same mask. */
static void grad_dropout(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, "nn.dropout", (Value *[]){dy[0], n->in[1]}, 2, n->attr);
}

const OpDef ops_dropout[] = {
    {.name = "nn.dropout",
     .source = "Srivastava et al., Dropout, 2014",
     .summary = "Each element is 0 with probability rate, else x / (1 - rate).",
     .shapes = "any",
     .inputs = {"x", "counter"},
     .attrs = {{"rate", ATTR_FLOAT, "0.5", NULL, "probability of 0, in [0, 1)"},
               {"noise_shape", ATTR_INTS, "nil", NULL,
                "shape of the mask, broadcast to x; -1: x's extent"},
               RANDOM_SEED},
     .traits = RANDOM | IN_PLACE(0),
     .infer = infer_dropout,
     .cost = cost_of_dropout,
     .eval = eval_dropout,
     .scratch = scratch_dropout,
     .grad = grad_dropout,
     .sample =
         "F[4,5] | F[3,4,2] {rate = 0.3, noise_shape = {3, 1, 2}} | F[] | F[20000] {rate = 0.1, seed = "
         "3} | F[3,4] {noise_shape = {-1, 1}}"},
    {0}};
