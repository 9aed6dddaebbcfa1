/* Copies out of a deferred trace (graph/trace.h): what a session fetches becomes a root trace of
 * its own, with the shapes that are fed. */
#ifndef IPULUA_TRANSFORM_FETCH_H
#define IPULUA_TRANSFORM_FETCH_H
#include "graph/trace.h"

/* What is given from outside: any value of the trace. */
typedef struct Fed {
  Value *value;
  Type type; /* as fed */
} Fed;

/* Copy what the fetched values need into the empty root trace `to`: the fed values become its
 * arguments, in that order. Effects whose triggers are needed are needed too, and happen in
 * their order. result[i] is the copy of fetched[i]. The message of a failure is in
 * to->graph->error. */
Status clone_fetched(const Trace *from, const Fed *fed, int fed_count, Value *const *fetched,
                     int fetched_count, Trace *to, Value **result);
/* v's type with -1 for each extent that depends on what is fed. */
Type clone_declared_type(const Trace *from, Value *v);
#endif
