#include "lua/tape.h"

#include <stdlib.h>
#include <string.h>

#include "graph/control.h"
#include "ops/ops.h"
#include "transform/autodiff.h"
#include "transform/clone.h"

/* What every value of the tape's graph holds, by node and output; in the trace ref's uservalue would cost a lookup, so the
 * tensors hang from the graph's own list: held tensors are released with it. */
typedef struct Note {
  const Value *value;
  Tensor *tensor;
} Note;

/* A variable's value as an input of the tape. */
typedef struct Reading {
  const Variable *variable; /* the trace holds it */
  Value *value;
} Reading;

/* In a Lua registry table: tape state. Notes are sorted by when they were made, and so by node id. */
typedef struct Tape {
  TraceRef *ref;
  Note *note;
  int count, capacity;
  Note *captured; /* tensors that programs hold as constants; the notes own them */
  int captured_count, captured_capacity;
  Reading *reading;
  int reading_count, reading_capacity;
} Tape;

static const char TAPE_KEY;

static Tape *tape_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &TAPE_KEY);
  Tape *t = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return t;
}

static void clear(Tape *t) {
  for (int i = 0; i < t->count; i++) tensor_release(t->note[i].tensor);
  free(t->note);
  free(t->captured);
  free(t->reading);
  if (t->ref) {
    trace_free(t->ref->trace);
    t->ref->trace = NULL;
    trace_ref_release(t->ref);
  }
  *t = (Tape){0};
}

static int free_tape(lua_State *L) {
  clear(lua_touserdata(L, 1));
  return 0;
}

static bool note(Tape *t, const Value *v, Tensor *tensor) {
  if (!array_reserve(&t->note, &t->capacity, t->count + 1, sizeof *t->note)) return false;
  t->note[t->count++] = (Note){v, tensor_retain(tensor)};
  return true;
}

static Tensor *noted(const Tape *t, const Value *v) {
  for (int low = 0, high = t->count; low < high;) {
    int middle = low + (high - low) / 2;
    const Value *m = t->note[middle].value;
    if (m == v) return t->note[middle].tensor;
    if (m->node->id < v->node->id || (m->node->id == v->node->id && m->index < v->index)) low = middle + 1;
    else high = middle;
  }
  return NULL;
}

static bool note_reading(Tape *t, const Variable *v, Value *value) {
  if (!note(t, value, v->value) || !array_reserve(&t->reading, &t->reading_capacity, t->reading_count + 1, sizeof *t->reading)) return false;
  t->reading[t->reading_count++] = (Reading){v, value};
  return true;
}

/* A variable is one input however often it is read, until it is assigned: then its tensor is another one. */
static Value *value_of_variable(Tape *t, Variable *v) {
  for (int i = 0; i < t->ref->trace->extra_count; i++) {
    Extra *x = &t->ref->trace->extra[i];
    if (x->variable != v) continue;
    if (noted(t, x->current) == v->value) return x->current;
    Value *fresh = graph_input(t->ref->trace->graph, &v->type, v->name);
    if (fresh && note_reading(t, v, fresh)) x->current = fresh;
    return fresh;
  }
  Value *value = trace_read(t->ref->trace, v);
  return value && note_reading(t, v, value) ? value : NULL;
}

static Value *captured(const Tape *t, const Tensor *tensor) {
  for (int i = 0; i < t->captured_count; i++)
    if (t->captured[i].tensor == tensor) return (Value *)(uintptr_t)t->captured[i].value;
  return NULL;
}

/* The tape's value for the tensor or variable at index. */
static Value *value_at(lua_State *L, Tape *t, int index) {
  LuaTensor *u = bind_test_tensor(L, index);
  if (u && u->value && u->trace == t->ref) return u->value;
  Variable *v = u ? NULL : bind_test_variable(L, index);
  if (v) {
    bind_settle(L, v);
    return v->value ? value_of_variable(t, v) : NULL;
  }
  if (!u || !u->tensor) return NULL;
  Value *value = captured(t, u->tensor);
  if (!value) {
    value = graph_input(t->ref->trace->graph, &u->tensor->type, NULL);
    if (!value || !note(t, value, u->tensor)) return NULL;
  }
  u->value = value;
  trace_ref_release(u->trace);
  u->trace = trace_ref_retain(t->ref);
  return value;
}

static void give_value(Tape *t, LuaTensor *u, Value *v) {
  if (!note(t, v, u->tensor)) return;
  u->value = v;
  trace_ref_release(u->trace);
  u->trace = trace_ref_retain(t->ref);
}

static void raise_of(lua_State *L, Graph *g) {
  if (g->error.status == OK) return;
  Error e = g->error;
  error_clear(&g->error);
  bind_raise(L, &e);
}

void tape_record(lua_State *L, const OpDef *op, const int *index, int count, const Attr *attrs, int first, int out_count) {
  Tape *t = tape_of(L);
  Graph *g = t->ref->trace->graph;
  Value **in = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *in, 0);
  bind_mark_line(L, g);
  for (int i = 0; i < count; i++) in[i] = value_at(L, t, index[i]);
  lua_pop(L, 1);
  Node *n = graph_node(g, op, in, count, attrs);
  for (int i = 0; n && i < out_count; i++) give_value(t, bind_test_tensor(L, first + i), &n->out[i]);
  raise_of(L, g);
}

/* ---- programs ---- */

enum { MOST_INPUTS = 8192 };

Value **tape_begin_call(lua_State *L, const Program *p, int arguments) {
  Tape *t = tape_of(L);
  int count = p->argument_count + p->variable_count;
  if (count > MOST_INPUTS) bind_fail(L, ERR_VALUE, "GradientTape: a program of more than %d arguments and variables", MOST_INPUTS);
  Value **in = lua_newuserdatauv(L, MOST_INPUTS * sizeof *in, 0);
  for (int i = 0; i < p->argument_count; i++) {
    lua_rawgeti(L, arguments, i + 1);
    in[i] = value_at(L, t, lua_gettop(L));
    lua_pop(L, 1);
  }
  for (int i = 0; i < p->variable_count; i++)
    in[p->argument_count + i] = p->variable[i]->value ? value_of_variable(t, p->variable[i]) : NULL;
  return in;
}

/* The value of a tensor that a traced function holds: what the tape knows of it, or an input. */
static Value *value_of_captured(Tape *t, Tensor *tensor) {
  for (int i = t->count - 1; i >= 0; i--)
    if (t->note[i].tensor == tensor) return (Value *)(uintptr_t)t->note[i].value;
  Value *v = graph_input(t->ref->trace->graph, &tensor->type, NULL);
  if (!v || !note(t, v, tensor)) return NULL;
  if (!array_reserve(&t->captured, &t->captured_capacity, t->captured_count + 1, sizeof *t->captured)) return NULL;
  t->captured[t->captured_count++] = (Note){v, tensor};
  return v;
}

/* Floating-point constants of a program become inputs of its call: they may be tensors that gradients are asked for. */
static int lift_constants(Tape *t, Graph *body, Value **in, int count) {
  for (int i = 0; i < body->node_count && count < MOST_INPUTS; i++) {
    Node *n = body->node[i];
    if (!node_is_constant(n) || !dtype_is_float(n->out[0].type.dtype)) continue;
    Value *v = value_of_captured(t, n->attr[0].tensor);
    if (!v) break;
    graph_make_input(body, n);
    in[count++] = v;
  }
  return count;
}

/* What the program gave a variable is its value on the tape from now on. */
static void note_written(Tape *t, Variable *v, Value *value) {
  for (int i = 0; i < t->ref->trace->extra_count; i++)
    if (t->ref->trace->extra[i].variable == v && note(t, value, v->value)) t->ref->trace->extra[i].current = value;
}

void tape_end_call(lua_State *L, const Program *p, Value **in) {
  Tape *t = tape_of(L);
  Graph *g = t->ref->trace->graph;
  int results = lua_gettop(L), count = p->argument_count + p->variable_count, written_count = 0;
  int64_t *written = lua_newuserdatauv(L, (size_t)(p->variable_count + 1) * sizeof *written, 0);
  for (int i = 0; i < p->variable_count; i++)
    if (p->writes[i]) written[written_count++] = p->argument_count + i;
  bind_mark_line(L, g);
  Graph *body = graph_copy(p->graph);
  if (!body) bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
  count = lift_constants(t, body, in, count);
  ControlParts parts = {.body = body, .explicit_count = p->result_count, .written = written, .written_count = written_count};
  Node *n = control_node(g, &control_call, in, count, &parts);
  for (int i = 0; n && i < p->result_count; i++) {
    lua_rawgeti(L, results, i + 1);
    give_value(t, bind_test_tensor(L, -1), &n->out[i]);
    lua_pop(L, 1);
  }
  for (int i = 0; n && i < written_count; i++)
    note_written(t, p->variable[written[i] - p->argument_count], &n->out[p->result_count + i]);
  lua_settop(L, results);
  raise_of(L, g);
}

/* A loop, branch or call of the gradient: a program of its own. */
static Status run_control(Engine *engine, const Node *n, Tensor *const *in, Tensor ***out, int *out_count, Error *e) {
  Trace *to = trace_new(NULL);
  Value **values = calloc((size_t)(n->in_count + n->out_count) + 1, sizeof *values);
  Program *p = NULL;
  *out = calloc((size_t)n->out_count + 1, sizeof **out);
  if (to && values && *out) {
    for (int i = 0; i < n->in_count; i++) values[i] = trace_argument(to, &n->in[i]->type, NULL);
    Node *made = clone_node(to->graph, n, values);
    for (int i = 0; made && i < n->out_count; i++) values[i] = &made->out[i];
    if (made) trace_end_root(to, values, n->out_count, NULL);
    p = program_compile(e, to, n->out_count, NULL, 0, engine->kernels, &engine->numerics, engine->threads, n->op->name);
  } else {
    fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  }
  if (p) engine_number_rounding(engine, p);
  if (p && program_run(engine, p, in, *out, e) == OK) *out_count = n->out_count;
  program_free(p);
  trace_free(to);
  free(values);
  return e->status;
}

/* ---- tapes ---- */

static int open_tape(lua_State *L) {
  State *s = bind_state(L);
  Tape *t = tape_of(L);
  if (!t) {
    t = lua_newuserdatauv(L, sizeof *t, 0);
    *t = (Tape){0};
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, free_tape);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &TAPE_KEY);
  }
  if (!t->ref) t->ref = trace_ref_new(L, trace_new(NULL));
  t->ref->taped = true;
  s->tape = t->ref;
  s->open_tapes++;
  return 0;
}

/* Recording stops when the last tape pauses; notes go when the last one is dropped. */
static int pause_tape(lua_State *L) {
  State *s = bind_state(L);
  if (s->open_tapes > 0) s->open_tapes--;
  if (s->open_tapes == 0) s->tape = NULL;
  return 0;
}

static int drop_tapes(lua_State *L) {
  State *s = bind_state(L);
  Tape *t = tape_of(L);
  if (t && s->open_tapes == 0) clear(t);
  return 0;
}

static int records(lua_State *L) {
  lua_pushboolean(L, bind_state(L)->tape != NULL);
  return 1;
}

/* Compute the nodes appended since `from`, and note their values. */
static Status evaluate(lua_State *L, Tape *t, int from, Error *e) {
  State *s = bind_state(L);
  Graph *g = t->ref->trace->graph;
  for (int i = from; i < g->node_count; i++) {
    Node *n = g->node[i];
    if (node_is_input(n)) continue;
    if (node_is_constant(n)) {
      if (!note(t, &n->out[0], n->attr[0].tensor)) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
      continue;
    }
    Tensor **in = calloc((size_t)n->in_count + 1, sizeof *in), **out = NULL;
    int out_count = 0;
    for (int k = 0; in && k < n->in_count; k++) in[k] = noted(t, n->in[k]);
    Status status = !in ? fail(e, ERR_OUT_OF_MEMORY, "out of memory")
                    : n->op->traits & CONTROL
                        ? run_control(s->engine, n, in, &out, &out_count, e)
                        : eager_apply(s->engine, n->op, in, n->in_count, n->attr, n->source, &out, &out_count, e);
    free(in);
    for (int k = 0; k < out_count; k++) {
      if (!note(t, &n->out[k], out[k])) status = fail(e, ERR_OUT_OF_MEMORY, "out of memory");
      tensor_release(out[k]);
    }
    free(out);
    if (status != OK) return status;
  }
  return OK;
}

/* The gradient of output i (value y) in the list at 3, which may hold false; NULL: none is given. */
static Value *upstream_of(lua_State *L, Tape *t, int i, const Value *y) {
  Value *dy = NULL;
  if (!lua_istable(L, 3)) return NULL;
  lua_rawgeti(L, 3, i + 1);
  if (lua_toboolean(L, -1)) {
    Type type; /* raises for a stale symbolic tensor */
    bind_type_at(L, lua_gettop(L), &type);
    dy = value_at(L, t, lua_gettop(L));
    if (dy && !shape_equal(&dy->type, &y->type))
      bind_fail(L, ERR_INVALID_ARGUMENT, "gradient: an output gradient's shape differs from its output's");
  }
  lua_pop(L, 1);
  return dy;
}

/* A list of tensors, on the tape too; false where there is no gradient. */
static int push_gradients(lua_State *L, const Tape *t, Value *const *dx, int count) {
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    Tensor *tensor = dx[i] ? noted(t, dx[i]) : NULL;
    if (tensor) {
      bind_push_tensor(L, tensor_retain(tensor));
      LuaTensor *u = bind_test_tensor(L, -1);
      u->value = dx[i];
      u->trace = trace_ref_retain(t->ref);
    } else {
      lua_pushboolean(L, false);
    }
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* What else was read of the variables in the list at 2, before they were assigned; owner[i] asked for xs[i]. Of one that a program
 * changed, what it holds now depends on what it held: that alone is asked for. */
static int add_readings(lua_State *L, const Tape *t, Value **xs, int *owner, int count) {
  int all = count;
  for (int i = 0; i < count; i++) {
    lua_rawgeti(L, 2, i + 1);
    const Variable *v = bind_test_variable(L, -1);
    lua_pop(L, 1);
    for (int k = 0; v && xs[i] && node_is_input(xs[i]->node) && k < t->reading_count; k++)
      if (t->reading[k].variable == v && t->reading[k].value != xs[i]) xs[all] = t->reading[k].value, owner[all++] = i;
  }
  return all;
}

/* (ys, xs, dys | nil) → list of tensors or false */
static int tape_gradients(lua_State *L) {
  Tape *t = tape_of(L);
  if (!t || !t->ref) return luaL_error(L, "no tape has recorded anything");
  Graph *g = t->ref->trace->graph;
  int y_count = (int)luaL_len(L, 1), x_count = (int)luaL_len(L, 2);
  Value **v = lua_newuserdatauv(L, (size_t)(2 * y_count + x_count + 1) * sizeof *v, 0);
  Value **ys = v, **dys = v + y_count, **asked = v + 2 * y_count;
  for (int i = 0; i < y_count; i++) {
    lua_rawgeti(L, 1, i + 1);
    ys[i] = value_at(L, t, lua_gettop(L));
    lua_pop(L, 1);
    dys[i] = upstream_of(L, t, i, ys[i]);
  }
  for (int i = 0; i < x_count; i++) {
    lua_rawgeti(L, 2, i + 1);
    asked[i] = value_at(L, t, lua_gettop(L));
    lua_pop(L, 1);
  }
  size_t most = (size_t)x_count * (size_t)(t->reading_count + 1) + 1;
  Value **xs = lua_newuserdatauv(L, most * (2 * sizeof *xs + sizeof(int)), 0), **dx = xs + most;
  int *owner = (int *)(void *)(dx + most);
  memcpy(xs, asked, (size_t)x_count * sizeof *xs);
  int all = add_readings(L, t, xs, owner, x_count), from = g->node_count;
  Error e = {0};
  autodiff(g, ys, dys, y_count, xs, all, dx);
  for (int i = x_count; i < all; i++) {
    Value **sum = &dx[owner[i]];
    if (dx[i]) *sum = *sum ? op_with(g, "add", (Value *[]){*sum, dx[i]}, 2, NULL) : dx[i];
  }
  if (g->error.status != OK) {
    e = g->error;
    error_clear(&g->error);
  } else {
    evaluate(L, t, from, &e);
  }
  bind_check(L, &e);
  return push_gradients(L, t, dx, x_count);
}

void bind_open_tape(lua_State *L) {
  static const luaL_Reg functions[] = {{"tape_open", open_tape}, {"tape_pause", pause_tape}, {"tape_drop", drop_tapes},
                                       {"tape_gradients", tape_gradients}, {"tape_records", records}, {NULL, NULL}};
  bind_set_functions(L, functions);
}
