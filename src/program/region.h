/* What lowering knows about one graph: who reads what, what is fused with what, where values
 * lie. */
#ifndef IPULUA_PROGRAM_REGION_H
#define IPULUA_PROGRAM_REGION_H
#include "base/arena.h"
#include "graph/numbering.h"

enum { GROUP_MEMBERS = 24 };

/* Elementwise nodes that run as one chain, at the position of the last; possibly on the blocks
 * of a matrix product. */
typedef struct Group {
  int member[GROUP_MEMBERS]; /* node ids, rising */
  int count, last;
  int gemm; /* node id; -1: none */
  Type shape;
  int merged_into; /* -1: itself */
  int shard;       /* -1: no member was given one */
} Group;

typedef struct Region {
  const Graph *graph;
  Arena *arena; /* scratch of this region */
  bool fuse;
  bool *live;
  const int *pass; /* of each node of a pipeline's body; NULL: all are in one */
  /* readers of node i: reader[reader_begin[i] … reader_begin[i+1]); node_count: an output */
  int *reader_begin, *reader;
  int *group_of; /* -1: none */
  Group *group;
  int group_count;
  /* the order in which nodes run, and where a node is in it (order.c); NULL: trace order */
  int *sequence, *position;
  Numbering values;
  int *buffer; /* by value; -1: not yet */
} Region;

/* The value whose bytes v's are (through views), and what a fused operand may read instead of v
 * (through broadcasts). */
Value *value_root(Value *v);
Value *value_operand(const Node *reader, int k);
bool node_is_broadcast(const Node *n);
/* Is it made anew by whoever reads it, from its one operand? */
bool node_is_light(const Node *n);
bool node_is_fusible(const Node *n);
bool node_is_gemm(const Node *n);
/* Rows and columns of a product of two matrices (leading dimensions of a are rows). */
void gemm_extents(const Node *n, int64_t *rows, int64_t *cols, int64_t *inner);
int region_group(const Region *r, int node); /* with merges followed; -1: none */
/* when the node runs: with its group's last; outputs come after all */
int region_position(const Region *r, int node);
bool region_read_outside(const Region *r, int node); /* somebody outside node's group reads it */
int *region_slot(Region *r, const Value *v);         /* the buffer of v */
#endif
