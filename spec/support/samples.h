/* Cases from the sample strings of rows (op.h says how they are written): operands with values,
 * attributes. */
#ifndef SPEC_SAMPLES_H
#define SPEC_SAMPLES_H
#include <stdarg.h>

#include "graph/graph.h"

enum { SAMPLE_OPERANDS = 16 };

typedef struct SampleOperand {
  char letter;
  int64_t below; /* I, S */
  Type type;     /* float64, int32 or bool */
  double *value; /* [type_count] */
} SampleOperand;

typedef struct Sample {
  const OpDef *op;
  const char *text; /* of this case alone */
  int count;        /* the step counter of RANDOM rows is the last one */
  SampleOperand operand[SAMPLE_OPERANDS];
  Attr attr[MAX_ATTRS];
} Sample;

/* The next case of *text, which moves on to the end of the case. false at the end, or, with e
 * filled, when it can't be read. All memory is the arena's. Values depend on op and position
 * alone. */
bool sample_next(Error *e, Arena *a, const OpDef *op, const char **text, Sample *out);
static inline bool sample_is_float(const SampleOperand *o) {
  return strchr("FPUDMW", o->letter) != NULL;
}
/* The operands' dtypes: floats as real, integers as integer (the counter stays int64). */
Type sample_type(const Sample *s, int operand, Dtype real, Dtype integer);
Tensor *sample_tensor(Error *e, const Sample *s, int operand, Dtype real, Dtype integer);
/* Append the case to a graph: inputs, then the node. NULL with g->error set when infer refuses. */
Node *sample_node(Graph *g, const Sample *s, Dtype real, Dtype integer);
char *arena_print(Arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether a sweep's arguments name the row; without arguments each is wanted. */
bool sample_wanted(const OpDef *op, int argc, char **argv);
/* How many arguments name no op; a line tells of each. */
int sample_unknown(int argc, char **argv);
#endif
