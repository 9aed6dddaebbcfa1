/* The order in which a region's nodes run. */
#ifndef IPULUA_PROGRAM_ORDER_H
#define IPULUA_PROGRAM_ORDER_H
#include "program/region.h"

/* Output i replaces each input j with inputs[j] = targets[i] (NULL: none does). With singles there
 * are no groups, and elementwise nodes move one by one. False: out of memory. */
bool region_order(Region *r, const int *inputs, const int *targets, bool singles);
#endif
