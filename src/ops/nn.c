#include "ops/nn.h"

#include <string.h>
#include <strings.h>

#include "base/interrupt.h"

/* ---- parallel chunks with scratch ---- */

typedef struct Run {
  NnTask task;
  void *context;
  char *slots;
  size_t slot_bytes;
  int64_t count, lanes; /* lanes: 0 when slots are the pool's own */
  CancellableLoop loop;
} Run;

static void run_chunk(void *context, int64_t chunk, int slot) {
  Run *r = context;
  if (interrupt_cancels(&r->loop)) return;
  if (!r->lanes) {
    r->task(r->context, chunk, r->slots + (size_t)slot * r->slot_bytes);
    return;
  }
  for (int64_t i = chunk; i < r->count && !interrupt_cancels(&r->loop); i += r->lanes)
    r->task(r->context, i, r->slots + (size_t)chunk * r->slot_bytes);
}

void nn_run(const Call *c, int64_t count, void *slots, size_t slot_bytes, NnTask task,
            void *context) {
  if (count <= 0) return;
  Run r = {task,
           context,
           slots,
           slot_bytes,
           count,
           pool_size(c->pool) > NN_SLOTS ? NN_SLOTS : 0,
           interrupt_begin_loop()};
  pool_run(c->pool, r.lanes && r.lanes < count ? r.lanes : count, run_chunk, &r);
  interrupt_end_loop(&r.loop);
}

void *room_take(Room *r, size_t bytes) {
  void *piece = r->base ? r->base + r->used : NULL;
  r->used += (bytes + 63) & ~(size_t)63;
  return piece;
}

/* ---- infer ---- */

const char *nn_input_name(const Node *n, int i, char buffer[40]) {
  size_t length = strcspn(n->op->inputs[i], "?");
  if (length > 39) length = 39;
  memcpy(buffer, n->op->inputs[i], length);
  buffer[length] = 0;
  return buffer;
}

Status nn_want_float(Error *e, const Node *n, int first, int count) {
  char name[40], other[40];
  for (int i = first; i < first + count && i < n->in_count; i++) {
    Dtype d = n->in[i]->type.dtype;
    if (!dtype_is_float(d))
      return fail(e, ERR_TYPE, "%s must be floating point, got %s%s", nn_input_name(n, i, name),
                  dtype_name(d), d == U8 ? "; convert it by ipu.cast, in a dataset by map" : "");
    if (d != n->in[first]->type.dtype)
      return fail(e, ERR_TYPE, "%s is %s, but %s is %s; ipu.cast one of them",
                  nn_input_name(n, i, name), dtype_name(d), nn_input_name(n, first, other),
                  dtype_name(n->in[first]->type.dtype));
  }
  return OK;
}

Status nn_want_rank(Error *e, const char *what, const Type *t, int rank) {
  char text[TYPE_TEXT];
  if (t->rank == rank) return OK;
  return fail(e, ERR_INVALID_ARGUMENT, "%s must have rank %d, got %s", what, rank,
              shape_text(t, text));
}

bool nn_is(const Attr *a, const char *word) {
  return a->kind == ATTR_STRING && a->s && !strcasecmp(a->s, word);
}

/* ---- windows ---- */

static bool is_outer_one(const Attr *a, int rank) {
  return a->ints.n == rank + 2 && a->ints.v[0] == 1 && a->ints.v[rank + 1] == 1;
}

Status nn_spatial(Error *e, const char *what, const Attr *a, int rank, int64_t smallest,
                  const int64_t *absent, int64_t out[SPATIAL]) {
  for (int i = 0; i < SPATIAL; i++) out[i] = 1;
  int skip = SPATIAL - rank;
  if (a->kind == ATTR_NONE) {
    for (int i = skip; i < SPATIAL; i++) out[i] = absent[i];
    return OK;
  }
  const int64_t *v = is_outer_one(a, rank) ? a->ints.v + 1 : a->ints.v;
  int n = is_outer_one(a, rank) ? rank : a->ints.n;
  if (n != 1 && n != rank)
    return fail(e, ERR_VALUE, "%s must be one integer or %d of them, got %d", what, rank,
                a->ints.n);
  for (int i = 0; i < rank; i++) {
    int64_t x = v[n == 1 ? 0 : i];
    if (x < smallest)
      return fail(e, ERR_VALUE, "%s must be at least %lld, got %lld", what, (long long)smallest,
                  (long long)x);
    if (x > INT32_MAX)
      return fail(e, ERR_VALUE, "%s must be at most %d, got %lld", what, INT32_MAX, (long long)x);
    out[skip + i] = x;
  }
  return OK;
}

Status nn_reach(Error *e, const Window *w, int i, int64_t extent, int64_t *reach) {
  *reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
  if (extent <= INT32_MAX && *reach <= INT32_MAX) return OK;
  return fail(e, ERR_INVALID_ARGUMENT,
              "a window of %lld over an extent of %lld: both must be at most %d", (long long)*reach,
              (long long)extent, INT32_MAX);
}

Status nn_window(Error *e, const Attr *padding, Window *w) {
  bool same = nn_is(padding, "SAME"), causal = nn_is(padding, "CAUSAL");
  if (!same && !causal && !nn_is(padding, "VALID"))
    return fail(e, ERR_VALUE, "padding must be VALID%s or SAME, got %s",
                w->rank == 1 ? ", CAUSAL" : "", padding->s ? padding->s : "nothing");
  if (causal && w->rank != 1)
    return fail(e, ERR_VALUE, "padding CAUSAL is for one spatial dimension, here are %d", w->rank);
  for (int i = 0; i < SPATIAL; i++) {
    int64_t reach;
    Status s = nn_reach(e, w, i, w->in[i], &reach);
    if (s != OK) return s;
    w->pad[i] = 0;
    if (same || causal) {
      w->out[i] = (w->in[i] + w->stride[i] - 1) / w->stride[i];
      int64_t total = (w->out[i] - 1) * w->stride[i] + reach - w->in[i];
      w->pad[i] = causal ? reach - 1 : total > 0 ? total / 2 : 0;
      continue;
    }
    if (w->in[i] < reach)
      return fail(e, ERR_INVALID_ARGUMENT,
                  "a window of %lld does not fit into an extent of %lld; use padding SAME",
                  (long long)reach, (long long)w->in[i]);
    w->out[i] = (w->in[i] - reach) / w->stride[i] + 1;
  }
  return OK;
}

/* ---- words for gradients ---- */

Value *nn_mean(Graph *g, Value *x, const int64_t *axes, int count) {
  if (!x) return NULL;
  double n = 1;
  for (int i = 0; i < count; i++) n *= (double)x->type.shape[axes[i]];
  return ops_scale(g, ops_sum(g, x, axes, count, true), n > 0 ? 1 / n : 0);
}

Value *nn_plus(Graph *g, Value *a, Value *b) { return a && b ? ops_add(g, a, b) : a ? a : b; }
