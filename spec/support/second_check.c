/* Second derivatives of every row. The gradient that autodiff builds is weighed with random numbers
 * and differentiated once more. It is compared with central differences of the gradient in float64.
 * A row whose gradient has no gradient fails; one that has none by nature says so with NO_GRADIENT.
 * Arguments name rows; without them all are swept. */
#include <math.h>
#include <stdio.h>

#include "graph/control.h"
#include "interpret.h"
#include "ops/ops.h"
#include "samples.h"
#include "transform/autodiff.h"

enum { DIFFERENCES = 12, OPERANDS = SAMPLE_OPERANDS + MAX_OUTPUTS * 8 };

typedef struct Sweep {
  int passed, failed;
} Sweep;

static void expect(Sweep *w, bool good, const Sample *s, const char *detail) {
  if (good) w->passed++;
  else w->failed++, printf("FAIL %-24s %s: %s\n", s->op->name, s->text, detail);
}

/* One graph. Inputs are the case's operands and upstream gradients, then weights of the gradients.
 * Outputs are the gradients, then the gradients of their weighed sum. */
typedef struct Second {
  const Sample *sample;
  Graph *graph;
  Value *at[OPERANDS]; /* differentiated by: operands, upstream */
  int input[OPERANDS]; /* which input of the graph that is */
  /* the first sample->count are operands, NULL for those that aren't float64 */
  int at_count;
  Value *dx[OPERANDS], *ddx[OPERANDS];
  int outputs; /* of the first gradients */
  Tensor *in[2 * OPERANDS], *out[2 * OPERANDS];
  Error error;
} Second;

static Tensor *drawn(Error *e, const Type *type, uint32_t stream) {
  Tensor *t = tensor_new(e, type);
  RngKey key = {.seed = 99, .stream = stream};
  for (int64_t i = 0; t && i < type_count(type); i++)
    dtype_set(F64, t->data, i, (double)rng_uniform(&key, (uint64_t)i) * 2 - 1);
  return t;
}

static Value *random_input(Second *c, const Type *type) {
  int i = c->graph->input_count;
  c->in[i] = drawn(&c->error, type, (uint32_t)i);
  return graph_input(c->graph, type, "r");
}

static void differentiate_once(Second *c, Node *n) {
  Value *y[MAX_OUTPUTS * 8], *dy[MAX_OUTPUTS * 8];
  int ys = 0, visible = n->op->visible_outputs ? n->op->visible_outputs : n->out_count;
  for (int i = 0; i < visible && ys < MAX_OUTPUTS * 8; i++) {
    if (n->out[i].type.dtype != F64) continue;
    y[ys] = &n->out[i];
    c->input[c->at_count] = c->graph->input_count;
    dy[ys++] = c->at[c->at_count++] = random_input(c, &n->out[i].type);
  }
  autodiff(c->graph, y, dy, ys, c->at, c->sample->count, c->dx);
}

static void differentiate_twice(Second *c) {
  Value *y[OPERANDS], *dy[OPERANDS];
  for (int i = 0; i < c->sample->count; i++) {
    if (!c->dx[i]) continue;
    graph_output(c->graph, y[c->outputs] = c->dx[i]);
    dy[c->outputs++] = random_input(c, &c->dx[i]->type);
  }
  autodiff(c->graph, y, dy, c->outputs, c->at, c->at_count, c->ddx);
}

static bool second_open(Second *c, const Sample *s, bool twice) {
  *c = (Second){.sample = s, .graph = graph_new(), .at_count = s->count};
  Node *n = sample_node(c->graph, s, F64, I32);
  if (!n) return false;
  for (int i = 0; i < s->count; i++) {
    c->in[i] = sample_tensor(&c->error, s, i, F64, I32);
    c->input[i] = i;
    if (sample_is_float(&s->operand[i])) c->at[i] = n->in[i];
  }
  differentiate_once(c, n);
  if (graph_error(c->graph) != OK) return false;
  if (twice) differentiate_twice(c);
  for (int i = 0; i < s->count && !twice; i++)
    if (c->dx[i]) graph_output(c->graph, c->dx[i]), c->outputs++;
  for (int i = 0; i < c->at_count && twice && graph_error(c->graph) == OK; i++)
    if (c->ddx[i]) graph_output(c->graph, c->ddx[i]);
  return graph_error(c->graph) == OK && c->error.status == OK;
}

static void clear(Second *c) {
  for (int i = 0; i < c->graph->output_count; i++) tensor_release(c->out[i]), c->out[i] = NULL;
}

static void second_close(Second *c) {
  clear(c);
  for (int i = 0; i < c->graph->input_count; i++) tensor_release(c->in[i]);
  graph_free(c->graph);
}

static bool run(Second *c) {
  clear(c);
  return interpret(&c->error, c->graph, c->in, c->out, NULL) == OK;
}

/* The gradients' sum, weighed by the other graph's inputs from `first` on. */
static double weigh(const Second *c, Tensor *const *weight) {
  double sum = 0;
  for (int k = 0; k < c->outputs; k++)
    for (int64_t i = 0, n = type_count(&c->out[k]->type); i < n; i++)
      sum += dtype_get(F64, weight[k]->data, i) * dtype_get(F64, c->out[k]->data, i);
  return sum;
}

static double difference(Second *once, int input, int64_t element, Tensor *const *weight) {
  double *x = (double *)(void *)once->in[input]->data + element, saved = *x, h = 1e-5;
  *x = saved + h;
  double up = run(once) ? weigh(once, weight) : NAN;
  *x = saved - h;
  double down = run(once) ? weigh(once, weight) : NAN;
  *x = saved;
  return (up - down) / (2 * h);
}

static void compare(Sweep *w, Second *once, const Second *twice, int k, const Tensor *found) {
  const Tensor *x = once->in[once->input[k]];
  Tensor *const *weight = twice->in + once->graph->input_count;
  char text[200] = "";
  int64_t n = type_count(&x->type);
  for (int64_t j = 0; j < n && j < DIFFERENCES; j++) {
    int64_t i = n <= DIFFERENCES ? j : (j * 7919 + 13) % n;
    double wanted = difference(once, once->input[k], i, weight),
           got = found ? dtype_get(F64, found->data, i) : 0;
    if (!(fabs(wanted - got) <= 2e-6 * (1 + fabs(wanted))))
      snprintf(text, sizeof text, "by %s %d element %lld: %.9g by differences, %.9g%s",
               k < once->sample->count ? "operand" : "upstream", k, (long long)i, wanted, got,
               found ? "" : " (no path)");
  }
  expect(w, !*text, once->sample, text);
}

static void check_sample(Sweep *w, const Sample *s) {
  Second once, twice;
  bool open = second_open(&once, s, false);
  if (open && once.outputs) {
    if (!second_open(&twice, s, true) || !run(&twice)) {
      expect(w, false, s, *twice.error.message ? twice.error.message : twice.graph->error.message);
    } else {
      int at = twice.outputs;
      for (int k = 0; k < once.at_count; k++)
        if (once.at[k]) compare(w, &once, &twice, k, twice.ddx[k] ? twice.out[at++] : NULL);
    }
    second_close(&twice);
  } else if (!open) {
    expect(w, false, s, *once.error.message ? once.error.message : once.graph->error.message);
  }
  second_close(&once);
}

static void check_row(Sweep *w, const OpDef *op) {
  if ((op->traits & (CONTROL | STATEFUL | NO_GRADIENT))) return;
  const char *text = op->sample ? op->sample : "";
  Error e = {.status = OK};
  Sample s;
  Arena *arena = arena_new();
  while (sample_next(&e, arena, op, &text, &s)) check_sample(w, &s);
  arena_free(arena);
}

int main(int argc, char **argv) {
  Sweep w = {0};
  for (const OpDef *op = op_next(NULL); op; op = op_next(op))
    if (sample_wanted(op, argc, argv)) check_row(&w, op);
  w.failed += sample_unknown(argc, argv);
  printf("%d passed, %d failed\n", w.passed, w.failed);
  return w.failed ? 1 : 0;
}
