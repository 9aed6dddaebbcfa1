/* Other threads' requests for work that only the script's thread may do, such as calling Lua. The
 * script's thread serves them inside calls of the library: host_calls_serve between steps,
 * host_calls_wait instead of blocking. All dataset threads wait at the one monitor in here. So a
 * thread that waits for an element can serve the thread that makes it. */
#ifndef IPULUA_DATA_HOST_CALL_H
#define IPULUA_DATA_HOST_CALL_H
#include <pthread.h>

#include "base/status.h"

typedef struct HostCalls HostCalls;

/* The script's thread is the one from outside of this library that calls it, and may change from
 * one call to the next. NULL when memory is out. */
HostCalls *host_calls_new(void);
/* allowed after the last use by any thread; runs deferred work */
void host_calls_free(HostCalls *h);
/* Whose request the script's thread is answering: nobody's, `thread`'s own, or another thread's. In
 * the last case `thread` may be waiting for that other one. */
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
  HostRequest *outer; /* the request in whose middle this one is answered; NULL: none */
};
void host_request_init(HostRequest *r, Status (*run)(HostRequest *, Error *),
                       void (*release)(HostRequest *));
void host_request_release(HostRequest *r);

/* Called with the monitor held, which it must not lock. */
typedef bool (*HostPredicate)(void *context);

/* Run r on the script's thread (at once when this is it) and wait. ERR_CANCELLED when given up:
 * then r's results must not be touched. The caller keeps its reference. */
Status host_call(HostCalls *h, Error *e, HostRequest *r, HostPredicate given_up, void *context);
/* Run waiting requests; nothing on other threads. */
void host_calls_serve(HostCalls *h);
/* Block until ready(context), serving meanwhile when this is the script's thread. */
void host_calls_wait(HostCalls *h, HostPredicate ready, void *context);
/* To be called after a waiter's condition was made true; cheap without waiters. The condition must
 * be a sequentially consistent atomic. */
void host_calls_notify(HostCalls *h);

/* Work for the script's thread at a later time, never inside a request. It frees objects that a
 * running request may be using. The node belongs to the thing itself, so deferring can't fail. */
typedef struct HostDeferred HostDeferred;
struct HostDeferred {
  void (*run)(HostDeferred *d);
  HostDeferred *next;
};
void host_calls_defer(HostCalls *h, HostDeferred *d);
#endif
