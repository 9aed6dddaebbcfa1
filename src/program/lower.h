/* What the files that lower a graph share (lower.c and those that it names). Failures stay in
 * Lower.error; everything is harmless after one. */
#ifndef IPULUA_PROGRAM_LOWER_H
#define IPULUA_PROGRAM_LOWER_H
#include "program/region.h"

typedef struct Lower {
  Error *error;
  Program *p;
  int threads;
  int position; /* of the step being emitted */
  Pass *pass;   /* of a pipeline that it belongs to; NULL: none */
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
/* The buffer that v is read from; the one that it is written to: decided before (in place,
 * result), or new. -1 after a failure. */
int lower_operand(Lower *l, Region *r, Value *v);
int lower_result(Lower *l, Region *r, Value *v);
/* what a scope said of its rounding wins over the configuration */
const Numerics *lower_numerics(Lower *l, const Node *n);

int *region_slot(Region *r, const Value *v); /* the buffer of v */
bool node_is_made(const Node *n);            /* neither an input nor a constant */

/* groups.c: what is fused; a matrix product with the group that runs on its blocks (NULL: none). */
void lower_group(Lower *l, Region *r, const Group *g, Block *b);
void lower_product(Lower *l, Region *r, Node *n, const Group *g, Block *b);

/* control.c */
void lower_control(Lower *l, Region *r, Node *n, Block *b);

/* in_place.c. Decide which outputs go straight to their targets; lower_outputs copies the others
 * that a pass makes (0 where there are none; inputs and constants count for pass 0). */
void lower_in_place(Lower *l, Region *r, const int *inputs, const int *targets, bool *direct);
void lower_outputs(Lower *l, Region *r, const int *targets, int pass, Block *b);
int region_output_pass(const Region *r, int output);
/* nobody reads v after last */
bool region_read_last_by(const Region *r, const Value *v, const Node *last);

/* place.c: memory for all buffers; every pointer is set, or found by its argument. */
Status lower_place(Lower *l);
/* The links of a buffer are *from … *to - 1, once they are sorted. */
void lower_links_of(const Program *p, int buffer, int *from, int *to);

/* pipeline.c: the passes of a pipelined loop, whose step s is. */
void lower_pipeline(Lower *l, Step *s, const int *inputs, const int *targets);
#endif
