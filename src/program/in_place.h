/* Values that are written over the values that they replace. */
#ifndef IPULUA_PROGRAM_IN_PLACE_H
#define IPULUA_PROGRAM_IN_PLACE_H
#include "program/lower.h"

/* Decides which outputs are written directly to their targets (direct). lower_outputs copies the
 * other outputs of a pass. Without passes it is 0, and inputs and constants belong to pass 0. */
void lower_in_place(Lower *l, Region *r, const int *inputs, const int *targets, bool *direct);
void lower_outputs(Lower *l, Region *r, const int *targets, int pass, Block *b);
int region_output_pass(const Region *r, int output);
/* Whether v has no reader after `last`. */
bool region_read_last_by(const Region *r, const Value *v, const Node *last);
#endif
