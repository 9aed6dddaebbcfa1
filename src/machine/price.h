/* The price of a program on IPUs. A pure function of the program's graph and a Machine: nothing
 * runs and no tensor is touched. So a program far too large for this computer is priced as well.
 * docs/pricing.md explains the rules. */
#ifndef IPULUA_MACHINE_PRICE_H
#define IPULUA_MACHINE_PRICE_H
#include "machine/priced.h"

/* NULL with e filled when the program can't be placed on the machine, or memory is out. The
 * program must outlive the price. */
Price *price_program(Error *e, const Program *p, const Machine *m);
void price_free(Price *p); /* NULL is fine */
#endif
