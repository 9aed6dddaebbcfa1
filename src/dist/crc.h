/* A checksum of data that instances compare. */
#ifndef IPULUA_DIST_CRC_H
#define IPULUA_DIST_CRC_H
#include <stddef.h>
#include <stdint.h>

/* CRC32C, begun with 0. */
uint32_t dist_crc(uint32_t crc, const void *data, size_t bytes);
#endif
