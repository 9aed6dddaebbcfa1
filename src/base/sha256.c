#include "base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes (section
 * 4.2.2). */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); }

static uint32_t big_endian(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_big_endian(uint8_t *p, uint32_t x) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(x >> (24 - 8 * i));
}

static void compress(uint32_t h[8], const uint8_t block[64]) {
  uint32_t w[64], s[8];
  for (int i = 0; i < 16; i++) w[i] = big_endian(block + 4 * i);
  for (int i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
           (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
  }
  memcpy(s, h, sizeof s);
  for (int i = 0; i < 64; i++) {
    uint32_t a = s[0], e = s[4];
    uint32_t choice = (e & s[5]) ^ (~e & s[6]), majority = (a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]);
    uint32_t first = s[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + choice + K[i] + w[i];
    uint32_t second = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + majority;
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += first;
    s[0] = first + second;
  }
  for (int i = 0; i < 8; i++) h[i] += s[i];
}

void sha256(const void *data, size_t bytes, uint8_t digest[SHA256_BYTES]) {
  uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const uint8_t *p = data;
  size_t left = bytes;
  for (; left >= 64; p += 64, left -= 64) compress(h, p);
  uint8_t tail[128] = {0}; /* the remaining bytes, a bit, zeros, the length in bits */
  size_t end = left < 56 ? 64 : 128;
  if (left) memcpy(tail, p, left);
  tail[left] = 0x80;
  put_big_endian(tail + end - 8, (uint32_t)((uint64_t)bytes >> 29));
  put_big_endian(tail + end - 4, (uint32_t)((uint64_t)bytes << 3));
  for (size_t at = 0; at < end; at += 64) compress(h, tail + at);
  for (int i = 0; i < 8; i++) put_big_endian(digest + 4 * i, h[i]);
}

void sha256_text(const void *data, size_t bytes, char text[SHA256_TEXT]) {
  static const char digits[] = "0123456789abcdef";
  uint8_t digest[SHA256_BYTES];
  sha256(data, bytes, digest);
  for (int i = 0; i < SHA256_BYTES; i++)
    text[2 * i] = digits[digest[i] >> 4], text[2 * i + 1] = digits[digest[i] & 15];
  text[SHA256_TEXT - 1] = 0;
}
