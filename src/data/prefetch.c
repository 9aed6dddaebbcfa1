/* prefetch: elements made ahead by a thread of their own. A hand-off between threads costs tens of
 * microseconds if one of them sleeps, more than most elements. The thread also takes a core from
 * the computation that uses the elements. So elements are first made inline and timed, and a thread
 * is started only if that pays. Row numbers are never worth a thread. Elements, failures and the
 * end travel through one ring, in order. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "data/stage.h"

enum { TIMED_ELEMENTS = 8, AUTOMATIC_DEPTH = 4, MAX_DEPTH = 256 };
static const double WORTH_A_THREAD = 60e-6; /* seconds per element */

typedef struct PrefetchDataset {
  Dataset base;
  int depth;
} PrefetchDataset;

typedef struct Slot {
  Tensor **tensor; /* [components] */
  bool end;
  Status status;
  Error error;
} Slot;

typedef struct PrefetchStage {
  Stage base;
  Scope scope; /* of the prefetched elements */
  int timed;   /* consecutive elements timed */
  /* seconds: the least to make one, and the least between two (to use one) */
  double fastest, briefest;
  double left; /* when the last one was handed out */
  bool threaded;
  Thread thread;
  int depth;
  Slot *slot;               /* [depth] */
  _Atomic uint64_t written; /* by the thread */
  _Atomic uint64_t read;    /* by the reader */
} PrefetchStage;

static Status prefetch_open(Stage *s, Error *e) {
  PrefetchStage *p = (PrefetchStage *)s;
  p->scope = scope_within(s->scope);
  Status status = stage_open(e, &p->scope, s->dataset->input[0], s->epoch, &s->input);
  if (status == OK) s->rows = s->input->rows;
  return status;
}

static Status prefetch_indices(Stage *s, int64_t *out, int64_t n, int64_t *got, Error *e) {
  return stage_indices(s->input, out, n, got, e);
}

static bool has_room(void *context) {
  PrefetchStage *p = context;
  return atomic_load(&p->written) - atomic_load(&p->read) < (uint64_t)p->depth ||
         scope_is_cancelled(&p->scope);
}

static bool has_element(void *context) {
  PrefetchStage *p = context;
  return atomic_load(&p->written) != atomic_load(&p->read) || scope_is_cancelled(&p->scope) ||
         scope_is_interrupted(p->scope.parent);
}

static void *read_ahead(void *argument) {
  PrefetchStage *p = argument;
  HostCalls *host = p->scope.tree->host;
  for (bool end = false; !end;) {
    if (!has_room(p)) host_calls_wait(host, has_room, p);
    if (scope_is_cancelled(&p->scope)) break;
    uint64_t written = atomic_load(&p->written);
    Slot *slot = &p->slot[written % (uint64_t)p->depth];
    error_clear(&slot->error);
    slot->end = false;
    slot->status = stage_next(p->base.input, slot->tensor, &slot->end, &slot->error);
    end = slot->end || scope_is_cancelled(&p->scope);
    atomic_store(&p->written, written + 1);
    host_calls_notify(host);
  }
  return NULL;
}

static void free_slots(PrefetchStage *p) {
  int count = p->base.dataset->count;
  for (int i = 0; p->slot && i < p->depth; i++) {
    if (p->slot[i].tensor) tensors_release(p->slot[i].tensor, count);
    free(p->slot[i].tensor);
  }
  free(p->slot);
  p->slot = NULL;
}

static bool new_slots(PrefetchStage *p) {
  p->depth = ((const PrefetchDataset *)p->base.dataset)->depth;
  p->slot = calloc((size_t)p->depth, sizeof *p->slot);
  for (int i = 0; p->slot && i < p->depth; i++)
    if (!(p->slot[i].tensor = calloc((size_t)p->base.dataset->count, sizeof *p->slot[i].tensor)))
      free_slots(p);
  return p->slot != NULL;
}

/* The pool rests one of its threads, so that no more threads compute than were allowed. */
static bool take_thread(Tree *t) {
  int spare = atomic_load(&t->spare_threads);
  while (spare > 0)
    if (atomic_compare_exchange_weak(&t->spare_threads, &spare, spare - 1)) {
      if (!t->pool || pool_lend(t->pool)) return true;
      atomic_fetch_add(&t->spare_threads, 1);
      return false;
    }
  return false;
}

static void return_thread(Tree *t) {
  if (t->pool) pool_reclaim(t->pool);
  atomic_fetch_add(&t->spare_threads, 1);
}

/* Signals are left to the script's thread. If no thread can be started, elements are still made
 * inline. */
static void start_thread(PrefetchStage *p) {
  Tree *t = p->scope.tree;
  if (!take_thread(t)) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  atomic_store(&p->scope.threaded, true);
  p->threaded = new_slots(p) && !thread_create(&p->thread, read_ahead, p);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (p->threaded) return;
  atomic_store(&p->scope.threaded, false);
  free_slots(p);
  return_thread(t);
}

/* Inline, the times of making and using an element add up. With a thread the longer one counts, and
 * the use has one core less. The use is assumed to be perfectly parallel, so a thread is started
 * only if it surely pays. */
static bool pays(const PrefetchStage *p) {
  int team = pool_size(p->scope.tree->pool);
  double slowed = team > 1 ? p->briefest * team / (team - 1) : p->briefest;
  double beside = p->fastest > slowed ? p->fastest : slowed;
  return p->fastest >= WORTH_A_THREAD && beside < 0.9 * (p->fastest + p->briefest);
}

/* The fastest of a few elements is their cost: the others waited for something. */
static void note_time(PrefetchStage *p, double begin, double end) {
  double making = end - begin, between = begin - p->left;
  if (!p->timed || making < p->fastest) p->fastest = making;
  if (!p->timed || between < p->briefest) p->briefest = between;
  p->left = end;
  if (++p->timed <= TIMED_ELEMENTS) return;
  if (pays(p)) start_thread(p);
  p->timed = 1;
  p->fastest = p->briefest = 1e9;
}

static bool may_thread(const PrefetchStage *p) {
  return !p->scope.tree->aside &&
         atomic_load_explicit(&p->scope.tree->spare_threads, memory_order_relaxed) > 0;
}

/* The oldest element of the ring; its slot stays the reader's until leave_slot. */
static Status enter_slot(PrefetchStage *p, Slot **out, Error *e) {
  HostCalls *host = p->scope.tree->host;
  host_calls_serve(host);
  if (!has_element(p)) host_calls_wait(host, has_element, p);
  uint64_t read = atomic_load(&p->read);
  if (atomic_load(&p->written) == read)
    return scope_is_cancelled(&p->scope) ? fail(e, ERR_CANCELLED, "the dataset was closed")
                                         : scope_interrupt(e);
  *out = &p->slot[read % (uint64_t)p->depth];
  if ((*out)->status != OK && e->status == OK) *e = (*out)->error;
  return OK;
}

static void leave_slot(PrefetchStage *p) {
  atomic_fetch_add(&p->read, 1);
  host_calls_notify(p->scope.tree->host);
}

/* The ring's next element; to NULL: it is dropped. */
static Status take_element(PrefetchStage *p, const Receiver *to, bool *end, Error *e) {
  Slot *slot = NULL;
  Status status = enter_slot(p, &slot, e);
  if (status != OK) return status;
  status = slot->status;
  *end = slot->end;
  for (int c = 0; status == OK && !*end && c < p->base.dataset->count; c++) {
    if (to && to->memory) tensor_copy_out(slot->tensor[c], to->memory[c]);
    if (to && to->tensors) to->tensors[c] = slot->tensor[c];
    else tensor_release(slot->tensor[c]);
    slot->tensor[c] = NULL;
  }
  leave_slot(p);
  return status;
}

/* The input's next element, as long as no thread reads it ahead. */
static Status read_input(PrefetchStage *p, const Receiver *to, bool *end, Error *e) {
  double begin = may_thread(p) ? clock_seconds() : -1;
  Status status = stage_give(p->base.input, to, end, e);
  if (begin >= 0 && status == OK && !*end) note_time(p, begin, clock_seconds());
  return status;
}

static Status prefetch_give(Stage *s, const Receiver *to, bool *end, Error *e) {
  PrefetchStage *p = (PrefetchStage *)s;
  return (p->threaded ? take_element : read_input)(p, to, end, e);
}

static Status prefetch_skip(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  PrefetchStage *p = (PrefetchStage *)s;
  if (!p->threaded) return stage_skip(s->input, n, skipped, e);
  Status status = OK;
  for (bool end = false; status == OK && *skipped < n; ++*skipped) {
    status = take_element(p, NULL, &end, e);
    if (status == ERR_CANCELLED || (status == OK && end)) break;
  }
  return status;
}

static void prefetch_close(Stage *s) {
  PrefetchStage *p = (PrefetchStage *)s;
  if (!p->threaded) return;
  atomic_store(&p->scope.cancelled, true);
  host_calls_notify(p->scope.tree->host);
  pthread_join(p->thread.id, NULL);
  return_thread(p->scope.tree);
  free_slots(p);
}

static const StageClass prefetch_class = {.name = "prefetch",
                                          .dataset_bytes = sizeof(PrefetchDataset),
                                          .stage_bytes = sizeof(PrefetchStage),
                                          .open = prefetch_open,
                                          .close = prefetch_close,
                                          .indices = prefetch_indices,
                                          .give = prefetch_give,
                                          .skip = prefetch_skip};

Dataset *dataset_prefetch(Error *e, const char *source, Dataset *in, int64_t size) {
  if (size < 0 && size != DATA_AUTOTUNE)
    return source_fail("prefetch", source, e, ERR_VALUE,
                       "the buffer size must not be negative, got %lld", (long long)size);
  Dataset *d = dataset_new_like(e, source, &prefetch_class, in);
  if (!d) return NULL;
  if (size == DATA_AUTOTUNE) size = AUTOMATIC_DEPTH;
  ((PrefetchDataset *)d)->depth = size < 1 ? 1 : size > MAX_DEPTH ? MAX_DEPTH : (int)size;
  d->rows = in->rows;
  return dataset_finish(e, d);
}
