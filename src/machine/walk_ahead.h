/* What a loop reads and doesn't change crosses the links once, before it. */
#ifndef IPULUA_MACHINE_WALK_AHEAD_H
#define IPULUA_MACHINE_WALK_AHEAD_H
#include "machine/walk.h"

/* What the loop n only reads is brought to the IPUs that read it inside, once. */
void walk_send_ahead(PricingContext *w, PricedRegion *in, Node *n, const bool *changes);
#endif
