/* All-gather: the bytes of each instance are given to all. */
#ifndef IPULUA_DIST_GATHER_H
#define IPULUA_DIST_GATHER_H
#include <stddef.h>

#include "dist/instances.h"

typedef struct Part {
  const void *data;
  size_t bytes;
} Part;

/* The bytes that an instance brought to a meeting. */
typedef struct Brought {
  const void *data;
  size_t bytes;
} Brought;

/* Gives the bytes of each instance to all. from[q] is valid until the next meeting. For this
 * instance it is the given part, if there is only one. */
Status instances_gather(Instances *t, const Meeting *m, const Part *part, int parts, Brought *from,
                        Error *e);
/* The same before any program: bytes of one structure, which each instance has. */
Status instances_gather_first(Instances *t, const void *own, size_t bytes, Brought *from, Error *e);
/* The same for bytes in shared memory, at `address` of this instance. If all instances brought
 * shared memory, *shared is true and from[q] points into it. The bytes of others stay valid until
 * the next but one meeting. Otherwise only sizes were exchanged, and the caller goes on with
 * instances_gather. */
Status instances_show(Instances *t, const Meeting *m, const void *address, size_t bytes,
                      Brought *from, bool *shared, Error *e);
/* Whether so many bytes should go through instances_show: fewer fit beside a gather's header. */
bool instances_shows(const Instances *t, size_t bytes);

/* ---- inside of this folder ---- */

/* Waits until all instances have come to a meeting, and compares their headers. */
Status come_together(Instances *t, const Meeting *m, const Part *part, int parts, size_t bytes,
                     int64_t offset, Error *e);
#endif
