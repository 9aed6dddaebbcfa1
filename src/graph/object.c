#include "graph/object.h"

#include <stdatomic.h>

Object *object_retain(Object *o) {
  if (o) atomic_fetch_add(&o->references, 1);
  return o;
}

void object_release(Object *o) {
  if (o && atomic_fetch_sub(&o->references, 1) == 1) o->destroy(o);
}
