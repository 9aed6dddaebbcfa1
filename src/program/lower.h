/* Graph to steps. Failures are kept in Lower.error, and all functions may be called after one. */
#ifndef IPULUA_PROGRAM_LOWER_H
#define IPULUA_PROGRAM_LOWER_H
#include "program/program.h"
#include "program/region.h"

typedef struct Lower {
  Error *error;
  Program *p;
  int threads;
  int position; /* of the step being emitted */
  Pass *pass;   /* the pipeline's pass that it belongs to; NULL: none */
} Lower;

Status lower_no_memory(Lower *l);
/* -1 after a failure */
int lower_buffer(Lower *l, BufferKind kind, size_t bytes, const Node *node);
void lower_touch(Lower *l, int buffer, int position);
/* *where will point to buffer; the step being emitted uses it. */
void lower_link(Lower *l, int buffer, void *where);
Step *lower_step(Lower *l, Block *b, StepKind kind, const Node *n);
void lower_copy(Lower *l, Block *b, int from, int to, size_t bytes, const Node *n);
void lower_node(Lower *l, Region *r, Node *n, Block *b);
Status lower_region(Lower *l, const Graph *g, const int *inputs, const int *targets, Block *block);
/* lower_operand returns the buffer that v is read from, and lower_result the one that it is written
 * to. That is a buffer decided before (in place, result), or a new one. -1 after a failure. */
int lower_operand(Lower *l, Region *r, Value *v);
int lower_result(Lower *l, Region *r, Value *v);
/* The configuration's options, with the rounding that a scope has set for n. */
const Numerics *lower_numerics(Lower *l, const Node *n);
#endif
