/* The IPU and stage of every value of a program. Scopes give them to nodes; a node without a scope
 * takes them from its operands, or else from its readers. */
#ifndef IPULUA_MACHINE_PLACE_H
#define IPULUA_MACHINE_PLACE_H
#include "base/arena.h"
#include "graph/numbering.h"

typedef struct Home {
  int shard, stage; /* -1: none */
  bool known, backward;
} Home;

typedef struct Homes Homes;
struct Homes {
  const Graph *graph;
  Home *home; /* by value */
  Numbering values;
  Homes *next;
};

typedef struct Placer {
  Arena *arena;
  Homes *list; /* one for each region */
  int max_stage, max_shard;
  bool failed; /* memory is out */
} Placer;

void place_program(Placer *p, const Graph *g);
Homes *place_find(const Placer *p, const Graph *g);
static inline const Home *home_of(const Homes *h, const Value *v) {
  return &h->home[value_number(&h->values, v)];
}
#endif
