/* What of a run can be thrown away half-way: all that was computed since the run, or the
 * iteration of a loop that it is in, began, as long as nothing was changed that outlives it. A
 * Ctrl-C ends it there, between steps and in the midst of a long one. */
#ifndef IPULUA_ENGINE_DROP_H
#define IPULUA_ENGINE_DROP_H
#include "engine/run.h"

/* Find the steps that change a variable, a queue or what ops keep. Once for each program, when
 * its variables are bound. */
void drop_find_changes(Program *p);

void drop_begin(Run *r);
/* Before something is changed, and at the end. Fails when a step was left half done. */
Status drop_end(Run *r);
#endif
