#include "tensor/type.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/arith.h"

static const size_t largest_bytes = (size_t)1 << 47; /* the address space of a process on x86-64 */

Type type_make(Dtype d, int rank, const int64_t *shape) {
  Type t = {.dtype = d, .rank = rank};
  for (int i = 0; i < rank && i < MAX_RANK; i++) t.shape[i] = shape[i];
  return t;
}

Type type_scalar(Dtype d) { return (Type){.dtype = d}; }

bool shape_equal(const Type *a, const Type *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

bool type_equal(const Type *a, const Type *b) { return a->dtype == b->dtype && shape_equal(a, b); }

/* An unchecked type's count may overflow. */
int64_t type_count(const Type *t) {
  int64_t count = 1;
  bool empty = false, beyond = false;
  for (int i = 0; i < t->rank; i++) {
    empty = empty || t->shape[i] == 0;
    beyond = beyond || __builtin_mul_overflow(count, t->shape[i], &count);
  }
  return empty ? 0 : beyond ? INT64_MAX : count;
}

size_t type_bytes(const Type *t) {
  size_t bytes;
  return size_mul((size_t)type_count(t), dtype_size(t->dtype), &bytes) ? bytes : SIZE_MAX;
}

static const char unknown_words[] =
    "; an extent that is fed later must be known here: give the placeholder its size";

Status type_check(Error *e, const char *what, const Type *t) {
  char text[TYPE_TEXT];
  if (t->rank < 0 || t->rank > MAX_RANK)
    return fail(e, ERR_VALUE, "%s: a tensor has 0 to %d dimensions, not %d", what, MAX_RANK,
                t->rank);
  /* Empty extents count as 1: strides are products of all extents and must not overflow either. */
  size_t bytes = dtype_size(t->dtype);
  for (int i = 0; i < t->rank; i++) {
    if (t->shape[i] < 0)
      return fail(e, ERR_VALUE, "%s: extent %lld of dimension %d is negative in shape %s%s", what,
                  (long long)t->shape[i], i, shape_text(t, text),
                  t->shape[i] == -1 ? unknown_words : "");
    if (!size_mul(bytes, t->shape[i] ? (size_t)t->shape[i] : 1, &bytes) || bytes > largest_bytes)
      return fail(e, ERR_VALUE, "%s: %s is too large; the limit is 2^47 bytes", what,
                  type_text(t, text));
  }
  return OK;
}

bool type_is_static(const Type *t) {
  for (int i = 0; i < t->rank; i++)
    if (t->shape[i] < 0) return false;
  return true;
}

static char *print_shape(const Type *t, const char *prefix, char buffer[TYPE_TEXT]) {
  int n = snprintf(buffer, TYPE_TEXT, "%s[", prefix);
  for (int i = 0; i < t->rank && i < MAX_RANK && n < TYPE_TEXT; i++)
    n += snprintf(buffer + n, (size_t)(TYPE_TEXT - n), "%s%lld", i ? ", " : "",
                  (long long)t->shape[i]);
  if (n < TYPE_TEXT) snprintf(buffer + n, (size_t)(TYPE_TEXT - n), "]");
  return buffer;
}

char *type_text(const Type *t, char buffer[TYPE_TEXT]) {
  return print_shape(t, dtype_name(t->dtype), buffer);
}
char *shape_text(const Type *t, char buffer[TYPE_TEXT]) { return print_shape(t, "", buffer); }

/* An unknown extent beside a known one other than 1 must turn out to be that one. */
static bool broadcast_extent(int64_t a, int64_t b, int64_t *out) {
  if (a == b || b == 1) return *out = a, true;
  if (a == 1 || a == -1) return *out = b, true;
  return *out = a, b == -1;
}

bool type_broadcast(const Type *a, const Type *b, Type *out) {
  Type r = {.dtype = a->dtype, .rank = int_max(a->rank, b->rank)};
  for (int i = 1; i <= r.rank; i++) { /* from the last dimension on; missing ones are 1 */
    int64_t x = i <= a->rank ? a->shape[a->rank - i] : 1,
            y = i <= b->rank ? b->shape[b->rank - i] : 1;
    if (!broadcast_extent(x, y, &r.shape[r.rank - i])) return false;
  }
  *out = r;
  return true;
}

void type_strides(const Type *t, int64_t stride[MAX_RANK]) {
  int64_t step = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    stride[i] = step;
    if (t->shape[i] > 0) step *= t->shape[i];
  }
}

Status axis_check(Error *e, const char *what, int64_t axis, int rank, int *out) {
  if (axis >= -rank && axis < rank) return *out = (int)(axis < 0 ? axis + rank : axis), OK;
  if (rank == 0)
    return fail(e, ERR_VALUE, "%s: %lld is no axis of a tensor without dimensions", what,
                (long long)axis);
  return fail(e, ERR_VALUE, "%s: %lld is out of range; a tensor of rank %d has axes %d to %d", what,
              (long long)axis, rank, -rank, rank - 1);
}
