/* An infeed: a dataset as a program's source. It keeps its place between programs; a failure or
 * the end of data is an error of the program that asked. */
#ifndef IPULUA_DATA_INFEED_H
#define IPULUA_DATA_INFEED_H
#include "data/dataset.h"
#include "ops/io/feed.h"

typedef struct Infeed Infeed; /* begins with a Feed */

/* depth: elements that may be read ahead. The dataset must be static. */
Infeed *infeed_new(Error *e, Dataset *d, const DataContext *context, int depth);
/* Another dataset of the same element types, for programs compiled with the queue; only while it is
 * closed. */
Status infeed_replace(Infeed *q, Dataset *d, int depth, Error *e);
Feed *infeed_feed(Infeed *q);
bool infeed_is_open(const Infeed *q);
Status infeed_open(Infeed *q, Error *e); /* also done by the first element */
/* from now on not done by the first element */
void infeed_open_explicitly(Infeed *q);
/* the next open begins at the beginning */
Status infeed_close(Infeed *q, Error *e);
void infeed_set_context(Infeed *q, const DataContext *context); /* for the next open */
/* elements handed out since the last open */
int64_t infeed_position(const Infeed *q);
Tensor *infeed_save(Infeed *q, Error *e);
Status infeed_restore(Infeed *q, const Tensor *saved, Error *e);
#endif
