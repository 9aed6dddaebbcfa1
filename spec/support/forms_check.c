/* The forms that an op runs in: each row's samples in every dtype that it takes, bit for bit what
 * the naive evaluator gives.
 *   eager      at once, on one thread and on two
 *   strided    the same over operands with gaps, rows backwards
 *   broadcast  over operands that repeat an element along an axis
 *   traced     as a program, on one thread and on two
 *   fused      as a program between elementwise ops that change nothing
 *   in place   as a program that assigns the result to the variable that an operand is
 * Integers and bools are compared with int64 too, wherever operands may be either. Arguments
 * name rows. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/eager.h"
#include "engine/engine.h"
#include "engine/run.h"
#include "interpret.h"
#include "ops/ops.h"
#include "samples.h"

enum { OUTPUTS = 64 };

typedef struct Sweep {
  int passed, failed;
  Engine *engine[2];
} Sweep;

typedef struct Case {
  Sweep *sweep;
  const Sample *sample;
  Dtype real, integer;
  Graph *graph;
  const Node *node;
  int outputs;
  Tensor *in[SAMPLE_OPERANDS], *expected[OUTPUTS];
  Error error;
} Case;

static void expect(Case *c, bool good, const char *form, const char *detail) {
  if (good) c->sweep->passed++;
  else {
    c->sweep->failed++;
    printf("FAIL %-24s %-10s %s in %s, %s: %s\n", c->sample->op->name, form, c->sample->text,
           dtype_name(c->real), dtype_name(c->integer), detail);
  }
}

static void release(Tensor **t, int count) {
  for (int i = 0; i < count; i++) tensor_release(t[i]), t[i] = NULL;
}

/* Whole numbers that are large enough to leave what eight bits hold. */
static void enlarge(Case *c) {
  for (int i = 0; i < c->sample->count; i++) {
    if (!sample_is_float(&c->sample->operand[i])) continue;
    for (int64_t k = 0; k < type_count(&c->in[i]->type); k++)
      dtype_set(c->real, c->in[i]->data, k, c->sample->operand[i].value[k] * 61);
  }
}

/* False: the row doesn't take these dtypes, or these values. */
static bool case_open(Case *c, Sweep *w, const Sample *s, Dtype real, Dtype integer) {
  *c = (Case){.sweep = w, .sample = s, .real = real, .integer = integer, .graph = graph_new()};
  c->node = sample_node(c->graph, s, real, integer);
  if (!c->node || c->node->out_count > OUTPUTS) return false;
  for (int i = 0; i < s->count; i++) c->in[i] = sample_tensor(&c->error, s, i, real, integer);
  c->outputs = c->node->out_count;
  if (dtype_is_integer(real) && c->error.status == OK) enlarge(c);
  return interpret_node(&c->error, c->node, c->in, c->expected, NULL, -1) == OK;
}

static void case_close(Case *c) {
  release(c->in, c->sample->count);
  release(c->expected, c->outputs);
  graph_free(c->graph);
}

static bool same(const Tensor *a, const Tensor *b) {
  return a && b && type_equal(&a->type, &b->type) &&
         !memcmp(a->data, b->data, type_bytes(&a->type));
}

static void compare(Case *c, const char *form, Error *e, Tensor *const *got, Tensor *const *wanted,
                    int first, int count) {
  char text[200] = "";
  if (e->status != OK) snprintf(text, sizeof text, "%.150s", e->message);
  for (int i = 0; i < count && !*text; i++)
    if (!same(got[i], wanted[first + i]))
      snprintf(text, sizeof text, "result %d differs from the naive evaluation", first + i);
  expect(c, !*text, form, text);
}

/* ---- eager ---- */

static void check_eager(Case *c, const char *form, Tensor *const *in, Tensor *const *wanted,
                        int engine) {
  Error e = {.status = OK};
  Tensor **out = NULL;
  int count = 0;
  eager_apply(c->sweep->engine[engine], c->sample->op, in, c->sample->count, c->sample->attr, NULL,
              &out, &count, &e);
  if (e.status == OK && count != c->outputs)
    fail(&e, ERR_INTERNAL, "%d results, not %d", count, c->outputs);
  compare(c, form, &e, out, wanted, 0, c->outputs);
  if (out) release(out, count);
  free(out);
}

/* A view with gaps, whose first axis runs backwards. */
static Tensor *strided(Error *e, const Tensor *t) {
  Type wide = t->type;
  int64_t stride[MAX_RANK], offset = 1, step = 2;
  for (int i = 0; i < wide.rank; i++) wide.shape[i] = 2 * wide.shape[i] + 1;
  Type flat = type_make(wide.dtype, 1, (int64_t[]){type_count(&wide) + 2});
  for (int i = wide.rank - 1; i >= 0; i--) stride[i] = step, step *= wide.shape[i];
  if (wide.rank && t->type.shape[0] > 0)
    offset += (t->type.shape[0] - 1) * stride[0], stride[0] = -stride[0];
  Tensor *room = tensor_new(e, &flat),
         *view = room ? tensor_view(e, room, &t->type, stride, offset) : NULL;
  size_t size = dtype_size(wide.dtype);
  for (int64_t i = 0, n = type_count(&t->type); view && i < n; i++) {
    int64_t at = 0;
    for (int64_t k = t->type.rank - 1, rest = i; k >= 0; rest /= t->type.shape[k], k--)
      at += rest % t->type.shape[k] * stride[k];
    memcpy(view->data + at * (int64_t)size, t->data + (size_t)i * size, size);
  }
  tensor_release(room);
  return view;
}

/* Its first element along an axis, repeated. */
static Tensor *repeated(Error *e, Tensor *t, int axis) {
  int64_t stride[MAX_RANK];
  memcpy(stride, t->stride, sizeof stride);
  if (axis < t->type.rank) stride[axis] = 0;
  return tensor_view(e, t, &t->type, stride, 0);
}

static void check_strided(Case *c) {
  Tensor *view[SAMPLE_OPERANDS] = {0};
  for (int i = 0; i < c->sample->count; i++) view[i] = strided(&c->error, c->in[i]);
  check_eager(c, "strided", view, c->expected, 0);
  release(view, c->sample->count);
}

static void check_broadcast(Case *c, int axis) {
  Tensor *view[SAMPLE_OPERANDS] = {0}, *dense[SAMPLE_OPERANDS] = {0}, *wanted[OUTPUTS] = {0};
  Error ignored = {.status = OK};
  bool any = false;
  for (int i = 0; i < c->sample->count; i++) {
    view[i] = repeated(&c->error, c->in[i], axis);
    dense[i] = tensor_dense(&c->error, view[i]);
    any = any || c->in[i]->type.rank > axis;
  }
  if (any && interpret_node(&ignored, c->node, dense, wanted, NULL, -1) == OK)
    check_eager(c, "broadcast", view, wanted, 0);
  release(wanted, OUTPUTS);
  release(view, c->sample->count);
  release(dense, c->sample->count);
}

/* ---- programs ---- */

/* v by an elementwise op that changes no bit. */
static Value *unchanged(Graph *g, Value *v) {
  if (!v) return NULL;
  return op2(g, v->type.dtype == BOOL ? "logical_and" : "mul", v,
             graph_number(g, v->type.dtype, 1));
}

/* fuse: between other ops. place: the operand that is a variable and becomes the result; -1:
 * none. */
static Program *compile(Case *c, Error *e, bool fuse, int place, Variable *variable) {
  Trace *t = trace_new(NULL);
  Graph *g = t->graph;
  Value *in[SAMPLE_OPERANDS], *out[OUTPUTS];
  int written[1], count = 0;
  for (int i = 0; i < c->sample->count; i++)
    in[i] = i == place ? trace_read(t, variable) : trace_argument(t, &c->in[i]->type, "x");
  for (int i = 0; i < c->sample->count && fuse; i++) in[i] = unchanged(g, in[i]);
  Node *n = graph_node(g, c->sample->op, in, c->sample->count, c->sample->attr);
  if (n && place >= 0) trace_assign(t, variable, &n->out[0]);
  for (int i = place >= 0; n && i < n->out_count; i++)
    out[count++] = fuse ? unchanged(g, &n->out[i]) : &n->out[i];
  if (g->error.status != OK) *e = g->error;
  int written_count = e->status == OK ? trace_end_root(t, out, count, written) : 0;
  Program *p = e->status == OK ? program_compile(e, t, count, written, written_count,
                                                 c->sweep->engine[0]->kernels, NULL, 2, "form")
                               : NULL;
  trace_free(t);
  return p;
}

static void check_program(Case *c, const char *form, bool fuse) {
  Error e = {.status = OK};
  Program *p = compile(c, &e, fuse, -1, NULL);
  for (int i = 0; i < 2; i++) {
    Tensor *out[OUTPUTS] = {0};
    if (p) program_run(c->sweep->engine[i], p, c->in, out, &e);
    compare(c, form, &e, out, c->expected, 0, c->outputs);
    release(out, c->outputs);
  }
  if (p) program_free(p);
}

static void check_in_place(Case *c, int place) {
  if (!type_equal(&c->in[place]->type, &c->node->out[0].type)) return;
  Error e = {.status = OK};
  Variable *v = variable_new(&e, "x", &c->in[place]->type, true);
  Program *p = v ? compile(c, &e, false, place, v) : NULL;
  Tensor *in[SAMPLE_OPERANDS], *out[OUTPUTS] = {0};
  int count = 0;
  for (int i = 0; i < c->sample->count; i++)
    if (i != place) in[count++] = c->in[i];
  if (p && variable_assign(&e, v, c->in[place]) == OK)
    program_run(c->sweep->engine[0], p, in, out, &e);
  compare(c, "in place", &e, &v->value, c->expected, 0, 1);
  if (e.status == OK) compare(c, "in place", &e, out, c->expected, 1, c->outputs - 1);
  release(out, OUTPUTS);
  if (p) program_free(p);
  variable_release(v);
}

/* ---- integers ---- */

static bool equal_numbers(const Tensor *narrow, const Tensor *wide) {
  Dtype a = narrow->type.dtype, b = wide->type.dtype;
  for (int64_t i = 0; i < type_count(&wide->type); i++) {
    double x = dtype_get(a, narrow->data, i), y = dtype_get(b, wide->data, i);
    int64_t whole = dtype_get_integer(b, wide->data, i);
    if (a == BOOL           ? (x != 0) != (y != 0)
        : dtype_is_float(a) ? x != y && (x == x || y == y)
                            : dtype_get_integer(a, narrow->data, i) != (a == I8    ? (int8_t)whole
                                                                        : a == U8  ? (uint8_t)whole
                                                                        : a == I32 ? (int32_t)whole
                                                                                   : whole))
      return false;
  }
  return true;
}

/* In int64 the same numbers come out, but for what the narrow dtype can't hold. */
static void check_against_int64(Case *c, const Sample *s) {
  Case wide;
  if (c->real == I64 || dtype_is_float(c->real)) return;
  if (case_open(&wide, c->sweep, s, I64, c->integer)) {
    for (int i = 0; i < s->count; i++)
      for (int64_t k = 0; k < type_count(&c->in[i]->type) && c->in[i]->type.dtype == c->real; k++)
        dtype_set_integer(wide.in[i]->type.dtype, wide.in[i]->data, k,
                          dtype_get_integer(c->real, c->in[i]->data, k));
    release(wide.expected, wide.outputs);
    bool good = interpret_node(&c->error, wide.node, wide.in, wide.expected, NULL, -1) == OK;
    for (int i = 0; i < c->outputs && good; i++)
      good = equal_numbers(c->expected[i], wide.expected[i]);
    expect(c, good, "int64", "int64 gives other numbers");
  }
  case_close(&wide);
}

/* ---- rows ---- */

static bool check_dtypes(Sweep *w, const Sample *s, Dtype real, Dtype integer) {
  Case c;
  bool taken = case_open(&c, w, s, real, integer);
  if (taken) {
    check_eager(&c, "eager", c.in, c.expected, 0);
    check_eager(&c, "eager", c.in, c.expected, 1);
    check_strided(&c);
    for (int axis = 0; axis < 3; axis++) check_broadcast(&c, axis);
    check_program(&c, "traced", false);
    check_program(&c, "fused", true);
    for (int i = 0; i < s->count && c.outputs; i++) check_in_place(&c, i);
    check_against_int64(&c, s);
  }
  case_close(&c);
  return taken;
}

static void check_sample(Sweep *w, const Sample *s) {
  bool floats = false, integers = false;
  static const Dtype whole[] = {I64, I8, U8};
  for (int i = 0; i < s->count; i++) {
    floats = floats || sample_is_float(&s->operand[i]);
    integers = integers || strchr("IS", s->operand[i].letter);
  }
  bool taken = check_dtypes(w, s, F32, I32);
  for (int d = 0; d < DTYPE_COUNT && floats; d++)
    if (d != F32) check_dtypes(w, s, (Dtype)d, I32);
  for (int i = 0; i < 3 && integers; i++) check_dtypes(w, s, F32, whole[i]);
  if (!taken) expect(&(Case){.sweep = w, .sample = s}, false, "runs", "not in float32");
}

static void check_row(Sweep *w, const OpDef *op) {
  if (op->traits & (CONTROL | STATEFUL)) return; /* their effects show in programs */
  const char *text = op->sample ? op->sample : "";
  Error e = {.status = OK};
  Sample s = {.op = op, .text = ""};
  int count = 0;
  Arena *arena = arena_new();
  while (sample_next(&e, arena, op, &text, &s)) check_sample(w, &s), count++;
  if (e.status != OK || (!count && !(op->traits & MARKER)))
    expect(&(Case){.sweep = w, .sample = &s}, false, "sample",
           count ? e.message : "the row has none");
  arena_free(arena);
}

int main(int argc, char **argv) {
  Error e = {.status = OK};
  Sweep w = {.engine = {engine_new(&e, 1, 0), engine_new(&e, 2, 0)}};
  for (const OpDef *op = e.status == OK ? op_next(NULL) : NULL; op; op = op_next(op))
    if (sample_wanted(op, argc, argv)) check_row(&w, op);
  for (int i = 0; i < 2; i++) engine_free(w.engine[i]);
  w.failed += sample_unknown(argc, argv);
  printf("%d passed, %d failed\n", w.passed, w.failed);
  return w.failed || e.status != OK;
}
