/* The costs of rows on the machine: their shapes, passed to the formulas of target/cost.h. */
#include "target/cost.h"

#include <string.h>

#include "ops/support.h"

static int64_t elements(const Value *v) { return type_count(&v->type); }
static int64_t bytes(const Value *v) { return (int64_t)type_bytes(&v->type); }
static Dtype dtype(const Value *v) { return v->type.dtype; }

/* The last axis, whose elements lie together. */
static int64_t run_bytes(const Value *v) {
  const Type *t = &v->type;
  return (t->rank ? t->shape[t->rank - 1] : 1) * (int64_t)dtype_size(t->dtype);
}

void cost_pass(const Target *t, const Node *n, VectorCycles of, Cost *cost) {
  int64_t count = elements(&n->out[0]), small = 0;
  Dtype d = dtype(n->in[n->in_count - 1]);
  double cycles = vector_cycles(of, d);
  for (int i = 0; i < n->in_count; i++)
    if (elements(n->in[i]) != count && elements(n->in[i]) > 1)
      small = max(small, elements(n->in[i]));
  *cost = small ? cost_broadcast(t, d, count, small, cycles)
                : cost_elementwise(t, d, count, n->in_count, cycles);
}

void cost_of_elementwise(const Target *t, const Node *n, Cost *cost) {
  cost_pass(t, n, n->op->cycles, cost);
}

void cost_of_cast(const Target *t, const Node *n, Cost *cost) {
  *cost = cost_cast(t, dtype(n->in[0]), dtype(&n->out[0]), elements(&n->out[0]));
}
void cost_of_view(const Target *t, const Node *n, Cost *cost) {
  (void)t, (void)n;
  *cost = cost_free();
}
void cost_of_fill(const Target *t, const Node *n, Cost *cost) {
  *cost = cost_fill(t, dtype(&n->out[0]), elements(&n->out[0]));
}

void cost_of_copy(const Target *t, const Node *n, Cost *cost) {
  int64_t all = 0, run = 0; /* one exchange for any number of parts */
  for (int i = 0; i < n->out_count; i++) {
    all += bytes(&n->out[i]);
    if (!run || run_bytes(&n->out[i]) < run) run = run_bytes(&n->out[i]);
  }
  *cost = cost_rearrange(t, all, run);
}
void cost_of_rearrange(const Target *t, const Node *n, Cost *cost) {
  *cost = cost_rearrange(t, bytes(&n->out[0]), (int64_t)dtype_size(dtype(&n->out[0])));
}
void cost_of_transpose(const Target *t, const Node *n, Cost *cost) {
  *cost = cost_transpose(t, dtype(n->in[0]), elements(n->in[0]));
}

/* ---- reductions ---- */

static Cost reduce(const Target *t, const Node *n, ReduceKind kind) {
  const Type *x = &n->in[0]->type;
  ReduceAxis axes[MAX_RANK];
  for (int i = 0; i < x->rank; i++) axes[i] = (ReduceAxis){x->shape[i], false};
  for (int i = 0; i < n->attr[0].ints.n; i++) axes[n->attr[0].ints.v[i]].reduced = true;
  return cost_reduce_axes(t, x->dtype, kind, axes, x->rank);
}

void cost_of_sum(const Target *t, const Node *n, Cost *cost) { *cost = reduce(t, n, COST_SUM); }
void cost_of_max(const Target *t, const Node *n, Cost *cost) { *cost = reduce(t, n, COST_MAX); }

static Cost input_pass(const Target *t, const Node *n, VectorCycles cycles) {
  const Value *x = n->in[0];
  return cost_elementwise(t, dtype(x), elements(x), 1, vector_cycles(cycles, dtype(x)));
}

void cost_of_moments(const Target *t, const Node *n, Cost *cost) {
  Cost square = input_pass(t, n, (VectorCycles)VECTOR_SQUARE), again = reduce(t, n, COST_SUM);
  *cost = reduce(t, n, COST_SUM);
  cost_then(cost, &square);
  cost_then(cost, &again);
}

void cost_of_logsumexp(const Target *t, const Node *n, Cost *cost) {
  Cost power = input_pass(t, n, (VectorCycles)VECTOR_EXP), sum = reduce(t, n, COST_SUM);
  *cost = reduce(t, n, COST_MAX);
  cost_then(cost, &power);
  cost_then(cost, &sum);
}

void cost_of_position(const Target *t, const Node *n, Cost *cost) {
  Around a = around_axis(&n->in[0]->type, (int)n->attr[0].i);
  *cost = cost_reduce(t, dtype(n->in[0]), COST_ARG, a.outer, a.extent, a.inner);
}

void cost_of_scan(const Target *t, const Node *n, Cost *cost) {
  const Value *x = n->in[n->in_count - 1];
  Around a = around_axis(&x->type, (int)n->attr[0].i);
  *cost = cost_scan(t, dtype(x), a.outer * a.inner, a.extent);
}

void cost_of_norm(const Target *t, const Node *n, Cost *cost) {
  *cost = cost_free();
  for (int i = 0; i < n->in_count; i++) {
    const Value *x = n->in[i];
    Cost square = cost_elementwise(t, dtype(x), elements(x), 1, VECTOR(SQUARE, dtype(x)));
    Cost sum = cost_reduce(t, dtype(x), COST_SUM, 1, elements(x), 1);
    Cost scale = cost_elementwise(t, dtype(x), elements(x), 2, VECTOR(MUL, dtype(x)));
    cost_then(cost, &square);
    cost_then(cost, &sum);
    cost_then(cost, &scale);
  }
}

/* ---- by index ---- */

/* Slices of an axis of a table: their number, and the width of each. */
static Around slices(const Type *table, int64_t picked, int64_t count) {
  int64_t width = count ? picked / count : 0, all = type_count(table);
  return (Around){1, width ? all / width : 0, width};
}

/* Indices, or tuples of them. */
static int64_t index_count(const Node *n, int input, bool tuples) {
  const Type *t = &n->in[input]->type;
  return tuples && t->shape[t->rank - 1] > 0 ? type_count(t) / t->shape[t->rank - 1]
                                             : type_count(t);
}

static void gather(const Target *t, const Node *n, bool tuples, Cost *cost) {
  int64_t count = index_count(n, 1, tuples);
  Around a = slices(&n->in[0]->type, elements(&n->out[0]), count);
  *cost = cost_gather(t, dtype(n->in[0]), a.extent, a.inner, count);
}

void cost_of_gather(const Target *t, const Node *n, Cost *cost) { gather(t, n, false, cost); }
void cost_of_gather_nd(const Target *t, const Node *n, Cost *cost) { gather(t, n, true, cost); }

/* Updates are the operand of the result's dtype; the other one holds indices. */
static void scatter(const Target *t, const Node *n, bool tuples, Cost *cost) {
  int updates = dtype(n->in[0]) == dtype(&n->out[0]) ? 0 : 1;
  int64_t count = index_count(n, 1 - updates, tuples);
  Around a = slices(&n->out[0].type, elements(n->in[updates]), count);
  *cost = cost_scatter(t, dtype(&n->out[0]), a.extent, a.inner, count);
}

void cost_of_scatter(const Target *t, const Node *n, Cost *cost) { scatter(t, n, false, cost); }
void cost_of_scatter_nd(const Target *t, const Node *n, Cost *cost) { scatter(t, n, true, cost); }

/* The table is x, or the gradient by x. */
static void take_along(const Target *t, const Node *n, bool add, Cost *cost) {
  int axis = (int)n->attr[0].i;
  Around table = around_axis(add ? &n->out[0].type : &n->in[0]->type, axis),
         picks = around_axis(&n->in[1]->type, axis);
  *cost = cost_take_along(t, dtype(n->in[0]), table.outer * table.inner, table.extent, picks.extent,
                          add);
}

void cost_of_take_along(const Target *t, const Node *n, Cost *cost) {
  take_along(t, n, false, cost);
}
void cost_of_put_along(const Target *t, const Node *n, Cost *cost) { take_along(t, n, true, cost); }

void cost_of_one_hot(const Target *t, const Node *n, Cost *cost) {
  *cost = cost_one_hot(t, dtype(&n->out[0]), elements(n->in[0]), n->attr[0].i);
}

void cost_of_sort(const Target *t, const Node *n, Cost *cost) {
  Around a = around_axis(&n->in[0]->type, (int)n->attr[0].i);
  *cost = cost_sort(t, dtype(n->in[0]), a.outer * a.inner, a.extent);
}

void cost_of_top_k(const Target *t, const Node *n, Cost *cost) {
  Around a = around_axis(&n->in[0]->type, n->in[0]->type.rank - 1);
  *cost = cost_top_k(t, dtype(n->in[0]), a.outer, a.extent, n->attr[0].i);
}

/* ---- linear algebra ---- */

/* The parts of a serialized_matmul run one after the other. Each has a share of its dimension. */
static int64_t serial_parts(const Node *n, int64_t *m, int64_t *k, int64_t *columns) {
  if (op_attr_count(n->op) < 4) return 1; /* its attributes are flags only */
  int64_t parts = max(n->attr[0].i, 1), *cut = !strcmp(n->attr[1].s, "a_columns") ? m
                                               : !strcmp(n->attr[1].s, "b_rows")  ? columns
                                                                                  : k;
  *cut /= parts;
  return parts;
}

/* Not a batch of matrices. */
static bool is_one(const Type *t) {
  return t->rank < 3 || type_count(t) == t->shape[t->rank - 1] * t->shape[t->rank - 2];
}

/* Flags of transposition are the last two attributes. */
void cost_of_matmul(const Target *t, const Node *n, Cost *cost) {
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type, *y = &n->out[0].type;
  const Attr *turned = n->attr + op_attr_count(n->op) - 2;
  int64_t m = y->shape[y->rank - 2], columns = y->shape[y->rank - 1],
          k = a->shape[a->rank - (turned[0].i ? 2 : 1)];
  int64_t groups = m > 0 && columns > 0 ? type_count(y) / (m * columns) : 0;
  /* one b: more rows */
  if (is_one(b) && !turned[0].i) m *= groups, groups = min(groups, 1);
  /* one a: more columns */
  if (is_one(a) && !turned[1].i) columns *= groups, groups = min(groups, 1);
  int64_t parts = serial_parts(n, &m, &k, &columns);
  bool sums = parts > 1 && !strcmp(n->attr[1].s, "a_rows_b_columns");
  /* One row times a turned matrix, or a column times a row: the gradients of a product with one
   * row. */
  bool trained = (turned[1].i && m == 1) || (turned[0].i && k == 1);
  PlanOptions options = {.left_moved = turned[0].i,
                         .right_moved = turned[1].i,
                         .accumulate = sums,
                         .trained = trained};
  Dtype partials = n->place.half_products > 0 ? F16 : F32;
  *cost = cost_matmul(t, a->dtype, partials, groups, m, k, columns, &options);
  cost_repeat(cost, (double)parts);
}

void cost_of_cholesky(const Target *t, const Node *n, Cost *cost) {
  const Type *a = &n->in[0]->type;
  int64_t size = a->shape[a->rank - 1], batch = size ? type_count(a) / (size * size) : 0;
  *cost = cost_cholesky(t, a->dtype, batch, size, t->cholesky_block);
}

void cost_of_solve(const Target *t, const Node *n, Cost *cost) {
  const Type *b = &n->in[1]->type;
  int64_t size = b->shape[b->rank - 2], columns = b->shape[b->rank - 1],
          batch = size > 0 && columns > 0 ? type_count(b) / (size * columns) : 0;
  *cost = cost_triangular_solve(t, b->dtype, batch, size, columns, t->solve_block);
}

/* ---- the rest ---- */

#define DRAW(id, kind)                                         \
  void cost_of_##id(const Target *t, const Node *n, Cost *c) { \
    const Value *y = &n->out[0];                               \
    *c = cost_random(t, dtype(y), elements(y), RANDOM_##kind); \
  }
DRAW(uniform, UNIFORM)
DRAW(normal, NORMAL)
DRAW(truncated_normal, TRUNCATED_NORMAL)
DRAW(bernoulli, BERNOULLI)
DRAW(dropout, DROPOUT)
#undef DRAW

/* The weights of all classes and their sums, then a number drawn for each sample. */
void cost_of_categorical(const Target *t, const Node *n, Cost *cost) {
  const Type *x = &n->in[0]->type;
  int64_t classes = x->shape[x->rank - 1];
  *cost = input_pass(t, n, (VectorCycles)VECTOR_EXP);
  Cost sum = cost_reduce(t, x->dtype, COST_SUM, type_count(x) / max(classes, 1), classes, 1);
  cost_then(cost, &sum);
  Cost draw = cost_random(t, F32, elements(&n->out[0]), RANDOM_UNIFORM);
  cost_then(cost, &draw);
}

/* The least and the greatest element, then even steps between them. */
void cost_of_bins(const Target *t, const Node *n, Cost *cost) {
  Dtype d = dtype(n->in[0]);
  *cost = cost_reduce(t, d, COST_MAX, 1, elements(n->in[0]), 1);
  Cost min = cost_reduce(t, d, COST_MAX, 1, elements(n->in[0]), 1);
  cost_then(cost, &min);
  Cost fill = cost_fill(t, d, elements(&n->out[0]));
  cost_then(cost, &fill);
}

/* a * b, but at most 2^50: larger products need not be told apart. */
static int64_t capped_product(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) || product > INT64_C(1) << 50 ? INT64_C(1) << 50
                                                                              : product;
}

/* Each element is compared with each boundary. */
void cost_of_histogram(const Target *t, const Node *n, Cost *cost) {
  const Value *x = n->in[n->in_count - 2], *levels = n->in[n->in_count - 1];
  *cost = cost_elementwise(t, dtype(x), capped_product(elements(x), max(elements(levels), 1)), 2,
                           VECTOR(COMPARE, dtype(x)));
  Cost sum = cost_reduce(t, F32, COST_SUM, 1, elements(x), elements(&n->out[0]));
  cost_then(cost, &sum);
}
