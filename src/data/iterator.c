/* Iterators: a tree of stages with its position, and how to save and restore it. */
#include <stdlib.h>
#include <string.h>

#include "data/stage.h"

struct Iterator {
  Tree tree;
  Scope scope;
  Dataset *dataset;
  Stage *stage;
  int64_t position;
  bool needs_caller;
  int spare_threads; /* when it was opened */
  _Atomic bool busy;
};

static void tree_clear(Tree *t) {
  if (t->owns_host) host_calls_free(t->host);
  free(t->shuffle);
}

static Status tree_init(Tree *t, Error *e, Dataset *d, const DataContext *c) {
  t->pool = c->pool;
  t->seed = c->seed;
  atomic_init(&t->spare_threads, c->threads > 1 ? c->threads - 1 : 0);
  t->host = c->host ? c->host : host_calls_new();
  t->owns_host = !c->host;
  Status s = t->host ? tree_collect_shuffles(t, e, d) : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  if (s != OK) tree_clear(t);
  return s;
}

/* The iteration number: a saved one, after which the dataset goes on counting, or the next. */
static uint64_t iteration_of(Dataset *d, const int64_t *saved, bool peek) {
  if (!saved) return atomic_fetch_add(&d->iterations, peek ? 0 : 1);
  atomic_store(&d->iterations, (uint64_t)*saved + 1);
  return (uint64_t)*saved;
}

/* saved: of the dataset, then of each shuffle; or NULL. */
static void set_iterations(Tree *t, Dataset *d, const int64_t *saved, bool peek) {
  t->iteration = iteration_of(d, saved, peek);
  for (int i = 0; i < t->shuffle_count; i++) {
    Dataset *shuffle = (Dataset *)(uintptr_t)t->shuffle[i].dataset;
    t->shuffle[i].iteration =
        shuffle == d ? t->iteration : iteration_of(shuffle, saved ? saved + i + 1 : NULL, peek);
  }
}

static Iterator *open_at(Error *e, Dataset *d, const DataContext *context,
                         const int64_t *iteration) {
  Iterator *it = calloc(1, sizeof *it);
  if (!it) return fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  it->scope.tree = &it->tree;
  if (tree_init(&it->tree, e, d, context) != OK) return free(it), NULL;
  set_iterations(&it->tree, d, iteration, context->peek);
  it->dataset = dataset_retain(d);
  it->needs_caller = dataset_needs_caller(d);
  it->spare_threads = atomic_load(&it->tree.spare_threads);
  if (stage_open(e, &it->scope, d, 0, &it->stage) == OK) return it;
  iterator_close(it);
  return NULL;
}

Iterator *iterator_open(Error *e, Dataset *d, const DataContext *context) {
  return open_at(e, d, context, NULL);
}

void iterator_close(Iterator *it) {
  if (!it) return;
  iterator_cancel(it);
  stage_close(it->stage);
  dataset_release_from(it->tree.host, it->dataset);
  tree_clear(&it->tree);
  free(it);
}

void iterator_cancel(Iterator *it) {
  atomic_store(&it->scope.cancelled, true);
  host_calls_notify(it->tree.host);
}

/* Not with a prefetching thread: reading ahead is its work already, and only the reading thread may
 * empty its ring. */
bool iterator_may_be_read_aside(const Iterator *it) {
  return !it->needs_caller &&
         atomic_load_explicit(&it->tree.spare_threads, memory_order_relaxed) == it->spare_threads;
}

bool iterator_is_busy(const Iterator *it) { return atomic_load(&it->busy); }
const Dataset *iterator_dataset(const Iterator *it) { return it->dataset; }
int64_t iterator_position(const Iterator *it) { return it->position; }

static Status begin(Iterator *it, Error *e) {
  if (atomic_exchange(&it->busy, true))
    return dataset_fail(it->dataset, e, ERR_FAILED_PRECONDITION,
                        "its iterator is already being read");
  Status s = stage_check_cancelled(it->stage, e);
  if (s != OK) atomic_store(&it->busy, false);
  return s;
}

/* A failed element keeps its position. */
static void count(Iterator *it, Status s, bool end) {
  if (s == OK ? !end : s != ERR_CANCELLED) it->position++;
}

Status iterator_next(Iterator *it, Tensor **components, bool *end, Error *e) {
  Status s = begin(it, e);
  if (s != OK) return s;
  s = stage_next(it->stage, components, end, e);
  count(it, s, *end);
  atomic_store(&it->busy, false);
  return s;
}

Status iterator_next_into(Iterator *it, void *const *destinations, bool *end, Error *e) {
  if (!it->dataset->is_static)
    return dataset_fail(it->dataset, e, ERR_VALUE, "the shape of its elements is not fully known");
  Status s = begin(it, e);
  if (s != OK) return s;
  s = stage_next_into(it->stage, destinations, end, e);
  count(it, s, *end);
  atomic_store(&it->busy, false);
  return s;
}

Status iterator_next_aside(Iterator *it, void *const *destinations, bool *end, Error *e) {
  it->tree.aside = true;
  Status s = iterator_next_into(it, destinations, end, e);
  it->tree.aside = false;
  return s;
}

Status iterator_skip(Iterator *it, int64_t count, int64_t *skipped, Error *e) {
  *skipped = 0;
  Status s = begin(it, e);
  if (s != OK) return s;
  s = stage_skip(it->stage, count, skipped, e);
  it->position += *skipped;
  atomic_store(&it->busy, false);
  return s;
}

/* The layout of a saved position: version, position, seed, number of shuffles, iteration
 * numbers. */
enum {
  SAVED_VERSION,
  SAVED_POSITION,
  SAVED_SEED,
  SAVED_SHUFFLES,
  SAVED_ITERATION,
  SAVED_FIXED,
  VERSION = 1
};

Tensor *iterator_save(Error *e, const Iterator *it, int64_t position) {
  int64_t count = it->tree.shuffle_count, shape = SAVED_FIXED + count;
  Type type = type_make(I64, 1, &shape);
  Tensor *t = tensor_new(e, &type);
  if (!t) return NULL;
  int64_t *word = (int64_t *)(void *)t->data;
  word[SAVED_VERSION] = VERSION;
  word[SAVED_POSITION] = position < 0 ? it->position : position;
  memcpy(&word[SAVED_SEED], &it->tree.seed, sizeof word[0]);
  word[SAVED_SHUFFLES] = count;
  word[SAVED_ITERATION] = (int64_t)it->tree.iteration;
  for (int64_t i = 0; i < count; i++)
    word[SAVED_FIXED + i] = (int64_t)it->tree.shuffle[i].iteration;
  return t;
}

static Status check_saved(Error *e, const Dataset *d, const Tensor *saved, const int64_t *word,
                          int64_t shuffles) {
  if (saved->type.dtype != I64 || saved->type.rank != 1 || saved->type.shape[0] < SAVED_FIXED ||
      !tensor_is_dense(saved))
    return dataset_fail(d, e, ERR_VALUE, "the saved state is not the position of an iterator");
  if (word[SAVED_VERSION] != VERSION)
    return dataset_fail(d, e, ERR_VALUE, "the saved position has version %lld, this is version %d",
                        (long long)word[SAVED_VERSION], VERSION);
  if (word[SAVED_SHUFFLES] != shuffles || saved->type.shape[0] != SAVED_FIXED + shuffles ||
      word[SAVED_POSITION] < 0)
    return dataset_fail(
        d, e, ERR_VALUE,
        "the position was saved from another dataset: it has %lld shuffles, this has %lld",
        (long long)word[SAVED_SHUFFLES], (long long)shuffles);
  return OK;
}

static Dataset *shuffle_of(const Tree *t, int64_t i) {
  return (Dataset *)(uintptr_t)t->shuffle[i].dataset;
}

Status dataset_iterations(Error *e, Dataset *d, int64_t *list, int64_t max, int64_t *count) {
  Tree t = {.shuffle = NULL};
  Status s = tree_collect_shuffles(&t, e, d);
  *count = 1 + t.shuffle_count;
  for (int64_t i = 0; s == OK && i < *count && i < max; i++)
    list[i] = (int64_t)atomic_load(&(i ? shuffle_of(&t, i - 1) : d)->iterations);
  free(t.shuffle);
  return s;
}

Status dataset_continue(Error *e, Dataset *d, const int64_t *list, int64_t count) {
  Tree t = {.shuffle = NULL};
  Status s = tree_collect_shuffles(&t, e, d);
  if (s == OK && count != 1 + t.shuffle_count)
    s = dataset_fail(d, e, ERR_VALUE,
                     "the counts are of another dataset: it has %lld shuffles, this has %d",
                     (long long)count - 1, (int)t.shuffle_count);
  for (int64_t i = 0; s == OK && i < count; i++)
    atomic_store(&(i ? shuffle_of(&t, i - 1) : d)->iterations, (uint64_t)list[i]);
  free(t.shuffle);
  return s;
}

/* As tree_collect_shuffles counts them: each shuffle once. */
static Status count_shuffles(Error *e, const Dataset *d, int64_t *count) {
  Tree t = {.shuffle = NULL};
  Status s = tree_collect_shuffles(&t, e, d);
  *count = t.shuffle_count;
  free(t.shuffle);
  return s;
}

Status iterator_pass(Iterator *it, int64_t count, int64_t *passed, Error *e) {
  *passed = 0;
  Status s = begin(it, e);
  if (s != OK) return s;
  s = stage_pass(it->stage, count, passed, e);
  it->position += *passed;
  atomic_store(&it->busy, false);
  return s;
}

Iterator *iterator_restore(Error *e, Dataset *d, const DataContext *context, const Tensor *saved) {
  const int64_t *word = (const int64_t *)(const void *)saved->data;
  int64_t shuffles, skipped;
  if (count_shuffles(e, d, &shuffles) != OK || check_saved(e, d, saved, word, shuffles) != OK)
    return NULL;
  DataContext c = *context;
  memcpy(&c.seed, &word[SAVED_SEED], sizeof c.seed);
  int64_t position = word[SAVED_POSITION];
  Iterator *it = open_at(e, d, &c, word + SAVED_ITERATION);
  if (!it) return NULL;
  /* failures on the way were reported when the elements were first read */
  Status s = iterator_pass(it, position, &skipped, e);
  if (s == OK && skipped < position)
    s = dataset_fail(d, e, ERR_OUT_OF_RANGE,
                     "the saved position is element %lld, the dataset ended after %lld",
                     (long long)position, (long long)skipped);
  if (s == OK) return it;
  iterator_close(it);
  return NULL;
}
