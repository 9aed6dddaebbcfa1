/* Copies of runs of rows from src to dst, by counts and offsets, or packed one after the other. */
#include <string.h>

#include "ops/index/gather.h"

/* Operands by variant; -1: absent, then offsets are running sums of num_elems (src lies packed, or
 * dst does). */
typedef struct Runs {
  int dst, src, counts, src_offsets, dst_offsets;
} Runs;
static const Runs full_runs = {0, 1, 2, 3, 4}, pack_runs = {0, 1, 2, -1, 3},
                  unpack_runs = {-1, 0, 1, 2, -1};

static Status check_runs(Error *e, const Node *n, const Runs *r) {
  const Type *src = &n->in[r->src]->type, *counts = &n->in[r->counts]->type;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  for (int i = r->counts; i < n->in_count; i++) {
    Status s = infer_index(e, n, i);
    if (s != OK) return s;
    const Type *t = &n->in[i]->type;
    if (t->rank != 1 || t->shape[0] == 0 || t->shape[0] != counts->shape[0])
      return fail(
          e, ERR_VALUE,
          "num_elems and offsets must have matching, nonzero shapes of rank 1, got %s and %s",
          shape_text(counts, a), shape_text(t, b));
  }
  if (src->rank < 2)
    return fail(e, ERR_VALUE, "src needs 2 dimensions at least, got %s", shape_text(src, a));
  if (r->dst < 0) return OK;
  const Type *dst = &n->in[r->dst]->type;
  if (dst->dtype != src->dtype)
    return fail(e, ERR_TYPE, "dtypes %s and %s differ", dtype_name(dst->dtype),
                dtype_name(src->dtype));
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
    return fail(e, ERR_VALUE, "total_elements must not be negative, got %lld",
                (long long)n->attr[0].i);
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
  if (count < 0 || from < 0 || from > src_rows || count > src_rows - from || to < 0 ||
      to > dst_rows || count > dst_rows - to)
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

/* The gradient by src adds rows up, since a row may be read twice. The gradient by dst is zero in
 * rows that were written. */
static void grad_runs(Graph *g, const Node *n, const Runs *r, Value *dy, Value **dx,
                      bool zero_unused) {
  Value *counts = n->in[r->counts];
  Value *src_offsets = r->src_offsets < 0 ? packed_offsets(g, counts) : n->in[r->src_offsets];
  Value *dst_offsets = r->dst_offsets < 0 ? packed_offsets(g, counts) : n->in[r->dst_offsets];
  Attr rows[] = {attr_int(n->in[r->src]->type.shape[0])}, leave[] = {attr_bool(false)};
  dx[r->src] =
      op_with(g, "sequence_slice_grad", (Value *[]){dy, counts, src_offsets, dst_offsets}, 4, rows);
  if (r->dst < 0) return;
  Value *zeros = ops_zeros_of(g, n->in[r->src]);
  dx[r->dst] = zero_unused
                   ? ops_zeros_of(g, dy)
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

/* Rows of dy [dst rows, ...] added to rows of zeros [rows, ...]. Rows that a later run overwrote
 * count for that run alone. */
static Status infer_sequence_grad(Error *e, Node *n) {
  static const Runs runs = {-1, 0, 1, 2, 3};
  Status s = check_runs(e, n, &runs);
  if (s == OK && n->in[0]->type.dtype == BOOL)
    return fail(e, ERR_TYPE, "operands must be numbers, got bool");
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
  if (!type_count(dy)) return OK; /* as the op: where nothing is written, no run is looked at */
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

#define UNUSED_ATTR \
  {"zero_unused", ATTR_BOOL, "false", NULL, "zero the other rows instead of leaving dst's"}
const OpDef ops_sequence[] = {
    {.name = "sequence_slice",
     .source = "slicing_ops.sequence_slice of Graphcore's TensorFlow 2.6",
     .summary = "Copy runs of rows from src into dst.",
     .shapes = "[n, ...], [m, ...], [k], [k], [k] → [n, ...]",
     .inputs = {"dst", "src", "num_elems", "src_offsets", "dst_offsets"},
     .traits = INDICES(2) | INDICES(3) | INDICES(4),
     .attrs = {UNUSED_ATTR},
     .infer = infer_sequence_slice,
     .cost = cost_of_copy,
     .eval = eval_sequence_slice,
     .grad = grad_sequence_slice,
     .sample =
         "F[6,2] F[5,2] I3[2] I3[2] I4[2] | F[6,2] F[5,2] I3[2] I3[2] I4[2] {zero_unused = true}"},
    {.name = "sequence_slice_pack",
     .source = "slicing_ops.sequence_slice_pack of Graphcore's TensorFlow 2.6",
     .summary = "Copy packed runs of rows into dst.",
     .shapes = "[n, ...], [m, ...], [k], [k] → [n, ...]",
     .inputs = {"dst", "src", "num_elems", "dst_offsets"},
     .traits = INDICES(2) | INDICES(3),
     .attrs = {UNUSED_ATTR},
     .infer = infer_sequence_pack,
     .cost = cost_of_copy,
     .eval = eval_sequence_pack,
     .grad = grad_sequence_pack,
     .sample = "F[6,2] F[5,2] I3[2] I4[2] | F[6,2] F[5,2] I3[2] I4[2] {zero_unused = true}"},
    {.name = "sequence_slice_unpack",
     .source = "slicing_ops.sequence_slice_unpack of Graphcore's TensorFlow 2.6",
     .summary = "Pack runs of rows of src, one after the other.",
     .shapes = "[m, ...], [k], [k] → [total_elements, ...]",
     .inputs = {"src", "num_elems", "src_offsets"},
     .traits = INDICES(1) | INDICES(2),
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
