#include "data/infeed.h"

#include <stdlib.h>
#include <string.h>

struct Infeed {
  Feed feed;
  Dataset *dataset, *ahead; /* ahead: with the prefetching stage on top */
  DataContext context;
  Iterator *iterator; /* NULL: closed */
  bool explicit_open; /* a program never opens it by itself */
  int64_t taken;
  Type *type;
  /* An element that came back: the next one, or the failure in its place. */
  bool came_back;
  Status status;
  Error failure;
  char *element;
};

static size_t element_bytes(const Infeed *q) {
  size_t bytes = 0;
  for (int c = 0; c < q->feed.count; c++) bytes += type_bytes(&q->type[c]);
  return bytes;
}

/* Component by component, one way or the other. */
static void copy_element(const Infeed *q, void *const *component, char *element, bool out) {
  for (int c = 0; c < q->feed.count; c++) {
    size_t bytes = type_bytes(&q->type[c]);
    if (out) memcpy(component[c], element, bytes);
    else memcpy(element, component[c], bytes);
    element += bytes;
  }
}

static void forget_returned(Infeed *q) {
  free(q->element);
  q->element = NULL;
  q->came_back = false;
}

static void destroy(Object *o) {
  Infeed *q = (Infeed *)o;
  iterator_close(q->iterator);
  dataset_release(q->ahead);
  dataset_release(q->dataset);
  forget_returned(q);
  free(q->type);
  free(q);
}

static Status take_returned(Infeed *q, void *const *into, Error *e) {
  Status s = q->status;
  q->taken++;
  if (s == OK) copy_element(q, into, q->element, true);
  else if (e->status == OK) *e = q->failure;
  forget_returned(q);
  return s;
}

static Status next(Feed *f, bool aside, void *const *into, Error *e) {
  Infeed *q = (Infeed *)f;
  if (!q->iterator && q->explicit_open)
    return fail(
        e, ERR_FAILED_PRECONDITION,
        "the infeed queue is not initialised; a session's program needs infeed:initializer() first");
  if (!q->iterator && infeed_open(q, e) != OK) return e->status;
  if (q->came_back) return take_returned(q, into, e);
  bool end = false;
  Status s = aside ? iterator_next_aside(q->iterator, into, &end, e)
                   : iterator_next_into(q->iterator, into, &end, e);
  if (s == OK && end)
    return fail(
        e, ERR_OUT_OF_RANGE,
        "end of data: the dataset gave %lld element%s and the program asks for another; repeat_n() "
        "it, or run fewer steps",
        (long long)q->taken, plural(q->taken));
  if (s != ERR_CANCELLED) q->taken++; /* an element that failed has had its place */
  return s;
}

static bool may_read_aside(const Feed *f) {
  const Infeed *q = (const Infeed *)f;
  return q->iterator && iterator_may_be_read_aside(q->iterator);
}

/* The end of the data is met again anyway, and who was interrupted has read nothing. */
static void put_back(Feed *f, Status s, const Error *failure, void *const *element) {
  Infeed *q = (Infeed *)f;
  if (s == ERR_OUT_OF_RANGE || s == ERR_CANCELLED) return;
  q->came_back = true;
  q->status = s;
  q->taken--;
  if (s != OK) {
    q->failure = *failure;
  } else {
    q->element = malloc(element_bytes(q) + 1);
    if (q->element) copy_element(q, element, q->element, false);
    else
      error_clear(&q->failure),
          q->status = fail(&q->failure, ERR_OUT_OF_MEMORY,
                           "out of memory: an element that was read ahead is lost");
  }
}

Infeed *infeed_new(Error *e, Dataset *d, const DataContext *context, int depth) {
  int count = dataset_component_count(d);
  Infeed *q = calloc(1, sizeof *q);
  if (q) q->type = calloc((size_t)count + 1, sizeof *q->type);
  if (!q || !q->type) {
    free(q);
    fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    return NULL;
  }
  for (int i = 0; i < count; i++) q->type[i] = *dataset_component(d, i);
  q->feed = (Feed){.object = {.references = 1, .kind = "infeed", .destroy = destroy},
                   .count = count,
                   .type = q->type,
                   .next = next,
                   .may_read_aside = may_read_aside,
                   .put_back = put_back};
  q->dataset = dataset_retain(d);
  q->ahead = dataset_prefetch(e, dataset_source(d), d, depth);
  q->context = *context;
  if (q->ahead) return q;
  object_release(&q->feed.object);
  return NULL;
}

Status infeed_replace(Infeed *q, Dataset *d, int depth, Error *e) {
  if (q->iterator)
    return fail(e, ERR_FAILED_PRECONDITION,
                "this infeed queue is initialised; delete it before it gets another dataset");
  int count = dataset_component_count(d);
  bool fits = count == q->feed.count;
  for (int i = 0; fits && i < count; i++) fits = type_equal(dataset_component(d, i), &q->type[i]);
  if (!fits)
    return fail(e, ERR_INVALID_ARGUMENT,
                "the dataset's elements differ from those that this infeed queue was made for");
  Dataset *ahead = dataset_prefetch(e, dataset_source(d), d, depth);
  if (!ahead) return e->status;
  dataset_release(q->ahead);
  dataset_release(q->dataset);
  q->dataset = dataset_retain(d);
  q->ahead = ahead;
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
  return OK;
}

Tensor *infeed_save(Infeed *q, Error *e) {
  if (!q->iterator && infeed_open(q, e) != OK) return NULL;
  return iterator_save(e, q->iterator, q->taken);
}

Status infeed_restore(Infeed *q, const Tensor *saved, Error *e) {
  Iterator *it = iterator_restore(e, q->ahead, &q->context, saved);
  if (!it) return e->status;
  iterator_close(q->iterator);
  forget_returned(q);
  q->iterator = it;
  q->taken = iterator_position(it);
  return OK;
}
