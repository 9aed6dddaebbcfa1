/* Making tensors: of numbers and nested lists, full of a number, of a range. */
#include <math.h>
#include <string.h>

#include "lua/bind.h"
#include "lua/plain.h"
#include "lua/tape.h"

/* ---- numbers and nested lists ---- */

typedef struct Literal {
  const char *what;
  Type type;
  bool has_dtype;
} Literal;

static bool is_scalar(lua_State *L, int index) {
  int t = lua_type(L, index);
  return t == LUA_TNUMBER || t == LUA_TBOOLEAN;
}

/* The keys after a list's last position are its names. So lists need not be searched for names. */
static void refuse_names(lua_State *L, int index, const Literal *l, lua_Integer n) {
  if (n) lua_pushinteger(L, n);
  else lua_pushnil(L);
  while (lua_next(L, index)) {
    if (lua_type(L, -2) == LUA_TSTRING)
      bind_fail(L, ERR_TYPE, "%s must be a list; a table with names, such as '%s', is not one",
                l->what, lua_tostring(L, -2));
    lua_pop(L, 1);
  }
}

/* Objects of classes hold fields, no numbers. */
static void refuse_objects(lua_State *L, int index, const Literal *l) {
  if (plain_is(L, index)) return;
  int kind = luaL_getmetafield(L, index, "__name");
  if (kind == LUA_TNIL) return;
  const char *name = kind == LUA_TSTRING ? lua_tostring(L, -1) : "an object";
  bind_fail(L, ERR_TYPE, "%s must be a number, a list or a tensor, got %s", l->what, name);
}

/* The shape follows from the first elements. Other elements are compared with it when they are
 * filled in. */
static void measure(lua_State *L, int index, Literal *l, int depth) {
  Type inner;
  if (is_scalar(L, index)) {
    if (!l->has_dtype) l->type.dtype = lua_isboolean(L, index) ? BOOL : F32;
    return;
  }
  if (bind_type_at(L, index, &inner)) {
    if (depth + inner.rank > MAX_RANK)
      bind_fail(L, ERR_VALUE, "%s is nested deeper than %d", l->what, MAX_RANK);
    if (!l->has_dtype) l->type.dtype = inner.dtype;
    for (int i = 0; i < inner.rank; i++) l->type.shape[l->type.rank++] = inner.shape[i];
    return;
  }
  if (lua_isnone(L, index))
    bind_fail(L, ERR_TYPE, "%s is a method; it is called with a colon, as in x:%s(...)", l->what,
              l->what);
  if (!lua_istable(L, index))
    bind_fail(L, ERR_TYPE, "%s must be a number, a list or a tensor, got %s", l->what,
              bind_describe(L, index));
  if (depth == MAX_RANK) bind_fail(L, ERR_VALUE, "%s is nested deeper than %d", l->what, MAX_RANK);
  l->type.shape[l->type.rank++] = (int64_t)lua_rawlen(L, index);
  refuse_objects(L, index, l);
  refuse_names(L, index, l, l->type.shape[l->type.rank - 1]);
  if (lua_rawgeti(L, index, 1) != LUA_TNIL) measure(L, lua_gettop(L), l, depth + 1);
  else if (l->type.shape[l->type.rank - 1] > 0) bind_fail(L, ERR_TYPE, "%s has a hole", l->what);
  lua_pop(L, 1);
}

static const Numerics *numerics_of(lua_State *L) { return &bind_state(L)->engine->numerics; }

static void check_events(lua_State *L, const char *what, int events) {
  const char *trap = numerics_trap(numerics_of(L), events);
  if (trap) bind_fail(L, ERR_INTERNAL, "Tiles in excepted state: %s in %s", trap, what);
}

/* float16 takes finite numbers beyond its range as a cast does. */
static void put_number(lua_State *L, const char *what, Tensor *t, int64_t at, double x) {
  check_events(L, what, set_cast(t->type.dtype, t->data, at, x, numerics_of(L)));
}

static void put_scalar(lua_State *L, int index, const Literal *l, Tensor *t, int64_t at) {
  Dtype d = l->type.dtype;
  int is_whole; /* 3.0, too */
  lua_Integer whole = lua_tointegerx(L, index, &is_whole);
  if (lua_isboolean(L, index)) {
    dtype_set(d, t->data, at, lua_toboolean(L, index));
  } else if (dtype_is_integer(d)) {
    double x = lua_tonumber(L, index);
    if (is_whole) dtype_set_integer(d, t->data, at, whole);
    else if (x != floor(x) || isinf(x))
      bind_fail(L, ERR_VALUE, "%s: %g is no %s", l->what, x, dtype_name(d));
    if (!is_whole || dtype_get_integer(d, t->data, at) != whole)
      bind_fail(L, ERR_VALUE, "%s: %s does not fit %s", l->what, lua_tostring(L, index),
                dtype_name(d));
  } else {
    put_number(L, l->what, t, at, lua_tonumber(L, index));
  }
}

static void cast_into(lua_State *L, const char *what, const Tensor *from, Tensor *to, int64_t at) {
  State *s = bind_state(L);
  int64_t n = type_count(&from->type);
  Error e = {0};
  Tensor *dense = tensor_dense(&e, (Tensor *)(uintptr_t)from);
  if (!dense) bind_raise(L, &e);
  const void *in[1] = {dense->data};
  Dtype d = from->type.dtype, to_dtype = to->type.dtype;
  unsigned char *out = (unsigned char *)to->data + (size_t)at * dtype_size(to_dtype);
  s->engine->kernels->cast[d][to_dtype](in, 0, out, n, NULL);
  int events = to_dtype == F16 && d != F16
                   ? clip_cast(d, in[0], false, (f16 *)(void *)out, n, numerics_of(L))
                   : 0;
  tensor_release(dense);
  check_events(L, what, events);
}

static int64_t fill(lua_State *L, int index, const Literal *l, Tensor *t, int64_t at, int depth) {
  Type inner;
  int rest = l->type.rank - depth;
  if (is_scalar(L, index)) {
    if (rest != 0)
      bind_fail(L, ERR_VALUE, "%s is ragged: a number where a list is expected", l->what);
    put_scalar(L, index, l, t, at);
    return at + 1;
  }
  if (bind_type_at(L, index, &inner)) {
    bool same = inner.rank == rest;
    for (int i = 0; i < rest && same; i++) same = inner.shape[i] == l->type.shape[depth + i];
    if (!same) bind_fail(L, ERR_VALUE, "%s is ragged: its tensors have different shapes", l->what);
    Tensor *from = bind_concrete(L, index, l->what);
    cast_into(L, l->what, from, t, at);
    lua_pop(L, 1);
    return at + type_count(&inner);
  }
  if (!lua_istable(L, index))
    bind_fail(L, ERR_TYPE, "%s must hold numbers, got %s", l->what, bind_describe(L, index));
  lua_Integer n = luaL_len(L, index);
  if (rest == 0 || n != l->type.shape[depth])
    bind_fail(L, ERR_VALUE, "%s is ragged: its lists have different lengths", l->what);
  luaL_checkstack(L, 4, "nested too deep");
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, index, i);
    at = fill(L, lua_gettop(L), l, t, at, depth + 1);
    lua_pop(L, 1);
  }
  return at;
}

/* ---- lists of values ---- */

static bool is_value(lua_State *L, int index, const State *s) {
  const LuaTensor *u = bind_test_tensor(L, index);
  const Variable *v = bind_test_variable(L, index);
  if (u && !u->tensor) return true;
  if (v && (s->trace || v->deferred)) return true;
  Dtype d = u ? u->tensor->type.dtype : v ? v->type.dtype : BOOL;
  return dtype_is_float(d) && (s->trace || tape_is_recording(s));
}

/* Whether a list has elements that are more than numbers: symbolic, read when a program runs, or
 * differentiated. */
static bool holds_values(lua_State *L, int index, const State *s, int depth) {
  bool found = is_value(L, index, s);
  if (found || depth > MAX_RANK || !lua_istable(L, index)) return found;
  luaL_checkstack(L, 4, "nested too deep");
  for (lua_Integer i = 1, n = luaL_len(L, index); i <= n && !found; i++) {
    lua_rawgeti(L, index, i);
    found = holds_values(L, lua_gettop(L), s, depth + 1);
    lua_pop(L, 1);
  }
  return found;
}

static void push_cast(lua_State *L, int index, Dtype dtype) {
  Attr attrs[MAX_ATTRS] = {attr_dtype(dtype)};
  bind_apply(L, bind_op(L, "cast"), &index, 1, attrs);
}

static void push_value(lua_State *L, int index, const Literal *l, const Type *inner, int depth) {
  bool same = inner->rank == l->type.rank - depth;
  for (int i = 0; i < inner->rank && same; i++) same = inner->shape[i] == l->type.shape[depth + i];
  if (!same) bind_fail(L, ERR_VALUE, "%s is ragged: its tensors have different shapes", l->what);
  if (inner->dtype == l->type.dtype) lua_pushvalue(L, index);
  else push_cast(L, index, l->type.dtype);
}

static void push_numbers(lua_State *L, int index, const Literal *l, int depth) {
  Literal part = *l;
  part.type = type_make(l->type.dtype, l->type.rank - depth, l->type.shape + depth);
  Error e = {0};
  LuaTensor *u = bind_new_tensor(L);
  u->tensor = tensor_new(&e, &part.type);
  bind_check(L, &e);
  if (type_count(&part.type)) fill(L, index, &part, u->tensor, 0, 0);
}

/* Pushes a list as the stack of its elements: an op like others, which gradients go through. */
static void push_stacked(lua_State *L, int index, const Literal *l, int depth) {
  Type inner;
  luaL_checkstack(L, 8, "nested too deep");
  if (bind_type_at(L, index, &inner)) {
    push_value(L, index, l, &inner, depth);
    return;
  }
  if (!holds_values(L, index, bind_state(L), depth)) {
    push_numbers(L, index, l, depth);
    return;
  }
  int n = (int)luaL_len(L, index), top = lua_gettop(L);
  if (depth == l->type.rank || n != l->type.shape[depth])
    bind_fail(L, ERR_VALUE, "%s is ragged: its lists have different lengths", l->what);
  int *element = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *element, 0);
  luaL_checkstack(L, n + 8, "a long list");
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, index, i + 1);
    push_stacked(L, lua_gettop(L), l, depth + 1);
    lua_remove(L, -2);
    element[i] = lua_gettop(L);
  }
  Attr attrs[MAX_ATTRS] = {attr_int(0)};
  bind_apply(L, bind_op(L, "stack"), element, n, attrs);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

void bind_literal(lua_State *L, int index, Dtype dtype, const char *what) {
  index = lua_absindex(L, index);
  Literal l = {.what = what,
               .has_dtype = dtype != DTYPE_COUNT,
               .type = {.dtype = dtype == DTYPE_COUNT ? F32 : dtype}};
  Type type;
  if (bind_type_at(L, index, &type) && (!l.has_dtype || type.dtype == dtype)) {
    LuaTensor *t = bind_test_tensor(L, index);
    if (t) lua_pushvalue(L, index);
    else bind_push_reading(L, index, what);
    return;
  }
  const State *s = bind_state(L);
  /* an op like others, which gradients go through */
  if (bind_type_at(L, index, &type) &&
      (s->trace || tape_is_recording(s) || bind_is_deferred(L, index))) {
    push_cast(L, index, dtype);
    return;
  }
  luaL_checkstack(L, 2 * MAX_RANK + 8, NULL);
  measure(L, index, &l, 0);
  bool plain = !lua_istable(L, index) || !(s->trace || s->tapes || s->graph);
  if (plain || !holds_values(L, index, s, 0)) push_numbers(L, index, &l, 0);
  else push_stacked(L, index, &l, 0);
}

/* ---- constructors ---- */

static int tensor_of(lua_State *L) { /* (data, dtype, what | nil) */
  bind_literal(L, 1, bind_opt_dtype(L, 2, DTYPE_COUNT), luaL_optstring(L, 3, "tensor"));
  return 1;
}

static int full(lua_State *L) { /* (shape, value, dtype, who) */
  const char *who = luaL_optstring(L, 4, "full");
  Type type = {.dtype = bind_opt_dtype(L, 3, F32)};
  type.rank = bind_check_shape(L, 1, "shape", type.shape);
  Error e = {0};
  LuaTensor *u = bind_new_tensor(L);
  if (type_check(&e, who, &type) != OK) bind_raise(L, &e);
  u->tensor = tensor_new(&e, &type);
  bind_check(L, &e);
  Literal l = {.what = "full", .type = type};
  int64_t n = type_count(&type);
  if (n == 0) return 1;
  if (!is_scalar(L, 2))
    bind_fail(L, ERR_TYPE, "full: 'value' must be a number, got %s", luaL_typename(L, 2));
  put_scalar(L, 2, &l, u->tensor, 0);
  size_t size = dtype_size(type.dtype);
  for (int64_t i = 1; i < n; i++) memcpy(u->tensor->data + (size_t)i * size, u->tensor->data, size);
  return 1;
}

/* (start, step, divisor, n, dtype) → element i is start + step · i / divisor; integers stay
 * exact */
static int range(lua_State *L) {
  bool exact = lua_isinteger(L, 1) && lua_isinteger(L, 2);
  lua_Integer first = exact ? lua_tointeger(L, 1) : 0, each = exact ? lua_tointeger(L, 2) : 0;
  double start = luaL_checknumber(L, 1), step = luaL_checknumber(L, 2),
         divisor = luaL_checknumber(L, 3);
  Type type = {.dtype = bind_opt_dtype(L, 5, F32), .rank = 1, .shape = {luaL_checkinteger(L, 4)}};
  Error e = {0};
  LuaTensor *u = bind_new_tensor(L);
  u->tensor = tensor_new_uninitialised(&e, &type);
  bind_check(L, &e);
  for (int64_t i = 0; i < type.shape[0]; i++) {
    if (exact && divisor == 1 && type.dtype != F16)
      dtype_set_integer(type.dtype, u->tensor->data, i,
                        (int64_t)((uint64_t)first + (uint64_t)each * (uint64_t)i));
    else put_number(L, "range", u->tensor, i, start + step * (double)i / divisor);
  }
  return 1;
}

void bind_open_literal(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"tensor", tensor_of}, {"full", full}, {"range", range}, {NULL, NULL}};
  bind_set_functions(L, functions);
}
