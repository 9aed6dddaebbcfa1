/* The verifier finds what is wrong with graphs that were right and have then been broken in one
 * place each. */
#include "transform/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/control.h"
#include "graph/trace.h"
#include "kernels/kernels.h"
#include "ops/ops.h"
#include "program/memory.h"
#include "program/program.h"
#include "program/verify.h"
#include "transform/autodiff.h"

static int passed, failed;

static void expect(bool good, const char *name, const char *detail) {
  passed += good;
  failed += !good;
  if (!good) printf("FAIL %s: %s\n", name, detail);
}

/* x [2, 3] times w [3, 4], softmax; then a loop and a branch. */
typedef struct Model {
  Trace *trace;
  Graph *graph;
  Value *x, *w, *product, *soft, *sum;
  Node *loop, *branch;
} Model;

static Value *add_one(Graph *g, Value *v) {
  return ops_add(g, v, graph_number(g, v->type.dtype, 1));
}

static Graph *body_of(const Type *t, bool index) {
  Graph *r = graph_new();
  if (index) graph_input(r, &(Type){.dtype = I32}, NULL);
  graph_output(r, add_one(r, graph_input(r, t, NULL)));
  return r;
}

static Model model_new(void) {
  Model m = {.trace = trace_new(NULL)};
  Graph *g = m.graph = m.trace->graph;
  m.x = trace_argument(m.trace, &(Type){F32, 2, {2, 3}}, "x");
  m.w = trace_argument(m.trace, &(Type){F32, 2, {3, 4}}, "w");
  m.product = ops_matmul(g, m.x, m.w, false, false);
  m.soft = op1(g, "nn.softmax", m.product);
  Value *loop_in[] = {graph_number(g, I32, 3), m.soft};
  m.loop = control_node(g, &control_repeat, loop_in, 2,
                        &(ControlParts){.body = body_of(&m.soft->type, true), .explicit_count = 1});
  Value *branch_in[] = {graph_number(g, BOOL, 1), &m.loop->out[0]};
  m.branch = control_node(g, &control_cond, branch_in, 2,
                          &(ControlParts){.body = body_of(&m.soft->type, false),
                                          .other = body_of(&m.soft->type, false),
                                          .explicit_count = 1});
  int64_t axes[] = {0, 1};
  m.sum = ops_sum(g, &m.branch->out[0], axes, 2, false);
  return m;
}

/* ---- ways to break it ---- */

static void not_at_all(Model *m) { (void)m; }
static void missing_operand(Model *m) { m->soft->node->in[0] = NULL; }
static void later_operand(Model *m) { m->soft->node->in[0] = m->sum; }
static void foreign_operand(Model *m) { m->soft->node->in[0] = control_body(m->loop)->input[1]; }
static void absent_output(Model *m) { m->product->index = 1; }
static void operand_count(Model *m) { m->product->node->in_count = 1; }
static void wrong_type(Model *m) { m->product->type.shape[1] = 5; }
static void no_type(Model *m) { m->sum->type.rank = 99; }
static void wrong_dtype(Model *m) { m->x->type.dtype = I32; }
static void attribute_kind(Model *m) { m->sum->node->attr[0].kind = ATTR_FLOAT; }
static void wrong_id(Model *m) { m->soft->node->id++; }
static void no_op(Model *m) { m->soft->node->op = NULL; }
static void no_body(Model *m) { m->loop->attr[CONTROL_BODY].graph = NULL; }
static void no_other(Model *m) { m->branch->attr[CONTROL_OTHER] = (Attr){.kind = ATTR_NONE}; }
static void body_input(Model *m) { ((Graph *)(uintptr_t)control_body(m->loop))->input_count--; }
static void body_output(Model *m) { ((Graph *)(uintptr_t)control_body(m->loop))->output_count = 0; }
static void body_type(Model *m) { control_body(m->branch)->output[0]->type.dtype = F64; }
static void body_inside(Model *m) {
  control_body(m->branch)->output[0]->node->in[1] = control_body(m->branch)->output[0];
}
static void count_type(Model *m) { m->loop->in[0] = m->soft; }
static void carried_count(Model *m) { m->loop->attr[CONTROL_EXPLICIT].i = 5; }
static void input_no_input(Model *m) { m->graph->input[0] = m->soft; }

static const struct {
  const char *name, *message;
  void (*breaks)(Model *m);
} broken[] = {
    {"whole", NULL, not_at_all},
    {"missing operand", "operand 0 is missing", missing_operand},
    {"operand made later", "made after it is read", later_operand},
    {"operand of a region", "is of another graph", foreign_operand},
    {"output that is not there", "is no output of its node", absent_output},
    {"too few operands", "has 1 operands, its row has 2 to 2", operand_count},
    {"another shape than inferred", "infer says float32[2, 4]", wrong_type},
    {"no type", "has no valid type", no_type},
    {"operands of two dtypes", "infer refuses it", wrong_dtype},
    {"attribute of another kind", "'axis' is of another kind", attribute_kind},
    {"wrong position", "stands at", wrong_id},
    {"no op", "is no node", no_op},
    {"loop without body", "a region is missing", no_body},
    {"branch without the other", "a region is missing", no_other},
    {"too few inputs of a body", "a region has 1 inputs for 2 values", body_input},
    {"no outputs of a body", "a region has 0 outputs for 1", body_output},
    {"body of another type", "output and region output 0", body_type},
    {"a node of a region that reads itself", "made after it is read", body_inside},
    {"count that is no count", "its count or test is none", count_type},
    {"more carried than there are", "its outputs are not as many as it says", carried_count},
    {"input that is none", "is input 0, but no input", input_no_input},
};

static void check_broken(void) {
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    Model m = model_new();
    Error e = {0};
    broken[i].breaks(&m);
    Status s = graph_verify(&e, m.graph, "a spec");
    if (broken[i].message)
      expect(s == ERR_INTERNAL && strstr(e.message, broken[i].message), broken[i].name, e.message);
    else expect(s == OK, broken[i].name, e.message);
    trace_free(m.trace);
  }
}

static void check_gradient(void) {
  Model m = model_new();
  Value *dx[2];
  Error e = {0};
  autodiff(m.graph, &m.sum, NULL, 1, (Value *[]){m.x, m.w}, 2, dx);
  expect(graph_verify(&e, m.graph, "autodiff") == OK && dx[0] && dx[1], "gradients", e.message);
  trace_free(m.trace);
}

/* ---- programs ---- */

static void overlap(Program *p) {
  Buffer *first = NULL;
  for (int i = 0; i < p->buffer_count; i++) {
    Buffer *b = &p->buffer[i];
    if (b->kind != BUFFER_ARENA || b->first < 0 || !b->bytes) continue;
    if (first && buffers_overlap(first, b)) {
      b->offset = first->offset;
      return;
    }
    if (!first) first = b;
  }
}
static void outside(Program *p) { p->memory_bytes = 0; }
static void reversed(Program *p) { p->main.step[p->main.count - 1].position = 0; }
static void dead_link(Program *p) { p->buffer[p->link[0].buffer].first = -1; }
static void wild_link(Program *p) { p->link[0].buffer = p->buffer_count; }
static void nothing(Program *p) { (void)p; }

static void check_programs(void) {
  static const struct {
    const char *name, *message;
    void (*breaks)(Program *p);
  } cases[] = {{"whole program", NULL, nothing},
               {"overlapping buffers", "two live buffers share bytes", overlap},
               {"buffers outside of the memory", "outside of the memory", outside},
               {"steps out of order", "steps are out of order", reversed},
               {"link to a buffer that is never live", "never live", dead_link},
               {"link to no buffer", "leads to no buffer", wild_link}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Model m = model_new();
    Error e = {0};
    Value *results[3] = {m.sum};
    autodiff(m.graph, &m.sum, NULL, 1, (Value *[]){m.x, m.w}, 2, results + 1);
    trace_end_root(m.trace, results, 3, NULL);
    Program *p = program_compile(&e, m.trace, 3, NULL, 0, kernels_select(), NULL, 1, "spec");
    if (p) {
      cases[i].breaks(p);
      program_verify(&e, p);
    }
    if (cases[i].message)
      expect(p && e.status == ERR_INTERNAL && strstr(e.message, cases[i].message), cases[i].name,
             e.message);
    else expect(p && e.status == OK, cases[i].name, e.message);
    program_free(p);
    trace_free(m.trace);
  }
}

int main(void) {
  check_broken();
  check_gradient();
  check_programs();
  printf("%d passed, %d failed\n", passed, failed);
  return failed > 0;
}
