/* The Lua type of tensors: concrete ones, and symbolic ones of a function being traced. */
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "lua/bind.h"
#include "lua/plain.h"
#include "lua/tape.h"
#include "transform/fetch.h"

LuaTensor *bind_new_tensor(lua_State *L) {
  LuaTensor *t = lua_newuserdatauv(L, sizeof *t, 0);
  *t = (LuaTensor){0};
  luaL_setmetatable(L, TENSOR_NAME);
  return t;
}

void bind_push_tensor(lua_State *L, Tensor *t) {
  LuaTensor *u = bind_new_tensor(L);
  u->tensor = t;
  bind_tell_collector(L, t ? type_bytes(&t->type) : 0);
}

void bind_push_linked(lua_State *L, Tensor *t) {
  LuaTensor *u = lua_newuserdatauv(L, sizeof *u, 2);
  *u = (LuaTensor){.tensor = t};
  luaL_setmetatable(L, TENSOR_NAME);
}

void bind_push_value(lua_State *L, Value *v, TraceRef *trace) {
  LuaTensor *u = bind_new_tensor(L);
  u->value = v;
  u->trace = trace_ref_retain(trace);
}

LuaTensor *bind_test_tensor(lua_State *L, int index) {
  return luaL_testudata(L, index, TENSOR_NAME);
}

LuaTensor *bind_check_tensor(lua_State *L, int index, const char *what) {
  LuaTensor *t = bind_test_tensor(L, index);
  if (!t) bind_fail(L, ERR_TYPE, "%s must be a tensor, got %s", what, luaL_typename(L, index));
  return t;
}

bool bind_type_at(lua_State *L, int index, Type *out) {
  LuaTensor *t = bind_test_tensor(L, index);
  Variable *v = t ? NULL : bind_test_variable(L, index);
  if (t && t->tensor) *out = t->tensor->type;
  else if (t && t->trace && t->trace->trace) *out = t->value->type;
  else if (v) *out = v->type;
  else if (t) bind_fail(L, ERR_VALUE, "%s", bind_stale_words(t));
  else return false;
  return true;
}

Dtype bind_check_dtype(lua_State *L, int index) { return bind_check_dtype_of(L, index, ""); }

Dtype bind_check_dtype_of(lua_State *L, int index, const char *who) {
  Dtype d = F32;
  const char *name = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : NULL;
  if (!name)
    bind_fail(L, ERR_TYPE, "%sa dtype must be a string, got %s", who, luaL_typename(L, index));
  if (!dtype_find(name, &d)) {
    const char *names[DTYPE_COUNT + 1] = {0};
    for (int i = 0; i < DTYPE_COUNT; i++) names[i] = dtype_name((Dtype)i);
    const char *near = nearest_name(name, names);
    bind_fail(L, ERR_VALUE, "%sthere is no dtype '%s'%s%s%s", who, name,
              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  return d;
}

Dtype bind_opt_dtype(lua_State *L, int index, Dtype fallback) {
  return lua_isnoneornil(L, index) ? fallback : bind_check_dtype(L, index);
}

int bind_check_shape(lua_State *L, int index, const char *what, int64_t shape[MAX_RANK]) {
  int isint = 0;
  if (lua_type(L, index) == LUA_TNUMBER) {
    shape[0] = lua_tointegerx(L, index, &isint);
    if (!isint) bind_fail(L, ERR_TYPE, "%s must be a list of integers", what);
    return 1;
  }
  if (!lua_istable(L, index))
    bind_fail(L, ERR_TYPE, "%s must be a list of integers, got %s", what, luaL_typename(L, index));
  lua_Integer n = luaL_len(L, index);
  if (n > MAX_RANK)
    bind_fail(L, ERR_VALUE, "%s has %d extents; at most %d are possible", what, (int)n, MAX_RANK);
  index = lua_absindex(L, index);
  for (int i = 0; i < (int)n; i++) {
    lua_rawgeti(L, index, i + 1);
    shape[i] = lua_tointegerx(L, -1, &isint);
    if (!isint)
      bind_fail(L, ERR_TYPE, "%s must be a list of integers, its element %d is %s", what, i + 1,
                lua_type(L, -1) == LUA_TNUMBER ? lua_tostring(L, -1) : luaL_typename(L, -1));
    lua_pop(L, 1);
  }
  return (int)n;
}

void bind_push_shape(lua_State *L, const Type *t) {
  lua_createtable(L, t->rank, 0);
  for (int i = 0; i < t->rank; i++) {
    lua_pushinteger(L, t->shape[i]);
    lua_rawseti(L, -2, i + 1);
  }
  plain_mark_shape(L);
}

void bind_set_type(lua_State *L, const Type *t) {
  bind_set_text(L, "dtype", dtype_name(t->dtype));
  bind_push_shape(L, t);
  lua_setfield(L, -2, "shape");
}

void bind_push_type(lua_State *L, const Type *t) {
  lua_createtable(L, 0, 2);
  bind_set_type(L, t);
}

Tensor *bind_concrete(lua_State *L, int index, const char *what) {
  LuaTensor *t = bind_test_tensor(L, index);
  Variable *v = t ? NULL : bind_test_variable(L, index);
  if (t && t->tensor) {
    lua_pushvalue(L, index);
    return t->tensor;
  }
  if (v) {
    if (v->aggregate) v = v->aggregate;
    bind_settle(L, v);
    if (!v->value) bind_initialise(L, index);
    if (!v->value && bind_state(L)->estimating) {
      Error e = {0};
      Tensor *zeros = tensor_new(&e, &v->type); /* the variable's own value is still to be made */
      bind_check(L, &e);
      bind_push_tensor(L, zeros);
      return zeros;
    }
    if (!v->value)
      bind_fail(L, ERR_FAILED_PRECONDITION, "variable '%s' is read before it was initialised",
                v->name);
    bind_check_steady(L, v);
    if (!v->writers) {
      bind_push_tensor(L, tensor_retain(v->value));
      return v->value;
    }
    Error e = {0}; /* a program writes where the value is */
    Tensor *copy = tensor_from(&e, &v->type, observed_data(bind_state(L)->engine->seen, v));
    bind_check(L, &e);
    bind_push_tensor(L, copy);
    return copy;
  }
  if (t && t->trace == bind_state(L)->graph)
    bind_fail(L, ERR_RUNTIME, "%s: a symbolic tensor has no value; sess:run(x) computes it", what);
  if (t)
    bind_fail(
        L, ERR_RUNTIME,
        "%s: the value of a symbolic tensor is not known while a function is traced; use ipu.cond, "
        "ipu.while_loop or an outfeed instead",
        what);
  bind_literal(L, index, DTYPE_COUNT, what);
  return bind_test_tensor(L, -1)->tensor;
}

void bind_push_held(lua_State *L, int index, const char *what) {
  Tensor *value = bind_concrete(L, index, what);
  Error e = {0};
  Tensor *own = tensor_view(&e, value, &value->type, value->stride, 0);
  bind_check(L, &e);
  bind_push_tensor(L, own);
  lua_remove(L, -2);
}

void bind_push_reading(lua_State *L, int index, const char *what) {
  State *s = bind_state(L);
  TraceRef *ref = s->trace ? s->trace : bind_is_deferred(L, index) ? bind_graph(L) : NULL;
  if (ref) {
    bind_push_value(L, bind_value_in(L, ref, index, what), ref);
    return;
  }
  bind_push_held(L, index, what);
  if (s->tapes) tape_record_reading(L, bind_test_variable(L, index));
}

/* ---- methods ---- */

static int free_tensor(lua_State *L) {
  LuaTensor *t = lua_touserdata(L, 1);
  tensor_release(t->tensor);
  trace_ref_release(t->trace);
  *t = (LuaTensor){0};
  return 0;
}

static void push_number(lua_State *L, const Tensor *t, int64_t i) {
  Dtype d = t->type.dtype;
  if (d == BOOL) {
    lua_pushboolean(L, tensor_get(t, i) != 0);
  } else if (dtype_is_float(d)) {
    lua_pushnumber(L, tensor_get(t, i));
  } else if (d == I64 && tensor_is_dense(t)) {
    lua_pushinteger(L, dtype_get_integer(d, t->data, i));
  } else {
    lua_pushinteger(L, (lua_Integer)tensor_get(t, i));
  }
}

static int item(lua_State *L) {
  Tensor *t = bind_concrete(L, 1, "item");
  if (type_count(&t->type) != 1) {
    char text[TYPE_TEXT];
    bind_fail(L, ERR_VALUE, "item: only a tensor of one element has one value, this is %s",
              type_text(&t->type, text));
  }
  push_number(L, t, 0);
  return 1;
}

static int64_t push_nested(lua_State *L, const Tensor *t, int axis, int64_t at) {
  if (axis == t->type.rank) {
    push_number(L, t, at);
    return at + 1;
  }
  luaL_checkstack(L, 4, NULL);
  lua_createtable(L, (int)t->type.shape[axis], 0);
  for (int64_t i = 0; i < t->type.shape[axis]; i++) {
    at = push_nested(L, t, axis + 1, at);
    lua_rawseti(L, -2, i + 1);
  }
  plain_mark(L);
  return at;
}

static int totable(lua_State *L) {
  Tensor *t = bind_concrete(L, 1, "totable");
  push_nested(L, t, 0, 0);
  return 1;
}

/* As the script sees it: -1 for an extent that depends on a session's feeds. */
static bool shown_type(lua_State *L, int index, Type *type) {
  LuaTensor *t = bind_test_tensor(L, index);
  if (!bind_type_at(L, index, type)) return false;
  if (t && !t->tensor && t->trace->trace->deferred)
    *type = clone_declared_type(t->trace->trace, t->value);
  return true;
}

static int text(lua_State *L) {
  Type type;
  LuaTensor *u = bind_test_tensor(L, 1);
  if (u && !u->tensor) {
    if (!u->trace->trace) {
      lua_pushliteral(L, "symbolic tensor of a function that has been traced");
      return 1;
    }
    char buffer[TYPE_TEXT];
    shown_type(L, 1, &type);
    lua_pushfstring(L, "symbolic %s (%s)", type_text(&type, buffer), u->value->node->op->name);
    return 1;
  }
  Tensor *t = bind_concrete(L, 1, "print");
  Error e = {0};
  char *s = tensor_text(&e, t, &bind_state(L)->print);
  bind_check(L, &e);
  lua_pushstring(L, s);
  free(s);
  return 1;
}

static int repr(lua_State *L) {
  LuaTensor *u = bind_test_tensor(L, 1);
  if (u && !u->tensor) return text(L);
  Tensor *t = bind_concrete(L, 1, "print");
  Error e = {0};
  char *s = tensor_repr(&e, t, &bind_state(L)->print);
  bind_check(L, &e);
  lua_pushstring(L, s);
  free(s);
  return 1;
}

static const char unknown_extent[] = "is not known until a session feeds it: ";

static int row(lua_State *L, lua_Integer i) {
  Type type;
  shown_type(L, 1, &type);
  if (type.rank > 0 && type.shape[0] < 0)
    bind_fail(L, ERR_VALUE, "the number of rows %sa row is t:slice(begin, size)", unknown_extent);
  if (type.rank == 0) bind_fail(L, ERR_VALUE, "a tensor of rank 0 has no rows");
  if (i < 1)
    bind_fail(L, ERR_VALUE, "there is no row %lld: a tensor's rows count from 1", (long long)i);
  if (i > type.shape[0]) {
    lua_pushnil(L); /* as a list does: `for i, row in ipairs(t)` ends */
    return 1;
  }
  LuaTensor *u = bind_test_tensor(L, 1);
  const State *s = bind_state(L);
  bool differentiable = dtype_is_float(type.dtype) && (s->trace || tape_is_recording(s));
  /* else it is an op like others, which gradients go through */
  if (u && u->tensor && !differentiable) {
    Error e = {0};
    Tensor *t = tensor_row(&e, u->tensor, i - 1);
    bind_check(L, &e);
    bind_push_linked(L, t);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    lua_pushinteger(L, i);
    lua_setiuservalue(L, -2, 2);
    return 1;
  }
  int64_t begin[MAX_RANK] = {i - 1}, size[MAX_RANK] = {1};
  for (int k = 1; k < type.rank; k++) size[k] = type.shape[k];
  Attr slice[MAX_ATTRS] = {attr_ints(begin, type.rank), attr_ints(size, type.rank)};
  int self = 1;
  bind_apply(L, bind_op(L, "slice"), &self, 1, slice);
  int sliced = lua_gettop(L);
  int64_t first = 0;
  Attr axis[MAX_ATTRS] = {attr_ints(&first, 1)};
  return bind_apply(L, bind_op(L, "squeeze"), &sliced, 1, axis);
}

int bind_refuse_field(lua_State *L, const char *kind) {
  if (lua_type(L, 2) != LUA_TSTRING)
    bind_fail(
        L, ERR_TYPE,
        "a %s is indexed by a row's number, from 1, or by the name of a field or method, got %s",
        kind, bind_describe(L, 2));
  lua_getglobal(L, "require");
  lua_pushliteral(L, "ipulua.base.slips");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "field_hint");
  lua_pushstring(L, kind);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_call(L, 3, 1);
  return bind_fail(L, ERR_VALUE, "a %s has no '%s'%s", kind, lua_tostring(L, 2),
                   lua_tostring(L, -1));
}

static void push_count(lua_State *L, const Type *type) {
  for (int i = 0; i < type->rank; i++)
    if (type->shape[i] < 0)
      bind_fail(L, ERR_VALUE, "the size %st:reduce_mean() and the like know it when they run",
                unknown_extent);
  lua_pushinteger(L, type_count(type));
}

/* x.T: all axes in reverse. */
void bind_push_transposed(lua_State *L, int index) {
  int self = lua_absindex(L, index);
  bind_apply(L, bind_op(L, "transpose"), &self, 1, NULL);
}

/* A function of base/indexing, of so many of the arguments, which gives so many results. */
static int call_indexing(lua_State *L, const char *name, int arguments, int results) {
  lua_settop(L, arguments);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "ipulua.base.indexing");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, name);
  lua_insert(L, 1);
  lua_pop(L, 1);
  lua_call(L, arguments, results);
  return results;
}

/* t[-1], t[{2, 5}], t[mask] */
static int indexed(lua_State *L) { return call_indexing(L, "read", 2, 1); }

/* t[i], t.shape and methods; upvalue 1 is the table of methods. Names of metamethods are no
 * slips: Lua code may ask for them. */
static int get_field(lua_State *L) {
  if (lua_type(L, 2) == LUA_TNUMBER) {
    int isint;
    lua_Integer i = lua_tointegerx(L, 2, &isint);
    if (!isint) bind_fail(L, ERR_TYPE, "a row's number must be an integer");
    return i < 0 ? indexed(L) : row(L, i);
  }
  if (lua_istable(L, 2) || bind_test_tensor(L, 2)) return indexed(L);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : NULL;
  Type type;
  if (!name) return bind_refuse_field(L, "tensor");
  if (!strcmp(name, "shape") && shown_type(L, 1, &type)) bind_push_shape(L, &type);
  else if (!strcmp(name, "dtype") && bind_type_at(L, 1, &type))
    lua_pushstring(L, dtype_name(type.dtype));
  else if (!strcmp(name, "rank") && bind_type_at(L, 1, &type)) lua_pushinteger(L, type.rank);
  else if (!strcmp(name, "size") && shown_type(L, 1, &type)) push_count(L, &type);
  else if (!strcmp(name, "T")) bind_push_transposed(L, 1);
  else if (strncmp(name, "__", 2) && !bind_field_behind(L)) return bind_refuse_field(L, "tensor");
  return 1;
}

static int length(lua_State *L) {
  Type type = {0};
  shown_type(L, 1, &type);
  if (type.rank == 0) bind_fail(L, ERR_VALUE, "a tensor of rank 0 has no length");
  if (type.shape[0] < 0)
    bind_fail(L, ERR_VALUE, "the length %st:reduce_mean() and the like know it when they run",
              unknown_extent);
  lua_pushinteger(L, type.shape[0]);
  return 1;
}

/* t[2] = v */
static int set_elements(lua_State *L) {
  if (lua_type(L, 2) == LUA_TSTRING)
    return bind_fail(L, ERR_TYPE, "a tensor's fields can't be assigned to, such as '%s'",
                     lua_tostring(L, 2));
  return call_indexing(L, "write", 3, 0);
}

static int refuse_comparison(lua_State *L) {
  return bind_fail(
      L, ERR_TYPE,
      "tensors are compared with ipu.less(a, b), ipu.less_equal(a, b), ipu.equal(a, b) …, not with < or <=");
}

static int concatenation(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

/* ---- asking ---- */

static int is_tensor(lua_State *L) {
  lua_pushboolean(L, bind_test_tensor(L, 1) != NULL);
  return 1;
}

static int is_symbolic(lua_State *L) {
  LuaTensor *t = bind_test_tensor(L, 1);
  lua_pushboolean(L, t && !t->tensor);
  return 1;
}

static int type_of(lua_State *L) { /* (tensor) → dtype, shape */
  Type type;
  if (!shown_type(L, 1, &type)) return 0;
  lua_pushstring(L, dtype_name(type.dtype));
  bind_push_shape(L, &type);
  return 2;
}

void bind_open_tensor(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"is_tensor", is_tensor}, {"is_symbolic", is_symbolic}, {"type_of", type_of}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"item", item}, {"totable", totable}, {"tolist", totable}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", free_tensor},
                                  {"__tostring", text},
                                  {"__repr", repr},
                                  {"__len", length},
                                  {"__lt", refuse_comparison},
                                  {"__le", refuse_comparison},
                                  {"__newindex", set_elements},
                                  {"__concat", concatenation},
                                  {NULL, NULL}};
  bind_set_functions(L, functions);
  bind_new_metatable(L, TENSOR_NAME, "tensor");
  luaL_setfuncs(L, meta, 0);
  luaL_newlib(L, methods);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "methods"); /* the ops add theirs */
  lua_pushcclosure(L, get_field, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
