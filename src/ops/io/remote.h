/* Transfers between streaming memory and tiles, and shares of replicas. program/offload.c puts
 * them into graphs. */
#ifndef IPULUA_OPS_IO_REMOTE_H
#define IPULUA_OPS_IO_REMOTE_H
#include "graph/graph.h"

/* Loads x from streaming memory to the tiles. With several shares: this replica's share, as a
 * vector. */
Value *remote_load(Graph *g, Value *x, int shares);
/* Stores x into streaming memory. A share is stored into its position of `whole`, the previous
 * value. */
Value *remote_store(Graph *g, Value *x, Value *whole, int shares);
/* This replica's share of x, as a vector. */
Value *replica_share(Graph *g, Value *x, int shares);
extern const OpDef ops_remote[];
bool node_is_load(const Node *n);
bool node_is_store(const Node *n);
static inline bool node_is_transfer(const Node *n) { return node_is_load(n) || node_is_store(n); }
/* Whether n transfers one slot of a tensor, and leaves the others in place. */
bool node_moves_slot(const Node *n);
/* The number of shares that the node's value is cut into; 1: it isn't. */
int node_shares(const Node *n);
#endif
