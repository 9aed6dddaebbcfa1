/* padded_batch: elements of different shapes, filled up to one shape. */
#include <stdlib.h>
#include <string.h>

#include "data/elements.h"

typedef struct PaddedDataset {
  Dataset base;
  int64_t size;
  bool drop_remainder;
  Type *shape;    /* [components] -1: the longest of the batch */
  Tensor **value; /* [components] NULL: zero */
} PaddedDataset;

typedef struct PaddedStage {
  Stage base;
  Elements list;
  int64_t owed; /* elements of a batch that failed */
} PaddedStage;

static Status padded_open(Stage *s, Error *e) {
  ((PaddedStage *)s)->list.width = s->dataset->count;
  return stage_open_input(s, e);
}

static void padded_close(Stage *s) { elements_clear(&((PaddedStage *)s)->list); }

/* The shape that component c of all elements is filled up to. */
static Status common_shape(const PaddedDataset *d, const Elements *l, int c, Type *out, Error *e) {
  *out = d->shape[c];
  for (int a = 0; a < out->rank; a++) {
    if (out->shape[a] < 0)
      for (int i = 0; i < l->count; i++) {
        int64_t extent = elements_at(l, i)[c]->type.shape[a];
        if (extent > out->shape[a]) out->shape[a] = extent;
      }
    for (int i = 0; i < l->count; i++) {
      const Type *t = &elements_at(l, i)[c]->type;
      char got[TYPE_TEXT], want[TYPE_TEXT];
      if (t->shape[a] > out->shape[a])
        return dataset_fail(&d->base, e, ERR_VALUE,
                            "component %d of an element has shape %s, larger than %s", c,
                            shape_text(t, got), shape_text(out, want));
    }
  }
  return OK;
}

static void fill(char *out, size_t bytes, const char *value, size_t size) {
  bool zero = !value;
  if (zero) memset(out, 0, bytes);
  else
    for (size_t i = 0; i < bytes; i += size) memcpy(out + i, value, size);
}

/* src, [from], into the corner of dst, [to]. */
static void copy_corner(char *dst, const Type *to, const char *src, const Type *from, int axis) {
  size_t size = dtype_size(to->dtype), src_step = size, dst_step = size;
  for (int a = axis + 1; a < to->rank; a++)
    src_step *= (size_t)from->shape[a], dst_step *= (size_t)to->shape[a];
  if (axis >= to->rank - 1) {
    memcpy(dst, src, to->rank ? size * (size_t)from->shape[axis] : size);
    return;
  }
  for (int64_t i = 0; i < from->shape[axis]; i++)
    copy_corner(dst + (size_t)i * dst_step, to, src + (size_t)i * src_step, from, axis + 1);
}

static Tensor *pad_component(const PaddedDataset *d, const Elements *l, int c, Error *e) {
  Type each, type;
  if (common_shape(d, l, c, &each, e) != OK) return NULL;
  if (type_stacked(e, "padded_batch", d->base.source, l->count, &each, &type) != OK) return NULL;
  Tensor *out = tensor_new_uninitialised(e, &type);
  if (!out) return NULL;
  size_t bytes = type_bytes(&each);
  fill(out->data, type_bytes(&type), d->value[c] ? d->value[c]->data : NULL,
       dtype_size(each.dtype));
  for (int i = 0; i < l->count; i++) {
    Tensor *packed = tensor_dense(e, elements_at(l, i)[c]);
    if (!packed) return tensor_release(out), NULL;
    if (type_count(&packed->type))
      copy_corner(out->data + (size_t)i * bytes, &each, packed->data, &packed->type, 0);
    tensor_release(packed);
  }
  return out;
}

static Status padded_next(Stage *s, Tensor **out, bool *end, Error *e) {
  const PaddedDataset *d = (const PaddedDataset *)s->dataset;
  Elements *l = &((PaddedStage *)s)->list;
  int64_t *owed = &((PaddedStage *)s)->owed;
  Status status = stage_pass_owed(s->input, owed, e);
  if (status != OK) return status;
  while (l->count < d->size) {
    status = elements_reserve(l, e);
    if (status == OK) status = stage_check_cancelled(s, e);
    if (status == OK) status = stage_next(s->input, elements_at(l, l->count), end, e);
    if (status != OK || *end) break;
    l->count++;
  }
  if (status == ERR_CANCELLED) return status;
  if (status != OK) {
    *owed = d->size - l->count - 1;
    return elements_drop(l, l->count), status;
  }
  *end = !l->count || (l->count < d->size && d->drop_remainder);
  for (int c = 0; c < l->width && !*end; c++)
    if (!(out[c] = pad_component(d, l, c, e))) {
      tensors_release(out, c);
      status = e->status;
      break;
    }
  elements_drop(l, l->count);
  return status;
}

static void padded_free(Dataset *d) {
  PaddedDataset *p = (PaddedDataset *)d;
  if (p->value) tensors_release(p->value, d->count);
  free(p->value);
  free(p->shape);
}

static const StageClass padded_class = {.name = "padded_batch",
                                        .dataset_bytes = sizeof(PaddedDataset),
                                        .stage_bytes = sizeof(PaddedStage),
                                        .free = padded_free,
                                        .open = padded_open,
                                        .close = padded_close,
                                        .next = padded_next};

static Status set_shape(Error *e, const char *source, const Dataset *in, int c, const Type *wanted,
                        Type *shape) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  *shape = in->type[c];
  if (!wanted) return OK;
  bool fits = wanted->rank == shape->rank;
  for (int i = 0; fits && i < wanted->rank; i++)
    fits = wanted->shape[i] < 0 || shape->shape[i] < 0 || wanted->shape[i] >= shape->shape[i];
  if (!fits)
    return source_fail("padded_batch", source, e, ERR_VALUE,
                       "component %d is %s; it can't be filled up to %s", c,
                       type_text(&in->type[c], a), shape_text(wanted, b)),
           ERR_VALUE;
  for (int i = 0; i < wanted->rank; i++)
    shape->shape[i] = wanted->shape[i] < 0 ? -1 : wanted->shape[i];
  /* "As long as the longest" of components of one length is that length. */
  for (int i = 0; i < wanted->rank; i++)
    if (shape->shape[i] < 0) shape->shape[i] = in->type[c].shape[i];
  return OK;
}

static Status set_value(Error *e, const char *source, const Dataset *in, int c, Tensor *wanted,
                        Tensor **value) {
  char text[TYPE_TEXT];
  *value = NULL;
  if (!wanted) return OK;
  if (type_count(&wanted->type) != 1 || wanted->type.dtype != in->type[c].dtype)
    return source_fail("padded_batch", source, e, ERR_TYPE,
                       "the padding value of component %d must be one %s, got %s", c,
                       dtype_name(in->type[c].dtype), type_text(&wanted->type, text)),
           ERR_TYPE;
  *value = tensor_retain(wanted);
  return OK;
}

Dataset *dataset_padded_batch(Error *e, const char *source, Dataset *in, int64_t size,
                              const Type *const *shapes, Tensor *const *values,
                              bool drop_remainder) {
  if (size < 1)
    return source_fail("padded_batch", source, e, ERR_VALUE,
                       "the batch size must be at least 1, got %lld", (long long)size);
  for (int c = 0; c < in->count; c++)
    if (in->nested[c])
      return source_fail(
          "padded_batch", source, e, ERR_TYPE,
          "component %d is itself a dataset (see window): flatten it with flat_map first", c);
  PaddedDataset *d = (PaddedDataset *)dataset_new(e, source, &padded_class, 1, &in, in->count);
  if (!d) return NULL;
  d->size = size < INT32_MAX / 4 ? size : INT32_MAX / 4;
  d->drop_remainder = drop_remainder;
  d->base.batch = drop_remainder ? 0 : size;
  d->shape = calloc((size_t)in->count, sizeof *d->shape);
  d->value = calloc((size_t)in->count, sizeof *d->value);
  Status s = d->shape && d->value ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int c = 0; c < in->count && s == OK; c++) {
    s = set_shape(e, source, in, c, shapes ? shapes[c] : NULL, &d->shape[c]);
    if (s == OK) s = set_value(e, source, in, c, values ? values[c] : NULL, &d->value[c]);
    if (s == OK)
      s = type_stacked(e, "padded_batch", source, drop_remainder ? size : -1, &d->shape[c],
                       &d->base.type[c]);
  }
  if (s != OK) return dataset_release(&d->base), NULL;
  int64_t n = in->cardinality;
  d->base.cardinality = n < 0 ? n : n / size + (!drop_remainder && n % size != 0);
  return dataset_finish(e, &d->base);
}
