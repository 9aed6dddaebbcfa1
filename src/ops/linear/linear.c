/* Matrix products. Leading axes are batches. */
#include <string.h>

#include "ops/linear/product.h"

/* ---- products ---- */

/* The flags' positions differ between the rows. */
typedef struct Turned {
  bool a, b;
} Turned;

enum { TRANSPOSE_A, TRANSPOSE_B, FACTOR = 0, DIMENSION, SERIALIZED_A, SERIALIZED_B };

static Turned turned(const Node *n) {
  int first = op_attr_count(n->op) > 2 ? SERIALIZED_A : TRANSPOSE_A;
  return (Turned){n->attr[first].i, n->attr[first + 1].i};
}

static Status infer(Error *e, Node *n) {
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type;
  char ta[TYPE_TEXT], tb[TYPE_TEXT];
  Turned t = turned(n);
  if (a->dtype != b->dtype)
    return fail(e, ERR_TYPE, "dtypes of %s and %s differ; ipu.cast one of them", type_text(a, ta),
                type_text(b, tb));
  if (a->dtype == BOOL) return fail(e, ERR_TYPE, "operands must be numbers, got bool");
  if (a->rank < 2 || b->rank < 2)
    return fail(e, ERR_INVALID_ARGUMENT, "operands must be matrices, got %s and %s",
                shape_text(a, ta), shape_text(b, tb));
  int64_t k = a->shape[a->rank - (t.a ? 2 : 1)], other = b->shape[b->rank - (t.b ? 1 : 2)];
  if (k != other)
    return fail(e, ERR_INVALID_ARGUMENT, "%s%s times %s%s: inner extents %lld and %lld differ",
                shape_text(a, ta), t.a ? " transposed" : "", shape_text(b, tb),
                t.b ? " transposed" : "", (long long)k, (long long)other);
  Type x = *a, y = *b, out;
  x.rank -= 2, y.rank -= 2;
  if (!type_broadcast(&x, &y, &out))
    return fail(e, ERR_INVALID_ARGUMENT, "leading extents of %s and %s don't broadcast",
                shape_text(a, ta), shape_text(b, tb));
  out.shape[out.rank++] = a->shape[a->rank - (t.a ? 1 : 2)];
  out.shape[out.rank++] = b->shape[b->rank - (t.b ? 2 : 1)];
  n->out[0].type = out;
  return OK;
}

static Product product_of(const Type *a, const Type *b, const Type *out, Turned t) {
  Product p = {.dtype = dtype_to_compute(out->dtype), .rank = out->rank - 2};
  Gemm *g = &p.gemm;
  g->m = out->shape[out->rank - 2], g->n = out->shape[out->rank - 1];
  g->k = a->shape[a->rank - (t.a ? 2 : 1)];
  g->a_row = t.a ? 1 : g->k, g->a_col = t.a ? g->m : 1;
  g->b_row = t.b ? 1 : g->n, g->b_col = t.b ? g->k : 1;
  g->c_row = g->n;
  p.c_step = g->m * g->n;
  int64_t as = g->m * g->k, bs = g->k * g->n;
  for (int i = p.rank - 1; i >= 0; i--) {
    int ai = i - (out->rank - a->rank), bi = i - (out->rank - b->rank);
    p.extent[i] = out->shape[i];
    p.a_step[i] = ai >= 0 && a->shape[ai] != 1 ? as : 0;
    p.b_step[i] = bi >= 0 && b->shape[bi] != 1 ? bs : 0;
    if (ai >= 0) as *= a->shape[ai];
    if (bi >= 0) bs *= b->shape[bi];
  }
  bool one_b = !t.a;
  for (int i = 0; i < p.rank && one_b; i++)
    one_b = p.b_step[i] == 0 && (p.a_step[i] != 0 || p.extent[i] == 1);
  if (one_b) { /* one b for all: the leading axes are more rows of a */
    for (int i = 0; i < p.rank; i++) g->m *= p.extent[i];
    p.rank = 0;
  }
  return p;
}

static Product product_of_node(const Node *n) {
  return product_of(&n->in[0]->type, &n->in[1]->type, &n->out[0].type, turned(n));
}

/* Integers wrap around. */
static void multiply_integers(const Call *c, const Product *p, int64_t a, int64_t b,
                              int64_t first) {
  const Gemm *g = &p->gemm;
  Dtype d = c->in_type[0]->dtype;
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      uint64_t sum = 0;
      for (int64_t k = 0; k < g->k; k++)
        sum += (uint64_t)read_index(d, c->in[0], a + i * g->a_row + k * g->a_col) *
               (uint64_t)read_index(d, c->in[1], b + k * g->b_row + j * g->b_col);
      int64_t at = first + i * g->c_row + j;
      dtype_set_integer(d, c->out[0], at, (int64_t)sum); /* the low bits */
    }
}

static Status body(const Call *c) {
  Product p = product_of(c->in_type[0], c->in_type[1], c->out_type[0], turned(c->node));
  p.gemm.a = c->in[0], p.gemm.b = c->in[1], p.gemm.c = c->out[0];
  if (!dtype_is_float(c->in_type[0]->dtype)) product_each(c, &p, multiply_integers);
  else if (product_sums_half(c)) {
    p.dtype = F16;
    product_run_half(c, &p);
  } else product_run(c, &p, c->scratch);
  return OK;
}
static Status eval(const Call *c) { return product_sums_half(c) ? body(c) : eval_wide(c, body); }

static size_t scratch(const Node *n) {
  if (!dtype_is_float(n->in[0]->type.dtype)) return 0;
  Product p = product_of_node(n);
  return wide_scratch(n, product_scratch(&p));
}

/* Whichever way a and b were turned, each gradient is again one product. */
static void grad(Graph *g, const Node *n, Value *const *dys, Value **dx) {
  Value *a = n->in[0], *b = n->in[1], *dy = dys[0];
  Turned t = turned(n);
  Value *da = t.a ? ops_matmul(g, b, dy, t.b, true) : ops_matmul(g, dy, b, false, !t.b);
  Value *db;
  bool flat = b->type.rank == 2 && a->type.rank > 2 && !t.a;
  if (flat) { /* one weight for all leading rows: one product over all of them */
    Around r = around_axis(&a->type, a->type.rank - 1);
    Type rows = {.dtype = a->type.dtype, .rank = 2, .shape = {r.outer, r.extent}};
    Type cols = {.dtype = a->type.dtype,
                 .rank = 2,
                 .shape = {r.outer, dy ? dy->type.shape[dy->type.rank - 1] : 0}};
    Value *x = ops_reshape(g, a, &rows), *y = ops_reshape(g, dy, &cols);
    db = t.b ? ops_matmul(g, y, x, true, false) : ops_matmul(g, x, y, true, false);
  } else {
    db = t.b ? ops_matmul(g, dy, a, true, t.a) : ops_matmul(g, a, dy, !t.a, false);
  }
  dx[0] = ops_sum_to(g, da, &a->type);
  dx[1] = ops_sum_to(g, db, &b->type);
}

/* The serialized dimension is cut into factor parts, which costs time and saves memory on the
 * machine; the result is the product's. */
static Status infer_serialized(Error *e, Node *n) {
  Status s = infer(e, n);
  if (s != OK) return s;
  const Type *a = &n->in[0]->type;
  const char *dimension = n->attr[DIMENSION].s;
  Turned t = turned(n);
  int64_t factor = n->attr[FACTOR].i, k = a->shape[a->rank - (t.a ? 2 : 1)];
  const Type *y = &n->out[0].type;
  /* Told apart by length: a_columns, a_rows_b_columns, b_rows. */
  size_t length = strlen(dimension);
  int64_t extent = length == 9 ? y->shape[y->rank - 2] : length == 6 ? y->shape[y->rank - 1] : k;
  if (factor < 1 || extent % factor)
    return fail(e, ERR_VALUE, "serialization_factor %lld doesn't divide the extent %lld of %s",
                (long long)factor, (long long)extent, dimension);
  return OK;
}

/* ---- rows ---- */

#define TURNED_ATTRS                                                          \
  {"transpose_a", ATTR_BOOL, "false", NULL, "a's last two axes are swapped"}, \
      {"transpose_b", ATTR_BOOL, "false", NULL, "b's last two axes are swapped"}
const OpDef ops_linear[] = {
    {.name = "matmul",
     .layout = LAYOUT_PRODUCT,
     .family = FAMILY_PRODUCT,
     .summary = "The product of matrices; leading extents broadcast.",
     .shapes = "[…, m, k], […, k, n] → […, m, n]",
     .inputs = {"a", "b"},
     .attrs = {TURNED_ATTRS},
     .infer = infer,
     .cost = cost_of_matmul,
     .eval = eval,
     .scratch = scratch,
     .grad = grad,
     .sample =
         "F[2,3] F[3,4] | F[3,2] F[3,4] {transpose_a = true} | F[2,3] F[4,3] {transpose_b = true} | "
         "F[3,2] F[4,3] {transpose_a = true, transpose_b = true} | F[5,2,3] F[3,4] | F[2,1,2,3] "
         "F[5,3,2] | F[5,3,2] F[3,4] {transpose_a = true} | "
         "F[2,3] F[4,3,5] | F[2,0] F[0,3] | F[0,2] F[2,3] | I9[2,3] I9[3,2] | F[1,5] F[5,1] | "
         "F[65,130] F[130,70] | "
         "F[40,9,20] F[40,20,11] | F[5,2,3] F[4,3] {transpose_b = true} | F[1,2,3] F[2,3,4]"},
    {.name = "serialized_matmul",
     .source = "math_ops.serialized_matmul of Graphcore's TensorFlow 2.6",
     .family = FAMILY_PRODUCT,
     .summary = "matmul done in parts, for less memory on the machine; the same result.",
     .shapes = "[…, m, k], […, k, n] → […, m, n]",
     .inputs = {"a", "b"},
     .attrs = {{"serialization_factor", ATTR_INT, NULL, NULL,
                "how many parts; divides the extent that is cut"},
               {"serialization_dimension", ATTR_STRING, NULL, "a_columns a_rows_b_columns b_rows",
                "dimension that is cut: m, k or n"},
               TURNED_ATTRS},
     .infer = infer_serialized,
     .cost = cost_of_matmul,
     .eval = eval,
     .scratch = scratch,
     .grad = grad,
     .sample =
         "F[4,3] F[3,2] {serialization_factor = 2, serialization_dimension = 'a_columns'} | "
         "F[4,6] F[6,2] {serialization_factor = 3, serialization_dimension = 'a_rows_b_columns'} | "
         "F[4,3] F[4,3] {serialization_factor = 4, serialization_dimension = 'b_rows', transpose_b = true}"},
    {0}};
