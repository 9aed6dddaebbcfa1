/* Checks of base/ where a mistake changes nothing else. They try names that are near, memory that
 * an arena hands out again, memory that the machine has left, and files whose closing fails. The
 * Makefile has the linker send fopen, fsync, close and rename here. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/rng.h"
#include "scratch.h"

static int checks, failures;

static void check_at(bool ok, int line, const char *what) {
  checks++;
  if (ok) return;
  if (failures++ < 40) fprintf(stderr, "base_check.c:%d: %s\n", line, what);
}
#define CHECK(condition) check_at((condition), __LINE__, #condition)

/* ---- calls of the system that are answered here ---- */

static const char *meminfo, *limit, *older_limit; /* contents of files; NULL: there is none */
static bool answers_memory;
static int fsyncs_left = -1, closes_left = -1, renames_left = -1; /* -1: none fails */

FILE *__real_fopen(const char *, const char *);
int __real_fsync(int);
int __real_close(int);
int __real_rename(const char *, const char *);
FILE *__wrap_fopen(const char *, const char *);
int __wrap_fsync(int);
int __wrap_close(int);
int __wrap_rename(const char *, const char *);

static FILE *open_text(const char *text) {
  return text ? fmemopen((void *)(uintptr_t)text, strlen(text), "r") : NULL;
}

FILE *__wrap_fopen(const char *path, const char *mode) {
  if (!answers_memory) return __real_fopen(path, mode);
  if (!strcmp(path, "/proc/meminfo")) return open_text(meminfo);
  if (!strcmp(path, "/sys/fs/cgroup/memory.max")) return open_text(limit);
  return open_text(older_limit);
}

static bool fails(int *left) {
  if (*left < 0 || --*left >= 0) return false;
  errno = ENOSPC;
  return true;
}

int __wrap_fsync(int fd) { return fails(&fsyncs_left) ? -1 : __real_fsync(fd); }
/* The descriptor is gone, as on Linux, whatever close returns. */
int __wrap_close(int fd) { return __real_close(fd) || fails(&closes_left) ? -1 : 0; }
int __wrap_rename(const char *from, const char *to) {
  return fails(&renames_left) ? -1 : __real_rename(from, to);
}

/* ---- near names ---- */

/* The definition, without a table. */
static int edits(const char *a, const char *b) {
  if (!*a || !*b) return (int)(strlen(a) + strlen(b));
  int least = edits(a + 1, b + 1) + (*a != *b), other = edits(a + 1, b) + 1;
  if (other < least) least = other;
  other = edits(a, b + 1) + 1;
  return other < least ? other : least;
}

static void check_distances(void) {
  static const struct {
    const char *a, *b;
    int edits;
  } known[] = {{"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"intention", "execution", 5},
               {"", "abc", 3},           {"abc", "", 3},      {"ab", "ba", 2},
               {"axis", "axis", 0},      {"axes", "axis", 1}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    CHECK(nearest_distance(known[i].a, known[i].b) == known[i].edits);
  RngKey key = {.seed = 5};
  for (uint64_t i = 0; i < 300; i++) {
    char word[2][7] = {"", ""};
    for (uint64_t k = 0; k < 2; k++) {
      uint64_t length = rng_below(&key, 16 * i + 8 * k, 7);
      for (uint64_t c = 0; c < length; c++)
        word[k][c] = (char)('a' + (char)rng_below(&key, 16 * i + 8 * k + c + 1, 3));
    }
    CHECK(nearest_distance(word[0], word[1]) == edits(word[0], word[1]));
  }
  char longest[42];
  memset(longest, 'a', 41), longest[41] = 0;
  CHECK(nearest_distance(longest, "a") == INT_MAX && nearest_distance("a", longest) == INT_MAX);
  longest[40] = 0;
  CHECK(nearest_distance(longest, "a") == 39 && nearest_distance("b", longest) == 40);
}

static bool is_near(const char *given, const char *name) {
  const char *names[] = {name, NULL};
  return nearest_name(given, names) != NULL;
}

/* A slip leaves half of the letters. */
static void check_limits(void) {
  CHECK(is_near("abcd", "abxy") && !is_near("abcd", "axyz"));
  CHECK(is_near("abc", "abx") && !is_near("abc", "axy"));
  CHECK(is_near("abcde", "abcxy") && !is_near("abcde", "abxyz"));
  CHECK(!is_near("a", "x") && is_near("ab", "ax") && !is_near("ab", "xy"));
  CHECK(is_near("std", "stddev") && !is_near("st", "stddev"));
  const char *names[] = {"axyd", "abxd", "xbcd", NULL};
  CHECK(!strcmp(nearest_name("abcd", names), "abxd"));
}

/* ---- arenas ---- */

static bool is_zero(const unsigned char *p, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (p[i]) return false;
  return true;
}

static void check_arenas(void) {
  Arena *a = arena_new();
  unsigned char *kept = arena_alloc(a, 100);
  memset(kept, 7, 100);
  ArenaMark mark = arena_mark(a);
  size_t bytes = arena_bytes(a);
  for (size_t n = 1; n <= 100000;
       n *= 10) { /* in the block of the mark, then in blocks of its own */
    unsigned char *p = arena_alloc(a, n), *q = arena_alloc(a, n);
    CHECK((uintptr_t)p % 16 == 0 && (uintptr_t)q % 16 == 0 && is_zero(p, n) && is_zero(q, n));
    memset(p, 255, n), memset(q, 255, n);
    arena_rewind(a, &mark);
    CHECK(arena_bytes(a) == bytes);
    p = arena_alloc(a, n), q = arena_alloc(a, n);
    CHECK(is_zero(p, n) && is_zero(q, n));
    arena_rewind(a, &mark);
  }
  CHECK(kept[0] == 7 && kept[99] == 7);
  arena_free(a);
}

/* ---- memory ---- */

enum { KIB = 1024 };

static void check_memory(void) {
  answers_memory = true;
  meminfo =
      "MemTotal:     900000 kB\nMemFree:       50000 kB\nMemAvailable: 200000 kB\n"
      "SwapTotal:    150000 kB\nSwapFree:     100000 kB\n";
  CHECK(memory_has_room((size_t)300000 * KIB) && !memory_has_room((size_t)300001 * KIB));
  meminfo = "MemAvailable: 200000 kB\n";
  CHECK(memory_has_room((size_t)200000 * KIB) && !memory_has_room((size_t)200001 * KIB));
  CHECK(memory_has_room((size_t)65536 * KIB));
  limit = "150000000\n"; /* bytes */
  CHECK(memory_has_room(150000000) && !memory_has_room(150000001));
  limit = "max\n", older_limit = "120000000\n";
  CHECK(memory_has_room(120000000) && !memory_has_room(120000001));
  meminfo = "MemAvailable: 1 kB\n", limit = older_limit = NULL;
  CHECK(memory_has_room((64 << 20) - 1) && !memory_has_room(64 << 20)); /* small ones: not asked */
  meminfo = "MemTotal: 900000 kB\n"; /* of a kernel that doesn't say it */
  CHECK(memory_has_room(SIZE_MAX / 2));
  meminfo = NULL;
  CHECK(memory_has_room(SIZE_MAX / 2));
  answers_memory = false;
}

/* ---- files that can't be finished ---- */

static bool holds(const char *path, const char *content) {
  void *data = NULL;
  size_t bytes = 0;
  bool same = file_read(NULL, path, 0, false, &data, &bytes) == OK && bytes == strlen(content) &&
              !memcmp(data, content, bytes);
  free(data);
  return same;
}

/* A full disk may say so only when the file is synced or closed. The former file stays. */
static void check_file_ends(void) {
  static const char *const problem[] = {"cannot write", "cannot write", "cannot replace"};
  int *const left[] = {&fsyncs_left, &closes_left, &renames_left};
  char folder[200], path[260];
  bool there = scratch_folder(folder, sizeof folder);
  CHECK(there);
  if (!there) return;
  snprintf(path, sizeof path, "%s/file", folder);
  CHECK(file_write(NULL, path, "before", 6) == OK);
  for (int i = 0; i < 3; i++) {
    Error e = {0};
    *left[i] = 0;
    CHECK(file_write(&e, path, "after", 5) == ERR_RUNTIME && strstr(e.message, problem[i]) &&
          strstr(e.message, "No space left"));
    *left[i] = -1;
    CHECK(holds(path, "before"));
  }
  closes_left = 0;
  CHECK(file_write(NULL, "/dev/null", "x", 1) == ERR_RUNTIME);
  closes_left = 1; /* of the folder, after the file is in its place */
  CHECK(file_write(NULL, path, "after", 5) == OK && holds(path, "after"));
  closes_left = -1;
  unlink(path);
  CHECK(rmdir(folder) == 0); /* no temporary file is left in it */
}

int main(void) {
  check_distances();
  check_limits();
  check_arenas();
  check_memory();
  check_file_ends();
  printf("%d passed, %d failed\n", checks - failures, failures);
  return failures > 0;
}
