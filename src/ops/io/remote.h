/* Transfers between streaming memory and tiles, and shares of replicas. program/offload.c puts
 * them into graphs. */
#ifndef IPULUA_OPS_IO_REMOTE_H
#define IPULUA_OPS_IO_REMOTE_H
#include "graph/graph.h"

/* x, which lies in streaming memory, as a value on the tiles; of several shares this replica's,
 * as a list. */
Value *remote_load(Graph *g, Value *x, int shares);
/* x put into streaming memory; a share: into its position in `whole`, the value before. */
Value *remote_store(Graph *g, Value *x, Value *whole, int shares);
/* This replica's share of x, as a list. */
Value *replica_share(Graph *g, Value *x, int shares);
extern const OpDef ops_remote[];
bool node_is_load(const Node *n);
bool node_is_store(const Node *n);
static inline bool node_is_transfer(const Node *n) { return node_is_load(n) || node_is_store(n); }
/* A transfer of one slot of a tensor; the rest of it stays where it is. */
bool node_moves_slot(const Node *n);
/* How many shares the node's value was cut into; 1: none. */
int node_shares(const Node *n);
#endif
