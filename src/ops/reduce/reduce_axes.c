/* Runs of neighbouring axes are reduced one after the other, innermost first. Where few rows
 * share much, each row is cut into pieces, whose partial results are reduced once more. */
#include "ops/reduce/reduce_axes.h"

/* Elements that one chunk of a reduction reads. */
enum { REDUCE_GRAIN = 1 << 15 };

/* Runs of dimensions that are all kept or all reduced, innermost last. */
typedef struct Runs {
  int count;
  int64_t extent[MAX_RANK];
  bool reduced[MAX_RANK];
} Runs;

static Runs find_runs(const Type *x, int count, const int *axes) {
  bool taken[MAX_RANK] = {false};
  for (int i = 0; i < count; i++) taken[axes[i]] = true;
  Runs r = {0};
  for (int i = 0; i < x->rank; i++) {
    if (x->shape[i] == 1) continue;
    if (r.count && r.reduced[r.count - 1] == taken[i]) {
      r.extent[r.count - 1] *= x->shape[i];
    } else {
      r.extent[r.count] = x->shape[i];
      r.reduced[r.count++] = taken[i];
    }
  }
  return r;
}

typedef struct Reducing {
  void (*kernel)(const void *, int64_t, int64_t, int64_t, void *);
  const char *x;
  char *y;
  int64_t outer, extent, inner, piece;
  size_t size;
} Reducing;

static void reduce_outer(void *context, int64_t begin, int64_t end) {
  const Reducing *r = context;
  r->kernel(r->x + (size_t)(begin * r->extent * r->inner) * r->size, end - begin, r->extent,
            r->inner, r->y + (size_t)(begin * r->inner) * r->size);
}

/* Pieces of the extent, each to a row of partial results. */
static void reduce_pieces(void *context, int64_t begin, int64_t end) {
  const Reducing *r = context;
  for (int64_t i = begin; i < end; i++) {
    int64_t first = i * r->piece, count = min(r->piece, r->extent - first);
    r->kernel(r->x + (size_t)(first * r->inner) * r->size, 1, count, r->inner,
              r->y + (size_t)(i * r->inner) * r->size);
  }
}

/* How many pieces an extent is cut into when there are too few rows to share out; 1: none.
 * Shapes alone decide. */
static int64_t piece_count(int64_t outer, int64_t extent, int64_t inner) {
  if (outer != 1) return 1;
  int64_t pieces = extent * inner / REDUCE_GRAIN;
  return max(1, min(min(pieces, extent / 8), 64));
}

static void reduce_run(const Call *c, Reduction r, Dtype d, const void *x, int64_t outer,
                       int64_t extent, int64_t inner, void *y, void *partials) {
  Reducing k = {c->kernels->reduce[r][d], x, y, outer, extent, inner, 0, dtype_size(d)};
  int64_t pieces = piece_count(outer, extent, inner);
  if (pieces > 1) {
    k.piece = ceil_div(extent, pieces);
    pieces = ceil_div(extent, k.piece);
    k.y = partials;
    parallel_for(c, pieces, 1, reduce_pieces, &k);
    k.kernel(partials, 1, pieces, inner, y);
  } else {
    parallel_for(c, outer, REDUCE_GRAIN / max(extent * inner, 1), reduce_outer, &k);
  }
}

/* Extents of the step that reduces run i of r. */
static void step_extents(const Runs *r, int i, int64_t *outer, int64_t *extent, int64_t *inner) {
  *outer = *inner = 1;
  *extent = r->extent[i];
  for (int k = 0; k < i; k++) *outer *= r->extent[k];
  for (int k = i + 1; k < r->count; k++) *inner *= r->extent[k];
}

static int last_reduced(const Runs *r) {
  for (int i = r->count - 1; i >= 0; i--)
    if (r->reduced[i]) return i;
  return -1;
}

static bool is_last_step(const Runs *r, int i) {
  for (int k = 0; k < i; k++)
    if (r->reduced[k]) return false;
  return true;
}

static void drop_run(Runs *r, int i) {
  r->extent[i] = 1; /* stays as a run of one */
  r->reduced[i] = false;
}

size_t reduce_bytes(const Type *x, int count, const int *axes) {
  Runs r = find_runs(x, count, axes);
  size_t size = dtype_size(dtype_to_compute(x->dtype)), bytes = 0;
  for (int i; (i = last_reduced(&r)) >= 0; drop_run(&r, i)) {
    int64_t outer, extent, inner;
    step_extents(&r, i, &outer, &extent, &inner);
    if (piece_count(outer, extent, inner) > 1) bytes += round_to_line(64 * (size_t)inner * size);
    if (!is_last_step(&r, i)) bytes += round_to_line((size_t)(outer * inner) * size);
  }
  return bytes;
}

void reduce_axes(const Call *c, Reduction reduction, const Type *x, const void *data, int count,
                 const int *axes, void *out, void *scratch) {
  Runs r = find_runs(x, count, axes);
  size_t size = dtype_size(x->dtype);
  char *at = scratch;
  if (last_reduced(&r) < 0) copy_bytes(c, out, data, type_bytes(x));
  for (int i; (i = last_reduced(&r)) >= 0; drop_run(&r, i)) {
    int64_t outer, extent, inner;
    step_extents(&r, i, &outer, &extent, &inner);
    void *partials = at, *to = out;
    if (piece_count(outer, extent, inner) > 1) at += round_to_line(64 * (size_t)inner * size);
    if (!is_last_step(&r, i)) {
      to = at;
      at += round_to_line((size_t)(outer * inner) * size);
    }
    reduce_run(c, reduction, x->dtype, data, outer, extent, inner, to, partials);
    data = to;
  }
}
