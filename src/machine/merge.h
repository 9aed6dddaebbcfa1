/* Moves that are joined. */
#ifndef IPULUA_MACHINE_MERGE_H
#define IPULUA_MACHINE_MERGE_H
#include "machine/priced.h"

bool price_merge(Price *p); /* false: memory is out */
#endif
