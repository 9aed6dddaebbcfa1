/* Steps of loops, branches and calls. */
#ifndef IPULUA_MACHINE_WALK_CONTROL_H
#define IPULUA_MACHINE_WALK_CONTROL_H
#include "machine/walk.h"

void walk_control(PricingContext *w, PricedRegion *in, Node *n);
#endif
