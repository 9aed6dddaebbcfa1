/* Memory that all instances of one host see. */
#ifndef IPULUA_DIST_SHARED_H
#define IPULUA_DIST_SHARED_H
#include <stddef.h>

#include "dist/instances.h"

/* Shared memory of this instance, on lines of their own; NULL: none is left, or there is none. */
void *instances_allocate(Instances *t, size_t bytes);
void instances_release(Instances *t, void *address);
/* Bytes of it in all; the same on all instances; 0: there is none. */
size_t instances_shared_bytes(const Instances *t);

/* ---- inside of this folder ---- */

struct Entry *board_entry(const Instances *t, int q); /* of the meeting that this instance is at */
bool board_is_there(const Instances *t, int q);
/* Shared memory, where all have it. */
Status shared_begin(Instances *t, Error *e);
#endif
