/* The memory and the pointers of a program's buffers. */
#ifndef IPULUA_PROGRAM_ADDRESSES_H
#define IPULUA_PROGRAM_ADDRESSES_H
#include "program/lower.h"

/* Plans the memory of all buffers, and sets every pointer. Pointers to arguments are linked
 * instead, to be set by binding. */
Status lower_addresses(Lower *l);
/* The sorted links of a buffer: *from … *to - 1. */
void lower_links_of(const Program *p, int buffer, int *from, int *to);
/* Adapts p to a team that has grown since it was compiled: scratch memory, and second buffers for
 * elements that are read ahead. */
Status program_fit_team(Error *e, Program *p, int threads);
#endif
