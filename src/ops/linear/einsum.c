/* Einstein's summation. Operands are folded from the left. Each step is one batched matrix product
 * of two operands. Their indices are of four kinds.
 *   batch       in both, and still needed
 *   rows        in the left one only
 *   columns     in the right one only
 *   contracted  in both, and not needed any more
 * An operand with another order of indices is copied first. Indices that no other operand and no
 * result has are summed then. */
#include <stdio.h>
#include <string.h>

#include "ops/linear/equation.h"
#include "ops/linear/product.h"
#include "ops/nn.h"
#include "target/cost.h"

/* ---- computing ---- */

/* An operand or a result in the making: indices with steps in elements. */
typedef struct View {
  const void *data;
  int rank;
  uint8_t index[VIEW_RANK];
  int64_t step[VIEW_RANK];
} View;

typedef struct Work {
  const Call *call;     /* NULL: only the scratch is counted */
  const Target *target; /* where to price each product, or NULL */
  Cost *cost;
  const Equation *q;
  Dtype dtype;    /* of the buffers; float16 where partial sums are */
  Dtype partials; /* to price with */
  uint64_t drawn; /* random numbers so far, of float16 */
  Room room;
} Work;

static bool has(const View *v, int index) {
  for (int i = 0; i < v->rank; i++)
    if (v->index[i] == index) return true;
  return false;
}

/* An index that stands twice walks the diagonal; one of extent 1 repeats. */
static View view_of(const Work *w, int operand, const Type *x, const void *data) {
  View v = {.data = data};
  int64_t step[MAX_RANK];
  type_strides(x, step);
  for (int i = 0; i < x->rank; i++) {
    int index = w->q->in[operand].index[i], at = 0;
    while (at < v.rank && v.index[at] != index) at++;
    if (at == v.rank) v.index[v.rank++] = (uint8_t)index;
    v.step[at] += x->shape[i] == 1 ? 0 : step[i];
  }
  return v;
}

static int64_t extent_of(const Work *w, const uint8_t *index, int count) {
  int64_t n = 1;
  for (int i = 0; i < count; i++) n *= w->q->extent[index[i]];
  return n;
}

static View dense_view(const Work *w, const uint8_t *index, int count, const void *data) {
  View v = {.data = data, .rank = count};
  int64_t step = 1;
  for (int i = count - 1; i >= 0; i--) {
    v.index[i] = index[i], v.step[i] = step;
    step *= w->q->extent[index[i]];
  }
  return v;
}

/* Whether v's elements lie densely in this order of all its indices. */
static bool lies(const Work *w, const View *v, const uint8_t *index, int count) {
  View dense = dense_view(w, index, count, NULL);
  if (v->rank != count) return false;
  for (int i = 0; i < count; i++)
    for (int k = 0; k < count; k++)
      if (v->index[k] == index[i] && v->step[k] != dense.step[i] && w->q->extent[index[i]] != 1)
        return false;
  return true;
}

static int64_t step_of(const View *v, int index) {
  for (int i = 0; i < v->rank; i++)
    if (v->index[i] == index) return v->step[i];
  return 0;
}

/* y = x summed along its last `summed`; float16 adds up in float32, as a reduction does. */
static void sum_rows(Work *w, const void *x, int64_t kept, int64_t summed, void *y) {
  if (w->dtype != F16) {
    w->call->kernels->reduce[REDUCE_SUM][w->dtype](x, kept, summed, 1, y);
    return;
  }
  for (int64_t i = 0; i < kept; i++) {
    float sum = 0;
    for (int64_t k = 0; k < summed; k++) sum += f16_to_f32(((const f16 *)x)[i * summed + k]);
    narrow_f16(&sum, (f16 *)y + i, 1, w->call->numerics, &w->call->rng, w->drawn++);
  }
}

/* v's elements in the order of some of its indices, summed over its others, at `to` (NULL: in
 * scratch). */
static View arrange(Work *w, const View *v, const uint8_t *index, int count, void *to) {
  uint8_t all[VIEW_RANK];
  int total = count;
  memcpy(all, index, (size_t)count);
  for (int i = 0; i < v->rank; i++)
    if (!memchr(index, v->index[i], (size_t)count)) all[total++] = v->index[i];
  int64_t kept = extent_of(w, all, count), summed = extent_of(w, all + count, total - count);
  size_t size = dtype_size(w->dtype);
  bool sums = total > count;
  void *copied = sums || !to ? room_take(&w->room, (size_t)(kept * summed) * size) : to;
  void *result = sums && !to ? room_take(&w->room, (size_t)kept * size) : sums ? to : copied;
  if (w->call) {
    Strided s = {0};
    View dense = dense_view(w, all, total, NULL);
    for (int i = 0; i < total; i++)
      strided_add(&s, w->q->extent[all[i]], step_of(v, all[i]), dense.step[i]);
    copy_strided(w->call, size, &s, v->data, copied);
    if (sums) sum_rows(w, copied, kept, summed, result);
  }
  return dense_view(w, index, count, result);
}

/* The indices of a step, sorted. */
typedef struct Sorted {
  uint8_t batch[VIEW_RANK], rows[VIEW_RANK], cols[VIEW_RANK], inner[VIEW_RANK];
  int batch_count, row_count, col_count, inner_count;
} Sorted;

static Sorted sort_indices(const View *a, const View *b, const bool *needed) {
  Sorted s = {0};
  for (int i = 0; i < a->rank; i++) {
    uint8_t x = a->index[i];
    bool shared = has(b, x);
    if (shared && needed[x]) s.batch[s.batch_count++] = x;
    else if (shared) s.inner[s.inner_count++] = x;
    else if (needed[x]) s.rows[s.row_count++] = x;
  }
  for (int i = 0; i < b->rank; i++)
    if (!has(a, b->index[i]) && needed[b->index[i]]) s.cols[s.col_count++] = b->index[i];
  return s;
}

static int join(uint8_t *to, const uint8_t *a, int na, const uint8_t *b, int nb, const uint8_t *c,
                int nc) {
  memcpy(to, a, (size_t)na);
  memcpy(to + na, b, (size_t)nb);
  memcpy(to + na + nb, c, (size_t)nc);
  return na + nb + nc;
}

/* An operand of the product as [batch, x, y], or, when it lies so, [batch, y, x]: then *turned. */
static View as_factor(Work *w, const View *v, const Sorted *s, const uint8_t *x, int nx,
                      const uint8_t *y, int ny, bool *turned) {
  uint8_t order[3 * VIEW_RANK], other[3 * VIEW_RANK];
  int count = join(order, s->batch, s->batch_count, x, nx, y, ny);
  join(other, s->batch, s->batch_count, y, ny, x, nx);
  *turned = false;
  if (lies(w, v, order, count)) return *v;
  *turned = lies(w, v, other, count);
  return *turned ? *v : arrange(w, v, order, count, NULL);
}

/* One product; the result is dense: batch, rows, columns. */
static View multiply(Work *w, const View *left, const View *right, const bool *needed) {
  Sorted s = sort_indices(left, right, needed);
  bool turned_a, turned_b;
  View a = as_factor(w, left, &s, s.rows, s.row_count, s.inner, s.inner_count, &turned_a);
  View b = as_factor(w, right, &s, s.inner, s.inner_count, s.cols, s.col_count, &turned_b);
  Product p = {.dtype = w->dtype, .rank = 1, .extent = {extent_of(w, s.batch, s.batch_count)}};
  Gemm *g = &p.gemm;
  g->m = extent_of(w, s.rows, s.row_count);
  g->n = extent_of(w, s.cols, s.col_count);
  g->k = extent_of(w, s.inner, s.inner_count);
  g->a_row = turned_a ? 1 : g->k, g->a_col = turned_a ? g->m : 1;
  g->b_row = turned_b ? 1 : g->n, g->b_col = turned_b ? g->k : 1;
  g->c_row = g->n;
  p.a_step[0] = g->m * g->k, p.b_step[0] = g->k * g->n, p.c_step = g->m * g->n;
  uint8_t order[3 * VIEW_RANK];
  int count = join(order, s.batch, s.batch_count, s.rows, s.row_count, s.cols, s.col_count);
  void *result = room_take(&w->room, (size_t)(p.extent[0] * p.c_step) * dtype_size(w->dtype));
  void *scratch = room_take(&w->room, w->dtype == F16 ? 0 : product_scratch(&p));
  if (w->target) {
    Cost one = cost_matmul(w->target, w->dtype, w->partials, p.extent[0], g->m, g->k, g->n, NULL);
    cost_then(w->cost, &one);
  }
  if (w->call) {
    g->a = a.data, g->b = b.data, g->c = result;
    if (w->dtype == F16) {
      p.draw = w->drawn;
      product_run_half(w->call, &p);
      w->drawn += product_draws(&p);
    } else product_run(w->call, &p, scratch);
  }
  return dense_view(w, order, count, result);
}

/* Operands after operand k still need these. */
static void find_needed(const Equation *q, int k, bool *needed) {
  memset(needed, 0, INDICES * sizeof *needed);
  for (int i = 0; i < q->out.rank; i++) needed[q->out.index[i]] = true;
  for (int later = k + 1; later < q->count; later++)
    for (int i = 0; i < q->in[later].rank; i++) needed[q->in[later].index[i]] = true;
}

static void contract(Work *w, const Type *const *type, const void *const *data, void *out) {
  bool needed[INDICES];
  View v = view_of(w, 0, type[0], data ? data[0] : NULL);
  for (int k = 1; k < w->q->count; k++) {
    View next = view_of(w, k, type[k], data ? data[k] : NULL);
    find_needed(w->q, k, needed);
    v = multiply(w, &v, &next, needed);
  }
  char none;
  arrange(w, &v, w->q->out.index, w->q->out.rank, w->call ? out : &none);
}

/* ---- the row ---- */

/* Intermediate results have at most VIEW_RANK indices. */
static Status check_ranks(Error *e, const Equation *q) {
  bool live[INDICES] = {false}, needed[INDICES];
  for (int k = 0; k < q->count; k++) {
    int rank = 0;
    for (int i = 0; i < q->in[k].rank; i++) live[q->in[k].index[i]] = true;
    find_needed(q, k, needed);
    for (int i = 0; i < INDICES; i++) rank += live[i] = live[i] && needed[i];
    if (rank > MAX_RANK)
      return fail(e, ERR_VALUE, "an intermediate result has %d indices, more than %d", rank,
                  MAX_RANK);
  }
  return OK;
}

static Status infer(Error *e, Node *n) {
  Equation q;
  if (n->in_count < 1 || n->in_count > MAX_INPUTS)
    return fail(e, ERR_VALUE, "takes 1 to %d tensors, got %d", MAX_INPUTS, n->in_count);
  for (int i = 0; i < n->in_count; i++) {
    Status s = want_float(e, &n->in[i]->type);
    if (s == OK) s = want_same_dtype(e, "all operands", &n->in[i]->type, n->in[0]->type.dtype);
    if (s != OK) return s;
  }
  Status s = equation_read(e, n->attr[0].s ? n->attr[0].s : "", n->in_count, n->in, &q);
  if (s == OK) s = check_ranks(e, &q);
  n->out[0].type = (Type){.dtype = n->in[0]->type.dtype, .rank = q.out.rank};
  for (int i = 0; i < q.out.rank; i++) n->out[0].type.shape[i] = q.extent[q.out.index[i]];
  return s;
}

static Status body(const Call *c) {
  Equation q;
  Status s = equation_read(c->error, c->attr[0].s, c->in_count, c->node->in, &q);
  if (s != OK) return s;
  Work w = {.call = c, .q = &q, .dtype = c->out_type[0]->dtype, .room = {.base = c->scratch}};
  contract(&w, c->in_type, c->in, c->out[0]);
  return OK;
}
static Status eval(const Call *c) { return product_sums_half(c) ? body(c) : eval_wide(c, body); }

static size_t scratch(const Node *n) {
  Equation q;
  const Type *type[MAX_INPUTS];
  if (equation_read(NULL, n->attr[0].s, n->in_count, n->in, &q) != OK) return 0;
  for (int i = 0; i < n->in_count; i++) type[i] = &n->in[i]->type;
  Work w = {.q = &q, .dtype = dtype_to_compute(n->out[0].type.dtype)};
  contract(&w, type, NULL, NULL);
  return wide_scratch(n, w.room.used);
}

static void cost(const Target *t, const Node *n, Cost *cost) {
  Equation q;
  const Type *type[MAX_INPUTS];
  *cost = cost_rearrange(t, (int64_t)type_bytes(&n->out[0].type),
                         (int64_t)dtype_size(n->out[0].type.dtype));
  if (equation_read(NULL, n->attr[0].s, n->in_count, n->in, &q) != OK) return;
  for (int i = 0; i < n->in_count; i++) type[i] = &n->in[i]->type;
  Work w = {.q = &q,
            .dtype = n->out[0].type.dtype,
            .partials = nn_partials(n),
            .target = t,
            .cost = cost};
  contract(&w, type, NULL, NULL);
}

/* ---- gradient: for each operand again an equation ---- */

typedef struct Written {
  char text[(MAX_INPUTS + 4) * (MAX_RANK + 1) + 8];
  int length;
  char name[INDICES]; /* letters of indices; the indices of "..." get free ones */
} Written;

static char index_letter(int i) { return (char)(i < 26 ? 'A' + i : 'a' + i - 26); }

static char free_letter(const Equation *q, const char *taken) {
  for (int i = 0; i < LETTERS; i++)
    if (!q->used[i] && !strchr(taken, index_letter(i))) return index_letter(i);
  return 0;
}

static bool name_indices(const Equation *q, Written *w) {
  char taken[MAX_RANK + 1] = "";
  for (int i = 0, n = 0; i < INDICES; i++) {
    if (!q->used[i]) continue;
    w->name[i] = i < LETTERS ? index_letter(i) : free_letter(q, taken);
    if (!w->name[i]) return false;
    if (i >= LETTERS) taken[n++] = w->name[i];
  }
  return true;
}

static void write_term(Written *w, const Term *t) {
  for (int i = 0; i < t->rank; i++) w->text[w->length++] = w->name[t->index[i]];
}

typedef struct Gradient {
  Graph *graph;
  const Node *node;
  const Equation *q;
  Written w;
  Value *in[MAX_INPUTS + 2];
  int count;
} Gradient;

static bool add_operand(Gradient *d, Value *v) {
  if (d->count == MAX_INPUTS) {
    fail(&d->graph->error, ERR_VALUE, "einsum: the gradient of so many operands needs more than %d",
         MAX_INPUTS);
    return false;
  }
  if (d->count) d->w.text[d->w.length++] = ',';
  d->in[d->count++] = v;
  return true;
}

/* Indices that only operand k has, or the others with an extent of 1, all summed: the gradient
 * repeats along them. */
static bool add_ones(Gradient *d, int k) {
  const Equation *q = d->q;
  bool known[INDICES] = {false};
  Term missing = {0};
  Type ones = {.dtype = d->node->in[k]->type.dtype};
  for (int i = 0; i < q->out.rank; i++) known[q->out.index[i]] = true;
  for (int other = 0; other < q->count; other++)
    for (int i = 0; other != k && i < q->in[other].rank; i++) {
      int index = q->in[other].index[i];
      if (d->node->in[other]->type.shape[i] == q->extent[index]) known[index] = true;
    }
  for (int i = 0; i < q->in[k].rank; i++) {
    int index = q->in[k].index[i];
    if (known[index]) continue;
    known[index] = true;
    missing.index[missing.rank++] = (uint8_t)index;
    ones.shape[ones.rank++] = q->extent[index];
  }
  if (!missing.rank) return true;
  if (!add_operand(d, ops_ones(d->graph, &ones))) return false;
  write_term(&d->w, &missing);
  return true;
}

/* The result has operand k's indices. An index that the operand was summed over is an axis of 1. A
 * second index of a kind gets a name of its own, and lies on the diagonal. */
static bool write_result(Gradient *d, int k) {
  const Term *t = &d->q->in[k];
  const Type *x = &d->node->in[k]->type;
  char result[MAX_RANK + 1] = "", fresh[2 * MAX_RANK + 1] = "";
  int length = 0, extra = 0;
  memcpy(fresh, d->w.name + LETTERS, MAX_RANK);
  for (int i = 0; i < MAX_RANK; i++) fresh[i] = fresh[i] ? fresh[i] : '.';
  for (int i = 0; i < t->rank; i++) {
    char name = d->w.name[t->index[i]];
    if (x->shape[i] == 1 && d->q->extent[t->index[i]] != 1) continue;
    if (strchr(result, name)) {
      char other = free_letter(d->q, fresh);
      if (!other || !add_operand(d, ops_identity(d->graph, x->dtype, x->shape[i]))) return false;
      fresh[MAX_RANK + extra++] = other;
      d->w.text[d->w.length++] = name;
      d->w.text[d->w.length++] = other;
      name = other;
    }
    result[length++] = name;
  }
  d->w.length +=
      snprintf(d->w.text + d->w.length, sizeof d->w.text - (size_t)d->w.length, "->%s", result);
  return true;
}

static Value *grad_of(Graph *g, const Node *n, const Equation *q, int k, Value *dy) {
  Gradient d = {.graph = g, .node = n, .q = q};
  if (!name_indices(q, &d.w)) {
    fail(&g->error, ERR_VALUE, "einsum: the gradient needs more than %d indices", LETTERS);
    return NULL;
  }
  add_operand(&d, dy);
  write_term(&d.w, &q->out);
  for (int other = 0; other < q->count; other++) {
    if (other == k) continue;
    if (!add_operand(&d, n->in[other])) return NULL;
    write_term(&d.w, &q->in[other]);
  }
  if (!add_ones(&d, k) || !write_result(&d, k)) return NULL;
  Attr attrs[] = {attr_string(d.w.text)};
  return ops_reshape_like(g, op_with(g, "einsum", d.in, d.count, attrs), n->in[k]);
}

static void grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Equation q;
  if (equation_read(&g->error, n->attr[0].s, n->in_count, n->in, &q) != OK) return;
  for (int k = 0; k < n->in_count; k++) dx[k] = grad_of(g, n, &q, k, dy[0]);
}

const OpDef ops_einsum[] = {
    {.name = "einsum",
     .summary =
         "Sums of products named by indices: 'ij,jk->ik' is the matrix product; without -> the result "
         "has the "
         "indices that stand once.",
     .shapes = "as the equation says",
     .inputs = {"tensors"},
     .attrs = {{"equation", ATTR_STRING, NULL, NULL, "indices of operands -> of the result"}},
     .traits = VARIADIC,
     .infer = infer,
     .eval = eval,
     .scratch = scratch,
     .grad = grad,
     .cost = cost,
     .sample =
         "F[2,3] F[3,4] {equation = 'ij,jk->ik'} | F[2,3] F[3,4] {equation = 'ij,jk'} | F[3,2] "
         "{equation = 'ba'} | F[3,3] {equation = 'ii'} | "
         "F[3,3] {equation = 'ii->i'} | F[2,3] {equation = 'ij->'} | F[2,3,4] F[2,5,4] {equation = "
         "'bij,bkj->bik'} | "
         "F[2,3] F[4] {equation = 'ij,k->kji'} | F[2,3] F[3,4] F[4,2] {equation = 'ij,jk,kl->il'} | "
         "F[2,5,3] F[3,4] {equation = '...i,ij->...j'} | "
         "F[2,1,3] F[4,3] {equation = '...i,...i->...'} | F[2,3] F[2,3] {equation = 'ij,ij->'} | "
         "F[2,4,3,5] F[2,6,3,5] {equation = 'bqhd,bkhd->bhqk'} | "
         "F[2,3,4] F[3,5] {equation = 'ijk,jl->il'} | F[2,2,3] F[3] {equation = 'iij,j->i'} | F[] F[3] "
         "{equation = ',i->i'} | F[0,3] F[3,2] {equation = 'ij,jk->ik'}"},
    {0}};
