/* Costs of equal nodes are worked out once. */
#ifndef IPULUA_MACHINE_COSTS_H
#define IPULUA_MACHINE_COSTS_H
#include "base/map.h"
#include "machine/priced.h"

typedef struct CostTable {
  Arena *arena;
  Map *by_key;
  const Machine *machine;
} CostTable;
const Cost *cost_of_node(CostTable *t, const Node *n); /* NULL: memory is out */
bool node_has_price(const Node *n);
#endif
