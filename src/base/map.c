#include "base/map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"

/* entries in order of insertion; slots, twice as many at least, hold positions in entries + 1, 0
 * is free. */
typedef struct Entry {
  char *key;
  void *value;
  uint64_t hash;
} Entry;

struct Map {
  Entry *entries;
  int used, capacity;
  int *slots;
  uint32_t slot_mask; /* number of slots - 1 */
  uint64_t seed;
};

enum { FIRST_SLOTS = 16 };

static uint64_t mix(uint64_t h) {
  h ^= h >> 32;
  h *= 0x9e3779b97f4a7c15; /* 2^64 / golden ratio, odd */
  return h ^ h >> 29;
}

static uint64_t hash_of(const Map *m, const char *key) {
  size_t n = strlen(key);
  uint64_t h = m->seed ^ n, word;
  for (; n >= 8; key += 8, n -= 8) memcpy(&word, key, 8), h = mix((h ^ word) * 0xff51afd7ed558ccd);
  word = 0;
  memcpy(&word, key, n);
  return mix(mix((h ^ word) * 0xff51afd7ed558ccd));
}

Map *map_new(void) {
  Map *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->slots = calloc(FIRST_SLOTS, sizeof *m->slots);
  if (!m->slots) return free(m), NULL;
  m->slot_mask = FIRST_SLOTS - 1;
  m->seed = rng_system_seed();
  return m;
}

void map_free(Map *m) {
  if (!m) return;
  for (int i = 0; i < m->used; i++) free(m->entries[i].key);
  free(m->entries);
  free(m->slots);
  free(m);
}

static Entry *find(const Map *m, const char *key, uint64_t hash) {
  for (uint32_t s = (uint32_t)hash & m->slot_mask; m->slots[s]; s = (s + 1) & m->slot_mask) {
    Entry *entry = &m->entries[m->slots[s] - 1];
    if (entry->hash == hash && strcmp(entry->key, key) == 0) return entry;
  }
  return NULL;
}

static void insert_slot(Map *m, int index) {
  uint32_t s = (uint32_t)m->entries[index].hash & m->slot_mask;
  while (m->slots[s]) s = (s + 1) & m->slot_mask;
  m->slots[s] = index + 1;
}

/* Slots for twice the entries and one more. */
static bool rebuild(Map *m) {
  uint32_t slot_count = FIRST_SLOTS;
  while (slot_count < ((uint32_t)m->used + 1) * 4) slot_count *= 2;
  int *slots = calloc(slot_count, sizeof *slots);
  if (!slots) return false;
  free(m->slots);
  m->slots = slots;
  m->slot_mask = slot_count - 1;
  for (int i = 0; i < m->used; i++) insert_slot(m, i);
  return true;
}

bool map_set(Map *m, const char *key, void *value) {
  uint64_t hash = hash_of(m, key);
  Entry *entry = find(m, key, hash);
  if (entry) return entry->value = value, true;
  if (m->used >= 1 << 28) return false;
  if (((uint32_t)m->used + 1) * 2 > m->slot_mask + 1 && !rebuild(m)) return false;
  char *copy = strdup(key);
  if (!copy || !array_reserve(&m->entries, &m->capacity, m->used + 1, sizeof *m->entries))
    return free(copy), false;
  m->entries[m->used] = (Entry){copy, value, hash};
  insert_slot(m, m->used++);
  return true;
}

void *map_get(const Map *m, const char *key) {
  const Entry *entry = find(m, key, hash_of(m, key));
  return entry ? entry->value : NULL;
}

bool map_has(const Map *m, const char *key) { return find(m, key, hash_of(m, key)) != NULL; }

int map_count(const Map *m) { return m->used; }

const char *map_next(const Map *m, int *cursor, void **value) {
  if (*cursor >= m->used) return NULL;
  const Entry *entry = &m->entries[(*cursor)++];
  if (value) *value = entry->value;
  return entry->key;
}
