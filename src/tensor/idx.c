/* The file begins with the bytes 0, 0, type and rank. rank extents follow as big-endian u32, then
 * the elements, big-endian. */
#include "tensor/idx.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/file.h"
#include "tensor/raw.h"

enum { MAGIC_BYTES = 4 };

typedef struct Header {
  RawType raw;
  Type type;
  size_t bytes, total; /* of the header; of header and data */
} Header;

static bool raw_of(unsigned char code, RawType *out) {
  static const struct {
    unsigned char code;
    RawType raw;
  } rows[] = {{0x08, {'u', 1, true}}, {0x09, {'i', 1, true}}, {0x0b, {'i', 2, true}},
              {0x0c, {'i', 4, true}}, {0x0d, {'f', 4, true}}, {0x0e, {'f', 8, true}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].code == code) return *out = rows[i].raw, true;
  return false;
}

static Status read_magic(Error *e, const char *path, const unsigned char *p, size_t bytes,
                         Header *h) {
  if (bytes < MAGIC_BYTES)
    return fail(e, ERR_VALUE, "%s: not an IDX file: magic number: it ends at byte offset %zu", path,
                bytes);
  if (p[0] || p[1])
    return fail(e, ERR_VALUE,
                "%s: not an IDX file: magic number at byte offset 0 is %02x %02x, should be 00 00",
                path, p[0], p[1]);
  if (!raw_of(p[2], &h->raw))
    return fail(e, ERR_VALUE,
                "%s: not an IDX file: type at byte offset 2 is 0x%02x, none of 08 09 0b 0c 0d 0e",
                path, p[2]);
  if (p[3] > MAX_RANK)
    return fail(e, ERR_VALUE, "%s: rank at byte offset 3 is %d; at most %d is possible", path, p[3],
                MAX_RANK);
  h->type.rank = p[3];
  h->bytes = MAGIC_BYTES + 4 * (size_t)p[3];
  raw_dtype(h->raw, &h->type.dtype);
  return OK;
}

static Status read_header(Error *e, const char *path, const unsigned char *p, size_t bytes,
                          Header *h) {
  *h = (Header){.bytes = 0};
  Status s = read_magic(e, path, p, bytes, h);
  if (s != OK) return s;
  if (bytes < h->bytes)
    return fail(e, ERR_VALUE,
                "%s: truncated: extents: %zu bytes expected, it ends at byte offset %zu", path,
                h->bytes, bytes);
  h->total = (size_t)h->raw.bytes;
  for (int i = 0; i < h->type.rank; i++) {
    const unsigned char *q = p + MAGIC_BYTES + 4 * i;
    uint32_t extent = (uint32_t)q[0] << 24 | (uint32_t)q[1] << 16 | (uint32_t)q[2] << 8 | q[3];
    h->type.shape[i] = extent;
    if (!size_mul(h->total, extent, &h->total))
      return fail(e, ERR_VALUE, "%s: extent %d at byte offset %d, %u, makes the data too large",
                  path, i, MAGIC_BYTES + 4 * i, extent);
  }
  if (!size_add(h->total, h->bytes, &h->total))
    return fail(e, ERR_VALUE, "%s: extents: the data are too large", path);
  return type_check(e, path, &h->type);
}

Status idx_parse(Error *e, const char *path, const void *data, size_t bytes, Tensor **out) {
  Header h;
  *out = NULL;
  Status s = read_header(e, path, data, bytes, &h);
  if (s != OK) return s;
  char text[TYPE_TEXT];
  if (bytes > h.total)
    return fail(e, ERR_VALUE, "%s: oversized: data: it goes on after byte offset %zu", path,
                h.total);
  if (bytes < h.total)
    return fail(
        e, ERR_VALUE,
        "%s: truncated: data: %s of %d-byte elements ends at byte offset %zu, the file at %zu",
        path, shape_text(&h.type, text), h.raw.bytes, h.total, bytes);
  Tensor *t = tensor_new_uninitialised(e, &h.type);
  if (!t) return ERR_OUT_OF_MEMORY;
  s = raw_read(e, path, h.raw, (const char *)data + h.bytes, t);
  if (s != OK) return tensor_release(t), s;
  return *out = t, OK;
}

/* A gzipped file can claim and hold anything: no more than the header declares is taken in. */
static Status idx_beginning(Error *e, const char *path, const void *start, size_t bytes,
                            size_t *total) {
  Header h;
  Status s = read_header(e, path, start, bytes, &h);
  if (s == OK) *total = h.total;
  return s;
}

Status idx_read(Error *e, const char *path, Tensor **out) {
  void *data;
  size_t bytes;
  *out = NULL;
  Status s = file_read_from(e, path, 0, true, idx_beginning, &data, &bytes);
  if (s != OK) return s;
  s = idx_parse(e, path, data, bytes, out);
  free(data);
  return s;
}
