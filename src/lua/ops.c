/* The registry of ops as Lua functions and methods. All are one C function, with the row as its
 * upvalue. arguments.c reads the arguments. */
#include <stdlib.h>
#include <string.h>

#include "engine/eager.h"
#include "lua/arguments.h"
#include "lua/bind.h"
#include "lua/known.h"
#include "lua/plain.h"
#include "lua/tape.h"
#include "ops/library.h"
#include "ops/ops.h"
#include "transform/fetch.h"

/* ---- applying ---- */

static bool is_symbolic(lua_State *L, int index, const State *s) {
  LuaTensor *t = bind_test_tensor(L, index);
  if (t) return t->tensor == NULL;
  Variable *v = bind_test_variable(L, index);
  return v && (s->trace || v->deferred);
}

static int push_results(lua_State *L, const OpDef *op, Node *n, TraceRef *trace) {
  int count = op->visible_outputs ? op->visible_outputs : n->out_count;
  luaL_checkstack(L, count + 4, NULL);
  for (int i = 0; i < count; i++) bind_push_value(L, &n->out[i], trace);
  return count;
}

/* Refuses as many results as an extent has that a session feeds later, such as unstack's. */
static void check_results(lua_State *L, const Trace *t, const Node *n) {
  if (!t->deferred || n->out_count % UNKNOWN_EXTENT) return;
  for (int i = 0; i < n->in_count; i++) {
    Type declared = clone_declared_type(t, n->in[i]);
    if (!type_is_static(&declared))
      bind_fail(L, ERR_VALUE,
                "%s: how many results there are is not known until a session feeds it",
                n->op->name);
  }
}

static int apply_symbolic(lua_State *L, const OpDef *op, const int *index, int count,
                          const Attr *attrs) {
  State *s = bind_state(L);
  TraceRef *ref = s->trace;
  if (!ref) {
    Type type; /* raises for a stale symbolic tensor */
    for (int i = 0; i < count; i++) {
      bind_type_at(L, index[i], &type);
      if (bind_is_deferred(L, index[i])) ref = bind_graph(L);
    }
    if (!ref)
      bind_fail(L, ERR_VALUE, "%s: a symbolic tensor is used outside the function that made it",
                op->name);
  }
  Graph *g = ref->trace->graph;
  Value **in = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *in, 0);
  bind_mark_line(L, g);
  for (int i = 0; i < count; i++) in[i] = bind_value_in(L, ref, index[i], op->name);
  Node *n = graph_node(g, op, in, count, attrs);
  if (n) return check_results(L, ref->trace, n), push_results(L, op, n, ref);
  Error e = g->error;
  error_clear(&g->error); /* a script may catch this and go on tracing */
  e.source[0] = 0;        /* the caller's line is the node's */
  return bind_raise(L, &e);
}

static int apply_eager(lua_State *L, const OpDef *op, const int *index, int count,
                       const Attr *attrs) {
  State *s = bind_state(L);
  Tensor **in = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *in, 0);
  luaL_checkstack(L, count + 8, NULL);
  /* keeps them on the stack */
  for (int i = 0; i < count; i++) in[i] = bind_concrete(L, index[i], op->name);
  Error e = {0};
  Tensor **out;
  int out_count;
  eager_apply(s->engine, op, in, count, attrs, NULL, &out, &out_count, &e);
  bind_check(L, &e);
  int visible = op->visible_outputs ? op->visible_outputs : out_count, first = lua_gettop(L) + 1;
  if (!lua_checkstack(L, out_count + 8)) { /* as luaL_checkstack, without losing the results */
    for (int i = 0; i < out_count; i++) tensor_release(out[i]);
    free(out);
    return bind_fail(L, ERR_OUT_OF_MEMORY, "%s: %d results are too many", op->name, out_count);
  }
  for (int i = 0; i < out_count; i++) bind_push_tensor(L, out[i]);
  free(out);
  if (s->trace) known_record(L, op, in, count, attrs, first, out_count);
  else if (s->tapes) tape_record(L, op, index, in, count, attrs, first, out_count);
  lua_settop(L, first + visible - 1);
  return visible;
}

int bind_apply(lua_State *L, const OpDef *op, const int *index, int count, const Attr *attrs) {
  State *s = bind_state(L);
  bool symbolic = (op->traits & (RANDOM | PER_REPLICA)) && s->trace;
  for (int i = 0; i < count && !symbolic; i++) symbolic = is_symbolic(L, index[i], s);
  return symbolic ? apply_symbolic(L, op, index, count, attrs)
                  : apply_eager(L, op, index, count, attrs);
}

const OpDef *bind_op(lua_State *L, const char *name) {
  const OpDef *op = op_find(name);
  if (!op) luaL_error(L, "the op '%s' is missing", name);
  return op;
}

/* ---- calling ---- */

/* Objects that stand for tensors (Keras' placeholders) have a metafield __op, called with the
 * op's name and the arguments in place of the op. */
static bool find_stand_in(lua_State *L, int index, bool in_list) {
  if (!lua_istable(L, index)) return false;
  if (luaL_getmetafield(L, index, "__op") != LUA_TNIL) return true;
  if (!in_list || !plain_is(L, index)) return false;
  lua_Unsigned n = lua_rawlen(L, index);
  for (lua_Unsigned i = 1; i <= n; i++) {
    lua_rawgeti(L, index, (lua_Integer)i);
    if (find_stand_in(L, lua_gettop(L), false)) {
      lua_remove(L, -2);
      return true;
    }
    lua_pop(L, 1);
  }
  return false;
}

/* Whether the first argument is the module that the op stands in: ipu:reduce_sum(x). Modules
 * have a metatable, options have none. */
static bool is_called_with_colon(lua_State *L, const OpDef *op) {
  if (!lua_istable(L, 1) || plain_is(L, 1)) return false;
  int top = lua_gettop(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "ipulua");
  const char *dot = strchr(op->name, '.');
  if (dot && lua_istable(L, -1)) {
    lua_pushlstring(L, op->name, (size_t)(dot - op->name));
    lua_rawget(L, -2);
  }
  bool found = lua_rawequal(L, 1, -1);
  lua_settop(L, top);
  return found;
}

static int call_op(lua_State *L) {
  const OpDef *op = lua_touserdata(L, lua_upvalueindex(1));
  for (int i = 1, n = lua_gettop(L); i <= n; i++) {
    if (!find_stand_in(L, i, true)) continue;
    lua_insert(L, 1);
    lua_pushstring(L, op->name);
    lua_insert(L, 2);
    lua_call(L, n + 1, LUA_MULTRET);
    return lua_gettop(L);
  }
  if (is_called_with_colon(L, op))
    return bind_fail(L, ERR_TYPE,
                     "%s is a function of a module; it is called with a dot, not with a colon",
                     op->name);
  Arguments a = {.op = op};
  arguments_read(L, &a);
  int results = bind_apply(L, op, a.operand, a.operand_count, a.attr);
  bind_state(L)->engine->random_count += a.draws; /* a refused call draws nothing */
  return results;
}

/* ---- operators ---- */

static int apply_operator(lua_State *L, const char *name) {
  lua_settop(L, 2);
  if (lua_isnil(L, 1) || lua_isnil(L, 2)) /* a name that was never set, most often */
    return bind_fail(L, ERR_TYPE, "%s: the %s operand is nil", name,
                     lua_isnil(L, 1) ? "left" : "right");
  if (arguments_has_names(L, 2)) /* which are a call's, not an operand */
    return bind_fail(L, ERR_TYPE,
                     "%s: the right operand must be a list; a table with names is none", name);
  lua_pushlightuserdata(L, (void *)(uintptr_t)bind_op(L, name));
  lua_pushcclosure(L, call_op, 1);
  lua_insert(L, 1);
  lua_call(L, 2, 1);
  return 1;
}
static int add(lua_State *L) { return apply_operator(L, "add"); }
static int sub(lua_State *L) { return apply_operator(L, "sub"); }
static int mul(lua_State *L) { return apply_operator(L, "mul"); }
static int divide(lua_State *L) { return apply_operator(L, "div"); }
static int power(lua_State *L) { return apply_operator(L, "pow"); }
static int mod(lua_State *L) { return apply_operator(L, "mod"); }
static int floordiv(lua_State *L) { return apply_operator(L, "floordiv"); }
static int negate(lua_State *L) {
  int self = 1;
  return bind_apply(L, bind_op(L, "neg"), &self, 1, NULL);
}

static const luaL_Reg operators[] = {{"__add", add},       {"__sub", sub},    {"__mul", mul},
                                     {"__div", divide},    {"__pow", power},  {"__mod", mod},
                                     {"__idiv", floordiv}, {"__unm", negate}, {NULL, NULL}};

static int is_internal(lua_State *L) { /* (name): no script calls it by that */
  const OpDef *op = op_find(luaL_checkstring(L, 1));
  lua_pushboolean(L, op && (op->traits & INTERNAL));
  return 1;
}

/* The facts of a row for help, docs and checks. */
static int describe(lua_State *L) {
  const OpDef *op = op_find(luaL_checkstring(L, 1));
  if (!op) return 0;
  lua_newtable(L);
  bind_set_text(L, "name", op->name);
  bind_set_text(L, "method", op->method);
  bind_set_text(L, "summary", op->summary);
  bind_set_text(L, "shapes", op->shapes);
  bind_set_text(L, "source", op->source);
  bind_set_text(L, "sample", op->sample);
  bind_set_flag(L, "differentiable", op->grad != NULL);
  bind_set_flag(L, "internal", op->traits & INTERNAL);
  bind_set_flag(L, "variadic", op->traits & VARIADIC);
  bind_set_flag(L, "random", op->traits & RANDOM);
  bind_set_flag(L, "no_gradient", op->traits & NO_GRADIENT);
  bind_set_integer(L, "outputs",
                   op->visible_outputs ? op->visible_outputs
                   : op->outputs       ? op->outputs
                                       : 1);
  lua_newtable(L);
  for (int i = 0; i < arguments_inputs(op); i++)
    lua_pushstring(L, op->inputs[i]), lua_rawseti(L, -2, i + 1);
  lua_setfield(L, -2, "inputs");
  lua_newtable(L);
  static const char *const kinds[] = {"none", "integer", "number", "boolean",  "string",
                                      "list", "dtype",   "tensor", "function", "object"};
  for (int i = 0, n = 0; i < op_attr_count(op); i++) {
    const AttrDef *d = &op->attrs[i];
    if (!strcmp(d->name, "stream")) continue;
    lua_newtable(L);
    bind_set_text(L, "name", d->name);
    bind_set_text(L, "type", kinds[d->kind]);
    bind_set_text(L, "default", d->fallback);
    bind_set_text(L, "choices", d->choices);
    bind_set_text(L, "summary", d->summary);
    lua_rawseti(L, -2, ++n);
  }
  lua_setfield(L, -2, "attributes");
  return 1;
}

/* In the table on top, unless it has that name. */
static void add_op_method(lua_State *L, const char *name, const OpDef *op) {
  if (lua_getfield(L, -1, name) == LUA_TNIL) {
    lua_pushlightuserdata(L, (void *)(uintptr_t)op);
    lua_pushcclosure(L, call_op, 1);
    lua_setfield(L, -3, name);
  }
  lua_pop(L, 1);
}

static void add_methods(lua_State *L, const char *metatable) {
  luaL_getmetatable(L, metatable);
  luaL_setfuncs(L, operators, 0);
  lua_getfield(L, -1, "methods");
  for (const OpDef *op = op_next(NULL); op; op = op_next(op)) {
    if ((op->traits & (INTERNAL | VARIADIC)) || !arguments_inputs(op)) continue;
    const char *dot = strrchr(op->name, '.');
    add_op_method(L, dot ? dot + 1 : op->name, op);
    if (op->method) add_op_method(L, op->method, op);
  }
  lua_pop(L, 2);
}

/* ---- libraries ---- */

#define LIBRARY_NAME "ipulua.OpLibrary"

static int free_library(lua_State *L) {
  OpLibrary **l = lua_touserdata(L, 1);
  op_library_close(*l);
  *l = NULL;
  return 0;
}

/* (path) → table of functions by name. The library stays until the state is closed: nodes may be
 * anywhere. */
static int open_library(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LIBRARY_NAME);
  OpLibrary **l = lua_newuserdatauv(L, sizeof *l, 0);
  *l = NULL;
  if (luaL_newmetatable(L, LIBRARY_NAME ".meta")) {
    lua_pushcfunction(L, free_library);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  Error e = {0};
  *l = op_library_open(&e, path);
  bind_check(L, &e);
  lua_pushvalue(L, -1);
  luaL_ref(L, -3);
  lua_newtable(L);
  const OpDef *op;
  for (int i = 0; (op = op_library_row(*l, i)); i++) {
    lua_pushlightuserdata(L, (void *)(uintptr_t)op);
    lua_pushcclosure(L, call_op, 1);
    lua_setfield(L, -2, op->name);
  }
  return 1;
}

/* (name, function): a method of tensors and variables. */
static int add_method(lua_State *L) {
  static const char *const metatables[] = {TENSOR_NAME, VARIABLE_NAME};
  luaL_checkstring(L, 1);
  for (int i = 0; i < 2; i++) {
    luaL_getmetatable(L, metatables[i]);
    lua_getfield(L, -1, "methods");
    lua_pushvalue(L, 2);
    lua_setfield(L, -2, lua_tostring(L, 1));
    lua_pop(L, 2);
  }
  return 0;
}

/* (name) → whether tensors or variables have such a method or field, of their own or of the
 * library's. */
static int has_member(lua_State *L) {
  static const char *const metatables[] = {TENSOR_NAME, VARIABLE_NAME};
  static const char *const fields[] = {"T",       "shape",        "dtype",       "rank",
                                       "size",    "name",         "nbytes",      "trainable",
                                       "remote",  "of_optimizer", "initialized", "deferred",
                                       "version", "constraint",   "regularizer", "weight_name"};
  const char *name = luaL_checkstring(L, 1);
  bool has = false;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) has = has || !strcmp(fields[i], name);
  for (int i = 0; i < 2 && !has; i++) {
    luaL_getmetatable(L, metatables[i]);
    lua_getfield(L, -1, "methods");
    has = lua_getfield(L, -1, name) != LUA_TNIL;
    lua_pop(L, 3);
  }
  lua_pushboolean(L, has);
  return 1;
}

void bind_open_ops(lua_State *L) {
  lua_pushcfunction(L, has_member);
  lua_setfield(L, -2, "has_member");
  lua_pushcfunction(L, add_method);
  lua_setfield(L, -2, "add_method");
  lua_pushcfunction(L, open_library);
  lua_setfield(L, -2, "open_op_library");
  lua_pushcfunction(L, describe);
  lua_setfield(L, -2, "describe_op");
  lua_pushcfunction(L, is_internal);
  lua_setfield(L, -2, "is_internal");
  lua_newtable(L);
  for (const OpDef *op = op_next(NULL); op; op = op_next(op)) {
    lua_pushlightuserdata(L, (void *)(uintptr_t)op);
    lua_pushcclosure(L, call_op, 1);
    lua_setfield(L, -2, op->name);
  }
  lua_setfield(L, -2, "ops");
  add_methods(L, TENSOR_NAME);
  add_methods(L, VARIABLE_NAME);
}
