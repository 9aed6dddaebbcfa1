/* The registry as Lua functions and methods: one C function with the row as its upvalue serves all. */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lua/bind.h"
#include "lua/tape.h"
#include "ops/library.h"
#include "ops/ops.h"

enum { MAX_OPERANDS = 64, MAX_LIST = 64 };

/* ---- applying ---- */

static bool is_symbolic(lua_State *L, int index, const State *s) {
  LuaTensor *t = bind_test_tensor(L, index);
  if (t) return t->tensor == NULL;
  Variable *v = bind_test_variable(L, index);
  return v && (s->trace ? !s->trace->taped : v->deferred);
}

static int push_results(lua_State *L, const OpDef *op, Node *n, TraceRef *trace) {
  int count = op->visible_outputs ? op->visible_outputs : n->out_count;
  luaL_checkstack(L, count + 4, NULL);
  for (int i = 0; i < count; i++) bind_push_value(L, &n->out[i], trace);
  return count;
}

static int apply_symbolic(lua_State *L, const OpDef *op, const int *index, int count, const Attr *attrs) {
  State *s = bind_state(L);
  TraceRef *ref = s->trace;
  if (!ref) {
    Type type; /* raises for a stale symbolic tensor */
    for (int i = 0; i < count; i++) {
      bind_type_at(L, index[i], &type);
      if (bind_is_deferred(L, index[i])) ref = bind_graph(L);
    }
    if (!ref) bind_fail(L, ERR_VALUE, "%s: a symbolic tensor is used outside the function that made it", op->name);
  }
  Graph *g = ref->trace->graph;
  Value **in = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *in, 0);
  bind_mark_line(L, g);
  for (int i = 0; i < count; i++) in[i] = bind_value_in(L, ref, index[i], op->name);
  Node *n = graph_node(g, op, in, count, attrs);
  if (n) return push_results(L, op, n, ref);
  Error e = g->error;
  error_clear(&g->error); /* a script may catch this and go on tracing */
  e.source[0] = 0;        /* the caller's line is the node's */
  return bind_raise(L, &e);
}

static int apply_eager(lua_State *L, const OpDef *op, const int *index, int count, const Attr *attrs) {
  State *s = bind_state(L);
  Tensor **in = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *in, 0);
  luaL_checkstack(L, count + 8, NULL);
  for (int i = 0; i < count; i++) in[i] = bind_concrete(L, index[i], op->name); /* keeps them on the stack */
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
  if (s->tape) tape_record(L, op, index, count, attrs, first, out_count);
  lua_settop(L, first + visible - 1);
  return visible;
}

int bind_apply(lua_State *L, const OpDef *op, const int *index, int count, const Attr *attrs) {
  State *s = bind_state(L);
  bool symbolic = (op->traits & (RANDOM | PER_REPLICA)) && s->trace && !s->trace->taped;
  for (int i = 0; i < count && !symbolic; i++) symbolic = is_symbolic(L, index[i], s);
  return symbolic ? apply_symbolic(L, op, index, count, attrs) : apply_eager(L, op, index, count, attrs);
}

const OpDef *bind_op(lua_State *L, const char *name) {
  const OpDef *op = op_find(name);
  if (!op) luaL_error(L, "the op '%s' is missing", name);
  return op;
}

/* ---- reading arguments ---- */

typedef struct Arguments {
  const OpDef *op;
  int operand[MAX_OPERANDS]; /* stack indices */
  int operand_count;
  Attr attr[MAX_ATTRS];
} Arguments;

static bool is_plain_table(lua_State *L, int index) {
  if (!lua_istable(L, index)) return false;
  if (!lua_getmetatable(L, index)) return true;
  lua_pop(L, 1);
  return false;
}

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

static bool is_tensor_like(lua_State *L, int index) { return bind_test_tensor(L, index) || bind_test_variable(L, index); }

static size_t input_name(const OpDef *op, int i) {
  size_t n = strlen(op->inputs[i]);
  return op->inputs[i][n - 1] == '?' ? n - 1 : n;
}

static int visible_inputs(const OpDef *op) { return op_input_count(op, NULL) - ((op->traits & RANDOM) != 0); }

static int find_input(const OpDef *op, const char *name) {
  for (int i = 0; i < visible_inputs(op); i++)
    if (strlen(name) == input_name(op, i) && !strncmp(name, op->inputs[i], input_name(op, i))) return i;
  return -1;
}

static int find_attr(const OpDef *op, const char *name) {
  for (int i = 0; i < op_attr_count(op); i++)
    if (!strcmp(op->attrs[i].name, name)) return i;
  return -1;
}

static int unknown_name(lua_State *L, const OpDef *op, const char *name) {
  const char *names[MAX_INPUTS + MAX_ATTRS + 1] = {0};
  int n = 0;
  for (int i = 0; i < op_attr_count(op); i++)
    if (strcmp(op->attrs[i].name, "stream")) names[n++] = op->attrs[i].name;
  const char *near = bind_nearest(name, names);
  return bind_fail(L, ERR_VALUE, "%s has no argument '%s'%s%s%s", op->name, name, near ? "; did you mean '" : "", near ? near : "",
                   near ? "'?" : "");
}

static int64_t read_integer(lua_State *L, int index, const OpDef *op, const AttrDef *def) {
  int isint;
  int64_t i = lua_tointegerx(L, index, &isint);
  if (!isint || lua_type(L, index) != LUA_TNUMBER)
    bind_fail(L, ERR_TYPE, "%s: '%s' must be %s, got %s", op->name, def->name,
              def->kind == ATTR_INTS ? "an integer or a list of integers" : "an integer", bind_describe(L, index));
  return i;
}

/* Nested lists are read in order; false stands for an open end. */
static int read_list(lua_State *L, int index, const OpDef *op, const AttrDef *def, int64_t *list, int count) {
  lua_Integer n = luaL_len(L, index);
  for (lua_Integer i = 1; i <= n; i++) {
    int type = lua_rawgeti(L, index, i);
    if (type == LUA_TTABLE) {
      luaL_checkstack(L, 4, NULL);
      count = read_list(L, lua_gettop(L), op, def, list, count);
    } else {
      if (count == MAX_LIST) bind_fail(L, ERR_VALUE, "%s: '%s' is longer than %d", op->name, def->name, MAX_LIST);
      bool open = type == LUA_TBOOLEAN && !lua_toboolean(L, -1);
      list[count++] = open ? INT64_MIN : read_integer(L, lua_gettop(L), op, def);
    }
    lua_pop(L, 1);
  }
  return count;
}

static Attr read_choice(lua_State *L, int index, const OpDef *op, const AttrDef *def) {
  const char *given = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : NULL;
  if (!given) bind_fail(L, ERR_TYPE, "%s: '%s' must be a string, got %s", op->name, def->name, bind_describe(L, index));
  if (!def->choices) return attr_string(given);
  for (const char *c = def->choices; *c;) {
    size_t n = strcspn(c, " ");
    if (strlen(given) == n && !strncasecmp(given, c, n)) {
      lua_pushlstring(L, c, n); /* stays on the stack while the call lasts */
      return attr_string(lua_tostring(L, -1));
    }
    c += n + (c[n] == ' ');
  }
  bind_fail(L, ERR_VALUE, "%s: '%s' must be one of %s, got '%s'", op->name, def->name, def->choices, given);
  return attr_string(given);
}

static Attr read_attr(lua_State *L, int index, const OpDef *op, const AttrDef *def) {
  index = lua_absindex(L, index);
  switch (def->kind) {
    case ATTR_INT: return attr_int(read_integer(L, index, op, def));
    case ATTR_FLOAT:
      if (lua_type(L, index) != LUA_TNUMBER)
        bind_fail(L, ERR_TYPE, "%s: '%s' must be a number, got %s", op->name, def->name, bind_describe(L, index));
      return attr_float(lua_tonumber(L, index));
    case ATTR_BOOL:
      if (!lua_isboolean(L, index))
        bind_fail(L, ERR_TYPE, "%s: '%s' must be a boolean, got %s", op->name, def->name, bind_describe(L, index));
      return attr_bool(lua_toboolean(L, index));
    case ATTR_STRING: return read_choice(L, index, op, def);
    case ATTR_DTYPE: {
      lua_pushfstring(L, "%s: '%s': ", op->name, def->name);
      Dtype d = bind_check_dtype_of(L, index, lua_tostring(L, -1));
      lua_pop(L, 1);
      return attr_dtype(d);
    }
    case ATTR_INTS: {
      int64_t *list = lua_newuserdatauv(L, MAX_LIST * sizeof *list, 0); /* stays on the stack */
      int n = 1;
      if (lua_istable(L, index)) n = read_list(L, index, op, def, list, 0);
      else list[0] = read_integer(L, index, op, def);
      return attr_ints(list, n);
    }
    case ATTR_TENSOR: {
      bind_literal(L, index, DTYPE_COUNT, def->name);
      return (Attr){.kind = ATTR_TENSOR, .tensor = bind_concrete(L, -1, def->name)};
    }
    default: bind_fail(L, ERR_TYPE, "%s: '%s' can't be given here", op->name, def->name);
  }
  return (Attr){.kind = ATTR_NONE};
}

static void read_names(lua_State *L, int table, Arguments *a) {
  lua_pushnil(L);
  while (lua_next(L, table)) {
    if (lua_type(L, -2) != LUA_TSTRING) {
      lua_pop(L, 1);
      continue;
    }
    const char *name = lua_tostring(L, -2);
    int input = find_input(a->op, name), attr = find_attr(a->op, name);
    luaL_checkstack(L, 8, NULL);
    if (input < 0 && attr < 0 && strcmp(name, "name")) unknown_name(L, a->op, name);
    lua_pushvalue(L, -2); /* the key stays on top, the value below it for as long as the call lasts */
    if (input >= 0) {
      a->operand[input] = lua_gettop(L) - 1;
      if (input >= a->operand_count) a->operand_count = input + 1;
    } else if (attr >= 0) {
      int value = lua_gettop(L) - 1;
      a->attr[attr] = read_attr(L, value, a->op, &a->op->attrs[attr]);
      lua_pushvalue(L, value - 1);
    }
  }
}

static void spread_list(lua_State *L, int table, int *operand, int *count, const OpDef *op) {
  lua_Integer n = luaL_len(L, table);
  if (n > MAX_OPERANDS) bind_fail(L, ERR_VALUE, "%s: at most %d tensors, got %d", op->name, MAX_OPERANDS, (int)n);
  luaL_checkstack(L, (int)n + 8, NULL);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, table, i);
    operand[(*count)++] = lua_gettop(L);
  }
}

static void read_arguments(lua_State *L, Arguments *a) {
  const OpDef *op = a->op;
  int top = lua_gettop(L), positional = top, names = 0, inputs = visible_inputs(op);
  int given[MAX_OPERANDS + MAX_ATTRS], given_count = 0;
  bool variadic = op->traits & VARIADIC;
  if (top == 1 && is_plain_table(L, 1) && !variadic) {
    bool spread = lua_rawgeti(L, 1, 1) != LUA_TNIL && is_tensor_like(L, -1);
    lua_pop(L, 1);
    bool named = has_names(L, 1);
    if (named) names = 1;
    if (spread || named) {
      spread_list(L, 1, given, &given_count, op);
      positional = 0;
    }
  } else if (top >= 1 && is_plain_table(L, top) && (top > 1 || variadic) && has_names(L, top)) {
    names = top;
    if (top > 1) positional = top - 1;
  } else if (top > 1 && is_plain_table(L, top) && luaL_len(L, top) == 0) {
    int at = top - 1 - (variadic ? 1 : inputs); /* which attribute an empty list would be */
    if (at < 0 || at >= op_attr_count(op) || op->attrs[at].kind != ATTR_INTS) positional = top - 1;
  }
  int first = 1;
  if (variadic && lua_type(L, 1) == LUA_TSTRING && op->attrs[0].kind == ATTR_STRING) { /* einsum("ij,jk->ik", a, b) */
    a->attr[0] = read_attr(L, 1, op, &op->attrs[0]);
    if (positional == 2 && is_plain_table(L, 2)) spread_list(L, 2, a->operand, &a->operand_count, op);
    else if (positional - 1 > MAX_OPERANDS) bind_fail(L, ERR_VALUE, "%s: at most %d tensors, got %d", op->name, MAX_OPERANDS, positional - 1);
    else for (int i = 2; i <= positional; i++) a->operand[a->operand_count++] = i;
    positional = 0;
    inputs = 0;
  } else if (variadic) {
    if (!is_plain_table(L, 1)) bind_fail(L, ERR_TYPE, "%s: '%s' must be a list of tensors, got %s", op->name, op->inputs[0], bind_describe(L, 1));
    spread_list(L, 1, a->operand, &a->operand_count, op);
    first = 2;
    inputs = 0;
  }
  for (int i = first; i <= positional; i++) given[given_count++] = i;
  for (int i = 0; i < given_count; i++) {
    if (i < inputs) {
      a->operand[a->operand_count++] = given[i];
    } else if (i - inputs < op_attr_count(op) && strcmp(op->attrs[i - inputs].name, "stream")) {
      if (!lua_isnil(L, given[i])) a->attr[i - inputs] = read_attr(L, given[i], op, &op->attrs[i - inputs]);
    } else {
      bind_fail(L, ERR_VALUE, "%s takes at most %d arguments, got %d", op->name, inputs + op_attr_count(op), given_count);
    }
  }
  if (names) read_names(L, names, a);
}

static bool is_index(const char *name) {
  return !strncmp(name, "ind", 3) || !strncmp(name, "ids", 3) || !strncmp(name, "label", 5) || strstr(name, "length") ||
         !strncmp(name, "segment", 7) || strstr(name, "offsets");
}

/* Numbers and lists become tensors: beside a tensor they take its dtype, indices are int32. */
static void convert_operands(lua_State *L, Arguments *a) {
  const OpDef *op = a->op;
  bool selects = !strcmp(op->name, "where");
  Dtype beside = DTYPE_COUNT;
  Type type;
  for (int i = selects; i < a->operand_count && beside == DTYPE_COUNT; i++)
    if (a->operand[i] && bind_type_at(L, a->operand[i], &type)) beside = type.dtype;
  for (int i = 0; i < a->operand_count; i++) {
    const char *name = op->traits & VARIADIC ? op->inputs[0] : i < MAX_INPUTS && op->inputs[i] ? op->inputs[i] : "operand";
    if (a->operand[i] == 0 || lua_isnoneornil(L, a->operand[i])) {
      size_t n = strlen(name);
      if (name[n - 1] != '?' || i + 1 < a->operand_count) bind_fail(L, ERR_TYPE, "%s: '%s' is missing", op->name, name);
      a->operand_count = i;
      break;
    }
    if (is_tensor_like(L, a->operand[i])) continue;
    Dtype d = is_index(name) ? I32 : selects && i == 0 ? BOOL : beside;
    luaL_checkstack(L, 40, NULL);
    const char *what = lua_pushfstring(L, "%s: '%s'", op->name, name);
    if (lua_isboolean(L, a->operand[i]) && d != BOOL && d != DTYPE_COUNT)
      bind_fail(L, ERR_TYPE, "%s must be a number or a tensor beside %s, got %s", what, dtype_name(d), bind_describe(L, a->operand[i]));
    bind_literal(L, a->operand[i], d, what);
    a->operand[i] = lua_gettop(L);
  }
}

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

/* Random ops count how often they have run: eagerly in the engine, in a traced function in a variable made for the purpose. A
 * seed given by the caller fixes the numbers of an eager call, and the sequence of numbers that a traced op draws. */
static void add_counter(lua_State *L, Arguments *a) {
  State *s = bind_state(L);
  int n = op_attr_count(a->op), seed = n - 2, stream = n - 1;
  bool fixed = a->attr[seed].kind != ATTR_NONE;
  Error e = {0};
  Type type = type_scalar(I64);
  luaL_checkstack(L, 8, NULL);
  bool deferred = false;
  for (int i = 0; i < a->operand_count; i++) deferred = deferred || (!s->trace && bind_is_deferred(L, a->operand[i]));
  bool traced = s->trace && !s->trace->taped;
  if ((!traced && !deferred) || (fixed && !traced)) {
    LuaTensor *u = bind_new_tensor(L);
    u->tensor = tensor_new(&e, &type);
    bind_check(L, &e);
    if (!fixed) a->attr[seed] = attr_int((int64_t)s->engine->seed);
    if (!fixed) dtype_set_integer(I64, u->tensor->data, 0, s->engine->random_count++);
    a->operand[a->operand_count++] = lua_gettop(L);
    return;
  }
  if (!fixed) { /* the counter speaks for the seed, so that compiled programs can be seeded anew */
    a->attr[seed] = attr_int(0);
    a->attr[stream] = attr_int(++s->stream);
  }
  Variable *v = bind_push_counter(L, fixed);
  int variable = lua_gettop(L);
  if (deferred) {
    count_deferred(L, v);
    a->operand[a->operand_count++] = lua_gettop(L);
    return;
  }
  lua_getfield(L, variable, "read_value");
  lua_pushvalue(L, variable);
  lua_call(L, 1, 1);
  a->operand[a->operand_count++] = lua_gettop(L);
  lua_getfield(L, variable, "assign_add");
  lua_pushvalue(L, variable);
  lua_pushinteger(L, 1);
  lua_call(L, 2, 0);
}

/* Rows whose shapes depend on the number of replicas get the one that the program being traced will have. */
static void add_factor(lua_State *L, Arguments *a) {
  State *s = bind_state(L);
  if (!s->trace || s->trace->taped) return;
  int replicas = s->replicas > 1 ? s->replicas : 1;
  for (int i = 0; i < op_attr_count(a->op); i++) {
    if (strcmp(a->op->attrs[i].name, "replication_factor") || a->attr[i].kind != ATTR_NONE) continue;
    a->attr[i] = attr_int(replicas);
    if (!s->replicas_asked) s->replicas_asked = replicas;
  }
}

/* Objects that stand for tensors (Keras' placeholders) have a metafield __op, called with the op's name and the arguments
 * in place of the op. */
static bool find_stand_in(lua_State *L, int index, bool in_list) {
  if (!lua_istable(L, index)) return false;
  if (luaL_getmetafield(L, index, "__op") != LUA_TNIL) return true;
  if (!in_list || !is_plain_table(L, index)) return false;
  lua_Unsigned n = lua_rawlen(L, index);
  for (lua_Unsigned i = 1; i <= n && i <= MAX_OPERANDS; i++) {
    lua_rawgeti(L, index, (lua_Integer)i);
    if (find_stand_in(L, lua_gettop(L), false)) {
      lua_remove(L, -2);
      return true;
    }
    lua_pop(L, 1);
  }
  return false;
}

static int call_op(lua_State *L) {
  for (int i = 1, n = lua_gettop(L); i <= n; i++) {
    if (!find_stand_in(L, i, true)) continue;
    lua_insert(L, 1);
    lua_pushstring(L, ((const OpDef *)lua_touserdata(L, lua_upvalueindex(1)))->name);
    lua_insert(L, 2);
    lua_call(L, n + 1, LUA_MULTRET);
    return lua_gettop(L);
  }
  Arguments a = {.op = lua_touserdata(L, lua_upvalueindex(1))};
  const OpDef *op = a.op;
  read_arguments(L, &a);
  int required, inputs = op_input_count(op, &required) - ((op->traits & RANDOM) != 0);
  if (op->traits & RANDOM) required--;
  if (!(op->traits & VARIADIC) && a.operand_count < required)
    return bind_fail(L, ERR_TYPE, "%s: '%s' is missing", op->name, op->inputs[a.operand_count]);
  (void)inputs;
  convert_operands(L, &a);
  for (int i = 0; i < op_attr_count(op); i++)
    if (a.attr[i].kind == ATTR_NONE && !op->attrs[i].fallback) bind_fail(L, ERR_TYPE, "%s: '%s' is missing", op->name, op->attrs[i].name);
  if (op->traits & RANDOM) add_counter(L, &a);
  if (op->traits & PER_REPLICA) add_factor(L, &a);
  return bind_apply(L, op, a.operand, a.operand_count, a.attr);
}

/* ---- operators ---- */

static int apply_operator(lua_State *L, const char *name) {
  lua_settop(L, 2);
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

static const luaL_Reg operators[] = {{"__add", add}, {"__sub", sub}, {"__mul", mul}, {"__div", divide}, {"__pow", power},
                                     {"__mod", mod}, {"__idiv", floordiv}, {"__unm", negate}, {NULL, NULL}};

/* What help, docs and checks need of a row. */
static int describe(lua_State *L) {
  const OpDef *op = op_find(luaL_checkstring(L, 1));
  if (!op) return 0;
  lua_newtable(L);
  lua_pushstring(L, op->name), lua_setfield(L, -2, "name");
  lua_pushstring(L, op->summary), lua_setfield(L, -2, "summary");
  lua_pushstring(L, op->shapes), lua_setfield(L, -2, "shapes");
  lua_pushstring(L, op->source), lua_setfield(L, -2, "source");
  lua_pushstring(L, op->sample), lua_setfield(L, -2, "sample");
  lua_pushboolean(L, op->grad != NULL), lua_setfield(L, -2, "differentiable");
  lua_pushboolean(L, (op->traits & INTERNAL) != 0), lua_setfield(L, -2, "internal");
  lua_pushboolean(L, (op->traits & VARIADIC) != 0), lua_setfield(L, -2, "variadic");
  lua_pushboolean(L, (op->traits & RANDOM) != 0), lua_setfield(L, -2, "random");
  lua_pushboolean(L, (op->traits & NO_GRADIENT) != 0), lua_setfield(L, -2, "no_gradient");
  lua_pushinteger(L, op->visible_outputs ? op->visible_outputs : op->outputs ? op->outputs : 1), lua_setfield(L, -2, "outputs");
  lua_newtable(L);
  for (int i = 0; i < visible_inputs(op); i++) lua_pushstring(L, op->inputs[i]), lua_rawseti(L, -2, i + 1);
  lua_setfield(L, -2, "inputs");
  lua_newtable(L);
  static const char *const kinds[] = {"none", "integer", "number", "boolean", "string", "list", "dtype", "tensor", "function", "object"};
  for (int i = 0, n = 0; i < op_attr_count(op); i++) {
    const AttrDef *d = &op->attrs[i];
    if (!strcmp(d->name, "stream")) continue;
    lua_newtable(L);
    lua_pushstring(L, d->name), lua_setfield(L, -2, "name");
    lua_pushstring(L, kinds[d->kind]), lua_setfield(L, -2, "type");
    lua_pushstring(L, d->fallback), lua_setfield(L, -2, "default");
    lua_pushstring(L, d->choices), lua_setfield(L, -2, "choices");
    lua_pushstring(L, d->summary), lua_setfield(L, -2, "summary");
    lua_rawseti(L, -2, ++n);
  }
  lua_setfield(L, -2, "attributes");
  return 1;
}

static void add_methods(lua_State *L, const char *metatable) {
  luaL_getmetatable(L, metatable);
  luaL_setfuncs(L, operators, 0);
  lua_getfield(L, -1, "methods");
  for (const OpDef *op = op_next(NULL); op; op = op_next(op)) {
    if ((op->traits & (INTERNAL | VARIADIC)) || !visible_inputs(op)) continue;
    const char *dot = strrchr(op->name, '.');
    const char *name = dot ? dot + 1 : op->name;
    if (lua_getfield(L, -1, name) == LUA_TNIL) {
      lua_pushlightuserdata(L, (void *)(uintptr_t)op);
      lua_pushcclosure(L, call_op, 1);
      lua_setfield(L, -3, name);
    }
    lua_pop(L, 1);
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

/* (path) → table of functions by name. The library stays until the state is closed: nodes may be anywhere. */
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

void bind_open_ops(lua_State *L) {
  lua_pushcfunction(L, add_method);
  lua_setfield(L, -2, "add_method");
  lua_pushcfunction(L, open_library);
  lua_setfield(L, -2, "open_op_library");
  lua_pushcfunction(L, describe);
  lua_setfield(L, -2, "describe_op");
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
