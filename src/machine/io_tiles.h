/* The data on tiles of its own, and the moves that a loop needn't wait for. */
#ifndef IPULUA_MACHINE_IO_TILES_H
#define IPULUA_MACHINE_IO_TILES_H
#include "machine/priced.h"

double price_io_limit(const Price *p);        /* bytes that an IPU's I/O tiles may hold */
bool price_overlaps(const Price *p, int ipu); /* do I/O tiles move elements beside computing? */
bool price_io_tiles(Price *p);                /* false: memory is out */
bool price_overlap(Price *p);
#endif
