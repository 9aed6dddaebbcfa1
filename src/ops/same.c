/* Functions for OpDef.simplify: values that a result is equal to. */
#include "ops/same.h"

#include <math.h>
#include <string.h>

enum { NUMBERS_LOOKED_AT = 1024 };

/* The node that made the first operand, if it is where n is, so that n may read that node's
 * operands instead; NULL: elsewhere. */
static Node *operand_maker(const Node *n) {
  Node *from = n->in[0]->node;
  const Placement *p = &n->place, *q = &from->place;
  bool near = p->device == q->device && p->shard == q->shard && p->stage == q->stage &&
              (p->backward == q->backward || p->stage < 0);
  return near ? from : NULL;
}

static bool is_laid_out(const Node *n, Layout layout) { return n && n->op->layout == layout; }

/* Are all elements of v that number? False where it isn't known. */
static bool value_is_number(const Value *v, double number) {
  while (v->node->in_count == 1 &&
         ((v->node->op->traits & VIEW) || is_laid_out(v->node, LAYOUT_SPREAD)))
    v = v->node->in[0];
  if (v->node->op->fill == FILL_ONES) return number == 1;
  if (v->node->op->fill == FILL_ZEROS)
    return number == 0 && (!signbit(number) || dtype_is_integer(v->type.dtype));
  if (!node_is_constant(v->node)) return false;
  const Tensor *t = v->node->attr[0].tensor;
  size_t size = dtype_size(t->type.dtype);
  int64_t count = type_count(&t->type);
  uint64_t element = 0;
  dtype_set(t->type.dtype, &element, 0, number);
  bool same = count > 0 && count <= NUMBERS_LOOKED_AT && tensor_is_dense(t);
  for (int64_t i = 0; i < count && same; i++)
    same = !memcmp(t->data + (size_t)i * size, &element, size);
  return same;
}

Value *simplify_whole(Node *n) {
  return n->in_count > 0 && type_equal(&n->in[0]->type, &n->out[0].type) ? n->in[0] : NULL;
}

static bool is_plain_view(const Node *n) { return n && n->op->simplify && (n->op->traits & VIEW); }

static Value *same_view(const Node *n) {
  for (const Node *at = n; is_plain_view(at); at = operand_maker(at))
    if (type_equal(&at->in[0]->type, &n->out[0].type)) return at->in[0];
  return NULL;
}

/* A view of a number that was spread is that number spread to the view's shape: chains read it
 * where it was. */
static void spread_at_once(Node *n) {
  Node *from = operand_maker(n);
  const Type *to = &n->out[0].type;
  if (!is_laid_out(from, LAYOUT_SPREAD) || type_count(&from->in[0]->type) != 1 ||
      from->in[0]->type.rank > to->rank)
    return;
  Attr *shape = arena_alloc(n->arena, sizeof *shape);
  int64_t *extents = arena_copy(n->arena, to->shape, (size_t)to->rank * sizeof *extents);
  if (!shape || !extents) return;
  *shape = attr_ints(extents, to->rank);
  n->op = from->op;
  n->attr = shape;
  n->in[0] = from->in[0];
}

Value *simplify_view(Node *n) {
  Value *same = same_view(n);
  if (!same) spread_at_once(n);
  return same;
}

Value *simplify_reshape(Node *n) {
  Value *same = same_view(n);
  if (same) return same;
  for (Node *from; is_plain_view(from = operand_maker(n));) n->in[0] = from->in[0];
  spread_at_once(n);
  return NULL;
}

Value *simplify_broadcast(Node *n) {
  for (Node *from; is_laid_out(from = operand_maker(n), LAYOUT_SPREAD);) n->in[0] = from->in[0];
  return simplify_whole(n);
}

/* y[i] is t[p[i]], and t[i] is x[q[i]], of axes: y[i] is x[q[p[i]]]. */
Value *simplify_transpose(Node *n) {
  int rank = n->in[0]->type.rank;
  Node *from = operand_maker(n);
  if (is_laid_out(from, LAYOUT_ORDER)) {
    int64_t *both = arena_alloc(n->arena, (size_t)(rank + 1) * sizeof *both);
    if (!both) return NULL;
    for (int i = 0; i < rank; i++) both[i] = from->attr[0].ints.v[n->attr[0].ints.v[i]];
    n->attr[0] = attr_ints(both, rank);
    n->in[0] = from->in[0];
  }
  for (int i = 0; i < rank; i++)
    if (n->attr[0].ints.v[i] != i) return NULL;
  return n->in[0];
}

/* Arithmetic turns numbers below the normal range into 0 (base/subnormal.h), moves don't. So
 * arithmetic may be left out only if its operand comes from arithmetic. */
static bool is_flushed(const Value *v) {
  const Node *n = v->node;
  if (dtype_is_integer(v->type.dtype) || is_laid_out(n, LAYOUT_PRODUCT)) return true;
  if (node_is_constant(n) || !n->op->strip) return false;
  Elementwise kernel;
  double p[4] = {0};
  n->op->strip(n, &kernel, p);
  return kernel == EW_ADD || kernel == EW_SUB || kernel == EW_MUL || kernel == EW_DIV ||
         kernel == EW_EXP;
}

/* Does each value of dtype d come back from there as it was? */
static bool holds(Dtype through, Dtype d) {
  return d == BOOL || (d == F32 && through == F64) ||
         (d == I32 && (through == I64 || through == F64));
}

Value *simplify_cast(Node *n) {
  const Node *from = operand_maker(n);
  if (from && from->op->simplify == simplify_cast &&
      type_equal(&from->in[0]->type, &n->out[0].type) &&
      holds(n->in[0]->type.dtype, n->out[0].type.dtype) && is_flushed(from->in[0]))
    return from->in[0];
  return simplify_whole(n);
}

/* x + 0 is left out: it makes 0 of -0. float16 and bfloat16 are rounded from float32, where a
 * NaN may lose its bits. */
Value *simplify_binary(Node *n) {
  Elementwise kernel;
  double p[4] = {0};
  Dtype d = n->out[0].type.dtype;
  n->op->strip(n, &kernel, p);
  bool either = kernel == EW_ADD || kernel == EW_MUL;
  if ((!either && kernel != EW_SUB && kernel != EW_DIV) ||
      (d != F32 && d != F64 && !dtype_is_integer(d)))
    return NULL;
  double neutral = kernel == EW_ADD ? -0.0 : kernel == EW_SUB ? 0.0 : 1.0;
  for (int k = 0; k < 1 + either; k++)
    if (type_equal(&n->in[k]->type, &n->out[0].type) && value_is_number(n->in[1 - k], neutral) &&
        is_flushed(n->in[k]))
      return n->in[k];
  return NULL;
}
