/* Sums over replicas of several instances that the chain after them alone reads. */
#ifndef IPULUA_PROGRAM_READERS_H
#define IPULUA_PROGRAM_READERS_H
#include "program/replicas.h"

/* Sets reader_slot of the sums in a list of phases. */
void readers_find(const Program *p, const Replication *r, Phases *list);
#endif
