/* One sweep in trace order, so that a product of products shrinks step by step. Constants that
 * it makes are put before all nodes. */
#include "transform/fast_math.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/control.h"
#include "ops/ops.h"

typedef struct FastMath {
  Graph *g;
  const OpDef *mul, *rsqrt; /* the ops of new nodes */
  int *readers;             /* by node */
} FastMath;

static Elementwise kernel_of(const Node *n) {
  Elementwise kernel = ELEMENTWISE_COUNT;
  double p[4] = {0};
  if (n->op->strip) n->op->strip(n, &kernel, p);
  return kernel;
}

static bool is_precise(const Value *v) { return v->type.dtype == F32 || v->type.dtype == F64; }

static const Tensor *constant_of(const Value *v) {
  const Tensor *t = node_is_constant(v->node) ? v->node->attr[0].tensor : NULL;
  return t && tensor_is_dense(t) && is_precise(v) ? t : NULL;
}

static bool is_normal(Dtype d, double x) {
  double size = fabs(x);
  return d == F32 ? size >= (double)FLT_MIN && size <= (double)FLT_MAX
                  : size >= DBL_MIN && size <= DBL_MAX;
}

/* The constant becomes an operand of n, with n's place. */
static Value *new_constant(FastMath *f, const Node *n, Tensor *t) {
  Scope outer = f->g->scope;
  f->g->scope = (Scope){n->place, n->source, n->name, n->attributes};
  Value *made = graph_constant(f->g, t);
  f->g->scope = outer;
  return made;
}

/* 1 / t; NULL where an element's would not be a normal number, or memory is out. */
static Tensor *reciprocals(const Tensor *t) {
  Error quiet = {.status = OK};
  Tensor *made = tensor_new(&quiet, &t->type);
  for (int64_t i = 0; made && i < type_count(&t->type); i++) {
    double x = tensor_get(t, i);
    if (!is_normal(t->type.dtype, x) || !is_normal(t->type.dtype, 1 / x)) {
      tensor_release(made);
      return NULL;
    }
    dtype_set(t->type.dtype, made->data, i, 1 / x);
  }
  return made;
}

static void divide_by_constant(FastMath *f, Node *n) {
  const Tensor *divisor = kernel_of(n) == EW_DIV ? constant_of(n->in[1]) : NULL;
  if (!divisor || constant_of(n->in[0])) return;
  Tensor *t = reciprocals(divisor);
  Value *factor = t ? new_constant(f, n, t) : NULL;
  tensor_release(t);
  if (!factor) return;
  n->op = f->mul;
  n->in[1] = factor;
}

/* The operand of a product that is a number, where the other one is none; -1. */
static int number_in(const Node *n) {
  if (kernel_of(n) != EW_MUL) return -1;
  for (int k = 0; k < 2; k++)
    if (constant_of(n->in[k]) && n->in[k]->type.rank == 0 && !constant_of(n->in[1 - k])) return k;
  return -1;
}

static void join_products(FastMath *f, Node *n) {
  int k = number_in(n);
  Node *inner = k >= 0 ? n->in[1 - k]->node : NULL;
  int j = inner ? number_in(inner) : -1;
  if (j < 0 || !node_same_place(n, inner)) return;
  Dtype d = n->in[k]->type.dtype;
  double product = tensor_get(constant_of(n->in[k]), 0) * tensor_get(constant_of(inner->in[j]), 0);
  Error quiet = {.status = OK};
  Tensor *t = is_normal(d, product) ? tensor_new(&quiet, &n->in[k]->type) : NULL;
  if (!t) return;
  dtype_set(d, t->data, 0, product);
  Value *factor = new_constant(f, n, t);
  tensor_release(t);
  if (!factor) return;
  f->readers[inner->in[1 - j]->node->id]++;
  f->readers[inner->id]--;
  n->in[k] = factor;
  n->in[1 - k] = inner->in[1 - j];
}

static void divide_by_root(FastMath *f, Node *n) {
  if (kernel_of(n) != EW_DIV || !is_precise(n->in[0])) return;
  Node *root = n->in[1]->node;
  if (kernel_of(root) != EW_SQRT || f->readers[root->id] != 1 || !node_same_place(n, root)) return;
  root->op = f->rsqrt;
  n->op = f->mul;
}

static void count_readers(FastMath *f) {
  const Graph *g = f->g;
  for (int i = 0; i < g->node_count; i++)
    for (int k = 0; k < g->node[i]->in_count; k++) f->readers[g->node[i]->in[k]->node->id]++;
  for (int i = 0; i < g->output_count; i++) f->readers[g->output[i]->node->id]++;
}

/* The nodes made by the sweep follow the first `count` nodes. */
static bool put_first(Graph *g, int count) {
  int made = g->node_count - count;
  Node **list = malloc((size_t)(made + 1) * sizeof *list);
  if (!list) return false;
  memcpy(list, g->node + count, (size_t)made * sizeof *list);
  memmove(g->node + made, g->node, (size_t)count * sizeof *list);
  memcpy(g->node, list, (size_t)made * sizeof *list);
  free(list);
  for (int i = 0; i < g->node_count; i++) g->node[i]->id = i;
  return true;
}

static Status rewrite_regions(Error *e, const Node *n) {
  Status s = OK;
  ControlRegions c = control_regions(n);
  for (int r = 0; r < c.count && s == OK; r++) s = graph_fast_math(e, c.region[r].graph);
  return s;
}

Status graph_fast_math(Error *e, Graph *g) {
  FastMath f = {.g = g, .mul = op_find("mul"), .rsqrt = op_find("rsqrt")};
  int count = g->node_count;
  Status s = OK;
  f.readers = calloc((size_t)g->next_id + 1, sizeof *f.readers);
  if (!f.readers) return fail(e, ERR_OUT_OF_MEMORY, "out of memory while rewriting a graph");
  count_readers(&f);
  for (int i = 0; i < count && s == OK; i++) {
    Node *n = g->node[i];
    s = rewrite_regions(e, n);
    divide_by_root(&f, n);
    divide_by_constant(&f, n);
    join_products(&f, n);
  }
  if (s == OK && !put_first(g, count))
    s = fail(e, ERR_OUT_OF_MEMORY, "out of memory while rewriting a graph");
  free(f.readers);
  return s == OK && g->error.status != OK ? fail(e, g->error.status, "%s", g->error.message) : s;
}
