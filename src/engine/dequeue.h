/* Elements of queues. */
#ifndef IPULUA_ENGINE_DEQUEUE_H
#define IPULUA_ENGINE_DEQUEUE_H
#include "engine/run.h"

Status run_dequeue(Run *r, Step *s);
/* after a failure: prefetched elements go back to their queue */
void run_leave_loop(Run *r, const Block *body);
#endif
