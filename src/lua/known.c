#include "lua/known.h"

#include <stdlib.h>

#include "lua/tape.h"
#include "ops/ops.h"
#include "transform/clone.h"

static TraceRef *root_of(TraceRef *r) {
  while (r->parent) r = r->parent;
  return r;
}

void known_record(lua_State *L, const OpDef *op, Tensor *const *in, int count, const Attr *attrs,
                  int first, int out_count) {
  TraceRef *root = root_of(bind_state(L)->trace);
  Tensor *out[MAX_OUTPUTS];
  bool has_gradient = (op->grad || op->compose) && !(op->traits & NO_GRADIENT), any = false;
  if (!has_gradient || root->trace->deferred || out_count > MAX_OUTPUTS) return;
  for (int i = 0; i < count; i++) any = any || dtype_is_float(in[i]->type.dtype);
  if (!any) return;
  for (int i = 0; i < out_count; i++) out[i] = bind_test_tensor(L, first + i)->tensor;
  if (!root->known) root->known = calloc(1, sizeof *root->known);
  if (!root->known) bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory while tracing");
  root->known->state = bind_state(L);
  tape_record_on(L, root->known, op, in, count, attrs, out, out_count);
}

static Value *value_of(Trace *t, const Tape *past, Tensor *tensor);

/* The nodes of the past once more in t, the tensor's last. */
static Value *computed(Trace *t, const Tape *past, const Value *v) {
  const Node *n = v->node;
  Value **in = arena_alloc(t->graph->arena, (size_t)(n->in_count + 1) * sizeof *in);
  if (!in) {
    fail(&t->graph->error, ERR_OUT_OF_MEMORY, "out of memory while tracing");
    return NULL;
  }
  for (int i = 0; i < n->in_count; i++) in[i] = value_of(t, past, tape_noted(past, n->in[i]));
  Node *made = clone_node(t->graph, n, in);
  return made ? &made->out[v->index] : NULL;
}

static Value *value_of(Trace *t, const Tape *past, Tensor *tensor) {
  if (tensor_map_find(&t->constant, tensor)) return trace_constant(t, tensor);
  const TensorSlot *s = past ? tensor_map_find(&past->known, tensor) : NULL;
  if (!s || node_is_input(s->value->node)) return trace_constant(t, tensor);
  Value *x = computed(t, past, s->value), *value = x ? graph_constant(t->graph, tensor) : NULL;
  Value *known = value ? op2(t->graph, "known", x, value) : NULL;
  if (known && !tensor_map_put(&t->constant, tensor, known, NULL))
    fail(&t->graph->error, ERR_OUT_OF_MEMORY, "out of memory while tracing");
  return known;
}

Value *known_value(TraceRef *ref, Tensor *tensor) {
  Trace *t = ref->trace;
  Scope scope = t->graph->scope;
  Value *v = value_of(t, root_of(ref)->known, tensor);
  t->graph->scope = scope;
  return v;
}

void known_clear(TraceRef *ref) {
  if (!ref->known) return;
  tape_clear(ref->known);
  free(ref->known);
  ref->known = NULL;
}
