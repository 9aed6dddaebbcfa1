/* Everybody's bytes to everybody. Headers go first, with small data behind them; larger data follow when
 * the headers agree. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "dist/internal.h"

static size_t bytes_of(const Part *part, int parts) {
  size_t bytes = 0;
  for (int i = 0; i < parts; i++) bytes += part[i].bytes;
  return bytes;
}

static void write_header(Instances *t, const Meeting *m, const Part *part, int parts,
                         size_t bytes) {
  Header h = {.number = t->meetings, .kind = m->kind, .detail = m->detail, .bytes = (int64_t)bytes};
  if (interrupt_pending() != INTERRUPT_NONE) h.flags |= FLAG_STOP;
  memcpy(t->own, &h, sizeof h);
  t->stop_flags |= h.flags;
  char *to = t->own + HEADER_BYTES;
  for (int i = 0; i < parts && bytes <= INLINE_BYTES; i++) {
    if (part[i].bytes) memcpy(to, part[i].data, part[i].bytes);
    to += part[i].bytes;
  }
}

static Header header_of(const char *message) {
  Header h;
  memcpy(&h, message, sizeof h);
  return h;
}

static Status request(Instances *t, int code, int q, int *count, Error *e) {
  if (code) return comm_failed(t, code, e);
  t->request_peer[(*count)++] = q;
  return OK;
}

static Status exchange_headers(Instances *t, const Meeting *m, size_t bytes, Error *e) {
  int count = 0;
  size_t sent = HEADER_BYTES + (bytes <= INLINE_BYTES ? bytes : 0);
  Status s = reserve_requests(t, 2 * t->count, e);
  for (int q = 0; q < t->count && s == OK; q++) {
    if (q == t->rank) continue;
    memset(t->peer[q].message, 0, HEADER_BYTES);
    s = request(t,
                t->comm->receive(t->peer[q].message, MESSAGE_BYTES, q, TAG, 0, &t->request[count]),
                q, &count, e);
    if (s == OK)
      s = request(t, t->comm->send(t->own, (int64_t)sent, q, TAG, 0, &t->request[count]), q, &count,
                  e);
    t->statistics.bytes_sent += (int64_t)sent;
  }
  return s == OK ? wait_all(t, m, count, e) : s;
}

static Status compare_headers(Instances *t, const Meeting *m, size_t bytes, Error *e) {
  for (int q = 0; q < t->count; q++) {
    if (q == t->rank) continue;
    Header h = header_of(t->peer[q].message);
    t->statistics.bytes_received += HEADER_BYTES + h.bytes;
    t->stop_flags |= h.flags;
    if (h.number != t->meetings || h.kind != m->kind || h.detail != m->detail ||
        (!m->varying && h.bytes != (int64_t)bytes))
      return tell_difference(t, m, e);
  }
  return OK;
}

static Status make_room(Instances *t, int q, size_t bytes, Error *e) {
  Peer *p = &t->peer[q];
  if (bytes <= p->capacity) return OK;
  char *more = realloc(p->data, bytes);
  if (!more)
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory for %zu bytes of instance %d", bytes, q);
  p->data = more, p->capacity = bytes;
  return OK;
}

static int large_parts(const Part *part, int parts) {
  int count = 0;
  for (int i = 0; i < parts; i++) count += part[i].bytes > 0;
  return count;
}

/* With meetings of a fixed size each part is a message of its own, so that nothing is copied. */
static Status exchange_data(Instances *t, const Meeting *m, const Part *part, int parts,
                            size_t bytes, Error *e) {
  int count = 0, of_each = large_parts(part, parts) + 1;
  Status s = reserve_requests(t, 2 * t->count * of_each, e);
  for (int q = 0; q < t->count && s == OK; q++) {
    if (q == t->rank) continue;
    size_t theirs = (size_t)header_of(t->peer[q].message).bytes, at = 0;
    bool as_one = m->varying;
    if (theirs > INLINE_BYTES) s = make_room(t, q, theirs, e);
    if (theirs > INLINE_BYTES && as_one && s == OK)
      s = request(t,
                  t->comm->receive(t->peer[q].data, (int64_t)theirs, q, TAG, 0, &t->request[count]),
                  q, &count, e);
    for (int i = 0; i < parts && s == OK && bytes > INLINE_BYTES; i++) {
      if (!part[i].bytes) continue;
      if (!as_one)
        s = request(t,
                    t->comm->receive(t->peer[q].data + at, (int64_t)part[i].bytes, q, TAG, 0,
                                     &t->request[count]),
                    q, &count, e);
      at += part[i].bytes;
      if (s == OK)
        s = request(
            t, t->comm->send(part[i].data, (int64_t)part[i].bytes, q, TAG, 0, &t->request[count]),
            q | LARGE_SEND, &count, e);
    }
    if (bytes > INLINE_BYTES) t->statistics.bytes_sent += (int64_t)bytes;
  }
  return s == OK ? wait_all(t, m, count, e) : s;
}

static bool any_large(const Instances *t, size_t bytes) {
  bool large = bytes > INLINE_BYTES;
  for (int q = 0; q < t->count; q++)
    if (q != t->rank) large = large || header_of(t->peer[q].message).bytes > INLINE_BYTES;
  return large;
}

static Status gather(Instances *t, const Meeting *m, const Part *part, int parts, Brought *from,
                     Error *e) {
  size_t bytes = bytes_of(part, parts);
  write_header(t, m, part, parts, bytes);
  Status s = exchange_headers(t, m, bytes, e);
  if (s == OK) s = compare_headers(t, m, bytes, e);
  if (s == OK && any_large(t, bytes)) s = exchange_data(t, m, part, parts, bytes, e);
  for (int q = 0; q < t->count && s == OK; q++) {
    const Peer *p = &t->peer[q];
    size_t theirs = (size_t)header_of(p->message).bytes;
    from[q] = (Brought){theirs > INLINE_BYTES ? p->data : p->message + HEADER_BYTES, theirs};
    if (q == t->rank) from[q] = (Brought){parts == 1 ? part->data : NULL, bytes};
  }
  return s;
}

Status instances_gather(Instances *t, const Meeting *m, const Part *part, int parts, Brought *from,
                        Error *e) {
  pthread_mutex_lock(&t->lock);
  double began = clock_seconds();
  Status s = OK;
  if (t->failure.status != OK) *e = t->failure, s = e->status;
  t->meetings++;
  if (s == OK) s = gather(t, m, part, parts, from, e);
  t->statistics.meetings++;
  t->statistics.seconds += clock_seconds() - began;
  pthread_mutex_unlock(&t->lock);
  return s;
}
