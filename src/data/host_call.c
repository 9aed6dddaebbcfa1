#include "data/host_call.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/thread.h"

enum { REQUEST_WAITING, REQUEST_DONE };
static const long MOMENT = 50 * 1000 * 1000, SECOND = 1000 * 1000 * 1000; /* nanoseconds */

struct HostCalls {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  _Atomic int waiters;
  _Atomic int pending; /* requests and deferred work, so that serving nothing costs one load */
  HostRequest *first, **last;
  HostDeferred *deferred;
  int depth;             /* requests that the script's thread is inside of, its own included */
  HostRequest *answered; /* the innermost one of another thread */
};

HostCalls *host_calls_new(void) {
  HostCalls *h = calloc(1, sizeof *h);
  if (!h) return NULL;
  if (pthread_mutex_init(&h->mutex, NULL)) return free(h), NULL;
  if (pthread_cond_init(&h->changed, NULL)) return pthread_mutex_destroy(&h->mutex), free(h), NULL;
  h->last = &h->first;
  return h;
}

/* Is this the script's thread? A host may call from one thread after another. Whichever it is, the
 * threads of this library are others. */
static bool is_here(void) { return !thread_is_own(); }

HostAsker host_calls_asker(const HostCalls *h, pthread_t thread) {
  if (!is_here() || !h->answered) return ASKED_BY_NOBODY;
  for (const HostRequest *r = h->answered; r; r = r->outer)
    if (pthread_equal(r->asker, thread)) return ASKED_BY_IT;
  return ASKED_BY_ANOTHER;
}

void host_request_init(HostRequest *r, Status (*run)(HostRequest *, Error *),
                       void (*release)(HostRequest *)) {
  r->run = run, r->free = release, r->next = NULL;
  error_clear(&r->error);
  atomic_init(&r->references, 1);
  atomic_init(&r->state, REQUEST_WAITING);
}

void host_request_release(HostRequest *r) {
  if (r && atomic_fetch_sub(&r->references, 1) == 1) r->free(r);
}

/* With the mutex held. */
static HostRequest *take_request(HostCalls *h) {
  HostRequest *r = h->first;
  if (!r) return NULL;
  h->first = r->next;
  if (!h->first) h->last = &h->first;
  atomic_fetch_sub(&h->pending, 1);
  return r;
}

static void run_request(HostCalls *h, HostRequest *r) {
  h->depth++;
  r->outer = h->answered;
  h->answered = r;
  Status s = r->run(r, &r->error);
  h->answered = r->outer;
  h->depth--;
  if (s != OK && r->error.status == OK) fail(&r->error, s, "a call into the script failed");
  atomic_store(&r->state, REQUEST_DONE);
  host_calls_notify(h);
  host_request_release(r);
}

static void run_deferred(HostCalls *h) {
  if (h->depth) return;
  for (;;) {
    pthread_mutex_lock(&h->mutex);
    HostDeferred *d = h->deferred;
    if (d) h->deferred = d->next, atomic_fetch_sub(&h->pending, 1);
    pthread_mutex_unlock(&h->mutex);
    if (!d) return;
    d->run(d);
  }
}

void host_calls_serve(HostCalls *h) {
  if (!h || !atomic_load_explicit(&h->pending, memory_order_relaxed) || !is_here()) return;
  for (;;) {
    pthread_mutex_lock(&h->mutex);
    HostRequest *r = take_request(h);
    pthread_mutex_unlock(&h->mutex);
    if (!r) break;
    run_request(h, r);
  }
  run_deferred(h);
}

static struct timespec in_a_moment(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_nsec += MOMENT;
  if (t.tv_nsec < SECOND) return t;
  t.tv_sec++;
  t.tv_nsec -= SECOND;
  return t;
}

void host_calls_wait(HostCalls *h, HostPredicate ready, void *context) {
  bool script = is_here();
  pthread_mutex_lock(&h->mutex);
  atomic_fetch_add(&h->waiters, 1);
  while (!ready(context)) {
    HostRequest *r = script ? take_request(h) : NULL;
    if (!r) {
      /* a signal doesn't wake waiting threads, so they poll for Ctrl-C */
      struct timespec soon = in_a_moment();
      pthread_cond_timedwait(&h->changed, &h->mutex, &soon);
      continue;
    }
    pthread_mutex_unlock(&h->mutex);
    run_request(h, r);
    pthread_mutex_lock(&h->mutex);
  }
  atomic_fetch_sub(&h->waiters, 1);
  pthread_mutex_unlock(&h->mutex);
  if (script) run_deferred(h);
}

void host_calls_notify(HostCalls *h) {
  if (!atomic_load(&h->waiters)) return;
  pthread_mutex_lock(&h->mutex);
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->mutex);
}

typedef struct Asker {
  HostRequest *request;
  HostPredicate given_up;
  void *context;
} Asker;

static bool asker_ready(void *context) {
  Asker *a = context;
  return atomic_load(&a->request->state) == REQUEST_DONE ||
         (a->given_up && a->given_up(a->context));
}

static Status call_here(HostCalls *h, Error *e, HostRequest *r) {
  h->depth++;
  Status s = r->run(r, e);
  h->depth--;
  run_deferred(h);
  return s;
}

static Status take_result(Error *e, const HostRequest *r) {
  if (r->error.status == OK) return OK;
  if (e && e->status == OK) *e = r->error;
  return r->error.status;
}

/* Removes r from the queue, unless it has been taken already. */
static void withdraw(HostCalls *h, HostRequest *r) {
  bool found = false;
  pthread_mutex_lock(&h->mutex);
  for (HostRequest **p = &h->first; *p; p = &(*p)->next) {
    if (*p != r) continue;
    *p = r->next;
    if (!*p) h->last = p;
    atomic_fetch_sub(&h->pending, 1);
    found = true;
    break;
  }
  pthread_mutex_unlock(&h->mutex);
  if (found) host_request_release(r);
}

Status host_call(HostCalls *h, Error *e, HostRequest *r, HostPredicate given_up, void *context) {
  if (is_here()) return call_here(h, e, r);
  r->asker = pthread_self();
  pthread_mutex_lock(&h->mutex);
  atomic_fetch_add(&r->references, 1);
  *h->last = r;
  h->last = &r->next;
  atomic_fetch_add(&h->pending, 1);
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->mutex);
  Asker asker = {r, given_up, context};
  host_calls_wait(h, asker_ready, &asker);
  if (atomic_load(&r->state) == REQUEST_DONE) return take_result(e, r);
  withdraw(h, r);
  return fail(e, ERR_CANCELLED, "the dataset was closed");
}

void host_calls_defer(HostCalls *h, HostDeferred *d) {
  if (is_here() && !h->depth) {
    d->run(d);
    return;
  }
  pthread_mutex_lock(&h->mutex);
  d->next = h->deferred;
  h->deferred = d;
  atomic_fetch_add(&h->pending, 1);
  pthread_mutex_unlock(&h->mutex);
}

void host_calls_free(HostCalls *h) {
  if (!h) return;
  run_deferred(h); /* there are no requests any more, but datasets may still wait to be freed */
  pthread_cond_destroy(&h->changed);
  pthread_mutex_destroy(&h->mutex);
  free(h);
}
