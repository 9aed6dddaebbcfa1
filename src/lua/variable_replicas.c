/* The values of a variable in each replica, and their aggregates. */
#include <string.h>

#include "lua/bind.h"

/* (variable, aggregate, first_only): outside of programs its value is the aggregate's. An
 * assignment there sets replica 0 alone (first_only), or all replicas. */
static int set_aggregate(lua_State *L) {
  Variable *v = bind_check_variable(L), *of = bind_test_variable(L, 2);
  if (!of || v->aggregate) return luaL_error(L, "a variable has one aggregate");
  v->aggregate = variable_retain(of);
  v->first_only = lua_toboolean(L, 3);
  return 0;
}

/* (variable): its value on this instance becomes zero. */
static int set_zero(lua_State *L) {
  Variable *v = bind_check_variable(L);
  Error e = {0};
  void *data = variable_writable(&e, v);
  bind_check(L, &e);
  memset(data, 0, type_bytes(&v->type));
  return 0;
}

/* (variable, replicas) → a list of the values of this many replicas on this instance, also if
 * scripts read another one */
static int values_of_replicas(lua_State *L) {
  Variable *v = bind_check_variable(L);
  int count = bind_check_int(L, 2, "replicas");
  bind_settle(L, v);
  lua_createtable(L, count, 0);
  for (int r = 0; r < count; r++) {
    LuaTensor *u = bind_new_tensor(L);
    Error e = {0};
    bool is_zero = r && v->first_only && v->replicas != count;
    if (is_zero) u->tensor = tensor_new(&e, &v->type);
    else u->tensor = tensor_from(&e, &v->type, variable_of_replica(v, r, count));
    bind_check(L, &e);
    lua_rawseti(L, -2, r + 1);
  }
  return 1;
}

static int is_aggregated(lua_State *L) {
  lua_pushboolean(L, bind_check_variable(L)->aggregate != NULL);
  return 1;
}

/* All replicas get the first one's value. */
static int merge_replicas(lua_State *L) {
  Variable *v = bind_check_variable(L);
  bind_settle(L, v);
  Error e = {0};
  variable_check_idle(&e, v);
  bind_check(L, &e);
  v->replicas = 1;
  return 0;
}

/* The values of replicas 1 …, a list: empty where all have the same. */
static int replica_values(lua_State *L) {
  Variable *v = bind_check_variable(L);
  bind_settle(L, v);
  lua_createtable(L, v->replicas - 1, 0);
  for (int r = 1; r < v->replicas; r++) {
    LuaTensor *u = bind_new_tensor(L);
    Error e = {0};
    u->tensor = tensor_from(&e, &v->type, v->replica[r - 1]->data);
    bind_check(L, &e);
    lua_rawseti(L, -2, r);
  }
  return 1;
}

/* Of (variable, list of tensors): replicas first … get values of their own. */
static int set_values(lua_State *L, int first) {
  Variable *v = bind_check_variable(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  int count = (int)luaL_len(L, 2);
  Tensor **value = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *value, 0);
  void **data = lua_newuserdatauv(L, (size_t)(first + count + 1) * sizeof *data, 0);
  for (int r = 0; r < count; r++) { /* the list keeps them alive */
    lua_rawgeti(L, 2, r + 1);
    value[r] = bind_check_tensor(L, -1, v->name)->tensor;
    if (!value[r] || !type_equal(&value[r]->type, &v->type))
      return bind_fail(L, ERR_INVALID_ARGUMENT,
                       "the value of variable '%s' for replica %d has another type", v->name,
                       first + r);
    lua_pop(L, 1);
  }
  bind_settle(L, v);
  Error e = {0};
  if (count && variable_spread(&e, v, first + count, data) == OK)
    for (int r = 0; r < count; r++) tensor_copy_out(value[r], data[first + r]);
  bind_check(L, &e);
  return 0;
}

/* All replicas of this instance. */
static int set_values_of_replicas(lua_State *L) { return set_values(L, 0); }
/* Replica 0 keeps its value. */
static int set_replica_values(lua_State *L) { return set_values(L, 1); }

void bind_open_variable_replicas(lua_State *L) {
  static const luaL_Reg functions[] = {{"set_aggregate", set_aggregate},
                                       {"set_zero", set_zero},
                                       {"values_of_replicas", values_of_replicas},
                                       {"set_values_of_replicas", set_values_of_replicas},
                                       {"is_aggregated", is_aggregated},
                                       {"merge_replicas", merge_replicas},
                                       {"replica_values", replica_values},
                                       {"set_replica_values", set_replica_values},
                                       {NULL, NULL}};
  bind_set_functions(L, functions);
}
