#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"

enum { ALIGNMENT = 16 };
/* IPULUA_APART: each piece is an allocation of its own, which checks can let fail. */
#ifdef IPULUA_APART
enum { FIRST_BLOCK = 1, LARGEST_STEP = 1 };
#else
enum { FIRST_BLOCK = 4096, LARGEST_STEP = 1 << 20 };
#endif

typedef struct Block {
  struct Block *next;
  size_t used, capacity;
} Block;
_Static_assert(sizeof(Block) % 8 == 0, "blocks keep alignment");

struct Arena {
  Block *blocks;
  size_t bytes, next_capacity;
};

static size_t header(void) { return (sizeof(Block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

Arena *arena_new(void) {
  Arena *a = calloc(1, sizeof *a);
  if (a) a->next_capacity = FIRST_BLOCK;
  return a;
}

void arena_free(Arena *a) {
  if (!a) return;
  for (Block *b = a->blocks, *next; b; b = next) next = b->next, free(b);
  free(a);
}

void *arena_alloc(Arena *a, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  bytes = size_round_up(bytes, ALIGNMENT);
  if (bytes == 0) bytes = ALIGNMENT;
  Block *b = a->blocks;
  if (!b || b->capacity - b->used < bytes) {
    size_t capacity = size_max(bytes, a->next_capacity);
    b = calloc(1, header() + capacity);
    if (!b) return NULL;
    b->capacity = capacity;
    b->next = a->blocks;
    a->blocks = b;
    if (a->next_capacity < LARGEST_STEP) a->next_capacity *= 2;
  }
  void *p = (char *)b + header() + b->used;
  b->used += bytes;
  a->bytes += bytes;
  return p;
}

void *arena_copy(Arena *a, const void *data, size_t bytes) {
  void *p = arena_alloc(a, bytes);
  if (p && bytes) memcpy(p, data, bytes);
  return p;
}

char *arena_string(Arena *a, const char *s) { return s ? arena_copy(a, s, strlen(s) + 1) : NULL; }

ArenaMark arena_mark(const Arena *a) {
  return (ArenaMark){a->blocks, a->blocks ? a->blocks->used : 0, a->bytes};
}

void arena_rewind(Arena *a, const ArenaMark *m) {
  while (a->blocks != m->block) {
    Block *b = a->blocks;
    a->blocks = b->next;
    free(b);
  }
  Block *b = a->blocks;
  if (b) memset((char *)b + header() + m->used, 0, b->used - m->used), b->used = m->used;
  a->bytes = m->bytes;
}

size_t arena_bytes(const Arena *a) { return a->bytes; }

static int grown(int capacity, int need) {
  int c = int_max(capacity, 8);
  while (c < need) c = c > (1 << 29) ? need : c * 2;
  return c;
}

_Bool array_reserve(void *data_pointer, int *capacity, int need, size_t element_bytes) {
  if (need <= *capacity) return 1;
  int c = grown(*capacity, need);
  void *old;
  memcpy(&old, data_pointer, sizeof old);
  void *p = realloc(old, (size_t)c * element_bytes);
  if (!p) return 0;
  memset((char *)p + (size_t)*capacity * element_bytes, 0, (size_t)(c - *capacity) * element_bytes);
  memcpy(data_pointer, &p, sizeof p);
  *capacity = c;
  return 1;
}

_Bool arena_reserve(Arena *a, void *data_pointer, int *capacity, int need, size_t element_bytes) {
  if (need <= *capacity) return 1;
  int c = grown(*capacity, need);
  void *old;
  memcpy(&old, data_pointer, sizeof old);
  void *p = arena_alloc(a, (size_t)c * element_bytes);
  if (!p) return 0;
  if (*capacity) memcpy(p, old, (size_t)*capacity * element_bytes);
  memcpy(data_pointer, &p, sizeof p);
  *capacity = c;
  return 1;
}
