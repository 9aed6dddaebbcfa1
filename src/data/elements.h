/* A growing list of elements held as tensors. */
#ifndef IPULUA_DATA_ELEMENTS_H
#define IPULUA_DATA_ELEMENTS_H
#include "data/stage.h"

typedef struct Elements {
  int width; /* components of an element; set it first */
  int count, capacity;
  Tensor **tensor; /* [count][width] */
} Elements;

/* Room for one more, at elements_at(l, l->count); count it when it is filled. */
Status elements_reserve(Elements *l, Error *e);
static inline Tensor **elements_at(const Elements *l, int index) {
  return l->tensor + (size_t)index * (size_t)l->width;
}
void elements_drop(Elements *l, int count); /* the first ones */
void elements_clear(Elements *l);
/* Stacks component c of elements 0, step, 2 step … to one tensor [n, ...]. NULL on failure.
 * Different shapes are an error, whose message names d. */
Tensor *elements_stack(const Elements *l, const Dataset *d, int c, int n, int step, Error *e);
/* type with one more extent in front. A rank beyond the limit is an error, whose message begins
 * with `what`. */
Status type_stacked(Error *e, const char *what, const char *source, int64_t extent,
                    const Type *type, Type *out);
#endif
