#include "tensor/formats.h"

#include <stdio.h>
#include <string.h>

#include "tensor/npy.h"
#include "tensor/safetensors.h"

static Status read_npy(Error *e, const char *path, NamedTensors *out) {
  Tensor *t = NULL;
  if (npy_read(e, path, &t) == OK) named_add(e, out, "", t);
  tensor_release(t);
  return e->status;
}

static Status write_npy(Error *e, const char *path, const NamedTensors *tensors) {
  return npy_write(e, path, tensors->tensor[0]);
}

static const TensorFormat formats[] = {
    {".safetensors", safetensors_read, safetensors_write, .metadata = true},
    {".npz", npz_read, npz_write, .one = false},
    {".npy", read_npy, write_npy, .one = true},
};
enum { COUNT = sizeof formats / sizeof *formats };

const TensorFormat *tensor_format_at(int index) {
  return index >= 0 && index < COUNT ? &formats[index] : NULL;
}

const TensorFormat *tensor_format(const char *path) {
  size_t n = strlen(path);
  for (int i = 0; i < COUNT; i++) {
    size_t m = strlen(formats[i].ending);
    if (n >= m && !strcmp(path + n - m, formats[i].ending)) return &formats[i];
  }
  return NULL;
}

const char *tensor_format_endings(char *text) {
  size_t at = 0;
  for (int i = 0; i < COUNT && at < FORMAT_ENDINGS_TEXT; i++) {
    const char *before = i == 0 ? "" : i == COUNT - 1 ? " or " : ", ";
    at += (size_t)snprintf(text + at, FORMAT_ENDINGS_TEXT - at, "%s%s", before, formats[i].ending);
  }
  return text;
}
