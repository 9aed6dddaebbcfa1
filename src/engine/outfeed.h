/* The host side of an outfeed: a list without bound, so that a program never waits for the script
 * to dequeue. The thread that runs the program fills it. The script's thread reads it, also while
 * the program runs. */
#ifndef IPULUA_ENGINE_OUTFEED_H
#define IPULUA_ENGINE_OUTFEED_H
#include "ops/io/feed.h"

typedef struct Outfeed Outfeed; /* begins with an Outlet */

Outfeed *outfeed_new(Error *e, bool keep_last); /* counted as an Object */
Outlet *outfeed_outlet(Outfeed *q);
int64_t outfeed_count(Outfeed *q); /* elements waiting (LAST: 0 or 1) */
int64_t outfeed_total(Outfeed *q); /* elements ever put */
enum { OUTFEED_COMPONENTS = 256 };
/* Take up to most elements (-1: all) as one tensor a component, stacked along a new first axis.
 * LAST: the newest, not stacked, and it stays. *form: their nesting, as given to outlet_enqueue;
 * *components is 0 until the first value is enqueued. */
Status outfeed_take(Outfeed *q, int64_t max, Tensor *out[OUTFEED_COMPONENTS], int *components,
                    int *form, Error *e);
void outfeed_clear(Outfeed *q);
#endif
