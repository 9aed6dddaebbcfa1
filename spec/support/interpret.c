#include "interpret.h"

#include <stdlib.h>

#include "base/subnormal.h"
#include "graph/control.h"
#include "kernels/products.h"
#include "ops/ops.h"

enum { GUARD = 64, GUARD_BYTE = 0xA5 };

/* Scratch with a guard after it, which finds a row that asks for too little. */
typedef struct Scratch {
  unsigned char *data;
  size_t bytes;
} Scratch;

static Status scratch_new(Error *e, const Node *n, Scratch *s) {
  s->bytes = n->op->scratch ? n->op->scratch(n) : 0;
  size_t padded = (s->bytes + GUARD + 63) / 64 * 64;
  s->data = aligned_alloc(64, padded);
  if (!s->data)
    return fail(e, ERR_OUT_OF_MEMORY, "%s: no memory for %zu bytes of scratch", n->op->name,
                s->bytes);
  memset(s->data + s->bytes, GUARD_BYTE, GUARD);
  if (s->bytes < 1u << 24) memset(s->data, GUARD_BYTE, s->bytes); /* nothing may rely on zeros */
  return OK;
}

static Status scratch_free(Error *e, const Node *n, Scratch *s) {
  Status status = OK;
  for (int i = 0; i < GUARD && status == OK; i++)
    if (s->data[s->bytes + (size_t)i] != GUARD_BYTE)
      status =
          fail(e, ERR_INTERNAL, "%s: wrote beyond its %zu bytes of scratch", n->op->name, s->bytes);
  free(s->data);
  return status;
}

const Kernels *interpret_kernels(Error *e) {
  const char *at_most = getenv(KERNELS_VARIABLE), *products = getenv(PRODUCTS_VARIABLE);
  const Kernels *k = kernels_at_most(at_most);
  ProductUse use;
  if (!k) return fail(e, ERR_VALUE, KERNELS_WORDS, at_most), NULL;
  if (!products_use(products, &use)) return fail(e, ERR_VALUE, PRODUCTS_WORDS, products), NULL;
  return kernels_with_products(k, use);
}

static Status run_node(Error *e, const Node *n, Tensor *const *in, Tensor **out,
                       const Interpretation *how, void *scratch) {
  static const Interpretation plain = {0};
  if (!how) how = &plain;
  const Kernels *kernels = how->kernels ? how->kernels : interpret_kernels(e);
  if (!kernels) return e->status;
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
              .kernels = kernels,
              .pool = how->pool,
              .numerics = how->numerics,
              .scratch = scratch,
              .rng = how->rng,
              .error = e,
              .source = n->source};
    uint64_t before = subnormal_flush();
    s = op_eval(n->op, &c);
    subnormal_restore(before);
  }
  free(in_data);
  free(types);
  return s;
}

Status interpret_node(Error *e, const Node *n, Tensor *const *in, Tensor **out,
                      const Interpretation *how, int in_place) {
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

/* Tensors of a graph's values. Node i's begin at value[first[i]]. */
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

/* ---- nodes with regions ---- */

static void release_all(Tensor **t, int count) {
  for (int i = 0; i < count; i++) tensor_release(t[i]), t[i] = NULL;
}

static Tensor *int32_tensor(Error *e, int32_t value) {
  Tensor *t = tensor_new(e, &(Type){.dtype = I32});
  if (t) memcpy(t->data, &value, sizeof value);
  return t;
}

/* One iteration: state [in_count - 1] are the node's operands after the count, replaced by the
 * body's results. */
static Status iterate(Error *e, const Node *n, Tensor **state, Tensor **given, Tensor **made,
                      const Interpretation *how, int32_t i) {
  const Graph *body = control_body(n);
  int count = n->in_count - 1, lead = n->op == &control_repeat, carried = control_explicit(n);
  if (lead && !(given[0] = int32_tensor(e, i))) return e->status;
  memcpy(given + lead, state, (size_t)count * sizeof *given);
  Status s = interpret(e, body, given, made, how);
  if (lead) tensor_release(given[0]);
  for (int k = 0; k < body->output_count && s == OK; k++) {
    int at = k < carried ? k : carried + control_written(n, k - carried);
    tensor_release(state[at]);
    state[at] = made[k];
  }
  return s;
}

static Status holds(Error *e, const Node *n, Tensor **state, const Interpretation *how,
                    bool *go_on) {
  Tensor *test = NULL;
  Status s = interpret(e, control_other(n), state, &test, how);
  *go_on = s == OK && *(const uint8_t *)test->data;
  tensor_release(test);
  return s;
}

static Status run_loop(Error *e, const Node *n, Tensor *const *in, Tensor **out,
                       const Interpretation *how) {
  int count = n->in_count - 1, carried = control_explicit(n);
  Tensor **state = calloc((size_t)(3 * n->in_count + n->out_count) + 3, sizeof *state);
  if (!state) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  Tensor **given = state + count, **made = given + count + 1;
  for (int i = 0; i < count; i++) state[i] = tensor_retain(in[1 + i]);
  int32_t limit;
  memcpy(&limit, in[0]->data, sizeof limit);
  bool repeat = n->op == &control_repeat, go_on = true;
  Status s = OK;
  for (int32_t i = 0; s == OK && (i < limit || (!repeat && limit < 0)); i++) {
    if (!repeat) s = holds(e, n, state, how, &go_on);
    if (s != OK || !go_on) break;
    s = iterate(e, n, state, given, made, how, i);
  }
  for (int k = 0; k < n->out_count && s == OK; k++)
    out[k] = tensor_retain(state[k < carried ? k : carried + control_written(n, k - carried)]);
  release_all(state, count);
  free(state);
  return s;
}

static Status run_control(Error *e, const Node *n, Tensor *const *in, Tensor **out,
                          const Interpretation *how) {
  if (n->op == &control_repeat || n->op == &control_while) return run_loop(e, n, in, out, how);
  if (n->op != &control_cond) return interpret(e, control_body(n), in, out, how);
  return interpret(e, *(const uint8_t *)in[0]->data ? control_body(n) : control_other(n), in + 1,
                   out, how);
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
  Tensor **out = n->out_count ? value_of(v, &n->out[0]) : NULL;
  Status s = n->op->traits & CONTROL ? run_control(e, n, in, out, how)
                                     : interpret_node(e, n, in, out, how, -1);
  free(in);
  return s;
}

Status interpret(Error *e, const Graph *g, Tensor *const *inputs, Tensor **outputs,
                 const Interpretation *how) {
  if (g->error.status != OK)
    return fail_at(e, g->error.source, g->error.status, "%s", g->error.message);
  Values v = {0};
  Status s = values_new(&v, g) ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < g->input_count && s == OK; i++)
    *value_of(&v, g->input[i]) = tensor_retain(inputs[i]);
  for (int i = 0; i < g->node_count && s == OK; i++) s = step(e, &v, g->node[i], how);
  for (int i = 0; i < g->output_count && s == OK; i++)
    outputs[i] = tensor_retain(*value_of(&v, g->output[i]));
  values_free(&v);
  return s;
}
