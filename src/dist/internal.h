/* The state of an instance, and the messages between instances. Inside of this folder only. */
#ifndef IPULUA_DIST_INTERNAL_H
#define IPULUA_DIST_INTERNAL_H
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/log.h"
#include "dist/comm.h"
#include "dist/instances.h"

enum {
  WORDS = 1600,            /* of an instance, in a notice */
  INLINE_BYTES = 4096,     /* data of a meeting that travel with its header */
  CHAIN_BYTES = 128 << 10, /* of a chain's piece */
  CHAIN_PIECES = 4,        /* under way at once, in each direction */
  MESSAGE_BYTES = 64 + CHAIN_BYTES,
  TAG = 1,
  LARGE_SEND = 1 << 24, /* in request_peer: a message may wait for its receiver */
};

/* The header of every message of a meeting. Data begin at byte HEADER_BYTES. */
typedef struct Header {
  uint32_t number, kind, detail, flags;
  int64_t bytes;  /* of data that the sender brings */
  int64_t offset; /* where they lie in the sender's shared memory; -1: elsewhere */
  MeetingTotals so_far;
} Header;
enum { HEADER_BYTES = 64, FLAG_STOP = 1 };
_Static_assert(sizeof(Header) <= HEADER_BYTES, "a header has its room");

/* The messages of the control channel. */
typedef enum NoticeKind { NOTICE_END = 1, NOTICE_FAIL, NOTICE_DIFFERENCE } NoticeKind;
typedef struct Notice {
  int32_t kind, status;
  char words[WORDS];
} Notice;

typedef struct Sending { /* a notice that is on its way */
  Notice notice;
  CommRequest **request; /* [count of instances] */
  struct Sending *next;
} Sending;

typedef struct Peer {
  char host[64];
  int64_t pid;
  bool ended;
  int end_status;
  char *where;   /* its meeting when it found a difference; NULL: unknown */
  char *message; /* MESSAGE_BYTES: its newest header, with data that came with it */
  char *data;    /* larger data */
  size_t capacity;
  MeetingTotals told;  /* in its newest header */
  struct Board *board; /* in its shared memory; NULL: instances share none */
} Peer;

/* The beginning of an instance's shared memory. Meetings use the two entries in turn. The writer of
 * meeting n knows that all have come to meeting n - 1. So all have read the entry of meeting n - 2,
 * and it may be overwritten. */
typedef struct Entry {
  union {
    _Atomic uint32_t number; /* header.number, written last */
    char message[HEADER_BYTES + INLINE_BYTES];
  };
} Entry;
typedef struct Board {
  _Alignas(64) Entry entry[2];
} Board;
enum { WINDOW_BYTES = 32 << 20, BOARD_BYTES = 3 << 12 };
_Static_assert(offsetof(Header, number) == 0, "what is waited for is the number");
_Static_assert(sizeof(Board) <= BOARD_BYTES, "a board has its room");

/* Allocated ranges of the shared memory, in ascending order. */
typedef struct Placed {
  size_t begin, end;
  struct Placed *next;
} Placed;

struct Instances {
  const Comm *comm;
  int rank, count;
  char library[96];
  Log log;
  pthread_mutex_t lock;
  uint32_t meetings;
  uint32_t stop_flags;   /* seen in headers */
  char *own;             /* MESSAGE_BYTES: this one's header */
  Peer *peer;            /* [count] */
  CommRequest **request; /* scratch for meetings */
  int *request_peer;
  int request_capacity;
  char *slot[2][CHAIN_PIECES]; /* of chains: MESSAGE_BYTES each; NULL before the first */
  Sending *sending;
  size_t window; /* bytes of shared memory of each; 0: none */
  Placed *placed;
  bool different, told_where;
  int abandoned;  /* requests of meetings that failed: their memory is never freed */
  double timeout; /* seconds; 0: none */
  double looked;  /* when notices were looked for last */
  Error failure;  /* of the job; status OK: none */
  Statistics statistics;
};
#endif
