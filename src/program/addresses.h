/* Where a program's buffers lie. */
#ifndef IPULUA_PROGRAM_ADDRESSES_H
#define IPULUA_PROGRAM_ADDRESSES_H
#include "program/lower.h"

/* Memory for all buffers; every pointer is set, or found by its argument. */
Status lower_addresses(Lower *l);
/* The links of a buffer are *from … *to - 1, once they are sorted. */
void lower_links_of(const Program *p, int buffer, int *from, int *to);
/* For a team that has grown since p was compiled: scratch, and second buffers for elements that
 * are read ahead. */
Status program_fit_team(Error *e, Program *p, int threads);
#endif
