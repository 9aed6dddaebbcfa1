/* Which values are written over what they replace. */
#ifndef IPULUA_PROGRAM_IN_PLACE_H
#define IPULUA_PROGRAM_IN_PLACE_H
#include "program/lower.h"

/* Decide which outputs go straight to their targets; lower_outputs copies the others that a pass
 * makes (0 where there are none; inputs and constants count for pass 0). */
void lower_in_place(Lower *l, Region *r, const int *inputs, const int *targets, bool *direct);
void lower_outputs(Lower *l, Region *r, const int *targets, int pass, Block *b);
int region_output_pass(const Region *r, int output);
/* nobody reads v after last */
bool region_read_last_by(const Region *r, const Value *v, const Node *last);
#endif
