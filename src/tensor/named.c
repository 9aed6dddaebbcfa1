#include "tensor/named.h"

#include <stdlib.h>

#include "base/arena.h"

void named_init(NamedTensors *n) { *n = (NamedTensors){.count = 0}; }

void named_clear(NamedTensors *n) {
  for (int i = 0; i < n->count; i++) free(n->name[i]), tensor_release(n->tensor[i]);
  for (int i = 0; i < n->metadata_count; i++) free(n->key[i]), free(n->value[i]);
  free(n->name), free(n->tensor), free(n->key), free(n->value);
  named_init(n);
}

/* Two parallel arrays with one capacity: it rises only when both have grown. */
static bool reserve_pair(void *a, void *b, int *capacity, int need) {
  int a_capacity = *capacity, b_capacity = *capacity;
  if (!array_reserve(a, &a_capacity, need, sizeof(void *))) return false;
  if (!array_reserve(b, &b_capacity, need, sizeof(void *))) return false;
  return *capacity = a_capacity, true;
}

static Status out_of_memory(Error *e) { return fail(e, ERR_OUT_OF_MEMORY, "out of memory"); }

Status named_add(Error *e, NamedTensors *n, const char *name, Tensor *t) {
  char *copy = strdup(name);
  if (!copy || !reserve_pair(&n->name, &n->tensor, &n->capacity, n->count + 1))
    return free(copy), out_of_memory(e);
  n->name[n->count] = copy;
  n->tensor[n->count++] = tensor_retain(t);
  return OK;
}

Status named_add_metadata(Error *e, NamedTensors *n, const char *key, const char *value) {
  char *k = strdup(key), *v = strdup(value);
  if (!k || !v || !reserve_pair(&n->key, &n->value, &n->metadata_capacity, n->metadata_count + 1))
    return free(k), free(v), out_of_memory(e);
  n->key[n->metadata_count] = k;
  n->value[n->metadata_count++] = v;
  return OK;
}

Tensor *named_find(const NamedTensors *n, const char *name) {
  for (int i = 0; i < n->count; i++)
    if (strcmp(n->name[i], name) == 0) return n->tensor[i];
  return NULL;
}
