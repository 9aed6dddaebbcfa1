/* A sum over a chain of instances, in pieces. Prefixes travel up, from each instance to the next,
 * and the complete sums travel back down, so that all links are busy both ways. An instance has
 * CHAIN_PIECES pieces under way in each direction. A piece's slot is free again after its send has
 * completed.
 *
 * A slot's state names the event that it waits for. Requests are ordered by direction, upward slots
 * first. */
#include "dist/chain.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "dist/gather.h"
#include "dist/internal.h"
#include "dist/notices.h"
#include "dist/wait.h"

enum { UP, DOWN };
typedef enum SlotState { FREE, RECEIVING, READY, SENDING } SlotState;

typedef struct Way {
  int from, to;        /* neighbours; -1: this way begins or ends here */
  int64_t asked, next; /* pieces whose receipt was begun; the next to be worked on */
  SlotState state[CHAIN_PIECES];
} Way;

typedef struct Chain {
  Instances *t;
  const Meeting *meeting;
  const ChainSum *sum;
  int64_t piece, pieces; /* elements of a piece; how many there are */
  Way way[2];
  uint32_t flags; /* of all so far */
  Error *error;
} Chain;

static CommRequest **request_of(Chain *c, int way, int64_t piece) {
  return &c->t->request[way * CHAIN_PIECES + (int)(piece % CHAIN_PIECES)];
}
static char *slot_of(Chain *c, int way, int64_t piece) {
  return c->t->slot[way][piece % CHAIN_PIECES];
}
static SlotState *state_of(Chain *c, int way, int64_t piece) {
  return &c->way[way].state[piece % CHAIN_PIECES];
}

static int64_t elements_of(const Chain *c, int64_t piece) {
  int64_t left = c->sum->count - piece * c->piece;
  return min(left, c->piece);
}

static Header header_for(const Chain *c, int64_t piece) {
  (void)piece;
  return (Header){.number = c->t->meetings,
                  .kind = c->meeting->kind,
                  .detail = c->meeting->detail,
                  .flags = c->flags,
                  .so_far = c->meeting->so_far,
                  .bytes = c->sum->count * (int64_t)c->sum->element_bytes};
}

static Status send_piece(Chain *c, int slot_way, int way, int64_t piece) {
  Instances *t = c->t;
  char *slot = slot_of(c, slot_way, piece);
  Header h = header_for(c, piece);
  memcpy(slot, &h, sizeof h);
  int64_t bytes = HEADER_BYTES + elements_of(c, piece) * (int64_t)c->sum->element_bytes;
  int to = c->way[way].to;
  CommRequest **r = request_of(c, slot_way, piece);
  t->request_peer[r - t->request] = to | LARGE_SEND;
  int code = t->comm->send(slot, bytes, to, TAG, 0, r);
  if (code) return comm_failed(t, code, c->error);
  t->statistics.bytes_sent += bytes;
  *state_of(c, slot_way, piece) = SENDING;
  return OK;
}

static Status ask(Chain *c, int way) {
  Way *w = &c->way[way];
  Instances *t = c->t;
  while (w->from >= 0 && w->asked < c->pieces && *state_of(c, way, w->asked) == FREE) {
    CommRequest **r = request_of(c, way, w->asked);
    t->request_peer[r - t->request] = w->from;
    int code = t->comm->receive(slot_of(c, way, w->asked), MESSAGE_BYTES, w->from, TAG, 0, r);
    if (code) return comm_failed(t, code, c->error);
    *state_of(c, way, w->asked++) = RECEIVING;
  }
  return OK;
}

static Status check_piece(Chain *c, int way, int64_t piece) {
  Header got, want = header_for(c, piece);
  memcpy(&got, slot_of(c, way, piece), sizeof got);
  if (got.number != want.number || got.kind != want.kind || got.detail != want.detail ||
      got.bytes != want.bytes)
    return tell_difference(c->t, c->meeting, c->error);
  c->t->statistics.bytes_received +=
      HEADER_BYTES + elements_of(c, piece) * (int64_t)c->sum->element_bytes;
  c->flags |= got.flags;
  c->t->peer[c->way[way].from].told = got.so_far;
  c->t->stop_flags |= got.flags;
  return OK;
}

static void add(Chain *c, int64_t piece, bool is_first) {
  c->sum->add(c->sum->context, piece * c->piece, elements_of(c, piece),
              slot_of(c, UP, piece) + HEADER_BYTES, is_first);
}
static void take(Chain *c, int way, int64_t piece) {
  c->sum->take(c->sum->context, piece * c->piece, elements_of(c, piece),
               slot_of(c, way, piece) + HEADER_BYTES);
}

/* Works on the next piece upward, if its slot is ready: adds this instance's share and sends it on.
 * On the last instance the piece is then complete, and is sent down from the same slot. */
static Status work_up(Chain *c, bool *worked) {
  Way *w = &c->way[UP];
  if (w->next >= c->pieces) return OK;
  SlotState wanted = w->from < 0 ? FREE : READY;
  if (*state_of(c, UP, w->next) != wanted) return OK;
  Status s = wanted == READY ? check_piece(c, UP, w->next) : OK;
  if (s != OK) return s;
  *worked = true;
  add(c, w->next, w->from < 0);
  if (w->to < 0) take(c, UP, w->next);
  s = send_piece(c, UP, w->to < 0 ? DOWN : UP, w->next);
  w->next++;
  return s;
}

static Status work_down(Chain *c, bool *worked) {
  Way *w = &c->way[DOWN];
  if (w->from < 0 || w->next >= c->pieces || *state_of(c, DOWN, w->next) != READY) return OK;
  Status s = check_piece(c, DOWN, w->next);
  if (s != OK) return s;
  *worked = true;
  take(c, DOWN, w->next);
  if (w->to >= 0) s = send_piece(c, DOWN, DOWN, w->next);
  else *state_of(c, DOWN, w->next) = FREE;
  w->next++;
  return s;
}

/* Advances the slots whose request has completed. */
static void look(Chain *c) {
  for (int i = 0; i < 2 * CHAIN_PIECES; i++) {
    SlotState *p = &c->way[i / CHAIN_PIECES].state[i % CHAIN_PIECES];
    if (c->t->request[i] || (*p != RECEIVING && *p != SENDING)) continue;
    *p = *p == RECEIVING ? READY : FREE;
  }
}

static bool is_finished(const Chain *c) {
  for (int i = 0; i < 2 * CHAIN_PIECES; i++)
    if (c->t->request[i]) return false;
  return c->way[UP].next >= c->pieces && (c->way[DOWN].from < 0 || c->way[DOWN].next >= c->pieces);
}

static Status run(Chain *c) {
  enum { REQUESTS = 2 * CHAIN_PIECES };
  Instances *t = c->t;
  Wait wait = wait_begin(c->meeting, REQUESTS);
  Status s = OK;
  while (s == OK && !is_finished(c)) {
    int32_t done = 0;
    bool worked = false;
    int code = t->comm->test(t->request, REQUESTS, &done);
    if (code) return comm_failed(t, code, c->error);
    look(c);
    s = ask(c, UP);
    if (s == OK) s = ask(c, DOWN);
    if (s == OK) s = work_up(c, &worked);
    if (s == OK) s = work_down(c, &worked);
    if (worked) wait = wait_begin(c->meeting, REQUESTS);
    else if (s == OK) s = wait_step(t, &wait, c->error);
  }
  return s;
}

static Status make_slots(Instances *t, Error *e) {
  for (int way = 0; way < 2; way++)
    for (int i = 0; i < CHAIN_PIECES; i++)
      if (!t->slot[way][i] && posix_memalign((void **)&t->slot[way][i], 64, MESSAGE_BYTES))
        return fail(e, ERR_OUT_OF_MEMORY, "out of memory for a meeting");
  return reserve_requests(t, 2 * CHAIN_PIECES, e);
}

static Status chain(Instances *t, const Meeting *m, const ChainSum *sum, Error *e) {
  int last = t->count - 1;
  Chain c = {.t = t, .meeting = m, .sum = sum, .error = e};
  c.piece = CHAIN_BYTES / (int64_t)sum->element_bytes;
  c.pieces = (sum->count + c.piece - 1) / c.piece;
  c.way[UP] = (Way){.from = t->rank ? t->rank - 1 : -1, .to = t->rank < last ? t->rank + 1 : -1};
  c.way[DOWN] = (Way){.from = t->rank < last ? t->rank + 1 : -1, .to = t->rank ? t->rank - 1 : -1};
  if (interrupt_pending() != INTERRUPT_NONE) c.flags = FLAG_STOP;
  Status s = make_slots(t, e);
  /* others wait at the boards: without this, an instance at another meeting would not be noticed */
  if (s == OK && t->window)
    s = come_together(t, m, NULL, 0, (size_t)sum->count * sum->element_bytes, -1, e);
  if (s != OK) return s;
  memset(t->request, 0, 2 * CHAIN_PIECES * sizeof *t->request);
  s = run(&c);
  if (s != OK) wait_abandon(t, 2 * CHAIN_PIECES);
  t->stop_flags |= c.flags;
  return s;
}

Status instances_chain(Instances *t, const Meeting *m, const ChainSum *sum, Error *e) {
  pthread_mutex_lock(&t->lock);
  double began = clock_seconds();
  Status s = OK;
  if (t->failure.status != OK) *e = t->failure, s = e->status;
  t->meetings++;
  if (s == OK) s = chain(t, m, sum, e);
  t->statistics.meetings++;
  t->statistics.seconds += clock_seconds() - began;
  pthread_mutex_unlock(&t->lock);
  return s;
}
