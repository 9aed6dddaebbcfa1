/* Random graphs of mixed ops, with variables, loops, branches and gradients, and with duplicates
 * and detours that the compiler may leave out. The compiled program equals the naive evaluator, bit
 * for bit, on one thread and on two. Arguments: how many graphs, the first seed. A failure names
 * its seed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/run.h"
#include "graph/control.h"
#include "interpret.h"
#include "ops/ops.h"
#include "program/verify.h"
#include "transform/autodiff.h"
#include "transform/clone.h"
#include "transform/verify.h"

enum {
  POOL = 64,
  MAX_ARGUMENTS = 6,
  MAX_VARIABLES = 3,
  MAX_RESULTS = 8,
  GRAPHS = 4000,
  MAX_ELEMENTS = 33 * 33 * 33
};

/* ---- numbers ---- */

typedef struct Dice {
  RngKey key;
  uint64_t thrown;
} Dice;

static int throw(Dice * d, int sides) {
  uint32_t word[4];
  rng_block(&d->key, d->thrown++, word);
  return (int)(word[0] % (uint32_t)sides);
}

/* ---- what a graph is built of ---- */

typedef struct Build {
  Dice *dice;
  Trace *trace; /* NULL: a region, whose values are all that there are */
  Graph *graph;
  Value *value[POOL]; /* float32 or float64 */
  int count, depth;
} Build;

static const int64_t extents[] = {1, 2, 3, 4, 5, 7, 8, 16, 33};

static void keep(Build *b, Value *v) {
  if (!v || !dtype_is_float(v->type.dtype) || type_count(&v->type) > MAX_ELEMENTS) return;
  if (b->count < POOL) b->value[b->count++] = v;
  else b->value[throw(b->dice, POOL)] = v;
}

/* Newer values more often. */
static Value *pick(Build *b) {
  int a = throw(b->dice, b->count), c = throw(b->dice, b->count);
  return b->value[a > c ? a : c];
}

static Value *pick_like(Build *b, const Value *v) {
  Value *same[POOL];
  int n = 0;
  for (int i = 0; i < b->count; i++)
    if (type_equal(&b->value[i]->type, &v->type)) same[n++] = b->value[i];
  return n ? same[throw(b->dice, n)] : NULL;
}

static Value *constant(Build *b, const Type *t, double scale) {
  Tensor *tensor = tensor_new(&b->graph->error, t);
  if (!tensor) return NULL;
  for (int64_t i = 0; i < type_count(t); i++)
    dtype_set(t->dtype, tensor->data, i, scale * (throw(b->dice, 2001) - 1000) / 1000);
  Value *v = graph_constant(b->graph, tensor);
  tensor_release(tensor);
  return v;
}

/* Something that broadcasts against v: its like, a number, a row, a column. */
static Value *partner(Build *b, Value *v) {
  Type t = v->type;
  Value *like = throw(b->dice, 2) ? pick_like(b, v) : NULL;
  if (like) return like;
  int kind = throw(b->dice, 4);
  if (kind == 0 || t.rank == 0)
    return graph_number(b->graph, t.dtype, (throw(b->dice, 21) - 10) / 4.0);
  if (kind == 1) return constant(b, &t, 1);
  if (kind == 2)
    return constant(b, &(Type){.dtype = t.dtype, .rank = 1, .shape = {t.shape[t.rank - 1]}}, 1);
  t.shape[t.rank - 1] = 1;
  return constant(b, &t, 1);
}

static const char *const unary[] = {
    "neg",  "abs",      "square",      "tanh",  "sigmoid",      "sin",
    "cos",  "nn.relu",  "nn.gelu",     "floor", "nn.softplus",  "nn.elu",
    "sign", "identity", "nn.softsign", "erf",   "stop_gradient"};
static const char *const binary[] = {"add",     "sub",     "mul",
                                     "maximum", "minimum", "squared_difference"};
static const char *const reductions[] = {"reduce_sum", "reduce_max", "reduce_mean", "reduce_min"};
#define ANY_OF(b, list) (list)[throw((b)->dice, (int)(sizeof(list) / sizeof *(list)))]

static void add_unary(Build *b) { keep(b, op1(b->graph, ANY_OF(b, unary), pick(b))); }

static void add_binary(Build *b) {
  Value *v = pick(b), *other = partner(b, v);
  bool turned = throw(b->dice, 2);
  keep(b, op2(b->graph, ANY_OF(b, binary), turned ? other : v, turned ? v : other));
}

static void add_select(Build *b) {
  Value *v = pick(b), *other = partner(b, v);
  keep(b, ops_where(b->graph, op2(b->graph, "less", v, other), v, op1(b->graph, "tanh", v)));
}

static void add_matmul(Build *b) {
  Value *v = pick(b);
  if (v->type.rank < 1) return;
  Type t = v->type;
  if (t.rank == 1) t.shape[1] = t.shape[0], t.shape[0] = 1, t.rank = 2;
  Type w = {.dtype = t.dtype, .rank = 2, .shape = {t.shape[t.rank - 1], ANY_OF(b, extents)}};
  bool turned = throw(b->dice, 2);
  if (turned) w.shape[1] = w.shape[0], w.shape[0] = ANY_OF(b, extents);
  Value *weights = NULL;
  for (int i = 0; i < b->count && !weights; i++)
    if (type_equal(&b->value[i]->type, &w)) weights = b->value[i];
  if (!weights) weights = constant(b, &w, 0.5);
  keep(b, ops_matmul(b->graph, ops_reshape(b->graph, v, &t), weights, false, turned));
}

static void add_reduction(Build *b) {
  Value *v = pick(b);
  if (!v->type.rank) return;
  int64_t axis = throw(b->dice, v->type.rank);
  Attr attrs[MAX_ATTRS] = {attr_ints(&axis, 1), attr_bool(throw(b->dice, 2))};
  keep(b, op_with(b->graph, ANY_OF(b, reductions), &v, 1, attrs));
}

static void add_softmax(Build *b) {
  Value *v = pick(b);
  if (v->type.rank) keep(b, op1(b->graph, throw(b->dice, 2) ? "nn.softmax" : "nn.log_softmax", v));
}

static void add_reshape(Build *b) {
  Value *v = pick(b);
  Type t = {.dtype = v->type.dtype, .rank = 2, .shape = {type_count(&v->type), 1}};
  for (int i = 8; i > 1; i--)
    if (throw(b->dice, 2) && t.shape[0] % i == 0) t.shape[0] /= i, t.shape[1] *= i;
  keep(b, ops_reshape(b->graph, v, &t));
}

static void add_transpose(Build *b) {
  Value *v = pick(b);
  int64_t perm[MAX_RANK];
  for (int i = 0; i < v->type.rank; i++) perm[i] = i;
  for (int i = v->type.rank - 1; i > 0; i--) {
    int k = throw(b->dice, i + 1);
    int64_t swap = perm[i];
    perm[i] = perm[k], perm[k] = swap;
  }
  keep(b, ops_transpose(b->graph, v, perm));
}

static void add_slice(Build *b) {
  Value *v = pick(b);
  int64_t begin[MAX_RANK], size[MAX_RANK];
  for (int i = 0; i < v->type.rank; i++) {
    begin[i] = throw(b->dice, (int)v->type.shape[i]);
    size[i] = 1 + throw(b->dice, (int)(v->type.shape[i] - begin[i]));
  }
  Attr attrs[MAX_ATTRS] = {attr_ints(begin, v->type.rank), attr_ints(size, v->type.rank)};
  keep(b, op_with(b->graph, "slice", &v, 1, attrs));
}

static void add_concat(Build *b) {
  Value *v = pick(b), *other = pick_like(b, v);
  if (!v->type.rank || !other) return;
  Attr attrs[MAX_ATTRS] = {attr_int(throw(b->dice, v->type.rank))};
  keep(b, op_with(b->graph, "concat", (Value *[]){v, other}, 2, attrs));
}

static void add_cumsum(Build *b) {
  Value *v = pick(b);
  if (v->type.rank) keep(b, op1(b->graph, "cumsum", v));
}

static void add_cast(Build *b) {
  Value *v = pick(b);
  static const Dtype through[] = {F64, F16, BF16, F32};
  keep(b, ops_cast(b->graph, ops_cast(b->graph, v, ANY_OF(b, through)), v->type.dtype));
}

static void add_row(Build *b) {
  Value *v = pick(b), *index = graph_number(b->graph, I32, 0);
  if (!v->type.rank) return;
  Value *row = op2(b->graph, "gather", v, index);
  keep(b, op3(b->graph, throw(b->dice, 2) ? "tape_set" : "tape_add", v, op1(b->graph, "tanh", row),
              index));
}

/* ---- what the compiler may leave out, and what looks like it ---- */

/* The same once more. */
static void add_duplicate(Build *b) {
  Value *v = pick(b);
  const Node *n = v->node;
  if (node_is_input(n) || (n->op->traits & CONTROL)) return;
  if (node_is_constant(n)) {
    keep(b, graph_constant(b->graph, n->attr[0].tensor));
    return;
  }
  Node *again = clone_node(b->graph, n, n->in);
  if (again) keep(b, &again->out[v->index]);
}

static Value *random_number(Build *b, const Value *like) {
  static const double numbers[] = {0.0, -0.0, 1, -1};
  Value *v = graph_number(b->graph, like->type.dtype, ANY_OF(b, numbers));
  int kind = throw(b->dice, 4);
  if (kind == 0) return ops_broadcast(b->graph, v, &like->type);
  if (kind == 1)
    return op1(b->graph, throw(b->dice, 2) ? "ones_like" : "zeros_like", (Value *)(uintptr_t)like);
  return v;
}

static void add_neutral(Build *b) {
  static const char *const names[] = {"add", "sub", "mul"};
  Value *v = pick(b), *number = random_number(b, v);
  bool turned = throw(b->dice, 3) == 0;
  if (!throw(b->dice, 5))
    keep(b,
         ops_div(b->graph, v, graph_number(b->graph, v->type.dtype, throw(b->dice, 2) ? 1 : -1)));
  else keep(b, op2(b->graph, ANY_OF(b, names), turned ? number : v, turned ? v : number));
  keep(b, number);
}

static Value *cut_whole(Build *b, Value *v) {
  static const int64_t nothing[2 * MAX_RANK];
  Attr whole[MAX_ATTRS] = {attr_ints(nothing, v->type.rank),
                           attr_ints(v->type.shape, v->type.rank)};
  Attr frame[MAX_ATTRS] = {attr_ints(nothing, 2 * v->type.rank)};
  return throw(b->dice, 2) ? op_with(b->graph, "slice", &v, 1, whole)
                           : op_with(b->graph, "pad", &v, 1, frame);
}

static Value *reshaped_away(Build *b, Value *v) {
  Type flat = {.dtype = v->type.dtype, .rank = 1, .shape = {type_count(&v->type)}};
  Attr front[MAX_ATTRS] = {attr_int(0)};
  return throw(b->dice, 2) ? ops_reshape(b->graph, v, &flat)
                           : op_with(b->graph, "expand_dims", &v, 1, front);
}

static void add_detour(Build *b) {
  Value *v = pick(b), *away = NULL;
  if (v->type.rank > 3) return;
  switch (throw(b->dice, 4)) {
    case 0:
      keep(b, cut_whole(b, v));
      return;
    case 1:
      keep(b, op1(b->graph, "stop_gradient", v));
      return;
    case 2:
      keep(b,
           ops_cast(b->graph, ops_cast(b->graph, v, throw(b->dice, 2) ? F64 : F32), v->type.dtype));
      return;
    default:
      away = reshaped_away(b, v);
  }
  if (!away) return;
  keep(b, away);
  keep(b, ops_reshape(b->graph, throw(b->dice, 2) ? away : reshaped_away(b, away), &v->type));
}

static void add_transposes(Build *b) {
  int count = b->count;
  add_transpose(b);
  if (b->count == count) return;
  Value *v = b->value[count];
  int64_t perm[MAX_RANK], back[MAX_RANK];
  if (strcmp(v->node->op->name, "transpose")) return;
  for (int i = 0; i < v->type.rank; i++) perm[i] = v->node->attr[0].ints.v[i], back[perm[i]] = i;
  keep(b, ops_transpose(b->graph, v, throw(b->dice, 2) ? back : perm));
}

static void add_constants(Build *b) {
  Type t = {.dtype = throw(b->dice, 3) ? F32 : F64,
            .rank = throw(b->dice, 3),
            .shape = {ANY_OF(b, extents), ANY_OF(b, extents)}};
  Value *a = constant(b, &t, 1), *c = partner(b, a);
  keep(b, op1(b->graph, ANY_OF(b, unary), op2(b->graph, ANY_OF(b, binary), a, c)));
  keep(b, op1(b->graph, "reduce_sum", a));
}

/* ---- regions ---- */

static void add_something(Build *b);

/* A region over some values: its inputs are their likes. With index an int32 comes first. */
static Build inner_build(Build *outer, Value *const *in, int count, bool index) {
  Build b = {.dice = outer->dice, .graph = graph_new(), .depth = outer->depth + 1};
  if (index) graph_input(b.graph, &(Type){.dtype = I32}, NULL);
  for (int i = 0; i < count; i++) {
    Value *v = graph_input(b.graph, &in[i]->type, NULL);
    keep(&b, v);
  }
  for (int i = 2 + throw(b.dice, 5); i > 0; i--) add_something(&b);
  return b;
}

/* A value like t that the region has, or one made of it. */
static Value *result_like(Build *b, const Type *t) {
  for (int i = b->count - 1; i >= 0; i--)
    if (type_equal(&b->value[i]->type, t))
      return throw(b->dice, 4) ? op1(b->graph, "tanh", b->value[i]) : b->value[i];
  return NULL;
}

enum { CARRIED = 2, EXTRAS = 2 };

static void add_repeat(Build *b) {
  Value *in[1 + CARRIED + EXTRAS] = {graph_number(b->graph, I32, throw(b->dice, 4))};
  int carried = 1 + throw(b->dice, CARRIED), extras = throw(b->dice, EXTRAS + 1);
  for (int i = 0; i < carried + extras; i++) in[1 + i] = pick(b);
  Build body = inner_build(b, in + 1, carried + extras, true);
  for (int i = 0; i < carried; i++) graph_output(body.graph, result_like(&body, &in[1 + i]->type));
  Node *n = control_node(b->graph, &control_repeat, in, 1 + carried + extras,
                         &(ControlParts){.body = body.graph, .explicit_count = carried});
  for (int i = 0; n && i < carried; i++) keep(b, &n->out[i]);
}

/* While the mean of the first carried value is below a bound, at most so often. */
static void add_while(Build *b) {
  Value *in[1 + CARRIED] = {graph_number(b->graph, I32, throw(b->dice, 5))};
  int carried = 1 + throw(b->dice, CARRIED);
  for (int i = 0; i < carried; i++) in[1 + i] = pick(b);
  Graph *cond = graph_new();
  Value *first = NULL;
  for (int i = 0; i < carried; i++) {
    Value *v = graph_input(cond, &in[1 + i]->type, NULL);
    if (!first) first = v;
  }
  Value *mean = op1(cond, "reduce_mean", first);
  graph_output(cond, op2(cond, "less", mean, graph_number(cond, first->type.dtype, 0.5)));
  Build body = inner_build(b, in + 1, carried, false);
  for (int i = 0; i < carried; i++) graph_output(body.graph, result_like(&body, &in[1 + i]->type));
  Node *n =
      control_node(b->graph, &control_while, in, 1 + carried,
                   &(ControlParts){.body = body.graph, .other = cond, .explicit_count = carried});
  for (int i = 0; n && i < carried; i++) keep(b, &n->out[i]);
}

static void add_cond(Build *b) {
  Value *v = pick(b), *mean = op1(b->graph, "reduce_mean", v);
  Value *in[1 + EXTRAS + 1] = {
      op2(b->graph, "less", mean, graph_number(b->graph, v->type.dtype, 0)), v};
  int count = 1 + throw(b->dice, EXTRAS + 1);
  for (int i = 1; i < count; i++) in[1 + i] = pick(b);
  Build yes = inner_build(b, in + 1, count, false), no = inner_build(b, in + 1, count, false);
  graph_output(yes.graph, result_like(&yes, &v->type));
  graph_output(no.graph, result_like(&no, &v->type));
  Node *n =
      control_node(b->graph, &control_cond, in, 1 + count,
                   &(ControlParts){.body = yes.graph, .other = no.graph, .explicit_count = 1});
  if (n) keep(b, &n->out[0]);
}

static void (*const plain[])(Build *) = {
    add_unary,     add_unary,     add_binary,  add_binary,  add_binary,     add_select,
    add_matmul,    add_reduction, add_softmax, add_reshape, add_slice,      add_transpose,
    add_concat,    add_cumsum,    add_cast,    add_row,     add_duplicate,  add_duplicate,
    add_duplicate, add_neutral,   add_neutral, add_detour,  add_transposes, add_constants};
static void (*const control[])(Build *) = {add_repeat, add_while, add_cond};

static void add_something(Build *b) {
  if (b->depth < 2 && !throw(b->dice, 12)) ANY_OF(b, control)(b);
  else ANY_OF(b, plain)(b);
}

/* ---- one graph ---- */

typedef struct Case {
  Error error;
  Build build;
  Tensor *in[MAX_ARGUMENTS + MAX_VARIABLES];
  Variable *variable[MAX_VARIABLES];
  int arguments, variables, results, written_count, written[MAX_VARIABLES];
  Value *result[MAX_RESULTS];
} Case;

static Type random_type(Dice *d) {
  Type t = {.dtype = throw(d, 5) ? F32 : F64, .rank = throw(d, 4)};
  for (int i = 0; i < t.rank; i++)
    t.shape[i] = extents[throw(d, (int)(sizeof extents / sizeof *extents))];
  return t;
}

static Tensor *random_tensor(Error *e, Dice *d, const Type *t) {
  Tensor *x = tensor_new(e, t);
  static const double odd[] = {0.0, -0.0, 1e-42, -1e-310};
  for (int64_t i = 0; x && i < type_count(t); i++)
    dtype_set(t->dtype, x->data, i,
              throw(d, 16) ? (throw(d, 4001) - 2000) / 1000.0 : odd[throw(d, 4)]);
  return x;
}

static void add_inputs(Case *c) {
  Build *b = &c->build;
  c->arguments = 1 + throw(b->dice, MAX_ARGUMENTS);
  for (int i = 0; i < c->arguments; i++) {
    Type t = random_type(b->dice);
    c->in[i] = random_tensor(&c->error, b->dice, &t);
    keep(b, trace_argument(b->trace, &t, NULL));
  }
  int variables = throw(b->dice, MAX_VARIABLES + 1);
  for (int i = 0; i < variables; i++) {
    Type t = random_type(b->dice);
    Tensor *x = random_tensor(&c->error, b->dice, &t);
    c->variable[i] = variable_new(&c->error, "v", &t, true);
    if (!c->variable[i] || !x || variable_assign(&c->error, c->variable[i], x) != OK) break;
    c->in[c->arguments + i] = x;
    keep(b, trace_read(b->trace, c->variable[i]));
    c->variables++;
  }
}

static void assign_variables(Case *c) {
  Build *b = &c->build;
  for (int i = 0; i < c->variables; i++) {
    Value *now = trace_read(b->trace, c->variable[i]), *like = now ? pick_like(b, now) : NULL;
    if (like && throw(b->dice, 3)) trace_assign(b->trace, c->variable[i], like);
  }
}

static void add_gradients(Case *c) {
  Build *b = &c->build;
  Value *y = pick(b), *dx[2], *xs[2] = {pick(b), b->value[0]};
  if (autodiff(b->graph, &y, NULL, 1, xs, 2, dx) != OK) return;
  for (int i = 0; i < 2; i++) keep(b, dx[i]);
}

static void build_case(Case *c, Dice *dice) {
  c->build = (Build){.dice = dice, .trace = trace_new(NULL)};
  c->build.graph = c->build.trace->graph;
  add_inputs(c);
  for (int i = 4 + throw(dice, 28); i > 0 && c->build.graph->error.status == OK; i--) {
    add_something(&c->build);
    if (!throw(dice, 12)) assign_variables(c);
  }
  if (throw(dice, 2)) add_gradients(c);
  assign_variables(c);
  c->results = 1 + throw(dice, MAX_RESULTS);
  for (int i = 0; i < c->results; i++) c->result[i] = pick(&c->build);
}

static bool same(const Tensor *a, const Tensor *b) {
  return !memcmp(a->data, b->data, type_bytes(&a->type));
}

static bool restore(Case *c) {
  for (int i = 0; i < c->variables; i++)
    if (variable_assign(&c->error, c->variable[i], c->in[c->arguments + i]) != OK) return false;
  return true;
}

/* Run p twice from the same variables: what the first run leaves in memory must not matter. */
static const char *compare(Case *c, Engine *g, Program *p, Tensor *const *expected) {
  for (int run = 0; run < 2; run++) {
    Tensor *out[MAX_RESULTS] = {0};
    const char *bad = NULL;
    if (!restore(c) || program_run(g, p, c->in, out, &c->error) != OK) return c->error.message;
    for (int i = 0; i < c->results; i++) {
      if (!same(out[i], expected[i])) bad = "a result differs from the naive evaluation";
      tensor_release(out[i]);
    }
    for (int i = 0; i < c->written_count; i++)
      if (!same(c->variable[c->written[i]]->value, expected[c->results + i]))
        bad = "a variable differs from the naive evaluation";
    if (bad) return bad;
  }
  return NULL;
}

/* Of a single graph that fails. */
static void print_graph(const Graph *g, int depth) {
  char type[TYPE_TEXT];
  for (int i = 0; i < g->node_count; i++) {
    const Node *n = g->node[i];
    printf("%*s%d %s", 2 * depth, "", n->id, n->op->name);
    for (int k = 0; k < n->in_count; k++) printf(" %d.%d", n->in[k]->node->id, n->in[k]->index);
    printf(" %s\n", n->out_count ? type_text(&n->out[0].type, type) : "");
    if (n->op->traits & CONTROL) print_graph(control_body(n), depth + 1);
    if ((n->op->traits & CONTROL) && control_other(n)) print_graph(control_other(n), depth + 1);
  }
  printf("%*soutputs", 2 * depth, "");
  for (int i = 0; i < g->output_count; i++)
    printf(" %d.%d", g->output[i]->node->id, g->output[i]->index);
  printf("\n");
}

static const char *check_case(Case *c, Engine *const *engines, int engine_count, bool single) {
  Graph *g = c->build.graph;
  if (c->error.status != OK) return c->error.message;
  if (g->error.status != OK) return g->error.message;
  c->written_count = trace_end_root(c->build.trace, c->result, c->results, c->written);
  if (graph_verify(&c->error, g, "the generator") != OK) return c->error.message;
  Tensor *expected[MAX_RESULTS + MAX_VARIABLES] = {0}, *in[MAX_ARGUMENTS + MAX_VARIABLES];
  for (int i = 0; i < g->input_count; i++) in[i] = c->in[i];
  if (interpret(&c->error, g, in, expected, NULL) != OK) return c->error.message;
  const char *bad = NULL;
  Program *first = program_compile(&c->error, c->build.trace, c->results, c->written,
                                   c->written_count, engines[0]->kernels, NULL, 1, "random");
  if (!first || program_verify(&c->error, first) != OK) bad = c->error.message;
  for (int i = 0; i < engine_count && !bad; i++) {
    Program *p = i ? program_copy(&c->error, first, engines[i]->threads) : first;
    bad = p ? compare(c, engines[i], p, expected) : c->error.message;
    if (i) program_free(p);
  }
  if (bad && single && first) print_graph(first->graph, 0);
  for (int i = 0; i < g->output_count && i < MAX_RESULTS + MAX_VARIABLES; i++)
    tensor_release(expected[i]);
  program_free(first); /* with g */
  return bad;
}

static void close_case(Case *c) {
  for (int i = 0; i < c->arguments + c->variables; i++) tensor_release(c->in[i]);
  for (int i = 0; i < c->variables; i++) variable_release(c->variable[i]);
  trace_free(c->build.trace);
}

int main(int argc, char **argv) {
  int count = argc > 1 ? atoi(argv[1]) : GRAPHS, passed = 0, failed = 0;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  Error e = {0};
  Engine *engines[] = {engine_new(&e, 1, 0), engine_new(&e, 2, 0)};
  for (int i = 0; i < count && e.status == OK; i++, seed++) {
    Dice dice = {.key = {.seed = seed}};
    Case c = {.error = {.status = OK}};
    build_case(&c, &dice);
    const char *bad = check_case(&c, engines, 2, count == 1);
    passed += !bad;
    failed += bad != NULL;
    if (bad && failed < 20) printf("FAIL seed %llu: %s\n", (unsigned long long)seed, bad);
    close_case(&c);
  }
  for (int i = 0; i < 2; i++) engine_free(engines[i]);
  printf("%d passed, %d failed\n", passed, failed);
  return failed > 0;
}
