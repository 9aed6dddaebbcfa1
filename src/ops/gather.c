/* Elements and rows by index, and back. Indices are checked before anything moves; adding up goes in index
 * order, so that results don't depend on threads. */
#include <string.h>

#include "ops/support.h"

/* Bytes that one chunk of copied rows has. */
enum { ROWS_GRAIN = 1 << 16, MANY_ROWS = 64 };

static int64_t rows_grain(int64_t run_bytes) { return most(1, ROWS_GRAIN / most(run_bytes, 1)); }

/* target += source, n elements of float32 or float64 (or integers). */
static void add_run(Dtype d, void *target, const void *source, int64_t n) {
  switch (d) {
    case F32:
      for (int64_t i = 0; i < n; i++) ((float *)target)[i] += ((const float *)source)[i];
      break;
    case F64:
      for (int64_t i = 0; i < n; i++) ((double *)target)[i] += ((const double *)source)[i];
      break;
    case I32:
      for (int64_t i = 0; i < n; i++) ((uint32_t *)target)[i] += ((const uint32_t *)source)[i];
      break;
    case I64:
      for (int64_t i = 0; i < n; i++) ((uint64_t *)target)[i] += ((const uint64_t *)source)[i];
      break;
    default:
      for (int64_t i = 0; i < n; i++)
        ((uint8_t *)target)[i] = (uint8_t)(((uint8_t *)target)[i] + ((const uint8_t *)source)[i]);
  }
}

static Status infer_index(Error *e, const Node *n, int input) {
  return want_integer(e, n->op->inputs[input], &n->in[input]->type);
}

/* ---- gather, embedding_lookup ---- */

enum { AXIS, EXTENT };

/* x's axis gives way to the axes of the indices. */
static Status gathered_type(Error *e, const Type *x, const Type *index, int axis, Type *y) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  if (x->rank - 1 + index->rank > MAX_RANK)
    return fail(e, ERR_VALUE, "%s by indices of %s has more than %d dimensions", shape_text(x, a),
                shape_text(index, b), MAX_RANK);
  *y = (Type){.dtype = x->dtype};
  for (int i = 0; i < axis; i++) y->shape[y->rank++] = x->shape[i];
  for (int i = 0; i < index->rank; i++) y->shape[y->rank++] = index->shape[i];
  for (int i = axis + 1; i < x->rank; i++) y->shape[y->rank++] = x->shape[i];
  return OK;
}

static Status infer_gather(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  int axis;
  Status s = infer_index(e, n, 1);
  if (s == OK) s = axis_check(e, "axis", n->attr[AXIS].i, x->rank, &axis);
  if (s != OK) return s;
  n->attr[AXIS].i = axis;
  return gathered_type(e, x, &n->in[1]->type, axis, &n->out[0].type);
}

typedef struct Rows {
  const Call *call;
  Dtype dtype, index_dtype;
  const char *x;
  const void *index;
  char *y;
  int64_t outer, extent, inner, count; /* [outer, extent, inner] by count indices */
  size_t run;                          /* bytes of inner */
  _Atomic int64_t bad;                 /* 1 + the least position of an index out of range; 0: none */
} Rows;

static void note_bad(Rows *r, int64_t position) {
  int64_t seen = r->bad;
  while ((seen == 0 || position + 1 < seen) && !atomic_compare_exchange_weak(&r->bad, &seen, position + 1)) {
  }
}

static void gather_rows(void *context, int64_t begin, int64_t end) {
  Rows *r = context;
  for (int64_t k = begin; k < end; k++) {
    int64_t at = k % r->count, index = read_index(r->index_dtype, r->index, at);
    if (index < 0 || index >= r->extent) {
      note_bad(r, at);
      continue;
    }
    const char *from = r->x + (size_t)(k / r->count * r->extent + index) * r->run;
    char *to = r->y + (size_t)k * r->run;
    memcpy(to, from, r->run);
  }
}

static Status report_bad(const Call *c, const Rows *r, const char *what) {
  if (!r->bad) return OK;
  index_at(c, what, r->index_dtype, r->index, r->bad - 1, r->extent);
  return ERR_OUT_OF_RANGE;
}

static Status gather_along(const Call *c, int axis, const char *what) {
  Around a = around_axis(c->in_type[0], axis);
  Rows r = {.call = c,
            .index_dtype = c->in_type[1]->dtype,
            .x = c->in[0],
            .index = c->in[1],
            .y = c->out[0],
            .outer = a.outer,
            .extent = a.extent,
            .inner = a.inner,
            .count = type_count(c->in_type[1]),
            .run = (size_t)a.inner * dtype_size(c->in_type[0]->dtype)};
  parallel_for(c, a.outer * r.count, rows_grain((int64_t)r.run), gather_rows, &r);
  return report_bad(c, &r, what);
}

static Status eval_gather(const Call *c) { return gather_along(c, (int)c->attr[AXIS].i, "indices"); }

static void grad_gather(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  int64_t axis = n->attr[AXIS].i;
  Attr attrs[] = {attr_int(axis), attr_int(n->in[0]->type.shape[axis])};
  dx[0] = op_with(g, "gather_grad", (Value *[]){dy[0], n->in[1]}, 2, attrs);
}

static Status infer_embedding(Error *e, Node *n) {
  const Type *table = &n->in[0]->type;
  int64_t factor = n->attr[0].i;
  char text[TYPE_TEXT];
  if (table->rank < 2)
    return fail(e, ERR_VALUE, "the table needs 2 dimensions at least, got %s", shape_text(table, text));
  if (factor < 1 || table->shape[0] % factor)
    return fail(e, ERR_VALUE, "serialization_factor %lld doesn't divide the %lld rows of the table %s",
                (long long)factor, (long long)table->shape[0], shape_text(table, text));
  Status s = infer_index(e, n, 1);
  return s == OK ? gathered_type(e, table, &n->in[1]->type, 0, &n->out[0].type) : s;
}

static Status eval_embedding(const Call *c) { return gather_along(c, 0, "ids"); }

static void grad_embedding(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Attr attrs[] = {attr_int(0), attr_int(n->in[0]->type.shape[0])};
  dx[0] = op_with(g, "gather_grad", (Value *[]){dy[0], n->in[1]}, 2, attrs);
}

/* gather_grad: rows of dy added to the rows of zeros that gather took them from. */
static Status infer_gather_grad(Error *e, Node *n) {
  const Type *dy = &n->in[0]->type, *index = &n->in[1]->type;
  int64_t axis = n->attr[AXIS].i;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Status s = infer_index(e, n, 1);
  if (s != OK) return s;
  bool fits = dy->dtype != BOOL && axis >= 0 && dy->rank >= axis + index->rank && n->attr[EXTENT].i >= 0;
  for (int i = 0; i < index->rank && fits; i++) fits = dy->shape[axis + i] == index->shape[i];
  Type *x = &n->out[0].type;
  *x = (Type){.dtype = dy->dtype};
  if (!fits || dy->rank - index->rank + 1 > MAX_RANK)
    return fail(e, ERR_INVALID_ARGUMENT, "dy %s doesn't fit indices %s", type_text(dy, a),
                type_text(index, b));
  for (int i = 0; i < axis; i++) x->shape[x->rank++] = dy->shape[i];
  x->shape[x->rank++] = n->attr[EXTENT].i;
  for (int i = (int)axis + index->rank; i < dy->rank; i++) x->shape[x->rank++] = dy->shape[i];
  return OK;
}

/* A chunk owns outer blocks, or (few of them) columns of the rows: each sum has one owner, who adds in index
 * order. */
typedef struct Adding {
  Rows rows;
  int64_t column_blocks, columns; /* columns of a block */
} Adding;

static void add_rows(void *context, int64_t begin, int64_t end) {
  const Adding *a = context;
  const Rows *r = &a->rows;
  size_t size = dtype_size(r->dtype);
  for (int64_t k = begin; k < end; k++) {
    int64_t outer = k / a->column_blocks, first = k % a->column_blocks * a->columns;
    int64_t width = least(a->columns, r->inner - first);
    char *target = r->y + ((size_t)(outer * r->extent * r->inner) + (size_t)first) * size;
    const char *source = r->x + ((size_t)(outer * r->count * r->inner) + (size_t)first) * size;
    for (int64_t i = 0; i < r->count; i++)
      add_run(r->dtype, target + (size_t)read_index(r->index_dtype, r->index, i) * r->run,
              source + (size_t)i * r->run, width);
  }
}

static Status body_gather_grad(const Call *c) {
  const Type *index = c->in_type[1];
  Around a = around_axis(c->out_type[0], (int)c->attr[AXIS].i);
  Dtype d = c->out_type[0]->dtype;
  Adding add = {.rows = {.dtype = d,
                         .index_dtype = index->dtype,
                         .x = c->in[0],
                         .index = c->in[1],
                         .y = c->out[0],
                         .outer = a.outer,
                         .extent = a.extent,
                         .inner = a.inner,
                         .count = type_count(index),
                         .run = (size_t)a.inner * dtype_size(d)}};
  Status s = check_indices(c, "indices", 1, a.extent);
  if (s != OK) return s;
  fill_zero(c, c->out[0], type_bytes(c->out_type[0]));
  add.columns = a.outer < 8 && a.inner >= 2 * MANY_ROWS ? MANY_ROWS : most(a.inner, 1);
  add.column_blocks = (a.inner + add.columns - 1) / add.columns;
  if (add.rows.count && a.inner)
    parallel_for(c, a.outer * add.column_blocks, rows_grain(add.rows.count * add.columns * 4), add_rows,
                 &add);
  return OK;
}
static Status eval_gather_grad(const Call *c) { return eval_wide(c, body_gather_grad); }
static size_t scratch_wide(const Node *n) { return wide_scratch(n, 0); }

static void grad_gather_grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Attr attrs[] = {n->attr[AXIS]};
  dx[0] = op_with(g, "gather", (Value *[]){dy[0], n->in[1]}, 2, attrs);
}

/* ---- take_along: each row by its own indices (what sort and top_k need) ---- */

static bool same_but(const Type *a, const Type *b, int axis) {
  bool same = a->rank == b->rank;
  for (int i = 0; i < a->rank && same; i++) same = i == axis || a->shape[i] == b->shape[i];
  return same;
}

static Status infer_take(Error *e, Node *n) {
  const Type *x = &n->in[0]->type, *index = &n->in[1]->type;
  int axis;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Status s = infer_index(e, n, 1);
  if (s == OK) s = axis_check(e, "axis", n->attr[AXIS].i, x->rank, &axis);
  if (s != OK) return s;
  n->attr[AXIS].i = axis;
  if (!same_but(x, index, axis))
    return fail(e, ERR_INVALID_ARGUMENT, "%s and indices %s differ outside of axis %d", shape_text(x, a),
                shape_text(index, b), axis);
  n->out[0].type = *index;
  n->out[0].type.dtype = x->dtype;
  return OK;
}

static Status eval_take(const Call *c) {
  Around x = around_axis(c->in_type[0], (int)c->attr[AXIS].i),
         y = around_axis(c->out_type[0], (int)c->attr[AXIS].i);
  size_t size = dtype_size(c->in_type[0]->dtype);
  Dtype d = c->in_type[1]->dtype;
  Status s = check_indices(c, "indices", 1, x.extent);
  for (int64_t k = 0; s == OK && k < type_count(c->out_type[0]); k++) {
    int64_t inner = k % y.inner, outer = k / (y.inner * y.extent);
    int64_t from = (outer * x.extent + read_index(d, c->in[1], k)) * x.inner + inner;
    memcpy((char *)c->out[0] + (size_t)k * size, (const char *)c->in[0] + (size_t)from * size, size);
  }
  return s;
}

static void grad_take(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Attr attrs[] = {n->attr[AXIS], attr_int(n->in[0]->type.shape[n->attr[AXIS].i])};
  dx[0] = op_with(g, "take_along_grad", (Value *[]){dy[0], n->in[1]}, 2, attrs);
}

static Status infer_take_grad(Error *e, Node *n) {
  int64_t extent = n->attr[EXTENT].i;
  Status s = n->in[0]->type.dtype == BOOL ? fail(e, ERR_TYPE, "wants numbers, got bool") : infer_take(e, n);
  if (s != OK) return s;
  if (extent < 0) return fail(e, ERR_VALUE, "extent must not be negative");
  n->out[0].type = n->in[0]->type;
  n->out[0].type.shape[n->attr[AXIS].i] = extent;
  return shape_equal(&n->in[0]->type, &n->in[1]->type)
             ? OK
             : fail(e, ERR_INVALID_ARGUMENT, "dy and indices differ in shape");
}

static Status body_take_grad(const Call *c) {
  Around x = around_axis(c->out_type[0], (int)c->attr[AXIS].i),
         y = around_axis(c->in_type[0], (int)c->attr[AXIS].i);
  Dtype d = c->in_type[0]->dtype, id = c->in_type[1]->dtype;
  size_t size = dtype_size(d);
  Status s = check_indices(c, "indices", 1, x.extent);
  fill_zero(c, c->out[0], type_bytes(c->out_type[0]));
  for (int64_t k = 0; s == OK && k < type_count(c->in_type[0]); k++) {
    int64_t inner = k % y.inner, outer = k / (y.inner * y.extent);
    int64_t to = (outer * x.extent + read_index(id, c->in[1], k)) * x.inner + inner;
    add_run(d, (char *)c->out[0] + (size_t)to * size, (const char *)c->in[0] + (size_t)k * size, 1);
  }
  return s;
}
static Status eval_take_grad(const Call *c) { return eval_wide(c, body_take_grad); }

static void grad_take_grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Attr attrs[] = {n->attr[AXIS]};
  dx[0] = op_with(g, "take_along", (Value *[]){dy[0], n->in[1]}, 2, attrs);
}

/* ---- gather_nd, scatter_nd ---- */

/* The last axis of the indices names leading axes of x. */
static int depth_of(const Type *index) {
  return index->rank ? (int)least(index->shape[index->rank - 1], MAX_RANK + 1) : -1;
}

static Status infer_gather_nd(Error *e, Node *n) {
  const Type *x = &n->in[0]->type, *index = &n->in[1]->type;
  int depth = depth_of(index);
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Status s = infer_index(e, n, 1);
  if (s != OK) return s;
  if (depth < 0 || depth > x->rank || index->rank - 1 + x->rank - depth > MAX_RANK)
    return fail(e, ERR_INVALID_ARGUMENT, "indices %s don't fit %s: their last axis names its leading ones",
                shape_text(index, b), shape_text(x, a));
  Type *y = &n->out[0].type;
  *y = (Type){.dtype = x->dtype};
  for (int i = 0; i + 1 < index->rank; i++) y->shape[y->rank++] = index->shape[i];
  for (int i = depth; i < x->rank; i++) y->shape[y->rank++] = x->shape[i];
  return OK;
}

/* The slice of t that tuple k of the indices names; -1 with an error. */
static int64_t slice_of(const Call *c, const Type *t, int input, int64_t k) {
  const Type *index = c->in_type[input];
  int depth = depth_of(index);
  int64_t at = 0;
  for (int i = 0; i < depth; i++) {
    int64_t one = index_at(c, "indices", index->dtype, c->in[input], k * depth + i, t->shape[i]);
    if (one < 0) return -1;
    at = at * t->shape[i] + one;
  }
  return at;
}

static int64_t slice_elements(const Type *t, int depth) {
  int64_t n = 1;
  for (int i = depth; i < t->rank; i++) n *= t->shape[i];
  return n;
}

static Status eval_gather_nd(const Call *c) {
  const Type *x = c->in_type[0];
  int depth = depth_of(c->in_type[1]);
  size_t run = (size_t)slice_elements(x, depth) * dtype_size(x->dtype);
  int64_t count = type_count(c->out_type[0]) / most(slice_elements(x, depth), 1);
  for (int64_t k = 0; k < count; k++) {
    int64_t from = slice_of(c, x, 1, k);
    if (from < 0) return ERR_OUT_OF_RANGE;
    memcpy((char *)c->out[0] + (size_t)k * run, (const char *)c->in[0] + (size_t)from * run, run);
  }
  return OK;
}

static void grad_gather_nd(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Attr attrs[] = {attr_ints(n->in[0]->type.shape, n->in[0]->type.rank)};
  dx[0] = op_with(g, "scatter_nd", (Value *[]){n->in[1], dy[0]}, 2, attrs);
}

static Status infer_scatter_nd(Error *e, Node *n) {
  const Type *index = &n->in[0]->type, *updates = &n->in[1]->type;
  const Attr *a = &n->attr[0];
  char b[TYPE_TEXT], d[TYPE_TEXT];
  Status s = infer_index(e, n, 0);
  if (s != OK) return s;
  if (updates->dtype == BOOL) return fail(e, ERR_TYPE, "updates must be numbers, got bool");
  if (a->ints.n > MAX_RANK)
    return fail(e, ERR_VALUE, "a shape has at most %d dimensions, got %d", MAX_RANK, a->ints.n);
  Type t = type_make(updates->dtype, a->ints.n, a->ints.v);
  s = type_check(e, "shape", &t);
  if (s != OK) return s;
  int depth = depth_of(index);
  bool fits = depth >= 0 && depth <= t.rank && updates->rank == index->rank - 1 + t.rank - depth;
  for (int i = 0; fits && i < updates->rank; i++)
    fits =
        updates->shape[i] == (i + 1 < index->rank ? index->shape[i] : t.shape[i - index->rank + 1 + depth]);
  if (!fits)
    return fail(e, ERR_INVALID_ARGUMENT, "indices %s and updates %s don't fit each other and the shape",
                shape_text(index, b), shape_text(updates, d));
  n->out[0].type = t;
  return OK;
}

static Status body_scatter_nd(const Call *c) {
  const Type *y = c->out_type[0];
  int64_t elements = slice_elements(y, depth_of(c->in_type[0]));
  int64_t count = type_count(c->in_type[1]) / most(elements, 1);
  size_t run = (size_t)elements * dtype_size(y->dtype);
  fill_zero(c, c->out[0], type_bytes(y));
  for (int64_t k = 0; k < count; k++) {
    int64_t to = slice_of(c, y, 0, k);
    if (to < 0) return ERR_OUT_OF_RANGE;
    add_run(y->dtype, (char *)c->out[0] + (size_t)to * run, (const char *)c->in[1] + (size_t)k * run,
            elements);
  }
  return OK;
}
static Status eval_scatter_nd(const Call *c) { return eval_wide(c, body_scatter_nd); }
static void grad_scatter_nd(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[1] = op2(g, "gather_nd", dy[0], n->in[0]);
}

/* ---- one_hot ---- */

enum { DEPTH, HOT_AXIS, ON_VALUE, OFF_VALUE, HOT_DTYPE };

static Status infer_one_hot(Error *e, Node *n) {
  const Type *index = &n->in[0]->type;
  int axis;
  char text[TYPE_TEXT];
  Status s = infer_index(e, n, 0);
  if (s != OK) return s;
  if (index->rank == MAX_RANK)
    return fail(e, ERR_VALUE, "%s has %d dimensions already", shape_text(index, text), MAX_RANK);
  if (n->attr[DEPTH].i < 0)
    return fail(e, ERR_VALUE, "depth must not be negative, got %lld", (long long)n->attr[DEPTH].i);
  s = axis_check(e, "axis", n->attr[HOT_AXIS].i, index->rank + 1, &axis);
  if (s != OK) return s;
  n->attr[HOT_AXIS].i = axis;
  Type *y = &n->out[0].type;
  *y = (Type){.dtype = (Dtype)n->attr[HOT_DTYPE].i, .rank = index->rank + 1};
  for (int i = 0; i < y->rank; i++) y->shape[i] = i == axis ? n->attr[DEPTH].i : index->shape[i - (i > axis)];
  return OK;
}

/* Indices outside 0 … depth - 1 give no hot element. */
static Status eval_one_hot(const Call *c) {
  const Type *y = c->out_type[0];
  Around a = around_axis(y, (int)c->attr[HOT_AXIS].i);
  int64_t on = 0, off = 0;
  size_t size = dtype_size(y->dtype);
  dtype_set(y->dtype, &on, 0, c->attr[ON_VALUE].f);
  dtype_set(y->dtype, &off, 0, c->attr[OFF_VALUE].f);
  fill_elements(c->out[0], size, &off, type_count(y));
  for (int64_t k = 0; k < a.outer * a.inner; k++) {
    int64_t index = read_index(c->in_type[0]->dtype, c->in[0], k), outer = k / a.inner, inner = k % a.inner;
    if (index >= 0 && index < a.extent)
      memcpy((char *)c->out[0] + (size_t)((outer * a.extent + index) * a.inner + inner) * size, &on, size);
  }
  return OK;
}

/* ---- segment_sum ---- */

static Status infer_segment_sum(Error *e, Node *n) {
  const Type *data = &n->in[0]->type, *ids = &n->in[1]->type;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Status s = infer_index(e, n, 1);
  if (s != OK) return s;
  if (data->dtype == BOOL) return fail(e, ERR_TYPE, "wants numbers, got bool");
  if (data->rank < 1 || ids->rank != 1 || ids->shape[0] != data->shape[0])
    return fail(e, ERR_INVALID_ARGUMENT, "data %s needs one segment id for each of its rows, got %s",
                shape_text(data, a), shape_text(ids, b));
  if (n->attr[0].i < 0)
    return fail(e, ERR_VALUE, "num_segments must not be negative, got %lld", (long long)n->attr[0].i);
  n->out[0].type = *data;
  n->out[0].type.shape[0] = n->attr[0].i;
  return OK;
}

static Status body_segment_sum(const Call *c) {
  const Type *x = c->in_type[0];
  Around a = around_axis(x, 0);
  size_t run = (size_t)a.inner * dtype_size(x->dtype);
  Status s = check_indices(c, "segment_ids", 1, c->out_type[0]->shape[0]);
  fill_zero(c, c->out[0], type_bytes(c->out_type[0]));
  for (int64_t k = 0; s == OK && k < a.extent; k++)
    add_run(x->dtype, (char *)c->out[0] + (size_t)read_index(c->in_type[1]->dtype, c->in[1], k) * run,
            (const char *)c->in[0] + (size_t)k * run, a.inner);
  return s;
}
static Status eval_segment_sum(const Call *c) { return eval_wide(c, body_segment_sum); }
static void grad_segment_sum(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op2(g, "gather", dy[0], n->in[1]);
}

/* ---- sequence_slice: runs of rows from src to dst ---- */

/* Operands by variant; -1: absent, then offsets are running sums of num_elems (src lies packed, or dst does).
 */
typedef struct Runs {
  int dst, src, counts, src_offsets, dst_offsets;
} Runs;
static const Runs full_runs = {0, 1, 2, 3, 4}, pack_runs = {0, 1, 2, -1, 3}, unpack_runs = {-1, 0, 1, 2, -1};

static Status check_runs(Error *e, const Node *n, const Runs *r) {
  const Type *src = &n->in[r->src]->type, *counts = &n->in[r->counts]->type;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  for (int i = r->counts; i < n->in_count; i++) {
    Status s = infer_index(e, n, i);
    if (s != OK) return s;
    const Type *t = &n->in[i]->type;
    if (t->rank != 1 || t->shape[0] == 0 || t->shape[0] != counts->shape[0])
      return fail(e, ERR_VALUE,
                  "num_elems and offsets must have matching, nonzero shapes of rank 1, got %s and %s",
                  shape_text(counts, a), shape_text(t, b));
  }
  if (src->rank < 2) return fail(e, ERR_VALUE, "src needs 2 dimensions at least, got %s", shape_text(src, a));
  if (r->dst < 0) return OK;
  const Type *dst = &n->in[r->dst]->type;
  if (dst->dtype != src->dtype)
    return fail(e, ERR_TYPE, "dtypes %s and %s differ", dtype_name(dst->dtype), dtype_name(src->dtype));
  if (!same_but(dst, src, 0))
    return fail(e, ERR_INVALID_ARGUMENT, "src %s and dst %s must match but for their first axis",
                shape_text(src, a), shape_text(dst, b));
  return OK;
}

static Status infer_sequence_slice(Error *e, Node *n) {
  n->out[0].type = n->in[0]->type;
  return check_runs(e, n, &full_runs);
}
static Status infer_sequence_pack(Error *e, Node *n) {
  n->out[0].type = n->in[0]->type;
  return check_runs(e, n, &pack_runs);
}
static Status infer_sequence_unpack(Error *e, Node *n) {
  n->out[0].type = n->in[0]->type;
  Status s = check_runs(e, n, &unpack_runs);
  if (s == OK && n->attr[0].i < 0)
    return fail(e, ERR_VALUE, "total_elements must not be negative, got %lld", (long long)n->attr[0].i);
  n->out[0].type.shape[0] = n->attr[0].i;
  return s;
}

static int64_t number_at(const Call *c, int input, int64_t i, int64_t otherwise) {
  return input < 0 ? otherwise : read_index(c->in_type[input]->dtype, c->in[input], i);
}

static Status copy_run(const Call *c, const Runs *r, int64_t i, int64_t packed, size_t row) {
  int64_t count = number_at(c, r->counts, i, 0), from = number_at(c, r->src_offsets, i, packed),
          to = number_at(c, r->dst_offsets, i, packed);
  int64_t src_rows = c->in_type[r->src]->shape[0], dst_rows = c->out_type[0]->shape[0];
  if (count < 0 || from < 0 || from > src_rows || count > src_rows - from || to < 0 || to > dst_rows ||
      count > dst_rows - to)
    return fail_at(
        c->error, c->source, ERR_OUT_OF_RANGE,
        "%s: run %lld of %lld rows from row %lld to row %lld leaves src (%lld rows) or dst (%lld rows)",
        c->node->op->name, (long long)i, (long long)count, (long long)from, (long long)to,
        (long long)src_rows, (long long)dst_rows);
  memcpy((char *)c->out[0] + (size_t)to * row, (const char *)c->in[r->src] + (size_t)from * row,
         (size_t)count * row);
  return OK;
}

static Status copy_runs(const Call *c, const Runs *r, bool zero_unused) {
  const Type *src = c->in_type[r->src];
  size_t row = (size_t)around_axis(src, 0).inner * dtype_size(src->dtype);
  int64_t packed = 0, runs = c->in_type[r->counts]->shape[0];
  if (zero_unused) fill_zero(c, c->out[0], type_bytes(c->out_type[0]));
  else copy_bytes(c, c->out[0], c->in[r->dst], type_bytes(c->out_type[0]));
  Status s = OK;
  for (int64_t i = 0; i < runs && s == OK; i++) {
    s = copy_run(c, r, i, packed, row);
    if (s == OK) packed += number_at(c, r->counts, i, 0);
  }
  return s;
}
static Status eval_sequence_slice(const Call *c) { return copy_runs(c, &full_runs, c->attr[0].i); }
static Status eval_sequence_pack(const Call *c) { return copy_runs(c, &pack_runs, c->attr[0].i); }
static Status eval_sequence_unpack(const Call *c) { return copy_runs(c, &unpack_runs, true); }

/* Offsets of runs that lie packed. */
static Value *packed_offsets(Graph *g, Value *counts) {
  Attr attrs[] = {attr_int(0), attr_bool(true), attr_bool(false)};
  return op_with(g, "cumsum", &counts, 1, attrs);
}

/* The gradient of src adds rows up (a row may be read twice); that of dst is zero where rows were written. */
static void grad_runs(Graph *g, const Node *n, const Runs *r, Value *dy, Value **dx, bool zero_unused) {
  Value *counts = n->in[r->counts];
  Value *src_offsets = r->src_offsets < 0 ? packed_offsets(g, counts) : n->in[r->src_offsets];
  Value *dst_offsets = r->dst_offsets < 0 ? packed_offsets(g, counts) : n->in[r->dst_offsets];
  Attr rows[] = {attr_int(n->in[r->src]->type.shape[0])}, leave[] = {attr_bool(false)};
  dx[r->src] = op_with(g, "sequence_slice_grad", (Value *[]){dy, counts, src_offsets, dst_offsets}, 4, rows);
  if (r->dst < 0) return;
  Value *zeros = ops_zeros_of(g, n->in[r->src]);
  dx[r->dst] = zero_unused ? ops_zeros_of(g, dy)
                           : op_with(g, "sequence_slice",
                                     (Value *[]){dy, zeros, counts, src_offsets, dst_offsets}, 5, leave);
}
static void grad_sequence_slice(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  grad_runs(g, n, &full_runs, dy[0], dx, n->attr[0].i);
}
static void grad_sequence_pack(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  grad_runs(g, n, &pack_runs, dy[0], dx, n->attr[0].i);
}
static void grad_sequence_unpack(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  grad_runs(g, n, &unpack_runs, dy[0], dx, true);
}

/* Rows of dy [dst rows, ...] added to rows of zeros [rows, ...]. Rows that a later run overwrote count for
 * that run alone. */
static Status infer_sequence_grad(Error *e, Node *n) {
  static const Runs runs = {-1, 0, 1, 2, 3};
  Status s = check_runs(e, n, &runs);
  if (s == OK && n->in[0]->type.dtype == BOOL) return fail(e, ERR_TYPE, "wants numbers, got bool");
  n->out[0].type = n->in[0]->type;
  n->out[0].type.shape[0] = n->attr[0].i;
  return s;
}

static bool overwritten(const Call *c, int64_t run, int64_t row) {
  for (int64_t i = run + 1; i < c->in_type[1]->shape[0]; i++) {
    int64_t first = number_at(c, 3, i, 0);
    if (row >= first && row < first + number_at(c, 1, i, 0)) return true;
  }
  return false;
}

static Status body_sequence_grad(const Call *c) {
  const Type *dy = c->in_type[0];
  int64_t width = around_axis(dy, 0).inner;
  size_t row = (size_t)width * dtype_size(dy->dtype);
  fill_zero(c, c->out[0], type_bytes(c->out_type[0]));
  for (int64_t i = 0; i < c->in_type[1]->shape[0]; i++) {
    int64_t count = number_at(c, 1, i, 0), to = number_at(c, 2, i, 0), from = number_at(c, 3, i, 0);
    if (count < 0 || to < 0 || from < 0 || count > c->out_type[0]->shape[0] - to ||
        count > dy->shape[0] - from)
      return fail_at(c->error, c->source, ERR_OUT_OF_RANGE, "%s: run %lld leaves its tensor",
                     c->node->op->name, (long long)i);
    for (int64_t k = 0; k < count; k++)
      if (!overwritten(c, i, from + k))
        add_run(dy->dtype, (char *)c->out[0] + (size_t)(to + k) * row,
                (const char *)c->in[0] + (size_t)(from + k) * row, width);
  }
  return OK;
}
static Status eval_sequence_grad(const Call *c) { return eval_wide(c, body_sequence_grad); }

static void grad_sequence_grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Attr attrs[] = {attr_bool(true)};
  Value *in[] = {ops_zeros_of(g, n->in[0]), dy[0], n->in[1], n->in[2], n->in[3]};
  dx[0] = op_with(g, "sequence_slice", in, 5, attrs);
}

/* ---- rows ---- */

#define UNUSED_ATTR \
  { "zero_unused", ATTR_BOOL, "false", NULL, "zero the other rows instead of leaving dst's" }
const OpDef ops_gather[] = {
    {.name = "gather",
     .summary = "Slices of x along an axis, by index.",
     .shapes = "[a, n, b], [...] → [a, ..., b]",
     .inputs = {"x", "indices"},
     .attrs = {{"axis", ATTR_INT, "0", NULL, "to index"}},
     .infer = infer_gather,
     .cost = cost_of_gather,
     .eval = eval_gather,
     .grad = grad_gather,
     .sample = "F[5,3] I5[4] | F[2,7] I7[3] {axis = 1} | F[2,3,5] I5[2,1] {axis = -1} | F[6] I6 | F[3,2] "
               "I3[0] | I9[4] I4[3] | "
               "B[4] I4[3] | F[50,70] I50[400]"},
    {.name = "embedding_lookup",
     .summary = "Rows of a table, by id.",
     .shapes = "[rows, ...], [ids] → [ids, ...]",
     .inputs = {"table", "ids"},
     .attrs = {{"serialization_factor", ATTR_INT, "1", NULL,
                "parts that the table is looked up in, one after the other"}},
     .infer = infer_embedding,
     .cost = cost_of_gather,
     .eval = eval_embedding,
     .grad = grad_embedding,
     .sample = "F[6,3] I6[4] | F[6,2,2] I6[2,3] {serialization_factor = 2}"},
    {.name = "gather_grad",
     .summary = "Slices of dy added to zeros where gather took them.",
     .shapes = "[a, ..., b], [...] → [a, extent, b]",
     .inputs = {"dy", "indices"},
     .attrs = {{"axis", ATTR_INT, NULL, NULL, "that was indexed"},
               {"extent", ATTR_INT, NULL, NULL, "of that axis"}},
     .traits = INTERNAL,
     .infer = infer_gather_grad,
     .cost = cost_of_scatter,
     .eval = eval_gather_grad,
     .scratch = scratch_wide,
     .grad = grad_gather_grad,
     .sample = "F[4,3] I5[4] {axis = 0, extent = 5} | F[2,2,1,3] I5[2,1] {axis = 1, extent = 5} | F[] I6 "
               "{axis = 0, extent = 6} | "
               "F[0,2] I3[0] {axis = 0, extent = 3} | F[400,300] I50[400] {axis = 0, extent = 50}"},
    {.name = "take_along",
     .summary = "Elements of x along an axis, each row by its own indices.",
     .shapes = "[a, n, b], [a, m, b] → [a, m, b]",
     .inputs = {"x", "indices"},
     .attrs = {{"axis", ATTR_INT, "-1", NULL, "to index"}},
     .traits = INTERNAL,
     .infer = infer_take,
     .cost = cost_of_gather,
     .eval = eval_take,
     .grad = grad_take,
     .sample = "F[2,5] I5[2,3] | F[4,2] I4[3,2] {axis = 0} | F[2,3,2] I3[2,3,2] {axis = 1}"},
    {.name = "take_along_grad",
     .summary = "dy added to zeros where take_along took it.",
     .shapes = "[a, m, b], [a, m, b] → [a, extent, b]",
     .inputs = {"dy", "indices"},
     .attrs = {{"axis", ATTR_INT, NULL, NULL, "that was indexed"},
               {"extent", ATTR_INT, NULL, NULL, "of that axis"}},
     .traits = INTERNAL,
     .infer = infer_take_grad,
     .cost = cost_of_scatter,
     .eval = eval_take_grad,
     .scratch = scratch_wide,
     .grad = grad_take_grad,
     .sample = "F[2,3] I5[2,3] {axis = -1, extent = 5} | F[3,2] I4[3,2] {axis = 0, extent = 4}"},
    {.name = "gather_nd",
     .summary = "Slices of x by tuples of indices.",
     .shapes = "[n, m, ...], [..., 2] → [..., ...]",
     .inputs = {"x", "indices"},
     .infer = infer_gather_nd,
     .cost = cost_of_gather,
     .eval = eval_gather_nd,
     .grad = grad_gather_nd,
     .sample = "F[4,4] I4[5,2] | F[3,3,4] I3[2,2,2] | F[3,3,2] I3[3,1] | F[3,3,3] I3[4,3] | F[3] I3[1]"},
    {.name = "scatter_nd",
     .summary = "Updates added to zeros at tuples of indices.",
     .shapes = "[..., 2], [..., ...] → shape",
     .inputs = {"indices", "updates"},
     .attrs = {{"shape", ATTR_INTS, NULL, NULL, "of the result"}},
     .infer = infer_scatter_nd,
     .cost = cost_of_scatter,
     .eval = eval_scatter_nd,
     .scratch = scratch_wide,
     .grad = grad_scatter_nd,
     .sample = "I5[3,1] F[3] {shape = 5} | I4[3,1] F[3,2] {shape = {4, 2}} | I2[3,2] F[3,2] {shape = {2, 3, "
               "2}} | I3[1] F[2] {shape = {3, 2}}"},
    {.name = "one_hot",
     .summary =
         "on_value where the new axis equals the index, else off_value; other indices give no hot element.",
     .shapes = "[...] → [..., depth]",
     .inputs = {"indices"},
     .attrs = {{"depth", ATTR_INT, NULL, NULL, "extent of the new axis"},
               {"axis", ATTR_INT, "-1", NULL, "where it stands"},
               {"on_value", ATTR_FLOAT, "1", NULL, "at the index"},
               {"off_value", ATTR_FLOAT, "0", NULL, "elsewhere"},
               {"dtype", ATTR_DTYPE, "'float32'", NULL, "of the result"}},
     .traits = NO_GRADIENT,
     .infer = infer_one_hot,
     .cost = cost_of_one_hot,
     .eval = eval_one_hot,
     .sample = "I5[4] {depth = 5} | I5[2,3] {depth = 4, axis = 1} | I2 {depth = 3, on_value = 2, off_value = "
               "-1} | I3[2] {depth = 3, dtype = 'int32'}"},
    {.name = "segment_sum",
     .summary = "Sums of rows with equal ids; missing segments are 0.",
     .shapes = "[n, ...], [n] → [num_segments, ...]",
     .inputs = {"data", "segment_ids"},
     .attrs = {{"num_segments", ATTR_INT, NULL, NULL, "rows of the result"}},
     .infer = infer_segment_sum,
     .cost = cost_of_scatter,
     .eval = eval_segment_sum,
     .scratch = scratch_wide,
     .grad = grad_segment_sum,
     .sample =
         "F[5,3] S4[5] {num_segments = 4} | F[6] S3[6] {num_segments = 5} | I9[4] S2[4] {num_segments = 2}"},
    {.name = "sequence_slice",
     .summary = "Copy runs of rows from src into dst.",
     .shapes = "[n, ...], [m, ...], [k], [k], [k] → [n, ...]",
     .inputs = {"dst", "src", "num_elems", "src_offsets", "dst_offsets"},
     .attrs = {UNUSED_ATTR},
     .infer = infer_sequence_slice,
     .cost = cost_of_copy,
     .eval = eval_sequence_slice,
     .grad = grad_sequence_slice,
     .sample = "F[6,2] F[5,2] I3[2] I3[2] I4[2] | F[6,2] F[5,2] I3[2] I3[2] I4[2] {zero_unused = true}"},
    {.name = "sequence_slice_pack",
     .summary = "Copy packed runs of rows into dst.",
     .shapes = "[n, ...], [m, ...], [k], [k] → [n, ...]",
     .inputs = {"dst", "src", "num_elems", "dst_offsets"},
     .attrs = {UNUSED_ATTR},
     .infer = infer_sequence_pack,
     .cost = cost_of_copy,
     .eval = eval_sequence_pack,
     .grad = grad_sequence_pack,
     .sample = "F[6,2] F[5,2] I3[2] I4[2] | F[6,2] F[5,2] I3[2] I4[2] {zero_unused = true}"},
    {.name = "sequence_slice_unpack",
     .summary = "Pack runs of rows of src one behind the other.",
     .shapes = "[m, ...], [k], [k] → [total_elements, ...]",
     .inputs = {"src", "num_elems", "src_offsets"},
     .attrs = {{"total_elements", ATTR_INT, NULL, NULL, "rows of the result"}},
     .infer = infer_sequence_unpack,
     .cost = cost_of_copy,
     .eval = eval_sequence_unpack,
     .grad = grad_sequence_unpack,
     .sample = "F[5,2] I3[2] I3[2] {total_elements = 5}"},
    {.name = "sequence_slice_grad",
     .summary = "Rows of dy added to zeros where sequence_slice took them.",
     .shapes = "[n, ...], [k], [k], [k] → [rows, ...]",
     .inputs = {"dy", "num_elems", "src_offsets", "dst_offsets"},
     .attrs = {{"rows", ATTR_INT, NULL, NULL, "of the result"}},
     .traits = INTERNAL,
     .infer = infer_sequence_grad,
     .cost = cost_of_copy,
     .eval = eval_sequence_grad,
     .scratch = scratch_wide,
     .grad = grad_sequence_grad,
     .sample = "F[6,2] I3[2] I3[2] I4[2] {rows = 5}"},
    {0}};
