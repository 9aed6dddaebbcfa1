/* Sums over replicas that go to other instances in one message. */
#ifndef IPULUA_PROGRAM_BUCKETS_H
#define IPULUA_PROGRAM_BUCKETS_H
#include "program/replicas.h"

struct Instances;

/* Finds the buckets of a list of phases. False: out of memory. */
bool buckets_find(const Program *p, Replication *r, Phases *list);
/* Bytes that a replica's value of that collective takes in shared memory. */
size_t bucket_stride(const Phase *member);
/* Allocates shared memory for the operands of the bucket's sums, once. The steps that make the
 * operands write there. False: out of memory. */
bool bucket_place(struct Instances *t, const Replication *r, const Phases *list, Bucket *b);
/* Completes the bucket's current buffer: operands that were made elsewhere are copied there. */
void bucket_complete(const Replication *r, const Phases *list, const Bucket *b);
/* Switches to the other buffer, for the steps that write to it. */
void bucket_turn(Bucket *b);
void buckets_release(Bucket *first);
/* The limit, in bytes of one replica, up to which each instance sends its values to all others. */
size_t program_gather_bytes(const Program *p);
#endif
