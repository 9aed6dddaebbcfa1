/* Notices: an instance's end, its failure, or, after instances have come to different meetings, the
 * name of its own. */
#include "dist/notices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "dist/internal.h"

static void drop(Sending *s) {
  free(s->request);
  free(s);
}

static bool is_sent(Instances *t, Sending *s) {
  int32_t done = 0;
  return t->comm->test(s->request, t->count, &done) != 0 || done;
}

/* Frees the notices that have been delivered. */
bool notices_sent(Instances *t) {
  for (Sending **s = &t->sending; *s;) {
    if (!is_sent(t, *s)) {
      s = &(*s)->next;
      continue;
    }
    Sending *gone = *s;
    *s = gone->next;
    drop(gone);
  }
  return !t->sending;
}

void notice_send(Instances *t, NoticeKind kind, int status, const char *words) {
  Sending *s = calloc(1, sizeof *s);
  if (s) s->request = calloc((size_t)t->count, sizeof *s->request);
  if (!s || !s->request) {
    free(s);
    return; /* the others will miss this instance instead */
  }
  s->notice = (Notice){.kind = (int32_t)kind, .status = status};
  snprintf(s->notice.words, sizeof s->notice.words, "%s", words ? words : "");
  size_t bytes = offsetof(Notice, words) + strlen(s->notice.words) + 1;
  for (int q = 0; q < t->count; q++)
    if (q != t->rank && (kind == NOTICE_END || !t->peer[q].ended))
      t->comm->send(&s->notice, (int64_t)bytes, q, TAG, 1, &s->request[q]);
  s->next = t->sending;
  t->sending = s;
}

Status job_failed(Instances *t, Error *e, Status s, const char *format, ...) {
  if (t->failure.status == OK) {
    va_list args;
    va_start(args, format);
    failv(&t->failure, s, format, args);
    va_end(args);
  }
  if (e) *e = t->failure;
  return t->failure.status;
}

static void take_end(Instances *t, int from, const Notice *n) {
  Peer *p = &t->peer[from];
  p->ended = true;
  p->end_status = n->status;
  if (!n->status) return;
  if (n->words[0]) job_failed(t, NULL, ERR_RUNTIME, "instance %d failed: %s", from, n->words);
  else job_failed(t, NULL, ERR_RUNTIME, "instance %d has ended with status %d", from, n->status);
}

static void take(Instances *t, int from, const Notice *n) {
  switch (n->kind) {
    case NOTICE_END:
      take_end(t, from, n);
      break;
    case NOTICE_FAIL:
      job_failed(t, NULL, ERR_RUNTIME, "%s", n->words);
      break;
    case NOTICE_DIFFERENCE:
      t->different = true;
      if (!t->peer[from].where) t->peer[from].where = strdup(n->words);
      break;
    default:
      break;
  }
}

void notices_take(Instances *t) {
  for (;;) {
    int32_t from = -1, bytes = 0, done = 0;
    if (t->comm->look(&from, &bytes) != 0 || from < 0) return;
    Notice *n = calloc(1, sizeof *n + 1);
    CommRequest *request = NULL;
    if (!n || bytes > (int32_t)sizeof *n ||
        t->comm->receive(n, bytes, from, TAG, 1, &request) != 0) {
      free(n);
      return;
    }
    while (t->comm->test(&request, 1, &done) == 0 && !done) continue; /* it has arrived already */
    n->words[WORDS - 1] = 0;
    take(t, from, n);
    free(n);
  }
}

/* ---- differences ---- */

static const char *where_of(const Instances *t, int q) { return t->peer[q].where; }

static bool all_have_told(const Instances *t) {
  for (int q = 0; q < t->count; q++)
    if (!where_of(t, q) && !t->peer[q].ended) return false;
  return true;
}

static Status compose(Instances *t, Error *e) {
  for (int i = 0; i < t->count; i++)
    for (int j = i + 1; j < t->count && where_of(t, i); j++)
      if (where_of(t, j) && strcmp(where_of(t, i), where_of(t, j)))
        return job_failed(t, e, ERR_FAILED_PRECONDITION, "instance %d is in %s, instance %d in %s",
                          i, where_of(t, i), j, where_of(t, j));
  return job_failed(t, e, ERR_FAILED_PRECONDITION,
                    "instances have come to different meetings; instance %d is in %s", t->rank,
                    where_of(t, t->rank) ? where_of(t, t->rank) : "none");
}

Status tell_difference(Instances *t, const Meeting *m, Error *e) {
  enum { MAX_SECONDS = 2 };
  char words[WORDS] = "none: it computes";
  if (m) m->describe(m->context, words, sizeof words);
  t->different = true;
  if (!t->told_where) {
    t->told_where = true;
    t->peer[t->rank].where = strdup(words);
    notice_send(t, NOTICE_DIFFERENCE, 0, words);
  }
  double began = clock_seconds();
  while (!all_have_told(t) && clock_seconds() - began < MAX_SECONDS) {
    notices_take(t);
    notices_sent(t);
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
  return compose(t, e);
}
