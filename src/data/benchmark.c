#include "data/benchmark.h"

#include <stdlib.h>

#include "base/clock.h"

/* A buffer for each component, which grows to the largest element so far. */
typedef struct Target {
  char *data;
  size_t bytes;
} Target;

static Status copy_to(Target *target, const Tensor *t, Error *e) {
  size_t bytes = type_bytes(&t->type);
  if (bytes > target->bytes) {
    free(target->data);
    target->bytes = 0;
    if (!(target->data = malloc(bytes)))
      return fail(e, ERR_OUT_OF_MEMORY, "no memory to copy %zu bytes to", bytes);
    target->bytes = bytes;
  }
  tensor_copy_out(t, target->data);
  return OK;
}

static Status empty_component(int c, const Type *type, Error *e) {
  char text[TYPE_TEXT];
  return fail(e, ERR_INVALID_ARGUMENT,
              "component %d of an element has a dimension of size 0: its shape is %s", c,
              shape_text(type, text));
}

static Status early_end(const Iterator *it, Error *e) {
  return fail(e, ERR_OUT_OF_RANGE,
              "end of data: the dataset ended after %lld element%s; repeat_n() makes it endless",
              (long long)iterator_position(it), plural(iterator_position(it)));
}

/* Elements of known shape go straight to their rows. */
static Status feed_elements(Iterator *it, int64_t elements, void **into, Target *target,
                            BenchmarkEpoch *out, Error *e) {
  const Dataset *d = iterator_dataset(it);
  int64_t element_bytes = 0;
  for (int c = 0; c < dataset_component_count(d); c++) {
    size_t bytes = type_bytes(dataset_component(d, c));
    if (!bytes) return empty_component(c, dataset_component(d, c), e);
    if (!(into[c] = target[c].data = malloc(bytes)))
      return fail(e, ERR_OUT_OF_MEMORY, "no memory for an element of %zu bytes", bytes);
    element_bytes += (int64_t)bytes;
  }
  double begin = clock_seconds();
  bool end = false;
  Status s = OK;
  for (int64_t i = 0; i < elements && s == OK; i++) {
    s = iterator_next_into(it, into, &end, e);
    if (s == OK && end) s = early_end(it, e);
    if (s == OK) out->elements++, out->bytes += element_bytes;
  }
  out->seconds = clock_seconds() - begin;
  return s;
}

static Status take_element(Iterator *it, Tensor **t, Target *target, bool copy, BenchmarkEpoch *out,
                           Error *e) {
  int count = dataset_component_count(iterator_dataset(it));
  bool end;
  Status s = iterator_next(it, t, &end, e);
  if (s != OK) return s;
  if (end) return early_end(it, e);
  for (int c = 0; c < count; c++) {
    size_t bytes = type_bytes(&t[c]->type);
    if (!bytes && s == OK) s = empty_component(c, &t[c]->type, e);
    if (copy && s == OK) s = copy_to(&target[c], t[c], e);
    out->bytes += (int64_t)bytes;
    tensor_release(t[c]);
  }
  if (s == OK) out->elements++;
  return s;
}

Status benchmark_epoch(Iterator *it, int64_t elements, bool copy, BenchmarkEpoch *out, Error *e) {
  size_t count = (size_t)dataset_component_count(iterator_dataset(it));
  *out = (BenchmarkEpoch){.elements = 0};
  if (elements < 1)
    return fail(e, ERR_VALUE, "the number of elements must be at least 1, got %lld",
                (long long)elements);
  Tensor **t = calloc(count, sizeof *t);
  Target *target = calloc(count, sizeof *target);
  Status s = t && target ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  if (s == OK && copy && dataset_is_static(iterator_dataset(it))) {
    void **into = calloc(count, sizeof *into);
    s = into ? feed_elements(it, elements, into, target, out, e)
             : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    free(into);
  } else {
    double begin = clock_seconds();
    for (int64_t i = 0; i < elements && s == OK; i++) s = take_element(it, t, target, copy, out, e);
    out->seconds = clock_seconds() - begin;
  }
  for (size_t c = 0; target && c < count; c++) free(target[c].data);
  free(target);
  free(t);
  return s;
}
