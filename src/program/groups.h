/* The steps of fused groups. */
#ifndef IPULUA_PROGRAM_GROUPS_H
#define IPULUA_PROGRAM_GROUPS_H
#include "program/lower.h"

void lower_group(Lower *l, Region *r, const Group *g, Block *b);
/* A matrix product with the group that runs on its blocks; NULL: none. */
void lower_product(Lower *l, Region *r, Node *n, const Group *g, Block *b);
#endif
