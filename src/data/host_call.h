/* Work that only the script's own thread may do (calling Lua), asked for by other threads. The
 * script's thread serves requests while it is inside a call of the library: host_calls_serve
 * between steps, host_calls_wait instead of blocking. All waiting of dataset threads goes
 * through the one monitor in here, so that waiting for an element and serving the thread that
 * makes it are one wait. */
#ifndef IPULUA_DATA_HOST_CALL_H
#define IPULUA_DATA_HOST_CALL_H
#include <pthread.h>

#include "base/status.h"

typedef struct HostCalls HostCalls;

/* the calling thread becomes the script's thread; NULL when memory is out */
HostCalls *host_calls_new(void);
/* when no thread uses it any more; runs what was deferred */
void host_calls_free(HostCalls *h);
/* Whom the script's thread is answering: that thread, which then waits; another one, whom that
 * thread may wait for; or nobody. */
typedef enum HostAsker { ASKED_BY_NOBODY, ASKED_BY_IT, ASKED_BY_ANOTHER } HostAsker;
HostAsker host_calls_asker(const HostCalls *h, pthread_t thread);

/* A request is the head of a larger struct with its arguments and results. It is counted because
 * the asker may give up (its iterator was closed) while the script's thread is in the middle of
 * it. */
typedef struct HostRequest HostRequest;
struct HostRequest {
  Status (*run)(HostRequest *r, Error *e); /* on the script's thread */
  /* with the last reference, on the thread that drops it */
  void (*free)(HostRequest *r);
  Error error;
  _Atomic int references;
  _Atomic int state;
  HostRequest *next;
  pthread_t asker;
  HostRequest *outer; /* in the midst of which this one is answered */
};
void host_request_init(HostRequest *r, Status (*run)(HostRequest *, Error *),
                       void (*release)(HostRequest *));
void host_request_release(HostRequest *r);

/* Is the asker no longer interested? Asked under the monitor: must not lock it. */
typedef bool (*HostPredicate)(void *context);

/* Run r on the script's thread (at once when this is it) and wait. ERR_CANCELLED when given up:
 * then r's results must not be touched. The caller keeps its reference. */
Status host_call(HostCalls *h, Error *e, HostRequest *r, HostPredicate given_up, void *context);
/* Run waiting requests; nothing on other threads. */
void host_calls_serve(HostCalls *h);
/* Block until ready(context), serving meanwhile when this is the script's thread. */
void host_calls_wait(HostCalls *h, HostPredicate ready, void *context);
/* Whoever makes a waiter's condition true calls this afterwards; cheap when nobody waits. The
 * condition must be a sequentially consistent atomic. */
void host_calls_notify(HostCalls *h);

/* Something to be done on the script's thread some time later, never inside a request (dropping
 * what a running request may be using). The node belongs to the thing itself, so deferring can't
 * fail. */
typedef struct HostDeferred HostDeferred;
struct HostDeferred {
  void (*run)(HostDeferred *d);
  HostDeferred *next;
};
void host_calls_defer(HostCalls *h, HostDeferred *d);
#endif
