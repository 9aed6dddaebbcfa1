#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

struct FolderLock {
  int fd; /* of the folder itself */
};

bool folder_lock_holds(const FolderLock *l, const char *folder) {
  struct stat held, named;
  return fstat(l->fd, &held) == 0 && stat(folder, &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

/* The process that has it, as Linux lists locks: "1: FLOCK ADVISORY WRITE 1234 08:01:5678 0
 * EOF"; 0: unknown. */
static long owner_of(int fd) {
  struct stat info;
  char line[256], wanted[80];
  long owner = 0;
  FILE *f = fstat(fd, &info) == 0 ? fopen("/proc/locks", "re") : NULL;
  if (!f) return 0;
  snprintf(wanted, sizeof wanted, "%02x:%02x:%llu ", major(info.st_dev), minor(info.st_dev),
           (unsigned long long)info.st_ino);
  while (owner == 0 && fgets(line, sizeof line, f)) {
    const char *kind = strstr(line, "FLOCK");
    char *at = strstr(line, wanted);
    if (!kind || !at || at == line || strstr(line, "->")) continue; /* "->": one that waits */
    while (at > line && at[-1] == ' ') at--;
    while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
    owner = strtol(at, NULL, 10);
  }
  fclose(f);
  return owner;
}

static Status in_use(Error *e, const char *folder, int fd) {
  long owner = owner_of(fd);
  if (owner <= 0)
    return fail(e, ERR_FAILED_PRECONDITION, "%s: another process writes to this folder", folder);
  return fail(e, ERR_FAILED_PRECONDITION,
              "%s: process %ld writes to this folder; only one process at a time can", folder,
              owner);
}

/* false: another process has it; without locks, no process has it */
static bool take(int fd, double seconds) {
  double end = clock_seconds() + seconds;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (clock_seconds() >= end) return false;
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
  }
  return true;
}

FolderLock *folder_lock(Error *e, const char *folder, double seconds) {
  FolderLock *l = malloc(sizeof *l);
  if (!l) return fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  l->fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (l->fd < 0) {
    char buffer[128];
    fail(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_RUNTIME, "%s: cannot open the folder: %s", folder,
         strerror_r(errno, buffer, sizeof buffer));
  } else if (take(l->fd, seconds)) {
    return l;
  } else {
    in_use(e, folder, l->fd);
    close(l->fd);
  }
  free(l);
  return NULL;
}

void folder_unlock(FolderLock *l) {
  if (!l) return;
  close(l->fd);
  free(l);
}
