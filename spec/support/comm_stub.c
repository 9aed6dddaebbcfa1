/* A plug-in for communication without MPI, for specs: processes of one machine, a socket between
 * each two of them. COMM_STUB_FOLDER is a folder that all see; PMI_RANK and PMI_SIZE say who is
 * who. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "dist/comm.h"

enum { MAX = 64, CHANNELS = 2 };

typedef struct Frame { /* a message, with what is in front of it on the wire */
  struct Frame *next;
  struct {
    int32_t channel, pad;
    int64_t bytes;
  } head;
  int64_t done; /* bytes of head and data that were moved */
  char *data;
} Frame;

typedef struct Queue {
  Frame *first, **last;
} Queue;

struct CommRequest {
  int32_t peer, channel;
  void *into; /* NULL: what was sent, which is done when its frame has left */
  int64_t bytes;
  int64_t
      turn; /* among those that receive from the peer: messages are theirs in the order of asking */
  Frame *frame;
};

static struct {
  int rank, size;
  int socket[MAX];
  Queue out[MAX], in[MAX][CHANNELS];
  Frame *reading[MAX];
  int64_t asked[MAX][CHANNELS], given[MAX][CHANNELS];
  char folder[64];
} stub;

static void queue_put(Queue *q, Frame *f) {
  f->next = NULL;
  if (!q->first) q->last = &q->first;
  *q->last = f;
  q->last = &f->next;
}

static Frame *queue_take(Queue *q) {
  Frame *f = q->first;
  if (f) q->first = f->next;
  return f;
}

/* ---- progress ---- */

/* Moves what can be moved of a frame: 1 when it is complete, 0 when it must wait, -1 at the end. */
static int move(int peer, Frame *f, int writes) {
  int64_t head = (int64_t)sizeof f->head;
  for (;;) {
    int64_t all = head + (f->done < head ? 0 : f->head.bytes);
    if (f->done == all && f->done >= head && (f->head.bytes == 0 || f->done > head)) return 1;
    if (f->done == head && !writes && !f->data) f->data = malloc((size_t)f->head.bytes + 1);
    char *at = f->done < head ? (char *)&f->head + f->done : f->data + (f->done - head);
    int64_t left = f->done < head ? head - f->done : head + f->head.bytes - f->done;
    if (!left) return 1;
    ssize_t n = writes ? send(stub.socket[peer], at, (size_t)left, MSG_NOSIGNAL)
                       : recv(stub.socket[peer], at, (size_t)left, 0);
    if (n > 0) f->done += n;
    else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
    else return -1;
  }
}

static void progress(void) {
  for (int q = 0; q < stub.size; q++) {
    if (q == stub.rank || stub.socket[q] < 0) continue;
    while (stub.out[q].first && move(q, stub.out[q].first, 1) == 1) {
      Frame *sent = queue_take(&stub.out[q]);
      sent->done = -1; /* its request frees it */
    }
    for (;;) {
      if (!stub.reading[q]) stub.reading[q] = calloc(1, sizeof(Frame));
      if (move(q, stub.reading[q], 0) != 1) break;
      queue_put(&stub.in[q][stub.reading[q]->head.channel], stub.reading[q]);
      stub.reading[q] = NULL;
    }
  }
}

/* ---- begin and end ---- */

static void address(struct sockaddr_un *a, int rank) {
  *a = (struct sockaddr_un){.sun_family = AF_UNIX};
  snprintf(a->sun_path, sizeof a->sun_path, "%s/%d", stub.folder, rank);
}

static int connect_to(int rank) {
  struct sockaddr_un a;
  address(&a, rank);
  int s = socket(AF_UNIX, SOCK_STREAM, 0);
  for (int i = 0; i < 20000; i++) { /* the other process may still be beginning */
    if (!connect(s, (struct sockaddr *)&a, sizeof a)) return s;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return -1;
}

static int begin(int32_t *rank, int32_t *size, char *library, size_t n) {
  const char *r = getenv("PMI_RANK"), *s = getenv("PMI_SIZE"), *f = getenv("COMM_STUB_FOLDER");
  const char *wrong = getenv("COMM_STUB_ALONE");
  if (!r || !s || !f) return 1;
  snprintf(library, n, "stub");
  stub.rank = atoi(r), stub.size = atoi(s);
  if (wrong) stub.rank = 0, stub.size = 1; /* as a library under another one's launcher */
  *rank = stub.rank, *size = stub.size;
  if (wrong) return 0;
  if (stub.size > MAX) return 2;
  snprintf(stub.folder, sizeof stub.folder, "%s", f);
  struct sockaddr_un own;
  address(&own, stub.rank);
  int door = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(door, (struct sockaddr *)&own, sizeof own) || listen(door, MAX)) return 3;
  for (int q = 0; q < stub.size; q++) stub.socket[q] = -1;
  for (int q = 0; q < stub.rank; q++) {
    stub.socket[q] = connect_to(q);
    int32_t me = stub.rank;
    if (stub.socket[q] < 0 || write(stub.socket[q], &me, sizeof me) != sizeof me) return 4;
  }
  for (int q = stub.rank + 1; q < stub.size; q++) {
    int s2 = accept(door, NULL, NULL);
    int32_t who = 0;
    if (s2 < 0 || read(s2, &who, sizeof who) != sizeof who) return 5;
    stub.socket[who] = s2;
  }
  for (int q = 0; q < stub.size; q++)
    if (stub.socket[q] >= 0) fcntl(stub.socket[q], F_SETFL, O_NONBLOCK);
  close(door);
  return 0;
}

/* A file of each that all map. */
static void *map_part(int q, int64_t bytes, int flags) {
  char path[96];
  snprintf(path, sizeof path, "%s/memory%d", stub.folder, q);
  for (int i = 0; i < 20000; i++) { /* the other process may still be making it */
    struct stat found;
    int file = open(path, O_RDWR | flags, 0600);
    if (file >= 0 && flags && ftruncate(file, bytes)) return NULL;
    bool whole = file >= 0 && !fstat(file, &found) && found.st_size == bytes;
    void *at =
        whole ? mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : NULL;
    if (file >= 0) close(file);
    if (whole) return at == MAP_FAILED ? NULL : at;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return NULL;
}

static int share(int64_t bytes, void **mine, void **all) {
  *mine = NULL;
  if (getenv("COMM_STUB_HOSTS")) return 0; /* as if each were on one of its own */
  for (int q = 0; q < stub.size; q++) {
    if (!(all[(stub.rank + q) % stub.size] =
              map_part((stub.rank + q) % stub.size, bytes, q ? 0 : O_CREAT)))
      return 8;
  }
  *mine = all[stub.rank];
  return 0;
}

static int end(void) { return 0; }
static void abort_all(int32_t status) { _exit(status); }
static const char *words(int code) {
  static char text[40];
  snprintf(text, sizeof text, "stub error %d", code);
  return text;
}

/* ---- messages ---- */

static int send_to(const void *data, int64_t bytes, int32_t to, int32_t tag, int32_t control,
                   CommRequest **out) {
  (void)tag;
  CommRequest *r = calloc(1, sizeof *r);
  Frame *f = calloc(1, sizeof *f);
  if (!r || !f) return 6;
  f->head.channel = control;
  f->head.bytes = bytes;
  f->data = malloc((size_t)bytes + 1);
  memcpy(f->data, data, (size_t)bytes);
  queue_put(&stub.out[to], f);
  *r = (CommRequest){.peer = to, .channel = control, .frame = f};
  *out = r;
  progress();
  return 0;
}

static int receive(void *data, int64_t bytes, int32_t from, int32_t tag, int32_t control,
                   CommRequest **out) {
  (void)tag;
  CommRequest *r = calloc(1, sizeof *r);
  if (!r) return 6;
  *r = (CommRequest){.peer = from,
                     .channel = control,
                     .into = data,
                     .bytes = bytes,
                     .turn = stub.asked[from][control]++};
  *out = r;
  return 0;
}

/* 1: done. 0: not yet. -1: more has come than there is room for. */
static int finish(CommRequest *r) {
  if (!r->into) {
    if (r->frame->done >= 0) return 0;
    free(r->frame->data), free(r->frame);
    return 1;
  }
  Frame *f = stub.in[r->peer][r->channel].first;
  if (!f || r->turn != stub.given[r->peer][r->channel]) return 0;
  if (f->head.bytes > r->bytes) return -1;
  stub.given[r->peer][r->channel]++;
  queue_take(&stub.in[r->peer][r->channel]);
  memcpy(r->into, f->data, (size_t)f->head.bytes);
  free(f->data), free(f);
  return 1;
}

static int test(CommRequest **requests, int32_t count, int32_t *done) {
  progress();
  *done = 1;
  for (int32_t i = 0; i < count; i++) {
    if (!requests[i]) continue;
    int n = finish(requests[i]);
    if (n < 0) return 7;
    if (!n) {
      *done = 0;
      continue;
    }
    free(requests[i]);
    requests[i] = NULL;
  }
  return 0;
}

static int look(int32_t *from, int32_t *bytes) {
  progress();
  *from = -1, *bytes = 0;
  for (int q = 0; q < stub.size; q++) {
    if (q == stub.rank || !stub.in[q][1].first) continue;
    *from = q, *bytes = (int32_t)stub.in[q][1].first->head.bytes;
    return 0;
  }
  return 0;
}

extern const Comm comm_table;
__attribute__((visibility("default"))) const Comm comm_table = {
    .version = COMM_VERSION,
    .struct_size = (int32_t)sizeof(Comm),
    .begin = begin,
    .send = send_to,
    .receive = receive,
    .test = test,
    .look = look,
    .share = share,
    .words = words,
    .abort = abort_all,
    .end = end,
};
