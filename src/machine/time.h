/* Cycles of a priced program, and its time lines. */
#ifndef IPULUA_MACHINE_TIME_H
#define IPULUA_MACHINE_TIME_H
#include "machine/priced.h"

Status price_time(Error *e, Price *p);
#endif
