#include "engine/synthetic.h"

#include <math.h>
#include <string.h>

enum { SYNTHETIC_STREAM = 0x5e7 }; /* its own numbers, apart from the ops' */

/* Box and Muller; 1 - u is never 0. */
static double normal(const RngKey *key, uint64_t i) {
  return sqrt(-2 * log(1 - (double)rng_uniform(key, 2 * i))) *
         cos(2 * 3.14159265358979323846 * (double)rng_uniform(key, 2 * i + 1));
}

void synthetic_fill(const Synthetic *s, uint64_t seed, int component, const Type *type,
                    void *data) {
  if (s->kind == SYNTHETIC_NUMBER && s->number == 0) {
    memset(data, 0, type_bytes(type));
    return;
  }
  RngKey key = {seed, SYNTHETIC_STREAM + (uint32_t)component, s->elements};
  for (int64_t i = 0, n = type_count(type); i < n; i++) {
    double x = s->kind == SYNTHETIC_NUMBER    ? s->number
               : s->kind == SYNTHETIC_UNIFORM ? (double)rng_uniform(&key, (uint64_t)i)
                                              : normal(&key, (uint64_t)i);
    dtype_set(type->dtype, data, i, x);
  }
}

Status synthetic_parameters(Error *e, Synthetic *s, uint64_t seed, Variable **list, int count) {
  if (!s->parameters) return OK;
  for (int i = 0; i < count; i++) {
    Variable *v = list[i];
    if (!v->trainable || !v->value || v->made_up == s->serial) continue;
    void *data = variable_writable(e, v);
    if (!data) return e->status;
    synthetic_fill(s, seed, 0, &v->type, data);
    v->made_up = s->serial;
    s->elements++;
  }
  return OK;
}
