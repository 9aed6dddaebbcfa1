/* A zip archive whose members are npy files, read and written by libzip. Declared sizes are not
 * trusted. */
#include <stdio.h>
#include <stdlib.h>
#include <zip.h>

#include "base/file.h"
#include "base/library.h"
#include "base/map.h"
#include "base/text.h"
#include "tensor/npy.h"

/* Opened when the first archive is read or written. The build asks the linker's libzip for the
 * name of its file. */
/* clang-format off */
#define LIBZIP(X) \
  X(zip_close) X(zip_discard) X(zip_error_fini) X(zip_error_init) X(zip_error_init_with_code) \
  X(zip_error_strerror) X(zip_fclose) X(zip_file_add) X(zip_file_set_dostime) \
  X(zip_file_strerror) X(zip_fopen_index) X(zip_fread) X(zip_get_name) X(zip_get_num_entries) \
  X(zip_open) X(zip_open_from_source) X(zip_set_file_compression) X(zip_source_buffer) \
  X(zip_source_buffer_create) X(zip_source_close) X(zip_source_free) X(zip_source_keep) \
  X(zip_source_open) X(zip_source_read) X(zip_stat_index) X(zip_strerror)
/* clang-format on */
static struct {
  LIBZIP(LIBRARY_MEMBER)
} libzip;
#define SYMBOL(function) LIBRARY_SYMBOL(libzip, function)
static const LibrarySymbol symbols[] = {LIBZIP(SYMBOL){NULL, NULL}};
static Library library = {.file = LIBZIP_FILE, .package = LIBZIP_PACKAGE, .symbols = symbols};

static Status open_libzip(Error *e, const char *path) {
  char wanting[400];
  snprintf(wanting, sizeof wanting, "%.380s: npz files", path);
  return library_open(e, &library, wanting);
}

const char *npz_library(void) {
  return library_open(NULL, &library, "") == OK ? LIBZIP_FILE
                                                : "none; " LIBZIP_PACKAGE " brings it";
}

enum {
  MEMBER_LIMIT = 65536,
  FIRST_CHUNK = 1 << 16,
  DEFLATE_RATIO = 1032,
  NAME_LIMIT = 65535 - 4 /* ".npy" */
};
/* beyond this sum, members may inflate to 100 times their stored size at most */
static const uint64_t trusted_bytes = (uint64_t)4 << 30;

typedef struct Reader {
  Error *error;
  const char *path;
  zip_t *zip;
  uint64_t stored, declared; /* sums over the members read so far */
} Reader;

static bool is_bomb(uint64_t declared, uint64_t stored) {
  return declared > trusted_bytes && declared / 100 > stored;
}

static Status check_member(Reader *r, const char *name, const zip_stat_t *stat) {
  zip_uint64_t needed =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((stat->valid & needed) != needed)
    return fail(r->error, ERR_VALUE, "%s: member '%s': its size or method is unknown", r->path,
                name);
  if (stat->encryption_method != ZIP_EM_NONE)
    return fail(r->error, ERR_VALUE, "%s: member '%s' is encrypted", r->path, name);
  if (stat->comp_method != ZIP_CM_STORE && stat->comp_method != ZIP_CM_DEFLATE)
    return fail(r->error, ERR_VALUE,
                "%s: member '%s': compression method %d is neither stored nor deflate", r->path,
                name, stat->comp_method);
  r->stored += stat->comp_size;
  r->declared += stat->size;
  if (is_bomb(stat->size, stat->comp_size) || is_bomb(r->declared, r->stored) ||
      stat->size / DEFLATE_RATIO > stat->comp_size + 64)
    return fail(r->error, ERR_VALUE,
                "%s: member '%s': size %llu is implausible for %llu stored bytes", r->path, name,
                (unsigned long long)stat->size, (unsigned long long)stat->comp_size);
  return OK;
}

static Status member_failed(Reader *r, const char *name, const char *reason) {
  return fail(r->error, ERR_VALUE, "%s: member '%s': %s", r->path, name, reason);
}

/* Memory grows with the bytes that arrive, up to the declared size. */
static Status inflate_member(Reader *r, const char *name, zip_file_t *file, uint64_t size,
                             char **data) {
  size_t used = 0, capacity = 0;
  for (;;) {
    if (used == capacity) {
      capacity = capacity ? capacity * 2 : FIRST_CHUNK;
      if (capacity > size + 1) capacity = (size_t)size + 1; /* one more: nothing may follow */
      char *grown = realloc(*data, capacity);
      if (!grown)
        return fail(r->error, ERR_OUT_OF_MEMORY, "%s: member '%s': out of memory", r->path, name);
      *data = grown;
    }
    zip_int64_t got = libzip.zip_fread(file, *data + used, capacity - used);
    /* damage; a wrong checksum too */
    if (got < 0) return member_failed(r, name, libzip.zip_file_strerror(file));
    used += (size_t)got;
    if (used > size) return member_failed(r, name, "it is longer than the archive says");
    if (got == 0) break;
  }
  return used == size ? OK : member_failed(r, name, "it is shorter than the archive says");
}

static Status read_member(Reader *r, zip_uint64_t index, const char *name, Tensor **out) {
  zip_stat_t stat;
  char *data = NULL, where[400];
  if (libzip.zip_stat_index(r->zip, index, 0, &stat) != 0)
    return member_failed(r, name, libzip.zip_strerror(r->zip));
  Status s = check_member(r, name, &stat);
  if (s != OK) return s;
  zip_file_t *file = libzip.zip_fopen_index(r->zip, index, 0);
  if (!file) return member_failed(r, name, libzip.zip_strerror(r->zip));
  snprintf(where, sizeof where, "%s: member '%s'", r->path, name);
  s = inflate_member(r, name, file, stat.size, &data);
  if (s == OK) s = npy_parse(r->error, where, data, (size_t)stat.size, out);
  libzip.zip_fclose(file);
  free(data);
  return s;
}

static Status add_member(Reader *r, zip_uint64_t index, Map *seen, NamedTensors *out) {
  const char *member = libzip.zip_get_name(r->zip, index, ZIP_FL_ENC_GUESS);
  if (!member)
    return fail(r->error, ERR_VALUE, "%s: member %llu has no name", r->path,
                (unsigned long long)index);
  size_t length = strlen(member);
  if (length < 4 || strcmp(member + length - 4, ".npy") != 0)
    return fail(r->error, ERR_VALUE, "%s: member '%s' is no .npy file", r->path, member);
  if (map_has(seen, member))
    return fail(r->error, ERR_VALUE, "%s: two members are called '%s'", r->path, member);
  Tensor *t;
  Status s = read_member(r, index, member, &t);
  if (s != OK) return s;
  char *name = strndup(member, length - 4);
  s = name && map_set(seen, member, NULL) ? named_add(r->error, out, name, t)
                                          : fail(r->error, ERR_OUT_OF_MEMORY, "out of memory");
  free(name);
  tensor_release(t);
  return s;
}

static Status read_members(Reader *r, NamedTensors *out) {
  zip_int64_t count = libzip.zip_get_num_entries(r->zip, 0);
  if (count > MEMBER_LIMIT)
    return fail(r->error, ERR_VALUE, "%s: more than %d members", r->path, MEMBER_LIMIT);
  Map *seen = map_new();
  Status s = seen ? OK : fail(r->error, ERR_OUT_OF_MEMORY, "out of memory");
  for (zip_int64_t i = 0; i < count && s == OK; i++) s = add_member(r, (zip_uint64_t)i, seen, out);
  map_free(seen);
  return s;
}

static Status zip_failed(Error *e, const char *path, const char *what, int code) {
  zip_error_t reason;
  libzip.zip_error_init_with_code(&reason, code);
  Status s = fail(e,
                  code == ZIP_ER_NOENT    ? ERR_NOT_FOUND
                  : code == ZIP_ER_MEMORY ? ERR_OUT_OF_MEMORY
                                          : ERR_VALUE,
                  "%s: %s: %s", path, what, libzip.zip_error_strerror(&reason));
  libzip.zip_error_fini(&reason);
  return s;
}

Status npz_read(Error *e, const char *path, NamedTensors *out) {
  int code;
  named_init(out);
  if (open_libzip(e, path) != OK) return ERR_FAILED_PRECONDITION;
  Reader r = {.error = e, .path = path, .zip = libzip.zip_open(path, ZIP_RDONLY, &code)};
  if (!r.zip) return zip_failed(e, path, "cannot read as an npz file", code);
  Status s = read_members(&r, out);
  libzip.zip_discard(r.zip);
  if (s != OK) named_clear(out);
  return s;
}

/* ---- writing: the archive is made in memory, then put in place in one step ---- */

typedef struct Member {
  const char *name;
  Tensor *tensor;
  char *data; /* the member's bytes, which the archive reads from when it is closed */
} Member;

static int by_name(const void *a, const void *b) {
  const Member *x = a, *y = b;
  return strcmp(x->name, y->name);
}

static Status out_of_memory(Error *e) { return fail(e, ERR_OUT_OF_MEMORY, "out of memory"); }

/* The bytes stay the member's. libzip doesn't say whether a source that could not be made has freed
 * its buffer. */
static zip_source_t *member_source(Error *e, const char *where, zip_t *zip, Member *m) {
  Text header = {.data = NULL};
  Tensor *t = m->tensor;
  if (npy_header(e, where, &t->type, &header) != OK) return text_free(&header), NULL;
  size_t bytes = header.used + type_bytes(&t->type);
  m->data = malloc(bytes);
  if (m->data) {
    memcpy(m->data, header.data, header.used);
    tensor_copy_out(t, m->data + header.used);
  }
  text_free(&header);
  zip_source_t *source = m->data ? libzip.zip_source_buffer(zip, m->data, bytes, 0) : NULL;
  if (!source) out_of_memory(e);
  return source;
}

static Status write_member(Error *e, const char *path, zip_t *zip, Member *m) {
  size_t size = strlen(m->name) + 5;
  char *name = malloc(size);
  if (!name) return out_of_memory(e);
  snprintf(name, size, "%s.npy", m->name);
  char where[400];
  snprintf(where, sizeof where, "%s: member '%s'", path, name);
  zip_source_t *source = member_source(e, where, zip, m);
  zip_int64_t index = source ? libzip.zip_file_add(zip, name, source, ZIP_FL_ENC_UTF_8) : -1;
  free(name);
  if (!source) return e ? e->status : ERR_OUT_OF_MEMORY;
  if (index < 0) {
    libzip.zip_source_free(source);
    return fail(e, ERR_VALUE, "%s: cannot add '%s': %s", path, m->name, libzip.zip_strerror(zip));
  }
  if (libzip.zip_set_file_compression(zip, (zip_uint64_t)index, ZIP_CM_STORE, 0) != 0 ||
      libzip.zip_file_set_dostime(zip, (zip_uint64_t)index, 0, 1 << 5 | 1, 0) !=
          0) /* 1 January 1980 */
    return fail(e, ERR_RUNTIME, "%s: cannot add '%s': %s", path, m->name, libzip.zip_strerror(zip));
  return OK;
}

static Status copy_archive(Error *e, const char *path, zip_source_t *archive) {
  enum { CHUNK = 1 << 16 };
  char *chunk = malloc(CHUNK);
  FileWriter *w = chunk ? file_begin(e, path) : NULL;
  Status s = w ? OK : chunk ? (e ? e->status : ERR_RUNTIME) : out_of_memory(e);
  if (s == OK && libzip.zip_source_open(archive) != 0)
    s = fail(e, ERR_RUNTIME, "%s: cannot make the archive", path);
  else if (s == OK) {
    zip_int64_t got;
    while ((got = libzip.zip_source_read(archive, chunk, CHUNK)) > 0 && s == OK)
      s = file_append(e, w, chunk, (size_t)got);
    if (got < 0) s = fail(e, ERR_RUNTIME, "%s: cannot make the archive", path);
    libzip.zip_source_close(archive);
  }
  if (s == OK) s = file_commit(e, w);
  else file_abort(w);
  free(chunk);
  return s;
}

static Status write_archive(Error *e, const char *path, Member *members, int count) {
  zip_error_t reason;
  libzip.zip_error_init(&reason);
  zip_source_t *archive = libzip.zip_source_buffer_create(NULL, 0, 0, &reason);
  if (!archive) return out_of_memory(e);
  libzip.zip_source_keep(archive); /* the bytes outlive zip_close */
  zip_t *zip = libzip.zip_open_from_source(archive, ZIP_TRUNCATE, &reason);
  if (!zip) {
    libzip.zip_source_free(archive);
    libzip.zip_source_free(archive);
    return fail(e, ERR_RUNTIME, "%s: cannot make the archive: %s", path,
                libzip.zip_error_strerror(&reason));
  }
  Status s = OK;
  for (int i = 0; i < count && s == OK; i++) s = write_member(e, path, zip, &members[i]);
  if (s == OK && libzip.zip_close(zip) != 0)
    s = fail(e, ERR_RUNTIME, "%s: cannot make the archive: %s", path, libzip.zip_strerror(zip)),
    libzip.zip_discard(zip);
  else if (s != OK) libzip.zip_discard(zip);
  else s = copy_archive(e, path, archive);
  libzip.zip_source_free(archive);
  return s;
}

/* An archive without members is no file for libzip: this is its end record. */
static Status write_empty(Error *e, const char *path) {
  static const char end[22] = "PK\5\6";
  return file_write(e, path, end, sizeof end);
}

/* Each name once, of a length that a zip can hold, which has 16 bits for it; sorts the members. */
static Status check_names(Error *e, const char *path, Member *members, int count) {
  qsort(members, (size_t)count, sizeof *members, by_name);
  for (int i = 0; i < count; i++)
    if (strlen(members[i].name) > NAME_LIMIT)
      return fail(e, ERR_VALUE,
                  "%s: a tensor's name of %zu bytes is too long for an npz file: '%.60s…'", path,
                  strlen(members[i].name), members[i].name);
  for (int i = 1; i < count; i++)
    if (strcmp(members[i - 1].name, members[i].name) == 0)
      return fail(e, ERR_VALUE, "%s: two tensors are called '%s'", path, members[i].name);
  return OK;
}

Status npz_write(Error *e, const char *path, const NamedTensors *n) {
  if (n->metadata_count) return fail(e, ERR_VALUE, "%s: npz files can't hold metadata", path);
  if (n->count == 0) return write_empty(e, path);
  Member *members = calloc((size_t)n->count, sizeof *members);
  if (!members) return out_of_memory(e);
  for (int i = 0; i < n->count; i++) members[i] = (Member){n->name[i], n->tensor[i], NULL};
  Status s = check_names(e, path, members, n->count);
  if (s == OK) s = open_libzip(e, path);
  for (int i = 0; i < n->count; i++) members[i] = (Member){n->name[i], n->tensor[i], NULL};
  if (s == OK) s = write_archive(e, path, members, n->count);
  for (int i = 0; i < n->count; i++) free(members[i].data);
  free(members);
  return s;
}
