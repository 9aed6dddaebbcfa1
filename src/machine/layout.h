/* Stages, shards and replicas of a priced program. */
#ifndef IPULUA_MACHINE_LAYOUT_H
#define IPULUA_MACHINE_LAYOUT_H
#include "machine/place.h"
#include "machine/priced.h"

Status choose_layout(Error *e, Price *p, const Graph *g, const Placer *placer);
#endif
