/* Bad calls: each row's samples with one thing changed at a time: an operand's dtype, rank or an extent, an attribute. A row
 * answers with an error that names the op and what is wrong with it, or it takes the call: then its results have types that can be
 * held, its cost is a number, and, if nothing is large, it runs, rows that only gradients and programs call like all others: infer
 * has to find whatever would read or write beyond a buffer. Arguments name rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "interpret.h"
#include "ops/ops.h"
#include "samples.h"
#include "target/cost.h"
#include "transform/autodiff.h"

enum { MOST_ELEMENTS = 1 << 16, LONG_LIST = 33 };

typedef struct Sweep {
  int passed, failed;
} Sweep;

/* A call: the sample's operands and attributes but for what was changed. */
typedef struct BadCall {
  Sweep *sweep;
  const Sample *sample;
  Type type[SAMPLE_OPERANDS];
  Attr attr[MAX_ATTRS];
  int operand, attribute; /* which was changed; -1: none */
  char change[120];
} BadCall;

static void expect(const BadCall *c, bool good, const char *detail) {
  if (good) c->sweep->passed++;
  else c->sweep->failed++, printf("FAIL %-24s %s with %s: %s\n", c->sample->op->name, c->sample->text, c->change, detail);
}

/* An operand's or an attribute's name, a shape, a dtype or a number: something that says what. */
static bool names_something(const BadCall *c, const char *message) {
  char text[TYPE_TEXT];
  if (c->attribute >= 0) {
    const AttrDef *def = &c->sample->op->attrs[c->attribute];
    bool dtype = def->kind == ATTR_DTYPE && strstr(message, dtype_name((Dtype)c->attr[c->attribute].i));
    return dtype || strstr(message, def->name) || strpbrk(message, "0123456789");
  }
  shape_text(&c->type[c->operand], text);
  return strstr(message, text) || strstr(message, dtype_name(c->type[c->operand].dtype)) || strpbrk(message, "0123456789[");
}

static void check_refusal(const BadCall *c, const Error *e) {
  const char *name = c->sample->op->name;
  size_t length = strlen(name);
  bool opens = !strncmp(e->message, name, length) && !strncmp(e->message + length, ": ", 2);
  bool internal = c->sample->op->traits & INTERNAL; /* nobody calls these but gradients */
  if (e->status == ERR_INTERNAL) expect(c, false, e->message);
  else expect(c, opens && (internal || names_something(c, e->message)), e->message);
}

static bool is_small(const Node *n) {
  int64_t count = 0;
  for (int i = 0; i < n->in_count; i++) count += type_count(&n->in[i]->type);
  for (int i = 0; i < n->out_count; i++) count += type_count(&n->out[i].type);
  return count <= MOST_ELEMENTS && (!n->op->scratch || n->op->scratch(n) < 1u << 22);
}

/* wild: integers are no positions of anything. */
static void run(const BadCall *c, const Node *n, bool wild) {
  static const double far[] = {-1, 255, 1e6, -1e6, INT32_MAX, INT32_MIN};
  Tensor *in[SAMPLE_OPERANDS] = {0}, **out = calloc((size_t)n->out_count + 1, sizeof *out);
  Error e = {.status = OK};
  for (int i = 0; i < n->in_count && e.status == OK; i++) {
    in[i] = tensor_new(&e, &n->in[i]->type);
    for (int64_t k = 0, count = type_count(&n->in[i]->type); in[i] && k < count; k++) {
      const SampleOperand *o = &c->sample->operand[i];
      int64_t values = type_count(&o->type);
      double number = wild && (o->letter == 'I' || o->letter == 'S') ? far[k % 6] : values ? o->value[k % values] : 0.5;
      dtype_set(in[i]->type.dtype, in[i]->data, k, number);
    }
  }
  if (e.status == OK && out) interpret_node(&e, n, in, out, NULL, -1);
  if (e.status == ERR_INTERNAL) expect(c, false, e.message);
  for (int i = 0; i < n->out_count; i++) tensor_release(out[i]);
  for (int i = 0; i < n->in_count; i++) tensor_release(in[i]);
  free(out);
}

static void check_gradient(const BadCall *c, Graph *g, const Node *n) {
  Value *y[8], *dx[SAMPLE_OPERANDS];
  int count = 0, visible = n->op->visible_outputs ? n->op->visible_outputs : n->out_count;
  for (int i = 0; i < visible && count < 8; i++)
    if (dtype_is_float(n->out[i].type.dtype)) y[count++] = &n->out[i];
  autodiff(g, y, NULL, count, n->in, n->in_count, dx);
  if (g->error.status == ERR_INTERNAL) expect(c, false, g->error.message);
}

static void check_acceptance(const BadCall *c, Graph *g, const Node *n) {
  Cost cost = {0};
  char text[60] = "";
  if (n->op->cost) {
    n->op->cost(target_find("gc200"), n, &cost);
    double cycles = cost_cycles(&cost);
    if (!isfinite(cycles) || cycles < 0) snprintf(text, sizeof text, "%g cycles", cycles);
  }
  expect(c, !*text, text);
  if (!is_small(n)) return;
  run(c, n, false);
  run(c, n, true);
  check_gradient(c, g, n);
}

static void try_call(BadCall *c) {
  Graph *g = graph_new();
  Value *in[SAMPLE_OPERANDS];
  for (int i = 0; i < c->sample->count; i++) in[i] = graph_input(g, &c->type[i], "x");
  Node *n = graph_node(g, c->sample->op, in, c->sample->count, c->attr);
  if (n) check_acceptance(c, g, n);
  else check_refusal(c, &g->error);
  graph_free(g);
}

/* ---- operands ---- */

static void try_type(BadCall *c, int operand, const Type *type) {
  Type saved = c->type[operand], whole = *type;
  char text[TYPE_TEXT];
  Error ignored = {.status = OK};
  if (type_check(&ignored, "x", &whole) != OK) return; /* there is no such tensor */
  c->type[operand] = *type;
  c->operand = operand;
  snprintf(c->change, sizeof c->change, "operand %d %.90s", operand, type_text(type, text));
  try_call(c);
  c->operand = -1;
  c->type[operand] = saved;
}

static void change_operand(BadCall *c, int operand) {
  static const int64_t extents[] = {0, 1, 7, (int64_t)1 << 31, (int64_t)1 << 40, (int64_t)1 << 58};
  Type was = c->type[operand];
  for (int d = 0; d < DTYPE_COUNT; d++) {
    Type t = was;
    t.dtype = (Dtype)d;
    try_type(c, operand, &t);
  }
  for (int rank = 0; rank <= MAX_RANK; rank++) {
    Type t = was;
    t.rank = rank;
    for (int i = was.rank; i < rank; i++) t.shape[i] = 2;
    try_type(c, operand, &t);
  }
  for (int i = 0; i < was.rank; i++)
    for (size_t k = 0; k < sizeof extents / sizeof *extents; k++) {
      Type t = was;
      t.shape[i] = extents[k];
      try_type(c, operand, &t);
      for (int z = 0; z < was.rank; z++) /* an empty tensor may have any extents beside the 0 */
        if (z != i) t = was, t.shape[i] = extents[k], t.shape[z] = 0, try_type(c, operand, &t);
    }
}

/* All operands together: what broadcasts, is stacked or multiplied may be too much only as a result. */
static void enlarge_all(BadCall *c) {
  Type saved[SAMPLE_OPERANDS];
  memcpy(saved, c->type, sizeof saved);
  for (int axis = 0; axis < 4; axis++)
    for (int bits = 31; bits < 60; bits += 9) {
      bool any = false;
      for (int i = 0; i < c->sample->count; i++) {
        Error ignored = {.status = OK};
        if (axis >= c->type[i].rank) continue;
        c->type[i].shape[axis] = (int64_t)1 << bits;
        if (type_check(&ignored, "x", &c->type[i]) == OK) any = true;
        else c->type[i] = saved[i];
      }
      c->operand = 0;
      snprintf(c->change, sizeof c->change, "axis %d of all 2^%d", axis, bits);
      if (any) try_call(c);
      c->operand = -1;
      memcpy(c->type, saved, sizeof saved);
    }
}

/* ---- attributes ---- */

static void try_attr(BadCall *c, int i, Attr value, const char *words) {
  Attr saved = c->attr[i];
  c->attr[i] = value;
  c->attribute = i;
  snprintf(c->change, sizeof c->change, "%s = %s", c->sample->op->attrs[i].name, words);
  try_call(c);
  c->attribute = -1;
  c->attr[i] = saved;
}

static void change_list(BadCall *c, int i) {
  static const int64_t numbers[] = {0, -1, 1, 9, -9, (int64_t)1 << 31, (int64_t)1 << 40, INT64_MAX, INT64_MIN + 1};
  int64_t list[LONG_LIST];
  char words[80];
  for (int n = 0; n <= 9; n++)
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
      for (int j = 0; j < n; j++) list[j] = numbers[k];
      snprintf(words, sizeof words, "%d times %lld", n, (long long)numbers[k]);
      try_attr(c, i, attr_ints(list, n), words);
      for (int j = 1; j < n; j++) list[j] = 1;
      if (n > 1) try_attr(c, i, attr_ints(list, n), "the first one of them, then ones");
    }
  for (int j = 0; j < LONG_LIST; j++) list[j] = 1;
  try_attr(c, i, attr_ints(list, LONG_LIST), "33 ones");
  if (c->attr[i].kind != ATTR_INTS) return;
  int n = c->attr[i].ints.n;
  for (int at = 0; at < n && n < LONG_LIST; at++)
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
      memcpy(list, c->attr[i].ints.v, (size_t)n * sizeof *list);
      list[at] = numbers[k];
      snprintf(words, sizeof words, "element %d %lld", at, (long long)numbers[k]);
      try_attr(c, i, attr_ints(list, n), words);
    }
}

static void change_attr(BadCall *c, int i) {
  static const int64_t integers[] = {0, -1, 1, 2, 9, -9, INT32_MAX, (int64_t)1 << 31, (int64_t)1 << 40, INT64_MAX, INT64_MIN};
  static const double numbers[] = {0, -1, 1e300, -1e300, 1e-300, NAN, INFINITY, -INFINITY};
  char words[60];
  switch (c->sample->op->attrs[i].kind) {
    case ATTR_INT:
      for (size_t k = 0; k < sizeof integers / sizeof *integers; k++)
        snprintf(words, sizeof words, "%lld", (long long)integers[k]), try_attr(c, i, attr_int(integers[k]), words);
      break;
    case ATTR_FLOAT:
      for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        snprintf(words, sizeof words, "%g", numbers[k]), try_attr(c, i, attr_float(numbers[k]), words);
      break;
    case ATTR_BOOL:
      for (int k = 0; k < 2; k++) try_attr(c, i, attr_bool(k), k ? "true" : "false");
      break;
    case ATTR_DTYPE:
      for (int k = 0; k < DTYPE_COUNT; k++) try_attr(c, i, attr_dtype((Dtype)k), dtype_name((Dtype)k));
      break;
    case ATTR_STRING: /* the binding compares it with the choices, if there are any */
      if (!c->sample->op->attrs[i].choices) try_attr(c, i, attr_string("nonsense"), "nonsense"), try_attr(c, i, attr_string(""), "''");
      break;
    case ATTR_INTS: change_list(c, i); break;
    default: break;
  }
}

/* ---- rows ---- */

static void check_sample(Sweep *w, const Sample *s) {
  BadCall c = {.sweep = w, .sample = s, .operand = -1, .attribute = -1};
  for (int i = 0; i < s->count; i++) c.type[i] = sample_type(s, i, F32, I32);
  memcpy(c.attr, s->attr, sizeof c.attr);
  for (int i = 0; i < s->count; i++) change_operand(&c, i);
  enlarge_all(&c);
  for (int i = 0; i < op_attr_count(s->op); i++) change_attr(&c, i);
}

static void check_row(Sweep *w, const OpDef *op) {
  if (op->traits & (CONTROL | STATEFUL)) return; /* the binding makes them */
  const char *text = op->sample ? op->sample : "";
  Error e = {.status = OK};
  Sample s;
  Arena *arena = arena_new();
  int count = 0;
  while (sample_next(&e, arena, op, &text, &s)) check_sample(w, &s), count++;
  if (!count && !(op->traits & MARKER)) w->failed++, printf("FAIL %-24s has no sample\n", op->name);
  arena_free(arena);
}

int main(int argc, char **argv) {
  Sweep w = {0};
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (const OpDef *op = op_next(NULL); op; op = op_next(op))
    if (sample_wanted(op, argc, argv)) check_row(&w, op);
  w.failed += sample_unknown(argc, argv);
  printf("%d passed, %d failed\n", w.passed, w.failed);
  return w.failed ? 1 : 0;
}
