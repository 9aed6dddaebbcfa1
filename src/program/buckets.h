/* Sums over replicas that go to other instances in one message. */
#ifndef IPULUA_PROGRAM_BUCKETS_H
#define IPULUA_PROGRAM_BUCKETS_H
#include "program/replicas.h"

struct Instances;

/* Those of a list of phases. False: out of memory. */
bool buckets_find(const Program *p, Replication *r, Phases *list);
/* Bytes that a replica's value of that collective takes in shared memory. */
size_t bucket_stride(const Phase *member);
/* Shared memory for what its sums read, once: the steps that make it are pointed there. False: out
 * of memory. */
bool bucket_place(struct Instances *t, const Replication *r, const Phases *list, Bucket *b);
/* All that its sums read is there, in the place of now: what other steps have made is copied. */
void bucket_complete(const Replication *r, const Phases *list, const Bucket *b);
/* From now on steps write to the other buffer. */
void bucket_turn(Bucket *b);
void buckets_release(Bucket *first);
/* The most bytes of a replica that are sent from each instance to all others. */
size_t program_gather_bytes(const Program *p);
#endif
