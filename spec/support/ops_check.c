/* The sweep over the registry: each row is asked the same questions about each of its samples.
 *
 *   runs         float64 evaluation succeeds
 *   gradient     autodiff's against central differences in float64, with random upstream weights
 *   dtypes       every dtype that the row takes against float64 (integers: int64), on the same
 *                rounded operands
 *   threads      a team of one and of two: equal bits
 *   in place     over an operand as the row allows: equal bits
 *   cost         a row with a cost gives finite cycles, none only for views and empty tensors
 *   refusals     any dtype gives a result or an error, never a crash
 *
 * Arguments name rows; without them all are swept. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "interpret.h"
#include "ops/ops.h"
#include "samples.h"
#include "target/cost.h"
#include "transform/autodiff.h"

enum {
  DIFFERENCES = 24,
  OUTPUTS = 64
}; /* elements that are differenced for each operand; outputs of a case at most */

typedef struct Sweep {
  int passed, failed;
  Pool *one, *two;
  Arena *arena; /* of the row at hand */
} Sweep;

static bool expect(Sweep *w, bool good, const Sample *s, const char *question, const char *detail) {
  if (good) {
    w->passed++;
  } else {
    w->failed++;
    printf("FAIL %-24s %-10s %s: %s\n", s->op->name, question, s->text, detail);
  }
  return good;
}

/* A case in some dtypes: graph, node and operands. */
typedef struct Case {
  const Sample *sample;
  Graph *graph;
  Node *node;
  int outputs;
  Tensor *in[SAMPLE_OPERANDS], *out[OUTPUTS];
  Error error;
} Case;

static bool case_open(Case *c, const Sample *s, Dtype real, Dtype integer) {
  *c = (Case){.sample = s, .graph = graph_new()};
  c->node = sample_node(c->graph, s, real, integer);
  if (!c->node) {
    c->error = c->graph->error;
    return false;
  }
  for (int i = 0; i < s->count; i++) c->in[i] = sample_tensor(&c->error, s, i, real, integer);
  c->outputs = c->node->out_count;
  return c->error.status == OK && c->outputs <= OUTPUTS;
}

static void case_clear(Case *c) {
  for (int i = 0; i < c->outputs; i++) tensor_release(c->out[i]), c->out[i] = NULL;
}

static void case_close(Case *c) {
  case_clear(c);
  for (int i = 0; i < c->sample->count; i++) tensor_release(c->in[i]);
  graph_free(c->graph);
}

static bool case_run(Case *c, Pool *pool) {
  Interpretation how = {.pool = pool};
  case_clear(c);
  return interpret_node(&c->error, c->node, c->in, c->out, &how, -1) == OK;
}

/* Copies from's operands to `to`, rounded to from's dtypes. */
static void copy_operands(Case *to, const Case *from) {
  for (int i = 0; i < to->sample->count; i++) {
    Dtype a = to->in[i]->type.dtype, b = from->in[i]->type.dtype;
    for (int64_t k = 0; k < type_count(&to->in[i]->type); k++) {
      if (dtype_is_float(b)) dtype_set(a, to->in[i]->data, k, dtype_get(b, from->in[i]->data, k));
      else dtype_set_integer(a, to->in[i]->data, k, dtype_get_integer(b, from->in[i]->data, k));
    }
  }
}

static bool same_bits(const Tensor *a, const Tensor *b) {
  return type_equal(&a->type, &b->type) && !memcmp(a->data, b->data, type_bytes(&a->type));
}

/* ---- gradients ---- */

static double weigh(const Case *c, Tensor *const *weight) {
  double sum = 0;
  for (int j = 0; j < c->outputs; j++)
    for (int64_t i = 0; weight[j] && i < type_count(&weight[j]->type); i++)
      sum += dtype_get(F64, weight[j]->data, i) * dtype_get(F64, c->out[j]->data, i);
  return sum;
}

static bool difference(Case *c, int operand, int64_t element, Tensor *const *weight, double *out) {
  double *x = (double *)(void *)c->in[operand]->data + element, saved = *x, h = 1e-5;
  *x = saved + h;
  bool good = case_run(c, NULL);
  double up = good ? weigh(c, weight) : 0;
  *x = saved - h;
  good = good && case_run(c, NULL);
  *out = good ? (up - weigh(c, weight)) / (2 * h) : NAN;
  *x = saved;
  return good;
}

typedef struct Gradient {
  Tensor *weight[OUTPUTS];     /* NULL: no upstream there */
  Tensor *dx[SAMPLE_OPERANDS]; /* NULL: none */
} Gradient;

/* Run the node's gradient in a graph that also holds the node. */
static bool gradient_run(Case *c, Gradient *gr) {
  Graph *g = c->graph;
  Value *y[OUTPUTS], *dy[OUTPUTS], *x[SAMPLE_OPERANDS] = {0}, *dx[SAMPLE_OPERANDS] = {0};
  Tensor *in[SAMPLE_OPERANDS + OUTPUTS], *out[SAMPLE_OPERANDS];
  int inputs = g->input_count, ys = 0, outputs = 0;
  for (int i = 0; i < inputs; i++) in[i] = c->in[i];
  for (int i = 0; i < inputs; i++)
    x[i] = sample_is_float(&c->sample->operand[i]) ? g->input[i] : NULL;
  for (int j = 0; j < c->outputs; j++) {
    if (!gr->weight[j]) continue;
    in[inputs++] = gr->weight[j];
    y[ys] = &c->node->out[j];
    dy[ys++] = graph_input(g, &c->node->out[j].type, "dy");
  }
  autodiff(g, y, dy, ys, x, c->sample->count, dx);
  g->output_count = 0;
  for (int i = 0; i < c->sample->count; i++)
    if (dx[i]) graph_output(g, dx[i]);
  if (graph_error(g) == OK) interpret(&c->error, g, in, out, NULL);
  else c->error = g->error;
  if (c->error.status != OK) return false;
  for (int i = 0; i < c->sample->count; i++)
    if (dx[i]) gr->dx[i] = out[outputs++];
  return true;
}

static void compare_gradient(Sweep *w, Case *c, const Gradient *gr, int operand) {
  const Tensor *x = c->in[operand], *dx = gr->dx[operand];
  int64_t n = type_count(&x->type);
  char text[200] = "", want[TYPE_TEXT], got[TYPE_TEXT];
  if (dx && !type_equal(&dx->type, &x->type)) {
    snprintf(text, sizeof text, "operand %d is %.60s, its gradient %.60s", operand,
             type_text(&x->type, want), type_text(&dx->type, got));
    expect(w, false, c->sample, "gradient", text);
    return;
  }
  for (int64_t k = 0; k < n && k < DIFFERENCES; k++) {
    int64_t i = n <= DIFFERENCES ? k : (k * 7919 + 13) % n;
    double wanted, found = dx ? dtype_get(F64, dx->data, i) : 0;
    if (!difference(c, operand, i, gr->weight, &wanted))
      snprintf(text, sizeof text, "%.150s", c->error.message);
    else if (!(fabs(wanted - found) <= 2e-6 * (1 + fabs(wanted))))
      snprintf(text, sizeof text, "operand %d element %lld: %.9g by differences, %.9g%s", operand,
               (long long)i, wanted, found, dx ? "" : " (no gradient)");
  }
  expect(w, !*text, c->sample, "gradient", text);
}

/* Outputs that Lua doesn't see, which gradients read. */
static bool is_hidden(const Case *c, int output) {
  int visible = c->sample->op->visible_outputs;
  return visible && output >= visible;
}
/* only: the output that gets an upstream gradient; -1: all that are visible. */
static void check_gradient_from(Sweep *w, const Sample *s, int only) {
  Case c;
  Gradient gr = {0};
  if (!case_open(&c, s, F64, I32)) {
    case_close(&c);
    return;
  }
  RngKey key = {.seed = 99};
  bool any = false;
  for (int j = 0; j < c.outputs; j++) {
    if (c.node->out[j].type.dtype != F64 || (only >= 0 ? j != only : is_hidden(&c, j))) continue;
    gr.weight[j] = tensor_new(&c.error, &c.node->out[j].type);
    key.stream = (uint32_t)j;
    for (int64_t i = 0; i < type_count(&c.node->out[j].type); i++)
      dtype_set(F64, gr.weight[j]->data, i, (double)rng_uniform(&key, (uint64_t)i) * 2 - 1);
    any = true;
  }
  bool floats = false;
  for (int i = 0; i < s->count; i++) floats = floats || sample_is_float(&s->operand[i]);
  if (any && floats) {
    if (!gradient_run(&c, &gr)) expect(w, false, s, "gradient", c.error.message);
    else
      for (int i = 0; i < s->count; i++)
        if (sample_is_float(&s->operand[i])) compare_gradient(w, &c, &gr, i);
  }
  for (int i = 0; i < SAMPLE_OPERANDS; i++) tensor_release(gr.dx[i]);
  for (int j = 0; j < OUTPUTS; j++) tensor_release(gr.weight[j]);
  case_close(&c);
}

static void check_gradient(Sweep *w, const Sample *s, int outputs) {
  if (s->op->traits & NO_GRADIENT) return;
  check_gradient_from(w, s, -1);
  for (int j = 0; j < outputs && outputs > 1; j++) check_gradient_from(w, s, j);
}

/* ---- dtypes ---- */

static double tolerance(Dtype d) {
  return d == F32 ? 2e-5 : d == F16 ? 0x1.02p-11 : d == BF16 ? 0x1.02p-8 : 1e-12;
}

static int64_t wrapped(Dtype d, int64_t v) {
  switch (d) {
    case I8:
      return (int8_t)v;
    case U8:
      return (uint8_t)v;
    case I32:
      return (int32_t)v;
    default:
      return v;
  }
}

static bool close_enough(const Tensor *got, const Tensor *wanted, Dtype operand, char *text,
                         size_t size) {
  Dtype a = got->type.dtype, b = wanted->type.dtype;
  double scale = 0, bound = fmax(tolerance(a), tolerance(operand));
  int64_t n = type_count(&wanted->type);
  for (int64_t i = 0; i < n; i++) {
    double v = fabs(dtype_get(b, wanted->data, i));
    if (isfinite(v) && v > scale) scale = v;
  }
  for (int64_t i = 0; i < n; i++) {
    double x = dtype_get(a, got->data, i), y = dtype_get(b, wanted->data, i);
    bool good = dtype_is_float(a) ? fabs(x - y) <= bound * (fabs(y) + 0.01 * scale) ||
                                        (isnan(x) && isnan(y)) || x == y
                                  : dtype_get_integer(a, got->data, i) ==
                                        wrapped(a, dtype_get_integer(b, wanted->data, i));
    if (!good) {
      snprintf(text, size, "in %s element %lld is %.9g, not %.9g", dtype_name(operand),
               (long long)i, x, y);
      return false;
    }
  }
  return true;
}

/* Rows that take one integer type alone; all others take every dtype of their samples' kind. */
static bool may_refuse(const OpDef *op, Dtype integer) {
  static const struct {
    const char *name;
    Dtype other;
  } rows[] = {{"nn.max_pool_grad", U8},
              {"nn.max_pool_pick", U8},
              {"remote_load_slot", I32},
              {"remote_store_slot", I32}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(rows[i].name, op->name)) return integer != I32 && integer != rows[i].other;
  return false;
}

/* The case in (real, integer) against the case in (float64, wide). */
static void check_dtype(Sweep *w, const Sample *s, Dtype real, Dtype integer, Dtype wide) {
  Case c, ref;
  bool must = real == F64 ? !may_refuse(s->op, integer) : true;
  char text[200];
  bool open = case_open(&c, s, real, integer);
  if (open && case_open(&ref, s, F64, wide)) {
    copy_operands(&ref, &c);
    bool good = case_run(&c, NULL);
    if (good && case_run(&ref, NULL)) {
      for (int j = 0; j < c.outputs && good; j++)
        good = close_enough(c.out[j], ref.out[j], real == F64 ? integer : real, text, sizeof text);
      expect(w, good, s, "dtypes", text);
    } else if (must || c.error.status != ERR_TYPE) {
      expect(w, false, s, "dtypes", good ? ref.error.message : c.error.message);
    }
    case_close(&ref);
  } else if (must) {
    expect(w, false, s, "dtypes", c.error.message);
  }
  case_close(&c);
}

static void check_dtypes(Sweep *w, const Sample *s) {
  bool floats = false, integers = false;
  for (int i = 0; i < s->count; i++) {
    floats = floats || sample_is_float(&s->operand[i]);
    integers = integers || strchr("IS", s->operand[i].letter);
  }
  static const Dtype reals[] = {F32, F16, BF16}, whole[] = {I32, I64, I8, U8};
  for (int i = 0; i < 3 && floats; i++) check_dtype(w, s, reals[i], I32, I32);
  for (int i = 0; i < 4 && integers; i++) check_dtype(w, s, F64, whole[i], floats ? I32 : I64);
}

/* float16 ends at 65504, where larger results end as on the chip, and its numbers lie 32 apart from
 * 32768 on. Sums and products in between are wider and don't overflow. */
static void check_large(Sweep *w, const OpDef *op) {
  static const struct {
    const char *op, *text;
    double in[8], out[4]; /* operands one after the other */
  } rows[] = {
      {"mul", "F[2] F[2]", {300, 250, 300, 250}, {65504, 62496}},
      {"add", "F[2] F[2]", {65504, 40000, 15, 30000}, {65504, 65504}},
      {"sub", "F[2] F[2]", {-65504, -40000, 15, 30000}, {-65504, -65504}},
      {"square", "F[2]", {-250, -300}, {62496, 65504}},
      {"exp", "F[2]", {11, 12}, {59872, 65504}},
      {"exp", "F[2]", {88, 89}, {65504, 65504}}, /* both sides of the end of float32 */
      {"expm1", "F[2]", {88, 1000}, {65504, 65504}},
      {"sinh", "F[2]", {-89, 90}, {-65504, 65504}},
      {"cosh", "F[2]", {-89, 90}, {65504, 65504}},
      {"pow", "F[2] F[2]", {50000, -50000, 8, 9}, {65504, -65504}},
      {"reduce_sum", "F[4]", {60000, 60000, -60000, -59968}, {32}},
      {"reduce_mean", "F[4]", {60000, 60000, 60000, 60000}, {60000}},
      {"matmul", "F[1,2] F[2,1]", {300, 300, 300, -299}, {300}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Case c;
    Error e = {0};
    Sample s;
    char detail[120];
    const char *text = rows[i].text;
    if (strcmp(rows[i].op, op->name)) continue;
    if (!sample_next(&e, w->arena, op, &text, &s) || !case_open(&c, &s, F16, I32)) {
      expect(w, false, &(Sample){.op = op, .text = text}, "large", "can't be opened");
      continue;
    }
    const double *next = rows[i].in;
    for (int k = 0; k < s.count; k++)
      for (int64_t j = 0; j < type_count(&c.in[k]->type); j++)
        dtype_set(F16, c.in[k]->data, j, *next++);
    bool good = case_run(&c, NULL);
    snprintf(detail, sizeof detail, "%.100s", c.error.message);
    for (int64_t j = 0; good && j < type_count(&c.out[0]->type); j++) {
      double found = dtype_get(F16, c.out[0]->data, j);
      good = found == rows[i].out[j];
      snprintf(detail, sizeof detail, "%g for %g", found, rows[i].out[j]);
    }
    expect(w, good, &s, "large", detail);
    case_close(&c);
  }
}

/* Whatever dtype comes, infer and eval answer. */
static void check_refusals(Sweep *w, const Sample *s) {
  for (int d = 0; d < DTYPE_COUNT; d++) {
    Case c;
    if (case_open(&c, s, (Dtype)d, (Dtype)d)) case_run(&c, NULL);
    char text[100];
    snprintf(text, sizeof text, "%s gives an internal error: %.60s", dtype_name((Dtype)d),
             c.error.message);
    if (c.error.status == ERR_INTERNAL) expect(w, false, s, "refusals", text);
    case_close(&c);
  }
}

/* ---- threads, in place ---- */

static void check_threads(Sweep *w, const Sample *s, Dtype real) {
  Case a, b;
  bool open = case_open(&a, s, real, I32);
  if (case_open(&b, s, real, I32) && open) {
    bool good = case_run(&a, w->one) && case_run(&b, w->two);
    for (int j = 0; j < a.outputs && good; j++) good = same_bits(a.out[j], b.out[j]);
    expect(w, good, s, "threads",
           *b.error.message ? b.error.message : "one and two threads differ");
  }
  case_close(&a);
  case_close(&b);
}

static void check_in_place(Sweep *w, const Sample *s, Dtype real) {
  for (int k = 0; k < s->count && k < 8; k++) {
    Case a, b;
    if (!(s->op->traits & IN_PLACE(k))) continue;
    bool open = case_open(&a, s, real, I32);
    if (case_open(&b, s, real, I32) && open && type_equal(&a.in[k]->type, &a.node->out[0].type)) {
      bool good =
          case_run(&a, NULL) && interpret_node(&b.error, b.node, b.in, b.out, NULL, k) == OK;
      for (int j = 0; j < a.outputs && good; j++) good = same_bits(a.out[j], b.out[j]);
      expect(w, good, s, "in place", *b.error.message ? b.error.message : "in place differs");
    }
    case_close(&a);
    case_close(&b);
  }
}

/* ---- cost ---- */

static void check_cost(Sweep *w, const Sample *s, Dtype real) {
  static const char *const names[] = {"gc2", "gc200"};
  Case c;
  if (s->op->cost && case_open(&c, s, real, I32)) {
    bool free_of_charge = s->op->traits & VIEW;
    for (int i = 0; i < s->count; i++)
      free_of_charge = free_of_charge || type_count(&c.in[i]->type) == 0;
    for (int i = 0; i < c.outputs; i++)
      free_of_charge = free_of_charge || type_count(&c.node->out[i].type) == 0;
    for (int i = 0; i < 2; i++) {
      Cost cost = {0};
      s->op->cost(target_find(names[i]), c.node, &cost);
      double cycles = cost_cycles(&cost);
      char text[60];
      snprintf(text, sizeof text, "%g cycles on %s", cycles, names[i]);
      expect(w, isfinite(cycles) && (cycles > 0 || (free_of_charge && cycles == 0)), s, "cost",
             text);
    }
    case_close(&c);
  }
}

/* ---- rows ---- */

static void check_sample(Sweep *w, const Sample *s) {
  Case c;
  bool good = case_open(&c, s, F64, I32) && case_run(&c, NULL);
  int outputs = c.outputs;
  char message[300];
  snprintf(message, sizeof message, "%.290s", c.error.message);
  case_close(&c);
  if (!expect(w, good, s, "runs", message)) return;
  check_gradient(w, s, outputs);
  check_dtypes(w, s);
  check_refusals(w, s);
  check_threads(w, s, F32);
  check_threads(w, s, F16);
  check_in_place(w, s, F32);
  check_cost(w, s, F32);
  check_cost(w, s, F16);
}

static void check_row(Sweep *w, const OpDef *op) {
  expect(w, op_find(op->name) == op, &(Sample){.op = op, .text = ""}, "name",
         "another row has the same");
  if (op->traits & (CONTROL | STATEFUL)) return; /* their effects show in programs */
  const char *text = op->sample ? op->sample : "";
  Error e = {.status = OK};
  Sample s = {.op = op, .text = ""};
  int count = 0;
  w->arena = arena_new();
  while (sample_next(&e, w->arena, op, &text, &s)) check_sample(w, &s), count++;
  check_large(w, op);
  if (e.status != OK) expect(w, false, &(Sample){.op = op, .text = text}, "sample", e.message);
  else if (!count && !(op->traits & MARKER))
    expect(w, false, &(Sample){.op = op, .text = ""}, "sample", "the row has none");
  if (!op->summary || !op->shapes)
    expect(w, false, &(Sample){.op = op, .text = ""}, "texts", "summary or shapes missing");
  arena_free(w->arena);
}

int main(int argc, char **argv) {
  Sweep w = {.one = pool_new(1), .two = pool_new(2)};
  for (const OpDef *op = op_next(NULL); op; op = op_next(op))
    if (sample_wanted(op, argc, argv)) check_row(&w, op);
  pool_free(w.one);
  pool_free(w.two);
  w.failed += sample_unknown(argc, argv);
  printf("%d passed, %d failed\n", w.passed, w.failed);
  return w.failed ? 1 : 0;
}
