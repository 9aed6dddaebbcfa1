/* Order along an axis. Elements become integer keys that compare like the elements, with NaN above
 * all. Equal keys keep their order, so the result is unique. */
#include <math.h>
#include <string.h>

#include "ops/nn.h"
#include "ops/support.h"

enum { AXIS, DIRECTION };
enum { INSERTION_RUN = 12, SMALL_K = 64 };

typedef struct Item {
  uint64_t key;
  int64_t index;
} Item;

static uint64_t key_f64(double v) {
  uint64_t bits, sign = (uint64_t)1 << 63;
  if (v == 0) v = 0; /* -0 equals 0 */
  if (isnan(v)) return UINT64_MAX;
  memcpy(&bits, &v, sizeof bits);
  return bits & sign ? ~bits : bits | sign;
}

static uint64_t key_of(Dtype d, const void *x, int64_t i) {
  switch (d) {
    case F32:
      return key_f64((double)((const float *)x)[i]);
    case F64:
      return key_f64(((const double *)x)[i]);
    case F16:
    case BF16:
      return key_f64(dtype_get(d, x, i));
    default:
      return (uint64_t)dtype_get_integer(d, x, i) ^ ((uint64_t)1 << 63);
  }
}

static void insertion_sort(Item *v, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    Item x = v[i];
    int64_t j = i;
    for (; j > 0 && v[j - 1].key > x.key; j--) v[j] = v[j - 1];
    v[j] = x;
  }
}

static void merge(const Item *a, int64_t na, const Item *b, int64_t nb, Item *to) {
  while (na && nb) *to++ = b->key < a->key ? (nb--, *b++) : (na--, *a++);
  memcpy(to, na ? a : b, (size_t)(na + nb) * sizeof *to);
}

/* Stable; returns v or spare, whichever holds the result. */
static Item *merge_sort(Item *v, Item *spare, int64_t n) {
  for (int64_t i = 0; i < n; i += INSERTION_RUN) insertion_sort(v + i, min(INSERTION_RUN, n - i));
  for (int64_t run = INSERTION_RUN; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t na = min(run, n - i), nb = min(run, n - i - na);
      merge(v + i, na, v + i + na, nb, spare + i);
    }
    Item *t = v;
    v = spare, spare = t;
  }
  return v;
}

/* The first k of n, k small: candidates stand in order in v. */
static Item *select_first(const Item *from, Item *v, int64_t n, int64_t k) {
  int64_t held = 0;
  for (int64_t i = 0; i < n; i++) {
    if (held == k && from[i].key >= v[k - 1].key) continue;
    int64_t j = held < k ? held++ : k - 1;
    for (; j > 0 && v[j - 1].key > from[i].key; j--) v[j] = v[j - 1];
    v[j] = from[i];
  }
  return v;
}

typedef struct Ordering {
  const Call *call;
  Around shape;  /* of x */
  int64_t first; /* how many of each row are wanted */
  bool descending;
  void *values;     /* may be NULL */
  int32_t *indices; /* may be NULL */
} Ordering;

static void order_row(void *context, int64_t row, void *scratch) {
  const Ordering *o = context;
  const Call *c = o->call;
  Dtype d = c->in_type[0]->dtype;
  size_t size = dtype_size(d);
  int64_t n = o->shape.extent, inner = o->shape.inner, i = row % inner,
          base = row / inner * n * inner + i;
  Item *v = scratch, *spare = v + n;
  for (int64_t k = 0; k < n; k++) {
    uint64_t key = key_of(d, c->in[0], base + k * inner);
    v[k] = (Item){o->descending ? ~key : key, k};
  }
  v = o->first <= SMALL_K && o->first < n / 4 ? select_first(v, spare, n, o->first)
                                              : merge_sort(v, spare, n);
  int64_t to = row / inner * o->first * inner + i;
  for (int64_t k = 0; k < o->first; k++, to += inner) {
    if (o->indices) o->indices[to] = (int32_t)v[k].index;
    if (o->values)
      memcpy((char *)o->values + (size_t)to * size,
             (const char *)c->in[0] + (size_t)(base + v[k].index * inner) * size, size);
  }
}

static size_t row_bytes(const Type *x, int axis) {
  return round_to_line(2 * (size_t)x->shape[axis] * sizeof(Item));
}

static Status order(const Call *c, int axis, int64_t first, bool descending, void *values,
                    int32_t *indices) {
  Ordering o = {c, around_axis(c->in_type[0], axis), first, descending, values, indices};
  nn_run(c, o.shape.outer * o.shape.inner, c->scratch, row_bytes(c->in_type[0], axis), order_row,
         &o);
  return OK;
}

/* ---- sort, argsort ---- */

static Status infer_order(Error *e, Node *n) {
  int axis;
  char text[TYPE_TEXT];
  Status s = infer_same(e, n);
  if (s == OK) s = axis_check(e, "axis", n->attr[AXIS].i, n->in[0]->type.rank, &axis);
  if (s != OK) return s;
  n->attr[AXIS].i = axis;
  if (n->in[0]->type.shape[axis] > INT32_MAX)
    return fail(e, ERR_VALUE, "axis %d of %s is too long", axis, shape_text(&n->in[0]->type, text));
  return OK;
}

static Status infer_argsort(Error *e, Node *n) {
  Status s = infer_order(e, n);
  n->out[0].type.dtype = I32;
  return s;
}

static bool is_descending(const Node *n) { return nn_is(&n->attr[DIRECTION], "DESCENDING"); }
static size_t scratch_order(const Node *n) {
  return NN_SLOTS * row_bytes(&n->in[0]->type, (int)n->attr[AXIS].i);
}

static Status eval_sort(const Call *c) {
  int axis = (int)c->attr[AXIS].i;
  return order(c, axis, c->in_type[0]->shape[axis], is_descending(c->node), c->out[0], NULL);
}
static Status eval_argsort(const Call *c) {
  int axis = (int)c->attr[AXIS].i;
  return order(c, axis, c->in_type[0]->shape[axis], is_descending(c->node), NULL, c->out[0]);
}

static Value *put_back(Graph *g, Value *dy, Value *indices, const Type *x, int64_t axis) {
  Attr attrs[] = {attr_int(axis), attr_int(x->shape[axis])};
  return dy ? op_with(g, "take_along_grad", (Value *[]){dy, indices}, 2, attrs) : NULL;
}

static void grad_sort(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = put_back(g, dy[0], op_with(g, "argsort", n->in, 1, n->attr), &n->in[0]->type,
                   n->attr[AXIS].i);
}

/* ---- top_k ---- */

static Status infer_top_k(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  char text[TYPE_TEXT];
  int64_t k = n->attr[0].i;
  if (x->rank < 1) return fail(e, ERR_VALUE, "x must have one dimension at least, got []");
  if (k < 0 || k > x->shape[x->rank - 1] || k > INT32_MAX)
    return fail(e, ERR_VALUE, "k must be in 0 … %lld, the last axis of %s; got %lld",
                (long long)x->shape[x->rank - 1], shape_text(x, text), (long long)k);
  n->out[0].type = n->out[1].type = *x;
  n->out[0].type.shape[x->rank - 1] = n->out[1].type.shape[x->rank - 1] = k;
  n->out[1].type.dtype = I32;
  return OK;
}

static size_t scratch_top_k(const Node *n) {
  return NN_SLOTS * row_bytes(&n->in[0]->type, n->in[0]->type.rank - 1);
}
static Status eval_top_k(const Call *c) {
  return order(c, c->in_type[0]->rank - 1, c->attr[0].i, true, c->out[0], c->out[1]);
}
static void grad_top_k(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = put_back(g, dy[0], (Value *)&n->out[1], &n->in[0]->type, n->in[0]->type.rank - 1);
}

#define ORDER_ATTRS                                    \
  .attrs = {                                           \
      {"axis", ATTR_INT, "-1", NULL, "to sort along"}, \
      {"direction", ATTR_STRING, "'ASCENDING'", "ASCENDING DESCENDING", "which end comes first"}}
const OpDef ops_sort[] = {
    {.name = "sort",
     .summary = "Elements in order along an axis; NaN counts as greatest.",
     .shapes = "any",
     .inputs = {"x"},
     ORDER_ATTRS,
     .infer = infer_order,
     .cost = cost_of_sort,
     .eval = eval_sort,
     .scratch = scratch_order,
     .grad = grad_sort,
     .sample =
         "D[7] | D[3,4] {axis = 0} | D[2,3,4] {axis = 1, direction = 'DESCENDING'} | F[0] | I9[40] | "
         "D[3,500]"},
    {.name = "argsort",
     .summary = "Positions, int32, that put an axis in order; equals keep theirs.",
     .shapes = "any",
     .inputs = {"x"},
     ORDER_ATTRS,
     .traits = NO_GRADIENT,
     .infer = infer_argsort,
     .cost = cost_of_sort,
     .eval = eval_argsort,
     .scratch = scratch_order,
     .sample = "D[7] | D[3,4] {axis = 0} | I3[2,30,2] {axis = 1, direction = 'DESCENDING'} | B[9]"},
    {.name = "top_k",
     .summary =
         "The k greatest elements of the last axis, and their positions (int32); of equals the first.",
     .shapes = "[..., n] → [..., k], [..., k]",
     .inputs = {"x"},
     .attrs = {{"k", ATTR_INT, "1", NULL, "how many, from 0 to the last extent"}},
     .outputs = 2,
     .infer = infer_top_k,
     .cost = cost_of_top_k,
     .eval = eval_top_k,
     .scratch = scratch_top_k,
     .grad = grad_top_k,
     .sample =
         "D[7] {k = 3} | D[2,5] {k = 2} | D[2,3] | D[11] {k = 11} | D[3,100] {k = 5} | I4[20] {k = 4} "
         "| F[0] {k = 0}"},
    {0}};
