#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

int thread_create(pthread_t *thread, void *(*main)(void *), void *context) {
  sigset_t others, before;
  sigemptyset(&others);
  sigaddset(&others, SIGINT);
  sigaddset(&others, SIGWINCH);
  sigaddset(&others, SIGCONT);
  pthread_sigmask(SIG_BLOCK, &others, &before); /* the new thread inherits it */
  int status = pthread_create(thread, NULL, main, context);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}
