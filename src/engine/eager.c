/* Eager execution: a node that is never put into a graph. */
#include "engine/eager.h"

#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/memory.h"
#include "base/subnormal.h"
#include "engine/engine.h"

enum { FEW_INPUTS = 16 };

typedef struct Operand {
  Value value;
  Value *pointer;
  Tensor *dense;
  const void *data;
  const Type *type;
} Operand;

/* Arrays of in_count: for a few inputs they lie in `few`. */
typedef struct Eager {
  Node node;
  Value out[MAX_OUTPUTS];
  Attr attr[MAX_ATTRS];
  Value *value, **in;
  Tensor **dense;
  const void **in_data;
  const Type **in_type;
  void *many;
  Operand few[FEW_INPUTS];
} Eager;

static bool make_room(Eager *x, int in_count) {
  size_t n = (size_t)in_count;
  x->many = in_count > FEW_INPUTS ? malloc(n * sizeof(Operand)) : NULL;
  if (in_count > FEW_INPUTS && !x->many) return false;
  char *at = x->many ? x->many : (char *)x->few;
  x->value = (Value *)(void *)at, at += n * sizeof *x->value;
  x->in = (Value **)(void *)at, at += n * sizeof *x->in;
  x->dense = (Tensor **)(void *)at, at += n * sizeof *x->dense;
  x->in_data = (const void **)(void *)at, at += n * sizeof *x->in_data;
  x->in_type = (const Type **)(void *)at;
  memset(x->dense, 0, n * sizeof *x->dense);
  return true;
}

static Status prepare(Eager *x, Arena **arena, const OpDef *op, Tensor *const *in, int in_count,
                      const Attr *attrs, const char *source, Error *e) {
  Node *n = &x->node;
  *n = (Node){.op = op,
              .in_count = in_count,
              .in = x->in,
              .out = x->out,
              .attr = x->attr,
              .place = PLACEMENT_NONE,
              .source = source};
  n->out_count = op->outputs < 0 ? 0 : op->outputs > 0 ? op->outputs : 1;
  int attr_count = op_attr_count(op);
  bool wants_arena = op->infer != NULL && (attr_count || op->outputs < 0);
  if (wants_arena && !(*arena = arena_new())) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  n->arena = *arena;
  for (int i = 0; i < attr_count; i++)
    if (attrs && attrs[i].kind != ATTR_NONE) x->attr[i] = attrs[i];
    else if (!attr_fallback(*arena, &op->attrs[i], &x->attr[i]))
      return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < in_count; i++) {
    x->value[i] = (Value){.type = in[i]->type, .node = n, .index = i};
    x->in[i] = &x->value[i];
  }
  for (int i = 0; i < MAX_OUTPUTS; i++) x->out[i] = (Value){.node = n, .index = i};
  return node_infer(e, n);
}

static Status evaluate(Engine *g, Eager *x, Tensor *const *in, Tensor **out, void **out_data,
                       const Type **out_type, Error *e) {
  Node *n = &x->node;
  Numerics numerics = g->numerics;
  if (g->eager_rounding >= 0) numerics.stochastic_rounding = g->eager_rounding;
  n->place.half_products = g->eager_products;
  n->place.half_convolutions = g->eager_convolutions;
  for (int i = 0; i < n->in_count; i++) {
    x->dense[i] = tensor_dense(e, in[i]);
    if (!x->dense[i]) return e->status;
    x->in_data[i] = x->dense[i]->data;
    x->in_type[i] = &in[i]->type;
  }
  for (int i = 0; i < n->out_count; i++) {
    Error inner = {.status = OK};
    out[i] = tensor_new_uninitialised(&inner, &n->out[i].type);
    if (!out[i]) return fail(e, inner.status, "%s: %s", n->op->name, inner.message);
    out_data[i] = out[i]->data;
    out_type[i] = &n->out[i].type;
  }
  Call c = {.in = x->in_data, .out = out_data, .in_type = x->in_type, .out_type = out_type};
  c.node = n, c.attr = n->attr, c.in_count = n->in_count, c.out_count = n->out_count;
  c.kernels = g->kernels, c.pool = engine_pool(g), c.numerics = &numerics, c.error = e,
  c.source = n->source;
  if (numerics.stochastic_rounding)
    c.rng = (RngKey){.seed = rng_part(g->rounding_seed, ++g->eager_roundings)};
  size_t scratch = n->op->scratch ? n->op->scratch(n) : 0;
  if (scratch && (!memory_has_room(scratch) || posix_memalign(&c.scratch, 64, scratch)))
    return fail(e, ERR_OUT_OF_MEMORY, "%s: out of memory", n->op->name);
  interrupt_begin_cancellable();
  uint64_t subnormal = subnormal_flush();
  Status s = op_eval(n->op, &c);
  subnormal_restore(subnormal);
  if (interrupt_end_cancellable()) {
    interrupt_take();
    s = fail(e, ERR_CANCELLED, "interrupted!");
  }
  if (scratch) free(c.scratch);
  return s;
}

Status eager_apply(Engine *g, const OpDef *op, Tensor *const *in, int in_count, const Attr *attrs,
                   const char *source, Tensor ***out, int *out_count, Error *e) {
  Eager x;
  Arena *arena = NULL;
  *out_count = 0;
  *out = NULL;
  if (!make_room(&x, in_count)) return fail(e, ERR_OUT_OF_MEMORY, "%s: out of memory", op->name);
  Status s = prepare(&x, &arena, op, in, in_count, attrs, source, e);
  *out_count = s == OK ? x.node.out_count : 0;
  *out = NULL;
  size_t count = (size_t)*out_count;
  if (s == OK) *out = calloc(3 * count + 1, sizeof **out); /* results, their data, their types */
  if (s == OK && !*out) s = fail(e, ERR_OUT_OF_MEMORY, "%s: out of memory", op->name);
  if (s == OK)
    s = evaluate(g, &x, in, *out, (void **)(*out + count), (const Type **)(*out + 2 * count), e);
  for (int i = 0; i < in_count; i++) tensor_release(x.dense[i]);
  free(x.many);
  arena_free(arena);
  if (s == OK) return OK;
  for (size_t i = 0; *out && i < count; i++) tensor_release((*out)[i]);
  free(*out);
  *out = NULL;
  *out_count = 0;
  return s;
}
