/* SHA-256 (FIPS 180-4), for checksums of files. */
#ifndef IPULUA_BASE_SHA256_H
#define IPULUA_BASE_SHA256_H
#include <stddef.h>
#include <stdint.h>
enum { SHA256_BYTES = 32, SHA256_TEXT = 2 * SHA256_BYTES + 1 };
void sha256(const void *data, size_t bytes, uint8_t digest[SHA256_BYTES]);
void sha256_text(const void *data, size_t bytes, char text[SHA256_TEXT]); /* in hexadecimal */
#endif
