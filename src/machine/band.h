/* How sure a price is. */
#ifndef IPULUA_MACHINE_BAND_H
#define IPULUA_MACHINE_BAND_H
#include "machine/priced.h"

/* The errors of its ops, each weighted by its part of the cycles. For memory the weight is its part
 * of the bytes of operands, results and temporaries. */
Band price_band(const Price *p);
#endif
