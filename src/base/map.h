/* A hash map from strings to pointers. It is traversed in the order of insertion, so results don't
 * depend on hashes. Hashes are seeded, so that files can't choose colliding keys. */
#ifndef IPULUA_BASE_MAP_H
#define IPULUA_BASE_MAP_H
#include <stdbool.h>

typedef struct Map Map;

Map *map_new(void);    /* NULL when memory is out */
void map_free(Map *m); /* frees the keys, not the values; NULL is fine */
/* Copies key. A key that is there keeps its position and gets the new value. False when memory is
 * out. */
bool map_set(Map *m, const char *key, void *value);
void *map_get(const Map *m, const char *key); /* NULL when absent */
bool map_has(const Map *m, const char *key);
int map_count(const Map *m);
/* Start with *cursor = 0; NULL after the last. value may be NULL. The map must not change
 * meanwhile, except for the removal of the key just returned. */
const char *map_next(const Map *m, int *cursor, void **value);
#endif
