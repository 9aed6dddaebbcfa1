/* The sequence in which a region's nodes run. */
#ifndef IPULUA_PROGRAM_ORDER_H
#define IPULUA_PROGRAM_ORDER_H
#include "program/region.h"

/* Output i replaces each input j with inputs[j] = targets[i] (NULL: none does). With singles
 * nothing is grouped, and elementwise nodes may move one by one. False: out of memory. */
bool region_order(Region *r, const int *inputs, const int *targets, bool singles);
#endif
