/* Waiting for other instances: tests, then tests with pauses. A wait for an instance that will not
 * come ends with an error. */
#include "dist/wait.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/pause.h"
#include "dist/internal.h"
#include "dist/notices.h"
#include "dist/shared.h"

enum { EAGER_TESTS = 200, YIELDING_TESTS = 2000 };
static const double say_after = 10, look_for_process_after = 2, grace = 0.2,
                    grace_of_launcher = 0.3;

Status reserve_requests(Instances *t, int count, Error *e) {
  int capacity = t->request_capacity;
  if (count <= capacity) return OK;
  if (!array_reserve(&t->request, &capacity, count, sizeof *t->request) ||
      !array_reserve(&t->request_peer, &t->request_capacity, count, sizeof *t->request_peer))
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory for a meeting");
  return OK;
}

Status comm_failed(Instances *t, int code, Error *e) {
  return job_failed(t, e, ERR_RUNTIME, "%s: %s", t->library, t->comm->words(code));
}

Wait wait_begin(const Meeting *m, int count) {
  return (Wait){.meeting = m, .count = count, .began = clock_seconds()};
}

static void words_of(const Meeting *m, char *text, size_t n) {
  snprintf(text, n, "the end");
  if (m) m->describe(m->context, text, n);
}

/* The instance that wait i of w->count is for; -1: it is over. */
static int awaited(const Instances *t, const Wait *w, int i) {
  if (w->for_boards) return i == t->rank || board_is_there(t, i) ? -1 : i;
  return t->request[i] ? t->request_peer[i] & ~LARGE_SEND : -1;
}

/* The first instance with an uncompleted send or receipt; -1: none. */
static int missing(const Instances *t, const Wait *w) {
  for (int i = 0; i < w->count; i++)
    if (awaited(t, w, i) >= 0) return awaited(t, w, i);
  return -1;
}

static int missing_and_ended(const Instances *t, const Wait *w) {
  for (int i = 0; i < w->count; i++) {
    int q = awaited(t, w, i);
    if (q >= 0 && t->peer[q].ended) return q;
  }
  return -1;
}

/* A message that it sent before it ended may still be under way. */
static Status check_ended(Instances *t, Wait *w, Error *e) {
  int q = missing_and_ended(t, w);
  if (q < 0) return OK;
  double now = clock_seconds();
  if (w->missed_since == 0) w->missed_since = now;
  if (now - w->missed_since < grace) return OK;
  char words[WORDS / 2];
  words_of(w->meeting, words, sizeof words);
  job_failed(t, e, ERR_RUNTIME,
             "instance %d has ended its script, while this one waits for it in %s", q, words);
  return t->failure.status;
}

static bool is_gone(const Instances *t, int q) {
  const Peer *p = &t->peer[q];
  if (p->ended || !p->pid || strcmp(p->host, t->peer[t->rank].host)) return false;
  char path[40];
  snprintf(path, sizeof path, "/proc/%lld", (long long)p->pid);
  return kill((pid_t)p->pid, 0) && errno == ESRCH;
}

static Status check_clock(Instances *t, Wait *w, Error *e) {
  double waited = clock_seconds() - w->began;
  char words[WORDS / 2];
  int q = missing(t, w);
  if (interrupt_terminated() && waited > grace_of_launcher)
    return job_failed(t, e, ERR_RUNTIME, "ended by the launcher: another instance has failed");
  if (q < 0) return OK;
  if (waited > look_for_process_after && is_gone(t, q))
    return job_failed(t, e, ERR_RUNTIME,
                      "instance %d is gone: its process has ended without a message", q);
  if (waited > say_after && !w->told) {
    w->told = true;
    words_of(w->meeting, words, sizeof words);
    log_line(&t->log, LOG_INFO, "instance %d waits for %d in %s", t->rank, q, words);
  }
  if (t->timeout > 0 && waited > t->timeout) {
    words_of(w->meeting, words, sizeof words);
    job_failed(t, e, ERR_RUNTIME, "instance %d has not come to %s for %g s (IPULUA_COMM_TIMEOUT)",
               q, words, t->timeout);
    notice_send(t, NOTICE_FAIL, 1, t->failure.message);
    return t->failure.status;
  }
  return OK;
}

static void pause_for(int spins) {
  if (spins < YIELDING_TESTS) sched_yield();
  else nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

Status wait_step(Instances *t, Wait *w, Error *e) {
  if (++w->spins < EAGER_TESTS) return OK;
  notices_take(t);
  if (t->failure.status != OK) {
    *e = t->failure;
    return e->status;
  }
  if (t->different) return tell_difference(t, w->meeting, e);
  if (interrupt_pending() == INTERRUPT_NOW) return fail(e, ERR_CANCELLED, "interrupted!");
  Status s = check_ended(t, w, e);
  if (s == OK && (w->spins >= YIELDING_TESTS || !(w->spins & 63))) s = check_clock(t, w, e);
  if (s == OK) pause_for(w->spins);
  return s;
}

Status wait_all(Instances *t, const Meeting *m, int count, Error *e) {
  Wait w = wait_begin(m, count);
  for (;;) {
    int32_t done = 0;
    int code = t->comm->test(t->request, count, &done);
    Status s = OK;
    if (code) s = comm_failed(t, code, e);
    else if (done) break;
    else s = wait_step(t, &w, e);
    if (s == OK) continue;
    wait_abandon(t, count);
    return s;
  }
  t->statistics.waited += clock_seconds() - w.began;
  return OK;
}

static bool all_boards_are_there(const Instances *t) {
  for (int q = 0; q < t->count; q++)
    if (q != t->rank && !board_is_there(t, q)) return false;
  return true;
}

Status wait_for_boards(Instances *t, const Meeting *m, Error *e) {
  if (all_boards_are_there(t)) return OK;
  Wait w = wait_begin(m, t->count);
  w.for_boards = true;
  Status s = OK;
  while (s == OK && !all_boards_are_there(t)) {
    pause_briefly();
    s = wait_step(t, &w, e);
  }
  t->statistics.waited += clock_seconds() - w.began;
  return s;
}

void wait_abandon(Instances *t, int count) {
  static const double max = 0.3;
  double began = clock_seconds();
  int32_t done = 0;
  while (t->comm->test(t->request, count, &done) == 0 && !done && clock_seconds() - began < max)
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  for (int i = 0; i < count; i++) {
    if (t->request[i] && t->request_peer[i] & LARGE_SEND) t->abandoned++;
    t->request[i] = NULL;
  }
}
