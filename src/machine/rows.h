/* What the files that price a program share. Inside machine/ only. */
#ifndef IPULUA_MACHINE_ROWS_H
#define IPULUA_MACHINE_ROWS_H
#include "base/map.h"
#include "machine/place.h"

/* Costs of equal nodes are worked out once. */
typedef struct CostTable {
  Arena *arena;
  Map *by_key;
  const Machine *machine;
} CostTable;
const Cost *cost_of_node(CostTable *t, const Node *n); /* NULL: memory is out */
bool node_has_price(const Node *n);

/* layout.c: stages, shards and replicas. */
Status choose_layout(Error *e, Price *p, const Graph *g, const Placer *placer);
/* walk.c: rows and what takes memory. */
Status walk_program(Error *e, Price *p, const Program *program);
/* merge.c: moves that are joined. time.c: cycles, time lines. memory.c: bytes by tile. */
bool price_merge(Price *p); /* false: memory is out */
Status price_time(Error *e, Price *p);
bool price_memory(Price *p);
/* io_tiles.c: what lies on tiles of its own, and what a loop needn't wait for. False: memory is
 * out. */
bool price_io_tiles(Price *p);
bool price_overlap(Price *p);
int price_ipu_of_stage(const Price *p, int stage);
#endif
