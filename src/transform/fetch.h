/* Copies out of a deferred trace (graph/trace.h). A session's fetches become a root trace, with the
 * fed shapes. */
#ifndef IPULUA_TRANSFORM_FETCH_H
#define IPULUA_TRANSFORM_FETCH_H
#include "graph/trace.h"

/* A value of the trace that is given from outside. */
typedef struct Fed {
  Value *value;
  Type type; /* as fed */
} Fed;

/* Copies the nodes that the fetched values need into the empty root trace `to`. The fed values
 * become its arguments, in order. Effects whose triggers are needed are copied, too, and keep their
 * order. result[i] is the copy of fetched[i]. The message of a failure is in to->graph->error. */
Status clone_fetched(const Trace *from, const Fed *fed, int fed_count, Value *const *fetched,
                     int fetched_count, Trace *to, Value **result);
/* v's type, with -1 for each extent that depends on fed shapes. */
Type clone_declared_type(const Trace *from, Value *v);
#endif
