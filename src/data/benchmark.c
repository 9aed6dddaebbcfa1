#include "data/benchmark.h"

#include <stdlib.h>

#include "base/clock.h"

/* One buffer a component, as large as the largest seen. */
typedef struct Target {
  char *data;
  size_t bytes;
} Target;

static Status copy_to(Target *target, const Tensor *t, Error *e) {
  size_t bytes = type_bytes(&t->type);
  if (bytes > target->bytes) {
    free(target->data);
    target->bytes = 0;
    if (!(target->data = malloc(bytes))) return fail(e, ERR_OUT_OF_MEMORY, "no memory to copy %zu bytes to", bytes);
    target->bytes = bytes;
  }
  tensor_copy_out(t, target->data);
  return OK;
}

static Status take_element(Iterator *it, Tensor **t, Target *target, bool copy, BenchmarkEpoch *out, Error *e) {
  int count = dataset_component_count(iterator_dataset(it));
  bool end;
  Status s = iterator_next(it, t, &end, e);
  if (s != OK) return s;
  if (end)
    return fail(e, ERR_OUT_OF_RANGE, "end of data: the dataset ended after %lld elements",
                (long long)iterator_position(it));
  for (int c = 0; c < count; c++) {
    size_t bytes = type_bytes(&t[c]->type);
    char text[TYPE_TEXT];
    if (!bytes && s == OK)
      s = fail(e, ERR_INVALID_ARGUMENT, "component %d of an element has a dimension of size 0: its shape is %s", c,
               shape_text(&t[c]->type, text));
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
    return fail(e, ERR_VALUE, "the number of elements must be at least 1, got %lld", (long long)elements);
  Tensor **t = calloc(count, sizeof *t);
  Target *target = calloc(count, sizeof *target);
  Status s = t && target ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  double begin = clock_seconds();
  for (int64_t i = 0; i < elements && s == OK; i++) s = take_element(it, t, target, copy, out, e);
  out->seconds = clock_seconds() - begin;
  for (size_t c = 0; target && c < count; c++) free(target[c].data);
  free(target);
  free(t);
  return s;
}
