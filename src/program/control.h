/* Steps of loops, branches and calls. */
#ifndef IPULUA_PROGRAM_CONTROL_H
#define IPULUA_PROGRAM_CONTROL_H
#include "program/lower.h"

void lower_control(Lower *l, Region *r, Node *n, Block *b);
#endif
