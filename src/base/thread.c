#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

static _Thread_local bool is_own;

bool thread_is_own(void) { return is_own; }

static void *begin(void *thread) {
  const Thread *t = thread;
  is_own = true;
  return t->main(t->context);
}

int thread_create(Thread *thread, void *(*main)(void *), void *context) {
  thread->main = main, thread->context = context;
  sigset_t others, before;
  sigemptyset(&others);
  sigaddset(&others, SIGINT);
  sigaddset(&others, SIGWINCH);
  sigaddset(&others, SIGCONT);
  pthread_sigmask(SIG_BLOCK, &others, &before); /* the new thread inherits it */
  int status = pthread_create(&thread->id, NULL, begin, thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}
