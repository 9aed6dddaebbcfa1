#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

typedef struct Start {
  void *(*main)(void *);
  void *context;
} Start;

static _Thread_local bool is_own;

bool thread_is_own(void) { return is_own; }

static void *begin(void *argument) {
  Start s = *(Start *)argument;
  free(argument);
  is_own = true;
  return s.main(s.context);
}

int thread_create(pthread_t *thread, void *(*main)(void *), void *context) {
  Start *start = malloc(sizeof *start);
  if (!start) return ENOMEM;
  *start = (Start){main, context};
  sigset_t others, before;
  sigemptyset(&others);
  sigaddset(&others, SIGINT);
  sigaddset(&others, SIGWINCH);
  sigaddset(&others, SIGCONT);
  pthread_sigmask(SIG_BLOCK, &others, &before); /* the new thread inherits it */
  int status = pthread_create(thread, NULL, begin, start);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (status) free(start);
  return status;
}
