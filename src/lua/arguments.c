/* The forms of an op's call: `f(x, y, {name = …})` and `f{x, y, name = …}`. Rows that take any
 * number of tensors are called as `f({x, y}, …)`. */
#include "lua/arguments.h"

#include <string.h>

#include "base/arith.h"
#include "base/nearest.h"
#include "lua/attributes.h"
#include "lua/plain.h"
#include "ops/ops.h"

enum { MAX_OPERANDS = 100000 };

static bool has_names(lua_State *L, int index) {
  bool found = false;
  lua_pushnil(L);
  while (!found && lua_next(L, index)) {
    lua_pop(L, 1);
    found = lua_type(L, -1) == LUA_TSTRING;
  }
  if (found) lua_pop(L, 1);
  return found;
}

bool arguments_has_names(lua_State *L, int index) {
  return plain_is(L, index) && has_names(L, index);
}

static bool is_tensor_like(lua_State *L, int index) {
  return bind_test_tensor(L, index) || bind_test_variable(L, index);
}

static size_t input_name(const OpDef *op, int i) {
  size_t n = strlen(op->inputs[i]);
  return op->inputs[i][n - 1] == '?' ? n - 1 : n;
}

int arguments_inputs(const OpDef *op) {
  return op_input_count(op, NULL) - ((op->traits & RANDOM) != 0);
}

static int find_input(const OpDef *op, const char *name) {
  for (int i = 0; i < arguments_inputs(op); i++)
    if (strlen(name) == input_name(op, i) && !strncmp(name, op->inputs[i], input_name(op, i)))
      return i;
  return -1;
}

static int find_attr(const OpDef *op, const char *name) {
  for (int i = 0; i < op_attr_count(op); i++)
    if (!strcmp(op->attrs[i].name, name)) return i;
  return -1;
}

/* ---- by name ---- */

/* Names of arguments in other libraries, and the names here. */
static const char *const elsewhere[][2] = {
    {"dim", "axis"},
    {"dim", "axes"},
    {"dims", "axis"},
    {"dims", "axes"},
    {"dims", "perm"},
    {"axes", "axis"},
    {"axis", "axes"},
    {"reduction_indices", "axis"},
    {"keepdim", "keepdims"},
    {"keep_dims", "keepdims"},
    {"descending", "direction"},
    {"stride", "strides"},
    {"kernel_size", "ksize"},
    {"pool_size", "ksize"},
    {"p", "rate"},
    {"prob", "rate"},
    {"eps", "epsilon"},
};

static const char *name_here(const char *name, const char *const *names) {
  for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
    for (int k = 0; names[k] && !strcmp(elsewhere[i][0], name); k++)
      if (!strcmp(elsewhere[i][1], names[k])) return names[k];
  return nearest_name(name, names);
}

static int unknown_name(lua_State *L, const OpDef *op, const char *name) {
  const char *names[MAX_INPUTS + MAX_ATTRS + 1] = {0};
  int n = 0;
  for (int i = 0; i < op_attr_count(op); i++)
    if (strcmp(op->attrs[i].name, "stream")) names[n++] = op->attrs[i].name;
  const char *near = name_here(name, names);
  return bind_fail(L, ERR_VALUE, "%s has no argument '%s'%s%s%s", op->name, name,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* A key that is no name: of a list's element, where the table may have one beside its names. */
static void check_number(lua_State *L, int key, const OpDef *op, lua_Integer listed) {
  if (lua_isinteger(L, key)) {
    lua_Integer i = lua_tointeger(L, key);
    if (i >= 1 && i <= listed) return;
    if (listed < 0)
      bind_fail(
          L, ERR_TYPE,
          "%s: the last table mixes names with a list; give the list as an argument of its own",
          op->name);
  }
  bind_fail(L, ERR_VALUE, "%s has no argument [%s]", op->name, luaL_tolstring(L, key, NULL));
}

static void check_once(lua_State *L, const Arguments *a, const char *name, bool given) {
  if (given)
    bind_fail(L, ERR_VALUE, "%s: '%s' is given twice, by position and by name", a->op->name, name);
}

static bool is_left_out(lua_State *L, const Arguments *a, int i) {
  return a->operand[i] == 0 || lua_isnoneornil(L, a->operand[i]);
}

/* listed: elements of the list that the table is, too; -1: it must not be one. */
static void read_names(lua_State *L, int table, Arguments *a, lua_Integer listed) {
  lua_pushnil(L);
  while (lua_next(L, table)) {
    if (lua_type(L, -2) != LUA_TSTRING) {
      check_number(L, lua_gettop(L) - 1, a->op, listed);
      lua_pop(L, 1);
      continue;
    }
    const char *name = lua_tostring(L, -2);
    int input = find_input(a->op, name), attr = find_attr(a->op, name);
    luaL_checkstack(L, 8, NULL);
    if (input < 0 && attr < 0 && strcmp(name, "name")) unknown_name(L, a->op, name);
    /* the key stays on top, the value below it for as long as the call lasts */
    lua_pushvalue(L, -2);
    bool is_read = listed == 0 && a->op->traits & VARIADIC && plain_is(L, lua_gettop(L) - 1);
    if (input >= 0 && !is_read) { /* else by named_list */
      check_once(L, a, name, input < a->operand_count && !is_left_out(L, a, input));
      a->operand[input] = lua_gettop(L) - 1;
      if (input >= a->operand_count) a->operand_count = input + 1;
    } else if (attr >= 0) {
      check_once(L, a, name, a->attr[attr].kind != ATTR_NONE);
      int value = lua_gettop(L) - 1;
      a->attr[attr] = attribute_read(L, value, a->op, &a->op->attrs[attr]);
      lua_pushvalue(L, value - 1);
    }
  }
}

/* ---- by position ---- */

/* All operands lie on Lua's stack. */
static void check_room(lua_State *L, const OpDef *op, lua_Integer count) {
  if (count > MAX_OPERANDS || !lua_checkstack(L, 2 * (int)count + 40))
    bind_fail(L, ERR_VALUE, "%s: %lld tensors are too many: at most %d", op->name, (long long)count,
              MAX_OPERANDS);
}

/* Pushes a list's elements, in order; returns how many. */
static int push_list(lua_State *L, int table, const OpDef *op) {
  lua_Integer n = luaL_len(L, table);
  check_room(L, op, n);
  for (lua_Integer i = 1; i <= n; i++) lua_rawgeti(L, table, i);
  return (int)n;
}

static void add_operands(lua_State *L, Arguments *a, int first, int count) {
  if (count > FEW_OPERANDS)
    a->operand = lua_newuserdatauv(L, ((size_t)count + FEW_OPERANDS) * sizeof *a->operand, 0);
  for (int i = 0; i < count; i++) a->operand[a->operand_count++] = first + i;
}

/* The list of tensors of a table with names: tensors of {tensors = {a, b}, axis = 0}, or the one
 * list in {{a, b}, axis = 0}. Otherwise it is the table itself, {a, b, axis = 0}. */
static int named_list(lua_State *L, int table, const OpDef *op) {
  lua_getfield(L, table, op->inputs[0]);
  if (luaL_len(L, table) == 0 && plain_is(L, lua_gettop(L))) return lua_gettop(L);
  if (luaL_len(L, table) == 1) {
    lua_rawgeti(L, table, 1);
    int inner = lua_gettop(L);
    if (plain_is(L, inner) && lua_rawgeti(L, inner, 1) && is_tensor_like(L, -1)) return inner;
  }
  return table;
}

/* Any number of tensors: in a list, or (einsum("ij,jk->ik", a, b)) after a text. Returns how
 * many of the arguments they are. */
static int read_tensors(lua_State *L, Arguments *a, int positional, bool has_names) {
  const OpDef *op = a->op;
  bool after_text = lua_type(L, 1) == LUA_TSTRING && op->attrs[0].kind == ATTR_STRING;
  int list = after_text ? 2 : 1;
  if (after_text) a->attr[0] = attribute_read(L, 1, op, &op->attrs[0]);
  if (after_text && (positional != 2 || !plain_is(L, 2))) {
    check_room(L, op, positional - 1);
    add_operands(L, a, 2, positional - 1);
    return positional;
  }
  if (!plain_is(L, list))
    bind_fail(L, ERR_TYPE, "%s: '%s' must be a list of tensors, got %s", op->name, op->inputs[0],
              bind_describe(L, 1));
  int from = has_names ? named_list(L, list, op) : list;
  int first = lua_gettop(L) + 1, count = push_list(L, from, op);
  add_operands(L, a, first, count);
  return list;
}

/* x:reshape(3, 2), as other libraries have it, instead of x:reshape{3, 2}. */
static void refuse_loose_list(lua_State *L, const OpDef *op, int attr, int extra) {
  const AttrDef *last = attr > 0 && attr <= op_attr_count(op) ? &op->attrs[attr - 1] : NULL;
  if (!last || last->kind != ATTR_INTS || !lua_isinteger(L, extra) || !lua_isinteger(L, extra - 1))
    return;
  bind_fail(L, ERR_TYPE, "%s: '%s' must be one list, as in {%d, %d}", op->name, last->name,
            (int)lua_tointeger(L, extra - 1), (int)lua_tointeger(L, extra));
}

/* random.normal(2, 3), where random.normal{2, 3} is meant. For an op without tensor arguments, the
 * first integer is a shape. A second one may be its second extent or the next argument. */
static void refuse_loose_shape(lua_State *L, const OpDef *op, int first, int last) {
  bool takes_shape =
      arguments_inputs(op) == 0 && op_attr_count(op) > 1 && op->attrs[0].kind == ATTR_INTS;
  if (!takes_shape || last <= first || !lua_isinteger(L, first) || !lua_isinteger(L, first + 1))
    return;
  int a = (int)lua_tointeger(L, first), b = (int)lua_tointeger(L, first + 1);
  bind_fail(L, ERR_TYPE, "%s: '%s' must be one list, as in {%d, %d}, or {%d} before %s = %d",
            op->name, op->attrs[0].name, a, b, a, op->attrs[1].name, b);
}

/* The values at first … last: operands, then attributes in the row's order. */
static void read_positional(lua_State *L, Arguments *a, int first, int last, int inputs) {
  const OpDef *op = a->op;
  refuse_loose_shape(L, op, first, last);
  for (int i = first; i <= last; i++) {
    int attr = i - first - inputs;
    if (attr < 0) {
      a->operand[a->operand_count++] = i;
    } else if (attr < op_attr_count(op) && strcmp(op->attrs[attr].name, "stream")) {
      if (!lua_isnil(L, i)) a->attr[attr] = attribute_read(L, i, op, &op->attrs[attr]);
    } else {
      refuse_loose_list(L, op, attr, i);
      int max = inputs + op_attr_count(op);
      bind_fail(L, ERR_VALUE, "%s takes at most %d argument%s, got %d", op->name, max, plural(max),
                last - first + 1);
    }
  }
}

/* ---- the form of a call ---- */

typedef struct Form {
  int names;      /* stack index of the table with arguments by name; 0: none */
  bool in_table;  /* the others are in that one table, too */
  bool is_alone;  /* that table is the only argument */
  int positional; /* else how many of them are on the stack */
} Form;

/* Whether an empty table at a position is a list; otherwise it is an empty table of options. */
static bool is_empty_list(const OpDef *op, int position) {
  int attr = position - 1 - (op->traits & VARIADIC ? 1 : arguments_inputs(op));
  return attr >= 0 && attr < op_attr_count(op) && op->attrs[attr].kind == ATTR_INTS;
}

static Form form_of(lua_State *L, const OpDef *op) {
  int top = lua_gettop(L);
  Form f = {.positional = top};
  if (top == 0 || !plain_is(L, top)) return f;
  bool named = has_names(L, top);
  if (named) f.names = top;
  f.is_alone = top == 1;
  if (top == 1 && !(op->traits & VARIADIC)) {
    bool has_tensors = lua_rawgeti(L, 1, 1) != LUA_TNIL && is_tensor_like(L, -1);
    lua_pop(L, 1);
    f.in_table = named || has_tensors;
  } else if (top > 1 && (named || (luaL_len(L, top) == 0 && !is_empty_list(op, top)))) {
    f.positional = top - 1;
  }
  return f;
}

static void read_call(lua_State *L, Arguments *a) {
  const OpDef *op = a->op;
  Form form = form_of(L, op);
  int first = 1, last = form.positional, inputs = arguments_inputs(op);
  if (op->traits & VARIADIC) {
    first += read_tensors(L, a, form.positional, form.names && form.is_alone);
    inputs = 0;
  } else if (form.in_table) {
    first = lua_gettop(L) + 1;
    last = first - 1 + push_list(L, 1, op);
  }
  read_positional(L, a, first, last, inputs);
  if (form.names) read_names(L, form.names, a, form.is_alone ? luaL_len(L, form.names) : -1);
}

/* ---- kinds of operands ---- */

/* The dtype of the first tensor among the operands that numbers may take after. */
static Dtype dtype_beside(lua_State *L, const Arguments *a) {
  Type type;
  for (int i = 0; i < a->operand_count; i++)
    if (a->operand[i] && op_number_dtype(a->op, i, DTYPE_COUNT) == DTYPE_COUNT &&
        bind_type_at(L, a->operand[i], &type))
      return type.dtype;
  return DTYPE_COUNT;
}

/* Numbers and lists become tensors. */
static void convert_operands(lua_State *L, Arguments *a) {
  const OpDef *op = a->op;
  Dtype beside = dtype_beside(L, a);
  for (int i = 0; i < a->operand_count; i++) {
    const char *name = op->traits & VARIADIC             ? op->inputs[0]
                       : i < MAX_INPUTS && op->inputs[i] ? op->inputs[i]
                                                         : "operand";
    if (is_left_out(L, a, i)) {
      int behind = i + 1;
      while (behind < a->operand_count && is_left_out(L, a, behind)) behind++;
      int length = (int)strcspn(name, "?");
      if (!name[length]) bind_fail(L, ERR_TYPE, "%s: '%s' is missing", op->name, name);
      if (behind < a->operand_count)
        bind_fail(L, ERR_TYPE, "%s: '%s' is missing; only the last operands may be left out",
                  op->name, lua_pushlstring(L, name, (size_t)length));
      a->operand_count = i;
      break;
    }
    if (is_tensor_like(L, a->operand[i])) continue;
    Dtype d = op_number_dtype(op, i, beside);
    luaL_checkstack(L, 40, NULL);
    const char *what = lua_pushfstring(L, "%s: '%s'", op->name, name);
    if (lua_isboolean(L, a->operand[i]) && d != BOOL && d != DTYPE_COUNT)
      bind_fail(L, ERR_TYPE, "%s must be a number or a tensor beside %s, got %s", what,
                dtype_name(d), bind_describe(L, a->operand[i]));
    bind_literal(L, a->operand[i], d, what);
    a->operand[i] = lua_gettop(L);
  }
}

/* ---- operands that callers do not give ---- */

/* In the sessions' graph a counter grows whenever it is read. */
static void count_deferred(lua_State *L, Variable *v) {
  TraceRef *ref = bind_graph(L);
  Trace *t = ref->trace;
  Value *now = trace_read(t, v);
  Value *next = now ? ops_add(t->graph, now, graph_number(t->graph, I64, 1)) : NULL;
  if (next) trace_add_effect(t, v, next, now->node);
  Error e = t->graph->error;
  error_clear(&t->graph->error);
  bind_check(L, &e);
  bind_push_value(L, now, ref);
}

static bool has_deferred(lua_State *L, const Arguments *a) {
  bool deferred = false;
  for (int i = 0; i < a->operand_count; i++)
    deferred = deferred || bind_is_deferred(L, a->operand[i]);
  return deferred;
}

/* The number of a random op's run, for an eager call: 0 where the caller fixed the seed. */
static void push_run_number(lua_State *L, Arguments *a, bool fixed) {
  State *s = bind_state(L);
  Error e = {0};
  Type type = type_scalar(I64);
  LuaTensor *u = bind_new_tensor(L);
  u->tensor = tensor_new(&e, &type);
  bind_check(L, &e);
  int64_t number = 0;
  if (s->run_number && !(fixed && s->seeded_stay)) number = bind_counter_value(L, fixed);
  else if (!fixed) number = s->engine->random_count, a->draws = true;
  dtype_set_integer(I64, u->tensor->data, 0, number);
}

/* Assignments in a gradient's region are lost, so the region around it counts for it. The steps
 * leave room for loops inside of the gradient. */
static void count_outside_gradients(State *s, Variable *v) {
  enum { STEP_AROUND_LOOPS = 1 << 16 };
  for (const TraceRef *r = s->trace; r; r = r->parent) {
    if (!r->is_gradient || !r->parent) continue;
    Trace *around = r->parent->trace;
    Value *now = trace_read(around, v),
          *step = graph_number(around->graph, I64, r == s->trace ? 1 : STEP_AROUND_LOOPS);
    if (now && step) trace_assign(around, v, ops_add(around->graph, now, step));
  }
}

/* The same in a traced function: a variable's value, which each run raises. */
static void push_counter(lua_State *L, bool fixed, bool deferred) {
  Variable *v = bind_push_counter(L, fixed);
  int variable = lua_gettop(L);
  if (deferred) {
    count_deferred(L, v);
    return;
  }
  lua_getfield(L, variable, "read_value");
  lua_pushvalue(L, variable);
  lua_call(L, 1, 1);
  lua_getfield(L, variable, "assign_add");
  lua_pushvalue(L, variable);
  lua_pushinteger(L, 1);
  lua_call(L, 2, 0);
  count_outside_gradients(bind_state(L), v);
}

/* Random ops count how often they have run: eagerly in the engine, in a traced function in a
 * variable made for the purpose. A seed given by the caller fixes the numbers of an eager call,
 * and the sequence of numbers that a traced op draws. */
static void add_counter(lua_State *L, Arguments *a) {
  State *s = bind_state(L);
  int n = op_attr_count(a->op), seed = n - 2, stream = n - 1;
  luaL_checkstack(L, 8, NULL);
  bool fixed = a->attr[seed].kind != ATTR_NONE;
  bool traced = s->trace, deferred = traced ? s->trace->trace->deferred : has_deferred(L, a);
  if (!traced && (fixed || !deferred)) {
    if (!fixed) a->attr[seed] = attr_int(s->run_number ? 0 : (int64_t)s->engine->seed);
    if (!fixed && s->run_number) a->attr[stream] = attr_int(++s->stream);
    push_run_number(L, a, fixed);
  } else {
    /* the counter speaks for the seed, so that compiled programs can be seeded anew */
    if (!fixed) {
      a->attr[seed] = attr_int(0);
      a->attr[stream] = attr_int(++s->stream);
    }
    push_counter(L, fixed, deferred);
  }
  a->operand[a->operand_count++] = lua_gettop(L);
}

/* Rows whose shapes depend on the number of replicas get the one that the program being traced
 * will have. */
static void add_factor(lua_State *L, Arguments *a) {
  State *s = bind_state(L);
  if (!s->trace) return;
  int replicas = int_max(s->replicas, 1);
  for (int i = 0; i < op_attr_count(a->op); i++) {
    if (strcmp(a->op->attrs[i].name, "replication_factor") || a->attr[i].kind != ATTR_NONE)
      continue;
    a->attr[i] = attr_int(replicas);
    if (!s->replicas_asked) s->replicas_asked = replicas;
  }
}

/* ---- all of it ---- */

/* t.reshape{2, 3}: the argument was taken as the operand. */
static const char *colon_hint(lua_State *L, const OpDef *op) {
  if (!lua_istable(L, 1) || (op->traits & VARIADIC)) return "";
  bool is_numbers = lua_rawgeti(L, 1, 1) == LUA_TNUMBER;
  lua_pop(L, 1);
  return is_numbers ? "; a tensor's methods are called with a colon, t:name(…)" : "";
}

static void check_operands(lua_State *L, const Arguments *a) {
  const OpDef *op = a->op;
  int required;
  op_input_count(op, &required);
  if (op->traits & RANDOM) required--;
  if (!(op->traits & VARIADIC) && a->operand_count < required)
    bind_fail(L, ERR_TYPE, "%s: '%s' is missing", op->name, op->inputs[a->operand_count]);
}

static void check_attributes(lua_State *L, const Arguments *a) {
  const OpDef *op = a->op;
  for (int i = 0; i < op_attr_count(op); i++)
    if (a->attr[i].kind == ATTR_NONE && !op->attrs[i].fallback)
      bind_fail(L, ERR_TYPE, "%s: '%s' is missing%s", op->name, op->attrs[i].name,
                colon_hint(L, op));
}

void arguments_read(lua_State *L, Arguments *a) {
  a->operand = a->few;
  read_call(L, a);
  check_operands(L, a);
  convert_operands(L, a);
  check_attributes(L, a);
  if (a->op->traits & RANDOM) add_counter(L, a);
  if (a->op->traits & PER_REPLICA) add_factor(L, a);
}
