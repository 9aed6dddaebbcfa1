/* map and filter. A traced function's program reads its element from the memory of the stage below,
 * and writes into the memory of the stage above. With parallel calls a group of elements is read
 * ahead and computed side by side. */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "data/function.h"

enum { MAX_PARALLEL = 64, ALIGNMENT = 64 };

typedef struct MapDataset {
  Dataset base;
  Function function;
  int parallel;
} MapDataset;

/* One element on its way through the function. */
typedef struct Item {
  Tensor **in, **out;   /* [components]; in is empty when the scratch memory is used */
  const void **in_data; /* dense */
  void **out_data;
  char *scratch; /* for static inputs: all components */
  const MapFunction *function;
  uint64_t number; /* of the element */
  bool waits;      /* its input has been read, but its computation was interrupted */
  bool untraced;   /* the same, when the script was to trace the function for its shape */
  Status status;
  Error error;
} Item;

typedef struct MapStage {
  Stage base;
  int worker_count, *worker; /* a number for each member of the pool, or one */
  int item_count;            /* 1, or the size of a group */
  Item *item;
  uint64_t fetched; /* elements of the input so far */
  int first, ready; /* of the group: those not yet handed out */
  bool drained;     /* the input ended after the group */
  Status late;      /* the input failed after the group */
  Error late_error;
  void **into; /* [input components] */
} MapStage;

static Function *function_of(const Stage *s) { return &((MapDataset *)s->dataset)->function; }

/* Whether the input writes into the item's scratch memory. Otherwise its tensors are used in
 * place. */
static bool uses_scratch(const Stage *s) {
  const StageClass *in = s->input->class;
  return s->input->dataset->is_static && (s->input->rows || in->next_into || in->give);
}

static size_t aligned(size_t bytes) { return size_round_up(bytes, ALIGNMENT); }

static Status item_open(const Stage *s, Item *item, Error *e) {
  const Dataset *in = s->input->dataset;
  size_t n = (size_t)in->count, m = (size_t)s->dataset->count, bytes = 0;
  item->in = calloc(n, sizeof *item->in);
  item->in_data = calloc(n, sizeof *item->in_data);
  item->out = calloc(m, sizeof *item->out);
  item->out_data = calloc(m, sizeof *item->out_data);
  if (!item->in || !item->in_data || !item->out || !item->out_data)
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  if (!uses_scratch(s)) return OK;
  for (int c = 0; c < in->count; c++) bytes += aligned(type_bytes(&in->type[c]));
  if (!(item->scratch = aligned_alloc(ALIGNMENT, bytes ? bytes : ALIGNMENT)))
    return dataset_fail(s->dataset, e, ERR_OUT_OF_MEMORY, "no memory for an element of %zu bytes",
                        bytes);
  bytes = 0;
  for (int c = 0; c < in->count; bytes += aligned(type_bytes(&in->type[c])), c++)
    item->in_data[c] = item->scratch + bytes;
  return OK;
}

static void item_close(const Stage *s, Item *item) {
  function_leave(function_of(s), item->function);
  if (item->in) tensors_release(item->in, s->dataset->input[0]->count);
  if (item->out) tensors_release(item->out, s->dataset->count);
  free(item->in);
  free(item->in_data);
  free(item->out);
  free(item->out_data);
  free(item->scratch);
}

static int group_size(const Stage *s) {
  int n = ((const MapDataset *)s->dataset)->parallel, team = pool_size(s->scope->tree->pool);
  if (team == 1) return 1;
  if (n == DATA_AUTOTUNE) n = team;
  return n < 1 ? 1 : n < MAX_PARALLEL ? n : MAX_PARALLEL;
}

static Status take_workers(MapStage *m, Error *e) {
  m->worker_count = m->item_count > 1 ? pool_size(m->base.scope->tree->pool) : 1;
  m->worker = malloc((size_t)m->worker_count * sizeof *m->worker);
  if (!m->worker) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < m->worker_count; i++) m->worker[i] = -1;
  for (int i = 0; i < m->worker_count; i++)
    if ((m->worker[i] = function_take_worker(function_of(&m->base))) < 0)
      return dataset_fail(m->base.dataset, e, ERR_FAILED_PRECONDITION,
                          "more than %d readers of one dataset at the same time", MAP_WORKERS);
  return OK;
}

static Status map_open(Stage *s, Error *e) {
  MapStage *m = (MapStage *)s;
  Status status = stage_open_input(s, e);
  if (status != OK) return status;
  m->item_count = group_size(s);
  m->item = calloc((size_t)m->item_count, sizeof *m->item);
  m->into = calloc((size_t)s->input->dataset->count, sizeof *m->into);
  if (!m->item || !m->into) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < m->item_count && status == OK; i++) status = item_open(s, &m->item[i], e);
  return status == OK ? take_workers(m, e) : status;
}

static void map_close(Stage *s) {
  MapStage *m = (MapStage *)s;
  for (int i = 0; m->item && i < m->item_count; i++) item_close(s, &m->item[i]);
  for (int i = 0; m->worker && i < m->worker_count; i++)
    function_return_worker(function_of(s), m->worker[i]);
  free(m->item);
  free(m->worker);
  free(m->into);
}

/* Replaces tensors that aren't dense, as programs read dense memory. */
static Status make_dense(Item *item, int count, Error *e) {
  for (int c = 0; c < count; c++) {
    if (!tensor_is_dense(item->in[c])) {
      Tensor *packed = tensor_dense(e, item->in[c]);
      if (!packed) return ERR_OUT_OF_MEMORY;
      tensor_release(item->in[c]);
      item->in[c] = packed;
    }
    item->in_data[c] = item->in[c]->data;
  }
  return OK;
}

/* The function for an element of its shape. */
static Status find_function(Stage *s, Item *item, Error *e) {
  function_leave(function_of(s), item->function);
  item->function = NULL;
  Status status = function_find(function_of(s), s, item->in, &item->function, e);
  item->untraced = status == ERR_CANCELLED;
  return status;
}

/* The next input element into item, and the function for it. */
static Status fetch(MapStage *m, Item *item, bool *end, Error *e) {
  Stage *s = &m->base;
  int count = s->input->dataset->count;
  Status status;
  *end = false;
  item->waits = false;
  if (item->untraced) return find_function(s, item, e);
  item->number = stage_element_number(s, m->fetched);
  if (uses_scratch(s)) {
    for (int c = 0; c < count; c++) m->into[c] = (void *)(uintptr_t)item->in_data[c];
    item->function = &function_of(s)->function;
    status = stage_next_into(s->input, m->into, end, e);
    if (status != ERR_CANCELLED) m->fetched++;
    return status;
  }
  tensors_release(item->in, count);
  status = stage_next(s->input, item->in, end, e);
  if (status != ERR_CANCELLED) m->fetched++;
  if (status == OK && !*end) status = make_dense(item, count, e);
  return status == OK && !*end ? find_function(s, item, e) : status;
}

static Status new_outputs(const Stage *s, Item *item, Error *e) {
  for (int c = 0; c < s->dataset->count; c++) {
    item->out[c] = tensor_new_uninitialised(e, &item->function->out_type[c]);
    if (!item->out[c])
      return tensors_release(item->out, c), dataset_blame(s->dataset, e, ERR_OUT_OF_MEMORY);
    item->out_data[c] = item->out[c]->data;
  }
  return OK;
}

static Status run(const Stage *s, const Item *item, int worker, void *const *out, Error *e) {
  Status status =
      item->function->run(item->function->context, worker, item->number, item->in_data, out, e);
  return status == OK ? OK : dataset_blame(s->dataset, e, status);
}

static void run_item(void *context, int64_t chunk, int slot) {
  MapStage *m = context;
  Item *item = &m->item[chunk];
  item->status = run(&m->base, item, m->worker[slot], item->out_data, &item->error);
}

/* The item after the group: only that one can have been read and not traced. */
static Item *behind_group(const MapStage *m) { return &m->item[m->ready % m->item_count]; }

static void swap_items(Item *a, Item *b) {
  Item other = *a;
  *a = *b;
  *b = other;
}

/* Reads a group and computes it. The input's end or failure after it is reported when the group is
 * used up. */
static void fill_group(MapStage *m) {
  Item *next = behind_group(m);
  if (next->untraced) swap_items(next, &m->item[0]);
  m->first = m->ready = 0;
  m->late_error.status = OK;
  while (m->ready < m->item_count && !m->drained && m->late == OK) {
    Item *item = &m->item[m->ready];
    bool end;
    error_clear(&item->error);
    m->late = fetch(m, item, &end, &m->late_error);
    if (m->late == OK && !end) m->late = new_outputs(&m->base, item, &m->late_error);
    if (m->late != OK) break;
    m->drained = end;
    if (!end) m->ready++;
  }
  pool_run(m->base.scope->tree->pool, m->ready, run_item, m);
}

/* The same for one element, unless it has been read already. */
static Status fetch_one(MapStage *m, bool *end, Error *e) {
  Item *item = &m->item[0];
  *end = false;
  if (!item->waits) return fetch(m, item, end, e);
  item->waits = false;
  return OK;
}

static Status run_one(MapStage *m, void *const *out, Error *e) {
  Status status = run(&m->base, &m->item[0], m->worker[0], out, e);
  m->item[0].waits = status == ERR_CANCELLED;
  return status;
}

/* Computes an element whose computation was interrupted. */
static void compute_again(MapStage *m, Item *item) {
  error_clear(&item->error);
  item->status = run(&m->base, item, m->worker[0], item->out_data, &item->error);
}

/* The next of the group; NULL at the end and after a failure. */
static Item *next_item(MapStage *m, bool *end, Status *status, Error *e) {
  *status = OK;
  if (m->first == m->ready && !m->drained && m->late == OK) fill_group(m);
  if (m->first == m->ready) {
    *status = m->late;
    if (m->late != OK && e->status == OK) *e = m->late_error;
    m->late = OK;
    *end = *status == OK;
    return NULL;
  }
  Item *item = &m->item[m->first];
  if (item->waits) compute_again(m, item);
  *status = item->status;
  item->waits = *status == ERR_CANCELLED;
  if (item->waits) return *e = item->error, NULL;
  m->first++;
  if (*status == OK) return item;
  if (e->status == OK) *e = item->error;
  tensors_release(item->out, m->base.dataset->count);
  return NULL;
}

static Status map_next(Stage *s, Tensor **out, bool *end, Error *e) {
  MapStage *m = (MapStage *)s;
  Item *item = &m->item[0];
  Status status;
  if (m->item_count > 1) {
    item = next_item(m, end, &status, e);
    if (!item) return status;
  } else {
    status = fetch_one(m, end, e);
    if (status != OK || *end) return status;
    status = new_outputs(s, item, e);
    if (status == OK) status = run_one(m, item->out_data, e);
    if (status != OK) return tensors_release(item->out, s->dataset->count), status;
  }
  for (int c = 0; c < s->dataset->count; c++) out[c] = item->out[c], item->out[c] = NULL;
  return OK;
}

static Status map_next_into(Stage *s, void *const *out, bool *end, Error *e) {
  MapStage *m = (MapStage *)s;
  Status status;
  if (m->item_count == 1) {
    status = fetch_one(m, end, e);
    return status != OK || *end ? status : run_one(m, out, e);
  }
  Item *item = next_item(m, end, &status, e);
  if (!item) return status;
  for (int c = 0; c < s->dataset->count; c++)
    memcpy(out[c], item->out_data[c], type_bytes(&s->dataset->type[c]));
  tensors_release(item->out, s->dataset->count);
  return OK;
}

/* Skipped elements are not computed. */
static Status map_skip(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  MapStage *m = (MapStage *)s;
  if (m->item_count == 1 && m->item[0].waits) m->item[0].waits = false, ++*skipped;
  for (; *skipped < n && m->first < m->ready; ++*skipped)
    tensors_release(m->item[m->first++].out, s->dataset->count);
  if (*skipped == n) return OK;
  if (m->late != OK || m->drained) {
    bool end;
    Status status;
    next_item(m, &end, &status, e);
    *skipped += status != OK && status != ERR_CANCELLED;
    return status;
  }
  if (behind_group(m)->untraced) {
    behind_group(m)->untraced = false;
    if (++*skipped == n) return OK;
  }
  int64_t more;
  Status status = stage_skip(s->input, n - *skipped, &more, e);
  *skipped += more;
  m->fetched += (uint64_t)more;
  return status;
}

/* Elements of changing shape have the script trace the function again. */
static bool map_needs_caller(const Dataset *d) {
  const MapDataset *m = (const MapDataset *)d;
  return m->function.function.specialise || m->parallel > 1 || m->parallel == DATA_AUTOTUNE;
}

static void map_free(Dataset *d) { function_clear(&((MapDataset *)d)->function); }

static const StageClass map_class = {.name = "map",
                                     .needs_caller = map_needs_caller,
                                     .dataset_bytes = sizeof(MapDataset),
                                     .stage_bytes = sizeof(MapStage),
                                     .free = map_free,
                                     .open = map_open,
                                     .close = map_close,
                                     .next = map_next,
                                     .next_into = map_next_into,
                                     .skip = map_skip};

static Dataset *new_with_function(Error *e, const char *source, const StageClass *class,
                                  Dataset *in, int count, MapFunction f) {
  MapDataset *d = (MapDataset *)dataset_new(e, source, class, 1, &in, count);
  if (!d) {
    if (f.release) f.release(f.context);
    return NULL;
  }
  d->base.cardinality = in->cardinality;
  function_init(&d->function, f);
  if (function_check(&d->function, e, class->name, source, in) != OK)
    return dataset_release(&d->base), NULL;
  return &d->base;
}

Dataset *dataset_map(Error *e, const char *source, Dataset *in, MapFunction f, int parallel) {
  Dataset *d = new_with_function(e, source, &map_class, in, f.out_count, f);
  if (!d) return NULL;
  ((MapDataset *)d)->parallel = parallel;
  for (int c = 0; c < f.out_count; c++) d->type[c] = f.out_type[c];
  if (!(d = dataset_finish(e, d)) || !in->is_static || d->is_static) return d;
  dataset_release(d);
  return source_fail("map", source, e, ERR_INTERNAL, "a result's shape is unknown");
}

/* filter */
typedef struct FilterStage {
  Stage base;
  int worker;
  uint64_t fetched;
  Item item;
} FilterStage;

static Status filter_open(Stage *s, Error *e) {
  FilterStage *f = (FilterStage *)s;
  f->worker = -1;
  size_t n = (size_t)s->dataset->count;
  f->item.in = calloc(n, sizeof *f->item.in);
  f->item.in_data = calloc(n, sizeof *f->item.in_data);
  if (!f->item.in || !f->item.in_data) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  if ((f->worker = function_take_worker(function_of(s))) < 0)
    return dataset_fail(s->dataset, e, ERR_FAILED_PRECONDITION,
                        "more than %d readers of one dataset at the same time", MAP_WORKERS);
  return stage_open_input(s, e);
}

static void filter_close(Stage *s) {
  FilterStage *f = (FilterStage *)s;
  if (f->item.in) tensors_release(f->item.in, s->dataset->count);
  free(f->item.in);
  free(f->item.in_data);
  function_leave(function_of(s), f->item.function);
  function_return_worker(function_of(s), f->worker);
}

static Status filter_fetch(FilterStage *f, bool *end, Error *e) {
  Stage *s = &f->base;
  Item *item = &f->item;
  *end = false;
  if (item->untraced) return find_function(s, item, e);
  tensors_release(item->in, s->dataset->count);
  Status status = stage_check_cancelled(s, e);
  if (status != OK) return status;
  item->number = stage_element_number(s, f->fetched);
  status = stage_next(s->input, item->in, end, e);
  if (status != ERR_CANCELLED) f->fetched++;
  if (status != OK || *end) return status;
  status = make_dense(item, s->dataset->count, e);
  return status == OK ? find_function(s, item, e) : status;
}

static Status filter_next(Stage *s, Tensor **out, bool *end, Error *e) {
  FilterStage *f = (FilterStage *)s;
  Item *item = &f->item;
  for (;;) {
    uint8_t keep = 0;
    void *into = &keep;
    Status status = item->waits ? OK : filter_fetch(f, end, e);
    if (status != OK || *end) return status;
    status = run(s, item, f->worker, &into, e);
    item->waits = status == ERR_CANCELLED;
    if (status != OK) return status;
    if (!keep) continue;
    for (int c = 0; c < s->dataset->count; c++) out[c] = item->in[c], item->in[c] = NULL;
    return OK;
  }
}

static const StageClass filter_class = {.name = "filter",
                                        .needs_caller = map_needs_caller,
                                        .dataset_bytes = sizeof(MapDataset),
                                        .stage_bytes = sizeof(FilterStage),
                                        .free = map_free,
                                        .open = filter_open,
                                        .close = filter_close,
                                        .next = filter_next};

static Status check_predicate(Error *e, const char *source, const Type *type, int count) {
  char text[TYPE_TEXT];
  if (count == 1 && type->dtype == BOOL && type->rank == 0) return OK;
  return source_fail("filter", source, e, ERR_TYPE,
                     "the function must return one bool[], it returns %s",
                     count == 1 ? type_text(type, text) : "several values"),
         ERR_TYPE;
}

Dataset *dataset_filter(Error *e, const char *source, Dataset *in, MapFunction predicate) {
  Dataset *d = new_with_function(e, source, &filter_class, in, in->count, predicate);
  if (!d) return NULL;
  if (check_predicate(e, source, predicate.out_type, predicate.out_count) != OK)
    return dataset_release(d), NULL;
  d->cardinality = CARDINALITY_UNKNOWN;
  dataset_take_types(d, 0, in);
  return dataset_finish(e, d);
}
