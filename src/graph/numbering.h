/* Numbers the values of a graph in the order of its nodes, so that facts about them can be
 * arrays. */
#ifndef IPULUA_GRAPH_NUMBERING_H
#define IPULUA_GRAPH_NUMBERING_H
#include "base/arena.h"
#include "graph/graph.h"

typedef struct Numbering {
  int *first; /* the number of node i's first output */
  int count;  /* of values */
} Numbering;

bool number_values(Arena *a, const Graph *g, Numbering *n); /* false: memory is out */
static inline int value_number(const Numbering *n, const Value *v) {
  return n->first[v->node->id] + v->index;
}
#endif
