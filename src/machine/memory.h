/* Memory, tile by tile. */
#ifndef IPULUA_MACHINE_MEMORY_H
#define IPULUA_MACHINE_MEMORY_H
#include "machine/priced.h"

const char *price_category_name(PriceCategory c);
bool price_category_always(PriceCategory c);
double price_bytes(const IpuPrice *i);   /* all categories */
double price_fullest(const IpuPrice *i); /* of a tile, gaps included */
double price_tile_limit(const Price *p); /* bytes of a tile */
bool price_memory(Price *p);             /* false: memory is out */
#endif
