/* A folder of a check program's own, below $TMPDIR or /tmp. */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* false, told, where none can be made. */
static inline bool scratch_folder(char *path, size_t size) {
  const char *below = getenv("TMPDIR");
  int length = snprintf(path, size, "%s/ipulua-check.XXXXXX", below && *below ? below : "/tmp");
  if (length > 0 && (size_t)length < size && mkdtemp(path)) return true;
  printf("no folder can be made below %s\n", below && *below ? below : "/tmp");
  return false;
}

#endif
