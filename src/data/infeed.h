/* An infeed: a dataset as a program's source. It keeps its position between programs. A failure or
 * the end of data is an error of the program that reads it. */
#ifndef IPULUA_DATA_INFEED_H
#define IPULUA_DATA_INFEED_H
#include "data/dataset.h"
#include "ops/io/feed.h"

typedef struct Infeed Infeed; /* begins with a Feed */

/* depth: elements that may be read ahead. With batch 0 the dataset must be static. Otherwise
 * elements are gathered, and first extents may be unknown; programs see `batch` in their place.
 * With `whole`, the types that programs see, any extent may be unknown. A batch of other extents is
 * then handed over like a smaller one. */
Infeed *infeed_new(Error *e, Dataset *d, const DataContext *context, int depth, int64_t batch,
                   const Type *whole);
/* Another dataset of the same element types, for programs compiled with the queue; only while it is
 * closed. */
Status infeed_replace(Infeed *q, Dataset *d, int depth, int64_t batch, const Type *whole, Error *e);
/* Reads until `wanted` whole batches are waiting for programs, or up to a smaller batch or the end.
 * *got: the whole batches waiting, at most `wanted`. *rows: the rows of the smaller batch that
 * follows them; 0 without one. Opens a closed queue. */
Status infeed_gather(Infeed *q, int64_t wanted, int64_t *got, int64_t *rows, Error *e);
/* Gives the smaller batch's components to the caller. */
void infeed_take_smaller(Infeed *q, Tensor **out);
/* Discards the waiting elements. */
void infeed_leave_out(Infeed *q);
/* From now on the CRC32C of the next element is computed (infeed_crc). */
void infeed_watch(Infeed *q);
uint32_t infeed_crc(const Infeed *q);
Feed *infeed_feed(Infeed *q);
bool infeed_is_open(const Infeed *q);
Status infeed_open(Infeed *q, Error *e); /* also done by the first element */
/* from now on the first element doesn't open it */
void infeed_open_explicitly(Infeed *q);
/* the next open starts again at the first element */
Status infeed_close(Infeed *q, Error *e);
void infeed_set_context(Infeed *q, const DataContext *context); /* for the next open */
/* elements given out since the last open */
int64_t infeed_position(const Infeed *q);
Tensor *infeed_save(Infeed *q, Error *e);
Status infeed_restore(Infeed *q, const Tensor *saved, Error *e);
#endif
