#include "interpret.h"

#include <stdlib.h>

#include "ops/ops.h"

enum { GUARD = 64, GUARD_BYTE = 0xA5 };

/* Scratch with a guard behind it, so that a row which asks for too little is found out. */
typedef struct Scratch {
  unsigned char *data;
  size_t bytes;
} Scratch;

static Status scratch_new(Error *e, const Node *n, Scratch *s) {
  s->bytes = n->op->scratch ? n->op->scratch(n) : 0;
  size_t padded = (s->bytes + GUARD + 63) / 64 * 64;
  s->data = aligned_alloc(64, padded);
  if (!s->data)
    return fail(e, ERR_OUT_OF_MEMORY, "%s: no memory for %zu bytes of scratch", n->op->name, s->bytes);
  memset(s->data + s->bytes, GUARD_BYTE, GUARD);
  if (s->bytes < 1u << 24) memset(s->data, GUARD_BYTE, s->bytes); /* nothing may rely on zeros */
  return OK;
}

static Status scratch_free(Error *e, const Node *n, Scratch *s) {
  Status status = OK;
  for (int i = 0; i < GUARD && status == OK; i++)
    if (s->data[s->bytes + (size_t)i] != GUARD_BYTE)
      status = fail(e, ERR_INTERNAL, "%s: wrote beyond its %zu bytes of scratch", n->op->name, s->bytes);
  free(s->data);
  return status;
}

static Status run_node(Error *e, const Node *n, Tensor *const *in, Tensor **out, const Interpretation *how,
                       void *scratch) {
  static const Interpretation plain = {0};
  if (!how) how = &plain;
  int ins = n->in_count, outs = n->out_count;
  const void **in_data = calloc((size_t)(ins + outs + 1), sizeof *in_data);
  const Type **types = calloc((size_t)(ins + outs + 1), sizeof *types);
  Status s = in_data && types ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  if (s == OK) {
    void **out_data = (void **)(in_data + ins);
    for (int i = 0; i < ins; i++) in_data[i] = in[i]->data, types[i] = &n->in[i]->type;
    for (int i = 0; i < outs; i++) out_data[i] = out[i]->data, types[ins + i] = &n->out[i].type;
    Call c = {.in = in_data,
              .out = out_data,
              .in_type = types,
              .out_type = types + ins,
              .node = n,
              .attr = n->attr,
              .in_count = ins,
              .out_count = outs,
              .kernels = how->kernels ? how->kernels : kernels_select(),
              .pool = how->pool,
              .numerics = how->numerics,
              .scratch = scratch,
              .rng = how->rng,
              .error = e,
              .source = n->source};
    s = op_eval(n->op, &c);
  }
  free(in_data);
  free(types);
  return s;
}

Status interpret_node(Error *e, const Node *n, Tensor *const *in, Tensor **out, const Interpretation *how,
                      int in_place) {
  Status s = OK;
  for (int i = 0; i < n->out_count; i++) out[i] = NULL;
  for (int i = 0; i < n->out_count && s == OK; i++) {
    out[i] = i == 0 && in_place >= 0 ? tensor_retain(in[in_place]) : tensor_new(e, &n->out[i].type);
    if (!out[i]) s = e->status;
  }
  Scratch scratch = {0};
  if (s == OK) s = scratch_new(e, n, &scratch);
  if (scratch.data) {
    s = run_node(e, n, in, out, how, scratch.data);
    Status guard = scratch_free(e, n, &scratch);
    if (s == OK) s = guard;
  }
  for (int i = 0; s != OK && i < n->out_count; i++) tensor_release(out[i]), out[i] = NULL;
  return s;
}

/* Tensors of a graph's values: those of node id i begin at value[first[i]]. */
typedef struct Values {
  Tensor **value;
  int *first;
  int count;
} Values;

static bool values_new(Values *v, const Graph *g) {
  v->first = calloc((size_t)g->next_id + 1, sizeof *v->first);
  for (int i = 0; i < g->node_count && v->first; i++)
    v->first[g->node[i]->id] = v->count, v->count += g->node[i]->out_count;
  v->value = calloc((size_t)v->count + 1, sizeof *v->value);
  return v->first && v->value;
}

static void values_free(Values *v) {
  for (int i = 0; i < v->count && v->value; i++) tensor_release(v->value[i]);
  free(v->value);
  free(v->first);
}

static Tensor **value_of(const Values *v, const Value *x) {
  return &v->value[v->first[x->node->id] + x->index];
}

static Status step(Error *e, const Values *v, const Node *n, const Interpretation *how) {
  if (node_is_input(n)) return OK;
  if (node_is_constant(n)) {
    *value_of(v, &n->out[0]) = tensor_retain(n->attr[0].tensor);
    return OK;
  }
  Tensor **in = calloc((size_t)n->in_count + 1, sizeof *in);
  if (!in) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < n->in_count; i++) in[i] = *value_of(v, n->in[i]);
  Status s = interpret_node(e, n, in, value_of(v, &n->out[0]), how, -1);
  free(in);
  return s;
}

Status interpret(Error *e, const Graph *g, Tensor *const *inputs, Tensor **outputs,
                 const Interpretation *how) {
  if (g->error.status != OK) return fail_at(e, g->error.source, g->error.status, "%s", g->error.message);
  Values v = {0};
  Status s = values_new(&v, g) ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < g->input_count && s == OK; i++) *value_of(&v, g->input[i]) = tensor_retain(inputs[i]);
  for (int i = 0; i < g->node_count && s == OK; i++) s = step(e, &v, g->node[i], how);
  for (int i = 0; i < g->output_count && s == OK; i++)
    outputs[i] = tensor_retain(*value_of(&v, g->output[i]));
  values_free(&v);
  return s;
}
