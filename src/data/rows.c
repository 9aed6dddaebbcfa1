/* Elements that lie side by side in memory. */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "data/stage.h"

/* A chunk has as many rows as make it worth a hand-off to another thread. It depends on sizes
 * alone. */
enum { CHUNK_BYTES = 64 << 10, PARALLEL_FROM = 128 << 10, LINE = 64 };

Rows *rows_new(Error *e, int count, Tensor *const *tensors) {
  Rows *r = calloc(1, sizeof *r);
  if (!r) return fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  r->tensor = calloc((size_t)count, sizeof *r->tensor);
  r->row_bytes = calloc((size_t)count, sizeof *r->row_bytes);
  if (!r->tensor || !r->row_bytes)
    return rows_free(r), fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  r->length = tensors[0]->type.shape[0];
  for (int c = 0; c < count; c++) {
    const Type *t = &tensors[c]->type;
    if (!(r->tensor[c] = tensor_dense(e, tensors[c]))) return rows_free(r), NULL;
    r->count = c + 1;
    Type row = type_make(t->dtype, t->rank - 1, t->shape + 1);
    r->row_bytes[c] = type_bytes(&row);
    if (t->shape[0] < r->length) r->length = t->shape[0];
  }
  return r;
}

void rows_free(Rows *r) {
  if (!r) return;
  if (r->tensor) tensors_release(r->tensor, r->count);
  free(r->tensor);
  free(r->row_bytes);
  free(r);
}

/* The rows are in random order: ask for the beginning of a later one while this one is copied. */
static void gather(char *restrict out, const char *restrict base, size_t bytes,
                   const int64_t *index, int64_t n) {
  enum { AHEAD = 3, LINES = 4 };
  for (int64_t i = 0; i < n; i++) {
    if (i + AHEAD < n) {
      const char *later = base + (size_t)index[i + AHEAD] * bytes;
      for (size_t l = 0; l < LINES && l * LINE < bytes; l++) __builtin_prefetch(later + l * LINE);
    }
    memcpy(out + (size_t)i * bytes, base + (size_t)index[i] * bytes, bytes);
  }
}

static void gather_small(char *restrict out, const char *restrict base, size_t bytes,
                         const int64_t *index, int64_t n) {
  if (bytes == 1)
    for (int64_t i = 0; i < n; i++) out[i] = base[index[i]];
  else if (bytes == 4)
    for (int64_t i = 0; i < n; i++) memcpy(out + i * 4, base + index[i] * 4, 4);
  else if (bytes == 8)
    for (int64_t i = 0; i < n; i++) memcpy(out + i * 8, base + index[i] * 8, 8);
  else
    for (int64_t i = 0; i < n; i++)
      memcpy(out + (size_t)i * bytes, base + (size_t)index[i] * bytes, bytes);
}

typedef struct GatherJob {
  const char *base;
  size_t bytes;
  const int64_t *index;
  int64_t n, per_chunk;
  char *out;
} GatherJob;

static void gather_chunk(void *context, int64_t chunk, int slot) {
  (void)slot;
  const GatherJob *j = context;
  int64_t first = chunk * j->per_chunk,
          n = j->n - first < j->per_chunk ? j->n - first : j->per_chunk;
  gather(j->out + (size_t)first * j->bytes, j->base, j->bytes, j->index + first, n);
}

void rows_gather(const Rows *r, int c, const int64_t *index, int64_t n, char *out, Pool *pool) {
  size_t bytes = r->row_bytes[c];
  const char *base = r->tensor[c]->data;
  if (!bytes) return;
  if (bytes < LINE) {
    gather_small(out, base, bytes, index, n);
    return;
  }
  if (bytes * (size_t)n < PARALLEL_FROM) {
    gather(out, base, bytes, index, n);
    return;
  }
  GatherJob j = {base, bytes, index, n, bytes >= CHUNK_BYTES ? 1 : (int64_t)(CHUNK_BYTES / bytes),
                 out};
  pool_run(pool, ceil_div(n, j.per_chunk), gather_chunk, &j);
}
