#include "data/infeed.h"

#include "base/arena.h"
#include "base/arith.h"

#include <stdlib.h>
#include <string.h>

#include "dist/crc.h"

struct Infeed {
  Feed feed;
  Dataset *dataset, *ahead; /* ahead: dataset under a prefetching stage */
  DataContext context;
  Iterator *iterator; /* NULL: closed */
  bool explicit_open; /* a program never opens it by itself */
  int64_t taken;
  bool wants_crc;
  uint32_t crc;
  Type *type;
  /* Whole batches are told apart from smaller ones (infeed_gather). The elements in `waiting` are
   * handed out first. */
  bool gathers;
  bool *varies;     /* [count] whether the first extent varies */
  bool any_shape;   /* an element may have any extents where the dataset's are unknown */
  Tensor **waiting; /* [capacity * count]; `waiting_count` elements from `first` on */
  int64_t first, waiting_count, capacity;
  Tensor **smaller; /* [count] the smaller batch that follows the waiting elements; NULL: none */
  bool ended;
  int64_t owed; /* elements to be skipped before the next one */
  /* Elements that programs gave back, or the failures in their place, as a stack. */
  int returned_count, returned_capacity;
  struct Returned *returned;
};

typedef struct Returned {
  Status status;
  Error failure;
  char *element;
} Returned;

static size_t element_bytes(const Infeed *q) {
  size_t bytes = 0;
  for (int c = 0; c < q->feed.count; c++) bytes += type_bytes(&q->type[c]);
  return bytes;
}

/* Copies an element between its components and one block, in either direction. */
static void copy_element(const Infeed *q, void *const *component, char *element, bool out) {
  for (int c = 0; c < q->feed.count; c++) {
    size_t bytes = type_bytes(&q->type[c]);
    if (out) memcpy(component[c], element, bytes);
    else memcpy(element, component[c], bytes);
    element += bytes;
  }
}

static void release_all(Tensor **t, int count) {
  for (int c = 0; c < count; c++) tensor_release(t[c]), t[c] = NULL;
}

static void forget_gathered(Infeed *q) {
  int count = q->feed.count;
  for (int64_t i = 0; i < q->waiting_count; i++)
    release_all(q->waiting + (q->first + i) * count, count);
  if (q->smaller) release_all(q->smaller, count);
  free(q->waiting), free(q->smaller);
  q->waiting = q->smaller = NULL;
  q->first = q->waiting_count = q->capacity = 0;
  q->ended = false;
}

static void forget_returned(Infeed *q) {
  while (q->returned_count) free(q->returned[--q->returned_count].element);
  q->owed = 0;
}

static void destroy(Object *o) {
  Infeed *q = (Infeed *)o;
  iterator_close(q->iterator);
  dataset_release(q->ahead);
  dataset_release(q->dataset);
  forget_returned(q);
  forget_gathered(q);
  free(q->returned);
  free(q->type);
  free(q->varies);
  free(q);
}

static Status take_returned(Infeed *q, void *const *into, Error *e) {
  Returned *r = &q->returned[--q->returned_count];
  Status s = r->status;
  q->taken++;
  if (s == OK) copy_element(q, into, r->element, true);
  else if (e->status == OK) *e = r->failure;
  free(r->element);
  return s;
}

static void drop_waiting(Infeed *q) {
  int count = q->feed.count;
  release_all(q->waiting + q->first * count, count);
  q->waiting_count--, q->first++, q->taken++;
}

static Status pass_owed(Infeed *q, Error *e) {
  int64_t passed = 0;
  for (; q->owed && q->waiting_count; q->owed--) drop_waiting(q);
  Status s = q->owed ? iterator_pass(q->iterator, q->owed, &passed, e) : OK;
  q->taken += passed;
  q->owed = s == OK ? 0 : q->owed - passed;
  return s;
}

/* ---- whole batches and smaller ones ---- */

/* Whether only the first extent differs. It may be larger: batches of several datasets, one after
 * the other. */
static bool type_is_of_other_extent(const Type *whole, const Type *t) {
  Type same = *whole;
  if (t->rank < 1 || t->shape[0] < 1 || t->shape[0] == whole->shape[0]) return false;
  same.shape[0] = t->shape[0];
  return type_equal(&same, t);
}

/* Whether t has the type of a dataset's component, where unknown extents match any. */
static bool type_is_of(const Type *component, const Type *t) {
  Type same = *component;
  if (t->rank != same.rank) return false;
  for (int k = 0; k < same.rank; k++) {
    if (same.shape[k] >= 0) continue;
    if (t->shape[k] < 1) return false;
    same.shape[k] = t->shape[k];
  }
  return type_equal(&same, t);
}

static bool may_be_beside(const Infeed *q, int c, const Type *t) {
  if (q->any_shape) return type_is_of(dataset_component(q->dataset, c), t);
  return q->varies[c] && type_is_of_other_extent(&q->type[c], t);
}

/* Is it a whole batch (true), or a smaller one in all components that vary? Else an error. */
static Status tell_size(const Infeed *q, Tensor *const *t, bool *whole, Error *e) {
  char wanted[TYPE_TEXT], given[TYPE_TEXT];
  int64_t rows = -1;
  *whole = true;
  for (int c = 0; c < q->feed.count; c++) {
    bool equal = type_equal(&q->type[c], &t[c]->type);
    bool fits = equal || may_be_beside(q, c, &t[c]->type);
    int64_t extent = q->varies[c] && !q->any_shape ? t[c]->type.shape[0] : rows;
    if (!fits || (rows >= 0 && extent != rows))
      return fail_at(e, dataset_source(q->dataset), ERR_VALUE,
                     "dataset stage '%s': component %d of an element is %s, where batches are %s",
                     dataset_kind(q->dataset), c, type_text(&t[c]->type, given),
                     type_text(&q->type[c], wanted));
    rows = extent;
    *whole = *whole && equal;
  }
  return OK;
}

/* Room for another waiting element; the remaining ones move to the front. */
static Tensor **room_for_element(Infeed *q) {
  int64_t count = q->feed.count;
  if (q->first + q->waiting_count < q->capacity)
    return q->waiting + (q->first + q->waiting_count) * count;
  int64_t capacity = q->waiting_count < 4 ? 8 : 2 * q->waiting_count;
  Tensor **moved = calloc((size_t)(capacity * count), sizeof(Tensor *));
  if (!moved) return NULL;
  if (q->waiting_count)
    memcpy(moved, q->waiting + q->first * count,
           (size_t)(q->waiting_count * count) * sizeof(Tensor *));
  free(q->waiting);
  q->waiting = moved, q->first = 0, q->capacity = capacity;
  return moved + q->waiting_count * count;
}

/* Reads one more element: a waiting one, the smaller batch, or the end. */
static Status gather_one(Infeed *q, Error *e) {
  Tensor **into = room_for_element(q);
  bool whole = true;
  if (!into) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  Status s = iterator_next(q->iterator, into, &q->ended, e);
  if (s != OK || q->ended) return s;
  s = tell_size(q, into, &whole, e);
  if (s == OK && !whole && !(q->smaller = calloc((size_t)q->feed.count + 1, sizeof(Tensor *))))
    s = fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  if (s != OK) {
    release_all(into, q->feed.count);
  } else if (whole) {
    q->waiting_count++;
  } else {
    memcpy(q->smaller, into, (size_t)q->feed.count * sizeof(Tensor *));
    memset(into, 0, (size_t)q->feed.count * sizeof(Tensor *));
  }
  return s;
}

Status infeed_gather(Infeed *q, int64_t wanted, int64_t *got, int64_t *rows, Error *e) {
  Status s = q->iterator ? OK : infeed_open(q, e);
  while (s == OK && q->waiting_count < wanted && !q->smaller && !q->ended) s = gather_one(q, e);
  *got = min(q->waiting_count, wanted);
  *rows = 0;
  for (int c = 0; q->smaller && c < q->feed.count; c++)
    if (q->varies[c]) *rows = q->smaller[c]->type.shape[0];
  if (q->smaller && !*rows) {
    const Type *t = &q->smaller[0]->type;
    *rows = t->rank > 0 ? t->shape[0] : 1;
  }
  return s;
}

void infeed_take_smaller(Infeed *q, Tensor **out) {
  memcpy(out, q->smaller, (size_t)q->feed.count * sizeof(Tensor *));
  free(q->smaller);
  q->smaller = NULL;
  q->taken++;
}

void infeed_leave_out(Infeed *q) {
  while (q->waiting_count > 0) drop_waiting(q);
}

static Status end_of_data(const Infeed *q, Error *e) {
  return fail(
      e, ERR_OUT_OF_RANGE,
      "end of data: the dataset gave %lld element%s and the program asks for another; repeat_n() "
      "it, or run fewer steps",
      (long long)q->taken, plural(q->taken));
}

static Status next_gathered(Infeed *q, void *const *into, Error *e) {
  int count = q->feed.count;
  int64_t got, rows;
  Status s = infeed_gather(q, 1, &got, &rows, e);
  if (s != OK || !got) return s != OK ? s : end_of_data(q, e);
  Tensor **t = q->waiting + q->first * count;
  for (int c = 0; c < count; c++) memcpy(into[c], t[c]->data, type_bytes(&q->type[c]));
  drop_waiting(q);
  return OK;
}

/* Notes the CRC of the next element, if infeed_watch has asked for it. */
static void note_element(Infeed *q, void *const *element) {
  uint32_t crc = 0;
  for (int c = 0; c < q->feed.count; c++) crc = dist_crc(crc, element[c], type_bytes(&q->type[c]));
  q->crc = crc;
  q->wants_crc = false;
}

static Status next_element(Feed *f, bool aside, void *const *into, Error *e) {
  Infeed *q = (Infeed *)f;
  if (!q->iterator && q->explicit_open)
    return fail(
        e, ERR_FAILED_PRECONDITION,
        "the infeed queue is not initialised; a session's program needs infeed:initializer() first");
  if (!q->iterator && infeed_open(q, e) != OK) return e->status;
  if (q->returned_count) return take_returned(q, into, e);
  bool end = false;
  Status s = pass_owed(q, e);
  if (s != OK) return s;
  if (q->gathers) return next_gathered(q, into, e);
  s = aside ? iterator_next_aside(q->iterator, into, &end, e)
            : iterator_next_into(q->iterator, into, &end, e);
  if (s == OK && end) return end_of_data(q, e);
  if (s != ERR_CANCELLED) q->taken++; /* a failed element keeps its position */
  return s;
}

static Status next(Feed *f, bool aside, void *const *into, Error *e) {
  Infeed *q = (Infeed *)f;
  Status s = next_element(f, aside, into, e);
  if (s == OK && q->wants_crc) note_element(q, into);
  return s;
}

void infeed_watch(Infeed *q) { q->wants_crc = true; }
uint32_t infeed_crc(const Infeed *q) { return q->crc; }

static bool may_read_aside(const Feed *f) {
  const Infeed *q = (const Infeed *)f;
  return q->iterator && !q->gathers && iterator_may_be_read_aside(q->iterator);
}

/* The end of data and interruptions need no entry: the next read meets the end again, and an
 * interrupted one has read nothing. */
static void put_back(Feed *f, Status s, const Error *failure, void *const *element) {
  Infeed *q = (Infeed *)f;
  if (s == ERR_OUT_OF_RANGE || s == ERR_CANCELLED) return;
  /* if memory is out, the element is lost and counts as read */
  if (!array_reserve(&q->returned, &q->returned_capacity, q->returned_count + 1,
                     sizeof *q->returned))
    return;
  Returned *r = &q->returned[q->returned_count++];
  *r = (Returned){.status = s};
  q->taken--;
  if (s != OK) {
    r->failure = *failure;
  } else if ((r->element = malloc(element_bytes(q) + 1))) {
    copy_element(q, element, r->element, false);
  } else {
    r->status = fail(&r->failure, ERR_OUT_OF_MEMORY,
                     "out of memory: an element that was read ahead is lost");
  }
}

static void leave_out(Feed *f, int64_t count) { ((Infeed *)f)->owed += count; }

/* The type of component c in programs. A varying first extent is the whole batch's. */
static Type whole_type(const Dataset *d, int c, int64_t batch, const Type *whole, bool *varies) {
  Type t = *dataset_component(d, c);
  *varies = batch && t.rank > 0 && t.shape[0] < 0;
  if (whole) return whole[c];
  if (*varies) t.shape[0] = batch;
  return t;
}

Infeed *infeed_new(Error *e, Dataset *d, const DataContext *context, int depth, int64_t batch,
                   const Type *whole) {
  int count = dataset_component_count(d);
  Infeed *q = calloc(1, sizeof *q);
  if (q) q->type = calloc((size_t)count + 1, sizeof *q->type);
  if (q) q->varies = calloc((size_t)count + 1, sizeof *q->varies);
  if (!q || !q->type || !q->varies) {
    if (q) free(q->type), free(q->varies);
    free(q);
    fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    return NULL;
  }
  q->gathers = batch != 0, q->any_shape = whole != NULL;
  for (int i = 0; i < count; i++) q->type[i] = whole_type(d, i, batch, whole, &q->varies[i]);
  q->feed = (Feed){.object = {.references = 1, .kind = "infeed", .destroy = destroy},
                   .count = count,
                   .type = q->type,
                   .next = next,
                   .may_read_aside = may_read_aside,
                   .put_back = put_back,
                   .leave_out = leave_out};
  q->dataset = dataset_retain(d);
  q->ahead = dataset_prefetch(e, dataset_source(d), d, depth);
  q->context = *context;
  if (q->ahead) return q;
  object_release(&q->feed.object);
  return NULL;
}

Status infeed_replace(Infeed *q, Dataset *d, int depth, int64_t batch, const Type *whole,
                      Error *e) {
  if (q->iterator)
    return fail(e, ERR_FAILED_PRECONDITION,
                "this infeed queue is initialised; delete it before it gets another dataset");
  int count = dataset_component_count(d);
  bool fits = count == q->feed.count;
  for (int i = 0; fits && i < count; i++) {
    bool varies;
    Type t = whole_type(d, i, batch, whole, &varies);
    fits = type_equal(&t, &q->type[i]);
  }
  if (!fits)
    return fail(e, ERR_INVALID_ARGUMENT,
                "the dataset's elements differ from those that this infeed queue was made for");
  Dataset *ahead = dataset_prefetch(e, dataset_source(d), d, depth);
  if (!ahead) return e->status;
  dataset_release(q->ahead);
  dataset_release(q->dataset);
  q->dataset = dataset_retain(d);
  q->ahead = ahead;
  q->gathers = batch != 0, q->any_shape = whole != NULL;
  for (int i = 0; i < count; i++) whole_type(d, i, batch, whole, &q->varies[i]);
  return OK;
}

Feed *infeed_feed(Infeed *q) { return &q->feed; }
bool infeed_is_open(const Infeed *q) { return q->iterator != NULL; }
int64_t infeed_position(const Infeed *q) { return q->taken; }
void infeed_open_explicitly(Infeed *q) { q->explicit_open = true; }
void infeed_set_context(Infeed *q, const DataContext *context) { q->context = *context; }

Status infeed_open(Infeed *q, Error *e) {
  if (q->iterator)
    return fail(e, ERR_FAILED_PRECONDITION,
                "this infeed queue is initialised already; delete it first");
  q->taken = 0;
  q->iterator = iterator_open(e, q->ahead, &q->context);
  return q->iterator ? OK : e->status;
}

Status infeed_close(Infeed *q, Error *e) {
  if (!q->iterator) return fail(e, ERR_NOT_FOUND, "this infeed queue was not initialised");
  if (iterator_is_busy(q->iterator))
    return fail(e, ERR_FAILED_PRECONDITION, "a program is running with this infeed queue");
  iterator_close(q->iterator);
  q->iterator = NULL;
  forget_returned(q);
  forget_gathered(q);
  return OK;
}

Tensor *infeed_save(Infeed *q, Error *e) {
  if (!q->iterator && infeed_open(q, e) != OK) return NULL;
  return iterator_save(e, q->iterator, q->taken + q->owed);
}

Status infeed_restore(Infeed *q, const Tensor *saved, Error *e) {
  Iterator *it = iterator_restore(e, q->ahead, &q->context, saved);
  if (!it) return e->status;
  iterator_close(q->iterator);
  forget_returned(q);
  forget_gathered(q);
  q->iterator = it;
  q->taken = iterator_position(it);
  return OK;
}
