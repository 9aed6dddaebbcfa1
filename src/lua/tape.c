#include "lua/tape.h"

#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "transform/autodiff.h"

/* What every value of the tape's graph holds, by node and output; in the trace ref's uservalue would cost a lookup, so the
 * tensors hang from the graph's own list: held tensors are released with it. */
typedef struct Note {
  const Value *value;
  Tensor *tensor;
} Note;

/* In a Lua registry table: tape state. Notes are sorted by when they were made, and so by node id. */
typedef struct Tape {
  TraceRef *ref;
  Note *note;
  int count, capacity;
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

/* The tape's value for the tensor or variable at index. A variable is one input however often it is read, until it is
 * assigned: then its tensor is another one. */
static Value *value_at(lua_State *L, Tape *t, int index) {
  Graph *g = t->ref->trace->graph;
  LuaTensor *u = bind_test_tensor(L, index);
  if (u && u->value && u->trace == t->ref) return u->value;
  Variable *v = u ? NULL : bind_test_variable(L, index);
  if (v) bind_settle(L, v);
  Tensor *tensor = v ? v->value : u ? u->tensor : NULL;
  if (!tensor) return NULL;
  if (v) {
    for (int i = 0; i < t->ref->trace->extra_count; i++) {
      Extra *x = &t->ref->trace->extra[i];
      if (x->variable != v) continue;
      if (noted(t, x->current) == tensor) return x->current;
      Value *fresh = graph_input(g, &v->type, v->name);
      if (fresh && note(t, fresh, tensor)) x->current = fresh;
      return fresh;
    }
    Value *value = trace_read(t->ref->trace, v);
    return value && note(t, value, tensor) ? value : NULL;
  }
  Value *value = graph_input(g, &tensor->type, NULL);
  if (!value || !note(t, value, tensor)) return NULL;
  u->value = value;
  trace_ref_release(u->trace);
  u->trace = trace_ref_retain(t->ref);
  return value;
}

void tape_record(lua_State *L, const OpDef *op, const int *index, int count, const Attr *attrs, int first, int out_count) {
  Tape *t = tape_of(L);
  Graph *g = t->ref->trace->graph;
  Value **in = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *in, 0);
  bind_mark_line(L, g);
  for (int i = 0; i < count; i++) in[i] = value_at(L, t, index[i]);
  lua_pop(L, 1);
  Node *n = graph_node(g, op, in, count, attrs);
  for (int i = 0; n && i < out_count; i++) {
    LuaTensor *u = bind_test_tensor(L, first + i);
    if (!note(t, &n->out[i], u->tensor)) break;
    u->value = &n->out[i];
    u->trace = trace_ref_retain(t->ref);
  }
  if (g->error.status != OK) {
    Error e = g->error;
    error_clear(&g->error);
    bind_raise(L, &e);
  }
}

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
    Status status = in ? eager_apply(s->engine, n->op, in, n->in_count, n->attr, n->source, &out, &out_count, e)
                       : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
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

/* (ys, xs, dys | nil) → list of tensors or false */
static int tape_gradients(lua_State *L) {
  Tape *t = tape_of(L);
  if (!t || !t->ref) return luaL_error(L, "no tape has recorded anything");
  Graph *g = t->ref->trace->graph;
  int y_count = (int)luaL_len(L, 1), x_count = (int)luaL_len(L, 2);
  Value **v = lua_newuserdatauv(L, (size_t)(2 * y_count + 2 * x_count + 1) * sizeof *v, 0);
  Value **ys = v, **dys = v + y_count, **xs = v + 2 * y_count, **dx = xs + x_count;
  for (int i = 0; i < y_count; i++) {
    lua_rawgeti(L, 1, i + 1);
    ys[i] = value_at(L, t, lua_gettop(L));
    lua_pop(L, 1);
    dys[i] = NULL;
    if (!lua_istable(L, 3)) continue;
    lua_rawgeti(L, 3, i + 1);
    if (lua_toboolean(L, -1)) {
      Type type;
      bind_type_at(L, lua_gettop(L), &type);
      dys[i] = value_at(L, t, lua_gettop(L));
      if (dys[i] && !shape_equal(&dys[i]->type, &ys[i]->type))
        bind_fail(L, ERR_INVALID_ARGUMENT, "gradient: an output gradient's shape differs from its output's");
    }
    lua_pop(L, 1);
  }
  for (int i = 0; i < x_count; i++) {
    lua_rawgeti(L, 2, i + 1);
    xs[i] = value_at(L, t, lua_gettop(L));
    lua_pop(L, 1);
  }
  int from = g->node_count;
  Error e = {0};
  autodiff(g, ys, dys, y_count, xs, x_count, dx);
  if (g->error.status != OK) {
    e = g->error;
    error_clear(&g->error);
  } else {
    evaluate(L, t, from, &e);
  }
  bind_check(L, &e);
  lua_createtable(L, x_count, 0);
  for (int i = 0; i < x_count; i++) {
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

void bind_open_tape(lua_State *L) {
  static const luaL_Reg functions[] = {{"tape_open", open_tape}, {"tape_pause", pause_tape}, {"tape_drop", drop_tapes},
                                       {"tape_gradients", tape_gradients}, {NULL, NULL}};
  bind_set_functions(L, functions);
}
