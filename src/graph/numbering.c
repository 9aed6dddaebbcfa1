#include "graph/numbering.h"

bool number_values(Arena *a, const Graph *g, Numbering *n) {
  *n = (Numbering){.first = arena_alloc(a, (size_t)(g->node_count + 1) * sizeof *n->first)};
  for (int i = 0; n->first && i < g->node_count; i++) {
    n->first[i] = n->count;
    n->count += g->node[i]->out_count;
  }
  return n->first != NULL;
}
