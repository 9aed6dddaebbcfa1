#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/arith.h"
#include "base/rng.h"

enum { CHUNK = 1 << 18 };
static const size_t default_limit = (size_t)16 << 30;

static Status system_failed(Error *e, const char *path, const char *what, int number) {
  char buffer[128];
  const char *reason = strerror_r(number, buffer, sizeof buffer);
  Status s = number == ENOENT || number == ENOTDIR ? ERR_NOT_FOUND
             : number == ENOMEM                    ? ERR_OUT_OF_MEMORY
                                                   : ERR_RUNTIME;
  return fail(e, s, "%s: %s: %s", path, what, reason);
}

/* A file being read, through zlib when it is gzipped: its content is pulled in pieces of any
 * size. */
typedef struct Source {
  const char *path;
  int fd;
  bool packed, in_member, at_end; /* in_member: zlib awaits more of the current gzip member */
  z_stream z;
  uint64_t taken; /* bytes read from fd */
  unsigned char *chunk;
} Source;

static Status read_some(Error *e, Source *s, void *to, size_t capacity, size_t *got) {
  for (;;) {
    ssize_t n = read(s->fd, to, capacity < SSIZE_MAX / 2 ? capacity : SSIZE_MAX / 2);
    if (n >= 0) return s->taken += (uint64_t)n, *got = (size_t)n, OK;
    if (errno != EINTR) return system_failed(e, s->path, "cannot read", errno);
  }
}

static Status refill(Error *e, Source *s) {
  size_t got = 0;
  Status status = read_some(e, s, s->chunk, CHUNK, &got);
  if (status != OK) return status;
  s->z.next_in = s->chunk;
  s->z.avail_in = (uInt)got;
  return OK;
}

static Status damaged(Error *e, const Source *s, const char *what) {
  return fail(e, ERR_VALUE, "%s: gzip data: %s at byte offset %llu", s->path, what,
              (unsigned long long)(s->taken - s->z.avail_in));
}

/* A file may be several gzip members in a row. A member is followed by another one or by the
 * end. */
static Status next_member(Error *e, Source *s) {
  Status status;
  if (s->z.avail_in == 0 && (status = refill(e, s)) != OK) return status;
  if (s->z.avail_in == 0) return s->at_end = true, OK;
  if (inflateReset(&s->z) != Z_OK) return damaged(e, s, "cannot go on");
  return s->in_member = true, OK;
}

static Status inflate_some(Error *e, Source *s, void *to, size_t capacity, size_t *got) {
  uInt room = capacity < INT_MAX ? (uInt)capacity : INT_MAX;
  s->z.next_out = to;
  s->z.avail_out = room;
  while (s->z.avail_out == room && !s->at_end) {
    Status status;
    if (!s->in_member && (status = next_member(e, s)) != OK) return status;
    if (s->at_end) break;
    if (s->z.avail_in == 0 && (status = refill(e, s)) != OK) return status;
    if (s->z.avail_in == 0) return damaged(e, s, "the file ends too early");
    int code = inflate(&s->z, Z_NO_FLUSH);
    if (code == Z_STREAM_END) s->in_member = false;
    else if (code == Z_MEM_ERROR) return fail(e, ERR_OUT_OF_MEMORY, "%s: out of memory", s->path);
    else if (code != Z_OK && code != Z_BUF_ERROR)
      return damaged(e, s, s->z.msg ? s->z.msg : "damage");
  }
  return *got = room - s->z.avail_out, OK;
}

/* Fill to with up to capacity bytes of content; fewer only at the end of the file. */
static Status source_read(Error *e, Source *s, void *to, size_t capacity, size_t *bytes) {
  for (*bytes = 0; *bytes < capacity && !s->at_end;) {
    char *at = (char *)to + *bytes;
    size_t got = 0;
    Status status = s->packed ? inflate_some(e, s, at, capacity - *bytes, &got)
                              : read_some(e, s, at, capacity - *bytes, &got);
    if (status != OK) return status;
    if (got == 0) s->at_end = true;
    *bytes += got;
  }
  return OK;
}

/* Is it gzip? The first two bytes of a regular file decide. A pipe is read as it is. */
static Status source_open(Error *e, Source *s, const char *path, bool inflate_it,
                          struct stat *info) {
  *s = (Source){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
  if (s->fd < 0) return system_failed(e, path, "cannot open", errno);
  if (fstat(s->fd, info) != 0) return system_failed(e, path, "cannot open", errno);
  if (S_ISDIR(info->st_mode)) return fail(e, ERR_VALUE, "%s: is a folder, not a file", path);
  if (!inflate_it || !S_ISREG(info->st_mode)) return OK;
  unsigned char magic[2];
  if (pread(s->fd, magic, 2, 0) != 2 || magic[0] != 0x1f || magic[1] != 0x8b) return OK;
  s->chunk = malloc(CHUNK);
  if (!s->chunk || inflateInit2(&s->z, 15 + 16) != Z_OK)
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  s->packed = s->in_member = true;
  return OK;
}

static void source_close(Source *s) {
  if (s->packed) inflateEnd(&s->z);
  free(s->chunk);
  if (s->fd >= 0) close(s->fd);
}

/* How much is read of a source whose content is `expected` bytes by a first guess. */
typedef struct Amount {
  size_t expected, limit; /* bytes */
  bool known;             /* expected is the size, no guess */
  FileBeginning *beginning;
} Amount;

enum { FIRST_BYTES = 1 << 17 }; /* more than most headers need */

/* The next size of the memory for a content that is longer than capacity bytes. */
static size_t next_capacity(const Amount *a, size_t capacity) {
  if (capacity < a->expected) return size_min(a->expected, a->limit);
  return capacity > a->limit / 2 ? a->limit : capacity * 2;
}

/* Asks a->beginning until it has said how many bytes there are; once where the size is known. Of
 * any other source no more than one byte beyond is then read. */
static Status look_at_beginning(Error *e, const Source *s, Amount *a, const char *data,
                                size_t bytes) {
  size_t total = SIZE_MAX;
  if (!a->beginning) return OK;
  Status status = a->beginning(e, s->path, data, bytes, &total);
  if (total != SIZE_MAX || a->known) a->beginning = NULL;
  if (!a->known && total < a->limit) a->limit = total + 1;
  return status;
}

/* Grow *data as the content comes. One byte is kept for the final zero. */
static Status read_all(Error *e, Source *s, Amount *a, char **data, size_t *bytes) {
  const size_t most = a->limit;
  size_t capacity = size_min(a->beginning ? FIRST_BYTES : a->expected, most), got;
  for (*bytes = 0;; capacity = next_capacity(a, capacity)) {
    /* one byte beyond: to see that the file ends there */
    char *grown = realloc(*data, capacity + 2);
    if (!grown)
      return fail(e, ERR_OUT_OF_MEMORY, "%s: cannot allocate %zu bytes for it", s->path, capacity);
    *data = grown;
    Status status = source_read(e, s, *data + *bytes, capacity + 1 - *bytes, &got);
    if (status != OK) return status;
    *bytes += got;
    if (*bytes > most)
      return fail(e, ERR_OUT_OF_RANGE, "%s: holds more than %zu bytes", s->path, most);
    if ((status = look_at_beginning(e, s, a, *data, *bytes)) != OK) return status;
    if (s->at_end || *bytes <= capacity) break;
    if (*bytes >= a->limit) { /* it goes on after its own end, which is for the reader to say */
      *bytes = a->limit;
      break;
    }
  }
  (*data)[*bytes] = 0;
  return OK;
}

Status file_no_zero_first(Error *e, const char *path, const void *start, size_t bytes,
                          size_t *total) {
  const char *text = start;
  if (bytes > 0 && !text[0])
    return fail(e, ERR_VALUE,
                "%s: a zero byte at byte offset 0, with which no file of this kind "
                "begins",
                path);
  (void)total; /* its end is the file's */
  return OK;
}

Status file_read_from(Error *e, const char *path, size_t limit, bool inflate_it,
                      FileBeginning *beginning, void **data, size_t *bytes) {
  Source s;
  struct stat info;
  char *content = NULL;
  if (limit == 0 || limit > SIZE_MAX / 4) limit = default_limit;
  Status status = source_open(e, &s, path, inflate_it, &info);
  if (status == OK && S_ISREG(info.st_mode) && !s.packed && (uint64_t)info.st_size > limit)
    status = fail(e, ERR_OUT_OF_RANGE, "%s: holds %lld bytes, more than %zu", path,
                  (long long)info.st_size, limit);
  if (status == OK) {
    size_t size = S_ISREG(info.st_mode) ? (size_t)info.st_size : 0;
    size_t expected = s.packed ? size * 4 : size; /* a usual ratio; the rest is growth */
    Amount a = {size_max(expected, 4096), limit, size > 0 && !s.packed, beginning};
    status = read_all(e, &s, &a, &content, bytes);
  }
  source_close(&s);
  if (status != OK) return free(content), status;
  return *data = content, OK;
}

Status file_read(Error *e, const char *path, size_t limit, bool inflate_it, void **data,
                 size_t *bytes) {
  return file_read_from(e, path, limit, inflate_it, NULL, data, bytes);
}

bool file_exists(const char *path) { return access(path, F_OK) == 0; }

/* temporary is NULL when path is a device or pipe, which can be written to but not replaced. */
struct FileWriter {
  int fd;
  char *path, *temporary;
};

/* A sibling's name that no other process picks; O_EXCL catches the one case in 2^64. It begins with
 * the file's own name if both fit in the bytes that the file system allows. */
static char *sibling(const char *path) {
  enum { ENDING = 21 }; /* .0123456789abcdef.tmp */
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  int folder = (int)(name - path), kept = (int)strlen(name);
  if (kept + ENDING > NAME_MAX) kept = 0;
  size_t size = (size_t)(folder + kept + ENDING + 1);
  char *made = malloc(size);
  if (made)
    snprintf(made, size, "%.*s%.*s.%016llx.tmp", folder, path, kept, name,
             (unsigned long long)rng_system_seed());
  return made;
}

/* The path that the symbolic link at path holds. NULL: path is no link, or memory is short. */
static char *read_link(const char *path) {
  char target[PATH_MAX];
  ssize_t n = readlink(path, target, sizeof target);
  if (n < 0 || (size_t)n == sizeof target) return NULL;
  const char *slash = strrchr(path, '/');
  size_t folder = slash && target[0] != '/' ? (size_t)(slash + 1 - path) : 0;
  char *made = malloc(folder + (size_t)n + 1);
  if (!made) return NULL;
  memcpy(made, path, folder);
  memcpy(made + folder, target, (size_t)n);
  made[folder + (size_t)n] = 0;
  return made;
}

/* Where a file that there is not yet is to be, through symbolic links without a target. */
static char *place_of_new(const char *path) {
  enum { LINK_LIMIT = 40 };
  char *place = strdup(path), *next;
  for (int i = 0; place && i < LINK_LIMIT && (next = read_link(place)); i++) {
    free(place);
    place = next;
  }
  return place;
}

static Status open_target(Error *e, FileWriter *w, const char *path) {
  struct stat info;
  bool exists = stat(path, &info) == 0, replaced = exists && S_ISREG(info.st_mode);
  /* Through a symbolic link: the file is replaced, not the link. A pipe has no such path. */
  w->path = replaced ? realpath(path, NULL) : exists ? strdup(path) : place_of_new(path);
  if (!w->path) return system_failed(e, path, "cannot write", errno);
  if (exists && S_ISDIR(info.st_mode))
    return fail(e, ERR_VALUE, "%s: is a folder, not a file", path);
  if (exists && !replaced) {
    w->fd = open(path, O_WRONLY | O_CLOEXEC);
    return w->fd < 0 ? system_failed(e, path, "cannot write", errno) : OK;
  }
  w->temporary = sibling(w->path);
  if (!w->temporary) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (w->fd < 0) {
    int number = errno;
    free(w->temporary), w->temporary = NULL; /* there is nothing to remove */
    return system_failed(e, path, "cannot write", number);
  }
  if (exists && fchmod(w->fd, info.st_mode & 07777) != 0) { /* no right to: the usual mode stays */
  }
  return OK;
}

FileWriter *file_begin(Error *e, const char *path) {
  FileWriter *w = calloc(1, sizeof *w);
  if (!w) return fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  w->fd = -1;
  if (open_target(e, w, path) == OK) return w;
  file_abort(w);
  return NULL;
}

Status file_append(Error *e, FileWriter *w, const void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    size_t left = bytes - done;
    ssize_t n =
        write(w->fd, (const char *)data + done, left < SSIZE_MAX / 2 ? left : SSIZE_MAX / 2);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_failed(e, w->path, "cannot write", errno);
    done += (size_t)n;
  }
  return OK;
}

/* The rename is durable once its folder is. A file system that can't sync a folder is no
 * failure. */
static void sync_folder(const char *path) {
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  size_t length = slash ? (size_t)(slash - path) : 0;
  if (length >= sizeof folder) return;
  memcpy(folder, path, length);
  folder[length] = 0;
  int fd = open(slash ? (length ? folder : "/") : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

Status file_commit(Error *e, FileWriter *w) {
  Status status = OK;
  if (w->temporary && fsync(w->fd) != 0) status = system_failed(e, w->path, "cannot write", errno);
  if (close(w->fd) != 0 && status == OK) status = system_failed(e, w->path, "cannot write", errno);
  w->fd = -1;
  if (status == OK && w->temporary) {
    if (rename(w->temporary, w->path) != 0)
      status = system_failed(e, w->path, "cannot replace", errno);
    else sync_folder(w->path), free(w->temporary), w->temporary = NULL;
  }
  file_abort(w);
  return status;
}

void file_abort(FileWriter *w) {
  if (!w) return;
  if (w->fd >= 0) close(w->fd);
  if (w->temporary) unlink(w->temporary);
  free(w->temporary);
  free(w->path);
  free(w);
}

Status file_write(Error *e, const char *path, const void *data, size_t bytes) {
  FileWriter *w = file_begin(e, path);
  if (!w) return e ? e->status : ERR_RUNTIME;
  Status status = file_append(e, w, data, bytes);
  if (status != OK) return file_abort(w), status;
  return file_commit(e, w);
}
