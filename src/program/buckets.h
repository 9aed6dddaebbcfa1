/* Sums over replicas that go to other instances in one message. */
#ifndef IPULUA_PROGRAM_BUCKETS_H
#define IPULUA_PROGRAM_BUCKETS_H
#include "program/replicas.h"

/* Those of a list of phases. False: out of memory. */
bool buckets_find(const Program *p, Phases *list);
/* The most bytes of a replica that are sent from each instance to all others. */
size_t program_gather_bytes(const Program *p);
#endif
