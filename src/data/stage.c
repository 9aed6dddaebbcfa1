/* The calls from one stage to the one below it, and the state that the stages of one iterator
 * share. */
#include "data/stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/interrupt.h"

bool scope_is_cancelled(const Scope *scope) {
  for (; scope; scope = scope->parent)
    if (atomic_load(&scope->cancelled)) return true;
  return false;
}

bool scope_is_interrupted(const Scope *scope) {
  Interrupt pending = interrupt_pending();
  if (pending == INTERRUPT_NONE || (pending == INTERRUPT_SOON && interrupt_held())) return false;
  for (; scope; scope = scope->parent)
    if (atomic_load(&scope->threaded)) return false;
  return true;
}

Status scope_interrupt(Error *e) {
  interrupt_take();
  return fail(e, ERR_CANCELLED, "interrupted!");
}

Status stage_check_cancelled(const Stage *s, Error *e) {
  if (scope_is_cancelled(s->scope)) return fail(e, ERR_CANCELLED, "the dataset was closed");
  return scope_is_interrupted(s->scope) ? scope_interrupt(e) : OK;
}

Scope scope_within(const Scope *parent) {
  return (Scope){.tree = parent->tree,
                 .parent = parent,
                 .birth = parent->birth,
                 .made = parent->made,
                 .kept = parent->kept};
}

/* On which orders and random numbers depend beside the epoch. */
static uint64_t stage_iteration(const Stage *s) {
  return s->scope->kept ? 0 : s->scope->tree->iteration;
}

Status stage_open(Error *e, Scope *scope, Dataset *d, uint64_t epoch, Stage **out) {
  *out = NULL;
  Stage *s = calloc(1, d->class->stage_bytes);
  if (!s) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  s->class = d->class, s->dataset = d, s->scope = scope, s->epoch = epoch;
  Status status = d->class->open ? d->class->open(s, e) : OK;
  if (status != OK) return stage_close(s), status;
  *out = s;
  return OK;
}

void stage_close(Stage *s) {
  if (!s) return;
  if (s->class->close) s->class->close(s);
  stage_close(s->input);
  free(s);
}

Status stage_open_input(Stage *s, Error *e) {
  return stage_open(e, s->scope, s->dataset->input[0], s->epoch, &s->input);
}

Status stage_indices(Stage *s, int64_t *out, int64_t n, int64_t *got, Error *e) {
  *got = 0;
  if (s->ended) return OK;
  Status status = s->class->indices(s, out, n, got, e);
  if (status == OK && *got < n) s->ended = true;
  return status;
}

static Status row_tensors(Stage *s, int64_t index, Tensor **out, Error *e) {
  memset(out, 0, (size_t)s->dataset->count * sizeof *out);
  for (int c = 0; c < s->dataset->count; c++)
    if (!(out[c] = tensor_row(e, s->rows->tensor[c], index))) {
      tensors_release(out, c);
      return ERR_OUT_OF_MEMORY;
    }
  return OK;
}

static Status give_row(Stage *s, const Receiver *to, bool *end, Error *e) {
  int64_t index, got;
  Status status = stage_indices(s, &index, 1, &got, e);
  if (status != OK || (*end = !got)) return status;
  if (to->tensors) return row_tensors(s, index, to->tensors, e);
  for (int c = 0; c < s->dataset->count; c++)
    rows_gather(s->rows, c, &index, 1, to->memory[c], NULL);
  return OK;
}

/* next_into for stages that have only next. */
static Status next_copied(Stage *s, void *const *out, bool *end, Error *e) {
  int count = s->dataset->count;
  Tensor *few[8] = {NULL}, **t = few;
  if (count > 8 && !(t = calloc((size_t)count, sizeof *t)))
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  Status status = s->class->next(s, t, end, e);
  if (status == OK && !*end) {
    for (int c = 0; c < count; c++) tensor_copy_out(t[c], out[c]);
    tensors_release(t, count);
  }
  if (t != few) free(t);
  return status;
}

static Status give(Stage *s, const Receiver *to, bool *end, Error *e) {
  const StageClass *class = s->class;
  if (class->give) return class->give(s, to, end, e);
  if (to->tensors) return class->next(s, to->tensors, end, e);
  return (class->next_into ? class->next_into : next_copied)(s, to->memory, end, e);
}

Status stage_give(Stage *s, const Receiver *to, bool *end, Error *e) {
  *end = s->ended;
  if (*end) return OK;
  if (s->rows) return give_row(s, to, end, e);
  Status status = give(s, to, end, e);
  /* a failure isn't the end, even if a part of the stage has come to its end */
  if (status != OK) *end = false;
  if (*end) s->ended = true;
  return status;
}

Status stage_next(Stage *s, Tensor **out, bool *end, Error *e) {
  return stage_give(s, &(Receiver){.tensors = out}, end, e);
}

Status stage_next_into(Stage *s, void *const *out, bool *end, Error *e) {
  return stage_give(s, &(Receiver){.memory = out}, end, e);
}

static Status skip_rows(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  int64_t index[256], got = 1;
  while (*skipped < n && got) {
    int64_t want = n - *skipped < 256 ? n - *skipped : 256;
    Status status = stage_check_cancelled(s, e);
    if (status != OK) return status;
    status = stage_indices(s, index, want, &got, e);
    *skipped += got;
    if (status != OK) return status;
  }
  return OK;
}

static Status skip_elements(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  Tensor **t = calloc((size_t)s->dataset->count, sizeof *t);
  if (!t) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  Status status = OK;
  while (status == OK && *skipped < n) {
    bool end;
    status = stage_check_cancelled(s, e);
    if (status == OK) status = stage_next(s, t, &end, e);
    if (status == ERR_CANCELLED || (status == OK && end)) break;
    tensors_release(t, s->dataset->count);
    ++*skipped;
  }
  free(t);
  return status;
}

Status stage_skip(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  *skipped = 0;
  if (s->ended || n <= 0) return OK;
  if (s->class->skip) {
    Status status = s->class->skip(s, n, skipped, e);
    if (status == OK && *skipped < n) s->ended = true;
    return status;
  }
  return s->rows ? skip_rows(s, n, skipped, e) : skip_elements(s, n, skipped, e);
}

Status stage_pass(Stage *s, int64_t n, int64_t *passed, Error *e) {
  Status status = OK;
  *passed = 0;
  do {
    int64_t some;
    Error failure = {.status = OK};
    status = stage_skip(s, n - *passed, &some, &failure);
    *passed += some;
    bool moved = some && status != ERR_CANCELLED;
    if (status != OK && !moved) return e->status == OK ? (void)(*e = failure) : (void)0, status;
  } while (status != OK && *passed < n);
  return OK;
}

Status stage_pass_owed(Stage *s, int64_t *owed, Error *e) {
  int64_t passed;
  if (!*owed) return OK;
  Status status = stage_pass(s, *owed, &passed, e);
  *owed = status == OK ? 0 : *owed - passed;
  return status;
}

Status tree_collect_shuffles(Tree *t, Error *e, const Dataset *d) {
  for (int i = 0; i < d->input_count; i++) {
    Status s = tree_collect_shuffles(t, e, d->input[i]);
    if (s != OK) return s;
  }
  if (!d->class->shuffles || tree_find_shuffle(t, d) >= 0) return OK;
  if (!array_reserve(&t->shuffle, &t->shuffle_capacity, t->shuffle_count + 1, sizeof *t->shuffle))
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  t->shuffle[t->shuffle_count++] = (KnownShuffle){.dataset = d};
  return OK;
}

int tree_find_shuffle(const Tree *t, const Dataset *d) {
  for (int i = 0; i < t->shuffle_count; i++)
    if (t->shuffle[i].dataset == d) return i;
  return -1;
}

/* Distinct for distinct k, the epoch itself for k = 0; the constants are splitmix64's. */
uint64_t epoch_within(uint64_t epoch, uint64_t k) {
  if (!k) return epoch;
  uint64_t x = epoch + k * 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

uint64_t stage_element_number(const Stage *s, uint64_t k) {
  return epoch_within(s->epoch, stage_iteration(s) << 20) + k;
}

bool stage_calls_script(const Dataset *d) {
  (void)d;
  return true;
}

bool dataset_needs_caller(const Dataset *d) {
  bool needs = d->class->needs_caller && d->class->needs_caller(d);
  for (int i = 0; i < d->input_count && !needs; i++) needs = dataset_needs_caller(d->input[i]);
  return needs;
}
