/* All-gather of bytes. Headers go first, with small data after them in the same message. Larger
 * data follow when the headers agree. */
#include "dist/gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "dist/internal.h"
#include "dist/notices.h"
#include "dist/shared.h"
#include "dist/wait.h"

static size_t bytes_of(const Part *part, int parts) {
  size_t bytes = 0;
  for (int i = 0; i < parts; i++) bytes += part[i].bytes;
  return bytes;
}

/* The message of instance q for the current meeting. */
static char *message_of(const Instances *t, int q) {
  return t->window ? board_entry(t, q)->message : t->peer[q].message;
}

static void write_header(Instances *t, const Meeting *m, const Part *part, int parts, size_t bytes,
                         int64_t offset) {
  Header h = {.number = t->meetings,
              .kind = m->kind,
              .detail = m->detail,
              .bytes = (int64_t)bytes,
              .offset = offset,
              .so_far = m->so_far};
  if (interrupt_pending() != INTERRUPT_NONE) h.flags |= FLAG_STOP;
  char *message = message_of(t, t->rank), *to = message + HEADER_BYTES;
  size_t number = sizeof h.number; /* comes last */
  memcpy(message + number, (char *)&h + number, sizeof h - number);
  t->stop_flags |= h.flags;
  for (int i = 0; i < parts && bytes <= INLINE_BYTES; i++) {
    if (part[i].bytes) memcpy(to, part[i].data, part[i].bytes);
    to += part[i].bytes;
  }
  if (t->window)
    atomic_store_explicit(&board_entry(t, t->rank)->number, h.number, memory_order_release);
  else memcpy(message, &h.number, number);
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
  if (t->window) {
    t->statistics.bytes_sent += (int64_t)sent * (t->count - 1);
    return wait_for_boards(t, m, e);
  }
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
    Header h = header_of(message_of(t, q));
    t->statistics.bytes_received += HEADER_BYTES + h.bytes;
    t->stop_flags |= h.flags;
    t->peer[q].told = h.so_far;
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
    size_t theirs = (size_t)header_of(message_of(t, q)).bytes, at = 0;
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
    if (q != t->rank) large = large || header_of(message_of(t, q)).bytes > INLINE_BYTES;
  return large;
}

Status come_together(Instances *t, const Meeting *m, const Part *part, int parts, size_t bytes,
                     int64_t offset, Error *e) {
  write_header(t, m, part, parts, bytes, offset);
  Status s = exchange_headers(t, m, bytes, e);
  return s == OK ? compare_headers(t, m, bytes, e) : s;
}

static Status gather(Instances *t, const Meeting *m, const Part *part, int parts, Brought *from,
                     Error *e) {
  size_t bytes = bytes_of(part, parts);
  Status s = come_together(t, m, part, parts, bytes, -1, e);
  if (s == OK && any_large(t, bytes)) s = exchange_data(t, m, part, parts, bytes, e);
  for (int q = 0; q < t->count && s == OK; q++) {
    const char *message = message_of(t, q);
    size_t theirs = (size_t)header_of(message).bytes;
    from[q] = (Brought){theirs > INLINE_BYTES ? t->peer[q].data : message + HEADER_BYTES, theirs};
    if (q == t->rank) from[q] = (Brought){parts == 1 ? part->data : NULL, bytes};
  }
  return s;
}

static Status begin(Instances *t, Error *e) {
  pthread_mutex_lock(&t->lock);
  t->meetings++;
  if (t->failure.status != OK) *e = t->failure;
  return t->failure.status;
}

static void end(Instances *t, double began) {
  t->statistics.meetings++;
  t->statistics.seconds += clock_seconds() - began;
  pthread_mutex_unlock(&t->lock);
}

Status instances_gather(Instances *t, const Meeting *m, const Part *part, int parts, Brought *from,
                        Error *e) {
  double began = clock_seconds();
  Status s = begin(t, e);
  if (s == OK) s = gather(t, m, part, parts, from, e);
  end(t, began);
  return s;
}

static void describe_begin(const void *context, char *text, size_t n) {
  (void)context;
  snprintf(text, n, "the beginning");
}

Status instances_gather_first(Instances *t, const void *own, size_t bytes, Brought *from,
                              Error *e) {
  Meeting m = {.kind = 1, .describe = describe_begin};
  return instances_gather(t, &m, &(Part){own, bytes}, 1, from, e);
}

bool instances_shows(const Instances *t, size_t bytes) { return t->window && bytes > INLINE_BYTES; }

static Status show(Instances *t, const Meeting *m, const void *address, size_t bytes, Brought *from,
                   bool *shared, Error *e) {
  const char *own = (const char *)t->peer[t->rank].board;
  Status s = come_together(t, m, NULL, 0, bytes, address ? (const char *)address - own : -1, e);
  *shared = s == OK;
  for (int q = 0; q < t->count && *shared; q++) {
    int64_t at = header_of(message_of(t, q)).offset;
    *shared = at >= 0;
    from[q] = (Brought){(const char *)t->peer[q].board + at, bytes};
  }
  if (*shared) t->statistics.bytes_sent += (int64_t)bytes * (t->count - 1);
  return s;
}

Status instances_show(Instances *t, const Meeting *m, const void *address, size_t bytes,
                      Brought *from, bool *shared, Error *e) {
  *shared = false;
  if (!t->window) return OK;
  double began = clock_seconds();
  Status s = begin(t, e);
  if (s == OK) s = show(t, m, address, bytes, from, shared, e);
  end(t, began);
  return s;
}
