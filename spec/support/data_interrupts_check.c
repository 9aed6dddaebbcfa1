/* Chains of dataset stages that are interrupted again and again (Ctrl-C) give the same elements as
 * others. Sources of random chains let interruptions come before, after and inside of elements.
 * Elements are read by tensors, into memory, and skipped. Arguments: first seed, number of seeds.
 * Prints what differs; the last line is "N passed, M failed". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "data/dataset.h"

enum { LENGTH = 41, MAX = 4000, LONGEST_CHAIN = 6 };
enum { TENSORS, INTO_MEMORY, EACH_SECOND, PASSED_BY, WAYS };

static uint64_t state;
static int draw(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)n);
}

/* Where interruptions come; numbers of their own, so that both readings are of equal chains. */
static bool interrupting;
static uint64_t moments;
static bool moment(int one_in) {
  moments = moments * 6364136223846793005u + 1442695040888963407u;
  return interrupting && (moments >> 33) % (uint64_t)one_in == 0;
}

/* ---- sources and functions of int64 scalars ---- */

static int openings;

static Status source_open(void *context, void **at, Error *e) {
  (void)context;
  openings++;
  return (*at = calloc(1, sizeof(int64_t))) ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
}

static Status source_next(void *context, void *at, Tensor **out, int count, bool *end, Error *e) {
  int64_t *position = at;
  (void)context, (void)count;
  if (moment(4)) return fail(e, ERR_CANCELLED, "interrupted!");
  if (moment(4)) interrupt_raise(); /* whoever looks next stops */
  if ((*end = *position == LENGTH)) return OK;
  Type type = type_scalar(I64);
  int64_t value = (*position)++;
  return (out[0] = tensor_from(e, &type, &value)) ? OK : ERR_OUT_OF_MEMORY;
}

static void source_close(void *context, void *at) {
  (void)context;
  free(at);
}

static const Type scalar = {.dtype = I64}, truth = {.dtype = BOOL};

static Dataset *numbers(Error *e) {
  Generator g = {.open = source_open, .next = source_next, .close = source_close};
  return draw(2) ? dataset_from_generator(e, NULL, 1, &scalar, g)
                 : dataset_range(e, NULL, 0, LENGTH, 1);
}

/* Rows in memory. */
static Dataset *rows(Error *e) {
  int64_t length = LENGTH;
  Type type = type_make(I64, 1, &length);
  Tensor *t = tensor_new(e, &type);
  for (int64_t i = 0; i < length; i++) ((int64_t *)(void *)t->data)[i] = i;
  Dataset *d = dataset_from_slices(e, NULL, 1, &t);
  tensor_release(t);
  return d;
}

static Status sum_run(void *context, int worker, uint64_t number, const void *const *in,
                      void *const *out, Error *e) {
  (void)worker;
  int64_t sum = (int64_t)(number % 1000); /* random numbers depend on it */
  for (int i = 0; i < *(const int *)context; i++) sum += *(const int64_t *)in[i] * (i + 1);
  if (moment(5)) return fail(e, ERR_CANCELLED, "interrupted!");
  *(int64_t *)out[0] = sum;
  return OK;
}

static const int one = 1, two = 2;

static Dataset *summed(Error *e, Dataset *in, const int *count, int parallel) {
  MapFunction f = {.context = (void *)(uintptr_t)count,
                   .in_count = *count,
                   .out_count = 1,
                   .out_type = &scalar,
                   .run = sum_run};
  return dataset_map(e, NULL, in, f, parallel);
}

static Status odd_run(void *context, int worker, uint64_t number, const void *const *in,
                      void *const *out, Error *e) {
  (void)context, (void)worker, (void)number;
  if (moment(5)) return fail(e, ERR_CANCELLED, "interrupted!");
  *(uint8_t *)out[0] = *(const int64_t *)in[0] % 3 != 0;
  return OK;
}

static Status pair_of(void *context, Tensor *const *in, int in_count, Tensor **out, int out_count,
                      Dataset **dataset, Error *e) {
  (void)context, (void)in_count, (void)out, (void)out_count;
  if (moment(4)) return fail(e, ERR_CANCELLED, "interrupted!");
  int64_t n = dtype_get_integer(I64, in[0]->data, 0);
  return (*dataset = dataset_range(e, NULL, n, n + 2, 1)) ? OK : e->status;
}

/* A window's first element and how many there are. */
static Status window_text(void *context, Tensor *const *in, int in_count, Tensor **out,
                          int out_count, Dataset **dataset, Error *e) {
  (void)context, (void)in_count, (void)out_count, (void)dataset;
  if (moment(4)) return fail(e, ERR_CANCELLED, "interrupted!");
  int64_t sum = 1000 * in[0]->type.shape[0];
  for (int64_t i = 0; i < in[0]->type.shape[0]; i++) sum += dtype_get_integer(I64, in[0]->data, i);
  return (out[0] = tensor_from(e, &scalar, &sum)) ? OK : ERR_OUT_OF_MEMORY;
}

/* Whether 7 doesn't divide it; whether it is below 30. */
static Status undivided(void *context, Tensor *const *in, int in_count, Tensor **out, int out_count,
                        Dataset **dataset, Error *e) {
  (void)context, (void)in_count, (void)out_count, (void)dataset;
  if (moment(4)) return fail(e, ERR_CANCELLED, "interrupted!");
  uint8_t keep = dtype_get_integer(I64, in[0]->data, 0) % 7 != 0;
  return (out[0] = tensor_from(e, &truth, &keep)) ? OK : ERR_OUT_OF_MEMORY;
}

static Status small(void *context, Tensor *const *in, int in_count, Tensor **out, int out_count,
                    Dataset **dataset, Error *e) {
  (void)context, (void)in_count, (void)out_count, (void)dataset;
  if (moment(4)) return fail(e, ERR_CANCELLED, "interrupted!");
  uint8_t keep = dtype_get_integer(I64, in[0]->data, 0) < 30;
  return (out[0] = tensor_from(e, &truth, &keep)) ? OK : ERR_OUT_OF_MEMORY;
}

/* ---- chains ---- */

static char words[400];

static Dataset *then(const char *name, Dataset *in, Dataset *made) {
  strncat(words, name, sizeof words - strlen(words) - 1);
  dataset_release(in);
  return made;
}

static Dataset *grouped(Error *e, Dataset *in) {
  int n = draw(4) + 1;
  bool drop = draw(2), pads = draw(2);
  Dataset *d = pads ? dataset_padded_batch(e, NULL, in, n, NULL, NULL, drop)
                    : dataset_batch(e, NULL, in, n, drop);
  d = then(pads ? " padded" : " batch", in, d);
  return d ? then(" unbatch", d, dataset_unbatch(e, NULL, d)) : NULL;
}

static Dataset *windowed(Error *e, Dataset *in) {
  ScriptFunction f = {.call = window_text};
  Dataset *d = dataset_window(e, NULL, in, draw(3) + 1, draw(3) + 1, draw(2) + 1, draw(2));
  d = then(" window", in, d);
  return d ? then(" map_host", d, dataset_map_host(e, NULL, d, 1, &scalar, f)) : NULL;
}

static Dataset *beside(Error *e, Dataset *in) {
  Dataset *other = draw(3) ? numbers(e) : rows(e);
  Dataset *d = other ? dataset_zip(e, NULL, 2, (Dataset *[]){in, other}) : NULL;
  dataset_release(other);
  d = then(" zip", in, d);
  return d ? then(" sum", d, summed(e, d, &two, 0)) : NULL;
}

static Dataset *numbered(Error *e, Dataset *in) {
  Dataset *d = then(" enumerate", in, dataset_enumerate(e, NULL, in, 5));
  return d ? then(" sum", d, summed(e, d, &two, 0)) : NULL;
}

static Dataset *joined(Error *e, Dataset *in) {
  Dataset *other = numbers(e), *d = other ? dataset_concatenate(e, NULL, in, other) : NULL;
  dataset_release(other);
  return then(" concatenate", in, d);
}

static Dataset *longer(Error *e, Dataset *in) {
  MapFunction odd = {.in_count = 1, .out_count = 1, .out_type = &truth, .run = odd_run};
  ScriptFunction pair = {.call = pair_of}, keep = {.call = undivided}, begin = {.call = small};
  ShuffleOptions o = {.buffer_size = draw(20) + 1, .has_seed = true, .seed = (uint64_t)draw(9)};
  switch (draw(17)) {
    case 0:
      return then(" take", in, dataset_take(e, NULL, in, draw(30)));
    case 1:
      return then(" skip", in, dataset_skip(e, NULL, in, draw(9)));
    case 2:
      return then(" shard", in, dataset_shard(e, NULL, in, 3, draw(3)));
    case 3:
      return then(" repeat", in, dataset_repeat(e, NULL, in, draw(3) + 1));
    case 4:
      return then(" map", in, summed(e, in, &one, draw(4)));
    case 5:
      return then(" filter", in, dataset_filter(e, NULL, in, odd));
    case 6:
      return then(" shuffle", in, dataset_shuffle(e, NULL, in, &o));
    case 7:
      return then(" cache", in, dataset_cache(e, NULL, in, NULL));
    case 8:
      return then(" buffer", in, dataset_buffer(e, NULL, in, 30));
    case 9:
      return then(" interleave", in,
                  dataset_interleave(e, NULL, in, 1, &scalar, pair, draw(3) + 1, draw(2) + 1));
    case 10:
      return windowed(e, in);
    case 11:
      return beside(e, in);
    case 12:
      return numbered(e, in);
    case 13:
      return joined(e, in);
    case 14:
      return then(" filter_host", in, dataset_filter_host(e, NULL, in, keep));
    case 15:
      return then(" take_while", in, dataset_take_while_host(e, NULL, in, begin));
    default:
      return grouped(e, in);
  }
}

static Dataset *chain(uint64_t seed, Error *e) {
  state = seed * 977 + 1;
  words[0] = 0;
  Dataset *d = draw(4) ? numbers(e) : then(" rows", NULL, rows(e));
  for (int i = draw(LONGEST_CHAIN) + 1; d && i; i--) d = longer(e, d);
  return d;
}

static Status row_of(void *context, Tensor *const *in, int in_count, Tensor **out, int out_count,
                     Dataset **dataset, Error *e) {
  (void)context, (void)in_count, (void)out_count, (void)dataset;
  Type type = type_make(I64, 1, (int64_t[]){1});
  return (out[0] = tensor_from(e, &type, in[0]->data)) ? OK : ERR_OUT_OF_MEMORY;
}

/* Whole batches as elements, for a half of the chains: the last stage is asked to skip, too. Rows
 * of an extent that isn't known are collected one by one. */
static Dataset *chain_of_batches(uint64_t seed, Error *e) {
  static const Type row = {.dtype = I64, .rank = 1, .shape = {-1}};
  Dataset *d = chain(seed, e);
  int n = draw(4) + 2, kind = draw(4);
  if (!d || kind > 1) return d;
  if (kind)
    d = then(" rows", d, dataset_map_host(e, NULL, d, 1, &row, (ScriptFunction){.call = row_of}));
  if (!d) return NULL;
  return then(" whole batches", d, dataset_batch(e, NULL, d, n, draw(2)));
}

/* ---- reading ---- */

/* Stands for an element that was skipped after its reading had been interrupted. */
static const int64_t PASSED = INT64_MIN;

typedef struct Reading {
  int64_t value[MAX];
  int count, interruptions;
} Reading;

/* A scalar, or one number for a batch: its extent and its elements in their order. */
static int64_t value_of(const Tensor *t) {
  if (!t->type.rank) return dtype_get_integer(I64, t->data, 0);
  int64_t value = t->type.shape[0];
  for (int64_t i = 0, count = type_count(&t->type); i < count; i++)
    value = value * 1009 % 1000003 + dtype_get_integer(I64, t->data, i);
  return value;
}

static Status read_one(Iterator *it, int way, int64_t *value, bool *end, Error *e) {
  if (way == INTO_MEMORY) return iterator_next_into(it, (void *[]){value}, end, e);
  Tensor *t = NULL;
  Status s = iterator_next(it, &t, end, e);
  if (t) *value = value_of(t);
  tensor_release(t);
  return s;
}

/* Of an element whose reading was interrupted: is it skipped instead of read again? */
static bool passes_by(int way) { return way == PASSED_BY && moments >> 40 & 1; }

/* Ways: as tensors, into memory, each second one skipped, some skipped whose reading was
 * interrupted. */
static bool read_all(uint64_t seed, int way, Pool *pool, bool interrupted, Reading *r) {
  Error e = {.status = OK};
  interrupting = false;
  Dataset *d = chain_of_batches(seed, &e);
  if (!d) return fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, e.message), false;
  DataContext context = {.pool = pool, .threads = 2, .seed = 3};
  Iterator *it = iterator_open(&e, d, &context);
  bool into = dataset_is_static(d) && !dataset_component(d, 0)->rank;
  if (way == INTO_MEMORY && !into) way = TENSORS;
  interrupting = interrupted;
  moments = seed;
  *r = (Reading){.count = 0};
  int64_t owed = 0;
  bool fine = it != NULL;
  for (bool end = false; fine && !end && r->count < MAX;) {
    int64_t value = 0, skipped = 0;
    error_clear(&e);
    Status s = owed ? iterator_skip(it, owed, &skipped, &e) : OK;
    bool asked = s == OK;
    owed -= skipped;
    if (way == PASSED_BY && skipped) r->value[r->count++] = PASSED;
    if (asked && owed) end = true;
    else if (asked) s = read_one(it, way, &value, &end, &e);
    if (s == ERR_CANCELLED) {
      r->interruptions++, interrupt_reset();
      if (asked && passes_by(way)) owed = 1;
    } else if (s != OK) fine = false;
    else if (!end) r->value[r->count++] = value, owed = way == EACH_SECOND;
  }
  if (!fine) fprintf(stderr, "seed %" PRIu64 "%s: %s\n", seed, words, e.message);
  interrupting = false;
  interrupt_reset();
  iterator_close(it);
  dataset_release(d);
  return fine;
}

/* A cache whose reading was interrupted is whole at its end: its input isn't read again. */
static bool caches_once(uint64_t seed) {
  Error e = {.status = OK};
  Generator g = {.open = source_open, .next = source_next, .close = source_close};
  Dataset *d = dataset_from_generator(&e, NULL, 1, &scalar, g);
  d = then(" cache", d, dataset_cache(&e, NULL, d, NULL));
  d = then(" repeat", d, dataset_repeat(&e, NULL, d, 3));
  DataContext context = {.threads = 1, .seed = 3};
  Iterator *it = iterator_open(&e, d, &context);
  int read = 0, interruptions = 0;
  int64_t sum = 0;
  openings = 0, moments = seed, interrupting = true;
  for (bool end = false; !end && read < MAX;) {
    int64_t value = 0;
    error_clear(&e);
    Status s = read_one(it, TENSORS, &value, &end, &e);
    if (s == ERR_CANCELLED) interruptions++, interrupt_reset();
    else if (s != OK) end = true;
    else if (!end) read++, sum += value;
  }
  interrupting = false;
  interrupt_reset();
  iterator_close(it);
  dataset_release(d);
  bool fine = read == 3 * LENGTH && sum == 3 * (LENGTH - 1) * LENGTH / 2 && openings == 1;
  if (!fine || !interruptions)
    fprintf(stderr, "cache, seed %" PRIu64 ": %d elements, %d openings, %d interruptions\n", seed,
            read, openings, interruptions);
  return fine && interruptions;
}

/* The number of elements from the first on that are alike. */
static int alike(const Reading *want, const Reading *got) {
  int k = 0;
  while (k < want->count && k < got->count &&
         (got->value[k] == PASSED || want->value[k] == got->value[k]))
    k++;
  return k;
}

int main(int count, char **argument) {
  uint64_t first = count > 1 ? strtoull(argument[1], NULL, 10) : 1;
  uint64_t seeds = count > 2 ? strtoull(argument[2], NULL, 10) : 1500;
  static Reading want, got;
  int wrong = 0;
  int64_t elements = 0, interruptions = 0;
  Pool *pool = pool_new(2);
  for (uint64_t seed = first; seed < first + seeds && wrong < 20; seed++) {
    int way = (int)(seed / 2 % WAYS);
    Pool *used = seed % 2 ? pool : NULL;
    bool fine = read_all(seed, way, used, false, &want) && read_all(seed, way, used, true, &got);
    int k = fine ? alike(&want, &got) : 0;
    bool same = fine && k == want.count && k == got.count;
    elements += want.count, interruptions += got.interruptions;
    if (same) continue;
    wrong++;
    fprintf(stderr, "seed %" PRIu64 ", way %d:%s: %d elements, then %" PRId64 " for %" PRId64 "\n",
            seed, way, words, k, k < got.count ? got.value[k] : -1,
            k < want.count ? want.value[k] : -1);
  }
  pool_free(pool);
  for (uint64_t seed = 1; seed <= 20; seed++) wrong += !caches_once(seed);
  printf("%" PRId64 " elements, %" PRId64 " interruptions\n", elements, interruptions);
  bool lazy = interruptions < (int64_t)seeds; /* then nothing was interrupted */
  printf("%d passed, %d failed\n", (int)seeds + 20 - wrong, wrong + lazy);
  return wrong > 0 || lazy;
}
