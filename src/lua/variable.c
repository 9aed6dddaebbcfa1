/* The Lua type of variables. In an expression a variable is its value. */
#include <string.h>

#include "dist/instances.h"
#include "lua/bind.h"
#include "transform/trace_gradient.h"

typedef struct LuaVariable {
  Variable *variable;
} LuaVariable;

void bind_push_variable(lua_State *L, Variable *v) {
  LuaVariable *u = lua_newuserdatauv(L, sizeof *u, 1);
  u->variable = v;
  luaL_setmetatable(L, VARIABLE_NAME);
}

Variable *bind_test_variable(lua_State *L, int index) {
  LuaVariable *u = luaL_testudata(L, index, VARIABLE_NAME);
  return u ? u->variable : NULL;
}

Variable *bind_check_variable(lua_State *L) {
  Variable *v = bind_test_variable(L, 1);
  if (!v) bind_fail(L, ERR_TYPE, "a variable is expected, got %s", luaL_typename(L, 1));
  return v;
}

/* In the registry: f(variable) gives it its value, if it knows it. */
#define INITIALISER "ipulua.initialiser"

void bind_initialise(lua_State *L, int index) {
  index = lua_absindex(L, index);
  if (lua_getfield(L, LUA_REGISTRYINDEX, INITIALISER) == LUA_TFUNCTION) {
    lua_pushvalue(L, index);
    lua_call(L, 1, 0);
  } else {
    lua_pop(L, 1);
  }
}

void bind_initialise_all(lua_State *L, const Program *p) {
  for (int i = 0; i < p->variable_count; i++) {
    if (p->variable[i]->value) continue;
    bind_push_variable(L, variable_retain(p->variable[i]));
    bind_initialise(L, -1);
    lua_pop(L, 1);
  }
}

static int set_initialiser(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, INITIALISER);
  return 0;
}

/* The variable whose method is called. */
static Variable *check_self(lua_State *L, const char *method) {
  Variable *v = bind_test_variable(L, 1);
  if (!v)
    bind_fail(L, ERR_TYPE, "%s is a method; it is called with a colon, as in x:%s(...)", method,
              method);
  return v;
}

static int free_variable(lua_State *L) {
  LuaVariable *u = lua_touserdata(L, 1);
  variable_release(u->variable);
  u->variable = NULL;
  return 0;
}

/* (name, dtype, shape, trainable) */
static int new_variable(lua_State *L) {
  Type type = {.dtype = bind_check_dtype(L, 2)};
  type.rank = bind_check_shape(L, 3, "shape", type.shape);
  Error e = {0};
  bind_push_variable(L, NULL);
  LuaVariable *u = lua_touserdata(L, -1);
  u->variable = variable_new(&e, luaL_checkstring(L, 1), &type, lua_toboolean(L, 4));
  bind_check(L, &e);
  return 1;
}

/* The value at once, whatever is traced. */
static int value_of(lua_State *L) {
  bind_push_held(L, 1, bind_check_variable(L)->name);
  return 1;
}

/* Outside of programs, a variable whose other replicas are zero is assigned on the first replica of
 * all instances. On the other instances it becomes zero. */
static Status assign_value(lua_State *L, Error *e, Variable *v, const Tensor *t) {
  const Engine *g = bind_state(L)->engine;
  if (variable_assign(e, v, t) != OK) return e->status;
  if (!v->first_only || !g->instances || !instances_rank(g->instances)) return OK;
  void *data = variable_writable(e, v);
  if (data) memset(data, 0, type_bytes(&v->type));
  return e->status;
}

/* Replace the value at once: (variable, tensor). */
static int set_value(lua_State *L) {
  Variable *v = bind_check_variable(L);
  bind_literal(L, 2, v->type.dtype, v->name);
  bind_settle(L, v);
  Error e = {0};
  Tensor *t = bind_concrete(L, -1, v->name);
  bool is_first = !v->value; /* no script has assigned it */
  assign_value(L, &e, v, t);
  if (is_first) v->assigned = false;
  bind_check(L, &e);
  return 0;
}

/* In the sessions' graph, fetching the result, or a value that depends on it, runs the
 * assignment. */
static void assign_later(lua_State *L, Variable *v) {
  TraceRef *ref = bind_graph(L);
  Graph *g = ref->trace->graph;
  bind_mark_line(L, g);
  Value *value = bind_value_in(L, ref, 2, v->name);
  Value *done = graph_apply(g, bind_op(L, "identity"), &value, 1, NULL);
  trace_assign(ref->trace, v, done);
  Error e = g->error;
  error_clear(&g->error);
  bind_check(L, &e);
  bind_push_value(L, done, ref);
  lua_replace(L, 2);
}

static void refuse_type(lua_State *L, const Variable *v, const char *method, const Type *type) {
  char want[TYPE_TEXT], got[TYPE_TEXT];
  bind_fail(L, ERR_INVALID_ARGUMENT, "%s: variable '%s' is %s, got %s", method, v->name,
            type_text(&v->type, want), type_text(type, got));
}

/* The value at 2 becomes a tensor. op: as in assign_with. */
static void read_assigned(lua_State *L, const Variable *v, const char *method, const char *op) {
  Type type;
  bool is_tensor = bind_type_at(L, 2, &type);
  const Variable *other = bind_test_variable(L, 2);
  bool at_once = !bind_state(L)->trace && !v->deferred;
  if (!is_tensor || (other && !other->deferred && at_once)) {
    lua_pushfstring(L, "%s: the value of variable '%s'", method, v->name);
    bind_literal(L, 2, v->type.dtype, lua_tostring(L, -1));
  } else {
    lua_pushvalue(L, 2);
  }
  lua_replace(L, 2);
  lua_settop(L, 2);
  bind_type_at(L, 2, &type);
  if (type.dtype != v->type.dtype || (op == NULL && !shape_equal(&type, &v->type)))
    refuse_type(L, v, method, &type);
}

/* The value at 2 becomes the result of the op on the variable and that value. */
static void combine(lua_State *L, const Variable *v, const char *method, const char *op) {
  int operands[2] = {1, 2};
  Type type;
  bind_apply(L, bind_op(L, op), operands, 2, NULL);
  lua_replace(L, 2);
  bind_type_at(L, 2, &type);
  if (!shape_equal(&type, &v->type)) refuse_type(L, v, method, &type);
}

/* Assign now, or in the function being traced. op: NULL, "add" or "sub". Returns the new value. */
static int assign_with(lua_State *L, const char *method, const char *op) {
  Variable *v = check_self(L, method);
  State *s = bind_state(L);
  lua_settop(L, 2);
  read_assigned(L, v, method, op);
  if (op) combine(L, v, method, op);
  bool deferred = s->trace ? s->trace->trace->deferred : v->deferred || bind_is_deferred(L, 2);
  if (deferred) {
    assign_later(L, v);
  } else if (s->trace) {
    trace_assign_value(s->trace->trace, v, bind_value(L, 2, v->name));
    Error e = s->trace->trace->graph->error;
    bind_check(L, &e);
  } else {
    bind_settle(L, v);
    Error e = {0};
    Tensor *t = bind_concrete(L, 2, v->name);
    assign_value(L, &e, v, t);
    lua_pop(L, 1);
    bind_check(L, &e);
  }
  lua_settop(L, 2);
  return 1;
}

static int assign(lua_State *L) { return assign_with(L, "assign", NULL); }
static int assign_add(lua_State *L) { return assign_with(L, "assign_add", "add"); }
static int assign_sub(lua_State *L) { return assign_with(L, "assign_sub", "sub"); }

/* The value as a tensor: symbolic in a traced function. */
static int read_value(lua_State *L) {
  Variable *v = check_self(L, "read_value");
  State *s = bind_state(L);
  TraceRef *ref = s->trace ? s->trace : v->deferred ? bind_graph(L) : NULL;
  if (ref) {
    Value *value = bind_value_in(L, ref, 1, v->name);
    bind_push_value(L, value, ref);
  } else {
    bind_push_reading(L, 1, v->name);
  }
  return 1;
}

static int call_method(lua_State *L, const char *name) {
  Variable *v = check_self(L, name);
  if (bind_state(L)->trace) read_value(L);
  else bind_concrete(L, 1, v->name);
  lua_getfield(L, -1, name);
  lua_insert(L, -2);
  lua_call(L, 1, 1);
  return 1;
}
static int item(lua_State *L) { return call_method(L, "item"); }
static int totable(lua_State *L) { return call_method(L, "totable"); }

static int text(lua_State *L) {
  Variable *v = bind_check_variable(L);
  char buffer[TYPE_TEXT];
  if (!v->value) bind_initialise(L, 1);
  if (!v->value) {
    lua_pushfstring(L, "variable '%s' %s, not initialised", v->name, type_text(&v->type, buffer));
    return 1;
  }
  bind_concrete(L, 1, v->name);
  luaL_tolstring(L, -1, NULL);
  return 1;
}

/* At the prompt: the text of its value, under its own name. */
static int repr(lua_State *L) {
  Variable *v = bind_check_variable(L);
  if (!v->value) bind_initialise(L, 1);
  if (!v->value) return text(L);
  bind_concrete(L, 1, v->name);
  if (!luaL_callmeta(L, -1, "__repr")) return text(L);
  const char *tensor = strchr(lua_tostring(L, -1), '('); /* tensor([1., 2.], dtype=float32) */
  const char *body = luaL_gsub(L, tensor, "\n", "\n  "); /* rows stay below each other */
  lua_pushlstring(L, body, strlen(body) - 1);
  lua_pushfstring(L, "variable%s, name='%s')", lua_tostring(L, -1), v->name);
  return 1;
}

static bool is_one_of(const char *name, const char *const names[]) {
  for (int i = 0; names[i]; i++)
    if (!strcmp(name, names[i])) return true;
  return false;
}

/* A value that Lua code keeps with a variable, or nil. Any other name must have been assigned
 * to. */
static int kept_field(lua_State *L, const char *name) {
  static const char *const optional[] = {"constraint", "regularizer", "weight_name", NULL};
  if (lua_getiuservalue(L, 1, 1) == LUA_TTABLE) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, -2) != LUA_TNIL) return 1;
  }
  lua_pushnil(L);
  return is_one_of(name, optional) || !strncmp(name, "__", 2) ? 1
                                                              : bind_refuse_field(L, "variable");
}

/* The reading on top knows the variable at 1 as its origin, so that an assignment to an element of
 * a row is refused. */
static void link_reading(lua_State *L) {
  const LuaTensor *u = bind_test_tensor(L, -1);
  if (!u->tensor) return;
  bind_push_linked(L, tensor_retain(u->tensor));
  lua_replace(L, -2);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
}

static void push_initialised(lua_State *L, const Variable *v) {
  if (!v->value) bind_initialise(L, 1);
  lua_pushboolean(L, v->value != NULL);
}

static int get_field(lua_State *L) {
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  Variable *v = bind_check_variable(L);
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : NULL;
  if (!name) { /* v[i]: a row of its value */
    read_value(L);
    link_reading(L);
    lua_pushvalue(L, 2);
    lua_gettable(L, -2);
    return 1;
  }
  if (!strcmp(name, "name")) lua_pushstring(L, v->name);
  else if (!strcmp(name, "shape")) bind_push_shape(L, &v->type);
  else if (!strcmp(name, "dtype")) lua_pushstring(L, dtype_name(v->type.dtype));
  else if (!strcmp(name, "rank")) lua_pushinteger(L, v->type.rank);
  else if (!strcmp(name, "size")) lua_pushinteger(L, type_count(&v->type));
  else if (!strcmp(name, "nbytes")) lua_pushinteger(L, (lua_Integer)type_bytes(&v->type));
  else if (!strcmp(name, "trainable")) lua_pushboolean(L, v->trainable);
  else if (!strcmp(name, "remote")) lua_pushboolean(L, v->remote);
  else if (!strcmp(name, "of_optimizer")) lua_pushboolean(L, v->of_optimizer);
  else if (!strcmp(name, "initialized")) push_initialised(L, v);
  else if (!strcmp(name, "deferred")) lua_pushboolean(L, v->deferred);
  else if (!strcmp(name, "version")) lua_pushinteger(L, v->version);
  else if (!strcmp(name, "T")) bind_push_transposed(L, 1);
  else return kept_field(L, name);
  return 1;
}

/* (variable, name, value): raises for fields that scripts can only read, and for names that seem to
 * set the value. */
static void refuse_fixed(lua_State *L, const char *name) {
  static const char *const fixed[] = {"T",    "name",   "shape",       "dtype",   "rank",
                                      "size", "nbytes", "initialized", "version", NULL};
  static const char *const value[] = {"value", "data", NULL};
  if (is_one_of(name, fixed))
    bind_fail(L, ERR_TYPE, "a variable's '%s' can't be assigned to", name);
  if (is_one_of(name, value))
    bind_fail(L, ERR_TYPE, "a variable has no '%s'; v:assign(values) replaces its value", name);
  lua_pushvalue(L, 2);
  bool is_method = lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL;
  lua_pop(L, 1);
  if (is_method)
    bind_fail(L, ERR_TYPE, "a variable's '%s' is a method, which can't be assigned to", name);
}

static int set_field(lua_State *L) {
  Variable *v = bind_check_variable(L);
  if (lua_type(L, 2) != LUA_TSTRING)
    return bind_fail(
        L, ERR_TYPE,
        "a variable's elements can't be assigned to one by one; v:assign(values) replaces them all");
  const char *name = lua_tostring(L, 2);
  refuse_fixed(L, name);
  if (!strcmp(name, "trainable")) {
    v->trainable = lua_toboolean(L, 3);
    return 0;
  }
  if (!strcmp(name, "remote")) {
    v->remote = lua_toboolean(L, 3);
    return 0;
  }
  if (!strcmp(name, "of_optimizer")) {
    v->of_optimizer = lua_toboolean(L, 3);
    return 0;
  }
  if (!strcmp(name, "deferred")) {
    v->deferred = lua_toboolean(L, 3);
    return 0;
  }
  if (lua_getiuservalue(L, 1, 1) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, 1, 1);
  }
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  lua_rawset(L, -3);
  return 0;
}

static int length(lua_State *L) {
  Variable *v = bind_check_variable(L);
  lua_pushinteger(L, v->type.rank ? v->type.shape[0] : 0);
  return 1;
}

/* Is it a tensor or a variable? */
static int is_value(lua_State *L) {
  lua_pushboolean(L, bind_test_tensor(L, 1) || bind_test_variable(L, 1));
  return 1;
}

static int is_variable(lua_State *L) {
  lua_pushboolean(L, bind_test_variable(L, 1) != NULL);
  return 1;
}

/* A number for the variable itself, never another's: two userdata may stand for one variable. */
static int identity(lua_State *L) {
  lua_pushinteger(L, bind_check_variable(L)->serial);
  return 1;
}

static int same(lua_State *L) {
  lua_pushboolean(L, bind_test_variable(L, 1) == bind_test_variable(L, 2));
  return 1;
}

void bind_open_variable(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"new_variable", new_variable},       {"set_variable", set_value},
      {"is_variable", is_variable},         {"is_value", is_value},
      {"variable_value", value_of},         {"variable_identity", identity},
      {"set_initialiser", set_initialiser}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"assign", assign},
                                     {"assign_add", assign_add},
                                     {"assign_sub", assign_sub},
                                     {"read_value", read_value},
                                     {"item", item},
                                     {"totable", totable},
                                     {"tolist", totable},
                                     {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", free_variable}, {"__tostring", text}, {"__repr", repr},
                                  {"__len", length},       {"__eq", same},       {NULL, NULL}};
  bind_set_functions(L, functions);
  bind_new_metatable(L, VARIABLE_NAME, "variable");
  luaL_setfuncs(L, meta, 0);
  luaL_newlib(L, methods);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "methods");
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, get_field, 1);
  lua_setfield(L, -3, "__index");
  lua_pushcclosure(L, set_field, 1);
  lua_setfield(L, -2, "__newindex");
  lua_pop(L, 1);
}
