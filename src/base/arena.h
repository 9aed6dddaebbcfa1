/* Memory that is freed together, for objects that live equally long: graphs, programs, plans. */
#ifndef IPULUA_BASE_ARENA_H
#define IPULUA_BASE_ARENA_H
#include <stddef.h>
#include <stdint.h>

typedef struct Arena Arena;

Arena *arena_new(void);    /* NULL when memory is out */
void arena_free(Arena *a); /* NULL is fine */
/* zeroed, aligned to 16 bytes; NULL when memory is out */
void *arena_alloc(Arena *a, size_t bytes);
void *arena_copy(Arena *a, const void *data, size_t bytes);
char *arena_string(Arena *a, const char *s); /* NULL gives NULL */
/* Rewinding to a mark frees the memory handed out since. Marks are rewound in the opposite order of
 * their making. */
typedef struct ArenaMark {
  void *block;
  size_t used, bytes;
} ArenaMark;
ArenaMark arena_mark(const Arena *a);
void arena_rewind(Arena *a, const ArenaMark *m);
size_t arena_bytes(const Arena *a); /* handed out so far */

/* Grow a plain array that lives outside arenas: *data holds *capacity elements of element_bytes;
 * after true it holds at least need. On false (memory out) nothing changed. */
_Bool array_reserve(void *data_pointer, int *capacity, int need, size_t element_bytes);
/* The same inside an arena: the old copy stays until the arena goes. */
_Bool arena_reserve(Arena *a, void *data_pointer, int *capacity, int need, size_t element_bytes);
/* a*b and a+b that report overflow; sizes from files and scripts go through these. */
static inline _Bool size_mul(size_t a, size_t b, size_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline _Bool size_add(size_t a, size_t b, size_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
#endif
