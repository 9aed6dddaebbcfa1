#include "ops/io/combining.h"

#include <math.h>
#include <string.h>

#include "dist/chain.h"
#include "ops/support.h"

const char *const combination_names[] = {[ADD] = "ADD",
                                         [MUL] = "MUL",
                                         [MIN] = "MIN",
                                         [MAX] = "MAX",
                                         [LOGICAL_AND] = "LOGICAL_AND",
                                         [LOGICAL_OR] = "LOGICAL_OR",
                                         [SQUARE_ADD] = "SQUARE_ADD",
                                         [LOCAL] = "LOCAL",
                                         [MEAN] = "MEAN"};

Combination combination_of(const char *name) {
  for (Combination o = ADD; o <= MEAN; o++)
    if (!strcmp(name, combination_names[o])) return o;
  return ADD;
}

static void load(const Call *c, const void *from, int64_t begin, int64_t n, Block *to) {
  Dtype d = c->in_type[0]->dtype;
  const char *x = (const char *)from + (size_t)begin * dtype_size(d);
  const void *in[1] = {x};
  if (d == F32 || d == F64) memcpy(to, x, (size_t)n * dtype_size(d));
  else if (dtype_is_narrow(d)) c->kernels->cast[d][F32](in, 0, to->f32, n, NULL);
  else
    for (int64_t i = 0; i < n; i++) to->integer[i] = dtype_get_integer(d, x, i);
}

bool block_overflows(const Call *c, const Block *x, int64_t n) {
  if (c->out_type[0]->dtype != F16 || !c->numerics || !c->numerics->trap_overflow) return false;
  for (int64_t i = 0; i < n; i++)
    if (fabsf(x->f32[i]) > 65504.0f && isfinite(x->f32[i])) return true;
  return false;
}

void block_store(const Call *c, const Block *from, void *to, int64_t begin, int64_t n,
                 int64_t position) {
  Dtype d = c->out_type[0]->dtype;
  char *y = (char *)to + (size_t)begin * dtype_size(d);
  const void *in[1] = {from->f32};
  if (d == F32 || d == F64) memcpy(y, from, (size_t)n * dtype_size(d));
  else if (d == F16)
    narrow_f16_by(c->kernels, from->f32, (f16 *)(void *)y, n, c->numerics, &c->rng,
                  (uint64_t)position);
  else if (d == BF16) c->kernels->cast[F32][BF16](in, 0, y, n, NULL);
  else
    for (int64_t i = 0; i < n; i++) dtype_set_integer(d, y, i, from->integer[i]);
}

/* acc = acc op x, for a prepared x. */
#define COMBINE(id, T, ADDED, TIMES)                                                            \
  static void combine_##id(Combination o, T *restrict acc, const T *restrict x, int64_t n) {    \
    switch (o) {                                                                                \
      case ADD:                                                                                 \
      case MEAN:                                                                                \
      case SQUARE_ADD:                                                                          \
      case LOCAL:                                                                               \
        for (int64_t i = 0; i < n; i++) acc[i] = ADDED(acc[i], x[i]);                           \
        break;                                                                                  \
      case MUL:                                                                                 \
        for (int64_t i = 0; i < n; i++) acc[i] = TIMES(acc[i], x[i]);                           \
        break;                                                                                  \
      case MIN:                                                                                 \
        for (int64_t i = 0; i < n; i++) acc[i] = x[i] < acc[i] || x[i] != x[i] ? x[i] : acc[i]; \
        break;                                                                                  \
      case MAX:                                                                                 \
        for (int64_t i = 0; i < n; i++) acc[i] = x[i] > acc[i] || x[i] != x[i] ? x[i] : acc[i]; \
        break;                                                                                  \
      case LOGICAL_AND:                                                                         \
        for (int64_t i = 0; i < n; i++) acc[i] = acc[i] != 0 && x[i] != 0;                      \
        break;                                                                                  \
      case LOGICAL_OR:                                                                          \
        for (int64_t i = 0; i < n; i++) acc[i] = acc[i] != 0 || x[i] != 0;                      \
        break;                                                                                  \
    }                                                                                           \
  }                                                                                             \
  static void prepare_##id(Combination o, T *x, int64_t n, T members) {                         \
    if (o == SQUARE_ADD)                                                                        \
      for (int64_t i = 0; i < n; i++) x[i] = TIMES(x[i], x[i]);                                 \
    if (o == MEAN) /* before adding, so that nothing overflows */                               \
      for (int64_t i = 0; i < n; i++) x[i] = x[i] / members;                                    \
  }
#define PLUS(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define PLUS_WRAPPING(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define PRODUCT_WRAPPING(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
COMBINE(f32, float, PLUS, PRODUCT)
COMBINE(f64, double, PLUS, PRODUCT)
COMBINE(integer, int64_t, PLUS_WRAPPING, PRODUCT_WRAPPING)
#undef COMBINE

static void prepare(Dtype d, Combination o, Block *x, int64_t n, int members) {
  if (d == F64) prepare_f64(o, x->f64, n, members);
  else if (dtype_is_float(d)) prepare_f32(o, x->f32, n, (float)members);
  else prepare_integer(o, x->integer, n, members);
}

static void combine(Dtype d, Combination o, Block *acc, const Block *x, int64_t n) {
  if (d == F64) combine_f64(o, acc->f64, x->f64, n);
  else if (dtype_is_float(d)) combine_f32(o, acc->f32, x->f32, n);
  else combine_integer(o, acc->integer, x->integer, n);
}

/* A sum's or mean's next summand in float32, read in place. A division by a power of two is a
 * multiplication, bit for bit. */
static void take_in_f32(float *restrict acc, const float *restrict x, int64_t n, bool is_first,
                        float members) {
  float share = 1.0f / members;
  int exponent;
  bool exact = frexpf(members, &exponent) == 0.5f;
  if (is_first && exact)
    for (int64_t i = 0; i < n; i++) acc[i] = x[i] * share;
  else if (is_first)
    for (int64_t i = 0; i < n; i++) acc[i] = x[i] / members;
  else if (exact)
    for (int64_t i = 0; i < n; i++) acc[i] += x[i] * share;
  else
    for (int64_t i = 0; i < n; i++) acc[i] += x[i] / members;
}

/* The first two summands at once. */
static void take_two_in_f32(float *restrict acc, const float *restrict x, const float *restrict y,
                            int64_t n, float members) {
  float share = 1.0f / members;
  int exponent;
  if (frexpf(members, &exponent) == 0.5f)
    for (int64_t i = 0; i < n; i++) acc[i] = x[i] * share + y[i] * share;
  else
    for (int64_t i = 0; i < n; i++) acc[i] = x[i] / members + y[i] / members;
}

bool is_plain_sum(Dtype d, Combination o) { return d == F32 && (o == ADD || o == MEAN); }

static const float *summand(const Call *const *replica, const Groups *g, int group, int i) {
  return replica[group * g->group + i * g->member]->in[0];
}

void add_group(const Call *const *replica, const Groups *g, int group, Combination o, int64_t begin,
               int64_t n, float *acc) {
  float members = o == MEAN ? (float)g->size : 1.0f;
  const float *first = summand(replica, g, group, 0) + begin;
  if (g->size == 1) take_in_f32(acc, first, n, true, members);
  else take_two_in_f32(acc, first, summand(replica, g, group, 1) + begin, n, members);
  for (int i = 2; i < g->size; i++)
    take_in_f32(acc, summand(replica, g, group, i) + begin, n, false, members);
}

void combine_group(const Call *const *replica, const Groups *g, int group, Combination o,
                   int64_t begin, int64_t n, Block *acc) {
  Dtype d = replica[0]->in_type[0]->dtype;
  Block x;
  if (is_plain_sum(d, o)) {
    add_group(replica, g, group, o, begin, n, acc->f32);
    return;
  }
  for (int i = 0; i < g->size; i++) {
    const Call *c = replica[group * g->group + i * g->member];
    load(c, c->in[0], begin, n, i ? &x : acc);
    prepare(d, o, i ? &x : acc, n, g->size);
    if (i) combine(d, o, acc, &x, n);
  }
}

Status combining_finish(const Combining *m) {
  const Call *c = m->replica[0];
  if (!m->overflow) return OK;
  return fail_at(c->error, c->source, ERR_INTERNAL,
                 "Tiles in excepted state: an overflow (oflo) in %s", c->node->op->name);
}

/* ---- along the chain of instances ---- */

typedef struct FarSum {
  const Call *const *replica; /* [count] of this instance */
  int count, all;
  Combination combination;
  _Atomic bool overflow;
} FarSum;

/* Bytes of an accumulator in a message: of the dtype that a block computes with. */
static size_t accumulator_bytes(Dtype d) { return !dtype_is_float(d) || d == F64 ? 8 : 4; }

static void far_add(void *context, int64_t begin, int64_t n, void *acc, bool is_first) {
  FarSum *f = context;
  Dtype d = f->replica[0]->in_type[0]->dtype;
  size_t size = accumulator_bytes(d);
  if (is_plain_sum(d, f->combination)) {
    float members = f->combination == MEAN ? (float)f->all : 1.0f;
    for (int r = 0; r < f->count; r++)
      take_in_f32(acc, (const float *)f->replica[r]->in[0] + begin, n, is_first && !r, members);
    return;
  }
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t m = min(BLOCK, n - at);
    char *where = (char *)acc + (size_t)at * size;
    Block sum, x;
    if (!is_first) memcpy(&sum, where, (size_t)m * size);
    for (int r = 0; r < f->count; r++) {
      Block *into = r || !is_first ? &x : &sum;
      load(f->replica[r], f->replica[r]->in[0], begin + at, m, into);
      prepare(d, f->combination, into, m, f->all);
      if (into == &x) combine(d, f->combination, &sum, &x, m);
    }
    memcpy(where, &sum, (size_t)m * size);
  }
}

static void far_take(void *context, int64_t begin, int64_t n, const void *acc) {
  FarSum *f = context;
  size_t size = accumulator_bytes(f->replica[0]->in_type[0]->dtype);
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t m = min(BLOCK, n - at);
    Block sum;
    memcpy(&sum, (const char *)acc + (size_t)at * size, (size_t)m * size);
    if (block_overflows(f->replica[0], &sum, m)) f->overflow = true;
    for (int r = 0; r < f->count; r++)
      block_store(f->replica[r], &sum, f->replica[r]->out[0], begin + at, m, begin + at);
  }
}

Status collective_far(const Call *const *replica, int count, int all, const FarMeeting *far,
                      Combination o) {
  const Call *c = replica[0];
  FarSum f = {.replica = replica, .count = count, .all = all, .combination = o};
  ChainSum sum = {.count = type_count(c->in_type[0]),
                  .element_bytes = accumulator_bytes(c->in_type[0]->dtype),
                  .add = far_add,
                  .take = far_take,
                  .context = &f};
  Status s = instances_chain(far->instances, &far->meeting, &sum, c->error);
  return s == OK ? combining_finish(&(Combining){.replica = replica, .overflow = f.overflow}) : s;
}
