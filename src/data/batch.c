/* batch, unbatch, window. */
#include <stdlib.h>
#include <string.h>

#include "data/elements.h"

typedef struct BatchDataset {
  Dataset base;
  int64_t size;
  bool drop_remainder;
} BatchDataset;

typedef struct BatchStage {
  Stage base;
  int64_t *index; /* [size] over rows */
  void **row;     /* [components] where the next row goes */
  Elements list;  /* of components whose shapes may differ */
  int64_t owed;   /* elements to be skipped, of a batch that failed */
  int64_t passed; /* elements that an interrupted skip has passed, of a batch that may be dropped */
  /* An interrupted batch: the rows that are complete, in index or side by side in kept. */
  int64_t have;
  char **kept; /* [components] */
} BatchStage;

/* The batch size in bytes up to which memory is allocated at once. Larger batches grow with their
 * elements. */
enum { AT_ONCE = 1 << 28 };
static const int64_t MAX_ROWS = (int64_t)1 << 40;

static Status batch_open(Stage *s, Error *e) {
  BatchStage *b = (BatchStage *)s;
  b->list.width = s->dataset->count;
  b->row = calloc((size_t)s->dataset->count, sizeof *b->row);
  if (!b->row) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  return stage_open_input(s, e);
}

static void forget_kept(BatchStage *b) {
  for (int c = 0; b->kept && c < b->base.dataset->count; c++) free(b->kept[c]);
  free(b->kept);
  b->kept = NULL;
  b->have = 0;
}

static void batch_close(Stage *s) {
  BatchStage *b = (BatchStage *)s;
  elements_clear(&b->list);
  forget_kept(b);
  free(b->row);
  free(b->index);
}

static const BatchDataset *batch_of(const Stage *s) { return (const BatchDataset *)s->dataset; }

/* Before a batch is read: what is left of one that failed, or that was begun to be skipped. */
static Status pass_rest(BatchStage *b, Error *e) {
  if (b->passed) b->owed = batch_of(&b->base)->size - b->passed, b->passed = 0;
  return stage_pass_owed(b->base.input, &b->owed, e);
}

/* Reads the row numbers of the next batch. *got < size at the end. */
static Status next_indices(BatchStage *b, int64_t *got, Error *e) {
  Stage *in = b->base.input;
  int64_t size = batch_of(&b->base)->size;
  if (size > in->rows->length && in->dataset->cardinality >= 0) /* no batch can be larger */
    size = in->dataset->cardinality + 1 < size ? in->dataset->cardinality + 1 : size;
  if (!b->index && !(b->index = malloc((size_t)size * sizeof *b->index)))
    return dataset_fail(b->base.dataset, e, ERR_OUT_OF_MEMORY, "no memory for batches of %lld",
                        (long long)batch_of(&b->base)->size);
  int64_t more;
  Status status = stage_indices(in, b->index + b->have, size - b->have, &more, e);
  b->have += more;
  if (status != OK) return status;
  *got = b->have;
  b->have = 0;
  return OK;
}

static void gather_batch(const BatchStage *b, int64_t n, void *const *out) {
  const Rows *rows = b->base.input->rows;
  for (int c = 0; c < rows->count; c++)
    rows_gather(rows, c, b->index, n, out[c], b->base.scope->tree->pool);
}

/* After an element has failed: `got` elements of its batch came before it. The rest of the batch is
 * skipped too. */
static Status owe(BatchStage *b, int64_t got, Status status) {
  if (status != ERR_CANCELLED) b->owed = batch_of(&b->base)->size - got - 1;
  return status;
}

/* Keeps the complete rows for the next request. */
static Status keep_rows(BatchStage *b, void *const *out, int64_t got, Error *e) {
  const Dataset *in = b->base.input->dataset;
  b->kept = calloc((size_t)in->count, sizeof *b->kept);
  bool kept = b->kept != NULL;
  for (int c = 0; c < in->count && kept; c++) {
    size_t bytes = (size_t)got * type_bytes(&in->type[c]);
    if ((kept = (b->kept[c] = malloc(bytes + 1)))) memcpy(b->kept[c], out[c], bytes);
  }
  if (kept) return b->have = got, ERR_CANCELLED;
  forget_kept(b);
  error_clear(e);
  return owe(b, got - 1, fail(e, ERR_OUT_OF_MEMORY, "out of memory"));
}

static int64_t take_kept(BatchStage *b, void *const *out) {
  const Dataset *in = b->base.input->dataset;
  int64_t have = b->kept ? b->have : 0;
  for (int c = 0; c < in->count && b->kept; c++)
    memcpy(out[c], b->kept[c], (size_t)have * type_bytes(&in->type[c]));
  forget_kept(b);
  return have;
}

/* Reads elements one by one into their rows. *got < n at the end. */
static Status fill_rows(BatchStage *b, int64_t n, void *const *out, int64_t *got, Error *e) {
  const Dataset *in = b->base.input->dataset;
  for (*got = take_kept(b, out); *got < n; ++*got) {
    bool end;
    for (int c = 0; c < in->count; c++)
      b->row[c] = (char *)out[c] + (size_t)*got * type_bytes(&in->type[c]);
    Status status = stage_next_into(b->base.input, b->row, &end, e);
    if (status == ERR_CANCELLED) return *got ? keep_rows(b, out, *got, e) : status;
    if (status != OK) return owe(b, *got, status);
    if (end) return OK;
  }
  return OK;
}

/* Only for static batches, which have drop_remainder: without it the batch's extent is unknown. */
static Status batch_next_into(Stage *s, void *const *out, bool *end, Error *e) {
  BatchStage *b = (BatchStage *)s;
  int64_t size = batch_of(s)->size, got = 0;
  Status status = pass_rest(b, e);
  if (status == OK)
    status = s->input->rows ? next_indices(b, &got, e) : fill_rows(b, size, out, &got, e);
  if (status != OK) return status;
  *end = got < size;
  if (!*end && s->input->rows) gather_batch(b, size, out);
  return OK;
}

static Status new_batch(const Stage *s, int64_t n, Tensor **out, void **data, Error *e) {
  for (int c = 0; c < s->dataset->count; c++) {
    Type type = s->dataset->type[c];
    type.shape[0] = n;
    if (!(out[c] = tensor_new_uninitialised(e, &type))) {
      tensors_release(out, c);
      return dataset_blame(s->dataset, e, ERR_OUT_OF_MEMORY);
    }
    data[c] = out[c]->data;
  }
  return OK;
}

/* Shortens out, which was allocated for more rows, to its first n. */
static Status shorten(const Stage *s, int64_t n, Tensor **out, Error *e) {
  for (int c = 0; c < s->dataset->count; c++) {
    Type type = out[c]->type;
    type.shape[0] = n;
    Tensor *view = tensor_view(e, out[c], &type, out[c]->stride, 0);
    if (!view) return tensors_release(out, s->dataset->count), ERR_OUT_OF_MEMORY;
    tensor_release(out[c]);
    out[c] = view;
  }
  return OK;
}

static bool too_few(const Stage *s, int64_t got) {
  return !got || (got < batch_of(s)->size && batch_of(s)->drop_remainder);
}

static Status next_gathered(Stage *s, Tensor **out, void **data, bool *end, Error *e) {
  int64_t got;
  Status status = next_indices((BatchStage *)s, &got, e);
  if (status != OK || (*end = too_few(s, got))) return status;
  status = new_batch(s, got, out, data, e);
  if (status == OK) gather_batch((BatchStage *)s, got, data);
  return status;
}

static Status next_filled(Stage *s, Tensor **out, void **data, bool *end, Error *e) {
  int64_t size = batch_of(s)->size, got = 0;
  Status status = new_batch(s, size, out, data, e);
  if (status != OK) return status;
  status = fill_rows((BatchStage *)s, size, data, &got, e);
  if (status != OK || (*end = too_few(s, got)))
    return tensors_release(out, s->dataset->count), status;
  return got < size ? shorten(s, got, out, e) : OK;
}

static Status collect(Stage *s, Elements *l, int64_t size, Error *e) {
  while (l->count < size) {
    bool end;
    Status status = elements_reserve(l, e);
    if (status == OK) status = stage_check_cancelled(s, e);
    if (status == OK) status = stage_next(s->input, elements_at(l, l->count), &end, e);
    if (status != OK) return owe((BatchStage *)s, l->count, status);
    if (end) return OK;
    l->count++;
  }
  return OK;
}

static Status next_collected(Stage *s, Tensor **out, bool *end, Error *e) {
  Elements *l = &((BatchStage *)s)->list;
  Status status = collect(s, l, batch_of(s)->size, e);
  if (status == OK && !(*end = too_few(s, l->count)))
    for (int c = 0; c < s->dataset->count; c++)
      if (!(out[c] = elements_stack(l, s->dataset, c, l->count, 1, e))) {
        tensors_release(out, c);
        status = e->status;
        break;
      }
  if (status != ERR_CANCELLED) elements_drop(l, l->count);
  return status;
}

static bool fits_at_once(const Stage *s) {
  const Dataset *in = s->input->dataset;
  for (int c = 0; c < in->count; c++) {
    size_t bytes;
    if (__builtin_mul_overflow(type_bytes(&in->type[c]), (size_t)batch_of(s)->size, &bytes) ||
        bytes > AT_ONCE)
      return false;
  }
  return true;
}

static Status batch_next(Stage *s, Tensor **out, bool *end, Error *e) {
  void **data = NULL;
  Status rest = pass_rest((BatchStage *)s, e);
  if (rest != OK) return rest;
  bool gathered = s->input->rows != NULL;
  if (!gathered && !(s->input->dataset->is_static && fits_at_once(s)))
    return next_collected(s, out, end, e);
  void *few[8];
  data = s->dataset->count <= 8 ? few : calloc((size_t)s->dataset->count, sizeof *data);
  if (!data) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  Status status =
      gathered ? next_gathered(s, out, data, end, e) : next_filled(s, out, data, end, e);
  if (data != few) free(data);
  return status;
}

static Status batch_skip(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  BatchStage *b = (BatchStage *)s;
  int64_t size = batch_of(s)->size, rows = 0, want;
  if (__builtin_mul_overflow(n, size, &want)) want = INT64_MAX;
  Status status = stage_pass_owed(s->input, &b->owed, e);
  if (status != OK) return status;
  int64_t have = b->have + b->list.count + b->passed;
  b->passed = 0;
  forget_kept(b);
  elements_drop(&b->list, b->list.count);
  status = stage_pass(s->input, want - have, &rows, e);
  rows += have;
  *skipped = rows / size;
  if (rows % size == 0) return status;
  /* the input may end within a batch: whether it is an element isn't known yet */
  if (status == ERR_CANCELLED && batch_of(s)->drop_remainder)
    return b->passed = rows % size, status;
  if (status != OK) b->owed = size - rows % size; /* skips the rest of the batch that was begun */
  if (status != OK || !batch_of(s)->drop_remainder) ++*skipped;
  return status;
}

static const StageClass batch_class = {.name = "batch",
                                       .dataset_bytes = sizeof(BatchDataset),
                                       .stage_bytes = sizeof(BatchStage),
                                       .open = batch_open,
                                       .close = batch_close,
                                       .next = batch_next,
                                       .next_into = batch_next_into,
                                       .skip = batch_skip};

Dataset *dataset_batch(Error *e, const char *source, Dataset *in, int64_t size,
                       bool drop_remainder) {
  if (size < 1)
    return source_fail("batch", source, e, ERR_VALUE, "the batch size must be at least 1, got %lld",
                       (long long)size);
  if (size > MAX_ROWS)
    return source_fail("batch", source, e, ERR_VALUE, "a batch of %lld elements is too large",
                       (long long)size);
  if (stage_refuse_nested(e, "batch", source, in) != OK) return NULL;
  Dataset *d = dataset_new(e, source, &batch_class, 1, &in, in->count);
  if (!d) return NULL;
  ((BatchDataset *)d)->size = size;
  ((BatchDataset *)d)->drop_remainder = drop_remainder;
  d->batch = drop_remainder ? 0 : size;
  int64_t n = in->cardinality;
  d->cardinality = n < 0 ? n : n / size + (!drop_remainder && n % size != 0);
  for (int c = 0; c < in->count; c++)
    if (type_stacked(e, "batch", source, drop_remainder ? size : -1, &in->type[c], &d->type[c]) !=
        OK)
      return dataset_release(d), NULL;
  return dataset_finish(e, d);
}

/* unbatch */
typedef struct UnbatchStage {
  Stage base;
  Tensor **whole; /* [components] */
  int64_t position, length;
} UnbatchStage;

static Status unbatch_open(Stage *s, Error *e) {
  UnbatchStage *u = (UnbatchStage *)s;
  if (!(u->whole = calloc((size_t)s->dataset->count, sizeof *u->whole)))
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  return stage_open_input(s, e);
}

static void unbatch_close(Stage *s) {
  UnbatchStage *u = (UnbatchStage *)s;
  if (u->whole) tensors_release(u->whole, s->dataset->count);
  free(u->whole);
}

static Status next_whole(UnbatchStage *u, bool *end, Error *e) {
  const Dataset *d = u->base.dataset;
  u->position = u->length = 0;
  tensors_release(u->whole, d->count);
  Status status = stage_check_cancelled(&u->base, e);
  if (status == OK) status = stage_next(u->base.input, u->whole, end, e);
  if (status != OK || *end) return status;
  for (int c = 1; c < d->count; c++)
    if (u->whole[c]->type.shape[0] != u->whole[0]->type.shape[0])
      return dataset_fail(
          d, e, ERR_VALUE,
          "the first extents differ: component 0 has %lld row%s, component %d has %lld",
          (long long)u->whole[0]->type.shape[0], plural(u->whole[0]->type.shape[0]), c,
          (long long)u->whole[c]->type.shape[0]);
  u->length = u->whole[0]->type.shape[0];
  return OK;
}

static Status unbatch_next(Stage *s, Tensor **out, bool *end, Error *e) {
  UnbatchStage *u = (UnbatchStage *)s;
  while (u->position >= u->length) {
    Status status = next_whole(u, end, e);
    if (status != OK || *end) return status;
  }
  for (int c = 0; c < s->dataset->count; c++)
    if (!(out[c] = tensor_row(e, u->whole[c], u->position)))
      return tensors_release(out, c), ERR_OUT_OF_MEMORY;
  u->position++;
  return OK;
}

static const StageClass unbatch_class = {.name = "unbatch",
                                         .dataset_bytes = sizeof(Dataset),
                                         .stage_bytes = sizeof(UnbatchStage),
                                         .open = unbatch_open,
                                         .close = unbatch_close,
                                         .next = unbatch_next};

Dataset *dataset_unbatch(Error *e, const char *source, Dataset *in) {
  if (stage_refuse_nested(e, "unbatch", source, in) != OK) return NULL;
  int64_t rows = -1;
  for (int c = 0; c < in->count; c++) {
    if (!in->type[c].rank)
      return source_fail("unbatch", source, e, ERR_VALUE,
                         "component %d is a scalar: it has no rows", c);
    if (in->type[c].shape[0] < 0) continue;
    if (rows >= 0 && rows != in->type[c].shape[0])
      return source_fail("unbatch", source, e, ERR_VALUE,
                         "the first extents of the components differ: %lld and %lld",
                         (long long)rows, (long long)in->type[c].shape[0]);
    rows = in->type[c].shape[0];
  }
  Dataset *d = dataset_new(e, source, &unbatch_class, 1, &in, in->count);
  if (!d) return NULL;
  d->cardinality = rows < 0 && in->cardinality >= 0 ? CARDINALITY_UNKNOWN
                                                    : cardinality_scale(in->cardinality, rows);
  if (rows == 0) d->cardinality = CARDINALITY_UNKNOWN;
  for (int c = 0; c < in->count; c++)
    d->type[c] = type_make(in->type[c].dtype, in->type[c].rank - 1, in->type[c].shape + 1);
  return dataset_finish(e, d);
}

/* window */
typedef struct WindowDataset {
  Dataset base;
  int size, stride, span; /* span: elements from a window's first to its last, inclusive */
  int64_t shift;
  bool drop_remainder;
} WindowDataset;

typedef struct WindowStage {
  Stage base;
  Elements list; /* elements from the next window's first on; a failed one has no tensors */
  int64_t owed;  /* elements to be skipped between two windows */
  Error failure; /* the latest failure of an element */
} WindowStage;

static Status window_open(Stage *s, Error *e) {
  ((WindowStage *)s)->list.width = s->dataset->count;
  return stage_open_input(s, e);
}

static void window_close(Stage *s) { elements_clear(&((WindowStage *)s)->list); }

/* Moves on to the next window. */
static void window_shift(WindowStage *w) {
  int64_t shift = ((const WindowDataset *)w->base.dataset)->shift;
  w->owed = shift > w->list.count ? shift - w->list.count : 0;
  elements_drop(&w->list, shift > w->list.count ? w->list.count : (int)shift);
}

/* Reads elements up to the window's end. An element that fails keeps its position, and every window
 * that contains it fails. */
static Status window_fill(WindowStage *w, bool *end, Error *e) {
  const WindowDataset *d = (const WindowDataset *)w->base.dataset;
  Elements *l = &w->list;
  Status status = stage_pass_owed(w->base.input, &w->owed, e);
  while (status == OK && l->count < d->span) {
    Error failure = {.status = OK};
    if ((status = elements_reserve(l, e)) != OK) break;
    status = stage_next(w->base.input, elements_at(l, l->count), end, &failure);
    if (status == OK && *end) break;
    if (status == ERR_CANCELLED) return *e = failure, status;
    if (status != OK) w->failure = failure;
    bool belongs = l->count++ % d->stride == 0;
    if (status != OK && belongs) return window_shift(w), *e = failure, status;
    status = OK;
  }
  return status;
}

static Status window_next(Stage *s, Tensor **out, bool *end, Error *e) {
  WindowStage *w = (WindowStage *)s;
  const WindowDataset *d = (const WindowDataset *)s->dataset;
  Elements *l = &w->list;
  Status status = window_fill(w, end, e);
  if (status != OK) return status;
  for (int i = 0; i < l->count; i += d->stride)
    if (!elements_at(l, i)[0]) return window_shift(w), *e = w->failure, e->status;
  *end = !l->count || (d->drop_remainder && l->count < d->span);
  if (*end) return OK;
  for (int c = 0; c < l->width && status == OK; c++)
    if (!(out[c] =
              elements_stack(l, s->dataset, c, 1 + (l->count - 1) / d->stride, d->stride, e))) {
      tensors_release(out, c);
      status = e->status;
    }
  window_shift(w);
  return status;
}

static const StageClass window_class = {.name = "window",
                                        .dataset_bytes = sizeof(WindowDataset),
                                        .stage_bytes = sizeof(WindowStage),
                                        .open = window_open,
                                        .close = window_close,
                                        .next = window_next};

static int64_t window_count(const WindowDataset *d, int64_t n) {
  if (n < 0) return n;
  if (d->drop_remainder) return n < d->span ? 0 : (n - d->span) / d->shift + 1;
  return n / d->shift + (n % d->shift != 0);
}

Dataset *dataset_window(Error *e, const char *source, Dataset *in, int64_t size, int64_t shift,
                        int64_t stride, bool drop_remainder) {
  if (!shift) shift = size;
  if (size < 1 || shift < 1 || stride < 1)
    return source_fail("window", source, e, ERR_VALUE,
                       "size, shift and stride must be at least 1, got %lld, %lld and %lld",
                       (long long)size, (long long)shift, (long long)stride);
  if (size > INT32_MAX / 4 || stride > INT32_MAX / 4 || (size - 1) * stride + 1 > INT32_MAX / 4)
    return source_fail("window", source, e, ERR_VALUE,
                       "a window of %lld elements, %lld apart, is too large", (long long)size,
                       (long long)stride);
  if (stage_refuse_nested(e, "window", source, in) != OK) return NULL;
  Dataset *d = dataset_new(e, source, &window_class, 1, &in, in->count);
  if (!d) return NULL;
  WindowDataset *w = (WindowDataset *)d;
  w->size = (int)size, w->stride = (int)stride, w->span = (int)((size - 1) * stride + 1);
  w->shift = shift, w->drop_remainder = drop_remainder;
  d->cardinality = window_count(w, in->cardinality);
  for (int c = 0; c < in->count; c++) {
    d->nested[c] = true;
    if (type_stacked(e, "window", source, drop_remainder ? size : -1, &in->type[c], &d->type[c]) !=
        OK)
      return dataset_release(d), NULL;
  }
  return dataset_finish(e, d);
}
