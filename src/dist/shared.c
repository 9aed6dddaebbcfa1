/* Memory shared by the instances of one host. It begins with boards, on which instances note the
 * meeting that they have come to. The rest holds their data, which others read in place. The
 * communication library provides it. Without it, or with instances on several hosts, everything is
 * sent as messages. */
#include "dist/shared.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "dist/gather.h"
#include "dist/internal.h"

enum { LINE = 64, MIN_WINDOW = 1 << 20 };

Entry *board_entry(const Instances *t, int q) { return &t->peer[q].board->entry[t->meetings & 1]; }

bool board_is_there(const Instances *t, int q) {
  return atomic_load_explicit(&board_entry(t, q)->number, memory_order_acquire) == t->meetings;
}

size_t instances_shared_bytes(const Instances *t) { return t->window; }

/* ---- room ---- */

void *instances_allocate(Instances *t, size_t bytes) {
  bytes = (bytes + LINE - 1) / LINE * LINE;
  pthread_mutex_lock(&t->lock);
  size_t at = 0;
  Placed **link = &t->placed;
  while (*link && (*link)->begin - at < bytes) at = (*link)->end, link = &(*link)->next;
  size_t end = *link ? (*link)->begin : t->window;
  Placed *p = bytes && end >= at && end - at >= bytes ? malloc(sizeof *p) : NULL;
  if (p) {
    *p = (Placed){at, at + bytes, *link};
    *link = p;
  }
  pthread_mutex_unlock(&t->lock);
  return p ? (char *)t->peer[t->rank].board + BOARD_BYTES + at : NULL;
}

void instances_release(Instances *t, void *address) {
  if (!address) return;
  size_t at = (size_t)((char *)address - (char *)t->peer[t->rank].board) - BOARD_BYTES;
  pthread_mutex_lock(&t->lock);
  for (Placed **link = &t->placed; *link; link = &(*link)->next) {
    Placed *p = *link;
    if (p->begin != at) continue;
    *link = p->next;
    free(p);
    break;
  }
  pthread_mutex_unlock(&t->lock);
}

/* ---- begin ---- */

/* Pages are allocated at their first use, and on a full file system that use kills the process. So
 * each instance takes half of its share of the free space. */
static int64_t room_for_window(const Instances *t) {
  const char *wanted = getenv("IPULUA_COMM_SHARED");
  struct statvfs disk;
  if (!t->comm->share || (wanted && !strcmp(wanted, "off")) || statvfs("/dev/shm", &disk)) return 0;
  double share = (double)disk.f_bavail * (double)disk.f_frsize / 2 / t->count - BOARD_BYTES;
  return share < MIN_WINDOW     ? 0
         : share < WINDOW_BYTES ? (int64_t)share / LINE * LINE
                                : WINDOW_BYTES;
}

/* The minimum over all instances. */
static Status min_of(Instances *t, int64_t *bytes, Error *e) {
  Brought *from = calloc((size_t)t->count, sizeof *from);
  if (!from) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  int64_t own = *bytes, other;
  Status s = instances_gather_first(t, &own, sizeof own, from, e);
  for (int q = 0; q < t->count && s == OK; q++) {
    memcpy(&other, from[q].data, sizeof other);
    if (other < *bytes) *bytes = other;
  }
  free(from);
  return s;
}

Status shared_begin(Instances *t, Error *e) {
  int64_t bytes = room_for_window(t);
  Status s = min_of(t, &bytes, e);
  if (s != OK || !bytes) return s;
  void *mine = NULL, **all = calloc((size_t)t->count, sizeof *all);
  if (!all) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  int64_t made = 0;
  if (!t->comm->share(bytes + BOARD_BYTES, &mine, all) && mine) {
    memset(mine, 0, BOARD_BYTES);
    made = bytes;
  }
  s = min_of(t, &made, e); /* and afterwards all boards are empty */
  for (int q = 0; q < t->count && s == OK && made; q++) t->peer[q].board = all[q];
  if (s == OK && made) t->window = (size_t)made;
  free(all);
  return s;
}
