/* Cycles of a priced program, and its time lines. */
#ifndef IPULUA_MACHINE_TIME_H
#define IPULUA_MACHINE_TIME_H
#include "machine/price.h"

double priced_cycles(const PricedStep *r); /* one execution */
int price_ipu_of_stage(const Price *p, int stage);
Status price_time(Error *e, Price *p);
#endif
