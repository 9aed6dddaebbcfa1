/* The nodes of a trace as tables, for translation to other formats. A node has its op, attributes,
 * operands and types. Constants and variables have their tensors. */
#include <string.h>

#include "lua/bind.h"

/* A value that was known while tracing is a constant here. Its origin matters for gradients
 * only. */
static const Value *standing(const Value *v) {
  while (v->node->op->value_from) v = v->node->in[v->node->op->value_from];
  return v;
}

/* {node, output}: positions in the list of records, from 1. */
static void push_reference(lua_State *L, const Value *v, const int *position) {
  v = standing(v);
  lua_createtable(L, 2, 0);
  lua_pushinteger(L, position[v->node->id]);
  lua_rawseti(L, -2, 1);
  lua_pushinteger(L, v->index + 1);
  lua_rawseti(L, -2, 2);
}

static void push_references(lua_State *L, Value *const *v, int count, const int *position) {
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    push_reference(L, v[i], position);
    lua_rawseti(L, -2, i + 1);
  }
}

/* An open end of a slice is false, as in the call. */
static void push_ints(lua_State *L, const Attr *a) {
  lua_createtable(L, a->ints.n, 0);
  for (int i = 0; i < a->ints.n; i++) {
    if (a->ints.v[i] == INT64_MIN) lua_pushboolean(L, false);
    else lua_pushinteger(L, a->ints.v[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

static bool push_attribute(lua_State *L, const Attr *a) {
  switch (a->kind) {
    case ATTR_INT:
      lua_pushinteger(L, a->i);
      return true;
    case ATTR_FLOAT:
      lua_pushnumber(L, a->f);
      return true;
    case ATTR_BOOL:
      lua_pushboolean(L, a->i != 0);
      return true;
    case ATTR_STRING:
      lua_pushstring(L, a->s);
      return true;
    case ATTR_DTYPE:
      lua_pushstring(L, dtype_name((Dtype)a->i));
      return true;
    case ATTR_INTS:
      push_ints(L, a);
      return true;
    default:
      return false;
  }
}

static void set_attributes(lua_State *L, const Node *n) {
  lua_newtable(L);
  for (int i = 0; i < op_attr_count(n->op); i++)
    if (push_attribute(L, &n->attr[i])) lua_setfield(L, -2, n->op->attrs[i].name);
  lua_setfield(L, -2, "attributes");
}

static void set_types(lua_State *L, const Node *n) {
  lua_createtable(L, n->out_count, 0);
  for (int i = 0; i < n->out_count; i++) {
    bind_push_type(L, &n->out[i].type);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "outputs");
}

/* The meaning of a graph's input: an argument by its number, or a variable. */
static void set_input(lua_State *L, const Trace *t, const Node *n) {
  for (int i = 0; i < t->argument_count; i++) {
    if (t->graph->input[i]->node != n) continue;
    bind_set_integer(L, "argument", i + 1);
  }
  for (int i = 0; i < t->extra_count; i++) {
    if (t->extra[i].inner->node != n || !t->extra[i].variable) continue;
    bind_push_variable(L, variable_retain(t->extra[i].variable));
    lua_setfield(L, -2, "variable");
  }
}

static void push_record(lua_State *L, const Trace *t, const Node *n, const int *position) {
  lua_createtable(L, 0, 6);
  bind_set_text(L, "op", n->op->name);
  bind_set_text(L, "line", n->source);
  push_references(L, n->in, n->in_count, position), lua_setfield(L, -2, "inputs");
  set_types(L, n);
  set_attributes(L, n);
  if (node_is_input(n)) set_input(L, t, n);
  if (node_is_constant(n))
    bind_push_tensor(L, tensor_retain(n->attr[0].tensor)), lua_setfield(L, -2, "tensor");
}

/* The name of a variable that the trace assigns to, or nil. */
static void push_assigned(lua_State *L, const Trace *t) {
  for (int i = 0; i < t->extra_count; i++) {
    const Extra *e = &t->extra[i];
    if (!e->variable || e->variable->counts_runs || e->current == e->inner) continue;
    lua_pushstring(L, e->variable->name ? e->variable->name : "");
    return;
  }
  lua_pushnil(L);
}

/* (results) of the current trace → records in an order of execution, references of the results, the
 * name of a variable that is assigned */
int bind_trace_records(lua_State *L) {
  State *s = bind_state(L);
  if (!s->trace) return luaL_error(L, "no function is being traced");
  const Trace *t = s->trace->trace;
  const Graph *g = t->graph;
  lua_Integer count = luaL_len(L, 1);
  Value **result = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *result, 0);
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, 1, i);
    result[i - 1] = bind_value(L, lua_gettop(L), "result");
    lua_pop(L, 1);
  }
  int *position = lua_newuserdatauv(L, (size_t)(g->next_id + 1) * sizeof *position, 0);
  for (int i = 0; i < g->node_count; i++) position[g->node[i]->id] = i + 1;
  lua_createtable(L, g->node_count, 0);
  for (int i = 0; i < g->node_count; i++) {
    luaL_checkstack(L, 10, NULL);
    push_record(L, t, g->node[i], position);
    lua_rawseti(L, -2, i + 1);
  }
  push_references(L, result, (int)count, position);
  push_assigned(L, t);
  return 3;
}
