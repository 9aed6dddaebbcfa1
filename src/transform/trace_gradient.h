/* Gradients in a function that is being traced. */
#ifndef IPULUA_TRANSFORM_TRACE_GRADIENT_H
#define IPULUA_TRANSFORM_TRACE_GRADIENT_H
#include "graph/trace.h"

/* A source of gradients: one of these. */
typedef struct Source {
  Value *value;             /* of the trace or of one around it */
  const Variable *variable; /* all its readings */
  Tensor *tensor;           /* known while tracing */
} Source;

/* The part of a trace that a tape has recorded: the nodes first … end-1, and the nodes from `late`
 * on. The latter are known values, added by the call for gradients. */
typedef struct Recorded {
  const Trace *trace;
  int first, end, late;
} Recorded;

/* Sets dx[i] to d(sum of ys · dys) / d source[i], in t, or to NULL if there is no path. ys and dys
 * (or NULL) are t's. Values that t took from enclosing traces may depend on the sources; their
 * computation is repeated in t. recorded limits the paths to the recorded nodes of the traces in
 * it. Other traces are recorded whole. NULL: all are. */
Status trace_gradients(Trace *t, Value *const *ys, Value *const *dys, int y_count,
                       const Source *source, int source_count, const Recorded *recorded,
                       int recorded_count, Value **dx);

/* From now on v has this value. Later readings are of the variable. Gradients by v count them, and
 * gradients by the assigned value go through them. */
void trace_assign_value(Trace *t, Variable *v, Value *value);
#endif
