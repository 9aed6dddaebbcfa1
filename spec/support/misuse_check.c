/* Bad calls: each row's samples with one thing changed at a time: an operand's dtype, rank or an
 * extent, an attribute. A row may answer with an error. It begins with the op's name and has a
 * word, a shape or a number of this very call. Or the row takes the call. Then its results have
 * types that can be held, and its cost is a number. If nothing is large, it runs, and so do its
 * gradients. Rows that only gradients and programs call are called like all others. infer must find
 * all calls that would read or write beyond a buffer. A run may fail only for values of the
 * tensors. Arguments name rows. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "interpret.h"
#include "ops/ops.h"
#include "samples.h"
#include "target/cost.h"
#include "transform/autodiff.h"

enum { MAX_ELEMENTS = 1 << 16, LONG_LIST = 33 };

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
  else
    c->sweep->failed++, printf("FAIL %-24s %s with %s: %s\n", c->sample->op->name, c->sample->text,
                               c->change, detail);
}

/* ---- what a message may name: words, shapes and numbers of this very call ---- */

static bool in_word(char c) { return c == '_' || c == '.' || isalnum((unsigned char)c); }

/* Whether text stands in the message as a word of its own: "3" isn't in "13", "axis" isn't in
 * "axis_0". */
static bool says(const char *message, const char *text) {
  size_t length = strlen(text);
  for (const char *at = message; length && (at = strstr(at, text)); at++) {
    const char *after = at + length;
    bool ends = !in_word(*after) || (*after == '.' && !in_word(after[1]));
    if ((at == message || !in_word(at[-1])) && (ends || !in_word(text[length - 1]))) return true;
  }
  return false;
}

static bool says_integer(const char *message, int64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)number);
  return says(message, text);
}

static bool says_number(const char *message, double number) {
  char text[40];
  snprintf(text, sizeof text, "%g", number);
  return says(message, text);
}

static bool says_shape(const char *message, const Type *t) {
  char text[TYPE_TEXT];
  if (says(message, shape_text(t, text)) || says(message, type_text(t, text))) return true;
  for (int i = 0; i < t->rank; i++)
    if (t->shape[i] > 1 && says_integer(message, t->shape[i])) return true;
  return t->rank > 1 && says_integer(message, t->rank);
}

static bool says_attr(const char *message, const AttrDef *def, const Attr *a) {
  bool found = says(message, def->name);
  switch (a->kind) {
    case ATTR_INT:
      return found || says_integer(message, a->i);
    case ATTR_FLOAT:
      return found || says_number(message, a->f);
    case ATTR_DTYPE:
      return found || says(message, dtype_name((Dtype)a->i));
    case ATTR_STRING:
      return found || says(message, a->s);
    case ATTR_INTS:
      for (int i = 0; i < a->ints.n; i++) found = found || says_integer(message, a->ints.v[i]);
      return found;
    default:
      return found;
  }
}

static bool says_input(const char *message, const OpDef *op, int operand) {
  char name[60];
  if (operand >= MAX_INPUTS || !op->inputs[operand]) return false;
  snprintf(name, sizeof name, "%s", op->inputs[operand]);
  name[strcspn(name, "?")] = 0;
  return says(message, name);
}

/* "result: float32[…] is too large": then it has to be. */
static bool is_too_large(const char *message) {
  double count = 1;
  const char *at = strchr(message, '[');
  if (strncmp(message, "result: ", 8) || !at || !strstr(at, " is too large")) return false;
  for (char *end; *at == '[' || *at == ','; at = end) count *= (double)strtoll(at + 1, &end, 10);
  return *at == ']' && count * 8 > 0x1p47;
}

/* Words that may name the fault: the changed operand's name, dtype or a number of it, or another
 * operand's shape or an attribute that it doesn't go with. */
static bool names_something(const BadCall *c, const char *message) {
  const OpDef *op = c->sample->op;
  if (is_too_large(message)) return true;
  if (c->operand >= 0 && says(message, dtype_name(c->type[c->operand].dtype))) return true;
  for (int i = 0; i < c->sample->count; i++)
    if (says_shape(message, &c->type[i]) || says_input(message, op, i)) return true;
  for (int i = 0; i < op_attr_count(op); i++)
    if (says_attr(message, &op->attrs[i], &c->attr[i])) return true;
  return false;
}

/* A refusal opens with the op's name; what follows it, or NULL. */
static const char *after_name(const BadCall *c, const char *message) {
  size_t length = strlen(c->sample->op->name);
  bool opens =
      !strncmp(message, c->sample->op->name, length) && !strncmp(message + length, ": ", 2);
  return opens ? message + length + 2 : NULL;
}

static void check_refusal(const BadCall *c, const Error *e) {
  bool internal = c->sample->op->traits & INTERNAL; /* nobody calls these but gradients */
  const char *reason = after_name(c, e->message);
  expect(c, e->status != ERR_INTERNAL && reason && (internal || names_something(c, reason)),
         e->message);
}

static bool is_small(const Node *n) {
  int64_t count = 0;
  for (int i = 0; i < n->in_count; i++) count += type_count(&n->in[i]->type);
  for (int i = 0; i < n->out_count; i++) count += type_count(&n->out[i].type);
  return count <= MAX_ELEMENTS && (!n->op->scratch || n->op->scratch(n) < 1u << 22);
}

/* Calls that fail at run time alone, by a value of an operand, which is told, or by the number of
 * replicas, which is an attribute. All else infer could have known. */
static void check_failure(const BadCall *c, const Error *e, Tensor *const *in) {
  const OpDef *op = c->sample->op;
  const char *reason = after_name(c, e->message);
  /* which matrix of a batch can't be */
  bool names = (op->traits & INTERNAL) || (reason && strstr(reason, "matrix "));
  for (int i = 0; reason && i < op_attr_count(op); i++)
    names = names || says_attr(reason, &op->attrs[i], &c->attr[i]);
  for (int i = 0; reason && i < c->sample->count; i++) {
    names = names || says_input(reason, op, i);
    bool whole = in[i] && dtype_is_integer(in[i]->type.dtype);
    for (int64_t k = 0; whole && !names && k < type_count(&in[i]->type); k++)
      names = says_integer(reason, (int64_t)tensor_get(in[i], k));
  }
  expect(c, e->status != ERR_INTERNAL && reason && names, e->message);
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
      double number = wild && (o->letter == 'I' || o->letter == 'S') ? far[k % 6]
                      : values                                       ? o->value[k % values]
                                                                     : 0.5;
      dtype_set(in[i]->type.dtype, in[i]->data, k, number);
    }
  }
  if (e.status == OK && out) interpret_node(&e, n, in, out, NULL, -1);
  if (e.status != OK) check_failure(c, &e, in);
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
  /* "… has no gradient" is one. */
  bool good = n->op->traits & INTERNAL || g->error.status == ERR_NOT_IMPLEMENTED;
  if (g->error.status != OK) expect(c, good && g->error.status != ERR_INTERNAL, g->error.message);
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

/* All operands together: what broadcasts, is stacked or multiplied may be too much only as a
 * result. */
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
  static const int64_t numbers[] = {
      0, -1, 1, 9, -9, (int64_t)1 << 31, (int64_t)1 << 40, INT64_MAX, INT64_MIN + 1};
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
  static const int64_t integers[] = {
      0, -1, 1, 2, 9, -9, INT32_MAX, (int64_t)1 << 31, (int64_t)1 << 40, INT64_MAX, INT64_MIN};
  static const double numbers[] = {0, -1, 1e300, -1e300, 1e-300, NAN, INFINITY, -INFINITY};
  char words[60];
  switch (c->sample->op->attrs[i].kind) {
    case ATTR_INT:
      for (size_t k = 0; k < sizeof integers / sizeof *integers; k++)
        snprintf(words, sizeof words, "%lld", (long long)integers[k]),
            try_attr(c, i, attr_int(integers[k]), words);
      break;
    case ATTR_FLOAT:
      for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        snprintf(words, sizeof words, "%g", numbers[k]),
            try_attr(c, i, attr_float(numbers[k]), words);
      break;
    case ATTR_BOOL:
      for (int k = 0; k < 2; k++) try_attr(c, i, attr_bool(k), k ? "true" : "false");
      break;
    case ATTR_DTYPE:
      for (int k = 0; k < DTYPE_COUNT; k++)
        try_attr(c, i, attr_dtype((Dtype)k), dtype_name((Dtype)k));
      break;
    case ATTR_STRING: /* the binding compares it with the choices, if there are any */
      if (!c->sample->op->attrs[i].choices)
        try_attr(c, i, attr_string("nonsense"), "nonsense"), try_attr(c, i, attr_string(""), "''");
      break;
    case ATTR_INTS:
      change_list(c, i);
      break;
    default:
      break;
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
