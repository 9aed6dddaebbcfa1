/* Rolls elements along axes, and wraps them around. */
#include "ops/support.h"

enum { SHIFT, AXIS };

static Status infer_roll(Error *e, Node *n) {
  const Attr *shift = &n->attr[SHIFT], *axis = &n->attr[AXIS];
  int rank = n->in[0]->type.rank;
  int64_t along[2 * MAX_RANK];
  if (shift->ints.n != axis->ints.n)
    return fail(e, ERR_VALUE, "shift and axis must have the same length, got %d and %d",
                shift->ints.n, axis->ints.n);
  if (axis->ints.n > 2 * MAX_RANK)
    return fail(e, ERR_VALUE, "axis must list at most %d axes, got %d", 2 * MAX_RANK, axis->ints.n);
  for (int i = 0; i < axis->ints.n; i++) {
    along[i] = axis->ints.v[i];
    if (along[i] < -rank || along[i] >= rank)
      return fail(e, ERR_VALUE, "axis %lld is outside of %d dimensions", (long long)along[i], rank);
    if (along[i] < 0) along[i] += rank;
  }
  Status s = set_ints(e, n, AXIS, along, axis->ints.n);
  return s == OK ? infer_same(e, n) : s;
}

/* How far each axis is rolled, from 0 to below its extent: shifts of one axis add up. */
static void read_shifts(const Node *n, int64_t total[MAX_RANK]) {
  const Type *x = &n->in[0]->type;
  for (int i = 0; i < x->rank; i++) total[i] = 0;
  for (int i = 0; i < n->attr[AXIS].ints.n; i++) {
    int64_t axis = n->attr[AXIS].ints.v[i], extent = x->shape[axis];
    if (!extent) continue;
    int64_t shift = n->attr[SHIFT].ints.v[i] % extent;
    total[axis] = (total[axis] + shift + extent) % extent;
  }
}

/* Each axis is two pieces, which are swapped: of all axes 2^rank blocks. */
static Status eval_roll(const Call *c) {
  const Type *x = c->in_type[0];
  int64_t total[MAX_RANK], apart[MAX_RANK], step = 1;
  size_t size = dtype_size(x->dtype);
  if (!type_count(x)) return OK;
  read_shifts(c->node, total);
  for (int i = x->rank - 1; i >= 0; i--) apart[i] = step, step *= x->shape[i];
  for (unsigned block = 0; block < 1u << x->rank; block++) {
    Strided s = {0};
    int64_t from = 0, to = 0;
    bool empty = false;
    for (int i = 0; i < x->rank; i++) {
      bool wrapped = block >> i & 1; /* the piece that moves to the front */
      int64_t extent = wrapped ? total[i] : x->shape[i] - total[i];
      from += wrapped ? (x->shape[i] - total[i]) * apart[i] : 0;
      to += wrapped ? 0 : total[i] * apart[i];
      empty = empty || !extent;
      strided_add(&s, extent, apart[i], apart[i]);
    }
    if (!empty)
      copy_strided(c, size, &s, (const char *)c->in[0] + (size_t)from * size,
                   (char *)c->out[0] + (size_t)to * size);
  }
  return OK;
}

static void grad_roll(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  int64_t back[2 * MAX_RANK];
  const Attr *shift = &n->attr[SHIFT];
  for (int i = 0; i < shift->ints.n; i++) {
    int64_t extent = n->in[0]->type.shape[n->attr[AXIS].ints.v[i]];
    back[i] = extent ? -(shift->ints.v[i] % extent) : 0;
  }
  Attr attrs[] = {attr_ints(back, shift->ints.n), n->attr[AXIS]};
  dx[0] = op_with(g, "roll", &dy[0], 1, attrs);
}

const OpDef ops_roll[] = {
    {.name = "roll",
     .summary = "Elements moved along axes; elements moved past the end come in at the beginning.",
     .shapes = "[...] → [...]",
     .inputs = {"x"},
     .attrs = {{"shift", ATTR_INTS, NULL, NULL,
                "distance along each axis; distances along one axis add up"},
               {"axis", ATTR_INTS, NULL, NULL, "the axes"}},
     .infer = infer_roll,
     .cost = cost_of_copy,
     .eval = eval_roll,
     .grad = grad_roll,
     .sample = "F[5] {shift = 2, axis = 0} | F[2,3,4] {shift = {1, -2}, axis = {0, -1}} | "
               "I9[4,3] {shift = {1, 5}, axis = {1, 1}} | B[6] {shift = -1, axis = 0} | "
               "F[0,3] {shift = 1, axis = 0} | F[3] {shift = {}, axis = {}}"},
    {0}};
