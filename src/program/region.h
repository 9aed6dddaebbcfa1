/* The state of lowering for one graph: readers, fused groups, and buffers of values. */
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
  bool products; /* have steps of their own; no events are looked for in those */
  bool *live;
  const int *pass; /* of each node of a pipeline's body; NULL: all are in one */
  /* the readers of node i are reader[reader_begin[i] … reader_begin[i+1]), where node_count means
   * an output */
  int *reader_begin, *reader;
  int *group_of; /* -1: none */
  Group *group;
  int group_count;
  /* the order in which nodes run, and the position of each node in it (order.c); NULL: trace
   * order */
  int *sequence, *position;
  Numbering values;
  int *buffer; /* by value; -1: not yet */
} Region;

/* The value that v is a view of, and the value that a fused operand may read instead of v, past
 * broadcasts. */
Value *value_root(Value *v);
Value *value_operand(const Node *reader, int k);
bool node_is_broadcast(const Node *n);
/* Whether each reader computes it itself, from its one operand. */
bool node_is_light(const Node *n);
bool node_is_fusible(const Node *n);
bool node_is_gemm(const Node *n);
/* Rows and columns of a product of two matrices (leading dimensions of a are rows). */
void gemm_extents(const Node *n, int64_t *rows, int64_t *cols, int64_t *inner);
int region_group(const Region *r, int node); /* with merges followed; -1: none */
/* The node's position in the order: its group's last member's. Outputs come after all nodes. */
int region_position(const Region *r, int node);
bool region_read_outside(const Region *r, int node); /* it has a reader outside its group */
int *region_slot(Region *r, const Value *v);         /* the buffer of v */
#endif
