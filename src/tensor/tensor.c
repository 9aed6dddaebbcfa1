#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "base/memory.h"

enum { ALIGNMENT = 64, HUGE_PAGES_FROM = 4 << 20 };

/* The memory of one or more tensors: allocated by the library (then `allocation` is freed) or
 * borrowed. */
struct Storage {
  _Atomic int references;
  char *data;
  size_t bytes;
  void *allocation;
  void (*release_data)(void *);
  void *context;
};

static _Atomic int64_t bytes_alive; /* of the storages that the library allocated */

int64_t storage_bytes_alive(void) { return atomic_load(&bytes_alive); }

static Status out_of_memory(Error *e, const Type *t) {
  static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double size = (double)dtype_size(t->dtype);
  for (int i = 0; i < t->rank; i++) size *= (double)t->shape[i];
  int u = 0;
  for (; size >= 1024 && u < 6; u++) size /= 1024;
  char text[TYPE_TEXT];
  return fail(e, ERR_OUT_OF_MEMORY, "cannot allocate %s (%.*f %s)", type_text(t, text), u ? 1 : 0,
              size, unit[u]);
}

/* The size of a type that may be too large; false when it is, or an extent is negative. */
static bool size_of(const Type *t, size_t *bytes) {
  Error ignored = {.status = OK};
  if (type_check(&ignored, "", t) != OK) return false;
  return *bytes = type_bytes(t), true;
}

static Tensor *view_of(Storage *s, const Type *type, char *data) {
  Tensor *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->references = 1;
  t->type = *type;
  type_strides(type, t->stride);
  t->data = data;
  t->storage = s;
  return t;
}

/* calloc rather than aligned_alloc and memset: large blocks come from the system zeroed already. */
static bool storage_allocate(Storage *s, size_t bytes, bool zeroed) {
  size_t padded = bytes + ALIGNMENT;
  if (!memory_has_room(bytes)) return false;
  s->allocation = zeroed ? calloc(1, padded) : malloc(padded);
  if (!s->allocation) return false;
  s->data = (char *)(((uintptr_t)s->allocation + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  s->bytes = bytes;
  if (bytes >= HUGE_PAGES_FROM) { /* advice: fewer page faults; failure changes nothing */
    uintptr_t page = 4096, first = ((uintptr_t)s->data + page - 1) / page * page;
    madvise((void *)first, ((uintptr_t)s->data + bytes - first) / page * page, MADV_HUGEPAGE);
  }
  return true;
}

static Tensor *allocate(Error *e, const Type *type, bool zeroed) {
  size_t bytes;
  if (!size_of(type, &bytes)) {
    if (type->rank < 0 || type->rank > MAX_RANK || !type_is_static(type))
      type_check(e, "tensor", type);
    else out_of_memory(e, type);
    return NULL;
  }
  Storage *s = calloc(1, sizeof *s);
  Tensor *t = s && storage_allocate(s, bytes, zeroed) ? view_of(s, type, s->data) : NULL;
  if (!t) {
    out_of_memory(e, type);
    if (s) free(s->allocation);
    free(s);
    return NULL;
  }
  s->references = 1;
  atomic_fetch_add(&bytes_alive, (int64_t)bytes);
  return t;
}

Tensor *tensor_new(Error *e, const Type *type) { return allocate(e, type, true); }
Tensor *tensor_new_uninitialised(Error *e, const Type *type) { return allocate(e, type, false); }

Tensor *tensor_from(Error *e, const Type *type, const void *data) {
  Tensor *t = allocate(e, type, false);
  if (t && t->storage->bytes) memcpy(t->data, data, t->storage->bytes);
  return t;
}

Tensor *tensor_wrap(Error *e, const Type *type, void *data, void (*release_data)(void *),
                    void *context) {
  if (type_check(e, "tensor", type) != OK) return NULL;
  Storage *s = calloc(1, sizeof *s);
  Tensor *t = s ? view_of(s, type, data) : NULL;
  if (!t) return free(s), fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  *s = (Storage){.references = 1,
                 .data = data,
                 .bytes = type_bytes(type),
                 .release_data = release_data,
                 .context = context};
  return t;
}

Tensor *tensor_retain(Tensor *t) {
  atomic_fetch_add_explicit(&t->references, 1, memory_order_relaxed);
  return t;
}

static void storage_release(Storage *s) {
  if (atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel) > 1) return;
  if (s->allocation) atomic_fetch_sub(&bytes_alive, (int64_t)s->bytes), free(s->allocation);
  else if (s->release_data) s->release_data(s->context);
  free(s);
}

void tensor_release(Tensor *t) {
  if (!t || atomic_fetch_sub_explicit(&t->references, 1, memory_order_acq_rel) > 1) return;
  storage_release(t->storage);
  free(t);
}

/* The lowest and highest element that a non-empty view touches; false when that overflows. */
static bool reach(const Type *t, const int64_t *stride, int64_t offset, int64_t *low,
                  int64_t *high) {
  *low = *high = offset;
  for (int i = 0; i < t->rank; i++) {
    int64_t span, *end = stride[i] < 0 ? low : high;
    if (__builtin_mul_overflow(stride[i], t->shape[i] - 1, &span)) return false;
    if (__builtin_add_overflow(*end, span, end)) return false;
  }
  return true;
}

/* Offsets of t's storage in elements of t: [first, first + count). */
static bool fits(const Tensor *t, const Type *type, const int64_t *stride, int64_t offset) {
  int64_t low, high, size = (int64_t)dtype_size(t->type.dtype),
                     first = (t->storage->data - t->data) / size;
  int64_t count = (int64_t)t->storage->bytes / size;
  return reach(type, stride, offset, &low, &high) && low >= first && high < first + count;
}

Tensor *tensor_view(Error *e, Tensor *t, const Type *type, const int64_t *stride, int64_t offset) {
  if (type_check(e, "view", type) != OK) return NULL;
  char from[TYPE_TEXT], to[TYPE_TEXT];
  bool empty = type_count(type) == 0;
  if (dtype_size(type->dtype) != dtype_size(t->type.dtype))
    return fail(e, ERR_TYPE, "view: %s can't be seen as %s: their elements differ in size",
                type_text(&t->type, from), type_text(type, to)),
           NULL;
  if (!empty && !fits(t, type, stride, offset))
    return fail(e, ERR_OUT_OF_RANGE, "view: %s at element %lld reaches beyond the data of %s",
                type_text(type, to), (long long)offset, type_text(&t->type, from)),
           NULL;
  /* An empty view touches nothing; its offset must not make a pointer that points nowhere. */
  char *data = t->data + (empty ? 0 : offset * (int64_t)dtype_size(type->dtype));
  Tensor *v = view_of(t->storage, type, data);
  if (!v) return fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  for (int i = 0; i < type->rank; i++) v->stride[i] = stride[i];
  atomic_fetch_add_explicit(&t->storage->references, 1, memory_order_relaxed);
  return v;
}

Tensor *tensor_row(Error *e, Tensor *t, int64_t index) {
  if (t->type.rank == 0) return fail(e, ERR_VALUE, "a tensor without dimensions has no rows"), NULL;
  if (index < 0 || index >= t->type.shape[0])
    return fail(e, ERR_OUT_OF_RANGE, "row %lld of a tensor with %lld", (long long)index,
                (long long)t->type.shape[0]),
           NULL;
  Type row = type_make(t->type.dtype, t->type.rank - 1, t->type.shape + 1);
  return tensor_view(e, t, &row, t->stride + 1, index * t->stride[0]);
}

bool tensor_is_dense(const Tensor *t) {
  int64_t step = 1;
  bool dense = true;
  for (int i = t->type.rank - 1; i >= 0; i--) {
    if (t->type.shape[i] == 0) return true;
    if (t->type.shape[i] > 1 && t->stride[i] != step) dense = false;
    step *= t->type.shape[i];
  }
  return dense;
}

Tensor *tensor_dense(Error *e, Tensor *t) {
  if (tensor_is_dense(t)) return tensor_retain(t);
  Tensor *packed = tensor_new_uninitialised(e, &t->type);
  if (packed) tensor_copy_out(t, packed->data);
  return packed;
}

bool tensor_is_shared(const Tensor *t) {
  return atomic_load(&t->references) > 1 || atomic_load(&t->storage->references) > 1;
}

bool tensor_is_writable(const Tensor *t) { return t->storage->allocation && !tensor_is_shared(t); }

Tensor *tensor_own(Error *e, Tensor *t) {
  if (!t || (!tensor_is_shared(t) && tensor_is_dense(t))) return t;
  Tensor *copy = tensor_new_uninitialised(e, &t->type);
  if (copy) tensor_copy_out(t, copy->data);
  tensor_release(t);
  return copy;
}

/* Runs of elements: n of them, source_step elements apart, packed into dst. */
static void gather_run(char *dst, const char *src, int64_t n, int64_t source_step, size_t size) {
  if (source_step == 1) memcpy(dst, src, (size_t)n * size);
  else if (size == 4)
    for (int64_t i = 0; i < n; i++) memcpy(dst + i * 4, src + i * source_step * 4, 4);
  else if (size == 8)
    for (int64_t i = 0; i < n; i++) memcpy(dst + i * 8, src + i * source_step * 8, 8);
  else if (size == 2)
    for (int64_t i = 0; i < n; i++) memcpy(dst + i * 2, src + i * source_step * 2, 2);
  else
    for (int64_t i = 0; i < n; i++) dst[i] = src[i * source_step];
}

/* Join neighbouring dimensions that one stride walks through, so that the innermost run is long. */
static int collapse(const Tensor *t, int64_t shape[MAX_RANK], int64_t stride[MAX_RANK]) {
  int rank = 0;
  for (int i = 0; i < t->type.rank; i++) {
    if (t->type.shape[i] == 1) continue;
    if (rank && stride[rank - 1] == t->stride[i] * t->type.shape[i]) {
      shape[rank - 1] *= t->type.shape[i];
      stride[rank - 1] = t->stride[i];
    } else {
      shape[rank] = t->type.shape[i];
      stride[rank++] = t->stride[i];
    }
  }
  return rank;
}

void tensor_copy_out(const Tensor *src, void *dst) {
  if (type_count(&src->type) == 0) return;
  int64_t shape[MAX_RANK] = {0}, stride[MAX_RANK] = {0}, index[MAX_RANK] = {0};
  size_t size = dtype_size(src->type.dtype);
  int rank = collapse(src, shape, stride);
  if (rank == 0) {
    memcpy(dst, src->data, size);
    return;
  }
  int64_t run = shape[rank - 1], offset = 0;
  for (char *out = dst;; out += (size_t)run * size) {
    gather_run(out, src->data + offset * (int64_t)size, run, stride[rank - 1], size);
    int i = rank - 2; /* count up, the last outer dimension first */
    for (; i >= 0; i--) {
      offset += stride[i];
      if (++index[i] < shape[i]) break;
      offset -= stride[i] * shape[i];
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

double tensor_get(const Tensor *t, int64_t index) {
  int64_t offset = 0;
  for (int i = t->type.rank - 1; i >= 0; i--) {
    offset += index % t->type.shape[i] * t->stride[i];
    index /= t->type.shape[i];
  }
  return dtype_get(t->type.dtype, t->data, offset);
}
