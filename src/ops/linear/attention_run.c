/* Attention's shapes and evaluation. A chunk has one head and a range of queries. The scores of a
 * block of queries, [block, keys], are in scratch memory; no buffer has the size queries x keys.
 * The gradient computes the scores again. Its chunk is a head, so that sums over queries have one
 * order. */
#include "ops/linear/attention.h"

#include <math.h>
#include <string.h>

#include "ops/linear/product.h"

/* queries of a block, and bytes that its scores may take */
enum { MAX_QUERIES = 28, MIN_QUERIES = 12, SCORE_BYTES = 512 * 1024 };
enum { STRETCH = 112 }; /* queries of a chunk, where heads are few */

Status attention_of(Error *e, const Node *n, int first, Attention *a) {
  const Type *q = &n->in[first]->type, *k = &n->in[first + 1]->type, *v = &n->in[first + 2]->type;
  char x[TYPE_TEXT], y[TYPE_TEXT], z[TYPE_TEXT];
  Status s = nn_want_rank(e, "q", q, 4);
  if (s == OK) s = nn_want_rank(e, "k", k, 4);
  if (s == OK) s = nn_want_rank(e, "v", v, 4);
  if (s != OK) return s;
  bool good = q->shape[0] == k->shape[0] && k->shape[0] == v->shape[0] &&
              k->shape[1] == v->shape[1] && q->shape[2] == k->shape[2] &&
              k->shape[2] == v->shape[2] && q->shape[3] == k->shape[3];
  if (!good)
    return fail(
        e, ERR_INVALID_ARGUMENT,
        "q %s, k %s and v %s must be [batch, queries, heads, width], [batch, keys, heads, width], "
        "[batch, keys, heads, value width]",
        shape_text(q, x), shape_text(k, y), shape_text(v, z));
  *a = (Attention){.batch = q->shape[0],
                   .queries = q->shape[1],
                   .heads = q->shape[2],
                   .width = q->shape[3],
                   .keys = k->shape[1],
                   .value_width = v->shape[3],
                   .causal = n->attr[CAUSAL].i,
                   .dtype = dtype_to_compute(q->dtype)};
  a->size = dtype_size(a->dtype);
  a->scale =
      n->attr[SCALE].kind == ATTR_NONE ? 1 / sqrt((double)max(a->width, 1)) : n->attr[SCALE].f;
  a->block = max(MIN_QUERIES, min(MAX_QUERIES, SCORE_BYTES / (int64_t)a->size / max(a->keys, 1)));
  if (a->width < 1 || a->keys < 1)
    return fail(e, ERR_INVALID_ARGUMENT, "k %s has no elements to attend to", shape_text(k, y));
  if (n->in_count <= first + 3) return OK;
  const Type *mask = &n->in[first + 3]->type;
  Type scores = type_make(BOOL, 4, (int64_t[]){a->batch, a->heads, a->queries, a->keys}), both;
  if (mask->dtype != BOOL)
    return fail(e, ERR_TYPE, "mask must be bool (true: attend), got %s", dtype_name(mask->dtype));
  if (mask->rank > 4 || !type_broadcast(mask, &scores, &both) || !shape_equal(&both, &scores))
    return fail(e, ERR_INVALID_ARGUMENT,
                "mask %s doesn't broadcast to [batch, heads, queries, keys] %s",
                shape_text(mask, x), shape_text(&scores, y));
  int64_t dense[MAX_RANK];
  type_strides(mask, dense);
  for (int i = 0; i < mask->rank; i++)
    if (mask->shape[i] != 1) a->mask_stride[4 - mask->rank + i] = dense[i];
  return OK;
}

/* ---- one head ---- */

typedef struct Run {
  const Call *c;
  Attention a;
  const char *q, *k, *v, *dy;
  const uint8_t *mask;
  int64_t stretches; /* forward: chunks of a head */
  bool half;         /* products add up in float16 */
} Run;

/* The products of a block of queries. */
enum { SCORES = 1, VALUES, WEIGHT_SLOPES, VALUE_GRADS, QUERY_GRADS, KEY_GRADS };

/* A block of queries against the keys that its last one sees. */
typedef struct Block {
  int64_t batch, head, first, rows, keys;
} Block;

/* Where the random numbers of column `col` of a block's product begin, when partial sums round to
 * float16. No column of any product takes as many as there are keys, widths and queries of a
 * block. */
static uint64_t draw_of(const Run *r, const Block *b, int product, int64_t col) {
  const Attention *a = &r->a;
  uint64_t row = (uint64_t)((b->batch * a->heads + b->head) * a->queries + b->first),
           columns = (uint64_t)(a->keys + a->width + a->value_width);
  return ((uint64_t)product << 48) + (row * columns + (uint64_t)col) * columns * (uint64_t)a->block;
}

static int64_t panels(int64_t cols) { return ceil_div(cols, PANEL_COLS); }

/* First element of [batch, time, heads, width] at a time. */
static char *head_at(const Run *r, const void *data, int64_t batch, int64_t head, int64_t time,
                     int64_t times, int64_t width) {
  return (char *)(uintptr_t)data +
         (size_t)(((batch * times + time) * r->a.heads + head) * width) * r->a.size;
}

/* Panels of a head's [time, width] matrix: of its rows as they are (rows are time), or
 * transposed (columns are time). */
static void pack_rows(const Run *r, const char *x, int64_t times, int64_t width, char *to) {
  int64_t row = r->a.heads * width;
  for (int64_t p = 0; p < panels(width); p++)
    r->c->kernels->panel_pack[r->a.dtype](x + (size_t)(p * PANEL_COLS) * r->a.size, row, 1, times,
                                          min(PANEL_COLS, width - p * PANEL_COLS),
                                          to + (size_t)(p * times * PANEL_COLS) * r->a.size);
}
static void pack_transposed(const Run *r, const char *x, int64_t times, int64_t width, char *to) {
  int64_t row = r->a.heads * width;
  for (int64_t p = 0; p < panels(times); p++)
    r->c->kernels->panel_pack[r->a.dtype](x + (size_t)(p * PANEL_COLS * row) * r->a.size, 1, row,
                                          width, min(PANEL_COLS, times - p * PANEL_COLS),
                                          to + (size_t)(p * width * PANEL_COLS) * r->a.size);
}
static size_t row_panel_bytes(const Attention *a, int64_t times, int64_t width) {
  return (size_t)(panels(width) * times * PANEL_COLS) * a->size;
}
static size_t transposed_bytes(const Attention *a, int64_t times, int64_t width) {
  return (size_t)(panels(times) * width * PANEL_COLS) * a->size;
}

/* y [b's rows, cols] = x [b's rows, length] times panels that were packed with `packed` rows; the
 * first `length` of them count. */
static void multiply(const Run *r, const Block *b, int product, const void *x, int64_t x_row,
                     int64_t length, const char *w, int64_t packed, void *y, int64_t y_row,
                     int64_t cols) {
  int64_t zero = 0;
  PanelMul m = {.x = x,
                .x_row = x_row,
                .offset = &zero,
                .segments = 1,
                .length = length,
                .y_row = y_row,
                .rows = b->rows};
  for (int64_t p = 0; p * PANEL_COLS < cols; p++) {
    m.w = w + (size_t)(p * packed * PANEL_COLS) * r->a.size;
    m.y = (char *)y + (size_t)(p * PANEL_COLS) * r->a.size;
    m.cols = min(PANEL_COLS, cols - p * PANEL_COLS);
    if (r->half) product_panel_half(r->c, &m, draw_of(r, b, product, p * PANEL_COLS));
    else r->c->kernels->panel_mul[r->a.dtype](&m);
  }
}

/* y [length, cols] += x' d, over b's rows. */
static void add_outer(const Run *r, const Block *b, int product, const void *x, int64_t x_row,
                      const void *d, int64_t d_row, void *y, int64_t y_row, int64_t length,
                      int64_t cols) {
  PanelOuter o = {.x = x,
                  .x_row = x_row,
                  .d_row = d_row,
                  .lines = 1,
                  .rows = b->rows,
                  .y_row = y_row,
                  .length = length,
                  .accumulate = true};
  for (int64_t col = 0; col < cols; col += PANEL_COLS) {
    o.d = (const char *)d + (size_t)col * r->a.size;
    o.y = (char *)y + (size_t)col * r->a.size;
    o.cols = min(PANEL_COLS, cols - col);
    if (r->half) product_outer_half(r->c, &o, draw_of(r, b, product, col));
    else r->c->kernels->panel_outer[r->a.dtype](&o);
  }
}

static Block block_at(const Attention *a, int64_t batch, int64_t head, int64_t first, int64_t end) {
  Block b = {batch, head, first, min(a->block, end - first), a->keys};
  if (a->causal) b.keys = min(a->keys, first + b.rows);
  return b;
}

static int64_t keys_seen(const Attention *a, const Block *b, int64_t row) {
  return a->causal ? min(a->keys, b->first + row + 1) : a->keys;
}

/* The mask of one query; -infinity where it is false. True when a key is left. */
static bool mask_row(const Run *r, const Block *b, int64_t row, int64_t keys, char *scores) {
  const Attention *a = &r->a;
  if (!r->mask) return true;
  const uint8_t *m = r->mask + b->batch * a->mask_stride[0] + b->head * a->mask_stride[1] +
                     (b->first + row) * a->mask_stride[2];
  bool any = false;
  for (int64_t k = 0; k < keys; k++) {
    if (m[k * a->mask_stride[3]]) any = true;
    else if (a->dtype == F64) ((double *)(void *)scores)[k] = -INFINITY;
    else ((float *)(void *)scores)[k] = -INFINITY;
  }
  return any;
}

/* Weights of a block in scores [rows, b->keys]; rows without a key are zero, and marked in lost. */
static bool block_weights(const Run *r, const Block *b, const char *key_panels, char *scaled,
                          char *scores, bool *lost) {
  const Attention *a = &r->a;
  const Kernels *k = r->c->kernels;
  const char *q = head_at(r, r->q, b->batch, b->head, b->first, a->queries, a->width);
  double factor = 0;
  dtype_set(a->dtype, &factor, 0, a->scale);
  for (int64_t i = 0; i < b->rows; i++)
    k->strip[EW_MUL][a->dtype](
        (const void *[]){q + (size_t)(i * a->heads * a->width) * a->size, &factor}, 2,
        scaled + (size_t)(i * a->width) * a->size, a->width, NULL);
  multiply(r, b, SCORES, scaled, a->width, a->width, key_panels, a->width, scores, b->keys,
           b->keys);
  bool any_lost = false;
  if (!r->mask && !a->causal) {
    k->softmax[a->dtype](scores, b->rows, b->keys, scores);
    memset(lost, 0, (size_t)b->rows * sizeof *lost);
    return false;
  }
  for (int64_t i = 0; i < b->rows; i++) {
    int64_t seen = keys_seen(a, b, i);
    char *row = scores + (size_t)(i * b->keys) * a->size;
    lost[i] = !mask_row(r, b, i, seen, row);
    any_lost |= lost[i];
    if (lost[i]) seen = 0;
    else k->softmax[a->dtype](row, 1, seen, row);
    memset(row + (size_t)seen * a->size, 0, (size_t)(b->keys - seen) * a->size);
  }
  return any_lost;
}

/* The mean of a head's values, for queries without keys. */
static void mean_value(const Run *r, const Block *b, char *to) {
  const Attention *a = &r->a;
  for (int64_t i = 0; i < a->value_width; i++) {
    double sum = 0;
    for (int64_t t = 0; t < a->keys; t++)
      sum +=
          dtype_get(a->dtype, head_at(r, r->v, b->batch, b->head, t, a->keys, a->value_width), i);
    dtype_set(a->dtype, to, i, sum / (double)a->keys);
  }
}

/* A chunk's memory, forward and backward. */
typedef struct Slot {
  char *key_panels, *value_panels, *scaled, *scores; /* both */
  /* backward: k as it is; gradients of the scores */
  char *key_rows, *slopes;
  bool *lost;
} Slot;

static Slot slot_of(Room *room, const Attention *a, bool backward) {
  Slot s = {0};
  s.key_panels = room_take(room, transposed_bytes(a, a->keys, a->width));
  s.value_panels = room_take(room, backward ? transposed_bytes(a, a->keys, a->value_width)
                                            : row_panel_bytes(a, a->keys, a->value_width));
  s.scaled = room_take(room, (size_t)(a->block * a->width) * a->size);
  s.scores = room_take(room, (size_t)(a->block * a->keys) * a->size);
  s.lost = room_take(room, (size_t)a->block * sizeof *s.lost);
  if (!backward) return s;
  s.key_rows = room_take(room, row_panel_bytes(a, a->keys, a->width));
  s.slopes = room_take(room, (size_t)(a->block * a->keys) * a->size);
  return s;
}

static void forward_chunk(void *context, int64_t chunk, void *scratch) {
  const Run *r = context;
  const Attention *a = &r->a;
  int64_t stretch = chunk % r->stretches, head = chunk / r->stretches % a->heads,
          batch = chunk / r->stretches / a->heads;
  int64_t length = (a->queries + r->stretches - 1) / r->stretches, first = stretch * length,
          end = min(first + length, a->queries);
  if (first >= end) return;
  Room room = {scratch, 0};
  Slot s = slot_of(&room, a, false);
  int64_t keys = a->causal ? min(a->keys, end) : a->keys, row = a->heads * a->value_width;
  pack_transposed(r, head_at(r, r->k, batch, head, 0, a->keys, a->width), keys, a->width,
                  s.key_panels);
  pack_rows(r, head_at(r, r->v, batch, head, 0, a->keys, a->value_width), keys, a->value_width,
            s.value_panels);
  for (int64_t at = first; at < end; at += a->block) {
    Block b = block_at(a, batch, head, at, end);
    bool any_lost = block_weights(r, &b, s.key_panels, s.scaled, s.scores, s.lost);
    char *y = head_at(r, r->c->out[0], batch, head, at, a->queries, a->value_width);
    multiply(r, &b, VALUES, s.scores, b.keys, b.keys, s.value_panels, keys, y, row, a->value_width);
    for (int64_t i = 0; any_lost && i < b.rows; i++)
      if (s.lost[i]) mean_value(r, &b, y + (size_t)(i * row) * a->size);
  }
}

/* Enough stretches of a head's queries to share out; the shapes alone decide. */
static int64_t stretch_count(const Attention *a) {
  int64_t heads = max(a->batch * a->heads, 1);
  if (heads >= 16) return 1;
  return max(1, min((15 + heads) / heads, (a->queries + STRETCH - 1) / STRETCH));
}

static Run run_of(const Call *c, int first) {
  Error ignored = {0};
  Run r = {.c = c, .q = c->in[first], .k = c->in[first + 1], .v = c->in[first + 2]};
  attention_of(&ignored, c->node, first, &r.a);
  r.mask = c->in_count > first + 3 ? c->in[first + 3] : NULL;
  r.stretches = stretch_count(&r.a);
  r.half = product_sums_half(c);
  return r;
}

size_t attention_slot_bytes(const Attention *a, bool backward) {
  Room room = {0};
  slot_of(&room, a, backward);
  return room.used;
}

static Status inner(const Call *c) {
  Run r = run_of(c, Q);
  nn_run(c, r.a.batch * r.a.heads * r.stretches, c->scratch, attention_slot_bytes(&r.a, false),
         forward_chunk, &r);
  return OK;
}
Status attention_eval(const Call *c) { return eval_wide(c, inner); }

/* dv of a query that saw all keys evenly. */
static void spread_lost(const Run *r, const char *dy, char *dv) {
  const Attention *a = &r->a;
  for (int64_t t = 0; t < a->keys; t++)
    for (int64_t i = 0; i < a->value_width; i++) {
      int64_t at = t * a->heads * a->value_width + i;
      dtype_set(a->dtype, dv, at,
                dtype_get(a->dtype, dv, at) + dtype_get(a->dtype, dy, i) / (double)a->keys);
    }
}

/* dscores = weights (dweights - sum of dweights weights); then scaled like the queries. */
static void block_slopes(const Run *r, const Block *b, const Slot *s) {
  const Attention *a = &r->a;
  double factor = 0;
  dtype_set(a->dtype, &factor, 0, a->scale);
  r->c->kernels->softmax_grad[a->dtype](s->slopes, s->scores, b->rows, b->keys, s->slopes);
  r->c->kernels->strip[EW_MUL][a->dtype]((const void *[]){s->slopes, &factor}, 2, s->slopes,
                                         b->rows * b->keys, NULL);
}

static void clear_head(const Run *r, void *data, int64_t batch, int64_t head, int64_t times,
                       int64_t width) {
  for (int64_t t = 0; t < times; t++)
    memset(head_at(r, data, batch, head, t, times, width), 0, (size_t)width * r->a.size);
}

static void backward_head(void *context, int64_t chunk, void *scratch) {
  const Run *r = context;
  const Attention *a = &r->a;
  int64_t head = chunk % a->heads, batch = chunk / a->heads, row = a->heads * a->width,
          value_row = a->heads * a->value_width;
  Room room = {scratch, 0};
  Slot s = slot_of(&room, a, true);
  char *dk = head_at(r, r->c->out[1], batch, head, 0, a->keys, a->width);
  char *dv = head_at(r, r->c->out[2], batch, head, 0, a->keys, a->value_width);
  clear_head(r, r->c->out[1], batch, head, a->keys, a->width);
  clear_head(r, r->c->out[2], batch, head, a->keys, a->value_width);
  const char *k = head_at(r, r->k, batch, head, 0, a->keys, a->width);
  pack_transposed(r, k, a->keys, a->width, s.key_panels);
  pack_rows(r, k, a->keys, a->width, s.key_rows);
  pack_transposed(r, head_at(r, r->v, batch, head, 0, a->keys, a->value_width), a->keys,
                  a->value_width, s.value_panels);
  for (int64_t at = 0; at < a->queries; at += a->block) {
    Block b = block_at(a, batch, head, at, a->queries);
    bool any_lost = block_weights(r, &b, s.key_panels, s.scaled, s.scores, s.lost);
    const char *dy = head_at(r, r->dy, batch, head, at, a->queries, a->value_width);
    const char *q = head_at(r, r->q, batch, head, at, a->queries, a->width);
    multiply(r, &b, WEIGHT_SLOPES, dy, value_row, a->value_width, s.value_panels, a->value_width,
             s.slopes, b.keys, b.keys);
    add_outer(r, &b, VALUE_GRADS, s.scores, b.keys, dy, value_row, dv, value_row, b.keys,
              a->value_width);
    for (int64_t i = 0; any_lost && i < b.rows; i++)
      if (s.lost[i]) spread_lost(r, dy + (size_t)(i * value_row) * a->size, dv);
    block_slopes(r, &b, &s);
    multiply(r, &b, QUERY_GRADS, s.slopes, b.keys, b.keys, s.key_rows, a->keys,
             head_at(r, r->c->out[0], batch, head, at, a->queries, a->width), row, a->width);
    add_outer(r, &b, KEY_GRADS, s.slopes, b.keys, q, row, dk, row, b.keys, a->width);
  }
}

static Status inner_grad(const Call *c) {
  Run r = run_of(c, G_Q);
  r.dy = c->in[G_DY];
  nn_run(c, r.a.batch * r.a.heads, c->scratch, attention_slot_bytes(&r.a, true), backward_head, &r);
  return OK;
}
Status attention_eval_grad(const Call *c) { return eval_wide(c, inner_grad); }
