/* An infeed: a dataset as a program's source. It keeps its position between programs; a failure or
 * the end of data is an error of the program that asked. */
#ifndef IPULUA_DATA_INFEED_H
#define IPULUA_DATA_INFEED_H
#include "data/dataset.h"
#include "ops/io/feed.h"

typedef struct Infeed Infeed; /* begins with a Feed */

/* depth: elements that may be read ahead. batch 0: the dataset must be static. Else elements are
 * gathered, and only first extents may be unknown; they are `batch` in what programs see. With
 * `whole`, the types that programs see, any extent may be unknown; a batch of other extents is
 * handed over as a smaller one is. */
Infeed *infeed_new(Error *e, Dataset *d, const DataContext *context, int depth, int64_t batch,
                   const Type *whole);
/* Another dataset of the same element types, for programs compiled with the queue; only while it is
 * closed. */
Status infeed_replace(Infeed *q, Dataset *d, int depth, int64_t batch, const Type *whole, Error *e);
/* Reads until `wanted` whole batches are in waiting, which programs get next, or a smaller batch or
 * the end comes before. *got: how many are in waiting, at most `wanted`; *rows: of the smaller
 * batch behind all that are, 0 where there is none. Opens a closed queue. */
Status infeed_gather(Infeed *q, int64_t wanted, int64_t *got, int64_t *rows, Error *e);
/* Hands the smaller batch's components over. */
void infeed_take_smaller(Infeed *q, Tensor **out);
/* Those in waiting are never handed out. */
void infeed_leave_out(Infeed *q);
/* From now on: the CRC32C of the next element is noted. */
void infeed_watch(Infeed *q);
uint32_t infeed_crc(const Infeed *q);
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
