/* Threads of the library. Signals of the terminal must reach the thread that reads from it. If a
 * worker received them, that thread would go on waiting. */
#ifndef IPULUA_BASE_THREAD_H
#define IPULUA_BASE_THREAD_H
#include <pthread.h>
#include <stdbool.h>

/* A thread; lives until it is joined. */
typedef struct Thread {
  pthread_t id;
  void *(*main)(void *);
  void *context;
} Thread;

/* pthread_create for a thread to which no SIGINT, SIGWINCH or SIGCONT is delivered. */
int thread_create(Thread *thread, void *(*main)(void *), void *context);
/* Was the calling thread made by thread_create? */
bool thread_is_own(void);
#endif
