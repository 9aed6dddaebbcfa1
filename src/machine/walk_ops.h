/* Steps of single ops, and the memory of their values. */
#ifndef IPULUA_MACHINE_WALK_OPS_H
#define IPULUA_MACHINE_WALK_OPS_H
#include "machine/walk.h"

/* Adds steps and allocations, each with the last step that needs it. */
PricedStep *walk_add_step(PricingContext *w, PricedKind kind, const Node *n,
                          int ipu); /* NULL: memory is out */
/* -1: memory is out */
int walk_add_allocation(PricingContext *w, PriceCategory category, const Node *n, double bytes,
                        int ipu);
void walk_touch(PricingContext *w, int allocation, int step);
int *walk_new_list(PricingContext *w, int count); /* of -1 */
int walk_ipu_of(const PricingContext *w, const Home *h);
bool walk_is_on_host(const PricingContext *w, int allocation);
int *walk_slot_of(PricedRegion *in, const Value *v);
/* That allocation holds v from now on. */
void walk_set_slot(PricingContext *w, PricedRegion *in, const Value *v, int allocation);
void walk_written(PricingContext *w, int allocation); /* copies of it are of an older value */
/* The allocation of v, brought to that IPU; the one that an operand of a control node is, without
 * moving it. */
int walk_local(PricingContext *w, PricedRegion *in, Value *v, int ipu, const Node *reader);
int walk_operand_allocation(PricingContext *w, PricedRegion *in, Value *v);
bool walk_is_free(const Node *n);
void walk_op(PricingContext *w, PricedRegion *in, Node *n);
void walk_transfer(PricingContext *w, PricedRegion *in, Node *n);
void walk_broadcast(PricingContext *w, PricedRegion *in, Node *n);
void walk_dequeue(PricingContext *w, PricedRegion *in, Node *n);
void walk_enqueue(PricingContext *w, PricedRegion *in, Node *n);
void walk_host(PricingContext *w, PricedRegion *in, Node *n);
#endif
