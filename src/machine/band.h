/* How sure a price is. */
#ifndef IPULUA_MACHINE_BAND_H
#define IPULUA_MACHINE_BAND_H
#include "machine/priced.h"

/* The errors of the ops that it holds, each weighted by its part of the cycles, and of the bytes
 * that operands, results and what lies beside them take. */
Band price_band(const Price *p);
#endif
