#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

Graph *graph_new(void) {
  Graph *g = calloc(1, sizeof *g);
  if (g) g->arena = arena_new();
  if (!g || !g->arena) {
    free(g);
    return NULL;
  }
  g->scope.place = PLACEMENT_NONE;
  return g;
}

Graph *graph_beside(const Graph *other) {
  Graph *g = graph_new();
  if (g) g->scope = other->scope, g->next_stream = other->next_stream, g->apart = other->apart;
  return g;
}

void graph_free(Graph *g) {
  if (!g) return;
  for (int i = 0; i < g->held_count; i++) tensor_release(g->held[i]);
  for (int i = 0; i < g->object_count; i++) object_release(g->object[i]);
  for (int i = 0; i < g->region_count; i++) graph_free(g->region[i]);
  free(g->held);
  free(g->object);
  free(g->region);
  free(g->node);
  free(g->input);
  free(g->output);
  arena_free(g->arena);
  free(g);
}

GraphMark graph_mark(const Graph *g) {
  return (GraphMark){arena_mark(g->arena), g->scope,        g->node_count,
                     g->next_id,           g->input_count,  g->output_count,
                     g->held_count,        g->object_count, g->region_count};
}

void graph_rewind(Graph *g, const GraphMark *m) {
  while (g->held_count > m->held) tensor_release(g->held[--g->held_count]);
  while (g->object_count > m->objects) object_release(g->object[--g->object_count]);
  while (g->region_count > m->regions) graph_free(g->region[--g->region_count]);
  g->node_count = m->nodes, g->next_id = m->next_id, g->input_count = m->inputs,
  g->output_count = m->outputs;
  g->scope = m->scope;
  arena_rewind(g->arena, &m->arena);
}

Status graph_error(const Graph *g) { return g->error.status; }

static void *out_of_memory(Graph *g) {
  fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory while building a graph of %d nodes",
       g->node_count);
  return NULL;
}

/* ---- attributes ---- */

Attr attr_int(int64_t i) { return (Attr){.kind = ATTR_INT, .i = i}; }
Attr attr_float(double f) { return (Attr){.kind = ATTR_FLOAT, .f = f}; }
Attr attr_bool(bool b) { return (Attr){.kind = ATTR_BOOL, .i = b}; }
Attr attr_string(const char *s) { return (Attr){.kind = ATTR_STRING, .s = s}; }
Attr attr_dtype(Dtype d) { return (Attr){.kind = ATTR_DTYPE, .i = d}; }
Attr attr_ints(const int64_t *v, int n) { return (Attr){.kind = ATTR_INTS, .ints = {v, n, false}}; }

int op_attr_count(const OpDef *op) {
  int n = 0;
  while (n < MAX_ATTRS && op->attrs[n].name) n++;
  return n;
}

int op_input_count(const OpDef *op, int *required) {
  int n = 0, needed = 0;
  while (n < MAX_INPUTS && op->inputs[n]) {
    size_t length = strlen(op->inputs[n++]);
    if (op->inputs[n - 1][length - 1] != '?') needed = n;
  }
  if (required) *required = needed;
  return n;
}

Dtype op_number_dtype(const OpDef *op, int i, Dtype beside) {
  if (i < 0) return beside;
  bool named = !(op->traits & VARIADIC) && i < MAX_INPUTS && op->inputs[i];
  if (i < INDEX_INPUTS && op->traits & INDICES(i)) return I32;
  if ((op->traits & SELECTS && i == 0) || (named && !strcmp(op->inputs[i], "mask?"))) return BOOL;
  return op->traits & HALF_OF_BYTES && beside == U8 ? F16 : beside;
}

static bool parse_ints(Arena *a, const char *s, Attr *out) {
  int64_t v[16];
  int n = 0;
  bool listed = *s == '{';
  for (s += *s == '{'; *s && *s != '}' && n < 16;) {
    char *end;
    v[n++] = strtoll(s, &end, 10);
    for (s = end; *s == ',' || *s == ' '; s++) {
    }
  }
  const int64_t *copy = arena_copy(a, v, (size_t)n * sizeof *v);
  *out = attr_ints(copy, n);
  out->ints.listed = listed;
  return copy != NULL;
}

static bool parse_text(Arena *a, const AttrDef *def, Attr *out) {
  char *text = arena_string(a, def->fallback + 1); /* without the quotes */
  if (!text) return false;
  if (*text) text[strlen(text) - 1] = 0;
  Dtype d = F32;
  if (def->kind == ATTR_DTYPE) dtype_find(text, &d);
  *out = def->kind == ATTR_STRING ? attr_string(text) : attr_dtype(d);
  return true;
}

bool attr_fallback(Arena *a, const AttrDef *def, Attr *out) {
  const char *s = def->fallback;
  *out = (Attr){.kind = ATTR_NONE};
  if (!s || !strcmp(s, "nil")) return true;
  switch (def->kind) {
    case ATTR_INT:
      return *out = attr_int(strtoll(s, NULL, 10)), true;
    case ATTR_FLOAT:
      return *out = attr_float(text_number(s, NULL)), true;
    case ATTR_BOOL:
      return *out = attr_bool(!strcmp(s, "true")), true;
    case ATTR_INTS:
      return parse_ints(a, s, out);
    case ATTR_STRING:
    case ATTR_DTYPE:
      return parse_text(a, def, out);
    default:
      return true;
  }
}

static bool hold_object(Graph *g, Object *o) {
  if (!array_reserve(&g->object, &g->object_capacity, g->object_count + 1, sizeof *g->object))
    return false;
  g->object[g->object_count++] = object_retain(o);
  return true;
}

static bool hold_tensor(Graph *g, Tensor *t) {
  if (!array_reserve(&g->held, &g->held_capacity, g->held_count + 1, sizeof *g->held)) return false;
  g->held[g->held_count++] = tensor_retain(t);
  return true;
}

void graph_pass_stream(Graph *g, int stream) {
  if (stream >= g->next_stream) g->next_stream = stream + 1;
}

void graph_stand_at(Graph *g, const Node *like) {
  g->scope = (Scope){like->place, arena_string(g->arena, like->source),
                     arena_string(g->arena, like->name), arena_string(g->arena, like->attributes)};
}

void graph_adopt(Graph *g, Graph *region) {
  if (!region) return;
  graph_pass_stream(g, region->next_stream - 1);
  if (!array_reserve(&g->region, &g->region_capacity, g->region_count + 1, sizeof *g->region)) {
    out_of_memory(g);
    graph_free(region);
    return;
  }
  g->region[g->region_count++] = region;
}

/* Attributes move into the graph: lists and strings are copied, tensors and objects retained. */
static bool copy_attr(Graph *g, Attr *to, const Attr *from) {
  *to = *from;
  switch (from->kind) {
    case ATTR_STRING:
      to->s = arena_string(g->arena, from->s);
      return !from->s || to->s;
    case ATTR_INTS:
      to->ints.v = arena_copy(g->arena, from->ints.v, (size_t)from->ints.n * sizeof *from->ints.v);
      return to->ints.v != NULL;
    case ATTR_TENSOR:
      return hold_tensor(g, from->tensor);
    case ATTR_OBJECT:
      return hold_object(g, from->object);
    default:
      return true;
  }
}

/* ---- nodes ---- */

static Node *new_node(Graph *g, const OpDef *op, Value *const *in, int in_count) {
  Node *n = arena_alloc(g->arena, sizeof *n);
  if (!n) return NULL;
  n->op = op;
  n->arena = g->arena;
  n->in_count = in_count;
  n->in = arena_copy(g->arena, in, (size_t)in_count * sizeof *in);
  n->out = arena_alloc(g->arena, MAX_OUTPUTS * sizeof *n->out);
  n->attr = arena_alloc(g->arena, (size_t)op_attr_count(op) * sizeof *n->attr);
  if (!n->in || !n->out || !n->attr) return NULL;
  n->out_count = op->outputs < 0 ? 0 : op->outputs > 0 ? op->outputs : 1;
  for (int i = 0; i < MAX_OUTPUTS; i++) n->out[i].node = n, n->out[i].index = i;
  n->place = g->scope.place;
  n->source = g->scope.source;
  n->name = g->scope.prefix;
  n->attributes = g->scope.attributes;
  return n;
}

bool node_outputs(Arena *a, Node *n, int count) {
  if (count > MAX_OUTPUTS) {
    n->out = arena_alloc(a, (size_t)count * sizeof *n->out);
    if (!n->out) return false;
    for (int i = 0; i < count; i++) n->out[i].node = n, n->out[i].index = i;
  }
  n->out_count = count;
  return true;
}

static bool append(Graph *g, Node *n) {
  if (!array_reserve(&g->node, &g->node_capacity, g->node_count + 1, sizeof *g->node)) return false;
  n->id = g->next_id++;
  n->stream = g->next_stream++;
  g->node[g->node_count++] = n;
  return true;
}

Status node_infer(Error *e, Node *n) {
  Error inner = {0};
  const OpDef *op = n->op;
  Status s = op->infer ? op->infer(&inner, n) : OK;
  for (int i = 0; s == OK && i < n->out_count; i++)
    s = type_check(&inner, "result", &n->out[i].type);
  if (s != OK) {
    fail_at(e, n->source, s, "%s: %s", op->name, inner.message);
  }
  return s;
}

Node *graph_node(Graph *g, const OpDef *op, Value *const *in, int in_count, const Attr *attrs) {
  if (g->error.status != OK) return NULL;
  if (!op) {
    fail(&g->error, ERR_INTERNAL, "a gradient names an op that does not exist");
    return NULL;
  }
  for (int i = 0; i < in_count; i++)
    if (!in[i]) {
      fail_at(&g->error, g->scope.source, ERR_INTERNAL, "%s: operand %d is missing", op->name, i);
      return NULL;
    }
  Node *n = new_node(g, op, in, in_count);
  if (!n) return out_of_memory(g);
  for (int i = 0; i < op_attr_count(op); i++) {
    Attr fallback;
    bool given = attrs && attrs[i].kind != ATTR_NONE;
    if (!given && !attr_fallback(g->arena, &op->attrs[i], &fallback)) return out_of_memory(g);
    if (!copy_attr(g, &n->attr[i], given ? &attrs[i] : &fallback)) return out_of_memory(g);
  }
  if (node_infer(&g->error, n) != OK) return NULL;
  return append(g, n) ? n : out_of_memory(g);
}

Value *graph_apply(Graph *g, const OpDef *op, Value *const *in, int in_count, const Attr *attrs) {
  Node *n = graph_node(g, op, in, in_count, attrs);
  return n ? &n->out[0] : NULL;
}

/* ---- the two ops that a graph itself needs ---- */

static const OpDef input_op = {
    .name = "input", .summary = "A graph's argument.", .traits = INTERNAL};
static const OpDef constant_op = {.name = "constant",
                                  .summary = "A value known when tracing.",
                                  .traits = INTERNAL,
                                  .attrs = {{.name = "value", .kind = ATTR_TENSOR}}};

bool node_is_input(const Node *n) { return n->op == &input_op; }
bool node_is_constant(const Node *n) { return n->op == &constant_op; }
bool node_is_made(const Node *n) { return !node_is_input(n) && !node_is_constant(n); }

bool placement_equal(const Placement *p, const Placement *q) {
  return p->device == q->device && p->shard == q->shard && p->stage == q->stage &&
         p->backward == q->backward && p->stochastic_rounding == q->stochastic_rounding &&
         p->half_products == q->half_products && p->half_convolutions == q->half_convolutions &&
         p->product_share == q->product_share && p->convolution_share == q->convolution_share;
}

bool node_same_place(const Node *a, const Node *b) { return placement_equal(&a->place, &b->place); }

static Node *leaf(Graph *g, const OpDef *op, const Type *type) {
  if (g->error.status != OK) return NULL;
  Node *n = new_node(g, op, NULL, 0);
  if (!n) return out_of_memory(g);
  n->out[0].type = *type;
  return append(g, n) ? n : out_of_memory(g);
}

static Value *add_input(Graph *g, Value *v) {
  if (!array_reserve(&g->input, &g->input_capacity, g->input_count + 1, sizeof *g->input))
    return out_of_memory(g);
  return g->input[g->input_count++] = v;
}

Value *graph_input(Graph *g, const Type *type, const char *name) {
  Node *n = leaf(g, &input_op, type);
  if (!n) return NULL;
  n->name = arena_string(g->arena, name);
  return add_input(g, &n->out[0]);
}

void graph_make_constant(Graph *g, Node *n, Tensor *t) {
  Attr *attr = arena_alloc(g->arena, sizeof *attr);
  if (!attr || !hold_tensor(g, t)) {
    out_of_memory(g);
    return;
  }
  *attr = (Attr){.kind = ATTR_TENSOR, .tensor = t};
  n->op = &constant_op;
  n->in_count = 0;
  n->attr = attr;
}

Value *graph_constant(Graph *g, Tensor *t) {
  if (g->error.status != OK || !t) return NULL;
  Tensor *dense = tensor_dense(&g->error, t);
  if (!dense) return NULL;
  Node *n = leaf(g, &constant_op, &t->type);
  bool held = n && hold_tensor(g, dense);
  tensor_release(dense);
  if (!held) return out_of_memory(g);
  n->attr[0] = (Attr){.kind = ATTR_TENSOR, .tensor = dense};
  return &n->out[0];
}

Value *graph_take_constant(Graph *g, Tensor *t) {
  Value *v = t ? graph_constant(g, t) : NULL;
  tensor_release(t);
  return v;
}

Value *graph_number(Graph *g, Dtype d, double value) {
  if (g->error.status != OK) return NULL;
  Type type = type_scalar(d);
  Tensor *t = tensor_new(&g->error, &type);
  if (t) dtype_set(d, t->data, 0, value);
  return graph_take_constant(g, t);
}

void graph_output(Graph *g, Value *v) {
  if (g->error.status != OK || !v) return;
  if (!array_reserve(&g->output, &g->output_capacity, g->output_count + 1, sizeof *g->output))
    out_of_memory(g);
  else g->output[g->output_count++] = v;
}
