#include "dist/instances.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "dist/gather.h"
#include "dist/internal.h"
#include "dist/notices.h"
#include "dist/shared.h"

int instances_rank(const Instances *t) { return t->rank; }
int instances_count(const Instances *t) { return t->count; }
const char *instances_library(const Instances *t) { return t->library; }
const char *instances_host(const Instances *t, int instance) { return t->peer[instance].host; }
Statistics instances_statistics(const Instances *t) { return t->statistics; }
MeetingTotals instances_told(const Instances *t, int instance) { return t->peer[instance].told; }
bool instances_asked_to_stop(const Instances *t) { return t->stop_flags & FLAG_STOP; }
void instances_forget_stop(Instances *t) { t->stop_flags = 0; }

/* ---- begin ---- */

static Status open_plugin(Error *e, const char *path, const Comm **out) {
  /* It stays loaded: libraries of MPI leave threads and handlers running. */
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(e, ERR_RUNTIME, "%s", dlerror());
  *out = dlsym(library, COMM_SYMBOL);
  if (!*out) return fail(e, ERR_RUNTIME, "%s: no plug-in for communication", path);
  if ((*out)->version != COMM_VERSION || (*out)->struct_size != (int32_t)sizeof(Comm))
    return fail(e, ERR_RUNTIME, "%s: made for another version of ipulua", path);
  return OK;
}

static bool allocate(Instances *t) {
  t->peer = calloc((size_t)t->count, sizeof *t->peer);
  t->own = malloc(MESSAGE_BYTES);
  bool made = t->peer && t->own;
  for (int q = 0; q < t->count && made; q++)
    made = q == t->rank || (t->peer[q].message = malloc(MESSAGE_BYTES)) != NULL;
  if (made && t->count) t->peer[t->rank].message = t->own;
  return made;
}

static Status join(Instances *t, const char *launcher, int rank, int size, Error *e) {
  int32_t r = 0, n = 0;
  int code = t->comm->begin(&r, &n, t->library, sizeof t->library);
  if (code)
    return fail(e, ERR_RUNTIME, "%s can't begin: %s",
                t->library[0] ? t->library : "the communication library", t->comm->words(code));
  if (r != rank || n != size)
    return fail(
        e, ERR_FAILED_PRECONDITION,
        "launched as %d of %d by %s, but %s sees %d of %d; set IPULUA_COMM or use the launcher of that library",
        rank, size, launcher, t->library, (int)r, (int)n);
  t->rank = rank, t->count = size;
  return allocate(t) ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
}

/* Exchanges host names and process ids, with which a wait can test whether a process still
 * exists. */
static Status introduce(Instances *t, Error *e) {
  struct {
    char host[64];
    int64_t pid;
  } own = {.pid = getpid()};
  Brought *from = calloc((size_t)t->count, sizeof *from);
  if (!from) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  gethostname(own.host, sizeof own.host - 1);
  Status s = instances_gather_first(t, &own, sizeof own, from, e);
  for (int q = 0; q < t->count && s == OK; q++) {
    memcpy(&own, from[q].data, sizeof own);
    memcpy(t->peer[q].host, own.host, sizeof own.host);
    t->peer[q].pid = own.pid;
  }
  free(from);
  return s;
}

/* SIGTERM: launchers send it after another instance has failed, and at Ctrl-C. Either way the
 * script is interrupted. While os.execute waits, SIGINT is ignored; then the script is interrupted
 * after it. */
static void on_terminate(int number) {
  struct sigaction now;
  (void)number;
  interrupt_terminate();
  if (!sigaction(SIGINT, NULL, &now) && now.sa_handler == SIG_IGN) interrupt_raise();
  else raise(SIGINT);
}

static void hear_launcher(void) {
  struct sigaction before, ours = {.sa_handler = on_terminate, .sa_flags = SA_RESTART};
  sigemptyset(&ours.sa_mask);
  if (!sigaction(SIGTERM, NULL, &before) && before.sa_handler == SIG_DFL)
    sigaction(SIGTERM, &ours, NULL);
}

static double read_timeout(void) {
  const char *text = getenv("IPULUA_COMM_TIMEOUT");
  char *end = NULL;
  double seconds = text && *text ? strtod(text, &end) : 0;
  return end && end != text && !*end && seconds >= 0 ? seconds : 600;
}

Status instances_begin(Error *e, const char *plugin, const char *launcher, int rank, int size,
                       Instances **out) {
  Instances *t = calloc(1, sizeof *t);
  if (!t) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  pthread_mutex_init(&t->lock, NULL);
  log_init(&t->log, getenv("IPULUA_LOG"));
  t->timeout = read_timeout();
  Status s = open_plugin(e, plugin, &t->comm);
  if (s == OK) s = join(t, launcher, rank, size, e);
  if (s == OK) s = introduce(t, e);
  if (s == OK) s = shared_begin(t, e);
  if (s == OK) hear_launcher();
  if (s == OK) *out = t;
  /* memory that the library still uses stays allocated: the process is about to end */
  else free(t);
  return s;
}

/* ---- in between ---- */

void instances_fail(Instances *t, Error *e) {
  pthread_mutex_lock(&t->lock);
  if (t->failure.status == OK) {
    char words[WORDS];
    snprintf(words, sizeof words, "instance %d failed: %s%s%.1200s", t->rank, e->source,
             e->source[0] ? ": " : "", e->message);
    t->failure = *e;
    notice_send(t, NOTICE_FAIL, 1, words);
    notices_sent(t);
  }
  pthread_mutex_unlock(&t->lock);
}

Status instances_look(Instances *t, Error *e) {
  static const double interval = 0.05;
  double now = clock_seconds();
  if (now - t->looked < interval) return OK;
  /* another thread is in a meeting, and reads notices there */
  if (pthread_mutex_trylock(&t->lock)) return OK;
  t->looked = now;
  notices_take(t);
  notices_sent(t);
  Status s = OK;
  if (t->different) s = tell_difference(t, NULL, e);
  else if (t->failure.status != OK) *e = t->failure, s = e->status;
  pthread_mutex_unlock(&t->lock);
  return s;
}

/* ---- end ---- */

static bool all_have_ended(const Instances *t) {
  for (int q = 0; q < t->count; q++)
    if (q != t->rank && !t->peer[q].ended) return false;
  return true;
}

static bool any_failed(const Instances *t) {
  for (int q = 0; q < t->count; q++)
    if (t->peer[q].end_status) return true;
  return t->failure.status != OK;
}

/* False: an instance doesn't end within the time limit after a failure. */
static bool wait_for_ends(Instances *t, int status) {
  static const double max = 3;
  double failed_since = 0;
  for (int turns = 0; !all_have_ended(t); turns++) {
    notices_take(t);
    notices_sent(t);
    if (t->different) tell_difference(t, NULL, &(Error){0});
    double now = clock_seconds();
    bool bad = status || any_failed(t) || interrupt_terminated();
    if (bad && failed_since == 0) failed_since = now;
    if (bad && now - failed_since > max) return false;
    nanosleep(&(struct timespec){.tv_nsec = turns < 1000 ? 50000 : 2000000}, NULL);
  }
  return true;
}

/* The communication library can't end while there are unanswered requests. */
static bool is_idle(Instances *t) {
  static const double max = 0.5;
  double began = clock_seconds();
  while (!notices_sent(t) && clock_seconds() - began < max)
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  return !t->sending && !t->abandoned;
}

int instances_end(Instances *t, int status, const char *words) {
  pthread_mutex_lock(&t->lock);
  notices_take(t);
  notice_send(t, NOTICE_END, status, words);
  bool all = wait_for_ends(t, status);
  if (!status && any_failed(t)) status = 1;
  if (!all || !is_idle(t)) t->comm->abort(status ? status : 1);
  else t->comm->end();
  pthread_mutex_unlock(&t->lock);
  return status;
}
