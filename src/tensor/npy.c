/* A file is the byte 0x93, "NUMPY", a version and a header length. A Python literal follows, padded
 * to 64 bytes, then the elements. The literal:
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } */
#include "tensor/npy.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "tensor/raw.h"

enum { MAGIC_BYTES = 8, ALIGNMENT = 64, HEADER_LIMIT = 1 << 16 };
static const char magic[] = "\x93NUMPY";
static const size_t file_limit = (size_t)1 << 47;

/* A cursor in the literal that is being read. It stops at the first failure. */
typedef struct Literal {
  Error *error;
  const char *path, *text;
  size_t at, bytes, offset; /* offset of text in the file */
  Status status;
} Literal;

typedef struct Header {
  char descr[16];
  bool has_descr, has_order, has_shape, fortran;
  RawType raw;
  Type type;
  size_t offset, needed; /* bytes: of the elements in the file; of all elements */
} Header;

static void wrong(Literal *l, const char *what) {
  if (l->status == OK)
    l->status = fail(l->error, ERR_VALUE, "%s: header: %s at byte offset %zu", l->path, what,
                     l->offset + l->at);
}

static char peek(Literal *l) {
  while (l->at < l->bytes && strchr(" \t\n", l->text[l->at]) && l->text[l->at]) l->at++;
  return l->at < l->bytes ? l->text[l->at] : 0;
}

static bool take(Literal *l, char c) {
  if (l->status != OK || peek(l) != c) return false;
  return l->at++, true;
}

static void expect(Literal *l, char c, const char *what) {
  if (!take(l, c)) wrong(l, what);
}

/* Reads a string in single or double quotes, without escapes. More than capacity - 1 characters are
 * a failure. */
static void take_string(Literal *l, char *out, size_t capacity) {
  char quote = peek(l);
  size_t n = 0;
  out[0] = 0;
  if (quote != '\'' && quote != '"') {
    wrong(l, "a quoted text expected");
    return;
  }
  for (l->at++; l->at < l->bytes && l->text[l->at] != quote; l->at++) {
    char c = l->text[l->at];
    if (c < ' ' || c == '\\' || n + 1 >= capacity) {
      wrong(l, "unexpected text");
      return;
    }
    out[n++] = c;
  }
  out[n] = 0;
  expect(l, quote, "a closing quote expected");
}

static bool take_word(Literal *l, const char *word) {
  size_t n = strlen(word);
  peek(l);
  if (l->status != OK || l->bytes - l->at < n || memcmp(l->text + l->at, word, n) != 0)
    return false;
  return l->at += n, true;
}

static int64_t take_extent(Literal *l) {
  int64_t x = 0;
  if (peek(l) < '0' || peek(l) > '9') wrong(l, "an extent, an integer from 0 on, expected");
  for (; l->status == OK && l->at < l->bytes && l->text[l->at] >= '0' && l->text[l->at] <= '9';
       l->at++)
    if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, l->text[l->at] - '0', &x))
      wrong(l, "shape: an extent is too large");
  /* written by Python 2 */
  if (l->status == OK && l->at < l->bytes && l->text[l->at] == 'L') l->at++;
  return x;
}

static void take_shape(Literal *l, Type *type) {
  expect(l, '(', "shape: a tuple expected");
  while (l->status == OK && peek(l) != ')') {
    if (type->rank == MAX_RANK) wrong(l, "shape: more than 8 extents");
    else type->shape[type->rank++] = take_extent(l);
    if (!take(l, ',') && (type->rank == 1 || peek(l) != ')'))
      wrong(l, "shape: ',' or ')' expected");
  }
  expect(l, ')', "shape: ')' expected");
}

static void take_field(Literal *l, Header *h) {
  char key[16];
  take_string(l, key, sizeof key);
  expect(l, ':', "':' expected");
  bool *seen = strcmp(key, "descr") == 0           ? &h->has_descr
               : strcmp(key, "fortran_order") == 0 ? &h->has_order
               : strcmp(key, "shape") == 0         ? &h->has_shape
                                                   : NULL;
  if (!seen || *seen) {
    wrong(l, seen ? "a field comes twice" : "an unknown field");
    return;
  }
  *seen = true;
  if (seen == &h->has_descr) {
    if (peek(l) == '[') wrong(l, "descr: structured elements can't be a tensor");
    else take_string(l, h->descr, sizeof h->descr);
  } else if (seen == &h->has_shape) take_shape(l, &h->type);
  else if (take_word(l, "True")) h->fortran = true;
  else if (!take_word(l, "False")) wrong(l, "fortran_order: True or False expected");
}

static Status read_literal(Literal *l, Header *h) {
  expect(l, '{', "'{' expected");
  while (l->status == OK && peek(l) != '}') {
    take_field(l, h);
    if (!take(l, ',') && peek(l) != '}') wrong(l, "',' or '}' expected");
  }
  expect(l, '}', "'}' expected");
  if (l->status == OK && (peek(l) || l->at < l->bytes)) wrong(l, "unexpected text after '}'");
  if (l->status == OK && !(h->has_descr && h->has_order && h->has_shape))
    wrong(l, "descr, fortran_order and shape must all be there");
  return l->status;
}

/* "<f4": byte order, kind, size in bytes. */
static bool raw_of(const char *descr, RawType *out) {
  Dtype ignored;
  if (!descr[0] || !strchr("<>|=", descr[0]) || !descr[1] || !strchr("fiub", descr[1]))
    return false;
  if (descr[2] < '1' || descr[2] > '9' || descr[3]) return false;
  *out = (RawType){descr[1], descr[2] - '0', descr[0] == '>'};
  return raw_dtype(*out, &ignored) && (descr[0] != '|' || out->bytes == 1);
}

/* Sets *data_offset to the offset of the elements, and l->text to the literal. */
static Status find_header(Literal *l, const char *file, size_t bytes, size_t *data_offset) {
  const unsigned char *p = (const unsigned char *)file;
  if (bytes < MAGIC_BYTES + 2 || memcmp(file, magic, sizeof magic - 1) != 0)
    return fail(l->error, ERR_VALUE, "%s: not an npy file: magic text at byte offset 0", l->path);
  int version = p[6];
  if (version < 1 || version > 3)
    return fail(l->error, ERR_VALUE, "%s: version at byte offset 6 is %d, should be 1, 2 or 3",
                l->path, version);
  size_t width = version == 1 ? 2 : 4, length = 0;
  l->offset = MAGIC_BYTES + width;
  if (bytes < l->offset)
    return fail(l->error, ERR_VALUE, "%s: truncated: header length at byte offset 8", l->path);
  for (size_t i = 0; i < width; i++) length |= (size_t)p[MAGIC_BYTES + i] << 8 * i;
  if (length > HEADER_LIMIT)
    return fail(l->error, ERR_VALUE, "%s: header length at byte offset 8 is %zu; the limit is %d",
                l->path, length, HEADER_LIMIT);
  if (length > bytes - l->offset)
    return fail(l->error, ERR_VALUE,
                "%s: header length at byte offset 8 is %zu; the file has %zu bytes", l->path,
                length, bytes);
  l->text = file + l->offset;
  l->bytes = length;
  *data_offset = l->offset + length;
  return OK;
}

/* Makes a dense tensor of t, the elements in Fortran order: the transpose of C order. */
static Tensor *from_fortran(Error *e, Tensor *t, const Type *type) {
  int64_t stride[MAX_RANK];
  for (int i = 0; i < type->rank; i++) stride[i] = t->stride[type->rank - 1 - i];
  Tensor *view = tensor_view(e, t, type, stride, 0), *dense = view ? tensor_dense(e, view) : NULL;
  tensor_release(view);
  return dense;
}

static Status read_elements(Error *e, const char *path, const Header *h, RawType raw,
                            const void *data, Tensor **out) {
  Type stored = h->type;
  if (h->fortran)
    for (int i = 0; i < stored.rank; i++) stored.shape[i] = h->type.shape[stored.rank - 1 - i];
  Tensor *t = tensor_new_uninitialised(e, &stored);
  if (!t) return ERR_OUT_OF_MEMORY;
  Status s = raw_read(e, path, raw, data, t);
  if (s != OK) return tensor_release(t), s;
  if (!h->fortran || stored.rank < 2) return *out = t, OK;
  *out = from_fortran(e, t, &h->type);
  tensor_release(t);
  return *out ? OK : ERR_OUT_OF_MEMORY;
}

/* Reads the header of a file whose first bytes are data. The elements are needed bytes from
 * offset. */
static Status read_header(Error *e, const char *path, const void *data, size_t bytes, Header *h) {
  Literal l = {.error = e, .path = path};
  *h = (Header){.has_descr = false};
  Status s = find_header(&l, data, bytes, &h->offset);
  if (s == OK) s = read_literal(&l, h);
  if (s != OK) return s;
  if (!raw_of(h->descr, &h->raw))
    return fail(e, ERR_VALUE, "%s: header: descr: elements of type '%s' can't be a tensor", path,
                h->descr);
  raw_dtype(h->raw, &h->type.dtype);
  if ((s = type_check(e, path, &h->type)) != OK) return s;
  h->needed = (size_t)type_count(&h->type) * (size_t)h->raw.bytes;
  return OK;
}

Status npy_parse(Error *e, const char *path, const void *data, size_t bytes, Tensor **out) {
  Header h;
  char text[TYPE_TEXT];
  *out = NULL;
  Status s = read_header(e, path, data, bytes, &h);
  if (s != OK) return s;
  if (h.needed != bytes - h.offset)
    return fail(e, ERR_VALUE, "%s: %s: data: %s of '%s' ends at byte offset %zu, the file at %zu",
                path, h.needed > bytes - h.offset ? "truncated" : "oversized",
                shape_text(&h.type, text), h.descr, h.offset + h.needed, bytes);
  return read_elements(e, path, &h, h.raw, (const char *)data + h.offset, out);
}

static Status npy_beginning(Error *e, const char *path, const void *start, size_t bytes,
                            size_t *total) {
  Header h;
  Status s = read_header(e, path, start, bytes, &h);
  if (s == OK && !size_add(h.offset, h.needed, total)) *total = SIZE_MAX - 1;
  return s;
}

Status npy_read(Error *e, const char *path, Tensor **out) {
  void *data;
  size_t bytes;
  *out = NULL;
  Status s = file_read_from(e, path, file_limit, false, npy_beginning, &data, &bytes);
  if (s != OK) return s;
  s = npy_parse(e, path, data, bytes, out);
  free(data);
  return s;
}

Status npy_header(Error *e, const char *path, const Type *type, Text *text) {
  if (!dtype_info[type->dtype].numpy)
    return fail(e, ERR_TYPE,
                "%s: npy files can't hold %s; cast it to float32 or save it as .safetensors", path,
                dtype_name(type->dtype));
  text_add_bytes(text, "\x93NUMPY\1\0\0\0", MAGIC_BYTES + 2);
  text_print(text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
             dtype_info[type->dtype].numpy);
  for (int i = 0; i < type->rank; i++)
    text_print(text, "%s%lld", i ? ", " : "", (long long)type->shape[i]);
  text_add(text, type->rank == 1 ? ",), }" : "), }");
  text_fill(text, ' ', ALIGNMENT - 1 - text->used % ALIGNMENT);
  text_add(text, "\n");
  if (text->failed) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  size_t length = text->used - MAGIC_BYTES - 2; /* rank 8 needs some 250 bytes */
  text->data[MAGIC_BYTES] = (char)(length & 255);
  text->data[MAGIC_BYTES + 1] = (char)(length >> 8);
  return OK;
}

Status npy_write(Error *e, const char *path, const Tensor *t) {
  Text header = {.data = NULL};
  Status s = npy_header(e, path, &t->type, &header);
  FileWriter *w = s == OK ? file_begin(e, path) : NULL;
  if (s == OK && !w) s = e ? e->status : ERR_RUNTIME;
  if (s == OK) s = file_append(e, w, header.data, header.used);
  if (s == OK) s = raw_write(e, w, t);
  if (s == OK) s = file_commit(e, w);
  else file_abort(w);
  text_free(&header);
  return s;
}
