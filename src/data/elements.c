#include "data/elements.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

Status elements_reserve(Elements *l, Error *e) {
  if (!array_reserve(&l->tensor, &l->capacity, l->count + 1, (size_t)l->width * sizeof *l->tensor))
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  memset(elements_at(l, l->count), 0, (size_t)l->width * sizeof *l->tensor);
  return OK;
}

void elements_drop(Elements *l, int count) {
  if (count > l->count) count = l->count;
  for (int i = 0; i < count; i++) tensors_release(elements_at(l, i), l->width);
  size_t width = (size_t)l->width, left = (size_t)(l->count - count);
  if (count && left)
    memmove(l->tensor, l->tensor + (size_t)count * width, left * width * sizeof *l->tensor);
  l->count -= count;
}

void elements_clear(Elements *l) {
  elements_drop(l, l->count);
  free(l->tensor);
  l->tensor = NULL;
  l->capacity = 0;
}

Tensor *elements_stack(const Elements *l, const Dataset *d, int c, int n, int step, Error *e) {
  const Type *first = &elements_at(l, 0)[c]->type;
  Type type;
  if (type_stacked(e, d->class->name, d->source, n, first, &type) != OK) return NULL;
  Tensor *out = tensor_new_uninitialised(e, &type);
  size_t bytes = type_bytes(first);
  for (int i = 0; out && i < n; i++) {
    Tensor *t = elements_at(l, i * step)[c];
    if (!shape_equal(first, &t->type)) {
      char a[TYPE_TEXT], b[TYPE_TEXT];
      dataset_fail(
          d, e, ERR_VALUE,
          "elements of different shapes can't be stacked: component %d of element %d has shape %s, "
          "the first element's has %s",
          c, i, shape_text(&t->type, b), shape_text(first, a));
      tensor_release(out);
      return NULL;
    }
    tensor_copy_out(t, out->data + (size_t)i * bytes);
  }
  return out;
}

Status type_stacked(Error *e, const char *what, const char *source, int64_t extent,
                    const Type *type, Type *out) {
  if (type->rank >= MAX_RANK)
    return source_fail(what, source, e, ERR_VALUE,
                       "a component of rank %d would become one of rank %d; at most %d is possible",
                       type->rank, type->rank + 1, MAX_RANK),
           ERR_VALUE;
  out->dtype = type->dtype;
  out->rank = type->rank + 1;
  out->shape[0] = extent;
  for (int i = 0; i < type->rank; i++) out->shape[i + 1] = type->shape[i];
  return OK;
}
