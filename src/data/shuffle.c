/* shuffle: elements are drawn at random from a buffer. A drawn element's slot is filled by the next
 * element of the input, or after its end by the buffer's last one.
 *
 * Over rows the buffer holds row numbers, and a batch gathers the rows themselves. Small elements
 * of one shape lie in the buffer side by side, as tensors would take many times their bytes. The
 * order is the same for each representation.
 *
 * The order is a function of the seed, the iterator's number and the epoch. Draw i uses number i of
 * the random stream. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/arith.h"
#include "base/rng.h"
#include "data/stage.h"

typedef struct ShuffleDataset {
  Dataset base;
  ShuffleOptions options;
} ShuffleDataset;

typedef struct ShuffleStage {
  Stage base;
  RngKey key;
  uint64_t draws;
  bool drained; /* the input has ended */
  bool has_gap; /* an element was drawn whose slot is still to be filled */
  int gap, count, capacity;
  int64_t *row; /* [count] over rows */
  char *packed; /* [count][slot_bytes] of small elements */
  size_t slot_bytes;
  void **into;      /* [components] */
  Tensor **element; /* [count][components] otherwise */
} ShuffleStage;

enum { PACKED_BYTES = 256, SLOT_ALIGNMENT = 16 };

static void random_key(const Stage *s, RngKey *key) {
  const ShuffleOptions *o = &((const ShuffleDataset *)s->dataset)->options;
  const Tree *t = s->scope->tree;
  int known = tree_find_shuffle(t, s->dataset);
  uint64_t iteration = s->scope->kept ? 0 : known < 0 ? t->iteration : t->shuffle[known].iteration;
  key->seed = o->has_seed ? o->seed : t->seed;
  key->stream = o->has_seed ? 0 : (uint32_t)known + 1;
  key->step = o->keep_order ? 0 : epoch_within(s->epoch, iteration << 20);
}

static Status shuffle_open(Stage *s, Error *e) {
  random_key(s, &((ShuffleStage *)s)->key);
  Status status = stage_open_input(s, e);
  if (status == OK) s->rows = s->input->rows;
  return status;
}

static int limit(const Stage *s) {
  int64_t size = ((const ShuffleDataset *)s->dataset)->options.buffer_size;
  return size > INT32_MAX / 2 ? INT32_MAX / 2 : (int)size;
}

static Status out_of_memory(const Stage *s, Error *e, int count) {
  return dataset_fail(s->dataset, e, ERR_OUT_OF_MEMORY,
                      "no memory for a buffer of more than %d elements", count);
}

static int draw(ShuffleStage *f) { return (int)rng_below(&f->key, f->draws++, (uint64_t)f->count); }

/* Grows by doubling: the buffer may be declared far larger than the data. */
static Status fill_rows(ShuffleStage *f, Error *e) {
  int max = limit(&f->base);
  while (!f->drained && f->count < max) {
    int room = f->capacity - f->count;
    if (!room) {
      int want = f->capacity ? f->capacity * 2 : 1024;
      if (!array_reserve(&f->row, &f->capacity, int_min(want, max), sizeof *f->row))
        return out_of_memory(&f->base, e, f->count);
      room = f->capacity - f->count;
    }
    int64_t got, n = room < max - f->count ? room : max - f->count;
    Status status = stage_check_cancelled(&f->base, e);
    if (status != OK) return status;
    status = stage_indices(f->base.input, f->row + f->count, n, &got, e);
    f->count += (int)got;
    if (status != OK) return status;
    f->drained = got < n;
  }
  return OK;
}

enum { BLOCK = 256 };

static Status shuffle_indices(Stage *s, int64_t *out, int64_t n, int64_t *got, Error *e) {
  ShuffleStage *f = (ShuffleStage *)s;
  *got = 0;
  Status status = fill_rows(f, e);
  while (status == OK && *got < n && f->count) {
    int64_t next[BLOCK], fresh = 0, want = n - *got < BLOCK ? n - *got : BLOCK;
    if (!f->drained) {
      status = stage_indices(s->input, next, want, &fresh, e);
      if (status == OK) f->drained = fresh < want;
      else want = fresh; /* keeps the rows read before an interruption */
    }
    for (int64_t i = 0; i < want && f->count; i++) {
      int k = draw(f);
      out[(*got)++] = f->row[k];
      f->row[k] = i < fresh ? next[i] : f->row[--f->count];
    }
  }
  return status;
}

static Tensor **element(ShuffleStage *f, int k) {
  return f->element + (size_t)k * (size_t)f->base.dataset->count;
}

/* The slot for the input's next element; -1: the buffer is full. Elements are read before a draw,
 * so that a failing input loses none. */
static int vacant(const ShuffleStage *f) {
  if (f->drained) return -1;
  return f->has_gap ? f->gap : f->count < limit(&f->base) ? f->count : -1;
}

static void filled(ShuffleStage *f) {
  if (f->has_gap) f->has_gap = false;
  else f->count++;
}

static void move_element(ShuffleStage *f, int from, int to) {
  size_t bytes = (size_t)f->base.dataset->count * sizeof *f->element;
  memcpy(element(f, to), element(f, from), bytes);
  memset(element(f, from), 0, bytes);
}

/* At the input's end: the buffer's last element moves to the slot of the drawn one. */
static void input_ended(ShuffleStage *f, void (*move)(ShuffleStage *, int from, int to)) {
  f->drained = true;
  if (!f->has_gap) return;
  f->has_gap = false;
  if (f->gap != --f->count) move(f, f->count, f->gap);
}

static Status fill_elements(ShuffleStage *f, Error *e) {
  size_t bytes = (size_t)f->base.dataset->count * sizeof *f->element;
  for (int to; (to = vacant(f)) >= 0;) {
    int before = f->capacity;
    if (!array_reserve(&f->element, &f->capacity, to + 1, bytes))
      return out_of_memory(&f->base, e, f->count);
    if (f->capacity > before) memset(element(f, before), 0, (size_t)(f->capacity - before) * bytes);
    bool end;
    Status status = stage_check_cancelled(&f->base, e);
    if (status == OK) status = stage_next(f->base.input, element(f, to), &end, e);
    if (status != OK) return status;
    if (end) input_ended(f, move_element);
    else filled(f);
  }
  return OK;
}

/* Hands out element k. Its slot is filled at the next request, or at once after the input's end. */
static void leave(ShuffleStage *f, int k, void (*move)(ShuffleStage *, int from, int to)) {
  f->has_gap = true;
  f->gap = k;
  if (f->drained) input_ended(f, move);
}

static Status shuffle_next(Stage *s, Tensor **out, bool *end, Error *e) {
  ShuffleStage *f = (ShuffleStage *)s;
  Status status = fill_elements(f, e);
  if (status != OK || (*end = !f->count)) return status;
  int k = draw(f);
  for (int c = 0; c < s->dataset->count; c++) out[c] = element(f, k)[c], element(f, k)[c] = NULL;
  leave(f, k, move_element);
  return OK;
}

/* ---- small elements ---- */

static size_t slot_bytes(const Dataset *d) {
  size_t bytes = 0;
  for (int c = 0; c < d->count; c++)
    bytes += size_round_up(type_bytes(&d->type[c]), SLOT_ALIGNMENT);
  return bytes;
}

static Status packed_open(Stage *s, Error *e) {
  ShuffleStage *f = (ShuffleStage *)s;
  f->slot_bytes = slot_bytes(s->dataset);
  f->into = calloc((size_t)s->dataset->count, sizeof *f->into);
  return f->into ? shuffle_open(s, e) : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
}

/* Where the components of element k lie. */
static void *const *slot(ShuffleStage *f, int k) {
  const Dataset *d = f->base.dataset;
  char *at = f->packed + (size_t)k * f->slot_bytes;
  for (int c = 0; c < d->count; c++) {
    f->into[c] = at;
    at += size_round_up(type_bytes(&d->type[c]), SLOT_ALIGNMENT);
  }
  return f->into;
}

static void move_packed(ShuffleStage *f, int from, int to) {
  memcpy(f->packed + (size_t)to * f->slot_bytes, f->packed + (size_t)from * f->slot_bytes,
         f->slot_bytes);
}

static Status fill_packed(ShuffleStage *f, Error *e) {
  for (int to; (to = vacant(f)) >= 0;) {
    if (!array_reserve(&f->packed, &f->capacity, to + 1, f->slot_bytes))
      return out_of_memory(&f->base, e, f->count);
    bool end;
    Status status = stage_check_cancelled(&f->base, e);
    if (status == OK) status = stage_next_into(f->base.input, slot(f, to), &end, e);
    if (status != OK) return status;
    if (end) input_ended(f, move_packed);
    else filled(f);
  }
  return OK;
}

static Status packed_give(Stage *s, const Receiver *to, bool *end, Error *e) {
  ShuffleStage *f = (ShuffleStage *)s;
  Tensor **out = to->tensors;
  Status status = fill_packed(f, e);
  if (status != OK || (*end = !f->count)) return status;
  int k = draw(f);
  void *const *from = slot(f, k);
  for (int c = 0; c < s->dataset->count; c++) {
    const Type *t = &s->dataset->type[c];
    if (!out) memcpy(to->memory[c], from[c], type_bytes(t));
    else if (!(out[c] = tensor_from(e, t, from[c]))) return tensors_release(out, c), e->status;
  }
  leave(f, k, move_packed);
  return OK;
}

static void shuffle_close(Stage *s) {
  ShuffleStage *f = (ShuffleStage *)s;
  for (int k = 0; f->element && k < f->count; k++)
    tensors_release(element(f, k), s->dataset->count);
  free(f->element);
  free(f->packed);
  free(f->into);
  free(f->row);
}

static const StageClass shuffle_class = {.name = "shuffle",
                                         .shuffles = true,
                                         .dataset_bytes = sizeof(ShuffleDataset),
                                         .stage_bytes = sizeof(ShuffleStage),
                                         .open = shuffle_open,
                                         .close = shuffle_close,
                                         .indices = shuffle_indices,
                                         .next = shuffle_next};

static const StageClass packed_class = {.name = "shuffle",
                                        .shuffles = true,
                                        .dataset_bytes = sizeof(ShuffleDataset),
                                        .stage_bytes = sizeof(ShuffleStage),
                                        .open = packed_open,
                                        .close = shuffle_close,
                                        .indices = shuffle_indices,
                                        .give = packed_give};

Dataset *dataset_shuffle(Error *e, const char *source, Dataset *in, const ShuffleOptions *options) {
  if (options->buffer_size < 1)
    return source_fail("shuffle", source, e, ERR_VALUE,
                       "the buffer size must be at least 1, got %lld",
                       (long long)options->buffer_size);
  bool packs = in->is_static && !in->rows && slot_bytes(in) <= PACKED_BYTES;
  Dataset *d = dataset_new_like(e, source, packs ? &packed_class : &shuffle_class, in);
  if (!d) return NULL;
  ((ShuffleDataset *)d)->options = *options;
  return dataset_finish(e, d);
}
