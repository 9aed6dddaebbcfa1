#include "graph/tensor_map.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 32 };

static size_t place_of(const TensorMap *m, const Tensor *t) {
  size_t at = (size_t)(((uintptr_t)t >> 4) * 0x9E3779B97F4A7C15u >> 20) & (m->slots - 1);
  while (m->slot[at].tensor && m->slot[at].tensor != t) at = (at + 1) & (m->slots - 1);
  return at;
}

const TensorSlot *tensor_map_find(const TensorMap *m, const Tensor *t) {
  if (!m->used) return NULL;
  const TensorSlot *s = &m->slot[place_of(m, t)];
  return s->tensor ? s : NULL;
}

static bool grow(TensorMap *m) {
  TensorMap more = {.slots = m->slots ? 2 * m->slots : FIRST_SLOTS, .used = m->used};
  more.slot = calloc(more.slots, sizeof *more.slot);
  if (!more.slot) return false;
  for (size_t i = 0; i < m->slots; i++)
    if (m->slot[i].tensor) more.slot[place_of(&more, m->slot[i].tensor)] = m->slot[i];
  free(m->slot);
  *m = more;
  return true;
}

bool tensor_map_put(TensorMap *m, Tensor *t, Value *value, const Variable *variable) {
  if (2 * (m->used + 1) > m->slots && !grow(m)) return false;
  TensorSlot *s = &m->slot[place_of(m, t)];
  if (!s->tensor) s->tensor = tensor_retain(t), m->used++;
  s->value = value;
  s->variable = variable;
  return true;
}

void tensor_map_clear(TensorMap *m) {
  for (size_t i = 0; i < m->slots; i++) tensor_release(m->slot[i].tensor);
  free(m->slot);
  *m = (TensorMap){0};
}
