/* Elements and rows by index, and back. Indices are checked before anything moves; adding up
 * goes in index order, so that results don't depend on threads. */
#include <string.h>

#include "ops/index/gather.h"

/* Bytes that one chunk of copied rows has. */
enum { ROWS_GRAIN = 1 << 16, MANY_ROWS = 64 };

static int64_t rows_grain(int64_t run_bytes) { return max(1, ROWS_GRAIN / max(run_bytes, 1)); }

void add_run(Dtype d, void *target, const void *source, int64_t n) {
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

Status infer_index(Error *e, const Node *n, int input) {
  return want_integer(e, n->op->inputs[input], &n->in[input]->type);
}

bool same_but(const Type *a, const Type *b, int axis) {
  bool same = a->rank == b->rank;
  for (int i = 0; i < a->rank && same; i++) same = i == axis || a->shape[i] == b->shape[i];
  return same;
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
  /* 1 + the least position of an index out of range; 0: none */
  _Atomic int64_t bad;
} Rows;

/* Of a call whose operand or result is a table of that type: rows along an axis. */
static Rows rows_of(const Call *c, const Type *table, int axis) {
  Around a = around_axis(table, axis);
  return (Rows){.call = c,
                .dtype = table->dtype,
                .index_dtype = c->in_type[1]->dtype,
                .x = c->in[0],
                .index = c->in[1],
                .y = c->out[0],
                .outer = a.outer,
                .extent = a.extent,
                .inner = a.inner,
                .count = type_count(c->in_type[1]),
                .run = (size_t)a.inner * dtype_size(table->dtype)};
}

static void note_bad(Rows *r, int64_t position) {
  int64_t seen = r->bad;
  while ((seen == 0 || position + 1 < seen) &&
         !atomic_compare_exchange_weak(&r->bad, &seen, position + 1)) {
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
  Rows r = rows_of(c, c->in_type[0], axis);
  parallel_for(c, r.outer * r.count, rows_grain((int64_t)r.run), gather_rows, &r);
  return report_bad(c, &r, what);
}

static Status eval_gather(const Call *c) {
  return gather_along(c, (int)c->attr[AXIS].i, "indices");
}

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
    return fail(e, ERR_VALUE, "the table needs 2 dimensions at least, got %s",
                shape_text(table, text));
  if (factor < 1 || table->shape[0] % factor)
    return fail(e, ERR_VALUE,
                "serialization_factor %lld doesn't divide the %lld row%s of the table %s",
                (long long)factor, (long long)table->shape[0], plural(table->shape[0]),
                shape_text(table, text));
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
  bool fits =
      dy->dtype != BOOL && axis >= 0 && dy->rank - index->rank >= axis && n->attr[EXTENT].i >= 0;
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

/* A chunk owns outer blocks or, if there are few, columns of the rows. So each sum has one owner,
 * who adds in the order of indices. */
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
    int64_t width = min(a->columns, r->inner - first);
    char *target = r->y + ((size_t)(outer * r->extent * r->inner) + (size_t)first) * size;
    const char *source = r->x + ((size_t)(outer * r->count * r->inner) + (size_t)first) * size;
    for (int64_t i = 0; i < r->count; i++)
      add_run(r->dtype, target + (size_t)read_index(r->index_dtype, r->index, i) * r->run,
              source + (size_t)i * r->run, width);
  }
}

static Status body_gather_grad(const Call *c) {
  Adding add = {.rows = rows_of(c, c->out_type[0], (int)c->attr[AXIS].i)};
  const Rows *r = &add.rows;
  Status s = check_indices(c, "indices", 1, r->extent);
  if (s != OK) return s;
  fill_zero(c, c->out[0], type_bytes(c->out_type[0]));
  add.columns = r->outer < 8 && r->inner >= 2 * MANY_ROWS ? MANY_ROWS : max(r->inner, 1);
  add.column_blocks = (r->inner + add.columns - 1) / add.columns;
  if (r->count && r->inner)
    parallel_for(c, r->outer * add.column_blocks, rows_grain(r->count * add.columns * 4), add_rows,
                 &add);
  return OK;
}
static Status eval_gather_grad(const Call *c) { return eval_wide(c, body_gather_grad); }

static void grad_gather_grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Attr attrs[] = {n->attr[AXIS]};
  dx[0] = op_with(g, "gather", (Value *[]){dy[0], n->in[1]}, 2, attrs);
}

const OpDef ops_gather[] = {
    {.name = "gather",
     .summary = "Slices of x along an axis, by index; one outside is an error.",
     .shapes = "[a, n, b], [...] → [a, ..., b]",
     .inputs = {"x", "indices"},
     .traits = INDICES(1),
     .attrs = {{"axis", ATTR_INT, "0", NULL, "to index"}},
     .infer = infer_gather,
     .cost = cost_of_gather,
     .eval = eval_gather,
     .grad = grad_gather,
     .sample =
         "F[5,3] I5[4] | F[2,7] I7[3] {axis = 1} | F[2,3,5] I5[2,1] {axis = -1} | F[6] I6 | F[3,2] "
         "I3[0] | I9[4] I4[3] | "
         "B[4] I4[3] | F[50,70] I50[400]"},
    {.name = "embedding_lookup",
     .source = "embedding_ops.embedding_lookup of Graphcore's TensorFlow 2.6",
     .summary = "Rows of a table, by id; one outside is an error.",
     .shapes = "[rows, ...], [ids] → [ids, ...]",
     .inputs = {"table", "ids"},
     .traits = INDICES(1),
     .attrs = {{"serialization_factor", ATTR_INT, "1", NULL,
                "parts that the table is looked up in, one after the other; divides its rows"}},
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
     .sample =
         "F[4,3] I5[4] {axis = 0, extent = 5} | F[2,2,1,3] I5[2,1] {axis = 1, extent = 5} | F[] I6 "
         "{axis = 0, extent = 6} | "
         "F[0,2] I3[0] {axis = 0, extent = 3} | F[400,300] I50[400] {axis = 0, extent = 50}"},
    {0}};
