#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>

enum { ASKED_FROM = 64 << 20 }; /* bytes: asking takes some microseconds */

/* The sum of two lines of /proc/meminfo, in KiB. Memory that is promised but untouched counts as
 * free there. */
static bool read_free(uint64_t *kib) {
  FILE *f = fopen("/proc/meminfo", "re");
  if (!f) return false;
  char line[128];
  uint64_t x, available = 0, swap = 0;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "MemAvailable: %" SCNu64, &x) == 1) available = x;
    if (sscanf(line, "SwapFree: %" SCNu64, &x) == 1) swap = x;
  }
  fclose(f);
  *kib = available + swap;
  return available > 0;
}

/* A container's limit; "max" or no file: none. */
static uint64_t read_limit(const char *path) {
  FILE *f = fopen(path, "re");
  uint64_t x = UINT64_MAX;
  if (!f) return x;
  if (fscanf(f, "%" SCNu64, &x) != 1) x = UINT64_MAX;
  fclose(f);
  return x;
}

bool memory_has_room(size_t bytes) {
  if (bytes < ASKED_FROM) return true;
  if (bytes > read_limit("/sys/fs/cgroup/memory.max") ||
      bytes > read_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
    return false;
  uint64_t kib;
  return !read_free(&kib) || bytes / 1024 <= kib;
}
