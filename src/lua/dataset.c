/* Datasets for Lua. Elements are flat lists here; how they nest is kept by lua/ipulua/data. */
#include "lua/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "lua/callback.h"

/* ---- userdata ---- */

Dataset **bind_new_dataset(lua_State *L) {
  Dataset **u = lua_newuserdatauv(L, sizeof *u, 0);
  *u = NULL;
  luaL_setmetatable(L, DATASET_NAME);
  return u;
}

Dataset *bind_check_dataset(lua_State *L, int index) {
  Dataset **u = luaL_checkudata(L, index, DATASET_NAME);
  if (!*u) luaL_error(L, "this dataset has been freed");
  return *u;
}

static int free_dataset(lua_State *L) {
  Dataset **u = lua_touserdata(L, 1);
  dataset_release(*u);
  *u = NULL;
  return 0;
}

/* The result of a constructor, or its error. */
int bind_made_dataset(lua_State *L, Dataset **u, Dataset *d, const Error *e) {
  *u = d;
  bind_check(L, e);
  return 1;
}

/* ---- types ---- */

int bind_read_types(lua_State *L, int index, Type *types) {
  int n = (int)luaL_len(L, index);
  if (n > DATASET_COMPONENTS)
    bind_fail(L, ERR_VALUE, "a dataset's element has more than %d components", DATASET_COMPONENTS);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, index, i + 1);
    lua_getfield(L, -1, "dtype");
    types[i] = (Type){.dtype = bind_check_dtype(L, -1)};
    lua_getfield(L, -2, "shape");
    types[i].rank = bind_check_shape(L, -1, "shape", types[i].shape);
    lua_pop(L, 3);
  }
  return n;
}

static void push_types(lua_State *L, const Dataset *d) {
  int n = dataset_component_count(d);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    const Type *t = dataset_component(d, i);
    bind_push_type(L, t);
    if (dataset_component_is_nested(d, i)) bind_set_flag(L, "nested", true);
    lua_rawseti(L, -2, i + 1);
  }
}

/* A list of tensors; they stay alive with the list. */
static int read_tensors(lua_State *L, int index, Tensor **out) {
  int n = (int)luaL_len(L, index);
  if (n > DATASET_COMPONENTS)
    bind_fail(L, ERR_VALUE, "a dataset's element has more than %d components", DATASET_COMPONENTS);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, index, i + 1);
    LuaTensor *t = bind_test_tensor(L, -1);
    if (!t || !t->tensor)
      bind_fail(L, ERR_TYPE, "a dataset holds tensors, got %s",
                t ? "a symbolic tensor" : luaL_typename(L, -1));
    out[i] = t->tensor;
    lua_pop(L, 1);
  }
  return n;
}

static bool same_tensor(const Tensor *a, const Tensor *b, Error *e) {
  if (!type_equal(&a->type, &b->type)) return false;
  Tensor *x = tensor_dense(e, (Tensor *)(uintptr_t)a),
         *y = x ? tensor_dense(e, (Tensor *)(uintptr_t)b) : NULL;
  bool same = y && !memcmp(x->data, y->data, type_bytes(&a->type));
  tensor_release(x);
  tensor_release(y);
  return same;
}

/* (list, list) Are the tensors equal, bit by bit? */
static int same(lua_State *L) {
  Tensor *a[DATASET_COMPONENTS], *b[DATASET_COMPONENTS];
  int n = read_tensors(L, 1, a);
  bool equal = read_tensors(L, 2, b) == n;
  Error e = {0};
  for (int i = 0; i < n && equal; i++) equal = same_tensor(a[i], b[i], &e);
  bind_check(L, &e);
  lua_pushboolean(L, equal);
  return 1;
}

/* ---- sources ---- */

static int from_list(lua_State *L, Dataset *(*make)(Error *, const char *, int, Tensor *const *)) {
  Tensor *t[DATASET_COMPONENTS];
  int n = read_tensors(L, 1, t);
  Error e = {0};
  Dataset **u = bind_new_dataset(L);
  return bind_made_dataset(L, u, make(&e, bind_where(L), n, t), &e);
}
static int from_tensors(lua_State *L) { return from_list(L, dataset_from_tensors); }
static int from_slices(lua_State *L) { return from_list(L, dataset_from_slices); }

static int range(lua_State *L) {
  Error e = {0};
  Dataset **u = bind_new_dataset(L);
  return bind_made_dataset(L, u,
                           dataset_range(&e, bind_where(L), luaL_checkinteger(L, 1),
                                         luaL_checkinteger(L, 2), luaL_checkinteger(L, 3)),
                           &e);
}

/* A generator: open() gives a function that gives lists of tensors, nil at the end. */
static Status generator_open(void *context, void **state, Error *e) {
  Callback *open = context;
  lua_State *L = callback_begin(open);
  if (callback_call_again(open, 0, 1, e) != OK) return e->status;
  Callback *step = malloc(sizeof *step);
  if (!step) {
    lua_pop(L, 1);
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  }
  *step = (Callback){open->state, luaL_ref(L, LUA_REGISTRYINDEX)};
  *state = step;
  return OK;
}

/* The list on top of L into out; pops it. The Lua side has checked types. */
Status bind_take_list(lua_State *L, Tensor **out, int count, Error *e) {
  Status s = OK;
  for (int i = 0; i < count; i++) out[i] = NULL;
  for (int i = 0; i < count && s == OK; i++) {
    lua_rawgeti(L, -1, i + 1);
    LuaTensor *t = bind_test_tensor(L, -1);
    if (t && t->tensor) out[i] = tensor_dense(e, t->tensor);
    else s = fail(e, ERR_TYPE, "component %d of an element is no tensor", i);
    if (s == OK && !out[i]) s = e->status;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  for (int i = 0; i < count && s != OK; i++) {
    tensor_release(out[i]);
    out[i] = NULL;
  }
  return s;
}

static Status generator_next(void *context, void *state, Tensor **out, int count, bool *end,
                             Error *e) {
  (void)context;
  Callback *step = state;
  lua_State *L = callback_begin(step);
  if (callback_call_again(step, 0, 1, e) != OK) return e->status;
  *end = lua_isnil(L, -1);
  if (!*end) return bind_take_list(L, out, count, e);
  lua_pop(L, 1);
  return OK;
}

static void generator_close(void *context, void *state) {
  (void)context;
  callback_free(state);
}

/* Element numbers are any 64 bits; as much of them as the number of a run may have. */
void bind_take_number(void *context, uint64_t number) {
  const Callback *c = context;
  c->state->element_number = (int64_t)(number & INT64_MAX >> 1);
}

/* → the number of the element that a dataset's function is called for */
static int element_number(lua_State *L) {
  lua_pushinteger(L, bind_state(L)->element_number);
  return 1;
}

void bind_release_callback(void *context) { callback_free(context); }

static int from_generator(lua_State *L) { /* (open, types) */
  Type types[DATASET_COMPONENTS];
  int n = bind_read_types(L, 2, types);
  Dataset **u = bind_new_dataset(L);
  Error e = {0};
  const char *at = bind_where(L);
  Generator g = {callback_new(L, 1), generator_open,        generator_next,
                 generator_close,    bind_release_callback, bind_take_number};
  return bind_made_dataset(L, u, dataset_from_generator(&e, at, n, types, g), &e);
}

/* ---- the rest: a line or two each ---- */

#define BEGIN                             \
  Dataset *in = bind_check_dataset(L, 1); \
  Error e = {0};                          \
  Dataset **u = bind_new_dataset(L);      \
  const char *at = bind_where(L)

static int batch(lua_State *L) {
  BEGIN;
  return bind_made_dataset(
      L, u, dataset_batch(&e, at, in, luaL_checkinteger(L, 2), lua_toboolean(L, 3)), &e);
}

/* (dataset, size, drop, list of {dtype, shape} | nil, list of tensors | nil) */
static int padded_batch(lua_State *L) {
  Type types[DATASET_COMPONENTS];
  const Type *shapes[DATASET_COMPONENTS];
  Tensor *values[DATASET_COMPONENTS] = {0};
  int n = lua_istable(L, 4) ? bind_read_types(L, 4, types) : 0;
  for (int i = 0; i < n; i++) shapes[i] = &types[i];
  int v = lua_istable(L, 5) ? read_tensors(L, 5, values) : 0;
  BEGIN;
  if ((n && n != dataset_component_count(in)) || (v && v != dataset_component_count(in)))
    return bind_fail(
        L, ERR_VALUE,
        "padded_batch: an element has %d component%s; give a shape and a value for each",
        dataset_component_count(in), plural(dataset_component_count(in)));
  return bind_made_dataset(
      L, u,
      dataset_padded_batch(&e, at, in, luaL_checkinteger(L, 2), n ? shapes : NULL,
                           v ? values : NULL, lua_toboolean(L, 3)),
      &e);
}

static int unbatch(lua_State *L) {
  BEGIN;
  return bind_made_dataset(L, u, dataset_unbatch(&e, at, in), &e);
}

static int window(lua_State *L) {
  BEGIN;
  return bind_made_dataset(
      L, u,
      dataset_window(&e, at, in, luaL_checkinteger(L, 2), luaL_optinteger(L, 3, 0),
                     luaL_optinteger(L, 4, 1), lua_toboolean(L, 5)),
      &e);
}

static int shuffle(lua_State *L) { /* (dataset, buffer, seed | nil, reshuffle) */
  BEGIN;
  ShuffleOptions o = {.buffer_size = luaL_checkinteger(L, 2),
                      .has_seed = !lua_isnoneornil(L, 3),
                      .keep_order = !lua_toboolean(L, 4)};
  if (o.has_seed) o.seed = (uint64_t)luaL_checkinteger(L, 3);
  return bind_made_dataset(L, u, dataset_shuffle(&e, at, in, &o), &e);
}

static int repeat_n(lua_State *L) {
  BEGIN;
  return bind_made_dataset(L, u, dataset_repeat(&e, at, in, luaL_checkinteger(L, 2)), &e);
}

static int take(lua_State *L) {
  BEGIN;
  return bind_made_dataset(L, u, dataset_take(&e, at, in, luaL_checkinteger(L, 2)), &e);
}

static int skip(lua_State *L) {
  BEGIN;
  return bind_made_dataset(L, u, dataset_skip(&e, at, in, luaL_checkinteger(L, 2)), &e);
}

static int shard(lua_State *L) {
  BEGIN;
  return bind_made_dataset(
      L, u, dataset_shard(&e, at, in, luaL_checkinteger(L, 2), luaL_checkinteger(L, 3)), &e);
}

static int enumerate(lua_State *L) {
  BEGIN;
  return bind_made_dataset(L, u, dataset_enumerate(&e, at, in, luaL_optinteger(L, 2, 0)), &e);
}

static int concatenate(lua_State *L) {
  BEGIN;
  return bind_made_dataset(L, u, dataset_concatenate(&e, at, in, bind_check_dataset(L, 2)), &e);
}

static int cache(lua_State *L) {
  BEGIN;
  return bind_made_dataset(L, u, dataset_cache(&e, at, in, luaL_optstring(L, 2, NULL)), &e);
}

static int buffer(lua_State *L) {
  BEGIN;
  return bind_made_dataset(L, u, dataset_buffer(&e, at, in, luaL_checkinteger(L, 2)), &e);
}

static int prefetch(lua_State *L) {
  BEGIN;
  return bind_made_dataset(L, u, dataset_prefetch(&e, at, in, luaL_optinteger(L, 2, DATA_AUTOTUNE)),
                           &e);
}

static int zip(lua_State *L) { /* (list of datasets) */
  Dataset *in[DATASET_COMPONENTS];
  int n = (int)luaL_len(L, 1);
  if (n > DATASET_COMPONENTS)
    return bind_fail(L, ERR_VALUE, "zip: more than %d datasets", DATASET_COMPONENTS);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 1, i + 1);
    in[i] = bind_check_dataset(L, -1);
    lua_pop(L, 1);
  }
  Error e = {0};
  Dataset **u = bind_new_dataset(L);
  return bind_made_dataset(L, u, dataset_zip(&e, bind_where(L), n, in), &e);
}

/* ---- questions ---- */

static int types(lua_State *L) {
  push_types(L, bind_check_dataset(L, 1));
  return 1;
}

static int begin_at(lua_State *L) { /* (dataset, iteration) */
  dataset_begin_at(bind_check_dataset(L, 1), (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

static int iterations(lua_State *L) { /* → list: of the dataset and of each shuffle in it */
  Error e = {0};
  Dataset *d = bind_check_dataset(L, 1);
  int64_t count = 0;
  dataset_iterations(&e, d, NULL, 0, &count);
  bind_check(L, &e);
  int64_t *list = lua_newuserdatauv(L, (size_t)count * sizeof *list, 0);
  dataset_iterations(&e, d, list, count, &count);
  bind_check(L, &e);
  lua_createtable(L, (int)count, 0);
  for (int64_t i = 0; i < count; i++) {
    lua_pushinteger(L, list[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int continue_from(lua_State *L) { /* (dataset, such a list) */
  Dataset *d = bind_check_dataset(L, 1);
  int64_t count = (int64_t)luaL_len(L, 2),
          *list = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *list, 0);
  for (int64_t i = 0; i < count; i++) {
    lua_rawgeti(L, 2, i + 1);
    list[i] = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  Error e = {0};
  dataset_continue(&e, d, list, count);
  bind_check(L, &e);
  return 0;
}

static int cardinality(lua_State *L) {
  lua_pushinteger(L, dataset_cardinality(bind_check_dataset(L, 1)));
  return 1;
}

/* → kind, source, static. Then source and whole batches' extent of the batch that keeps a
 * remainder, and whether there are such batches of another extent. */
static int describe(lua_State *L) {
  Dataset *d = bind_check_dataset(L, 1);
  const Dataset *rest = dataset_find_remainder(d);
  lua_pushstring(L, dataset_kind(d));
  lua_pushstring(L, dataset_source(d));
  lua_pushboolean(L, dataset_is_static(d));
  lua_pushstring(L, rest ? dataset_source(rest) : NULL);
  int64_t size = dataset_remainder_batch(d);
  lua_pushinteger(L, size);
  lua_pushboolean(L, dataset_has_other_batch(d, size));
  return 6;
}

void bind_open_dataset(lua_State *L) {
  static const luaL_Reg functions[] = {{"from_tensors", from_tensors},
                                       {"from_slices", from_slices},
                                       {"range", range},
                                       {"from_generator", from_generator},
                                       {"element_number", element_number},
                                       {"zip", zip},
                                       {"same", same},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"batch", batch},
                                     {"padded_batch", padded_batch},
                                     {"unbatch", unbatch},
                                     {"window", window},
                                     {"shuffle", shuffle},
                                     {"repeat_n", repeat_n},
                                     {"take", take},
                                     {"skip", skip},
                                     {"shard", shard},
                                     {"enumerate", enumerate},
                                     {"concatenate", concatenate},
                                     {"cache", cache},
                                     {"buffer", buffer},
                                     {"prefetch", prefetch},
                                     {"types", types},
                                     {"cardinality", cardinality},
                                     {"begin_at", begin_at},
                                     {"iterations", iterations},
                                     {"continue_from", continue_from},
                                     {"describe", describe},
                                     {"iterator", bind_open_dataset_iterator},
                                     {NULL, NULL}};
  luaL_newmetatable(L, DATASET_NAME);
  lua_pushcfunction(L, free_dataset), lua_setfield(L, -2, "__gc");
  luaL_newlib(L, methods);
  luaL_setfuncs(L, bind_mapping_methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  bind_open_iterator(L);
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  bind_open_infeed(L);
  bind_open_readers(L);
  lua_setfield(L, -2, "data");
}
