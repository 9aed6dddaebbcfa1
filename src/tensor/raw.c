#include "tensor/raw.h"

#include <stdlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files hold what memory holds");

bool raw_dtype(RawType r, Dtype *out) {
  static const struct {
    char kind;
    int bytes;
    Dtype dtype;
  } rows[] = {{'f', 2, F16}, {'f', 4, F32}, {'f', 8, F64}, {'h', 2, BF16}, {'i', 1, I8},
              {'i', 2, I32}, {'i', 4, I32}, {'i', 8, I64}, {'u', 1, U8},   {'u', 2, I32},
              {'u', 4, I64}, {'u', 8, I64}, {'b', 1, BOOL}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].kind == r.kind && rows[i].bytes == r.bytes) return *out = rows[i].dtype, true;
  return false;
}

static uint64_t load(RawType r, const unsigned char *p) {
  uint64_t x = 0;
  for (int i = 0; i < r.bytes; i++) x |= (uint64_t)p[r.big_endian ? r.bytes - 1 - i : i] << 8 * i;
  return x;
}

static void store(size_t bytes, void *to, uint64_t x) {
  switch (bytes) {
    case 1:
      *(uint8_t *)to = (uint8_t)x;
      break;
    case 2:
      *(uint16_t *)to = (uint16_t)x;
      break;
    case 4:
      *(uint32_t *)to = (uint32_t)x;
      break;
    default:
      *(uint64_t *)to = x;
  }
}

Status raw_read(Error *e, const char *what, RawType r, const void *data, Tensor *t) {
  int64_t count = type_count(&t->type);
  const unsigned char *p = data;
  size_t size = dtype_size(t->type.dtype);
  if (count == 0) return OK;
  bool as_is = (size_t)r.bytes == size && (r.bytes == 1 || !r.big_endian);
  /* these two have values to look at */
  if (as_is && r.kind != 'b' && !(r.kind == 'u' && size == 8))
    return memcpy(t->data, data, (size_t)count * size), OK;
  for (int64_t i = 0; i < count; i++, p += r.bytes) {
    uint64_t x = load(r, p);
    if (r.kind == 'b') x = x != 0;
    if (r.kind == 'u' && x > INT64_MAX)
      return fail(e, ERR_VALUE, "%s: element %lld, %llu, is too large for int64", what,
                  (long long)i, (unsigned long long)x);
    bool negative = r.kind == 'i' && x >> (8 * r.bytes - 1);
    if (negative && r.bytes < 8) x |= ~UINT64_C(0) << 8 * r.bytes;
    store(size, t->data + (size_t)i * size, x);
  }
  return OK;
}

Status raw_write(Error *e, FileWriter *w, const Tensor *t) {
  size_t bytes = type_bytes(&t->type);
  if (tensor_is_dense(t)) return file_append(e, w, t->data, bytes);
  void *packed = malloc(bytes);
  if (!packed) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  tensor_copy_out(t, packed);
  Status s = file_append(e, w, packed, bytes);
  free(packed);
  return s;
}
