/* The state of random numbers: seeds, and the counters of random ops in programs. Counters are
 * numbered in the order of tracing. So a later run of the same script finds its counters again. */
#include <stdatomic.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"
#include "lua/bind.h"

/* Where the values wait that were restored for counters still to be made: number → value. */
static const char RESTORED_KEY = 0;

static void set_counter(Variable *v, int64_t value) {
  Error e = {0};
  void *data = variable_writable(&e, v);
  if (data) dtype_set_integer(I64, data, 0, value);
  atomic_store(&v->start, value);
  v->is_placed = false;
}

/* Replicas draw other numbers: their counters begin so far apart that they never meet. */
static void set_replicas_apart(const State *s, Variable *v, bool fixed) {
  v->replica_step = fixed || s->identical_replicas ? 0 : (int64_t)1 << 40;
}

static void restart_counters(State *s) {
  int64_t start = rng_counter_start(s->device_seed);
  for (int i = 0; i < s->counter_count; i++) {
    set_replicas_apart(s, s->counter[i].variable, s->counter[i].fixed);
    if (!s->counter[i].fixed) set_counter(s->counter[i].variable, start);
  }
}

static void forget_restored(lua_State *L) {
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &RESTORED_KEY);
}

/* The value restored for the next counter, or a first one. */
static int64_t first_value(lua_State *L, State *s, bool fixed) {
  int64_t value = fixed ? 0 : rng_counter_start(s->device_seed);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &RESTORED_KEY) == LUA_TTABLE) {
    if (lua_rawgeti(L, -1, s->counters_made + 1) != LUA_TNIL) value = lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return value;
}

/* Counters that no program has any more go first. */
static void remember(lua_State *L, Variable *v, bool fixed) {
  State *s = bind_state(L);
  if (s->counter_count == s->counter_capacity) {
    int kept = 0;
    for (int i = 0; i < s->counter_count; i++) {
      if (s->counter[i].variable->references == 1) variable_release(s->counter[i].variable);
      else s->counter[kept++] = s->counter[i];
    }
    s->counter_count = kept;
  }
  if (!array_reserve(&s->counter, &s->counter_capacity, s->counter_count + 1, sizeof *s->counter))
    bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
  s->counter[s->counter_count++] = (Counter){variable_retain(v), ++s->counters_made, fixed};
}

Variable *bind_push_counter(lua_State *L, bool fixed) {
  State *s = bind_state(L);
  Error e = {0};
  Type type = type_scalar(I64);
  bind_push_variable(L, NULL);
  Variable **v = lua_touserdata(L, -1);
  *v = variable_new(&e, "random_step", &type, false);
  bind_check(L, &e);
  (*v)->counts_runs = true;
  (*v)->value = tensor_new(&e, &type);
  bind_check(L, &e);
  int64_t value = first_value(L, s, fixed);
  dtype_set_integer(I64, (*v)->value->data, 0, value);
  atomic_store(&(*v)->start, value);
  set_replicas_apart(s, *v, fixed);
  remember(L, *v, fixed);
  return *v;
}

int64_t bind_counter_value(lua_State *L, bool fixed) {
  State *s = bind_state(L);
  /* Counters wrap around, as in programs. */
  uint64_t value = (uint64_t)first_value(L, s, fixed) + (uint64_t)s->run_number - 1;
  s->counters_made++;
  return (int64_t)value;
}

/* (number | nil, whether a seed fixes draws all the same) → the former ones: eager draws belong to
 * this run of a program, counted from 0 */
static int set_run_number(lua_State *L) {
  State *s = bind_state(L);
  int64_t former = s->run_number;
  bool stay = s->seeded_stay;
  s->run_number = lua_isnoneornil(L, 1) ? 0 : (int64_t)((uint64_t)luaL_checkinteger(L, 1) + 1);
  s->seeded_stay = lua_toboolean(L, 2);
  if (former) lua_pushinteger(L, former - 1);
  else lua_pushnil(L);
  lua_pushboolean(L, stay);
  return 2;
}

static int set_seed(lua_State *L) {
  State *s = bind_state(L);
  bind_settle(L, NULL);
  s->engine->seed = s->device_seed = (uint64_t)luaL_checkinteger(L, 1);
  engine_seed_rounding(s->engine, s->engine->seed);
  s->identical_replicas = false;
  s->engine->random_count = 0;
  s->stream = 0;
  forget_restored(L);
  restart_counters(s);
  return 0;
}

/* The seed of random numbers in programs alone: (seed, whether replicas draw the same) */
static int set_device_seed(lua_State *L) {
  State *s = bind_state(L);
  bind_settle(L, NULL);
  s->identical_replicas = lua_toboolean(L, 2);
  s->device_seed = (uint64_t)luaL_checkinteger(L, 1);
  engine_seed_rounding(s->engine, s->device_seed);
  forget_restored(L);
  restart_counters(s);
  return 0;
}

/* Stochastic rounding counts the steps of programs, which are not saved. So saving begins a new
 * sequence. A training that goes on and a resumed one then round alike. */
static void renew_rounding(State *s) {
  if (!s->engine->numerics.stochastic_rounding) return;
  engine_seed_rounding(s->engine, (uint64_t)rng_counter_start(s->engine->rounding_seed));
}

/* → {seed, device_seed, rounding_seed, calls, counters = list of {number, value}} */
static int save_random(lua_State *L) {
  State *s = bind_state(L);
  bind_settle(L, NULL);
  renew_rounding(s);
  lua_newtable(L);
  bind_set_integer(L, "seed", (int64_t)s->engine->seed);
  bind_set_integer(L, "device_seed", (int64_t)s->device_seed);
  bind_set_integer(L, "rounding_seed", (int64_t)s->engine->rounding_seed);
  bind_set_integer(L, "calls", s->engine->random_count);
  lua_createtable(L, s->counter_count, 0);
  for (int i = 0; i < s->counter_count; i++) {
    lua_createtable(L, 2, 0);
    lua_pushinteger(L, s->counter[i].number), lua_rawseti(L, -2, 1);
    lua_pushinteger(L, dtype_get_integer(I64, s->counter[i].variable->value->data, 0)),
        lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "counters");
  return 1;
}

static int64_t field_of(lua_State *L, const char *name) {
  if (lua_getfield(L, 1, name) != LUA_TNUMBER || !lua_isinteger(L, -1))
    bind_fail(L, ERR_VALUE, "the saved state of random numbers has no integer '%s'", name);
  int64_t value = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return value;
}

/* The list of {number, value} at the top is replaced by a table number → value. */
static void index_counters(lua_State *L) {
  lua_newtable(L);
  for (lua_Integer i = 1, n = luaL_len(L, -2); i <= n; i++) {
    if (lua_rawgeti(L, -2, i) != LUA_TTABLE)
      bind_fail(L, ERR_VALUE, "the saved state of random numbers is damaged");
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    if (!lua_isinteger(L, -1) || !lua_isinteger(L, -2))
      bind_fail(L, ERR_VALUE, "the saved state of random numbers is damaged");
    lua_rawset(L, -4);
    lua_pop(L, 1);
  }
  lua_replace(L, -2);
}

static int restore_random(lua_State *L) {
  State *s = bind_state(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  bind_settle(L, NULL);
  int64_t seed = field_of(L, "seed"), device = field_of(L, "device_seed"),
          rounding = field_of(L, "rounding_seed"), calls = field_of(L, "calls");
  if (lua_getfield(L, 1, "counters") != LUA_TTABLE)
    bind_fail(L, ERR_VALUE, "the saved state of random numbers has no 'counters'");
  index_counters(L);
  for (int i = 0; i < s->counter_count; i++) {
    if (lua_rawgeti(L, -1, s->counter[i].number) != LUA_TNIL)
      set_counter(s->counter[i].variable, lua_tointeger(L, -1));
    lua_pop(L, 1);
  }
  lua_rawsetp(L, LUA_REGISTRYINDEX, &RESTORED_KEY);
  s->engine->seed = (uint64_t)seed, s->device_seed = (uint64_t)device;
  engine_seed_rounding(s->engine, (uint64_t)rounding);
  s->engine->random_count = calls;
  return 0;
}
/* (program) → the values of its counters, in its own order: other programs don't matter. */
static int program_counters(lua_State *L) {
  Program *p = bind_check_program(L, 1);
  bind_settle(L, NULL);
  lua_newtable(L);
  for (int i = 0, n = 0; i < p->variable_count; i++) {
    Variable *v = p->variable[i];
    if (!v->counts_runs || !v->value) continue;
    lua_pushinteger(L, dtype_get_integer(I64, v->value->data, 0));
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

static int set_program_counters(lua_State *L) { /* (program, list) */
  Program *p = bind_check_program(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  bind_settle(L, NULL);
  for (int i = 0, n = 0; i < p->variable_count; i++) {
    if (!p->variable[i]->counts_runs) continue;
    if (lua_rawgeti(L, 2, ++n) == LUA_TNUMBER) set_counter(p->variable[i], lua_tointeger(L, -1));
    lua_pop(L, 1);
  }
  return 0;
}

/* → streams given out, counters made, eager draws: where tracing stands among the random
 * numbers. */
static int random_place(lua_State *L) {
  const State *s = bind_state(L);
  lua_pushinteger(L, s->stream);
  lua_pushinteger(L, s->counters_made);
  lua_pushinteger(L, s->engine->random_count);
  return 3;
}

/* (streams, counters, eager draws, forget) Goes to such a position. forget: counters made since
 * belong to programs that will never run. */
static int set_random_place(lua_State *L) {
  State *s = bind_state(L);
  s->stream = luaL_checkinteger(L, 1);
  s->counters_made = luaL_checkinteger(L, 2);
  s->engine->random_count = luaL_checkinteger(L, 3);
  while (lua_toboolean(L, 4) && s->counter_count > 0 &&
         s->counter[s->counter_count - 1].number > s->counters_made)
    variable_release(s->counter[--s->counter_count].variable);
  return 0;
}

/* → seed, eager draws, whether eager results are rounded stochastically */
static int eager_place(lua_State *L) {
  const Engine *g = bind_state(L)->engine;
  lua_pushinteger(L, (lua_Integer)g->seed);
  lua_pushinteger(L, g->random_count);
  lua_pushboolean(L, g->eager_rounding >= 0 ? g->eager_rounding : g->numerics.stochastic_rounding);
  return 3;
}

/* (seed, eager draws): eager ops draw from there on. */
static int set_eager_place(lua_State *L) {
  Engine *g = bind_state(L)->engine;
  g->seed = (uint64_t)luaL_checkinteger(L, 1);
  g->random_count = luaL_checkinteger(L, 2);
  return 0;
}

void bind_open_random(lua_State *L) {
  static const luaL_Reg functions[] = {{"set_seed", set_seed},
                                       {"set_device_seed", set_device_seed},
                                       {"save_random", save_random},
                                       {"restore_random", restore_random},
                                       {"program_counters", program_counters},
                                       {"set_program_counters", set_program_counters},
                                       {"random_place", random_place},
                                       {"set_random_place", set_random_place},
                                       {"eager_place", eager_place},
                                       {"set_eager_place", set_eager_place},
                                       {"set_run_number", set_run_number},
                                       {NULL, NULL}};
  bind_set_functions(L, functions);
}
