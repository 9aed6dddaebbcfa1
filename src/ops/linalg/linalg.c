#include "ops/linalg/linalg.h"

#include <limits.h>
#include <math.h>

#include "base/interrupt.h"

/* ---- infer ---- */

Status infer_matrices(Error *e, const Type *a) {
  char text[TYPE_TEXT];
  Status s = want_float(e, a);
  if (s != OK) return s;
  if (a->rank < 2)
    return fail(e, ERR_INVALID_ARGUMENT, "operands must be matrices, got %s", shape_text(a, text));
  if (matrix_rows(a) > INT_MAX || matrix_cols(a) > INT_MAX)
    return fail(e, ERR_INVALID_ARGUMENT, "extents of %s are beyond %d", shape_text(a, text),
                INT_MAX);
  return OK;
}

Status infer_square(Error *e, const Type *a) {
  char text[TYPE_TEXT];
  Status s = want_float(e, a);
  if (s == OK && (a->rank < 2 || matrix_rows(a) != matrix_cols(a)))
    return fail(e, ERR_INVALID_ARGUMENT, "operands must be square matrices, got %s",
                shape_text(a, text));
  return s == OK ? infer_matrices(e, a) : s;
}

Status infer_sides(Error *e, const char *what, const Type *a, const Type *b) {
  char ta[TYPE_TEXT], tb[TYPE_TEXT];
  Status s = want_same_dtype(e, what, b, a->dtype);
  if (s != OK) return s;
  bool fits = a->rank == b->rank;
  for (int i = 0; i < a->rank - 1 && fits; i++) fits = a->shape[i] == b->shape[i];
  if (fits) return OK;
  return fail(e, ERR_INVALID_ARGUMENT, "matrices %s and right-hand sides %s don't fit",
              shape_text(a, ta), shape_text(b, tb));
}

Status infer_of_square(Error *e, Node *n) {
  infer_same(e, n);
  return infer_square(e, &n->in[0]->type);
}

Status infer_solution(Error *e, Node *n) {
  Status s = infer_square(e, &n->in[0]->type);
  if (s == OK) s = infer_sides(e, "rhs", &n->in[0]->type, &n->in[1]->type);
  if (s == OK) n->out[0].type = n->in[1]->type;
  return s;
}

int64_t matrix_count(const Type *t) {
  int64_t count = 1;
  for (int i = 0; i < t->rank - 2; i++) count *= t->shape[i];
  return count;
}

/* ---- evaluation ---- */

/* Tasks at once at most: they bound the scratch. */
enum { SLOTS = 16 };
static const double SMALL_WORK = 1e5; /* below, the pool takes longer to wake than to help */

static int64_t slot_count(int64_t matrices) { return max(1, min(matrices, SLOTS)); }

size_t batch_scratch(int64_t count, size_t task_bytes) {
  return (size_t)slot_count(count) * round_to_line(task_bytes);
}

Lapack lapack_for(Dtype d) { return (Lapack){.blas = blas_open(), .dtype = dtype_to_compute(d)}; }

typedef struct Failure {
  int64_t index, code;
} Failure;

typedef struct BatchRun {
  const Batch *b;
  char *scratch;
  int64_t slots;
  Failure first[SLOTS]; /* of each slot, which takes its matrices in their order */
  CancellableLoop loop;
} BatchRun;

static void run_slot(void *context, int64_t slot, int member) {
  BatchRun *r = context;
  (void)member;
  char *scratch = r->scratch + (size_t)slot * round_to_line(r->b->task_bytes);
  for (int64_t i = slot; i < r->b->count && !interrupt_cancels(&r->loop); i += r->slots) {
    int64_t code = r->b->task(r->b, i, scratch);
    if (code && !r->first[slot].code) r->first[slot] = (Failure){i, code};
  }
}

static Status tell_failure(const Call *c, const Failure *f) {
  const char *name = c->node->op->name;
  long long index = (long long)f->index;
  if (f->code == NOT_FINITE)
    return fail_at(c->error, c->source, ERR_VALUE, "%s: matrix %lld has a NaN or an infinity", name,
                   index);
  if (f->code == NOT_CONVERGED)
    return fail_at(c->error, c->source, ERR_VALUE, "%s: matrix %lld: the iteration has no end",
                   name, index);
  return fail_at(c->error, c->source, ERR_VALUE, "%s: matrix %lld is singular: pivot %lld is 0",
                 name, index, (long long)f->code - 1);
}

Status batch_run(Batch *b) {
  const Call *c = b->c;
  if (!b->count) return OK;
  if (!b->lapack.blas)
    return fail_at(c->error, c->source, ERR_NOT_FOUND,
                   "%s: LAPACK computes this, which is not here; Debian's " BLAS_PACKAGE
                   " brings it",
                   c->node->op->name);
  BatchRun r = {.b = b, .scratch = c->scratch, .slots = slot_count(b->count)};
  r.loop = interrupt_begin_loop();
  bool small = (double)b->count * b->work < SMALL_WORK;
  pool_run(small ? NULL : c->pool, r.slots, run_slot, &r);
  interrupt_end_loop(&r.loop);
  const Failure *first = NULL;
  for (int64_t i = 0; i < r.slots; i++)
    if (r.first[i].code && (!first || r.first[i].index < first->index)) first = &r.first[i];
  return first ? tell_failure(c, first) : OK;
}

static int64_t matrix_bytes(const Type *t) {
  return matrix_rows(t) * matrix_cols(t) * (int64_t)dtype_size(t->dtype);
}

const char *matrix_in(const Batch *b, int operand, int64_t index) {
  return (const char *)b->c->in[operand] + index * matrix_bytes(b->c->in_type[operand]);
}

char *matrix_out(const Batch *b, int result, int64_t index) {
  return (char *)b->c->out[result] + index * matrix_bytes(b->c->out_type[result]);
}

bool all_finite(Dtype d, const void *x, int64_t count) {
  bool finite = true;
  if (d == F64)
    for (int64_t i = 0; i < count; i++) finite &= isfinite(((const double *)x)[i]) != 0;
  else
    for (int64_t i = 0; i < count; i++) finite &= isfinite(((const float *)x)[i]) != 0;
  return finite;
}

void transpose_matrix(const Batch *b, const void *x, int64_t rows, int64_t cols, void *y) {
  if (rows && cols) b->c->kernels->transpose(dtype_size(b->lapack.dtype), x, 1, rows, cols, y);
}

/* ---- gradients ---- */

Value *grad_wide(Graph *g, const Value *x) {
  if (!x) return NULL;
  Value *v = (Value *)(uintptr_t)x;
  return dtype_is_narrow(x->type.dtype) ? ops_cast(g, v, F32) : v;
}

Value *grad_narrow(Graph *g, Value *x, const Value *like) {
  return x && x->type.dtype != like->type.dtype ? ops_cast(g, x, like->type.dtype) : x;
}

Value *grad_product(Graph *g, Value *a, Value *b) { return ops_matmul(g, a, b, false, false); }
Value *grad_product_turned(Graph *g, Value *a, Value *b) {
  return ops_matmul(g, a, b, true, false);
}
Value *grad_product_by_turned(Graph *g, Value *a, Value *b) {
  return ops_matmul(g, a, b, false, true);
}

Value *grad_turn(Graph *g, Value *x) {
  int64_t perm[MAX_RANK];
  int rank = x ? x->type.rank : 0;
  for (int i = 0; i < rank; i++) perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
  return ops_transpose(g, x, perm);
}

Value *grad_triangle(Graph *g, Value *x, bool lower, int64_t k) {
  return op_with(g, lower ? "tril" : "triu", &x, 1, (Attr[]){attr_int(k)});
}

Value *grad_solve_triangle(Graph *g, Value *a, Value *b, bool lower, bool adjoint) {
  Attr attrs[] = {attr_bool(lower), attr_bool(adjoint)};
  return op_with(g, "triangular_solve", (Value *[]){a, b}, 2, attrs);
}

/* x with one more axis, of extent 1, in front of its last `behind` axes. */
static Value *with_axis(Graph *g, Value *x, int behind) {
  if (!x) return NULL;
  Type t = x->type;
  for (int i = t.rank; i > t.rank - behind; i--) t.shape[i] = t.shape[i - 1];
  t.shape[t.rank - behind] = 1;
  t.rank++;
  return ops_reshape(g, x, &t);
}
Value *grad_as_row(Graph *g, Value *x) { return with_axis(g, x, 1); }
Value *grad_as_column(Graph *g, Value *x) { return with_axis(g, x, 0); }
