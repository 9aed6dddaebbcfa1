#include "cli/history.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arith.h"

/* Creates every folder above the last component, for the user alone. */
static bool make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    int failed = mkdir(path, 0700) && errno != EEXIST;
    *slash = '/';
    if (failed) return false;
  }
  return true;
}

bool history_path(char *path, size_t size) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  int n = -1;
  if (state && state[0] == '/') /* the specification ignores relative ones */
    n = snprintf(path, size, "%s/ipulua/history", state);
  else if (home && home[0] == '/') n = snprintf(path, size, "%s/.local/state/ipulua/history", home);
  return n > 0 && (size_t)n < size && make_folders(path);
}

static void unescape(char *text) {
  char *to = text;
  for (const char *from = text; *from; from++) {
    if (*from != '\\' || !from[1]) {
      *to++ = *from;
    } else {
      from++;
      *to++ = *from == 'n' ? '\n' : *from;
    }
  }
  *to = '\0';
}

static void write_escaped(FILE *f, const char *text) {
  for (; *text; text++) {
    if (*text == '\n') fputs("\\n", f);
    else if (*text == '\\') fputs("\\\\", f);
    else putc(*text, f);
  }
  putc('\n', f);
}

/* The last entries of a file, in a ring. */
typedef struct Tail {
  char *lines[HISTORY_LIMIT];
  size_t count; /* lines seen in all */
} Tail;

static void read_tail(FILE *f, Tail *tail) {
  char *line = NULL;
  size_t capacity = 0;
  ssize_t n;
  while ((n = getline(&line, &capacity, f)) > 0) {
    if (line[n - 1] == '\n') line[n - 1] = '\0';
    char **slot = &tail->lines[tail->count++ % HISTORY_LIMIT];
    free(*slot);
    *slot = strdup(line);
  }
  free(line);
}

/* Entry i of the last ones, oldest first; NULL past the end. */
static char *tail_line(const Tail *tail, size_t i) {
  size_t kept = size_min(tail->count, HISTORY_LIMIT);
  return i < kept ? tail->lines[(tail->count - kept + i) % HISTORY_LIMIT] : NULL;
}

/* Replaces the file by its last entries (still in their written form). */
static void rewrite(const char *path, const Tail *tail) {
  char sibling[PATH_MAX];
  int n = snprintf(sibling, sizeof sibling, "%s.%ld", path, (long)getpid());
  if (n < 0 || (size_t)n >= sizeof sibling) return;
  int descriptor = open(sibling, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  FILE *f = descriptor < 0 ? NULL : fdopen(descriptor, "w");
  if (!f) {
    if (descriptor >= 0) close(descriptor);
    return;
  }
  for (size_t i = 0; tail_line(tail, i); i++) fprintf(f, "%s\n", tail_line(tail, i));
  bool failed = ferror(f);
  if ((fclose(f) || failed) || rename(sibling, path)) unlink(sibling);
}

void history_load(const char *path, void (*visit)(void *context, const char *entry),
                  void *context) {
  struct stat kind;
  /* a pipe there would make the prompt wait */
  if (stat(path, &kind) || !S_ISREG(kind.st_mode)) return;
  FILE *f = fopen(path, "re");
  if (!f) return;
  Tail *tail = calloc(1, sizeof *tail);
  if (tail) {
    read_tail(f, tail);
    if (tail->count > 2 * HISTORY_LIMIT) rewrite(path, tail);
    for (size_t i = 0; tail_line(tail, i); i++) {
      unescape(tail_line(tail, i));
      visit(context, tail_line(tail, i));
    }
    for (size_t i = 0; i < HISTORY_LIMIT; i++) free(tail->lines[i]);
  }
  free(tail);
  fclose(f);
}

void history_append(const char *path, const char *entry) {
  /* a pipe would wait for a reader */
  int descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
  struct stat kind;
  bool is_file = descriptor >= 0 && !fstat(descriptor, &kind) && S_ISREG(kind.st_mode);
  FILE *f = is_file ? fdopen(descriptor, "a+") : NULL;
  if (!f) {
    if (descriptor >= 0) close(descriptor);
    return;
  }
  bool is_ended = fseek(f, -1, SEEK_END) || getc(f) == '\n';
  fseek(f, 0, SEEK_END);        /* between reading and writing */
  if (!is_ended) putc('\n', f); /* the disk was full */
  write_escaped(f, entry);
  fclose(f);
}
