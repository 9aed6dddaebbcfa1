/* Copies between strided layouts. Dimensions with compatible strides on both sides are merged. Then
 * rows either are runs of bytes, or one side is the transpose of the other. In the latter case
 * small squares are copied at a time. */
#include <string.h>

#include "ops/support.h"

enum { STRIDED_GRAIN = 1 << 15, SQUARE = 16 };

void strided_add(Strided *s, int64_t extent, int64_t from, int64_t to) {
  s->extent[s->rank] = extent;
  s->from[s->rank] = from;
  s->to[s->rank++] = to;
}

void fill_elements(void *y, size_t size, const void *value, int64_t n) {
  char *to = y;
  switch (size) {
    case 1:
      memset(to, *(const unsigned char *)value, (size_t)n);
      break;
    case 2:
      for (int64_t i = 0; i < n; i++) memcpy(to + i * 2, value, 2);
      break;
    case 4:
      for (int64_t i = 0; i < n; i++) memcpy(to + i * 4, value, 4);
      break;
    case 8:
      for (int64_t i = 0; i < n; i++) memcpy(to + i * 8, value, 8);
      break;
    default:
      for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * size, value, size);
      break;
  }
}

/* n elements with steps in bytes. */
static inline void copy_steps(char *y, int64_t to, const char *x, int64_t from, int64_t n,
                              size_t size) {
  for (int64_t i = 0; i < n; i++) memcpy(y + i * to, x + i * from, size);
}

static void copy_row(char *y, int64_t to, const char *x, int64_t from, int64_t n, size_t size) {
  if (from == 1 && to == 1) {
    memcpy(y, x, (size_t)n * size);
  } else if (from == 0 && to == 1) {
    fill_elements(y, size, x, n);
  } else {
    switch (size) {
      case 1:
        copy_steps(y, to, x, from, n, 1);
        break;
      case 2:
        copy_steps(y, to * 2, x, from * 2, n, 2);
        break;
      case 4:
        copy_steps(y, to * 4, x, from * 4, n, 4);
        break;
      default:
        copy_steps(y, to * 8, x, from * 8, n, 8);
        break;
    }
  }
}

/* y[i, j] = x[i, j] for a small rectangle; y's j and x's i are contiguous. */
static inline void copy_square(char *y, int64_t to, const char *x, int64_t from, int64_t rows,
                               int64_t cols, size_t size) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++)
      memcpy(y + i * to + j * (int64_t)size, x + j * from + i * (int64_t)size, size);
}

static void copy_transposed(char *y, int64_t to, const char *x, int64_t from, int64_t rows,
                            int64_t cols, size_t size) {
  int64_t bytes = (int64_t)size;
  for (int64_t i = 0; i < rows; i += SQUARE)
    for (int64_t j = 0; j < cols; j += SQUARE) {
      char *at = y + (i * to + j) * bytes;
      const char *source = x + (j * from + i) * bytes;
      int64_t h = min(SQUARE, rows - i), w = min(SQUARE, cols - j);
      switch (size) {
        case 1:
          copy_square(at, to, source, from, h, w, 1);
          break;
        case 2:
          copy_square(at, to * 2, source, from * 2, h, w, 2);
          break;
        case 4:
          copy_square(at, to * 4, source, from * 4, h, w, 4);
          break;
        default:
          copy_square(at, to * 8, source, from * 8, h, w, 8);
          break;
      }
    }
}

static void remove_dimension(Strided *s, int i) {
  for (int k = i; k + 1 < s->rank; k++)
    s->extent[k] = s->extent[k + 1], s->from[k] = s->from[k + 1], s->to[k] = s->to[k + 1];
  s->rank--;
}

static void merge(Strided *s) {
  for (int i = s->rank - 1; i >= 0; i--)
    if (s->extent[i] == 1) remove_dimension(s, i);
  for (int i = s->rank - 2; i >= 0; i--) {
    int64_t n = s->extent[i + 1];
    if (s->from[i] != s->from[i + 1] * n || s->to[i] != s->to[i + 1] * n) continue;
    s->extent[i + 1] *= s->extent[i];
    remove_dimension(s, i);
  }
  if (s->rank == 0) strided_add(s, 1, 1, 1);
}

typedef struct StridedCopy {
  const Call *call;
  Strided s;       /* outer dimensions, then the inner ones that a step copies */
  int outer;       /* how many are outer */
  bool transposed; /* two inner dimensions: [i, j], x's i and y's j contiguous */
  size_t size;
  const char *x;
  char *y;
} StridedCopy;

static void copy_step(const StridedCopy *w, const char *x, char *y) {
  const Strided *s = &w->s;
  int i = w->outer;
  if (!w->transposed) {
    copy_row(y, s->to[i], x, s->from[i], s->extent[i], w->size);
  } else if (s->from[i + 1] == s->extent[i] &&
             s->to[i] == s->extent[i + 1]) { /* a dense matrix on both sides */
    w->call->kernels->transpose(w->size, x, 1, s->extent[i + 1], s->extent[i], y);
  } else {
    copy_transposed(y, s->to[i], x, s->from[i + 1], s->extent[i], s->extent[i + 1], w->size);
  }
}

static void copy_range(void *context, int64_t begin, int64_t end) {
  const StridedCopy *w = context;
  const Strided *s = &w->s;
  int64_t at[2 * MAX_RANK], from = 0, to = 0, rest = begin, size = (int64_t)w->size;
  for (int i = w->outer - 1; i >= 0; i--) {
    at[i] = rest % s->extent[i];
    rest /= s->extent[i];
    from += at[i] * s->from[i], to += at[i] * s->to[i];
  }
  for (int64_t n = begin; n < end; n++) {
    copy_step(w, w->x + from * size, w->y + to * size);
    for (int i = w->outer - 1; i >= 0; i--) {
      from += s->from[i], to += s->to[i];
      if (++at[i] < s->extent[i]) break;
      from -= s->extent[i] * s->from[i], to -= s->extent[i] * s->to[i];
      at[i] = 0;
    }
  }
}

static void move_dimension(Strided *s, int from, int to) {
  Strided old = *s;
  remove_dimension(s, from);
  for (int k = s->rank; k > to; k--)
    s->extent[k] = s->extent[k - 1], s->from[k] = s->from[k - 1], s->to[k] = s->to[k - 1];
  s->extent[to] = old.extent[from], s->from[to] = old.from[from], s->to[to] = old.to[from];
  s->rank++;
}

/* Large squares are cut along i so that several threads have work: [blocks, i within, j]. */
static void cut_rows(Strided *s) {
  int i = s->rank - 2;
  int64_t rows = s->extent[i];
  if (s->rank > 2 || rows * s->extent[i + 1] < 4 * STRIDED_GRAIN || rows % 64) return;
  Strided old = *s;
  s->rank = 0;
  strided_add(s, rows / 64, old.from[i] * 64, old.to[i] * 64);
  strided_add(s, 64, old.from[i], old.to[i]);
  strided_add(s, old.extent[i + 1], old.from[i + 1], old.to[i + 1]);
}

void copy_strided(const Call *c, size_t size, const Strided *given, const void *x, void *y) {
  StridedCopy w = {.call = c, .s = *given, .size = size, .x = x, .y = y};
  for (int i = 0; i < w.s.rank; i++)
    if (w.s.extent[i] == 0) return;
  merge(&w.s);
  Strided *s = &w.s;
  int last = s->rank - 1;
  if (s->to[last] == 1 && s->from[last] != 1 && s->from[last] != 0)
    for (int i = 0; i < last && !w.transposed; i++)
      if (s->from[i] == 1 && s->extent[i] >= 4 && s->extent[last] >= 4) {
        move_dimension(s, i, last - 1);
        w.transposed = true;
      }
  if (w.transposed && pool_size(c->pool) > 1) cut_rows(s);
  w.outer = s->rank - (w.transposed ? 2 : 1);
  int64_t steps = 1, work = s->extent[s->rank - 1] * (w.transposed ? s->extent[s->rank - 2] : 1);
  for (int i = 0; i < w.outer; i++) steps *= s->extent[i];
  parallel_for(c, steps, STRIDED_GRAIN / max(work, 1), copy_range, &w);
}
