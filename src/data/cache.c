/* cache and BufferDataset: elements are kept when they are first read. The elements belong to the
 * dataset, so later epochs and iterators use them. They are published after a complete pass.
 * Elements of fixed shape become rows. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/arith.h"
#include "base/file.h"
#include "data/elements.h"
#include "tensor/safetensors.h"

/* All elements. Constant after it has been published. */
typedef struct Store {
  int64_t count;
  Rows *rows;    /* of static elements */
  Elements list; /* of others */
} Store;

typedef struct CacheDataset {
  Dataset base;
  char *path;   /* NULL: in memory */
  bool at_once; /* BufferDataset: read everything at the first request */
  pthread_mutex_t mutex;
  Store *store;
} CacheDataset;

/* The elements that an unfinished pass has read. */
typedef struct Filling {
  int64_t count, capacity;
  char **column; /* [components]: [capacity] elements each */
  Elements list;
} Filling;

typedef struct CacheStage {
  Stage base;
  Scope scope;        /* of the kept elements */
  const Store *store; /* NULL while filling */
  Store *own;         /* of BufferDataset, if an element failed: used for this pass alone */
  int64_t position;
  Filling filling;
  bool broken; /* an element failed: the pass is not published */
} CacheStage;

static CacheDataset *cache_of(const Stage *s) { return (CacheDataset *)s->dataset; }

static void store_free(Store *store) {
  if (!store) return;
  rows_free(store->rows);
  elements_clear(&store->list);
  free(store);
}

static const Store *find_store(CacheDataset *d) {
  pthread_mutex_lock(&d->mutex);
  const Store *store = d->store;
  pthread_mutex_unlock(&d->mutex);
  return store;
}

/* If another iterator has published first, its equal elements are used. */
static const Store *publish(CacheDataset *d, Store *store) {
  pthread_mutex_lock(&d->mutex);
  Store *dropped = d->store ? store : NULL;
  if (!d->store) d->store = store;
  const Store *kept = d->store;
  pthread_mutex_unlock(&d->mutex);
  store_free(dropped);
  return kept;
}

static void filling_clear(Filling *f, int count) {
  for (int c = 0; f->column && c < count; c++) free(f->column[c]);
  free(f->column);
  elements_clear(&f->list);
  *f = (Filling){.count = 0};
}

static Status no_memory(const Dataset *d, Error *e, int64_t count) {
  return dataset_fail(d, e, ERR_OUT_OF_MEMORY, "no memory to keep more than %lld elements",
                      (long long)count);
}

static Status grow(Filling *f, const Dataset *d, Error *e) {
  if (f->count < f->capacity) return OK;
  int64_t capacity = f->capacity ? f->capacity * 2 : 16;
  if (!f->column && !(f->column = calloc((size_t)d->count, sizeof *f->column)))
    return no_memory(d, e, f->count);
  for (int c = 0; c < d->count; c++) {
    size_t bytes;
    if (!size_mul(type_bytes(&d->type[c]), (size_t)capacity, &bytes))
      return no_memory(d, e, f->count);
    char *column = realloc(f->column[c], bytes ? bytes : 1);
    if (!column) return no_memory(d, e, f->count);
    f->column[c] = column;
  }
  f->capacity = capacity;
  return OK;
}

static Status keep(CacheStage *k, Tensor *const *element, Error *e) {
  const Dataset *d = k->base.dataset;
  Filling *f = &k->filling;
  if (d->is_static) {
    Status status = grow(f, d, e);
    if (status != OK) return status;
    for (int c = 0; c < d->count; c++)
      tensor_copy_out(element[c], f->column[c] + (size_t)f->count * type_bytes(&d->type[c]));
  } else {
    f->list.width = d->count;
    if (f->list.count == INT32_MAX / 4 || elements_reserve(&f->list, e) != OK)
      return no_memory(d, e, f->count);
    for (int c = 0; c < d->count; c++)
      elements_at(&f->list, f->list.count)[c] = tensor_retain(element[c]);
    f->list.count++;
  }
  f->count++;
  return OK;
}

static void column_free(void *column) { free(column); }

/* The columns become tensors that own them. */
static Rows *columns_to_rows(Filling *f, const Dataset *d, Error *e) {
  Tensor **t = calloc((size_t)d->count, sizeof *t);
  if (!t) return fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  Rows *rows = NULL;
  int made = 0;
  for (; made < d->count; made++) {
    Type type;
    if (type_stacked(e, d->class->name, d->source, f->count, &d->type[made], &type) != OK) break;
    if (!(t[made] = tensor_wrap(e, &type, f->column[made], column_free, f->column[made]))) break;
    f->column[made] = NULL;
  }
  if (made == d->count) rows = rows_new(e, d->count, t);
  tensors_release(t, d->count);
  free(t);
  return rows;
}

/* Files. Static elements are one tensor a component. Others are two: all their elements end to end,
 * and their shapes [elements, rank]. So a file's tensors don't grow in number with the elements. */
typedef char EntryName[64];

static const char *entry_name(EntryName name, int component, const char *part) {
  snprintf(name, sizeof(EntryName), "component.%d%s", component, part);
  return name;
}

/* Fills a component's two tensors from the store's elements. */
static void pack(const Store *store, int c, char *values, char *shapes) {
  for (int i = 0; i < (int)store->count; i++) {
    const Tensor *t = elements_at(&store->list, i)[c];
    size_t bytes = (size_t)t->type.rank * sizeof *t->type.shape;
    memcpy(shapes, t->type.shape, bytes);
    tensor_copy_out(t, values);
    shapes += bytes, values += type_bytes(&t->type);
  }
}

static Status add_packed(const CacheDataset *d, const Store *store, int c, NamedTensors *named,
                         Error *e) {
  EntryName name;
  const Type *type = &d->base.type[c];
  int64_t total = 0;
  for (int i = 0; i < (int)store->count; i++)
    total += type_count(&elements_at(&store->list, i)[c]->type);
  Type of_values = type_make(type->dtype, 1, &total);
  Type of_shapes = type_make(I64, 2, (int64_t[]){store->count, type->rank});
  Tensor *values = tensor_new_uninitialised(e, &of_values);
  Tensor *shapes = values ? tensor_new_uninitialised(e, &of_shapes) : NULL;
  Status s = shapes ? OK : e->status;
  if (shapes) pack(store, c, values->data, shapes->data);
  if (s == OK) s = named_add(e, named, entry_name(name, c, ".values"), values);
  if (s == OK) s = named_add(e, named, entry_name(name, c, ".shapes"), shapes);
  tensor_release(values);
  tensor_release(shapes);
  return s;
}

static Status write_store(const CacheDataset *d, const Store *store, Error *e) {
  NamedTensors named;
  EntryName name;
  char number[32];
  named_init(&named);
  snprintf(number, sizeof number, "%lld", (long long)store->count);
  Status s = named_add_metadata(e, &named, "ipulua.cached_elements", number);
  for (int c = 0; c < d->base.count && s == OK; c++)
    s = store->rows ? named_add(e, &named, entry_name(name, c, ""), store->rows->tensor[c])
                    : add_packed(d, store, c, &named, e);
  if (s == OK) s = safetensors_write(e, d->path, &named);
  named_clear(&named);
  return s;
}

static Status stale(const CacheDataset *d, Error *e, const char *what) {
  return dataset_fail(&d->base, e, ERR_VALUE,
                      "%s was not written by this dataset: %s; remove it or name another file",
                      d->path, what);
}

/* wanted: -1 is any extent. *out is borrowed. */
static Status find_entry(const CacheDataset *d, const NamedTensors *named, const char *name,
                         const Type *wanted, Tensor **out, Error *e) {
  char what[3 * TYPE_TEXT], want[TYPE_TEXT], got[TYPE_TEXT];
  if (!(*out = named_find(named, name))) {
    snprintf(what, sizeof what, "it has no '%s'", name);
    return stale(d, e, what);
  }
  if (type_matches(wanted, &(*out)->type)) return OK;
  snprintf(what, sizeof what, "'%s' is %s, not %s", name, type_text(&(*out)->type, got),
           type_text(wanted, want));
  return stale(d, e, what);
}

static Status rows_from_file(const CacheDataset *d, const NamedTensors *named, Store *store,
                             Error *e) {
  EntryName name;
  Tensor **t = calloc((size_t)d->base.count, sizeof *t);
  if (!t) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  Status s = OK;
  for (int c = 0; c < d->base.count && s == OK; c++) {
    Type type;
    s = type_stacked(e, "cache", d->base.source, store->count, &d->base.type[c], &type);
    if (s == OK) s = find_entry(d, named, entry_name(name, c, ""), &type, &t[c], e);
  }
  if (s == OK && !(store->rows = rows_new(e, d->base.count, t))) s = e->status;
  free(t);
  return s;
}

/* A component's tensors in a file, and how many values the elements so far have. */
typedef struct Packed {
  Tensor *values, *shapes;
  int64_t at;
} Packed;

static Status find_packed(const CacheDataset *d, const NamedTensors *named, int64_t count, int c,
                          Packed *p, Error *e) {
  EntryName name;
  const Type *type = &d->base.type[c];
  Type of_values = type_make(type->dtype, 1, (int64_t[]){-1});
  Type of_shapes = type_make(I64, 2, (int64_t[]){count, type->rank});
  Status s = find_entry(d, named, entry_name(name, c, ".values"), &of_values, &p->values, e);
  if (s != OK) return s;
  return find_entry(d, named, entry_name(name, c, ".shapes"), &of_shapes, &p->shapes, e);
}

/* Element i: a view of the values. */
static Status unpack(const CacheDataset *d, int64_t i, int c, Packed *p, Tensor **out, Error *e) {
  Type type = d->base.type[c];
  int64_t total = p->values->type.shape[0], count = 1, stride[MAX_RANK];
  size_t bytes = (size_t)type.rank * sizeof *type.shape;
  memcpy(type.shape, p->shapes->data + (size_t)i * bytes, bytes);
  bool fits = type_matches(&d->base.type[c], &type);
  for (int a = 0; a < type.rank; a++)
    fits = fits && type.shape[a] >= 0 && !__builtin_mul_overflow(count, type.shape[a], &count);
  if (!fits || count > total - p->at) return stale(d, e, "a shape in it is no element's");
  type_strides(&type, stride);
  if (!(*out = tensor_view(e, p->values, &type, stride, p->at))) return e->status;
  p->at += count;
  return OK;
}

static Status list_from_file(const CacheDataset *d, const NamedTensors *named, Store *store,
                             Error *e) {
  int width = store->list.width = d->base.count;
  Packed *p = calloc((size_t)width, sizeof *p);
  Status s = p ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int c = 0; c < width && s == OK; c++) s = find_packed(d, named, store->count, c, &p[c], e);
  for (int64_t i = 0; i < store->count && s == OK; i++) {
    s = elements_reserve(&store->list, e);
    Tensor **element = s == OK ? elements_at(&store->list, store->list.count) : NULL;
    for (int c = 0; c < width && s == OK; c++) s = unpack(d, i, c, &p[c], &element[c], e);
    if (s == OK) store->list.count++;
    else if (element) tensors_release(element, width);
  }
  free(p);
  return s;
}

static Status count_in_file(const CacheDataset *d, const NamedTensors *named, int64_t *count,
                            Error *e) {
  for (int i = 0; i < named->metadata_count; i++)
    if (!strcmp(named->key[i], "ipulua.cached_elements")) {
      char *end;
      *count = strtoll(named->value[i], &end, 10);
      if (*end || *count < 0 || *count > INT32_MAX / 4) break;
      return OK;
    }
  return stale(d, e, "it doesn't say how many elements it has");
}

static Status read_store(const CacheDataset *d, Store **out, Error *e) {
  NamedTensors named;
  Store *store = calloc(1, sizeof *store);
  if (!store) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  named_init(&named);
  Status s = safetensors_read(e, d->path, &named);
  if (s != OK) dataset_blame(&d->base, e, s);
  if (s == OK) s = count_in_file(d, &named, &store->count, e);
  if (s == OK)
    s = d->base.is_static ? rows_from_file(d, &named, store, e)
                          : list_from_file(d, &named, store, e);
  named_clear(&named);
  if (s == OK) *out = store;
  else store_free(store);
  return s;
}

/* Makes a store of the elements that were read. */
static Store *finish(CacheStage *k, Error *e) {
  CacheDataset *d = cache_of(&k->base);
  Filling *f = &k->filling;
  Status s =
      /* without elements: empty columns */
      d->base.is_static && !f->column ? grow(f, &d->base, e) : OK;
  Store *store = s == OK ? calloc(1, sizeof *store) : NULL;
  if (!store) return no_memory(&d->base, e, f->count), NULL;
  store->count = f->count;
  if (!d->base.is_static) store->list = f->list, f->list = (Elements){.width = d->base.count};
  else if (!(store->rows = columns_to_rows(f, &d->base, e))) store_free(store), store = NULL;
  filling_clear(f, d->base.count);
  return store;
}

/* At the input's end: publishes the elements, unless one has failed. */
static Status complete(CacheStage *k, Error *e) {
  CacheDataset *d = cache_of(&k->base);
  if (k->broken && !d->at_once) return OK;
  bool whole = !k->broken;
  k->broken = true; /* stays set until publishing has succeeded */
  Store *store = finish(k, e);
  if (!store) return e->status;
  if (!whole) return k->store = k->own = store, OK;
  Status s = d->path ? dataset_blame(&d->base, e, write_store(d, store, e)) : OK;
  if (s != OK) return store_free(store), s;
  const Store *kept = publish(d, store);
  if (d->at_once) k->store = kept;
  k->broken = false;
  return OK;
}

static Status cache_open(Stage *s, Error *e) {
  CacheStage *k = (CacheStage *)s;
  CacheDataset *d = cache_of(s);
  Store *loaded = NULL;
  k->store = find_store(d);
  if (!k->store && d->path && file_exists(d->path)) {
    Status status = read_store(d, &loaded, e);
    if (status != OK) return status;
    k->store = publish(d, loaded);
  }
  if (k->store) return s->rows = k->store->rows, OK;
  k->scope = scope_within(s->scope);
  k->scope.kept = s->scope->kept || !s->scope->made;
  return stage_open(e, &k->scope, d->base.input[0], s->scope->birth, &s->input);
}

static void cache_close(Stage *s) {
  CacheStage *k = (CacheStage *)s;
  filling_clear(&k->filling, s->dataset->count);
  store_free(k->own);
}

static Status cache_indices(Stage *s, int64_t *out, int64_t n, int64_t *got, Error *e) {
  (void)e;
  CacheStage *k = (CacheStage *)s;
  int64_t left = k->store->count - k->position;
  *got = min(n, left);
  for (int64_t i = 0; i < *got; i++) out[i] = k->position + i;
  k->position += *got;
  return OK;
}

static Status from_store(CacheStage *k, Tensor **out, bool *end, Error *e) {
  *end = k->position >= k->store->count;
  if (*end) return OK;
  int64_t i = k->position++;
  for (int c = 0; c < k->base.dataset->count; c++) {
    out[c] = k->store->rows ? tensor_row(e, k->store->rows->tensor[c], i)
                            : tensor_retain(elements_at(&k->store->list, (int)i)[c]);
    if (!out[c]) return tensors_release(out, c), ERR_OUT_OF_MEMORY;
  }
  return OK;
}

static Status read_and_keep(CacheStage *k, Tensor **out, bool *end, Error *e) {
  bool at_once = cache_of(&k->base)->at_once;
  Status status = stage_next(k->base.input, out, end, e);
  if (status == OK && *end) return complete(k, e);
  if (status == OK && (status = k->broken && !at_once ? OK : keep(k, out, e)) != OK)
    tensors_release(out, k->base.dataset->count);
  if (status == OK || status == ERR_CANCELLED) return status;
  k->broken = true;
  if (!at_once) filling_clear(&k->filling, k->base.dataset->count);
  return status;
}

/* A failure is returned at once, and the next request goes on after the failed element. The other
 * elements are handed out after the whole input has been read. */
static Status fill_at_once(CacheStage *k, Error *e) {
  int count = k->base.dataset->count;
  Tensor **t = calloc((size_t)count, sizeof *t);
  if (!t) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  Status status = OK;
  for (bool end = false; status == OK && !end;) {
    status = stage_check_cancelled(&k->base, e);
    if (status == OK) status = read_and_keep(k, t, &end, e);
    if (status == OK && !end) tensors_release(t, count);
  }
  free(t);
  return status;
}

static Status cache_next(Stage *s, Tensor **out, bool *end, Error *e) {
  CacheStage *k = (CacheStage *)s;
  if (k->store) return from_store(k, out, end, e);
  if (!cache_of(s)->at_once) return read_and_keep(k, out, end, e);
  Status status = fill_at_once(k, e);
  return status == OK ? from_store(k, out, end, e) : status;
}

static void cache_free(Dataset *d) {
  CacheDataset *c = (CacheDataset *)d;
  store_free(c->store);
  free(c->path);
  pthread_mutex_destroy(&c->mutex);
}

#define KEEPS(stage_name)                 \
  {.name = stage_name,                    \
   .dataset_bytes = sizeof(CacheDataset), \
   .stage_bytes = sizeof(CacheStage),     \
   .free = cache_free,                    \
   .open = cache_open,                    \
   .close = cache_close,                  \
   .indices = cache_indices,              \
   .next = cache_next}
static const StageClass cache_class = KEEPS("cache");
static const StageClass buffer_class = KEEPS("BufferDataset");

/* Elements that lie in memory need no copy. */
static const StageClass cache_rows_class = {.name = "cache",
                                            .dataset_bytes = sizeof(Dataset),
                                            .stage_bytes = sizeof(RowsStage),
                                            .open = rows_stage_open,
                                            .indices = rows_stage_indices,
                                            .skip = rows_stage_skip};

static CacheDataset *new_cache(Error *e, const char *source, const StageClass *class, Dataset *in) {
  CacheDataset *d = (CacheDataset *)dataset_new_like(e, source, class, in);
  if (d) pthread_mutex_init(&d->mutex, NULL);
  return d;
}

static bool has_nested(const Dataset *d) {
  for (int c = 0; c < d->count; c++)
    if (d->nested[c]) return true;
  return false;
}

Dataset *dataset_cache(Error *e, const char *source, Dataset *in, const char *path) {
  bool to_file = path && path[0];
  if (to_file && has_nested(in))
    return source_fail("cache", source, e, ERR_TYPE,
                       "windows can't be kept in a file: flatten them with flat_map first");
  if (!to_file && in->rows) {
    Dataset *d = dataset_new_like(e, source, &cache_rows_class, in);
    if (d) d->rows = in->rows;
    return dataset_finish(e, d);
  }
  CacheDataset *d = new_cache(e, source, &cache_class, in);
  if (d && to_file && !(d->path = strdup(path)))
    return dataset_release(&d->base), fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  return d ? dataset_finish(e, &d->base) : NULL;
}

Dataset *dataset_buffer(Error *e, const char *source, Dataset *in, int64_t size) {
  if (size < 1)
    return source_fail("BufferDataset", source, e, ERR_VALUE,
                       "the buffer size must be at least 1, got %lld", (long long)size);
  Dataset *first = dataset_take(e, source, in, size);
  if (!first) return NULL;
  CacheDataset *d = new_cache(e, source, &buffer_class, first);
  dataset_release(first);
  if (!d) return NULL;
  d->at_once = true;
  return dataset_finish(e, &d->base);
}
