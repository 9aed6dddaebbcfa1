#include "engine/outfeed.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Elements are kept packed, component by component, in growing arrays: a dequeue is one copy. */
typedef struct Column {
  Type type;
  size_t bytes; /* of one element */
  char *data;
  size_t begin, end, capacity; /* bytes; values before begin were taken */
} Column;

struct Outfeed {
  Outlet outlet;
  bool keep_last;
  pthread_mutex_t mutex;
  int form, components, replicas; /* of the values; components is 0 before the first */
  Column *column;
  int64_t count, total;
};

static void free_columns(Column *column, int count) {
  for (int i = 0; column && i < count; i++) free(column[i].data);
  free(column);
}

static void destroy(Object *o) {
  Outfeed *q = (Outfeed *)o;
  free_columns(q->column, q->components);
  pthread_mutex_destroy(&q->mutex);
  free(q);
}

/* A queue's copy of a component: with several replicas their values, stacked. */
static Status element_type(const Type *component, int replicas, Type *out, Error *e) {
  *out = *component;
  if (replicas == 1) return OK;
  if (component->rank == MAX_RANK)
    return fail(e, ERR_INVALID_ARGUMENT, "an outfeed can't stack the replicas' values of rank %d",
                MAX_RANK);
  memmove(out->shape + 1, component->shape, (size_t)component->rank * sizeof *out->shape);
  out->shape[0] = replicas;
  out->rank++;
  return OK;
}

static bool fits(const Outfeed *q, int replicas, int count, const Type *const *type) {
  if (q->components != count || q->replicas != replicas) return false;
  for (int i = 0; i < count; i++) {
    Type element;
    Error e = {.status = OK};
    if (element_type(type[i], replicas, &element, &e) != OK ||
        !type_equal(&q->column[i].type, &element))
      return false;
  }
  return true;
}

static Status set_columns(Outfeed *q, int replicas, int count, const Type *const *type, Error *e) {
  Column *column = calloc((size_t)count + 1, sizeof *column);
  if (!column) return fail(e, ERR_OUT_OF_MEMORY, "out of memory in an outfeed");
  for (int i = 0; i < count; i++) {
    Type element;
    if (element_type(type[i], replicas, &element, e) != OK) return free(column), e->status;
    column[i] = (Column){.type = element, .bytes = type_bytes(&element)};
  }
  free_columns(q->column, q->components);
  q->column = column;
  q->components = count;
  q->replicas = replicas;
  q->count = 0;
  return OK;
}

/* Every value is compared with the values in the queue. Programs of several signatures and
 * structures may share a queue, one after the other. LAST keeps one value, so any other replaces
 * it. */
static Status accept(Outfeed *q, int form, int replicas, int count, const Type *const *type,
                     Error *e) {
  bool same = fits(q, replicas, count, type);
  if (same && (q->form == form || !q->count)) return q->form = form, OK;
  if (q->count && !q->keep_last)
    return fail(e, ERR_FAILED_PRECONDITION,
                "an outfeed holds values of another %s; dequeue them first",
                same ? "structure" : "shape");
  Status s = same ? OK : set_columns(q, replicas, count, type, e);
  if (s == OK) q->form = form;
  return s;
}

static bool reserve(Column *c) {
  if (c->end + c->bytes <= c->capacity) return true;
  if (c->begin > c->capacity / 2) {
    memmove(c->data, c->data + c->begin, c->end - c->begin);
    c->end -= c->begin;
    c->begin = 0;
    return true;
  }
  size_t capacity = c->capacity ? c->capacity * 2 : c->bytes < 256 ? 4096 : c->bytes * 4;
  char *data = realloc(c->data, capacity);
  if (!data) return false;
  c->data = data;
  c->capacity = capacity;
  return true;
}

static Status put(Outlet *o, int form, int replicas, int count, const Type *const *type,
                  const void *const *data, Error *e) {
  Outfeed *q = (Outfeed *)o;
  pthread_mutex_lock(&q->mutex);
  Status s = accept(q, form, replicas, count, type, e);
  /* room in all columns first, so that they stay equally long */
  for (int i = 0; i < count && s == OK; i++) {
    if (q->keep_last) q->column[i].begin = q->column[i].end = 0;
    if (!reserve(&q->column[i]))
      s = fail(e, ERR_OUT_OF_MEMORY, "out of memory in an outfeed that holds %lld values",
               (long long)q->count);
  }
  for (int i = 0; i < count && s == OK; i++) {
    Column *c = &q->column[i];
    size_t share = c->bytes / (size_t)replicas;
    for (int r = 0; r < replicas && share; r++)
      memcpy(c->data + c->end + (size_t)r * share, data[r * count + i], share);
    c->end += c->bytes;
  }
  if (s == OK) q->count = q->keep_last ? 1 : q->count + 1, q->total++;
  pthread_mutex_unlock(&q->mutex);
  return s;
}

Outfeed *outfeed_new(Error *e, bool keep_last) {
  Outfeed *q = calloc(1, sizeof *q);
  if (!q || pthread_mutex_init(&q->mutex, NULL)) {
    free(q);
    fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    return NULL;
  }
  q->outlet.object = (Object){.references = 1, .kind = "outfeed", .destroy = destroy};
  q->outlet.put = put;
  q->keep_last = keep_last;
  return q;
}

Outlet *outfeed_outlet(Outfeed *q) { return &q->outlet; }

int64_t outfeed_count(Outfeed *q) {
  pthread_mutex_lock(&q->mutex);
  int64_t n = q->count;
  pthread_mutex_unlock(&q->mutex);
  return n;
}

int64_t outfeed_total(Outfeed *q) {
  pthread_mutex_lock(&q->mutex);
  int64_t n = q->total;
  pthread_mutex_unlock(&q->mutex);
  return n;
}

static Status stacked(const Type *element, int64_t count, bool single, Type *out, Error *e) {
  *out = *element;
  if (single) return OK;
  if (element->rank == MAX_RANK)
    return fail(e, ERR_INVALID_ARGUMENT, "an outfeed can't stack values of rank %d", MAX_RANK);
  memmove(out->shape + 1, element->shape, (size_t)element->rank * sizeof *out->shape);
  out->shape[0] = count;
  out->rank++;
  return OK;
}

static Tensor *copy_column(const Outfeed *q, int i, int64_t n, Error *e) {
  const Column *c = &q->column[i];
  Type type;
  if (stacked(&c->type, n, q->keep_last, &type, e) != OK) return NULL;
  Tensor *t = tensor_new_uninitialised(e, &type);
  size_t bytes = c->bytes * (size_t)n;
  if (t && bytes) memcpy(t->data, c->data + c->begin, bytes);
  return t;
}

static void drop(Column *c, int64_t n) {
  c->begin += c->bytes * (size_t)n;
  if (c->begin < c->end) return;
  c->begin = c->end = 0;
  if (c->capacity <= 1 << 20) return;
  free(c->data);
  c->data = NULL;
  c->capacity = 0;
}

Status outfeed_take(Outfeed *q, int64_t max, Tensor *out[OUTFEED_COMPONENTS], int *components,
                    int *form, Error *e) {
  pthread_mutex_lock(&q->mutex);
  int64_t n = q->keep_last ? 1 : max < 0 || max > q->count ? q->count : max;
  Status s = OK;
  int taken = 0;
  *components = q->components;
  *form = q->form;
  if (q->keep_last && q->count == 0)
    s = fail(e, ERR_FAILED_PRECONDITION,
             "an outfeed of mode LAST is dequeued before any program has put a value in");
  for (; taken < q->components && s == OK; taken++)
    if (!(out[taken] = copy_column(q, taken, n, e))) s = e->status;
  if (s == OK && !q->keep_last) {
    for (int i = 0; i < q->components; i++) drop(&q->column[i], n);
    q->count -= n;
  }
  pthread_mutex_unlock(&q->mutex);
  for (int i = 0; i < taken && s != OK; i++) tensor_release(out[i]);
  return s;
}

void outfeed_clear(Outfeed *q) {
  pthread_mutex_lock(&q->mutex);
  for (int i = 0; i < q->components; i++) q->column[i].begin = q->column[i].end = 0;
  q->count = 0;
  pthread_mutex_unlock(&q->mutex);
}
