/* Checks of src/data that Lua can't reach. Every kind of dataset is read by tensors, into memory,
 * skipped, saved and restored, on one thread and on several. It is closed in every state, with
 * every allocation failing. Prints what failed; exit status 1 if anything did. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "data/benchmark.h"
#include "data/dataset.h"
#include "data/digits.h"
#include "data/infeed.h"
#include "data/reader.h"
#include "scratch.h"
#include "tensor/image.h"

static _Atomic int checks, failures; /* an engine's thread checks too */

static void check_at(bool ok, const char *file, int line, const char *what, const char *detail) {
  checks++;
  if (ok) return;
  if (failures++ < 40)
    fprintf(stderr, "%s:%d: %s%s%s\n", file, line, what, detail ? ": " : "", detail ? detail : "");
}
#define CHECK(condition) check_at((condition), __FILE__, __LINE__, #condition, NULL)
#define CHECK_TEXT(got, want) check_text(got, want, __FILE__, __LINE__)

static void check_text(const char *got, const char *want, const char *file, int line) {
  char detail[600];
  snprintf(detail, sizeof detail, "\n  got  %.250s\n  want %.250s", got, want);
  check_at(!strcmp(got, want), file, line, "differs", detail);
}

/* ---- allocations that fail
 * ------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifndef SANITIZED
static _Atomic int64_t allocations_left = -1; /* negative: no limit */
static _Atomic int64_t blocks_alive;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *p);

/* The C library's own allocations come here too. */
#pragma GCC visibility push(default)
static bool refused(void) {
  if (atomic_load(&allocations_left) < 0) return false;
  return atomic_fetch_sub(&allocations_left, 1) <= 0 && (atomic_store(&allocations_left, 0), true);
}

static void *counted(void *p) {
  if (p) atomic_fetch_add(&blocks_alive, 1);
  return p;
}

void *malloc(size_t bytes) { return refused() ? NULL : counted(__libc_malloc(bytes)); }
void *calloc(size_t n, size_t bytes) { return refused() ? NULL : counted(__libc_calloc(n, bytes)); }
void *aligned_alloc(size_t alignment, size_t bytes) {
  return refused() ? NULL : counted(__libc_memalign(alignment, bytes));
}
void *realloc(void *p, size_t bytes) {
  if (refused()) return NULL;
  void *q = __libc_realloc(p, bytes);
  return p ? q : counted(q);
}
void free(void *p) {
  if (p) atomic_fetch_sub(&blocks_alive, 1);
  __libc_free(p);
}
#pragma GCC visibility pop
#endif

/* ---- elements as text
 * ------------------------------------------------------------------------------------ */

enum { TEXT = 8192, MAX = 40 };

typedef struct Text {
  char text[TEXT];
  size_t used;
} Text;

static void add(Text *t, const char *format, double value) {
  int n = snprintf(t->text + t->used, TEXT - t->used, format, value);
  if (n > 0 && t->used + (size_t)n < TEXT) t->used += (size_t)n;
}

static void add_values(Text *t, Dtype d, int rank, int64_t count, const void *data, bool last) {
  add(t, rank ? "[" : "", 0);
  for (int64_t i = 0; i < count; i++) add(t, i ? " %g" : "%g", dtype_get(d, data, i));
  add(t, rank ? "]" : "", 0);
  add(t, last ? ";" : ",", 0);
}

static void add_tensor(Text *t, Tensor *x, bool last) {
  Error e = {.status = OK};
  Tensor *dense = tensor_dense(&e, x);
  if (dense) add_values(t, x->type.dtype, x->type.rank, type_count(&x->type), dense->data, last);
  tensor_release(dense);
}

typedef struct Setup {
  int threads;
  Pool *pool;
  HostCalls *host;
} Setup;

static Iterator *open_at(Error *e, Dataset *d, const Setup *s) {
  DataContext c = {.pool = s->pool, .threads = s->threads, .seed = 7, .host = s->host};
  return iterator_open(e, d, &c);
}

/* The work on an element; a thread for making elements pays only with it */
static double use_seconds;

static void spin(double seconds) {
  for (double begin = clock_seconds(); clock_seconds() - begin < seconds;) continue;
}

/* The elements that are left, up to most; "!" for a failure, "." at the end. */
static Status read_tensors(Iterator *it, int max, Text *out, Error *e) {
  Tensor *t[8] = {NULL};
  int count = dataset_component_count(iterator_dataset(it));
  for (int i = 0; i < max; i++) {
    bool end = false;
    Status s = iterator_next(it, t, &end, e);
    if (s != OK) return add(out, "!", 0), s;
    if (end) return add(out, ".", 0), OK;
    for (int c = 0; c < count; c++) {
      CHECK(type_equal(dataset_component(iterator_dataset(it), c), &t[c]->type) ||
            !dataset_is_static(iterator_dataset(it)));
      add_tensor(out, t[c], c == count - 1);
      tensor_release(t[c]);
      t[c] = NULL;
    }
    if (use_seconds > 0) spin(use_seconds);
  }
  return OK;
}

static Status read_into(Iterator *it, int max, Text *out, Error *e) {
  const Dataset *d = iterator_dataset(it);
  int count = dataset_component_count(d);
  void *into[8] = {NULL};
  Status s = OK;
  for (int c = 0; c < count; c++)
    into[c] = aligned_alloc(64, (type_bytes(dataset_component(d, c)) + 64) / 64 * 64);
  for (int i = 0; i < max && s == OK; i++) {
    bool end = false;
    s = iterator_next_into(it, into, &end, e);
    if (s != OK || end) {
      add(out, end ? "." : "!", 0);
      break;
    }
    for (int c = 0; c < count; c++) {
      const Type *type = dataset_component(d, c);
      add_values(out, type->dtype, type->rank, type_count(type), into[c], c == count - 1);
    }
  }
  for (int c = 0; c < count; c++) free(into[c]);
  return s;
}

static void read_all(Dataset *d, const Setup *s, Text *out) {
  Error e = {.status = OK};
  *out = (Text){.used = 0};
  Iterator *it = d ? open_at(&e, d, s) : NULL;
  if (it) read_tensors(it, MAX, out, &e);
  if (e.status != OK) fprintf(stderr, "%s\n", e.message);
  iterator_close(it);
}

/* ---- datasets to try
 * ------------------------------------------------------------------------------------- */

static Dataset *consume(Dataset *made, Dataset *a) { return dataset_release(a), made; }

static Dataset *numbers(Error *e, int64_t n) { return dataset_range(e, "spec.lua:1", 0, n, 1); }

/* n rows: x [n, 2] float32 = (i, i / 2), y [n] uint8 = i. */
static Dataset *slices(Error *e, int64_t n) {
  int64_t shape[2] = {n, 2};
  Type xt = type_make(F32, 2, shape), yt = type_make(U8, 1, shape);
  Tensor *x = tensor_new(e, &xt), *y = tensor_new(e, &yt);
  Dataset *d = NULL;
  if (x && y) {
    for (int64_t i = 0; i < n; i++) {
      dtype_set(F32, x->data, 2 * i, (double)i), dtype_set(F32, x->data, 2 * i + 1, (double)i / 2);
      dtype_set(U8, y->data, i, (double)i);
    }
    d = dataset_from_slices(e, "spec.lua:2", 2, (Tensor *[]){x, y});
  }
  tensor_release(x);
  tensor_release(y);
  return d;
}

/* Twice an int64 scalar, as float32; slowly when context says so. */
typedef struct Doubling {
  Type type;
  double seconds;
  int64_t fails_at; /* -1: never */
  bool numbered;    /* the element is its number */
} Doubling;

static Status doubling_run(void *context, int worker, uint64_t number, const void *const *in,
                           void *const *out, Error *e) {
  const Doubling *d = context;
  int64_t x = *(const int64_t *)in[0];
  CHECK(!d->numbered || number == (uint64_t)x);
  if (worker < 0 || worker >= MAP_WORKERS) return fail(e, ERR_INTERNAL, "worker %d", worker);
  spin(d->seconds);
  if (x == d->fails_at) return fail(e, ERR_VALUE, "%lld is not liked", (long long)x);
  *(float *)out[0] = 2 * (float)x;
  return OK;
}

static _Atomic int contexts_alive;

static void context_release(void *context) {
  free(context);
  atomic_fetch_sub(&contexts_alive, 1);
}

static Dataset *mapped(Error *e, Dataset *in, int parallel, double seconds, int64_t fails_at) {
  Doubling *d = in ? calloc(1, sizeof *d) : NULL;
  if (!d) return dataset_release(in), fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  *d = (Doubling){.type = type_scalar(F32), .seconds = seconds, .fails_at = fails_at};
  atomic_fetch_add(&contexts_alive, 1);
  MapFunction f = {.context = d,
                   .in_count = 1,
                   .out_count = 1,
                   .out_type = &d->type,
                   .run = doubling_run,
                   .release = context_release};
  return consume(dataset_map(e, "spec.lua:3", in, f, parallel), in);
}

/* The sum of a vector of any length, by way of a variant for each length. */
typedef struct Summing {
  Type out, in;
} Summing;

static Status summing_run(void *context, int worker, uint64_t number, const void *const *in,
                          void *const *out, Error *e) {
  const Summing *s = context;
  (void)worker, (void)number, (void)e;
  int64_t sum = 0;
  for (int64_t i = 0; i < s->in.shape[0]; i++) sum += ((const int64_t *)in[0])[i];
  *(int64_t *)out[0] = sum;
  return OK;
}

static Status summing_specialise(void *context, const Type *in, MapFunction *variant, Error *e) {
  (void)context;
  Summing *s = calloc(1, sizeof *s);
  if (!s) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  *s = (Summing){.out = type_scalar(I64), .in = in[0]};
  atomic_fetch_add(&contexts_alive, 1);
  *variant = (MapFunction){.context = s,
                           .in_count = 1,
                           .out_count = 1,
                           .out_type = &s->out,
                           .run = summing_run,
                           .release = context_release};
  return OK;
}

static Dataset *summed(Error *e, Dataset *in, int parallel) {
  Summing *s = in ? calloc(1, sizeof *s) : NULL;
  if (!s) return dataset_release(in), fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  s->out = type_scalar(I64);
  atomic_fetch_add(&contexts_alive, 1);
  MapFunction f = {.context = s,
                   .in_count = 1,
                   .out_count = 1,
                   .out_type = &s->out,
                   .run = summing_run,
                   .specialise = summing_specialise,
                   .release = context_release};
  return consume(dataset_map(e, "spec.lua:4", in, f, parallel), in);
}

static Status odd_run(void *context, int worker, uint64_t number, const void *const *in,
                      void *const *out, Error *e) {
  (void)context, (void)worker, (void)number, (void)e;
  *(uint8_t *)out[0] = *(const int64_t *)in[0] % 2 != 0;
  return OK;
}

static const Type bool_scalar = {.dtype = BOOL};

static Dataset *odd_only(Error *e, Dataset *in) {
  if (!in) return NULL;
  MapFunction f = {.in_count = 1, .out_count = 1, .out_type = &bool_scalar, .run = odd_run};
  return consume(dataset_filter(e, "spec.lua:5", in, f), in);
}

/* A generator of vectors 0, [0 1], [0 1 2] …, on the script's thread only. */
typedef struct Script {
  pthread_t thread;
  int count;
  int fails_at;
  _Atomic int open, calls;
} Script;

typedef struct Position {
  int next;
} Position;

static Status script_open(void *context, void **state, Error *e) {
  Script *s = context;
  CHECK(pthread_equal(s->thread, pthread_self()));
  if (!(*state = calloc(1, sizeof(Position)))) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  atomic_fetch_add(&s->open, 1);
  return OK;
}

static Status script_next(void *context, void *state, Tensor **out, int out_count, bool *end,
                          Error *e) {
  Script *s = context;
  Position *p = state;
  CHECK(pthread_equal(s->thread, pthread_self()));
  CHECK(out_count == 1);
  atomic_fetch_add(&s->calls, 1);
  *end = p->next >= s->count;
  if (*end) return OK;
  int64_t n = ++p->next;
  if (n == s->fails_at) return fail_at(e, "spec.lua:99", ERR_RUNTIME, "the script raised");
  Type type = type_make(I64, 1, &n);
  if (!(out[0] = tensor_new(e, &type))) return ERR_OUT_OF_MEMORY;
  for (int64_t i = 0; i < n; i++) ((int64_t *)(void *)out[0]->data)[i] = i;
  return OK;
}

static void script_close(void *context, void *state) {
  Script *s = context;
  CHECK(pthread_equal(s->thread, pthread_self()));
  atomic_fetch_sub(&s->open, 1);
  free(state);
}

static void script_release(void *context) {
  Script *s = context;
  CHECK(pthread_equal(s->thread, pthread_self()));
  CHECK(atomic_load(&s->open) == 0);
  context_release(context);
}

static Dataset *vectors(Error *e, int count, int fails_at) {
  Script *s = calloc(1, sizeof *s);
  if (!s) return fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  *s = (Script){.thread = pthread_self(), .count = count, .fails_at = fails_at};
  atomic_fetch_add(&contexts_alive, 1);
  Generator g = {s, script_open, script_next, script_close, script_release, NULL};
  int64_t unknown = -1;
  Type type = type_make(I64, 1, &unknown);
  return dataset_from_generator(e, "spec.lua:6", 1, &type, g);
}

/* flat_map's and interleave's function: n → the numbers 10 n … 10 n + n - 1. */
static Status make_numbers(void *context, Tensor *const *in, int in_count, Tensor **out,
                           int out_count, Dataset **dataset, Error *e) {
  (void)context, (void)out_count;
  CHECK(in_count == 1 && !out && dataset);
  int64_t n = dtype_get_integer(I64, in[0]->data, 0);
  *dataset = dataset_range(e, NULL, 10 * n, 10 * n + n, 1);
  if (n == 3 && *dataset) { /* a shuffle inside */
    ShuffleOptions o = {.buffer_size = 2};
    *dataset = consume(dataset_shuffle(e, NULL, *dataset, &o), *dataset);
  }
  return *dataset ? OK : e->status;
}

/* A window to the sum of its elements. */
static Status window_sum(void *context, Tensor *const *in, int in_count, Tensor **out,
                         int out_count, Dataset **dataset, Error *e) {
  (void)context, (void)dataset;
  CHECK(in_count == 1 && out_count == 1);
  int64_t sum = 0;
  for (int64_t i = 0; i < in[0]->type.shape[0]; i++) sum += dtype_get_integer(I64, in[0]->data, i);
  Type type = type_scalar(I64);
  return (out[0] = tensor_from(e, &type, &sum)) ? OK : ERR_OUT_OF_MEMORY;
}

static const Type int_scalar = {.dtype = I64};
static const char *const cache_path = "data_check.safetensors";

static Dataset *shuffled(Error *e, Dataset *in, int64_t buffer, int seed) {
  if (!in) return NULL;
  ShuffleOptions o = {.buffer_size = buffer, .has_seed = seed > 0, .seed = (uint64_t)seed};
  return consume(dataset_shuffle(e, "spec.lua:7", in, &o), in);
}
static Dataset *batched(Error *e, Dataset *in, int64_t size, bool drop) {
  return in ? consume(dataset_batch(e, "spec.lua:8", in, size, drop), in) : NULL;
}
static Dataset *repeated(Error *e, Dataset *in, int64_t count) {
  return in ? consume(dataset_repeat(e, "spec.lua:9", in, count), in) : NULL;
}
static Dataset *taken(Error *e, Dataset *in, int64_t count) {
  return in ? consume(dataset_take(e, "spec.lua:10", in, count), in) : NULL;
}
static Dataset *without(Error *e, Dataset *in, int64_t count) {
  return in ? consume(dataset_skip(e, "spec.lua:11", in, count), in) : NULL;
}
static Dataset *prefetched(Error *e, Dataset *in, int64_t n) {
  return in ? consume(dataset_prefetch(e, "spec.lua:12", in, n), in) : NULL;
}
static Dataset *cached(Error *e, Dataset *in, const char *path) {
  return in ? consume(dataset_cache(e, "spec.lua:13", in, path), in) : NULL;
}
static Dataset *zipped(Error *e, Dataset *a, Dataset *b) {
  Dataset *d = a && b ? dataset_zip(e, "spec.lua:14", 2, (Dataset *[]){a, b}) : NULL;
  dataset_release(a);
  dataset_release(b);
  return d;
}
static Dataset *joined(Error *e, Dataset *a, Dataset *b) {
  Dataset *d = a && b ? dataset_concatenate(e, "spec.lua:15", a, b) : NULL;
  dataset_release(a);
  dataset_release(b);
  return d;
}
static Dataset *windows(Error *e, Dataset *in, int64_t size, int64_t shift, int64_t stride,
                        bool drop) {
  return in ? consume(dataset_window(e, "spec.lua:16", in, size, shift, stride, drop), in) : NULL;
}
static Dataset *window_sums(Error *e, Dataset *in) {
  ScriptFunction f = {NULL, window_sum, NULL, NULL};
  return in ? consume(dataset_map_host(e, "spec.lua:17", in, 1, &int_scalar, f), in) : NULL;
}
static Dataset *interleaved(Error *e, Dataset *in, int64_t cycle, int64_t block) {
  ScriptFunction f = {NULL, make_numbers, NULL, NULL};
  return in ? consume(dataset_interleave(e, "spec.lua:18", in, 1, &int_scalar, f, cycle, block), in)
            : NULL;
}
static Dataset *padded(Error *e, Dataset *in, int64_t size, bool drop) {
  return in ? consume(dataset_padded_batch(e, "spec.lua:19", in, size, NULL, NULL, drop), in)
            : NULL;
}
static Dataset *unbatched(Error *e, Dataset *in) {
  return in ? consume(dataset_unbatch(e, "spec.lua:20", in), in) : NULL;
}
static Dataset *buffered(Error *e, Dataset *in, int64_t n) {
  return in ? consume(dataset_buffer(e, "spec.lua:21", in, n), in) : NULL;
}
static Dataset *sharded(Error *e, Dataset *in, int64_t n, int64_t i) {
  return in ? consume(dataset_shard(e, "spec.lua:22", in, n, i), in) : NULL;
}
static Dataset *counted_from(Error *e, Dataset *in, int64_t start) {
  return in ? consume(dataset_enumerate(e, "spec.lua:23", in, start), in) : NULL;
}

/* name, dataset, its elements as tf.data gives them (NULL: random order), cardinality. */
/* clang-format off */
#define CASES(X)                                                                                              \
  X(range, dataset_range(e, NULL, 5, 0, -2), "5;3;1;.", 3)                                                     \
  X(slices, slices(e, 3), "[0 0],0;[1 0.5],1;[2 1],2;.", 3)                                                    \
  X(batch, batched(e, numbers(e, 5), 2, false), "[0 1];[2 3];[4];.", 3)                                        \
  X(batch_drop, batched(e, numbers(e, 5), 2, true), "[0 1];[2 3];.", 2)                                        \
  X(batch_rows, batched(e, slices(e, 3), 2, false), "[0 0 1 0.5],[0 1];[2 1],[2];.", 2)                        \
  X(batch_rows_drop, batched(e, slices(e, 3), 2, true), "[0 0 1 0.5],[0 1];.", 1)                              \
  X(batch_twice, batched(e, batched(e, numbers(e, 5), 2, true), 2, false), "[0 1 2 3];.", 1)                   \
  X(map, mapped(e, numbers(e, 4), 0, 0, -1), "0;2;4;6;.", 4)                                                   \
  X(map_parallel, mapped(e, numbers(e, 7), 3, 0, -1), "0;2;4;6;8;10;12;.", 7)                                  \
  X(map_auto, mapped(e, numbers(e, 3), DATA_AUTOTUNE, 0, -1), "0;2;4;.", 3)                                    \
  X(map_variants, summed(e, batched(e, numbers(e, 5), 2, false), 0), "1;5;4;.", 3)                             \
  X(map_variants_parallel, summed(e, batched(e, numbers(e, 5), 2, false), 2), "1;5;4;.", 3)                    \
  X(map_batch, batched(e, mapped(e, numbers(e, 5), 2, 0, -1), 2, true), "[0 2];[4 6];.", 2)                    \
  X(shuffle_rows, shuffled(e, slices(e, 20), 5, 3), NULL, 20)                                                  \
  X(shuffle_unseeded, shuffled(e, slices(e, 20), 100, 0), NULL, 20)                                            \
  X(shuffle_elements, shuffled(e, numbers(e, 20), 5, 3), NULL, 20)                                             \
  X(shuffle_large, shuffled(e, batched(e, numbers(e, 120), 40, true), 2, 3), NULL, 3)                          \
  X(shuffle_uneven, shuffled(e, batched(e, numbers(e, 9), 2, false), 3, 3), NULL, 5)                           \
  X(shuffle_pairs, shuffled(e, zipped(e, numbers(e, 6), mapped(e, numbers(e, 6), 0, 0, -1)), 4, 3), NULL, 6)   \
  X(shuffle_epochs, repeated(e, shuffled(e, slices(e, 6), 6, 3), 3), NULL, 18)                                 \
  X(shuffle_batch, batched(e, shuffled(e, slices(e, 7), 7, 1), 3, true), NULL, 2)                              \
  X(shuffle_zip, zipped(e, shuffled(e, slices(e, 6), 6, 0), shuffled(e, slices(e, 6), 6, 0)), NULL, 6)         \
  X(shuffle_nested, repeated(e, shuffled(e, repeated(e, shuffled(e, slices(e, 4), 4, 0), 2), 3, 0), 2), NULL, 16) \
  X(repeat, repeated(e, numbers(e, 2), 3), "0;1;0;1;0;1;.", 6)                                                 \
  X(repeat_none, repeated(e, numbers(e, 2), 0), ".", 0)                                                        \
  X(repeat_empty, repeated(e, numbers(e, 0), -1), ".", 0)                                                      \
  X(repeat_batch, batched(e, repeated(e, slices(e, 3), 2), 4, false),                                          \
    "[0 0 1 0.5 2 1 0 0],[0 1 2 0];[1 0.5 2 1],[1 2];.", 2)                                                    \
  X(take, taken(e, repeated(e, slices(e, 2), -1), 3), "[0 0],0;[1 0.5],1;[0 0],0;.", 3)                        \
  X(take_all, taken(e, numbers(e, 3), -1), "0;1;2;.", 3)                                                       \
  X(skip, without(e, numbers(e, 5), 3), "3;4;.", 2)                                                            \
  X(skip_rows, without(e, slices(e, 3), 1), "[1 0.5],1;[2 1],2;.", 2)                                          \
  X(skip_beyond, without(e, numbers(e, 5), 9), ".", 0)                                                         \
  X(skip_all, without(e, repeated(e, numbers(e, 5), -1), -1), ".", 0)                                          \
  X(shard, sharded(e, numbers(e, 8), 3, 1), "1;4;7;.", 3)                                                      \
  X(shard_rows, sharded(e, slices(e, 5), 2, 1), "[1 0.5],1;[3 1.5],3;.", 2)                                    \
  X(enumerate, counted_from(e, slices(e, 2), 7), "7,[0 0],0;8,[1 0.5],1;.", 2)                                 \
  X(zip, zipped(e, numbers(e, 3), repeated(e, numbers(e, 2), -1)), "0,0;1,1;2,0;.", 3)                         \
  X(zip_rows, batched(e, zipped(e, slices(e, 3), slices(e, 2)), 2, true), "[0 0 1 0.5],[0 1],[0 0 1 0.5],[0 1];.", 1) \
  X(concatenate, joined(e, numbers(e, 2), without(e, numbers(e, 5), 3)), "0;1;3;4;.", 4)                       \
  X(concatenate_shapes, joined(e, batched(e, numbers(e, 2), 2, true), batched(e, numbers(e, 3), 3, true)),     \
    "[0 1];[0 1 2];.", 2)                                                                                      \
  X(filter, odd_only(e, numbers(e, 6)), "1;3;5;.", CARDINALITY_UNKNOWN)                                        \
  X(filter_none, odd_only(e, dataset_range(e, NULL, 0, 6, 2)), ".", CARDINALITY_UNKNOWN)                       \
  X(generator, vectors(e, 3, 0), "[0];[0 1];[0 1 2];.", CARDINALITY_UNKNOWN)                                   \
  X(generator_repeat, repeated(e, vectors(e, 2, 0), 2), "[0];[0 1];[0];[0 1];.", CARDINALITY_UNKNOWN)          \
  X(padded_batch, padded(e, vectors(e, 3, 0), 2, false), "[0 0 0 1];[0 1 2];.", CARDINALITY_UNKNOWN)           \
  X(unbatch, unbatched(e, batched(e, slices(e, 3), 2, false)), "[0 0],0;[1 0.5],1;[2 1],2;.", CARDINALITY_UNKNOWN) \
  X(unbatch_known, unbatched(e, batched(e, numbers(e, 5), 2, true)), "0;1;2;3;.", 4)                           \
  X(unbatch_vectors, unbatched(e, vectors(e, 3, 0)), "0;0;1;0;1;2;.", CARDINALITY_UNKNOWN)                     \
  X(window, windows(e, numbers(e, 7), 3, 0, 1, false), "[0 1 2];[3 4 5];[6];.", 3)                             \
  X(window_drop, windows(e, numbers(e, 7), 3, 1, 1, true), "[0 1 2];[1 2 3];[2 3 4];[3 4 5];[4 5 6];.", 5)     \
  X(window_stride, windows(e, numbers(e, 7), 3, 2, 2, false), "[0 2 4];[2 4 6];[4 6];[6];.", 4)                \
  X(window_gap, windows(e, numbers(e, 7), 2, 5, 1, false), "[0 1];[5 6];.", 2)                                 \
  X(window_sums, window_sums(e, windows(e, numbers(e, 4), 2, 1, 1, false)), "1;3;5;3;.", 4)                    \
  X(interleave, interleaved(e, dataset_range(e, NULL, 1, 5, 1), 2, 1), NULL, CARDINALITY_UNKNOWN)              \
  X(interleave_block, interleaved(e, dataset_range(e, NULL, 4, 7, 2), 2, 3), "40;41;42;60;61;62;43;63;64;65;.", \
    CARDINALITY_UNKNOWN)                                                                                       \
  X(flat, interleaved(e, dataset_range(e, NULL, 0, 3, 1), 1, 1), "10;20;21;.", CARDINALITY_UNKNOWN)            \
  X(flat_epochs, repeated(e, interleaved(e, dataset_range(e, NULL, 2, 4, 1), 1, 1), 3), NULL, CARDINALITY_UNKNOWN) \
  X(cache, repeated(e, cached(e, mapped(e, numbers(e, 3), 0, 0, -1), NULL), 2), "0;2;4;0;2;4;.", 6)            \
  X(cache_rows, cached(e, slices(e, 2), NULL), "[0 0],0;[1 0.5],1;.", 2)                                       \
  X(cache_vectors, repeated(e, cached(e, vectors(e, 2, 0), ""), 2), "[0];[0 1];[0];[0 1];.", CARDINALITY_UNKNOWN) \
  X(cache_shuffle, repeated(e, shuffled(e, cached(e, numbers(e, 5), NULL), 5, 2), 2), NULL, 10)                \
  X(cache_none, cached(e, numbers(e, 0), NULL), ".", 0)                                                        \
  X(buffer, repeated(e, buffered(e, repeated(e, numbers(e, 3), -1), 4), 2), "0;1;2;0;0;1;2;0;.", 8)            \
  X(buffer_vectors, buffered(e, vectors(e, 3, 0), 2), "[0];[0 1];.", CARDINALITY_UNKNOWN)                      \
  X(prefetch, repeated(e, prefetched(e, numbers(e, 3), -1), 2), "0;1;2;0;1;2;.", 6)                            \
  X(prefetch_rows, batched(e, prefetched(e, shuffled(e, slices(e, 6), 3, 1), 2), 2, true), NULL, 3)

/* clang-format on */

#define X(name, make, want, cardinality) \
  static Dataset *make_##name(Error *e) { return make; }
CASES(X)
#undef X

typedef struct Case {
  const char *name;
  Dataset *(*make)(Error *e);
  const char *want;
  int64_t cardinality;
} Case;

#define X(name, make, want, cardinality) {#name, make_##name, want, cardinality},
static const Case cases[] = {CASES(X)};
#undef X
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

static Dataset *make(const Case *c) {
  Error e = {.status = OK};
  Dataset *d = c->make(&e);
  if (!d) fprintf(stderr, "%s: %s\n", c->name, e.message);
  return d;
}

/* ---- every case in every way
 * ----------------------------------------------------------------------------- */

static void check_order(const Case *c, const Setup *s, Text *all) {
  Dataset *d = make(c);
  CHECK(d && dataset_cardinality(d) == c->cardinality);
  read_all(d, s, all);
  if (c->want) CHECK_TEXT(all->text, c->want);
  dataset_release(d);
}

static void check_into(const Case *c, const Setup *s, const Text *all) {
  Error e = {.status = OK};
  Dataset *d = make(c);
  Iterator *it = open_at(&e, d, s);
  Text t = {.used = 0};
  Status status = read_into(it, MAX, &t, &e);
  CHECK((status == OK) == dataset_is_static(d));
  if (dataset_is_static(d)) CHECK_TEXT(t.text, all->text);
  iterator_close(it);
  dataset_release(d);
}

static int element_count(const Text *all) {
  int n = 0;
  for (const char *p = all->text; *p; p++) n += *p == ';';
  return n;
}

/* The text from element k on. */
static const char *tail(const Text *all, int k) {
  const char *p = all->text;
  while (k && *p) k -= *p++ == ';';
  return p;
}

static void check_skips(const Case *c, const Setup *s, const Text *all, int k) {
  Error e = {.status = OK};
  Dataset *d = make(c);
  Iterator *it = open_at(&e, d, s);
  Text t = {.used = 0}, ignored = {.used = 0};
  int64_t skipped;
  int first = k / 2;
  CHECK(read_tensors(it, first, &ignored, &e) == OK);
  CHECK(iterator_skip(it, k - first, &skipped, &e) == OK && skipped == k - first);
  CHECK(read_tensors(it, MAX, &t, &e) == OK);
  CHECK_TEXT(t.text, tail(all, k));
  bool end = false;
  Tensor *none[8];
  CHECK(iterator_next(it, none, &end, &e) == OK && end); /* and stays there */
  CHECK(iterator_skip(it, 5, &skipped, &e) == OK && skipped == 0);
  iterator_close(it);
  dataset_release(d);
}

static void check_restore(const Case *c, const Setup *s, const Text *all, int k) {
  Error e = {.status = OK};
  Dataset *d = make(c);
  Iterator *it = open_at(&e, d, s);
  Text t = {.used = 0}, ignored = {.used = 0};
  read_tensors(it, k, &ignored, &e);
  Tensor *saved = iterator_save(&e, it, -1);
  iterator_close(it);
  dataset_release(d);
  d = make(c);
  DataContext other = {.pool = s->pool, .threads = s->threads, .seed = 1234, .host = s->host};
  it = saved ? iterator_restore(&e, d, &other, saved) : NULL;
  CHECK(it != NULL);
  if (it) read_tensors(it, MAX, &t, &e);
  CHECK_TEXT(t.text, tail(all, k));
  iterator_close(it);
  tensor_release(saved);
  dataset_release(d);
}

static void check_close(const Case *c, const Setup *s, int k) {
  Error e = {.status = OK};
  Dataset *d = make(c);
  Iterator *it = open_at(&e, d, s);
  dataset_release(d); /* the iterator holds it */
  Text t = {.used = 0};
  read_tensors(it, k, &t, &e);
  iterator_close(it);
}

/* Each allocation fails in turn: an error or the right elements, no crash, no leak. */
static void check_memory(const Case *c, const Setup *s, const Text *all) {
#ifndef SANITIZED
  for (int64_t k = 0; k < 4000; k++) {
    int64_t before = atomic_load(&blocks_alive);
    Error e = {.status = OK};
    Text t = {.used = 0};
    atomic_store(&allocations_left, k);
    Dataset *d = c->make(&e);
    Iterator *it = d ? open_at(&e, d, s) : NULL;
    if (it) read_tensors(it, MAX, &t, &e);
    iterator_close(it);
    dataset_release(d);
    bool done = atomic_exchange(&allocations_left, -1) > 0;
    host_calls_serve(s->host);
    bool clean = atomic_load(&blocks_alive) == before;
    if (!clean || (e.status == OK && strcmp(t.text, all->text)) ||
        (e.status != OK && !e.message[0]) || (e.status != OK && e.status != ERR_OUT_OF_MEMORY)) {
      char detail[400];
      snprintf(detail, sizeof detail, "%s, allocation %lld: %.200s, '%.100s', %lld blocks more",
               c->name, (long long)k, e.message, t.text,
               (long long)(atomic_load(&blocks_alive) - before));
      check_at(false, __FILE__, __LINE__, "memory", detail);
      return;
    }
    if (done) break;
  }
  CHECK(true);
#else
  (void)c, (void)s, (void)all;
#endif
}

static void sweep(const Setup *one, const Setup *two) {
  for (int i = 0; i < CASE_COUNT; i++) {
    const Case *c = &cases[i];
    int64_t bytes = storage_bytes_alive();
    int failed = failures;
    Text all, again;
    check_order(c, one, &all);
    check_order(c, two, &again);
    CHECK_TEXT(again.text, all.text);
    check_into(c, one, &all);
    check_into(c, two, &all);
    for (int k = 0; k <= element_count(&all); k++) {
      check_skips(c, k % 2 ? one : two, &all, k);
      check_restore(c, k % 2 ? two : one, &all, k);
      check_close(c, k % 2 ? one : two, k);
    }
    check_memory(c, one, &all);
    CHECK(storage_bytes_alive() == bytes);
    CHECK(atomic_load(&contexts_alive) == 0);
    if (failures > failed) fprintf(stderr, "  … in case %s\n", c->name);
  }
}

/* ---- shuffling
 * ------------------------------------------------------------------------------------------- */

static bool is_permutation(const Text *t, int first_component_of, int n) {
  bool seen[256] = {false};
  const char *p = t->text;
  for (int i = 0; i < n; i++) {
    double value = 0;
    for (int c = 0; c < first_component_of; c++) p = strchr(p, ',') + 1;
    value = strtod(p, NULL);
    if (value < 0 || value >= n || seen[(int)value]) return false;
    seen[(int)value] = true;
    p = strchr(p, ';') + 1;
  }
  return *p == '.';
}

static void check_shuffles(const Setup *one) {
  Error e = {.status = OK};
  Text a, b, c;
  Dataset *d = shuffled(&e, slices(&e, 30), 30, 5), *other = shuffled(&e, slices(&e, 30), 30, 5);
  read_all(d, one, &a);
  read_all(other, one, &b);
  read_all(d, one, &c);
  CHECK_TEXT(b.text, a.text);         /* the same seed, the same order */
  CHECK(strcmp(a.text, c.text) != 0); /* another one on the next iteration */
  CHECK(is_permutation(&a, 1, 30) && is_permutation(&c, 1, 30));
  dataset_release(other);
  other = shuffled(&e, slices(&e, 30), 30, 6);
  read_all(other, one, &b);
  CHECK(strcmp(a.text, b.text) != 0);
  dataset_release(other);
  dataset_release(d);

  ShuffleOptions keep = {.buffer_size = 30, .has_seed = true, .seed = 5, .keep_order = true};
  Dataset *plain = slices(&e, 30);
  d = consume(dataset_shuffle(&e, NULL, plain, &keep), plain);
  read_all(d, one, &b);
  read_all(d, one, &c);
  CHECK_TEXT(b.text, c.text);
  dataset_release(d);

  /* a small buffer moves elements forward by at most its size */
  d = shuffled(&e, slices(&e, 30), 4, 5);
  read_all(d, one, &b);
  CHECK(is_permutation(&b, 1, 30));
  const char *p = b.text;
  for (int i = 0; i < 30; i++) {
    CHECK(strtod(strchr(p, ',') + 1, NULL) <= i + 3);
    p = strchr(p, ';') + 1;
  }
  dataset_release(d);
  CHECK(e.status == OK);
}

/* Every place is as likely for every element: 20000 orders of 4, chi-squared with 23 degrees of
 * freedom. */
static void check_uniformity(const Setup *one) {
  Error e = {.status = OK};
  Dataset *d = repeated(&e, shuffled(&e, slices(&e, 4), 4, 9), -1);
  Iterator *it = open_at(&e, d, one);
  int count[256] = {0};
  uint8_t y = 0;
  float x[2];
  for (int i = 0; i < 20000; i++) {
    int order = 0;
    bool end;
    for (int k = 0; k < 4; k++)
      iterator_next_into(it, (void *[]){x, &y}, &end, &e), order = order * 4 + y;
    count[order]++;
  }
  double chi = 0, want = 20000.0 / 24;
  for (int i = 0; i < 256; i++)
    if (count[i]) chi += (count[i] - want) * (count[i] - want) / want;
  CHECK(chi < 60); /* beyond 60 once in 30,000 seeds */
  iterator_close(it);
  dataset_release(d);
}

/* ---- failures
 * -------------------------------------------------------------------------------------------- */

static void check_message(Dataset *d, const Setup *s, const char *want, const char *source,
                          const char *order) {
  Error e = {.status = OK};
  Text t = {.used = 0};
  Iterator *it = d ? open_at(&e, d, s) : NULL;
  if (it && read_tensors(it, MAX, &t, &e) != OK) {
    CHECK_TEXT(e.message, want);
    CHECK_TEXT(e.source, source);
    Error later = {.status = OK};
    read_tensors(it, MAX, &t, &later); /* goes on after the failure */
    CHECK((later.status == OK) == (order[strlen(order) - 1] == '.'));
    CHECK_TEXT(t.text, order);
  } else {
    check_at(false, __FILE__, __LINE__, "no failure", want);
  }
  iterator_close(it);
  dataset_release(d);
}

static void check_failures(const Setup *s) {
  Error e = {.status = OK};
  const char *bad = "dataset stage 'map' (spec.lua:3): 2 is not liked";
  check_message(mapped(&e, numbers(&e, 4), 0, 0, 2), s, bad, "spec.lua:3", "0;2;!6;.");
  check_message(mapped(&e, numbers(&e, 4), 4, 0, 2), s, bad, "spec.lua:3", "0;2;!6;.");
  check_message(batched(&e, mapped(&e, numbers(&e, 6), 0, 0, 2), 2, false), s, bad, "spec.lua:3",
                "[0 2];![8 10];.");
  check_message(batched(&e, mapped(&e, numbers(&e, 7), 0, 0, 4), 3, false), s,
                "dataset stage 'map' (spec.lua:3): 4 is not liked", "spec.lua:3",
                "[0 2 4];![12];.");
  check_message(prefetched(&e, mapped(&e, numbers(&e, 4), 0, 0, 2), 2), s, bad, "spec.lua:3",
                "0;2;!6;.");
  check_message(cached(&e, mapped(&e, numbers(&e, 4), 0, 0, 2), ""), s, bad, "spec.lua:3",
                "0;2;!6;.");
  const char *raised = "dataset stage 'from_generator' (spec.lua:6): the script raised";
  check_message(vectors(&e, 3, 2), s, raised, "spec.lua:99", "[0];![0 1 2];.");
  check_message(
      batched(&e, vectors(&e, 2, 0), 2, false), s,
      "dataset stage 'batch' (spec.lua:8): elements of different shapes can't be stacked: component 0 of "
      "element 1 has shape [2], the first element's has [1]",
      "spec.lua:8", "!.");
  check_message(buffered(&e, mapped(&e, numbers(&e, 3), 0, 0, 1), 5), s,
                "dataset stage 'map' (spec.lua:3): 1 is not liked", "spec.lua:3", "!0;4;.");
}

static void refused_with(Dataset *made, Error *e, const char *want) {
  CHECK(!made);
  CHECK_TEXT(e->message, want);
  dataset_release(made);
  error_clear(e);
}

static void check_refusals(void) {
  Error e = {.status = OK};
  refused_with(dataset_range(&e, "s", 0, 5, 0), &e, "range: step is 0");
  refused_with(batched(&e, numbers(&e, 3), 0, true), &e,
               "batch: the batch size must be at least 1, got 0");
  refused_with(batched(&e, numbers(&e, 3), INT64_MAX, false), &e,
               "batch: a batch of 9223372036854775807 elements is too large");
  refused_with(shuffled(&e, numbers(&e, 3), 0, 0), &e,
               "shuffle: the buffer size must be at least 1, got 0");
  refused_with(prefetched(&e, numbers(&e, 3), -2), &e,
               "prefetch: the buffer size must not be negative, got -2");
  refused_with(sharded(&e, numbers(&e, 3), 2, 2), &e,
               "shard: the index must be between 0 and 1, got 2");
  refused_with(unbatched(&e, numbers(&e, 3)), &e,
               "unbatch: component 0 is a scalar: it has no rows");
  refused_with(
      batched(&e, windows(&e, numbers(&e, 3), 2, 0, 1, true), 2, true), &e,
      "batch: component 0 is itself a dataset (see window): flatten it with flat_map first");
  refused_with(joined(&e, numbers(&e, 3), slices(&e, 3)), &e,
               "concatenate: the first dataset has elements of 1 component, the second of 2; "
               "both need the same number");
  refused_with(joined(&e, numbers(&e, 3), mapped(&e, numbers(&e, 3), 0, 0, -1)), &e,
               "concatenate: component 0 is int64[] in the first dataset, float32[] in the second");
  refused_with(mapped(&e, vectors(&e, 3, 0), 0, 0, -1), &e,
               "map: the shape of the elements is not fully known");
  refused_with(windows(&e, numbers(&e, 3), 0, 1, 1, true), &e,
               "window: size, shift and stride must be at least 1, got 0, 1 and 1");
  Type scalar = type_scalar(F32);
  Tensor *t = tensor_new(&e, &scalar);
  refused_with(dataset_from_slices(&e, NULL, 1, &t), &e,
               "from_tensor_slices: component 0 has no dimension to slice: its shape is []");
  tensor_release(t);
  Dataset *d = numbers(&e, 3);
  for (int i = 0; d && i < 2000; i++) d = taken(&e, d, 2); /* far too deep a chain */
  refused_with(d, &e, "take: a dataset can have up to 500 stages");
  CHECK(atomic_load(&contexts_alive) == 0);
}

/* ---- files
 * ---------------------------------------------------------------------------------------------- */

static void check_file_cache(const Setup *s) {
  Error e = {.status = OK};
  Text a, b;
  for (int kind = 0; kind < 2; kind++) {
    remove(cache_path);
    Dataset *d =
        cached(&e, kind ? vectors(&e, 3, 0) : mapped(&e, numbers(&e, 3), 0, 0, -1), cache_path);
    Iterator *it = open_at(&e, d, s);
    Text part = {.used = 0};
    read_tensors(it, 2, &part, &e);
    iterator_close(it);
    CHECK(!file_exists(cache_path)); /* half a pass doesn't count */
    read_all(d, s, &a);
    CHECK(file_exists(cache_path));
    dataset_release(d);
    d = cached(&e, kind ? vectors(&e, 1, 1) : mapped(&e, numbers(&e, 9), 0, 0, 0),
               cache_path); /* never read */
    read_all(d, s, &b);
    CHECK_TEXT(b.text, a.text);
    dataset_release(d);
  }
  Dataset *d = cached(&e, slices(&e, 3), cache_path); /* the file is another dataset's */
  CHECK(open_at(&e, d, s) == NULL && strstr(e.message, "was not written by this dataset"));
  dataset_release(d);
  error_clear(&e);
  CHECK(file_write(&e, cache_path, "{}", 2) == OK);
  d = cached(&e, slices(&e, 3), cache_path);
  CHECK(open_at(&e, d, s) == NULL && strstr(e.message, cache_path));
  dataset_release(d);
  remove(cache_path);
  error_clear(&e);
  d = cached(&e, slices(&e, 2), "no such folder/x.safetensors");
  Text t = {.used = 0};
  Iterator *it = open_at(&e, d, s);
  CHECK(read_tensors(it, MAX, &t, &e) != OK && strstr(e.message, "no such folder"));
  iterator_close(it);
  dataset_release(d);
}

/* ---- threads
 * --------------------------------------------------------------------------------------------- */

/* Elements slow enough for a thread, of the given kind of upstream. */
static Dataset *slow(Error *e, int kind) {
  Dataset *d = mapped(e, numbers(e, 60), 0, 100e-6, kind == 1 ? 30 : -1);
  d = prefetched(e, d, 3);
  if (kind == 2) d = prefetched(e, batched(e, d, 2, true), 2);
  if (kind == 3) d = repeated(e, taken(e, d, 25), 2);
  return d;
}

/* The cost of a script: a generator that takes its time. */
typedef struct SlowScript {
  Script base;
} SlowScript;

static Status slow_next(void *context, void *state, Tensor **out, int out_count, bool *end,
                        Error *e) {
  spin(100e-6);
  return script_next(context, state, out, out_count, end, e);
}

static Dataset *slow_vectors(Error *e, int count, int depth) {
  Script *s = calloc(1, sizeof *s);
  *s = (Script){.thread = pthread_self(), .count = count};
  atomic_fetch_add(&contexts_alive, 1);
  Generator g = {s, script_open, slow_next, script_close, script_release, NULL};
  int64_t unknown = -1;
  Type type = type_make(I64, 1, &unknown);
  Dataset *d = dataset_from_generator(e, "spec.lua:6", 1, &type, g);
  return prefetched(e, d, depth);
}

/* Elements after the first ones are read ahead while some of them are skipped. */
static void read_around(Dataset *d, const Setup *s, Text *out) {
  Error e = {.status = OK};
  Iterator *it = open_at(&e, d, s);
  int64_t skipped = 0;
  *out = (Text){.used = 0};
  CHECK(read_tensors(it, 20, out, &e) == OK);
  spin(1e-3);
  CHECK(iterator_skip(it, 5, &skipped, &e) == OK && skipped == 5);
  read_tensors(it, 70, out, &e);
  iterator_close(it);
}

static void check_prefetch(const Setup *one, const Setup *two) {
  Error e = {.status = OK};
  for (int kind = 0; kind < 4; kind++) {
    Text want, got;
    Dataset *d = slow(&e, kind);
    read_around(d, one, &want);
    read_around(d, two, &got);
    CHECK_TEXT(got.text, want.text);
    Iterator *a = open_at(&e, d, one), *b = open_at(&e, d, two);
    want = got = (Text){.used = 0};
    Error ea = {.status = OK}, eb = {.status = OK};
    read_tensors(a, 70, &want, &ea);
    read_tensors(b, 70, &got, &eb);
    CHECK_TEXT(got.text, want.text);
    CHECK_TEXT(eb.message, ea.message);
    iterator_close(a);
    iterator_close(b);
    for (int k = 0; k < 60; k += 7) { /* closed while its threads are at work */
      Iterator *it = open_at(&e, d, two);
      Text t = {.used = 0};
      Error ignored = {.status = OK};
      read_tensors(it, k, &t, &ignored);
      if (k % 2) usleep(300);
      iterator_close(it);
    }
    dataset_release(d);
  }
  CHECK(e.status == OK);
}

static void check_host_calls(const Setup *two) {
  Error e = {.status = OK};
  for (int depth = 1; depth < 4; depth++) {
    Dataset *d = slow_vectors(&e, 25, depth);
    Iterator *it = open_at(&e, d, two);
    Text t = {.used = 0};
    CHECK(read_tensors(it, 30, &t, &e) == OK && element_count(&t) == 25);
    iterator_close(it);
    for (int k = 6; k < 25; k += 3) {
      it = open_at(&e, d, two);
      t = (Text){.used = 0};
      read_tensors(it, k, &t, &e);
      usleep(200); /* its thread waits for this one */
      iterator_close(it);
    }
    dataset_release(d);
    host_calls_serve(two->host);
    CHECK(atomic_load(&contexts_alive) == 0);
  }
}

static void note_slot(void *context, int64_t chunk, int slot) {
  (void)chunk;
  _Atomic int *highest = context;
  int seen = atomic_load(highest);
  while (slot > seen && !atomic_compare_exchange_weak(highest, &seen, slot)) continue;
  spin(20e-6);
}

/* While a thread makes elements, the pool's loops use one member fewer. */
static void check_lending(const Setup *two) {
  Error e = {.status = OK};
  _Atomic int highest = 0;
  Dataset *d = repeated(&e, slow(&e, 0), -1);
  Iterator *it = open_at(&e, d, two);
  Text t = {.used = 0};
  read_tensors(it, 20, &t, &e);
  for (int i = 0; i < 20; i++) pool_run(two->pool, 64, note_slot, &highest);
  CHECK(atomic_load(&highest) <= 2);
  iterator_close(it);
  for (int i = 0; i < 200 && atomic_load(&highest) < 3; i++)
    pool_run(two->pool, 64, note_slot, &highest);
  CHECK(atomic_load(&highest) == 3);
  dataset_release(d);
  CHECK(pool_lend(two->pool) && pool_lend(two->pool) && pool_lend(two->pool) &&
        !pool_lend(two->pool));
  for (int i = 0; i < 3; i++) pool_reclaim(two->pool);
}

/* Work that isn't needed yet is done once, by any thread with time, or given back. */
static void count_one(void *context) { atomic_fetch_add((_Atomic int *)context, 1); }

static void run_loop(void *context) {
  _Atomic int highest = 0;
  pool_run(context, 64, note_slot, &highest); /* inline: the team is somebody else's */
  CHECK(atomic_load(&highest) == 0);
}

static void check_errands(Pool *pool) {
  _Atomic int done = 0, other = 0, highest = 0;
  PoolErrand a = {.run = count_one, .context = &done}, b = {.run = count_one, .context = &other};
  int expected = 0;
  for (int i = 0; i < 3000; i++) {
    pool_offer(pool, &a);
    if (i % 5 == 0) pool_offer(pool, &b); /* the pool's only place is taken, or was */
    for (int k = 0; k < i % 4; k++) pool_run(pool, 16, note_slot, &highest);
    if (i % 3) pool_finish(pool, &a), expected++;
    else if (!pool_withdraw(pool, &a)) expected++;
    if (i % 5 == 0) pool_finish(pool, &b);
    if (atomic_load(&done) != expected) break;
  }
  CHECK(atomic_load(&done) == expected);
  CHECK(atomic_load(&other) == 600);
  PoolErrand loop = {.run = run_loop, .context = pool};
  for (int i = 0; i < 50 && pool; i++) {
    pool_offer(pool, &loop);
    pool_run(pool, 16, note_slot, &highest);
    usleep(20);
    pool_withdraw(pool, &loop);
  }
}

/* If a program's loop fails, elements and failures that it had read ahead come again. */
static void check_put_back(const Setup *s) {
  Error e = {.status = OK}, lost = {.status = OK};
  DataContext c = {.pool = s->pool, .threads = s->threads, .seed = 7, .host = s->host};
  Dataset *d = numbers(&e, 5);
  Infeed *q = infeed_new(&e, d, &c, 3, 0, NULL);
  Feed *f = infeed_feed(q);
  int64_t x = -1, y = -1;
  void *into = &x, *again = &y;
  CHECK(!f->may_read_aside(f)); /* nobody has opened it */
  CHECK(f->next(f, false, &into, &e) == OK && f->next(f, false, &into, &e) == OK && x == 1 &&
        infeed_position(q) == 2);
  CHECK(f->may_read_aside(f));
  f->put_back(f, OK, NULL, &into);
  CHECK(infeed_position(q) == 1);
  x = -7; /* it was copied */
  CHECK(f->next(f, false, &again, &e) == OK && y == 1 && infeed_position(q) == 2);
  CHECK(f->next(f, true, &again, &e) == OK && y == 2);
  f->put_back(f, fail(&lost, ERR_VALUE, "a broken picture"), &lost, &into);
  CHECK(f->next(f, false, &again, &e) == ERR_VALUE && infeed_position(q) == 3);
  CHECK_TEXT(e.message, "a broken picture");
  error_clear(&e);
  f->put_back(f, ERR_CANCELLED, &lost, &into); /* nothing was read */
  CHECK(f->next(f, false, &again, &e) == OK && y == 3);
  f->put_back(f, OK, NULL, &again);
  CHECK(infeed_close(q, &e) == OK && f->next(f, false, &again, &e) == OK && y == 0);
  object_release(&f->object);
  dataset_release(d);
}

/* Only what neither the script nor other threads have a part in may be read by any thread. */
static void check_aside(const Setup *s) {
  Error e = {.status = OK};
  struct {
    Dataset *d;
    bool may;
  } kinds[] = {{repeated(&e, numbers(&e, 9), -1), true}, {slow_vectors(&e, 25, 1), false}};
  for (int i = 0; i < 2; i++) {
    Iterator *it = open_at(&e, kinds[i].d, s);
    CHECK(it && iterator_may_be_read_aside(it) == kinds[i].may);
    iterator_close(it);
    dataset_release(kinds[i].d);
  }
  /* A thread of its own would take one from those that work, and make nothing cheaper. */
  Dataset *d = repeated(&e, slow(&e, 0), -1);
  for (int aside = 0; aside < 2; aside++) {
    Iterator *it = open_at(&e, d, s);
    int64_t x[4];
    void *into[] = {x};
    bool end = false;
    /* Whether one pays is measured: on a busy machine perhaps not by the first elements. */
    for (int i = 0; i < (aside ? 40 : 100000) && (aside || iterator_may_be_read_aside(it)); i++) {
      if (aside) iterator_next_aside(it, into, &end, &e);
      else iterator_next_into(it, into, &end, &e);
      usleep(100);
    }
    CHECK(e.status == OK && iterator_may_be_read_aside(it) == (aside == 1));
    iterator_close(it);
  }
  dataset_release(d);
}

/* An engine: another thread reads, the script's thread serves meanwhile. */
typedef struct Engine {
  Iterator *it;
  HostCalls *host;
  Text text;
  Error error;
  int max;
  _Atomic bool done;
} Engine;

static void *engine_main(void *argument) {
  Engine *x = argument;
  read_tensors(x->it, x->max, &x->text, &x->error);
  atomic_store(&x->done, true);
  host_calls_notify(x->host);
  return NULL;
}

static bool engine_done(void *context) { return atomic_load(&((Engine *)context)->done); }

static void check_engine(const Setup *two) {
  Error e = {.status = OK};
  for (int round = 0; round < 12; round++) {
    Dataset *d = round % 2 ? slow_vectors(&e, 20, 2) : vectors(&e, 20, 0);
    if (round % 3 == 0)
      d = window_sums(&e, interleaved(&e, consume(dataset_range(&e, NULL, 1, 9, 1), d), 3, 2));
    Engine *x = calloc(1, sizeof *x);
    x->max = round < 6 ? 100 : 1000000;
    x->host = two->host;
    if (round >= 6) d = repeated(&e, d, -1); /* endless: has to be cancelled */
    x->it = open_at(&e, d, two);
    dataset_release(d);
    Thread thread;
    thread_create(&thread, engine_main, x);
    if (round < 6) {
      host_calls_wait(two->host, engine_done, x);
      CHECK(x->error.status == OK && x->text.text[x->text.used - 1] == '.');
    } else {
      for (int i = 0; i < 20; i++) host_calls_serve(two->host), usleep(100);
      iterator_cancel(x->it);
    }
    pthread_join(thread.id, NULL);
    if (round >= 6) CHECK(x->error.status == ERR_CANCELLED);
    iterator_close(x->it);
    host_calls_serve(two->host);
    CHECK(atomic_load(&contexts_alive) == 0);
    free(x);
  }
  CHECK(e.status == OK);
}

/* A script that closes the iterator which is asking it. */
typedef struct Closer {
  Script base;
  Iterator **it;
} Closer;

static Status closing_next(void *context, void *state, Tensor **out, int out_count, bool *end,
                           Error *e) {
  Closer *c = context;
  spin(100e-6);
  if (((Position *)state)->next >= 15 && *c->it && !iterator_is_busy(*c->it)) {
    Iterator *it = *c->it;
    *c->it = NULL;
    iterator_close(it);
  }
  return script_next(context, state, out, out_count, end, e);
}

static bool never(void *context) { return !*(Iterator **)context; }

static void check_closing_inside(const Setup *two) {
  Error e = {.status = OK};
  Closer *c = calloc(1, sizeof *c);
  Iterator *it = NULL;
  *c = (Closer){{.thread = pthread_self(), .count = 30}, &it};
  atomic_fetch_add(&contexts_alive, 1);
  Generator g = {c, script_open, closing_next, script_close, script_release, NULL};
  int64_t unknown = -1;
  Type type = type_make(I64, 1, &unknown);
  Dataset *d = prefetched(&e, dataset_from_generator(&e, "spec.lua:6", 1, &type, g), 20);
  it = open_at(&e, d, two);
  dataset_release(d);
  Text t = {.used = 0};
  read_tensors(it, 10, &t, &e);
  /* the thread asks on; its 15th request closes the iterator */
  host_calls_wait(two->host, never, &it);
  host_calls_serve(two->host);
  CHECK(!it && atomic_load(&contexts_alive) == 0);
}

static Status recursive_next(void *context, void *state, Tensor **out, int out_count, bool *end,
                             Error *e) {
  Closer *c = context;
  Tensor *t[1];
  bool inner_end;
  Error inner = {.status = OK};
  CHECK(iterator_next(*c->it, t, &inner_end, &inner) == ERR_FAILED_PRECONDITION);
  return script_next(context, state, out, out_count, end, e);
}

static void check_recursion(const Setup *one) {
  Error e = {.status = OK};
  Closer *c = calloc(1, sizeof *c);
  Iterator *it = NULL;
  *c = (Closer){{.thread = pthread_self(), .count = 2}, &it};
  atomic_fetch_add(&contexts_alive, 1);
  Generator g = {c, script_open, recursive_next, script_close, script_release, NULL};
  int64_t unknown = -1;
  Type type = type_make(I64, 1, &unknown);
  Dataset *d = dataset_from_generator(&e, "spec.lua:6", 1, &type, g);
  it = open_at(&e, d, one);
  dataset_release(d);
  Text t = {.used = 0};
  CHECK(read_tensors(it, 9, &t, &e) == OK);
  CHECK_TEXT(t.text, "[0];[0 1];.");
  iterator_close(it);
}

static void check_two_readers(const Setup *two) {
  Error e = {.status = OK};
  Dataset *d = mapped(&e, numbers(&e, 200), 4, 0, -1);
  Engine *x = calloc(2, sizeof *x);
  Thread thread[2];
  for (int i = 0; i < 2; i++) {
    x[i].it = open_at(&e, d, two), x[i].host = two->host, x[i].max = 300;
    thread_create(&thread[i], engine_main, &x[i]);
  }
  for (int i = 0; i < 2; i++) pthread_join(thread[i].id, NULL), iterator_close(x[i].it);
  CHECK_TEXT(x[0].text.text, x[1].text.text);
  CHECK(element_count(&x[0].text) == 200);
  free(x);
  dataset_release(d);
}

/* Elements have the same numbers however they are read. */
static void check_numbers(const Setup *one, const Setup *two) {
  Error e = {.status = OK};
  for (int parallel = 0; parallel < 5; parallel += 2) {
    Doubling *c = calloc(1, sizeof *c);
    *c = (Doubling){.type = type_scalar(F32), .fails_at = -1, .numbered = true};
    atomic_fetch_add(&contexts_alive, 1);
    MapFunction f = {.context = c,
                     .in_count = 1,
                     .out_count = 1,
                     .out_type = &c->type,
                     .run = doubling_run,
                     .release = context_release};
    Dataset *in = numbers(&e, 12), *d = consume(dataset_map(&e, NULL, in, f, parallel), in);
    Iterator *it = open_at(&e, d, parallel ? two : one);
    Text t = {.used = 0};
    int64_t skipped;
    read_tensors(it, 3, &t, &e);
    iterator_skip(it, 4, &skipped, &e);
    read_tensors(it, 12, &t, &e);
    CHECK_TEXT(t.text, "0;2;4;14;16;18;20;22;.");
    iterator_close(it);
    dataset_release(d);
  }
}

static void check_saved_elsewhere(const Setup *one) {
  Error e = {.status = OK};
  Dataset *a = shuffled(&e, slices(&e, 5), 5, 0), *b = slices(&e, 5);
  Iterator *it = open_at(&e, a, one);
  Tensor *saved = iterator_save(&e, it, 3);
  DataContext c = {.threads = 1, .host = one->host};
  CHECK(!iterator_restore(&e, b, &c, saved) && strstr(e.message, "another dataset"));
  error_clear(&e);
  ((int64_t *)(void *)saved->data)[1] = 9;
  CHECK(!iterator_restore(&e, a, &c, saved) && strstr(e.message, "ended after 5"));
  tensor_release(saved);
  iterator_close(it);
  dataset_release(a);
  dataset_release(b);
}

/* Further on than anybody could walk. */
static void check_far_skip(const Setup *one) {
  Error e = {.status = OK};
  Dataset *d = batched(&e, repeated(&e, shuffled(&e, slices(&e, 6), 6, 1), -1), 3, true);
  Iterator *it = open_at(&e, d, one);
  int64_t skipped, far = 100000000000000001;
  CHECK(iterator_skip(it, far, &skipped, &e) == OK && skipped == far);
  Text a = {.used = 0};
  read_tensors(it, 1, &a, &e);
  iterator_close(it);
  dataset_release(d);
}

/* ---- digits and benchmarks
 * ------------------------------------------------------------------------------- */

static void check_digits(const Setup *two) {
  enum { COUNT = 1000, BYTES = DIGITS_SIZE * DIGITS_SIZE };
  Error e = {.status = OK};
  Tensor *x[4], *y[4];
  for (int i = 0; i < 4; i++) /* one thread, two, another set, another seed */
    CHECK(digits_draw(&e, i == 1 ? two->pool : NULL, i == 3 ? 2 : 1,
                      i == 2 ? DIGITS_TEST : DIGITS_TRAIN, COUNT, &x[i], &y[i]) == OK);
  CHECK(!memcmp(x[0]->data, x[1]->data, COUNT * BYTES) && !memcmp(y[0]->data, y[1]->data, COUNT));
  for (int i = 2; i < 4; i++)
    CHECK(memcmp(x[0]->data, x[i]->data, COUNT * BYTES) != 0 &&
          memcmp(y[0]->data, y[i]->data, COUNT) != 0);
  int each[10] = {0}, sorted = 0;
  for (int i = 0; i < COUNT; i++) {
    const uint8_t *label = (const uint8_t *)y[0]->data,
                  *image = (const uint8_t *)x[0]->data + i * BYTES;
    int ink = 0;
    each[label[i] % 10]++;
    sorted += i && label[i] == (label[i - 1] + 1) % 10;
    for (int p = 0; p < BYTES; p++) ink += image[p] > 127;
    CHECK(label[i] < 10 && ink > 15 && ink < 350);
  }
  for (int d = 0; d < 10; d++) CHECK(each[d] == COUNT / 10);
  CHECK(sorted < COUNT / 5);
  for (int i = 0; i < 4; i++) tensor_release(x[i]), tensor_release(y[i]);
}

static void check_benchmark(const Setup *one) {
  Error e = {.status = OK};
  Dataset *d = slices(&e, 10);
  Iterator *it = open_at(&e, d, one);
  BenchmarkEpoch b;
  CHECK(benchmark_epoch(it, 6, true, &b, &e) == OK && b.elements == 6 && b.bytes == 6 * 9 &&
        b.seconds >= 0);
  CHECK(benchmark_epoch(it, 0, true, &b, &e) == ERR_VALUE);
  error_clear(&e);
  CHECK(benchmark_epoch(it, 1, false, &b, &e) == OK && b.elements == 1 && b.bytes == 9);
  CHECK(benchmark_epoch(it, 5, true, &b, &e) == ERR_OUT_OF_RANGE && b.elements == 3);
  CHECK_TEXT(e.message,
             "end of data: the dataset ended after 10 elements; repeat_n() makes it endless");
  iterator_close(it);
  dataset_release(d);
}

/* ---- readers
 * --------------------------------------------------------------------------------------------- */

static void check_lines(const Setup *one) {
  static const struct {
    const char *text, *want;
  } files[] = {
      {"ab\nc\r\n\nd", "[97 98];[99];[];[100];."}, {"a\n", "[97];."}, {"", "."}, {"\n", "[];."}};
  const char *path = "data_check.txt";
  Error e = {.status = OK};
  for (int i = 0; i < 4; i++) {
    Text t;
    CHECK(file_write(&e, path, files[i].text, strlen(files[i].text)) == OK);
    Dataset *d = dataset_from_lines(&e, NULL, path);
    read_all(d, one, &t);
    CHECK_TEXT(t.text, files[i].want);
    CHECK(dataset_cardinality(d) == element_count(&t));
    dataset_release(d);
  }
  const char mixed[] = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\xFF\xC3";
  CHECK(file_write(&e, path, mixed, sizeof mixed - 1) == OK);
  Tensor *c = text_read_characters(&e, path);
  const int32_t want[] = {'a', 0xE4, 0x20AC, 0x1F600, 0xFF, 0xC3};
  CHECK(c && c->type.shape[0] == 6 && !memcmp(c->data, want, sizeof want));
  tensor_release(c);
  remove(path);
  CHECK(!dataset_from_lines(&e, NULL, path) && e.status != OK);
}

static void write_picture(const char *path, int shade) {
  Error e = {.status = OK};
  Type type = type_make(U8, 3, (int64_t[]){2, 4, 3});
  Tensor *t = tensor_new(&e, &type);
  for (int i = 0; i < 24; i++) t->data[i] = (char)(shade + i / 3 % 4 * 10);
  CHECK(image_write(&e, path, t, IMAGE_PNG, 0) == OK);
  tensor_release(t);
}

/* The picture in the middle is broken: it fails, the others come. */
static void check_failing_picture(Dataset *d, const Setup *s) {
  Error e = {.status = OK}, later = {.status = OK};
  Text t = {.used = 0};
  Iterator *it = open_at(&e, d, s);
  CHECK(read_tensors(it, MAX, &t, &e) != OK && strstr(e.message, "2.png") &&
        strstr(e.message, "spec.lua:1"));
  CHECK(read_tensors(it, MAX, &t, &later) == OK);
  CHECK_TEXT(t.text, "[15 35],0;![105 125],1;.");
  iterator_close(it);
}

static void check_images(const Setup *one, const Setup *two) {
  if (!image_reads_png()) return;
  mkdir("pictures", 0777), mkdir("pictures/b", 0777), mkdir("pictures/a", 0777);
  write_picture("pictures/a/2.png", 20);
  write_picture("pictures/a/1.PNG", 10);
  write_picture("pictures/b/x.png", 100);
  Error e = {.status = OK};
  ImageFolder files;
  CHECK(image_folder_list(&e, "pictures", &files) == OK && files.class_count == 2 &&
        files.file_count == 3);
  Dataset *d = dataset_from_images(&e, "spec.lua:1", &files, 1, 2, 1);
  Text a, b;
  read_all(d, one, &a);
  read_all(d, two, &b);
  CHECK_TEXT(a.text, "[15 35],0;[25 45],0;[105 125],1;.");
  CHECK_TEXT(b.text, a.text);
  CHECK(dataset_is_static(d) && dataset_cardinality(d) == 3);
  CHECK(file_write(&e, "pictures/a/2.png", "broken", 6) == OK);
  check_failing_picture(d, two);
  dataset_release(d);
  remove("pictures/a/1.PNG"), remove("pictures/a/2.png"), remove("pictures/b/x.png");
  CHECK(image_folder_list(&e, "pictures", &files) == ERR_NOT_FOUND);
  rmdir("pictures/a"), rmdir("pictures/b"), rmdir("pictures");
}

int main(void) {
  char folder[300]; /* of what is written */
  if (!scratch_folder(folder, sizeof folder) || chdir(folder)) {
    printf("0 passed, 1 failed\n");
    return 1;
  }
  HostCalls *host = host_calls_new();
  Pool *pool = pool_new(4);
  Setup one = {1, NULL, host}, two = {4, pool, host};
  int64_t bytes = storage_bytes_alive();
  sweep(&one, &two);
  check_shuffles(&one);
  check_uniformity(&one);
  check_failures(&one);
  check_failures(&two);
  check_refusals();
  check_file_cache(&one);
  use_seconds = 100e-6;
  check_prefetch(&one, &two);
  check_host_calls(&two);
  check_engine(&two);
  check_closing_inside(&two);
  check_lending(&two);
  check_errands(pool), check_errands(NULL);
  check_put_back(&one), check_put_back(&two);
  check_aside(&two);
  use_seconds = 0;
  check_recursion(&one);
  check_two_readers(&two);
  check_numbers(&one, &two);
  check_saved_elsewhere(&one);
  check_far_skip(&one);
  check_digits(&two);
  check_benchmark(&one);
  check_lines(&one);
  check_images(&one, &two);
  host_calls_serve(host);
  CHECK(storage_bytes_alive() == bytes);
  CHECK(atomic_load(&contexts_alive) == 0);
  pool_free(pool);
  host_calls_free(host);
  CHECK(chdir("/") == 0 && rmdir(folder) == 0); /* and nothing was left */
  printf("%d passed, %d failed\n", checks - failures, failures);
  return failures != 0;
}
