/* Iterators of datasets for Lua. */
#include "data/benchmark.h"
#include "lua/dataset.h"

#define ITERATOR_NAME "ipulua.Iterator"

DataContext bind_data_context(lua_State *L) {
  State *s = bind_state(L);
  return (DataContext){.pool = engine_pool(s->engine),
                       .threads = s->engine->threads,
                       .seed = s->engine->seed,
                       .host = s->host};
}

int bind_open_dataset_iterator(lua_State *L) { /* (dataset, peek) */
  Dataset *d = bind_check_dataset(L, 1);
  DataContext context = bind_data_context(L);
  context.peek = lua_toboolean(L, 2);
  Iterator **u = lua_newuserdatauv(L, sizeof *u, 0);
  *u = NULL;
  luaL_setmetatable(L, ITERATOR_NAME);
  Error e = {0};
  *u = iterator_open(&e, d, &context);
  bind_check(L, &e);
  return 1;
}

static int free_iterator(lua_State *L) {
  Iterator **u = lua_touserdata(L, 1);
  iterator_close(*u);
  *u = NULL;
  return 0;
}

static int close_iterator(lua_State *L) {
  Iterator **u = luaL_checkudata(L, 1, ITERATOR_NAME);
  if (*u && iterator_is_busy(*u))
    return bind_fail(L, ERR_FAILED_PRECONDITION,
                     "an iterator can't be closed while it is being read");
  return free_iterator(L);
}

static int next_element(lua_State *L) {
  Iterator **u = luaL_checkudata(L, 1, ITERATOR_NAME);
  if (!*u) return 0;
  int n = dataset_component_count(iterator_dataset(*u));
  if (n > DATASET_COMPONENTS)
    return bind_fail(L, ERR_VALUE, "a dataset's element has more than %d components",
                     DATASET_COMPONENTS);
  lua_createtable(L, n, 0);
  /* made first: nothing may raise while the tensors are loose */
  LuaTensor *hold[DATASET_COMPONENTS];
  for (int i = 0; i < n; i++) {
    hold[i] = bind_new_tensor(L);
    lua_rawseti(L, -2, i + 1);
  }
  Tensor *out[DATASET_COMPONENTS] = {NULL};
  bool end = false;
  Error e = {0};
  Status s = iterator_next(*u, out, &end, &e);
  bind_check(L, &e);
  if (s != OK || end) return 0;
  size_t bytes = 0;
  for (int i = 0; i < n; i++) {
    hold[i]->tensor = out[i];
    bytes += type_bytes(&out[i]->type);
  }
  bind_tell_collector(L, bytes);
  return 1;
}

static int skip_elements(lua_State *L) { /* (iterator, count) → skipped */
  Iterator **u = luaL_checkudata(L, 1, ITERATOR_NAME);
  int64_t skipped = 0, count = luaL_checkinteger(L, 2);
  Error e = {0};
  if (*u) iterator_skip(*u, count, &skipped, &e);
  bind_check(L, &e);
  lua_pushinteger(L, skipped);
  return 1;
}

static int benchmark(lua_State *L) { /* (iterator, elements, copy) → elements, bytes, seconds */
  Iterator **u = luaL_checkudata(L, 1, ITERATOR_NAME);
  int64_t elements = luaL_checkinteger(L, 2);
  BenchmarkEpoch b = {0};
  Error e = {0};
  if (*u) benchmark_epoch(*u, elements, lua_toboolean(L, 3), &b, &e);
  bind_check(L, &e);
  lua_pushinteger(L, b.elements);
  lua_pushinteger(L, b.bytes);
  lua_pushnumber(L, b.seconds);
  return 3;
}

void bind_open_iterator(lua_State *L) {
  static const luaL_Reg methods[] = {{"next", next_element},
                                     {"skip", skip_elements},
                                     {"close", close_iterator},
                                     {"benchmark", benchmark},
                                     {NULL, NULL}};
  bind_type(L, ITERATOR_NAME, free_iterator, methods);
}
