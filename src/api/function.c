/* Ops at once, and functions: values written down in a trace, then compiled. */
#include <stdlib.h>
#include <string.h>

#include "api/attributes.h"
#include "api/context.h"
#include "engine/eager.h"
#include "engine/run.h"
#include "ops/ops.h"
#include "transform/autodiff.h"
#include "transform/trace_gradient.h"

struct ipu_builder {
  ipu_context *context;
  Trace *trace;   /* NULL: finished */
  bool has_begun; /* something but arguments was added */
};

struct ipu_function {
  ipu_context *context;
  Program *program;
};

/* ---- ops ---- */

static bool is_open(const OpDef *op) { return !(op->traits & (INTERNAL | CONTROL)); }

const char *ipu_op_name(int index) {
  const OpDef *op = op_next(NULL);
  for (; op; op = op_next(op))
    if (is_open(op) && index-- == 0) return op->name;
  return NULL;
}

const char *ipu_op_summary(const char *name) {
  const OpDef *op = name ? op_find(name) : NULL;
  return op && is_open(op) ? op->summary : NULL;
}

const char *ipu_op_number_dtype(const char *name, int input, const char *beside) {
  const OpDef *op = name ? op_find(name) : NULL;
  Dtype d = DTYPE_COUNT;
  if (!op || !is_open(op) || (beside && !dtype_find(beside, &d))) return "";
  d = op_number_dtype(op, input, d);
  return d == DTYPE_COUNT ? "" : dtype_name(d);
}

static int visible_outputs(const OpDef *op, int count) {
  return op->visible_outputs ? op->visible_outputs : count;
}

static Status check_capacity(Error *e, const char *what, int count, int capacity) {
  if (count <= capacity) return OK;
  return fail(e, ERR_INVALID_ARGUMENT, "%s: there %s %d result%s, and room for %d", what,
              count == 1 ? "is" : "are", count, plural(count), capacity);
}

/* The seed and the counter of a random op that is called at once. If the caller gives a seed, the
 * numbers depend on it alone. Otherwise they depend on how many were drawn before. */
static Tensor *eager_counter(Error *e, Engine *g, const OpDef *op, Attr *attr) {
  Type type = type_scalar(I64);
  Tensor *t = tensor_new(e, &type);
  Attr *seed = &attr[op_attr_count(op) - 2];
  if (!t || seed->kind != ATTR_NONE) return t;
  *seed = attr_int((int64_t)g->seed);
  dtype_set_integer(I64, t->data, 0, g->random_count++);
  return t;
}

/* A call that failed returns no objects: pointers in the caller's list are NULL and may be
 * freed. */
static int give_none(int status, void *outputs, int capacity) {
  void **list = outputs;
  for (int i = 0; list && i < capacity; i++) list[i] = NULL;
  return status;
}

static void give_out(ipu_context *c, const char *what, Tensor **list, int total, int visible,
                     ipu_tensor **outputs, int capacity, int *count) {
  bool fits = check_capacity(&c->error, what, visible, capacity) == OK;
  for (int i = 0; i < total; i++) {
    /* reshaping shares elements, a caller may write */
    if (fits && i < visible) outputs[i] = handle_of(tensor_own(&c->error, list[i]));
    else tensor_release(list[i]);
  }
  bool given = c->error.status == OK;
  for (int i = 0; !given && fits && i < visible; i++) ipu_tensor_free(outputs[i]);
  if (count) *count = given ? visible : 0;
}

static int apply_now(ipu_context *c, const char *name, ipu_tensor *const *inputs, int input_count,
                     const char *attributes, ipu_tensor **outputs, int capacity,
                     int *output_count) {
  if (output_count) *output_count = 0;
  if (!context_given(c, "ipu_apply",
                     (Given[]){{"outputs", capacity > 0 ? (const void *)outputs : ""}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  Error *e = context_begin(c);
  if (context_check_list(e, name ? name : "ipu_apply", inputs, input_count) != OK)
    return context_end(c);
  const OpDef *op = attributes_op(e, name, input_count);
  if (!op) return context_end(c);
  Attributes a;
  Tensor **in = malloc((size_t)(input_count + 1) * sizeof *in), *counter = NULL, **out = NULL;
  if (!in) return context_fail(c, ERR_OUT_OF_MEMORY, "out of memory");
  int total = 0;
  int64_t draws = c->engine->random_count;
  for (int i = 0; i < input_count; i++) in[i] = tensor_of(inputs[i]);
  if (attributes_read(e, op, attributes, &a) == OK && (op->traits & RANDOM))
    in[input_count++] = counter = eager_counter(e, c->engine, op, a.attr);
  if (e->status == OK) eager_apply(c->engine, op, in, input_count, a.attr, NULL, &out, &total, e);
  if (e->status == OK)
    give_out(c, name, out, total, visible_outputs(op, total), outputs, capacity, output_count);
  if (e->status != OK) c->engine->random_count = draws;
  free(in);
  free(out);
  tensor_release(counter);
  attributes_clear(&a);
  return context_end(c);
}

int ipu_apply(ipu_context *c, const char *name, ipu_tensor *const *inputs, int input_count,
              const char *attributes, ipu_tensor **outputs, int capacity, int *output_count) {
  int status = apply_now(c, name, inputs, input_count, attributes, outputs, capacity, output_count);
  return status == IPU_OK ? status : give_none(status, outputs, capacity);
}

/* ---- variables ---- */

int ipu_variable_new(ipu_context *c, const char *name, const ipu_tensor *initial,
                     ipu_variable **out) {
  if (out) *out = NULL;
  if (!context_given(c, "ipu_variable_new", (Given[]){{"initial", initial}, {"out", out}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  Error *e = context_begin(c);
  const Tensor *t = tensor_of(initial);
  Variable *v = variable_new(e, name ? name : "variable", &t->type, true);
  if (!v) return context_end(c);
  if (variable_assign(e, v, t) == OK) *out = (ipu_variable *)v;
  else variable_release(v);
  return context_end(c);
}

void ipu_variable_free(ipu_variable *v) { variable_release(variable_of(v)); }

int ipu_variable_read(ipu_context *c, const ipu_variable *v, ipu_tensor **out) {
  if (out) *out = NULL;
  if (!context_given(c, "ipu_variable_read", (Given[]){{"v", v}, {"out", out}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  Error *e = context_begin(c);
  *out = handle_of(tensor_from(e, &variable_of(v)->type, variable_of(v)->value->data));
  return context_end(c);
}

int ipu_variable_assign(ipu_context *c, ipu_variable *v, const ipu_tensor *t) {
  if (!context_given(c, "ipu_variable_assign", (Given[]){{"v", v}, {"t", t}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  variable_assign(context_begin(c), variable_of(v), tensor_of(t));
  return context_end(c);
}

/* ---- building ---- */

int ipu_builder_new(ipu_context *c, ipu_builder **out) {
  if (out) *out = NULL;
  if (!context_given(c, "ipu_builder_new", (Given[]){{"out", out}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  context_begin(c);
  ipu_builder *b = calloc(1, sizeof *b);
  if (b) b->trace = trace_new(NULL);
  if (!b || !b->trace) {
    free(b);
    return context_fail(c, ERR_OUT_OF_MEMORY, "out of memory");
  }
  b->trace->graph->scope.place = PLACEMENT_NONE;
  b->context = context_retain(c);
  *out = b;
  return IPU_OK;
}

void ipu_builder_free(ipu_builder *b) {
  if (!b) return;
  trace_free(b->trace);
  ipu_context_free(b->context);
  free(b);
}

/* NULL, with the error filled, once the builder has finished. */
static Graph *begin(ipu_builder *b) {
  Error *e = context_begin(b->context);
  if (!b->trace) fail(e, ERR_FAILED_PRECONDITION, "the builder has finished; it can only be freed");
  return b->trace ? b->trace->graph : NULL;
}

/* The graph's error becomes the context's; nodes added before it stay valid. */
static int end(ipu_builder *b) {
  if (b->trace && b->trace->graph->error.status != OK) {
    if (b->context->error.status == OK) b->context->error = b->trace->graph->error;
    error_clear(&b->trace->graph->error);
  }
  return context_end(b->context);
}

static Status check_values(ipu_builder *b, const char *what, ipu_value *const *values, int count) {
  Error *e = &b->context->error;
  if (context_check_list(e, what, values, count) != OK) return e->status;
  for (int i = 0; i < count; i++)
    if (!trace_owns(b->trace, (const Value *)values[i]))
      return fail(e, ERR_INVALID_ARGUMENT, "%s: value %d is another builder's", what, i);
  return OK;
}

int ipu_builder_argument(ipu_builder *b, const char *dtype, int rank, const int64_t *shape,
                         ipu_value **out) {
  if (out) *out = NULL;
  if (!context_given(b ? b->context : NULL, "ipu_builder_argument", (Given[]){{"out", out}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  Graph *g = begin(b);
  Type type;
  if (!g || context_read_type(&b->context->error, "ipu_builder_argument", dtype, rank, shape,
                              &type) != OK)
    return end(b);
  if (b->has_begun)
    return context_fail(b->context, ERR_FAILED_PRECONDITION,
                        "ipu_builder_argument: arguments come before anything else");
  *out = (ipu_value *)trace_argument(b->trace, &type, NULL);
  return end(b);
}

int ipu_builder_constant(ipu_builder *b, ipu_tensor *t, ipu_value **out) {
  if (out) *out = NULL;
  if (!context_given(b ? b->context : NULL, "ipu_builder_constant",
                     (Given[]){{"t", t}, {"out", out}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  Graph *g = begin(b);
  if (!g) return end(b);
  b->has_begun = true;
  /* t may be written to later */
  Tensor *own = tensor_from(&b->context->error, &tensor_of(t)->type, tensor_of(t)->data);
  if (own) *out = (ipu_value *)graph_constant(g, own);
  tensor_release(own);
  return end(b);
}

int ipu_builder_read(ipu_builder *b, ipu_variable *v, ipu_value **out) {
  if (out) *out = NULL;
  if (!context_given(b ? b->context : NULL, "ipu_builder_read",
                     (Given[]){{"v", v}, {"out", out}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  if (!begin(b)) return end(b);
  b->has_begun = true;
  *out = (ipu_value *)trace_read(b->trace, variable_of(v));
  return end(b);
}

int ipu_builder_assign(ipu_builder *b, ipu_variable *v, ipu_value *value) {
  if (!context_given(b ? b->context : NULL, "ipu_builder_assign", (Given[]){{"v", v}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  if (!begin(b) || check_values(b, "ipu_builder_assign", &value, 1) != OK) return end(b);
  const Variable *to = variable_of(v);
  char want[TYPE_TEXT], got[TYPE_TEXT];
  const Type *type = &((Value *)value)->type;
  if (!type_equal(&to->type, type))
    return context_fail(b->context, ERR_INVALID_ARGUMENT, "variable '%s' is %s, got %s", to->name,
                        type_text(&to->type, want), type_text(type, got));
  b->has_begun = true;
  trace_assign_value(b->trace, variable_of(v), (Value *)value);
  return end(b);
}

/* A random op in a function counts its runs in a variable. The counter begins with the seed, unless
 * the op has one of its own. */
static Value *traced_counter(ipu_builder *b, const OpDef *op, Attr *attr) {
  ipu_context *c = b->context;
  Trace *t = b->trace;
  int seed = op_attr_count(op) - 2;
  bool fixed = attr[seed].kind != ATTR_NONE;
  if (!fixed) {
    attr[seed] = attr_int(0);
    attr[seed + 1] = attr_int(++c->stream);
  }
  Type type = type_scalar(I64);
  Variable *v = variable_new(&c->error, "random_step", &type, false);
  if (v) v->counts_runs = true, v->value = tensor_new(&c->error, &type);
  bool good = v && v->value && (fixed || context_keep_counter(c, v) == OK);
  Value *now = good ? trace_read(t, v) : NULL;
  if (now) trace_assign(t, v, ops_add(t->graph, now, graph_number(t->graph, I64, 1)));
  variable_release(v);
  return now;
}

static void apply(ipu_builder *b, const OpDef *op, ipu_value *const *inputs, int count, Attr *attr,
                  ipu_value **outputs, int capacity, int *output_count) {
  Error *e = &b->context->error;
  Value **in = malloc((size_t)(count + 1) * sizeof *in);
  if (!in) {
    fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    return;
  }
  for (int i = 0; i < count; i++) in[i] = (Value *)inputs[i];
  if (op->traits & RANDOM) in[count++] = traced_counter(b, op, attr);
  Node *n = e->status == OK ? graph_node(b->trace->graph, op, in, count, attr) : NULL;
  free(in);
  int visible = n ? visible_outputs(op, n->out_count) : 0;
  if (!n || check_capacity(e, op->name, visible, capacity) != OK) return;
  for (int i = 0; i < visible; i++) outputs[i] = (ipu_value *)&n->out[i];
  if (output_count) *output_count = visible;
}

static int builder_apply(ipu_builder *b, const char *name, ipu_value *const *inputs, int count,
                         const char *attributes, ipu_value **outputs, int capacity,
                         int *output_count) {
  if (output_count) *output_count = 0;
  if (!context_given(b ? b->context : NULL, "ipu_builder_apply",
                     (Given[]){{"outputs", capacity > 0 ? (const void *)outputs : ""}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  Error *e = &b->context->error;
  if (!begin(b) || check_values(b, name ? name : "ipu_builder_apply", inputs, count) != OK)
    return end(b);
  const OpDef *op = attributes_op(e, name, count);
  if (e->status != OK) return end(b);
  b->has_begun = true;
  Attributes a;
  if (attributes_read(e, op, attributes, &a) == OK)
    apply(b, op, inputs, count, a.attr, outputs, capacity, output_count);
  attributes_clear(&a);
  return end(b);
}

int ipu_builder_apply(ipu_builder *b, const char *name, ipu_value *const *inputs, int count,
                      const char *attributes, ipu_value **outputs, int capacity,
                      int *output_count) {
  int status = builder_apply(b, name, inputs, count, attributes, outputs, capacity, output_count);
  return status == IPU_OK ? status : give_none(status, outputs, capacity);
}

/* By values xs, or by variables vs: the other list is NULL. */
static void differentiate(ipu_builder *b, ipu_value *y, ipu_value *const *xs,
                          ipu_variable *const *vs, int count, ipu_value **gradients) {
  size_t room = (size_t)count + 1;
  Value *ys = (Value *)y, **in = malloc(2 * room * sizeof *in);
  Source *source = calloc(room, sizeof *source);
  if (in && source) {
    Value **dx = in + room;
    for (int i = 0; i < count; i++) dx[i] = NULL;
    for (int i = 0; xs && i < count; i++) in[i] = (Value *)xs[i];
    for (int i = 0; vs && i < count; i++) source[i].variable = variable_of(vs[i]);
    if (xs) autodiff(b->trace->graph, &ys, NULL, 1, in, count, dx);
    else trace_gradients(b->trace, &ys, NULL, 1, source, count, NULL, 0, dx);
    for (int i = 0; i < count; i++) gradients[i] = (ipu_value *)dx[i];
  } else {
    fail(&b->context->error, ERR_OUT_OF_MEMORY, "out of memory");
  }
  free(in);
  free(source);
}

int ipu_builder_gradients(ipu_builder *b, ipu_value *y, ipu_value *const *xs, int count,
                          ipu_value **gradients) {
  if (!context_given(b ? b->context : NULL, "ipu_builder_gradients",
                     (Given[]){{"gradients", count > 0 ? (const void *)gradients : ""}, {0}}))
    return give_none(IPU_E_INVALID_ARGUMENT, gradients, count);
  if (begin(b) && check_values(b, "ipu_builder_gradients: y", &y, 1) == OK &&
      check_values(b, "ipu_builder_gradients: xs", xs, count) == OK && (b->has_begun = true))
    differentiate(b, y, xs ? xs : (ipu_value *const *)&y, NULL, count, gradients);
  int status = end(b);
  return status == IPU_OK ? status : give_none(status, gradients, count);
}

int ipu_builder_variable_gradients(ipu_builder *b, ipu_value *y, ipu_variable *const *vs, int count,
                                   ipu_value **gradients) {
  static const char name[] = "ipu_builder_variable_gradients";
  if (!context_given(b ? b->context : NULL, name,
                     (Given[]){{"gradients", count > 0 ? (const void *)gradients : ""}, {0}}))
    return give_none(IPU_E_INVALID_ARGUMENT, gradients, count);
  if (begin(b) && check_values(b, name, &y, 1) == OK &&
      context_check_list(&b->context->error, name, vs, count) == OK && (b->has_begun = true))
    differentiate(b, y, NULL, vs, count, gradients);
  int status = end(b);
  return status == IPU_OK ? status : give_none(status, gradients, count);
}

const char *ipu_value_dtype(const ipu_value *v) {
  return v ? dtype_name(((const Value *)v)->type.dtype) : "";
}
int ipu_value_rank(const ipu_value *v) { return v ? ((const Value *)v)->type.rank : 0; }
int64_t ipu_value_extent(const ipu_value *v, int axis) {
  return v && axis >= 0 && axis < ((const Value *)v)->type.rank
             ? ((const Value *)v)->type.shape[axis]
             : -1;
}

static Program *compile(ipu_builder *b, ipu_value *const *results, int count) {
  Error *e = &b->context->error;
  const Engine *g = b->context->engine;
  Trace *t = b->trace;
  int *written = malloc((size_t)(t->extra_count + 1) * sizeof *written);
  Value **values = malloc((size_t)(count + 1) * sizeof *values);
  Program *p = NULL;
  if (written && values) {
    for (int i = 0; i < count; i++) values[i] = (Value *)results[i];
    int written_count = trace_end_root(t, values, count, written);
    p = program_compile(e, t, count, written, written_count, g->kernels, &g->numerics, g->threads,
                        "function");
  } else {
    fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  }
  free(written);
  free(values);
  return p;
}

int ipu_builder_finish(ipu_builder *b, ipu_value *const *results, int count, ipu_function **out) {
  if (out) *out = NULL;
  if (!context_given(b ? b->context : NULL, "ipu_builder_finish", (Given[]){{"out", out}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  if (!begin(b)) return end(b);
  ipu_function *f = NULL;
  if (check_values(b, "ipu_builder_finish", results, count) == OK && !(f = calloc(1, sizeof *f)))
    fail(&b->context->error, ERR_OUT_OF_MEMORY, "out of memory");
  if (f) f->program = compile(b, results, count), f->context = context_retain(b->context);
  trace_free(b->trace);
  b->trace = NULL;
  if (f && f->program) *out = f;
  else ipu_function_free(f);
  return end(b);
}

/* ---- calling ---- */

void ipu_function_free(ipu_function *f) {
  if (!f) return;
  program_free(f->program);
  ipu_context_free(f->context);
  free(f);
}

static Status check_arguments(Error *e, const Program *p, ipu_tensor *const *arguments, int count) {
  if (count != p->argument_count)
    return fail(e, ERR_VALUE, "the function takes %d tensor%s, got %d", p->argument_count,
                p->argument_count == 1 ? "" : "s", count);
  if (context_check_list(e, "ipu_function_call", arguments, count) != OK) return e->status;
  for (int i = 0; i < count; i++) {
    const Type *want = &p->graph->input[i]->type, *got = &tensor_of(arguments[i])->type;
    char a[TYPE_TEXT], b[TYPE_TEXT];
    if (!type_equal(want, got))
      return fail(e, ERR_INVALID_ARGUMENT, "argument %d must be %s, got %s", i, type_text(want, a),
                  type_text(got, b));
  }
  return OK;
}

static int function_call(ipu_function *f, ipu_tensor *const *arguments, int argument_count,
                         ipu_tensor **results, int capacity, int *result_count) {
  if (result_count) *result_count = 0;
  if (!context_given(f ? f->context : NULL, "ipu_function_call",
                     (Given[]){{"results", capacity > 0 ? (const void *)results : ""}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  ipu_context *c = f->context;
  Error *e = context_begin(c);
  Program *p = f->program;
  if (check_arguments(e, p, arguments, argument_count) != OK) return context_end(c);
  if (check_capacity(e, "ipu_function_call", p->result_count, capacity) != OK)
    return context_end(c);
  if (program_run(c->engine, p, (Tensor *const *)arguments, (Tensor **)results, e) == OK &&
      result_count)
    *result_count = p->result_count;
  return context_end(c);
}

int ipu_function_call(ipu_function *f, ipu_tensor *const *arguments, int argument_count,
                      ipu_tensor **results, int capacity, int *result_count) {
  int status = function_call(f, arguments, argument_count, results, capacity, result_count);
  return status == IPU_OK ? status : give_none(status, results, capacity);
}
