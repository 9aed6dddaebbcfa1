/* Threads of the library. What the keyboard and the window send belongs to the thread that reads
 * them: a signal that a worker took would not end the other's wait. */
#ifndef IPULUA_BASE_THREAD_H
#define IPULUA_BASE_THREAD_H
#include <pthread.h>

/* pthread_create for a thread to which no SIGINT, SIGWINCH or SIGCONT is delivered. */
int thread_create(pthread_t *thread, void *(*main)(void *), void *context);
#endif
