/* Tensors and the files that hold them. */
#include <stdlib.h>
#include <string.h>

#include "api/context.h"
#include "tensor/formats.h"
#include "tensor/print.h"

int ipu_tensor_new(ipu_context *c, const char *dtype, int rank, const int64_t *shape,
                   const void *data, ipu_tensor **out) {
  if (out) *out = NULL;
  if (!context_given(c, "ipu_tensor_new", (Given[]){{"out", out}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  Error *e = context_begin(c);
  Type type;
  if (context_read_type(e, "ipu_tensor_new", dtype, rank, shape, &type) != OK)
    return context_end(c);
  *out = handle_of(data ? tensor_from(e, &type, data) : tensor_new(e, &type));
  return context_end(c);
}

ipu_tensor *ipu_tensor_retain(ipu_tensor *t) {
  return t ? handle_of(tensor_retain(tensor_of(t))) : NULL;
}
void ipu_tensor_free(ipu_tensor *t) { tensor_release(tensor_of(t)); }
const char *ipu_tensor_dtype(const ipu_tensor *t) {
  return t ? dtype_name(tensor_of(t)->type.dtype) : "";
}
int ipu_tensor_rank(const ipu_tensor *t) { return t ? tensor_of(t)->type.rank : 0; }
int64_t ipu_tensor_count(const ipu_tensor *t) { return t ? type_count(&tensor_of(t)->type) : 0; }
size_t ipu_tensor_bytes(const ipu_tensor *t) { return t ? type_bytes(&tensor_of(t)->type) : 0; }
const void *ipu_tensor_data(const ipu_tensor *t) { return t ? tensor_of(t)->data : NULL; }

int64_t ipu_tensor_extent(const ipu_tensor *t, int axis) {
  return t && axis >= 0 && axis < tensor_of(t)->type.rank ? tensor_of(t)->type.shape[axis] : -1;
}

int ipu_tensor_write(ipu_context *c, ipu_tensor *t, const void *data, size_t bytes) {
  if (!context_given(c, "ipu_tensor_write", (Given[]){{"t", t}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  context_begin(c);
  if (bytes != ipu_tensor_bytes(t))
    return context_fail(c, ERR_VALUE, "ipu_tensor_write: the tensor has %zu bytes, got %zu",
                        ipu_tensor_bytes(t), bytes);
  if (bytes && !data)
    return context_fail(c, ERR_INVALID_ARGUMENT, "ipu_tensor_write: the data is NULL");
  if (bytes) memcpy(tensor_of(t)->data, data, bytes);
  return IPU_OK;
}

int ipu_tensor_text(ipu_context *c, const ipu_tensor *t, const char **text) {
  if (text) *text = "";
  if (!context_given(c, "ipu_tensor_text", (Given[]){{"t", t}, {0}})) return IPU_E_INVALID_ARGUMENT;
  Error *e = context_begin(c);
  return context_text(c, tensor_text(e, tensor_of(t), &print_defaults), text);
}

/* ---- files ---- */

struct ipu_archive {
  NamedTensors tensors;
};

static const TensorFormat *format_of(Error *e, const char *path) {
  char text[FORMAT_ENDINGS_TEXT];
  const TensorFormat *format = tensor_format(path);
  if (!format) fail(e, ERR_VALUE, "'%s' must end in %s", path, tensor_format_endings(text));
  return format;
}

int ipu_save(ipu_context *c, const char *path, const char *const *names, ipu_tensor *const *tensors,
             int count) {
  if (!context_given(c, "ipu_save", (Given[]){{"path", path}, {0}})) return IPU_E_INVALID_ARGUMENT;
  Error *e = context_begin(c);
  if (context_check_list(e, "ipu_save: tensors", tensors, count) != OK) return context_end(c);
  const TensorFormat *format = tensor_format(path);
  if (format && format->one && count != 1)
    return context_fail(c, ERR_VALUE, "ipu_save: a %s holds one tensor, got %d", format->ending,
                        count);
  NamedTensors n;
  named_init(&n);
  bool named = !format || !format->one;
  if (named) context_check_list(e, "ipu_save: names", names, count);
  for (int i = 0; i < count && e->status == OK; i++)
    named_add(e, &n, named ? names[i] : "", tensor_of(tensors[i]));
  if (e->status == OK && (format = format_of(e, path))) format->write(e, path, &n);
  named_clear(&n);
  return context_end(c);
}

int ipu_archive_open(ipu_context *c, const char *path, ipu_archive **out) {
  if (out) *out = NULL;
  if (!context_given(c, "ipu_archive_open", (Given[]){{"path", path}, {"out", out}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  Error *e = context_begin(c);
  ipu_archive *a = calloc(1, sizeof *a);
  if (!a) return context_fail(c, ERR_OUT_OF_MEMORY, "out of memory");
  const TensorFormat *format = format_of(e, path);
  if (format) format->read(e, path, &a->tensors);
  if (e->status == OK) *out = a;
  else ipu_archive_free(a);
  return context_end(c);
}

void ipu_archive_free(ipu_archive *a) {
  if (a) named_clear(&a->tensors);
  free(a);
}

int ipu_archive_count(const ipu_archive *a) { return a ? a->tensors.count : 0; }

const char *ipu_archive_name(const ipu_archive *a, int index) {
  return a && index >= 0 && index < a->tensors.count ? a->tensors.name[index] : NULL;
}

int ipu_archive_tensor(ipu_context *c, const ipu_archive *a, const char *name, ipu_tensor **out) {
  if (out) *out = NULL;
  if (!context_given(c, "ipu_archive_tensor",
                     (Given[]){{"a", a}, {"name", name}, {"out", out}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  Error *e = context_begin(c);
  Tensor *t = named_find(&a->tensors, name);
  if (!t) return context_fail(c, ERR_NOT_FOUND, "the file has no tensor '%.100s'", name);
  *out = handle_of(tensor_own(e, tensor_retain(t)));
  return context_end(c);
}
