/* Values that a loop reads and doesn't change cross the links once, before it. */
#ifndef IPULUA_MACHINE_WALK_AHEAD_H
#define IPULUA_MACHINE_WALK_AHEAD_H
#include "machine/walk.h"

/* Brings values that the loop n only reads to the IPUs that read them inside, once. */
void walk_send_ahead(PricingContext *w, PricedRegion *in, Node *n, const bool *changes);
#endif
