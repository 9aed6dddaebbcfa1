/* Memory shared by the instances of one host. */
#ifndef IPULUA_DIST_SHARED_H
#define IPULUA_DIST_SHARED_H
#include <stddef.h>

#include "dist/instances.h"

/* Allocates in this instance's shared memory, aligned to cache lines. NULL: there is no room. */
void *instances_allocate(Instances *t, size_t bytes);
void instances_release(Instances *t, void *address);
/* The size of each instance's shared memory in bytes, which is the same on all; 0 without any. */
size_t instances_shared_bytes(const Instances *t);

/* ---- inside of this folder ---- */

struct Entry *board_entry(const Instances *t, int q); /* of the current meeting */
bool board_is_there(const Instances *t, int q);
/* Sets up shared memory, if all instances offer it. */
Status shared_begin(Instances *t, Error *e);
#endif
