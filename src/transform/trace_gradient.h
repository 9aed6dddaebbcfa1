/* Gradients in a function that is being traced. */
#ifndef IPULUA_TRANSFORM_TRACE_GRADIENT_H
#define IPULUA_TRANSFORM_TRACE_GRADIENT_H
#include "graph/trace.h"

/* What is asked for: one of these. */
typedef struct Source {
  Value *value;             /* of the trace or of one around it */
  const Variable *variable; /* all its readings, each counted by itself */
  Tensor *tensor;           /* known while tracing */
} Source;

/* What a tape has recorded of a trace: the nodes first … end-1, and those from late on, which are
 * known values that the question itself has brought. */
typedef struct Recorded {
  const Trace *trace;
  int first, end, late;
} Recorded;

/* dx[i] becomes d(sum of ys · dys) / d source[i], in t, or NULL where there is no path. ys and dys
 * (or NULL) are t's. What t took from the traces around it may depend on the sources: that part of
 * them is computed once more in t. recorded: through what else nothing passes; traces that it
 * doesn't name are recorded whole. NULL: all are. */
Status trace_gradients(Trace *t, Value *const *ys, Value *const *dys, int y_count,
                       const Source *source, int source_count, const Recorded *recorded,
                       int recorded_count, Value **dx);
#endif
