/* What each instance brings to a meeting, brought to all. */
#ifndef IPULUA_DIST_GATHER_H
#define IPULUA_DIST_GATHER_H
#include <stddef.h>

#include "dist/instances.h"

typedef struct Part {
  const void *data;
  size_t bytes;
} Part;

/* What an instance brought to a meeting. */
typedef struct Brought {
  const void *data;
  size_t bytes;
} Brought;

/* Everybody's bytes to everybody. from[q] is the other instance q's, until the next meeting; of
 * this one it is what is given, if that is one part. */
Status instances_gather(Instances *t, const Meeting *m, const Part *part, int parts, Brought *from,
                        Error *e);
/* The same of bytes that lie in shared memory, at `address` of this instance: where all brought
 * such, from[q] is where they lie, of others until the next but one meeting, and *shared is true.
 * Else nothing was exchanged but the numbers of bytes, and instances_gather is next. */
Status instances_show(Instances *t, const Meeting *m, const void *address, size_t bytes,
                      Brought *from, bool *shared, Error *e);
/* Whether so many bytes are worth to be shown: little goes with a gather's headers. */
bool instances_shows(const Instances *t, size_t bytes);

/* ---- inside of this folder ---- */

/* All come to a meeting, and compare their headers. */
Status come_together(Instances *t, const Meeting *m, const Part *part, int parts, size_t bytes,
                     int64_t offset, Error *e);
#endif
