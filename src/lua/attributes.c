/* Attributes of ops as scripts write them. */
#include "lua/attributes.h"

#include "graph/choice.h"

enum { MAX_NESTED = 16, MAX_VALUES = 100000 };

static int64_t read_integer(lua_State *L, int index, const OpDef *op, const AttrDef *def) {
  int isint;
  int64_t i = lua_tointegerx(L, index, &isint);
  if (!isint || lua_type(L, index) != LUA_TNUMBER)
    bind_fail(L, ERR_TYPE, "%s: '%s' must be %s, got %s", op->name, def->name,
              def->kind == ATTR_INTS ? "an integer or a list of integers" : "an integer",
              bind_describe(L, index));
  return i;
}

/* How many values there are in a list and those inside of it. */
static int64_t count_list(lua_State *L, int index, const OpDef *op, const AttrDef *def, int depth) {
  lua_Integer n = luaL_len(L, index);
  int64_t count = n;
  if (depth == MAX_NESTED)
    bind_fail(L, ERR_VALUE, "%s: '%s' has lists in lists without end", op->name, def->name);
  if (n > MAX_VALUES)
    bind_fail(L, ERR_VALUE, "%s: '%s' is longer than %d", op->name, def->name, MAX_VALUES);
  luaL_checkstack(L, 4, NULL);
  for (lua_Integer i = 1; i <= n; i++) {
    if (lua_rawgeti(L, index, i) == LUA_TTABLE)
      count += count_list(L, lua_gettop(L), op, def, depth + 1);
    lua_pop(L, 1);
    if (count > MAX_VALUES)
      bind_fail(L, ERR_VALUE, "%s: '%s' is longer than %d", op->name, def->name, MAX_VALUES);
  }
  return count;
}

/* Nested lists are read in order, into room for all of them; false stands for an open end. */
static int read_list(lua_State *L, int index, const OpDef *op, const AttrDef *def, int64_t *list,
                     int count) {
  lua_Integer n = luaL_len(L, index);
  for (lua_Integer i = 1; i <= n; i++) {
    int type = lua_rawgeti(L, index, i);
    if (type == LUA_TTABLE) {
      count = read_list(L, lua_gettop(L), op, def, list, count);
    } else {
      bool open = type == LUA_TBOOLEAN && !lua_toboolean(L, -1);
      list[count++] = open ? INT64_MIN : read_integer(L, lua_gettop(L), op, def);
    }
    lua_pop(L, 1);
  }
  return count;
}

static Attr read_choice(lua_State *L, int index, const OpDef *op, const AttrDef *def) {
  const char *given = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : NULL;
  if (!given)
    bind_fail(L, ERR_TYPE, "%s: '%s' must be a string, got %s", op->name, def->name,
              bind_describe(L, index));
  if (!def->choices) return attr_string(given);
  size_t n;
  const char *choice = choice_find(def, given, &n);
  Error e = {0};
  if (!choice) choice_refuse(&e, op, def, given);
  bind_check(L, &e);
  lua_pushlstring(L, choice, n); /* stays on the stack while the call lasts */
  return attr_string(lua_tostring(L, -1));
}

/* Attributes are doubles. The greatest integer becomes 2^63, which is beyond all int64 numbers.
 * Code that turns it back takes the greatest int64. */
static double read_number(lua_State *L, int index, const OpDef *op, const AttrDef *def) {
  lua_Number number = lua_tonumber(L, index);
  lua_Integer whole = lua_tointeger(L, index);
  if (lua_isinteger(L, index) && whole != LUA_MAXINTEGER &&
      (number >= 0x1p63 || (lua_Integer)number != whole))
    bind_fail(L, ERR_VALUE,
              "%s: '%s' is %lld, but integers beyond 2^53 are exact in tensors alone: "
              "ipu.minimum, ipu.maximum, ipu.where and ipu.concat take them there",
              op->name, def->name, (long long)whole);
  return number;
}

Attr attribute_read(lua_State *L, int index, const OpDef *op, const AttrDef *def) {
  index = lua_absindex(L, index);
  switch (def->kind) {
    case ATTR_INT:
      return attr_int(read_integer(L, index, op, def));
    case ATTR_FLOAT:
      if (lua_type(L, index) != LUA_TNUMBER)
        bind_fail(L, ERR_TYPE, "%s: '%s' must be a number, got %s", op->name, def->name,
                  bind_describe(L, index));
      return attr_float(read_number(L, index, op, def));
    case ATTR_BOOL:
      if (!lua_isboolean(L, index))
        bind_fail(L, ERR_TYPE, "%s: '%s' must be a boolean, got %s", op->name, def->name,
                  bind_describe(L, index));
      return attr_bool(lua_toboolean(L, index));
    case ATTR_STRING:
      return read_choice(L, index, op, def);
    case ATTR_DTYPE: {
      lua_pushfstring(L, "%s: '%s': ", op->name, def->name);
      Dtype d = bind_check_dtype_of(L, index, lua_tostring(L, -1));
      lua_pop(L, 1);
      return attr_dtype(d);
    }
    case ATTR_INTS: {
      int64_t room = lua_istable(L, index) ? count_list(L, index, op, def, 0) : 1;
      /* stays on the stack */
      int64_t *list = lua_newuserdatauv(L, (size_t)(room + 1) * sizeof *list, 0);
      int n = 1;
      if (lua_istable(L, index)) n = read_list(L, index, op, def, list, 0);
      else list[0] = read_integer(L, index, op, def);
      Attr ints = attr_ints(list, n);
      ints.ints.listed = lua_istable(L, index);
      return ints;
    }
    case ATTR_TENSOR: {
      bind_literal(L, index, DTYPE_COUNT, def->name);
      return (Attr){.kind = ATTR_TENSOR, .tensor = bind_concrete(L, -1, def->name)};
    }
    default:
      bind_fail(L, ERR_TYPE, "%s: '%s' can't be given here", op->name, def->name);
  }
  return (Attr){.kind = ATTR_NONE};
}
