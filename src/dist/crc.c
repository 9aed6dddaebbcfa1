/* CRC32C, bit by bit: the data to compare (shapes, assigned weights) are too small for a table to
 * pay. */
#include "dist/crc.h"

enum { POLYNOMIAL = (int)0x82f63b78u };

static uint32_t step(uint32_t crc) { return crc & 1 ? crc >> 1 ^ (uint32_t)POLYNOMIAL : crc >> 1; }

static void make_table(uint32_t table[256]) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int k = 0; k < 8; k++) c = step(c);
    table[i] = c;
  }
}

uint32_t dist_crc(uint32_t crc, const void *data, size_t bytes) {
  const unsigned char *x = data;
  crc = ~crc;
  if (bytes < 64) {
    for (size_t i = 0; i < bytes; i++) {
      crc ^= x[i];
      for (int k = 0; k < 8; k++) crc = step(crc);
    }
    return ~crc;
  }
  uint32_t table[256];
  make_table(table);
  for (size_t i = 0; i < bytes; i++) crc = table[(crc ^ x[i]) & 255] ^ crc >> 8;
  return ~crc;
}
