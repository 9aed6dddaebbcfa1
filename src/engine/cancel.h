/* Cancelling a run half-way. A Ctrl-C ends a run, or an iteration of a loop, between two steps or
 * in the midst of a long one. It does so if nothing that outlives it was changed since it began. */
#ifndef IPULUA_ENGINE_CANCEL_H
#define IPULUA_ENGINE_CANCEL_H
#include "engine/run.h"

/* Find the steps that change a variable, a queue or an op's state. Once for each program, when its
 * variables are bound. */
void cancel_find_changes(Program *p);

void cancel_begin(Run *r);
/* Before something is changed, and at the end. Fails when a step was left half done. */
Status cancel_end(Run *r);
#endif
