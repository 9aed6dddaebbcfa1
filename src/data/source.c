/* from_tensors, from_tensor_slices and range. */
#include <stdlib.h>

#include "base/arith.h"
#include "data/stage.h"

/* from_tensors: one element. */
typedef struct TensorsDataset {
  Dataset base;
  Tensor **tensor;
} TensorsDataset;

typedef struct TensorsStage {
  Stage base;
  bool read;
} TensorsStage;

static void tensors_free(Dataset *d) {
  TensorsDataset *t = (TensorsDataset *)d;
  if (t->tensor) tensors_release(t->tensor, d->count);
  free(t->tensor);
}

static Status tensors_next(Stage *s, Tensor **out, bool *end, Error *e) {
  (void)e;
  TensorsStage *t = (TensorsStage *)s;
  *end = t->read;
  if (t->read) return OK;
  t->read = true;
  Tensor **tensor = ((TensorsDataset *)s->dataset)->tensor;
  for (int c = 0; c < s->dataset->count; c++) out[c] = tensor_retain(tensor[c]);
  return OK;
}

static const StageClass tensors_class = {.name = "from_tensors",
                                         .dataset_bytes = sizeof(TensorsDataset),
                                         .stage_bytes = sizeof(TensorsStage),
                                         .free = tensors_free,
                                         .next = tensors_next};

Dataset *dataset_from_tensors(Error *e, const char *source, int count, Tensor *const *components) {
  Dataset *d = dataset_new(e, source, &tensors_class, 0, NULL, count);
  if (!d) return NULL;
  d->cardinality = 1;
  Tensor **tensor = ((TensorsDataset *)d)->tensor = calloc((size_t)count, sizeof *tensor);
  if (!tensor) return dataset_release(d), fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  for (int c = 0; c < count; c++) {
    if (!(tensor[c] = tensor_dense(e, components[c]))) return dataset_release(d), NULL;
    d->type[c] = components[c]->type;
  }
  return dataset_finish(e, d);
}

/* from_tensor_slices: the rows of tensors; also a zip of such datasets. */
typedef struct RowsDataset {
  Dataset base;
  Rows *rows;
} RowsDataset;

static void slices_free(Dataset *d) { rows_free(((RowsDataset *)d)->rows); }

Status rows_stage_open(Stage *s, Error *e) {
  (void)e;
  s->rows = s->dataset->rows;
  return OK;
}

Status rows_stage_indices(Stage *s, int64_t *out, int64_t n, int64_t *got, Error *e) {
  (void)e;
  RowsStage *r = (RowsStage *)s;
  int64_t left = s->rows->length - r->position;
  *got = min(n, left);
  for (int64_t i = 0; i < *got; i++) out[i] = r->position + i;
  r->position += *got;
  return OK;
}

Status rows_stage_skip(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  (void)e;
  RowsStage *r = (RowsStage *)s;
  int64_t left = s->rows->length - r->position;
  *skipped = min(n, left);
  r->position += *skipped;
  return OK;
}

#define OF_ROWS(stage_name)              \
  {.name = stage_name,                   \
   .dataset_bytes = sizeof(RowsDataset), \
   .stage_bytes = sizeof(RowsStage),     \
   .free = slices_free,                  \
   .open = rows_stage_open,              \
   .indices = rows_stage_indices,        \
   .skip = rows_stage_skip}
static const StageClass slices_class = OF_ROWS("from_tensor_slices");
static const StageClass zip_rows_class = OF_ROWS("zip");

static Status check_slices(Error *e, const char *source, int count, Tensor *const *t) {
  for (int c = 0; c < count; c++) {
    char first[TYPE_TEXT], this[TYPE_TEXT];
    if (!t[c]->type.rank)
      return source_fail("from_tensor_slices", source, e, ERR_VALUE,
                         "component %d has no dimension to slice: its shape is []", c),
             ERR_VALUE;
    if (t[c]->type.shape[0] != t[0]->type.shape[0])
      return source_fail("from_tensor_slices", source, e, ERR_VALUE,
                         "the first extents differ: component 0 has shape %s, component %d has %s",
                         shape_text(&t[0]->type, first), c, shape_text(&t[c]->type, this)),
             ERR_VALUE;
  }
  return OK;
}

/* The dataset of rows r, which is taken over. */
static Dataset *rows_dataset(Error *e, const char *source, const StageClass *class, int input_count,
                             Dataset *const *input, Rows *r) {
  if (!r) return NULL;
  Dataset *d = dataset_new(e, source, class, input_count, input, r->count);
  if (!d) return rows_free(r), NULL;
  ((RowsDataset *)d)->rows = r;
  d->rows = r;
  d->cardinality = r->length;
  for (int c = 0; c < r->count; c++) {
    const Type *t = &r->tensor[c]->type;
    d->type[c] = type_make(t->dtype, t->rank - 1, t->shape + 1);
  }
  return dataset_finish(e, d);
}

Dataset *dataset_from_slices(Error *e, const char *source, int count, Tensor *const *components) {
  if (count < 1) return dataset_new(e, source, &slices_class, 0, NULL, count);
  if (check_slices(e, source, count, components) != OK) return NULL;
  return rows_dataset(e, source, &slices_class, 0, NULL, rows_new(e, count, components));
}

Dataset *dataset_zip_rows(Error *e, const char *source, int count, Dataset *const *in) {
  int components = 0, n = 0;
  for (int i = 0; i < count; i++) components += in[i]->count;
  Tensor **t = calloc((size_t)components, sizeof *t);
  if (!t) return fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  int64_t length = in[0]->rows->length;
  for (int i = 0; i < count; i++) {
    if (in[i]->rows->length < length) length = in[i]->rows->length;
    for (int c = 0; c < in[i]->count; c++) t[n++] = in[i]->rows->tensor[c];
  }
  Rows *r = rows_new(e, components, t);
  free(t);
  return rows_dataset(e, source, &zip_rows_class, count, in, r);
}

/* range */
typedef struct RangeDataset {
  Dataset base;
  int64_t start, step;
} RangeDataset;

static Status range_next_into(Stage *s, void *const *out, bool *end, Error *e) {
  (void)e;
  const RangeDataset *d = (const RangeDataset *)s->dataset;
  RowsStage *r = (RowsStage *)s;
  *end = r->position >= d->base.cardinality;
  if (!*end)
    *(int64_t *)out[0] =
        (int64_t)((uint64_t)d->start + (uint64_t)r->position++ * (uint64_t)d->step);
  return OK;
}

static Status range_next(Stage *s, Tensor **out, bool *end, Error *e) {
  int64_t value;
  void *into = &value;
  range_next_into(s, &into, end, e);
  if (*end) return OK;
  Type type = type_scalar(I64);
  return (out[0] = tensor_from(e, &type, &value)) ? OK : ERR_OUT_OF_MEMORY;
}

static Status range_skip(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  (void)e;
  RowsStage *r = (RowsStage *)s;
  int64_t left = s->dataset->cardinality - r->position;
  *skipped = min(n, left);
  r->position += *skipped;
  return OK;
}

static const StageClass range_class = {.name = "range",
                                       .dataset_bytes = sizeof(RangeDataset),
                                       .stage_bytes = sizeof(RowsStage),
                                       .next = range_next,
                                       .next_into = range_next_into,
                                       .skip = range_skip};

Dataset *dataset_range(Error *e, const char *source, int64_t start, int64_t stop, int64_t step) {
  if (!step) return source_fail("range", source, e, ERR_VALUE, "step is 0");
  /* Differences in uint64 can't overflow. */
  uint64_t span = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
  uint64_t width = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  bool empty = step > 0 ? stop <= start : stop >= start;
  uint64_t count = empty ? 0 : (span - 1) / width + 1;
  if (count > INT64_MAX)
    return source_fail("range", source, e, ERR_VALUE, "more than 2^63 numbers");
  Dataset *d = dataset_new(e, source, &range_class, 0, NULL, 1);
  if (!d) return NULL;
  ((RangeDataset *)d)->start = start;
  ((RangeDataset *)d)->step = step;
  d->cardinality = (int64_t)count;
  d->type[0] = type_scalar(I64);
  return dataset_finish(e, d);
}
