/* Running chains, block by block. */
#include "kernels/chain.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Rows shorter than this are handled several at a time, with broadcast operands expanded to
 * match. */
enum { SHORT_ROW = 256, EXPANDED = 8 };

/* A block of the chain's matrix that a product hands over: from (row, col) on, stride elements from
 * row to row. */
typedef struct BlockAt {
  void *data;
  int64_t stride, row, col;
} BlockAt;

typedef struct Work {
  const Chain *chain;
  int64_t block; /* elements per block */
  void *data[CHAIN_SLOTS];
  unsigned single[CHAIN_SLOTS]; /* 1: one element */
  _Alignas(64) char temporary[CHAIN_TEMPORARIES][CHAIN_BLOCK_BYTES];
  /* operands of short rows that don't lie as the rows do */
  _Alignas(64) char expanded[EXPANDED][CHAIN_BLOCK_BYTES];
  _Alignas(64) float wide[4][CHAIN_BLOCK_BYTES / sizeof(float)];
  int events; /* of the present block */
  int first;  /* of all so far: the result */
} Work;

static int64_t block_elements(const Chain *c) {
  size_t largest = 4;
  for (int s = 0; s < c->slot_count; s++)
    if (dtype_size(c->slot[s].dtype) > largest) largest = dtype_size(c->slot[s].dtype);
  return CHAIN_BLOCK_BYTES / (int64_t)largest;
}

static bool any_traps(const Numerics *n) { return numerics_trapped(n) != 0; }

/* An event makes a NaN of operands that hold none, or an infinity of finite ones: IEEE 754, 7.2 to
 * 7.4. */
static bool made_here(float x, float result) { return isnan(result) ? !isnan(x) : isfinite(x); }

/* Whether an infinity of these operands is exact, as of 1 / 0 and log 0: IEEE 754, 9.2.1. */
static bool divides_by_zero(Elementwise kernel, int arity, const float *x) {
  switch (kernel) {
    case EW_DIV:
    case EW_FLOORDIV:
      return x[1] == 0;
    case EW_RECIPROCAL:
    case EW_RSQRT:
    case EW_LOG:
    case EW_POW:
      return x[0] == 0;
    case EW_LOG1P:
      return x[0] == -1;
    case EW_SQRT_GRAD:
    case EW_RSQRT_GRAD:
    case EW_RECIPROCAL_GRAD:
      return x[0] == 0 || (arity > 1 && x[1] == 0);
    default:
      return false;
  }
}

/* The events of a step, found from its float32 operands and results. */
static int find_events(const ChainStep *s, const float *const *in, const unsigned *single,
                       const float *out, int64_t n, bool narrow) {
  int events = 0;
  for (int64_t i = 0; i < n; i++) {
    bool finite = isfinite(out[i]) && (!narrow || fabsf(out[i]) <= 65504.0f);
    if (finite) continue;
    bool clean = true;
    float x[3] = {0};
    for (int k = 0; k < s->arity; k++) {
      x[k] = in[k][single[k] ? 0 : i];
      clean = clean && made_here(x[k], out[i]);
    }
    if (!clean) continue;
    bool by_zero = divides_by_zero(s->kernel, s->arity, x);
    events |= isnan(out[i]) ? EVENT_INVALID : by_zero ? EVENT_DIVIDE : EVENT_OVERFLOW;
  }
  return events;
}

/* A NaN or an infinity is no integer. */
static int find_lost(Dtype from, const void *data, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(dtype_get(from, data, i))) return EVENT_INVALID;
  return 0;
}

/* On the machine a float16 division by zero gives NaN. */
static void replace_infinities(float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (isinf(x[i])) x[i] = NAN;
}

/* The float32 result may be infinite where the operands are small enough for a finite one, which
 * float16 clips. */
static bool overflows(Elementwise k) {
  return k == EW_EXP || k == EW_EXPM1 || k == EW_SINH || k == EW_COSH || k == EW_POW;
}

static void keep_finite(const ChainStep *s, const float *const *in, const unsigned *single,
                        float *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (!isinf(out[i])) continue;
    float x[3] = {0};
    bool finite = true;
    for (int k = 0; k < s->arity; k++) {
      x[k] = in[k][single[k] ? 0 : i];
      finite = finite && isfinite(x[k]);
    }
    if (finite && !divides_by_zero(s->kernel, s->arity, x)) out[i] = copysignf(FLT_MAX, out[i]);
  }
}

/* Accumulators add as in IEEE 754: beyond the range of float16 the result is infinite. */
static bool accumulates(const ChainStep *s) { return s->kernel == EW_ADD && s->p[0] != 0; }

static bool divides(Elementwise k) { return k == EW_DIV || k == EW_RECIPROCAL || k == EW_RSQRT; }

/* A step whose operands or result are float16 or bfloat16: widen, compute, round once. */
static void run_narrow(Work *w, const ChainStep *s, int64_t n, int64_t index) {
  const Chain *c = w->chain;
  const void *in[3] = {0};
  const float *wide_in[3] = {0};
  unsigned single = 0, singles[3] = {0};
  for (int k = 0; k < s->arity; k++) {
    const ChainSlot *slot = &c->slot[s->in[k]];
    singles[k] = w->single[s->in[k]];
    single |= singles[k] << k;
    in[k] = w->data[s->in[k]];
    if (!dtype_is_narrow(slot->dtype)) continue;
    const void *from[1] = {in[k]};
    c->kernels->cast[slot->dtype][F32](from, 0, w->wide[k], singles[k] ? 1 : n, NULL);
    in[k] = wide_in[k] = w->wide[k];
  }
  Dtype out_dtype = c->slot[s->out].dtype;
  float *result = dtype_is_narrow(out_dtype) ? w->wide[3] : w->data[s->out];
  c->kernels->strip[s->kernel][F32](in, single, result, n, s->p);
  if (!dtype_is_narrow(out_dtype)) return;
  if (any_traps(c->numerics) && s->kernel != EW_WHERE)
    w->events |= find_events(s, wide_in, singles, result, n, out_dtype == F16);
  if (out_dtype == F16) {
    if (divides(s->kernel)) replace_infinities(result, n);
    if (overflows(s->kernel)) keep_finite(s, wide_in, singles, result, n);
    RngKey key = c->rng;
    key.stream += s->stream;
    const void *from[1] = {result};
    if (accumulates(s) && !(c->numerics && c->numerics->stochastic_rounding))
      c->kernels->cast[F32][F16](from, 0, w->data[s->out], n, NULL);
    else narrow_f16_by(c->kernels, result, w->data[s->out], n, c->numerics, &key, (uint64_t)index);
  } else {
    const void *from[1] = {result};
    c->kernels->cast[F32][BF16](from, 0, w->data[s->out], n, NULL);
  }
}

/* Of operands and results that need no conversion. Where events are looked for, operands that the
 * result takes the place of are kept. */
static void run_plain(Work *w, const ChainStep *s, const void *const *in, unsigned single,
                      int64_t n) {
  const Chain *c = w->chain;
  Dtype d = c->slot[s->in[s->arity == 3 ? 1 : 0]].dtype;
  bool looks =
      any_traps(c->numerics) && d == F32 && c->slot[s->out].dtype == F32 && s->kernel != EW_WHERE;
  const float *operands[3] = {0};
  unsigned singles[3] = {single & 1, single >> 1 & 1, single >> 2 & 1};
  for (int k = 0; looks && k < s->arity; k++) {
    operands[k] = in[k];
    if (in[k] != w->data[s->out]) continue;
    memcpy(w->wide[k], in[k], (size_t)(singles[k] ? 1 : n) * sizeof(float));
    operands[k] = w->wide[k];
  }
  c->kernels->strip[s->kernel][d](in, single, w->data[s->out], n, s->p);
  if (looks) w->events |= find_events(s, operands, singles, w->data[s->out], n, false);
}

static void run_step(Work *w, const ChainStep *s, int64_t n, int64_t index) {
  const Chain *c = w->chain;
  const void *in[3] = {0};
  unsigned single = 0;
  for (int k = 0; k < s->arity; k++) {
    in[k] = w->data[s->in[k]];
    single |= w->single[s->in[k]] << k;
  }
  Dtype from = c->slot[s->in[s->arity == 3 ? 1 : 0]].dtype, to = c->slot[s->out].dtype;
  if (s->kernel == ELEMENTWISE_COUNT) {
    if (to == F16 && c->numerics && c->numerics->stochastic_rounding && from == F32) {
      RngKey key = c->rng;
      key.stream += s->stream;
      if (single) { /* each element is rounded by its own number */
        c->kernels->cast[F32][F32](in, 1, w->wide[0], n, NULL);
        in[0] = w->wide[0], single = 0;
      }
      narrow_f16(in[0], w->data[s->out], n, c->numerics, &key, (uint64_t)index);
    } else {
      c->kernels->cast[from][to](in, single, w->data[s->out], n, NULL);
    }
    if (to == F16 && from != F16) {
      w->events |= clip_cast(from, in[0], single, w->data[s->out], n, c->numerics);
    } else {
      bool loses = dtype_is_float(from) && !dtype_is_float(to) && to != BOOL;
      if (loses && c->numerics && c->numerics->trap_invalid)
        w->events |= find_lost(from, in[0], single ? 1 : n);
    }
  } else if (dtype_is_narrow(from) || dtype_is_narrow(to)) {
    run_narrow(w, s, n, index);
  } else {
    run_plain(w, s, in, single, n);
  }
}

static void run_steps(Work *w, int64_t n, int64_t index) {
  const Chain *c = w->chain;
  int first = 0, trapped = numerics_trapped(c->numerics);
  for (int i = 0; i < c->step_count; i++) {
    const ChainStep *s = &c->step[i];
    if (s->joined && !w->single[s->in[0]] && !any_traps(c->numerics)) {
      const ChainStep *division = &c->step[++i];
      c->kernels->divide_bytes(w->data[s->in[0]], *(const float *)w->data[division->in[1]],
                               w->data[division->out], n);
    } else {
      run_step(w, s, n, index);
      if (!first) first = chain_events(i, w->events & trapped);
    }
  }
  w->first = chain_first_events(w->first, first);
  w->events = 0;
}

static int64_t general_offset(const Chain *c, const ChainSlot *slot, int64_t row) {
  int64_t offset = 0;
  for (int i = c->rank - 2; i >= 0; i--) {
    offset += row % c->extent[i] * slot->stride[i];
    row /= c->extent[i];
  }
  return offset;
}

/* Sets the current block's address of a slot, and whether it is a single element. The two change
 * together: one element of a part of a row is many in several rows. */
static void place_many(Work *w, int slot, const void *at) {
  w->data[slot] = (void *)(uintptr_t)at, w->single[slot] = 0;
}
static void place_one(Work *w, int slot, const void *at) {
  w->data[slot] = (void *)(uintptr_t)at, w->single[slot] = 1;
}

static void begin_work(Work *w, const Chain *c) {
  w->chain = c;
  w->events = w->first = 0;
  w->block = block_elements(c);
  for (int s = 0; s < c->slot_count; s++) {
    const ChainSlot *slot = &c->slot[s];
    if (slot->role == CHAIN_TEMPORARY) place_many(w, s, w->temporary[slot->temporary]);
    else if (slot->role == CHAIN_SINGLE) place_one(w, s, slot->data);
  }
}

/* A run inside one row: columns [col, col + n) of row. */
static void run_in_row(Work *w, int64_t row, int64_t col, int64_t n) {
  const Chain *c = w->chain;
  for (int s = 0; s < c->slot_count; s++) {
    const ChainSlot *slot = &c->slot[s];
    int64_t size = (int64_t)dtype_size(slot->dtype), inner = slot->stride[c->rank - 1];
    const char *data = slot->data;
    if (slot->role == CHAIN_FULL) place_many(w, s, data + (row * c->cols + col) * size);
    else if (slot->role == CHAIN_ROW) place_many(w, s, data + col * size);
    else if (slot->role == CHAIN_GENERAL && inner)
      place_many(w, s, data + (general_offset(c, slot, row) + col) * size);
    else if (slot->role == CHAIN_GENERAL)
      place_one(w, s, data + general_offset(c, slot, row) * size);
  }
  run_steps(w, n, row * c->cols + col);
}

static void copy_row(char *to, const char *from, size_t size, int64_t cols, bool repeat) {
  if (!repeat) memcpy(to, from, (size_t)cols * size);
  else if (size == 4)
    for (int64_t i = 0; i < cols; i++) memcpy(to + i * 4, from, 4);
  else
    for (int64_t i = 0; i < cols; i++) memcpy(to + i * (int64_t)size, from, size);
}

/* Several short rows at once: operands that aren't full are copied out row by row. False: too
 * many such operands. */
static bool run_short_rows(Work *w, int64_t row, int64_t rows, bool first) {
  const Chain *c = w->chain;
  int used = 0;
  for (int s = 0; s < c->slot_count; s++) {
    const ChainSlot *slot = &c->slot[s];
    size_t size = dtype_size(slot->dtype);
    if (slot->role == CHAIN_FULL) {
      place_many(w, s, (const char *)slot->data + (size_t)(row * c->cols) * size);
    } else if (slot->role == CHAIN_ROW || slot->role == CHAIN_GENERAL) {
      if (used == EXPANDED) return false;
      char *to = w->expanded[used++];
      place_many(w, s, to);
      if (slot->role == CHAIN_ROW && !first) continue; /* the first block was the largest */
      bool repeat = slot->role == CHAIN_GENERAL && slot->stride[c->rank - 1] == 0;
      for (int64_t r = 0; r < rows; r++) {
        int64_t offset = slot->role == CHAIN_ROW ? 0 : general_offset(c, slot, row + r);
        copy_row(to + (size_t)(r * c->cols) * size,
                 (const char *)slot->data + (size_t)offset * size, size, c->cols, repeat);
      }
    }
  }
  run_steps(w, rows * c->cols, row * c->cols);
  return true;
}

static int run_flat(Work *w, int64_t begin, int64_t end) {
  const Chain *c = w->chain;
  for (int64_t i = begin; i < end; i += w->block) {
    int64_t n = end - i < w->block ? end - i : w->block;
    for (int s = 0; s < c->slot_count; s++)
      if (c->slot[s].role == CHAIN_FULL)
        place_many(w, s, (const char *)c->slot[s].data + i * (int64_t)dtype_size(c->slot[s].dtype));
    run_steps(w, n, i);
  }
  return w->first;
}

static bool is_flat(const Chain *c) {
  for (int s = 0; s < c->slot_count; s++)
    if (c->slot[s].role == CHAIN_ROW || c->slot[s].role == CHAIN_GENERAL) return false;
  return true;
}

int chain_run(const Chain *c, int64_t begin, int64_t end) {
  if (begin >= end) return 0;
  Work w;
  begin_work(&w, c);
  if (is_flat(c)) return run_flat(&w, begin, end);
  int64_t cols = c->cols, row = begin / cols, col = begin % cols;
  bool first = true, expand = cols < SHORT_ROW;
  while (begin < end) {
    int64_t rows = (end - begin) / cols, max = w.block / cols;
    if (rows > max) rows = max;
    if (expand && col == 0 && rows > 1) {
      expand = run_short_rows(&w, row, rows, first);
      if (!expand) continue;
      first = false;
      begin += rows * cols, row += rows;
      continue;
    }
    int64_t n = cols - col;
    if (n > end - begin) n = end - begin;
    if (n > w.block) n = w.block;
    run_in_row(&w, row, col, n);
    begin += n, col += n;
    if (col == cols) col = 0, row++;
  }
  return w.first;
}

/* Rows of `cols` elements between a matrix with long rows and one without gaps. */
static void move_rows(char *to, int64_t to_row, const char *from, int64_t from_row,
                      size_t row_bytes, int64_t rows) {
  for (int64_t r = 0; r < rows; r++, to += to_row, from += from_row) memcpy(to, from, row_bytes);
}

/* The address of a slot's element (row, col), in the matrix or in the block. *row_bytes: the stride
 * of rows. */
static char *place_in_block(const Chain *c, const ChainSlot *slot, const BlockAt *b, int64_t first,
                            int64_t *row_bytes) {
  int64_t size = (int64_t)dtype_size(slot->dtype);
  bool own = slot->role == CHAIN_BLOCK;
  *row_bytes = (own ? b->stride : c->cols) * size;
  return own ? (char *)b->data + first * *row_bytes
             : (char *)slot->data + (b->row + first) * *row_bytes + b->col * size;
}

/* Several short rows of a block at once. Operands with gaps between rows are copied to dense memory
 * before the steps, and results back afterwards. */
static void run_block_rows(Work *w, const BlockAt *b, int64_t first, int64_t rows, int64_t cols) {
  const Chain *c = w->chain;
  int used = 0;
  for (int s = 0; s < c->slot_count; s++) {
    const ChainSlot *slot = &c->slot[s];
    size_t size = dtype_size(slot->dtype);
    if (slot->role == CHAIN_ROW || slot->role == CHAIN_GENERAL) {
      bool repeat = slot->role == CHAIN_GENERAL && slot->stride[c->rank - 1] == 0;
      place_many(w, s, w->expanded[used++]);
      for (int64_t r = 0; r < rows; r++) {
        int64_t offset = slot->role == CHAIN_ROW
                             ? b->col
                             : general_offset(c, slot, b->row + first + r) + (repeat ? 0 : b->col);
        copy_row((char *)w->data[s] + (size_t)(r * cols) * size,
                 (const char *)slot->data + (size_t)offset * size, size, cols, repeat);
      }
    } else if (slot->role == CHAIN_FULL || slot->role == CHAIN_BLOCK) {
      int64_t row_bytes;
      char *at = place_in_block(c, slot, b, first, &row_bytes);
      place_many(w, s, row_bytes == cols * (int64_t)size ? at : w->expanded[used++]);
      if (w->data[s] != at && slot->is_read)
        move_rows(w->data[s], cols * (int64_t)size, at, row_bytes, (size_t)cols * size, rows);
    }
  }
  run_steps(w, rows * cols, 0);
  for (int s = 0; s < c->slot_count; s++) {
    const ChainSlot *slot = &c->slot[s];
    if ((slot->role != CHAIN_FULL && slot->role != CHAIN_BLOCK) || !slot->is_written) continue;
    int64_t size = (int64_t)dtype_size(slot->dtype), row_bytes;
    char *at = place_in_block(c, slot, b, first, &row_bytes);
    if (w->data[s] != at)
      move_rows(at, row_bytes, w->data[s], cols * size, (size_t)(cols * size), rows);
  }
}

/* Stochastic rounding depends on an element's position, so such a chain runs row by row. */
static bool can_join_rows(const Chain *c, int64_t cols) {
  int kept = 0;
  for (int s = 0; s < c->slot_count; s++)
    kept += c->slot[s].role != CHAIN_SINGLE && c->slot[s].role != CHAIN_TEMPORARY;
  return cols < SHORT_ROW && kept <= EXPANDED && !(c->numerics && c->numerics->stochastic_rounding);
}

int chain_run_block(const Chain *c, void *block, int64_t block_row, int64_t row, int64_t rows,
                    int64_t col, int64_t cols) {
  Work w;
  begin_work(&w, c);
  bool dense = block_row == c->cols && col == 0 && cols == c->cols;
  bool flat = dense && is_flat(c);
  if (!flat && rows > 1 && can_join_rows(c, cols)) {
    BlockAt b = {block, block_row, row, col};
    int64_t max = w.block / cols;
    for (int64_t r = 0; r < rows; r += max)
      run_block_rows(&w, &b, r, rows - r < max ? rows - r : max, cols);
    return w.first;
  }
  int64_t total = flat ? rows * cols : cols;
  for (int64_t r = 0; r < (flat ? 1 : rows); r++) {
    for (int64_t done = 0; done < total; done += w.block) {
      int64_t n = total - done < w.block ? total - done : w.block;
      int64_t at = r * block_row + done;
      for (int s = 0; s < c->slot_count; s++) {
        size_t size = dtype_size(c->slot[s].dtype);
        if (c->slot[s].role == CHAIN_BLOCK)
          place_many(&w, s, (const char *)block + at * (int64_t)size);
        else if (flat && c->slot[s].role == CHAIN_FULL)
          place_many(&w, s, (const char *)c->slot[s].data + (row * cols + done) * (int64_t)size);
      }
      if (flat) run_steps(&w, n, row * cols + done);
      else run_in_row(&w, row + r, col + done, n);
    }
  }
  return w.first;
}

void chain_fetch_block(const Chain *c, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  enum { LINE_BYTES = 64 };
  for (int s = 0; s < c->slot_count; s++) {
    const ChainSlot *slot = &c->slot[s];
    if (slot->role != CHAIN_FULL) continue;
    int64_t size = (int64_t)dtype_size(slot->dtype);
    for (int64_t r = row; r < row + rows; r++) {
      const char *at = (const char *)slot->data + (r * c->cols + col) * size;
      for (int64_t b = 0; b < cols * size; b += LINE_BYTES) __builtin_prefetch(at + b, 0, 2);
    }
  }
}
