/* The file: u64 length N, N bytes of JSON, then the data: C order, little-endian, packed without
 * gaps.
 *   {"__metadata__": {"k": "v"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0,
 *   24]}, ...} */
#include "tensor/safetensors.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
#include "tensor/raw.h"

enum {
  LENGTH_BYTES = 8,
  HEADER_LIMIT = 100000000,
  ENTRY_LIMIT = 65536,
  DEPTH_LIMIT = 8,
  ALIGNMENT = 64
};
/* More commas than the largest allowed header needs: a tensor with 8 extents has 11. */
enum { COMMA_LIMIT = ENTRY_LIMIT * 13 };
static const size_t file_limit = (size_t)1 << 47;

static const struct {
  const char *name;
  RawType raw;
} raw_types[] = {{"F32", {'f', 4, false}},  {"F64", {'f', 8, false}},  {"F16", {'f', 2, false}},
                 {"BF16", {'h', 2, false}}, {"BOOL", {'b', 1, false}}, {"I8", {'i', 1, false}},
                 {"I16", {'i', 2, false}},  {"I32", {'i', 4, false}},  {"I64", {'i', 8, false}},
                 {"U8", {'u', 1, false}},   {"U16", {'u', 2, false}},  {"U32", {'u', 4, false}},
                 {"U64", {'u', 8, false}}};

/* One tensor as the header declares it; begin and end count from the first byte of data. */
typedef struct Entry {
  const char *name;
  RawType raw;
  Type type;
  uint64_t begin, end;
} Entry;

typedef struct Reader {
  Error *error;
  const char *path;
  const char *data;                 /* after the header */
  uint64_t data_bytes, data_offset; /* the offset in the file */
  Entry *entry;
  int count;
} Reader;

static bool find_raw(const char *name, RawType *out) {
  for (size_t i = 0; i < sizeof raw_types / sizeof *raw_types; i++)
    if (strcmp(name, raw_types[i].name) == 0) return *out = raw_types[i].raw, true;
  return false;
}

/* The memory and stack that the JSON reader may need are bounded before it runs. */
static Status check_json(const Reader *r, const char *text, size_t bytes) {
  int depth = 0, commas = 0;
  bool in_string = false;
  for (size_t i = 0; i < bytes; i++) {
    char c = text[i];
    if (in_string) {
      if (c == '\\') i++;
      else if (c == '"') in_string = false;
    } else if (c == '"') in_string = true;
    else if (c == '{' || c == '[') depth++;
    else if (c == '}' || c == ']') depth--;
    else if (c == ',') commas++;
    if (depth > DEPTH_LIMIT || commas > COMMA_LIMIT)
      return fail(r->error, ERR_VALUE, "%s: header: %s at byte offset %zu", r->path,
                  depth > DEPTH_LIMIT ? "nested too deeply" : "too many entries", i + LENGTH_BYTES);
  }
  return OK;
}

static Status read_shape(const Reader *r, const json_t *shape, Entry *entry) {
  if (!json_is_array(shape))
    return fail(r->error, ERR_VALUE, "%s: '%s': shape must be a list", r->path, entry->name);
  size_t rank = json_array_size(shape);
  if (rank > MAX_RANK)
    return fail(r->error, ERR_VALUE, "%s: '%s': shape has %zu extents; at most %d are possible",
                r->path, entry->name, rank, MAX_RANK);
  entry->type.rank = (int)rank;
  for (size_t i = 0; i < rank; i++) {
    const json_t *extent = json_array_get(shape, i);
    if (!json_is_integer(extent) || json_integer_value(extent) < 0)
      return fail(r->error, ERR_VALUE, "%s: '%s': shape: extent %zu must be an integer from 0 on",
                  r->path, entry->name, i);
    entry->type.shape[i] = json_integer_value(extent);
  }
  return OK;
}

static Status read_offsets(const Reader *r, const json_t *offsets, Entry *entry) {
  const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !json_is_integer(begin) ||
      !json_is_integer(end) || json_integer_value(begin) < 0 ||
      json_integer_value(end) < json_integer_value(begin))
    return fail(r->error, ERR_VALUE,
                "%s: '%s': data_offsets must be [begin, end], integers with 0 <= begin <= end",
                r->path, entry->name);
  entry->begin = (uint64_t)json_integer_value(begin);
  entry->end = (uint64_t)json_integer_value(end);
  if (entry->end > r->data_bytes)
    return fail(r->error, ERR_VALUE,
                "%s: '%s': data_offsets end at byte offset %llu; the file has %llu bytes", r->path,
                entry->name, (unsigned long long)(entry->end + r->data_offset),
                (unsigned long long)(r->data_bytes + r->data_offset));
  return OK;
}

/* type as the file stores it, whose elements may be narrower than the tensor's */
static Status check_size(const Reader *r, const Entry *entry) {
  Error ignored = {.status = OK};
  size_t bytes = (size_t)entry->raw.bytes;
  char text[TYPE_TEXT];
  for (int i = 0; i < entry->type.rank; i++)
    if (!size_mul(bytes, (size_t)entry->type.shape[i], &bytes)) bytes = SIZE_MAX;
  if (type_check(&ignored, entry->name, &entry->type) != OK)
    return fail(r->error, ERR_VALUE, "%s: '%s': shape %s is too large", r->path, entry->name,
                shape_text(&entry->type, text));
  if (bytes != entry->end - entry->begin)
    return fail(r->error, ERR_VALUE,
                "%s: '%s': shape %s of %d-byte elements needs %zu bytes; data_offsets hold %llu",
                r->path, entry->name, shape_text(&entry->type, text), entry->raw.bytes, bytes,
                (unsigned long long)(entry->end - entry->begin));
  return OK;
}

static Status check_fields(const Reader *r, const char *name, json_t *fields) {
  const char *key;
  json_t *value;
  json_object_foreach(fields, key, value) {
    if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 && strcmp(key, "data_offsets") != 0)
      return fail(r->error, ERR_VALUE, "%s: '%s': unknown field '%s'", r->path, name, key);
  }
  return OK;
}

static Status read_entry(const Reader *r, const char *name, json_t *fields, Entry *entry) {
  *entry = (Entry){.name = name};
  if (!json_is_object(fields))
    return fail(r->error, ERR_VALUE, "%s: '%s' must be an object", r->path, name);
  Status s = check_fields(r, name, fields);
  if (s != OK) return s;
  const json_t *dtype = json_object_get(fields, "dtype");
  if (!json_is_string(dtype))
    return fail(r->error, ERR_VALUE, "%s: '%s': dtype must be a string", r->path, name);
  if (!find_raw(json_string_value(dtype), &entry->raw))
    return fail(
        r->error, ERR_VALUE,
        "%s: '%s': dtype '%s' is none of F32 F64 F16 BF16 BOOL I8 I16 I32 I64 U8 U16 U32 U64",
        r->path, name, json_string_value(dtype));
  raw_dtype(entry->raw, &entry->type.dtype);
  if ((s = read_shape(r, json_object_get(fields, "shape"), entry)) != OK) return s;
  if ((s = read_offsets(r, json_object_get(fields, "data_offsets"), entry)) != OK) return s;
  return check_size(r, entry);
}

static int by_place(const void *a, const void *b) {
  const Entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

/* Every byte of data belongs to one tensor. Entries end up in the order of their data. */
static Status check_places(Reader *r) {
  if (r->count) qsort(r->entry, (size_t)r->count, sizeof *r->entry, by_place);
  uint64_t reached = 0;
  for (int i = 0; i < r->count; i++) {
    const Entry *entry = &r->entry[i];
    if (entry->begin != reached)
      return fail(
          r->error, ERR_VALUE, "%s: '%s': data_offsets %s at byte offset %llu", r->path,
          entry->name,
          entry->begin < reached ? "overlap the tensor before it" : "leave a hole before it",
          (unsigned long long)(entry->begin + r->data_offset));
    reached = entry->end;
  }
  if (reached != r->data_bytes)
    return fail(r->error, ERR_VALUE, "%s: the tensors end at byte offset %llu, the file at %llu",
                r->path, (unsigned long long)(reached + r->data_offset),
                (unsigned long long)(r->data_bytes + r->data_offset));
  return OK;
}

static Status read_metadata(const Reader *r, json_t *metadata, NamedTensors *out) {
  const char *key;
  json_t *value;
  if (!json_is_object(metadata))
    return fail(r->error, ERR_VALUE, "%s: __metadata__ must be an object", r->path);
  if (json_object_size(metadata) > ENTRY_LIMIT)
    return fail(r->error, ERR_VALUE, "%s: __metadata__ has more than %d entries", r->path,
                ENTRY_LIMIT);
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value))
      return fail(r->error, ERR_VALUE, "%s: __metadata__: '%s' must be a string", r->path, key);
    Status s = named_add_metadata(r->error, out, key, json_string_value(value));
    if (s != OK) return s;
  }
  return OK;
}

static Status read_entries(Reader *r, json_t *header, NamedTensors *out) {
  const char *name;
  json_t *fields;
  Status s;
  if (json_object_size(header) > ENTRY_LIMIT + 1)
    return fail(r->error, ERR_VALUE, "%s: header: more than %d tensors", r->path, ENTRY_LIMIT);
  r->entry = calloc(json_object_size(header) + 1, sizeof *r->entry);
  if (!r->entry) return fail(r->error, ERR_OUT_OF_MEMORY, "out of memory");
  json_object_foreach(header, name, fields) {
    bool is_metadata = strcmp(name, "__metadata__") == 0;
    s = is_metadata ? read_metadata(r, fields, out)
                    : read_entry(r, name, fields, &r->entry[r->count]);
    if (s != OK) return s;
    if (!is_metadata) r->count++;
  }
  return check_places(r);
}

static Status read_tensor(const Reader *r, const Entry *entry, NamedTensors *out) {
  Tensor *t = tensor_new_uninitialised(r->error, &entry->type);
  if (!t) return ERR_OUT_OF_MEMORY;
  char what[400];
  snprintf(what, sizeof what, "%s: '%s'", r->path, entry->name);
  Status s = raw_read(r->error, what, entry->raw, r->data + entry->begin, t);
  if (s == OK) s = named_add(r->error, out, entry->name, t);
  tensor_release(t);
  return s;
}

static Status load_header(const Reader *r, const char *text, size_t bytes, json_t **header) {
  json_error_t problem;
  if (text[0] != '{')
    return fail(r->error, ERR_VALUE, "%s: header: must begin with '{' at byte offset %d", r->path,
                LENGTH_BYTES);
  Status s = check_json(r, text, bytes);
  if (s != OK) return s;
  *header = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &problem);
  if (!*header)
    return fail(r->error, ERR_VALUE, "%s: header: %s at byte offset %d", r->path, problem.text,
                LENGTH_BYTES + problem.position);
  return OK;
}

/* Reads the number of the header's bytes from the first bytes of a file. */
static Status read_length(const Reader *r, const char *file, size_t bytes, uint64_t *length) {
  *length = 0;
  if (bytes < LENGTH_BYTES)
    return fail(r->error, ERR_VALUE, "%s: header length: the file has %zu bytes, needs 8", r->path,
                bytes);
  for (int i = 0; i < LENGTH_BYTES; i++) *length |= (uint64_t)(unsigned char)file[i] << 8 * i;
  if (*length > HEADER_LIMIT || *length < 2)
    return fail(r->error, ERR_VALUE, "%s: header length at byte offset 0 is %llu, not from 2 to %d",
                r->path, (unsigned long long)*length, HEADER_LIMIT);
  return OK;
}

static Status parse(Reader *r, const char *file, size_t bytes, NamedTensors *out) {
  uint64_t length;
  Status s = read_length(r, file, bytes, &length);
  if (s != OK) return s;
  if (length > bytes - LENGTH_BYTES)
    return fail(r->error, ERR_VALUE,
                "%s: header length at byte offset 0 is %llu; the file has %zu bytes", r->path,
                (unsigned long long)length, bytes);
  r->data_offset = LENGTH_BYTES + length;
  r->data = file + r->data_offset;
  r->data_bytes = bytes - r->data_offset;
  json_t *header = NULL;
  s = load_header(r, file + LENGTH_BYTES, (size_t)length, &header);
  if (s == OK) s = read_entries(r, header, out);
  for (int i = 0; s == OK && i < r->count; i++) s = read_tensor(r, &r->entry[i], out);
  free(r->entry);
  json_decref(header);
  return s;
}

Status safetensors_parse(Error *e, const char *path, const void *data, size_t bytes,
                         NamedTensors *out) {
  Reader r = {.error = e, .path = path};
  named_init(out);
  Status s = parse(&r, data, bytes, out);
  if (s != OK) named_clear(out);
  return s;
}

/* The end of the last tensor, in bytes from the beginning of the data. A header that is wrong may
 * give anything: parse says what is wrong. */
static size_t data_end(json_t *header) {
  const char *name;
  json_t *fields;
  json_int_t end = 0;
  json_object_foreach(header, name, fields) {
    json_int_t own = json_integer_value(json_array_get(json_object_get(fields, "data_offsets"), 1));
    if (own > end) end = own;
  }
  return (size_t)end;
}

static Status safetensors_beginning(Error *e, const char *path, const void *start, size_t bytes,
                                    size_t *total) {
  const Reader r = {.error = e, .path = path};
  const char *file = start;
  uint64_t length;
  json_t *header = NULL;
  Status s = read_length(&r, file, bytes, &length);
  if (s != OK || length > bytes - LENGTH_BYTES) return s;
  s = load_header(&r, file + LENGTH_BYTES, (size_t)length, &header);
  if (s == OK) *total = LENGTH_BYTES + (size_t)length + data_end(header);
  json_decref(header);
  return s;
}

Status safetensors_read(Error *e, const char *path, NamedTensors *out) {
  void *data;
  size_t bytes;
  named_init(out);
  Status s = file_read_from(e, path, file_limit, false, safetensors_beginning, &data, &bytes);
  if (s != OK) return s;
  s = safetensors_parse(e, path, data, bytes, out);
  free(data);
  return s;
}

/* ---- writing ---- */

typedef struct Row { /* an entry of the header: a tensor or a line of metadata */
  const char *name, *value;
  Tensor *tensor;
} Row;

static int by_size_and_name(const void *a, const void *b) {
  const Row *x = a, *y = b;
  size_t m = x->tensor ? dtype_size(x->tensor->type.dtype) : 0,
         n = y->tensor ? dtype_size(y->tensor->type.dtype) : 0;
  return m != n ? (m > n ? -1 : 1) : strcmp(x->name, y->name);
}

static bool is_utf8(const char *text) {
  for (int n; *text; text += n)
    if (!(n = text_utf8_length(text))) return false;
  return true;
}

static Status check_name(Error *e, const char *path, Map *seen, const char *kind,
                         const char *name) {
  if (!is_utf8(name))
    return fail(e, ERR_VALUE, "%s: a %s isn't UTF-8 text: '%s'", path, kind, name);
  if (map_has(seen, name))
    return fail(e, ERR_VALUE, "%s: two of the %ss are '%s'", path, kind, name);
  if (!map_set(seen, name, NULL)) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  return OK;
}

static Status check_names(Error *e, const char *path, const Row *rows, int count,
                          const char *kind) {
  Map *seen = map_new();
  if (!seen) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  Status s = OK;
  for (int i = 0; i < count && s == OK; i++) {
    s = check_name(e, path, seen, kind, rows[i].name);
    if (s == OK && rows[i].tensor && strcmp(rows[i].name, "__metadata__") == 0)
      s = fail(e, ERR_VALUE, "%s: no tensor can be called '__metadata__'", path);
    if (s == OK && rows[i].value && !is_utf8(rows[i].value))
      s = fail(e, ERR_VALUE, "%s: the value of '%s' isn't UTF-8 text", path, rows[i].name);
  }
  map_free(seen);
  return s;
}

static void add_metadata(Text *text, const Row *rows, int count) {
  text_add(text, "\"__metadata__\":{");
  for (int i = 0; i < count; i++) {
    if (i) text_add(text, ",");
    text_add_json(text, rows[i].name);
    text_add(text, ":");
    text_add_json(text, rows[i].value);
  }
  text_add(text, "}");
}

static void add_entry(Text *text, const Row *row, size_t *offset) {
  const Type *type = &row->tensor->type;
  size_t end = *offset + type_bytes(type);
  text_add_json(text, row->name);
  text_print(text, ":{\"dtype\":\"%s\",\"shape\":[", dtype_info[type->dtype].safetensors);
  for (int i = 0; i < type->rank; i++)
    text_print(text, "%s%lld", i ? "," : "", (long long)type->shape[i]);
  text_print(text, "],\"data_offsets\":[%zu,%zu]}", *offset, end);
  *offset = end;
}

static void add_header(Text *text, const Row *tensors, int count, const Row *metadata,
                       int metadata_count) {
  size_t offset = 0;
  text_add(text, "{");
  if (metadata_count) add_metadata(text, metadata, metadata_count);
  for (int i = 0; i < count; i++) {
    if (i || metadata_count) text_add(text, ",");
    add_entry(text, &tensors[i], &offset);
  }
  text_add(text, "}");
  size_t over = (LENGTH_BYTES + text->used) % ALIGNMENT;
  if (over) text_fill(text, ' ', ALIGNMENT - over);
}

static Status write_file(Error *e, const char *path, const Text *header, const Row *rows,
                         int count) {
  unsigned char length[LENGTH_BYTES];
  for (int i = 0; i < LENGTH_BYTES; i++)
    length[i] = (unsigned char)((uint64_t)header->used >> 8 * i);
  FileWriter *w = file_begin(e, path);
  if (!w) return e ? e->status : ERR_RUNTIME;
  Status s = file_append(e, w, length, sizeof length);
  if (s == OK) s = file_append(e, w, header->data, header->used);
  for (int i = 0; i < count && s == OK; i++) s = raw_write(e, w, rows[i].tensor);
  if (s == OK) return file_commit(e, w);
  file_abort(w);
  return s;
}

static Status write_rows(Error *e, const char *path, Row *tensors, int count, Row *metadata,
                         int metadata_count) {
  Text header = {.data = NULL};
  Status s = check_names(e, path, tensors, count, "name");
  if (s == OK) s = check_names(e, path, metadata, metadata_count, "metadata key");
  if (s != OK) return s;
  if (count) qsort(tensors, (size_t)count, sizeof *tensors, by_size_and_name);
  if (metadata_count) qsort(metadata, (size_t)metadata_count, sizeof *metadata, by_size_and_name);
  add_header(&header, tensors, count, metadata, metadata_count);
  if (header.failed) s = fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  else if (header.used > HEADER_LIMIT || count > ENTRY_LIMIT || metadata_count > ENTRY_LIMIT)
    s = fail(e, ERR_VALUE, "%s: too many or too long names for a safetensors file", path);
  else s = write_file(e, path, &header, tensors, count);
  text_free(&header);
  return s;
}

Status safetensors_write(Error *e, const char *path, const NamedTensors *n) {
  Row *tensors = calloc((size_t)n->count + 1, sizeof *tensors);
  Row *metadata = calloc((size_t)n->metadata_count + 1, sizeof *metadata);
  Status s = tensors && metadata ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; s == OK && i < n->count; i++)
    tensors[i] = (Row){.name = n->name[i], .tensor = n->tensor[i]};
  for (int i = 0; s == OK && i < n->metadata_count; i++)
    metadata[i] = (Row){n->key[i], n->value[i], NULL};
  if (s == OK) s = write_rows(e, path, tensors, n->count, metadata, n->metadata_count);
  free(tensors);
  free(metadata);
  return s;
}
