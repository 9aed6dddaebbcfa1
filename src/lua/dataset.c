/* Datasets, their iterators and infeeds for Lua. Elements are flat lists here; how they nest is kept by lua/ipulua/data.lua. */
#include "data/dataset.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "data/benchmark.h"
#include "data/digits.h"
#include "data/infeed.h"
#include "data/reader.h"
#include "lua/callback.h"
#include "lua/object.h"
#include "tensor/cifar.h"
#include "tensor/csv.h"
#include "tensor/idx.h"
#include "tensor/npy.h"
#include "tensor/safetensors.h"

#define DATASET_NAME "ipulua.Dataset"
#define ITERATOR_NAME "ipulua.Iterator"
#define INFEED_NAME "ipulua.Infeed"
#define PROGRAM_NAME "ipulua.Program"
#define NAMED_NAME "ipulua.NamedTensors"
#define FOLDER_NAME "ipulua.ImageFolder"
enum { MOST_COMPONENTS = 64 };

/* ---- userdata ---- */

static Dataset **new_dataset(lua_State *L) {
  Dataset **u = lua_newuserdatauv(L, sizeof *u, 0);
  *u = NULL;
  luaL_setmetatable(L, DATASET_NAME);
  return u;
}

static Dataset *check(lua_State *L, int index) {
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

/* What a constructor made, or its error. */
static int made(lua_State *L, Dataset **u, Dataset *d, const Error *e) {
  *u = d;
  bind_check(L, e);
  return 1;
}

/* ---- types ---- */

static int read_types(lua_State *L, int index, Type *types) {
  int n = (int)luaL_len(L, index);
  if (n > MOST_COMPONENTS) bind_fail(L, ERR_VALUE, "a dataset's element has more than %d components", MOST_COMPONENTS);
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
    lua_createtable(L, 0, 3);
    lua_pushstring(L, dtype_name(t->dtype)), lua_setfield(L, -2, "dtype");
    bind_push_shape(L, t), lua_setfield(L, -2, "shape");
    if (dataset_component_is_nested(d, i)) lua_pushboolean(L, 1), lua_setfield(L, -2, "nested");
    lua_rawseti(L, -2, i + 1);
  }
}

/* A list of tensors; they stay alive with the list. */
static int read_tensors(lua_State *L, int index, Tensor **out) {
  int n = (int)luaL_len(L, index);
  if (n > MOST_COMPONENTS) bind_fail(L, ERR_VALUE, "a dataset's element has more than %d components", MOST_COMPONENTS);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, index, i + 1);
    LuaTensor *t = bind_test_tensor(L, -1);
    if (!t || !t->tensor) bind_fail(L, ERR_TYPE, "a dataset holds tensors, got %s", t ? "a symbolic tensor" : luaL_typename(L, -1));
    out[i] = t->tensor;
    lua_pop(L, 1);
  }
  return n;
}

static bool same_tensor(const Tensor *a, const Tensor *b, Error *e) {
  if (!type_equal(&a->type, &b->type)) return false;
  Tensor *x = tensor_dense(e, (Tensor *)(uintptr_t)a), *y = x ? tensor_dense(e, (Tensor *)(uintptr_t)b) : NULL;
  bool same = y && !memcmp(x->data, y->data, type_bytes(&a->type));
  tensor_release(x);
  tensor_release(y);
  return same;
}

/* (list, list) Are the tensors equal, bit by bit? */
static int same(lua_State *L) {
  Tensor *a[MOST_COMPONENTS], *b[MOST_COMPONENTS];
  int n = read_tensors(L, 1, a);
  bool equal = read_tensors(L, 2, b) == n;
  Error e = {0};
  for (int i = 0; i < n && equal; i++) equal = same_tensor(a[i], b[i], &e);
  bind_check(L, &e);
  lua_pushboolean(L, equal);
  return 1;
}

/* ---- sources ---- */

static int from_tensors(lua_State *L) {
  Tensor *t[MOST_COMPONENTS];
  int n = read_tensors(L, 1, t);
  Error e = {0};
  Dataset **u = new_dataset(L);
  return made(L, u, dataset_from_tensors(&e, bind_where(L), n, t), &e);
}

static int from_slices(lua_State *L) {
  Tensor *t[MOST_COMPONENTS];
  int n = read_tensors(L, 1, t);
  Error e = {0};
  Dataset **u = new_dataset(L);
  return made(L, u, dataset_from_slices(&e, bind_where(L), n, t), &e);
}

static int range(lua_State *L) {
  Error e = {0};
  Dataset **u = new_dataset(L);
  return made(L, u, dataset_range(&e, bind_where(L), luaL_checkinteger(L, 1), luaL_checkinteger(L, 2), luaL_checkinteger(L, 3)), &e);
}

/* A generator: open() gives a function that gives lists of tensors, nil at the end. */
static Status generator_open(void *context, void **state, Error *e) {
  Callback *open = context;
  lua_State *L = callback_begin(open);
  if (callback_call(open, 0, 1, e) != OK) return e->status;
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
static Status take_list(lua_State *L, Tensor **out, int count, Error *e) {
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

static Status generator_next(void *context, void *state, Tensor **out, int count, bool *end, Error *e) {
  (void)context;
  Callback *step = state;
  lua_State *L = callback_begin(step);
  if (callback_call(step, 0, 1, e) != OK) return e->status;
  *end = lua_isnil(L, -1);
  if (!*end) return take_list(L, out, count, e);
  lua_pop(L, 1);
  return OK;
}

static void generator_close(void *context, void *state) {
  (void)context;
  callback_free(state);
}

static void release_callback(void *context) { callback_free(context); }

static int from_generator(lua_State *L) { /* (open, types) */
  Type types[MOST_COMPONENTS];
  int n = read_types(L, 2, types);
  Dataset **u = new_dataset(L);
  Error e = {0};
  const char *at = bind_where(L);
  Generator g = {callback_new(L, 1), generator_open, generator_next, generator_close, release_callback};
  return made(L, u, dataset_from_generator(&e, at, n, types, g), &e);
}

/* ---- traced functions ---- */

/* The program of a function, and a copy for each worker that ever runs at once, made when first needed. What random ops
 * count are variables of the program; a copy has its own and sets them to the element's number, so that neither threads
 * nor an earlier reading can be seen in the numbers. */
typedef struct Mapped {
  State *state;
  Program *program; /* its own */
  pthread_mutex_t mutex;
  Program *copy[MAP_WORKERS];
  Callback *retrace; /* types → program, for elements of changing shape; NULL: static */
  Type out_type[MOST_COMPONENTS]; /* with retrace: -1 where extents change */
} Mapped;

static bool is_counter(const Variable *v) {
  return !v->trainable && v->type.dtype == I64 && v->type.rank == 0 && !strcmp(v->name, "random_step");
}

static Program *copy_program(const Program *from, Error *e) {
  Program *p = program_copy(e, from, 1);
  for (int i = 0; p && i < p->variable_count; i++) {
    Variable *own = variable_new(e, p->variable[i]->name, &p->variable[i]->type, false);
    if (own) own->value = tensor_new(e, &own->type);
    if (!own || !own->value) {
      variable_release(own);
      program_free(p);
      return NULL;
    }
    variable_release(p->variable[i]);
    p->variable[i] = own;
  }
  return p;
}

static Program *worker_program(Mapped *m, int worker, Error *e) {
  pthread_mutex_lock(&m->mutex);
  if (!m->copy[worker]) m->copy[worker] = copy_program(m->program, e);
  Program *p = m->copy[worker];
  pthread_mutex_unlock(&m->mutex);
  return p;
}

static Status run_mapped(void *context, int worker, uint64_t number, const void *const *in, void *const *out, Error *e) {
  Mapped *m = context;
  Program *p = worker_program(m, worker, e);
  if (!p) return e->status;
  for (int i = 0; i < p->variable_count; i++) {
    void *counter = variable_writable(e, p->variable[i]);
    if (!counter) return e->status;
    memcpy(counter, &number, sizeof number);
  }
  return program_run_into(m->state->engine, NULL, p, in, out, e);
}

static void release_mapped(void *context) {
  Mapped *m = context;
  for (int i = 0; i < MAP_WORKERS; i++) program_free(m->copy[i]);
  program_free(m->program);
  callback_free(m->retrace);
  pthread_mutex_destroy(&m->mutex);
  free(m);
}

/* Takes the program out of the userdata at index: it may be running on another thread when Lua's state is closed. */
static Mapped *new_mapped(lua_State *L, State *s, int index, Error *e) {
  Program **p = luaL_testudata(L, index, PROGRAM_NAME);
  if (!p || !*p) return fail(e, ERR_INTERNAL, "the function was not traced"), NULL;
  for (int i = 0; i < (*p)->variable_count; i++)
    if (!is_counter((*p)->variable[i])) {
      fail(e, ERR_VALUE, "the function reads variable '%s', which may change while the dataset is read; take its value before "
           "(local value = v:read_value()), or give {eager = true}", (*p)->variable[i]->name);
      return NULL;
    }
  if ((*p)->result_count > MOST_COMPONENTS) {
    fail(e, ERR_VALUE, "a dataset's element has more than %d components", MOST_COMPONENTS);
    return NULL;
  }
  Mapped *m = calloc(1, sizeof *m);
  if (!m || pthread_mutex_init(&m->mutex, NULL)) {
    free(m);
    fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    return NULL;
  }
  m->state = s;
  m->program = *p;
  *p = NULL;
  return m;
}

static Status specialise(void *context, const Type *in, MapFunction *variant, Error *e) {
  Mapped *m = context;
  lua_State *L = callback_begin(m->retrace);
  int count = m->program->argument_count;
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, dtype_name(in[i].dtype)), lua_setfield(L, -2, "dtype");
    bind_push_shape(L, &in[i]), lua_setfield(L, -2, "shape");
    lua_rawseti(L, -2, i + 1);
  }
  if (callback_call(m->retrace, 1, 1, e) != OK) return e->status;
  Mapped *v = new_mapped(L, m->state, lua_gettop(L), e);
  lua_pop(L, 1);
  if (!v) return e->status;
  *variant = (MapFunction){.context = v, .in_count = count, .out_count = v->program->result_count,
                           .out_type = v->program->result_type, .run = run_mapped, .release = release_mapped};
  return OK;
}

/* (program, retrace | nil, output types when there is retrace) from index on. Nothing is held when this raises. */
static MapFunction read_map(lua_State *L, int index, const char *who) {
  State *s = bind_state(L);
  bool varies = lua_isfunction(L, index + 1);
  Type out[MOST_COMPONENTS];
  if (varies) read_types(L, index + 2, out);
  Callback *retrace = varies ? callback_new(L, index + 1) : NULL;
  Error e = {0};
  Mapped *m = new_mapped(L, s, index, &e);
  if (!m) {
    callback_free(retrace);
    bind_fail(L, e.status, "%s: %s", who, e.message);
  }
  MapFunction f = {.context = m, .in_count = m->program->argument_count, .out_count = m->program->result_count,
                   .out_type = m->program->result_type, .run = run_mapped, .release = release_mapped};
  if (varies) {
    memcpy(m->out_type, out, sizeof out);
    m->retrace = retrace;
    f.specialise = specialise;
    f.out_type = m->out_type;
  }
  return f;
}

static int map(lua_State *L) { /* (dataset, parallel, program, retrace, output types) */
  Dataset *in = check(L, 1);
  int parallel = (int)luaL_checkinteger(L, 2);
  lua_settop(L, 5);
  Dataset **u = new_dataset(L);
  Error e = {0};
  const char *at = bind_where(L);
  return made(L, u, dataset_map(&e, at, in, read_map(L, 3, "map"), parallel), &e);
}

static int filter(lua_State *L) { /* (dataset, program, retrace, output types) */
  Dataset *in = check(L, 1);
  lua_settop(L, 4);
  Dataset **u = new_dataset(L);
  Error e = {0};
  const char *at = bind_where(L);
  return made(L, u, dataset_filter(&e, at, in, read_map(L, 2, "filter")), &e);
}

/* ---- functions on the script's thread ---- */

static Status call_host(void *context, Tensor *const *in, int in_count, Tensor **out, int out_count, Dataset **dataset, Error *e) {
  Callback *c = context;
  lua_State *L = callback_begin(c);
  lua_createtable(L, in_count, 0);
  for (int i = 0; i < in_count; i++) {
    bind_push_tensor(L, tensor_retain(in[i]));
    lua_rawseti(L, -2, i + 1);
  }
  if (callback_call(c, 1, 1, e) != OK) return e->status;
  if (!dataset) return take_list(L, out, out_count, e);
  Dataset **u = luaL_testudata(L, -1, DATASET_NAME);
  Status s = u && *u ? OK : fail(e, ERR_TYPE, "the function must return a dataset");
  if (s == OK) *dataset = dataset_retain(*u);
  lua_pop(L, 1);
  return s;
}

static ScriptFunction script_function(lua_State *L, int index) {
  return (ScriptFunction){callback_new(L, index), call_host, release_callback};
}

static int map_host(lua_State *L) { /* (dataset, function, types) */
  Dataset *in = check(L, 1);
  Type types[MOST_COMPONENTS];
  int n = read_types(L, 3, types);
  Dataset **u = new_dataset(L);
  Error e = {0};
  const char *at = bind_where(L);
  return made(L, u, dataset_map_host(&e, at, in, n, types, script_function(L, 2)), &e);
}

static int filter_host(lua_State *L) { /* (dataset, function) */
  Dataset *in = check(L, 1);
  Dataset **u = new_dataset(L);
  Error e = {0};
  const char *at = bind_where(L);
  return made(L, u, dataset_filter_host(&e, at, in, script_function(L, 2)), &e);
}

static int interleave(lua_State *L) { /* (dataset, function, types, cycle, block) */
  Dataset *in = check(L, 1);
  Type types[MOST_COMPONENTS];
  int n = read_types(L, 3, types);
  lua_Integer cycle = luaL_checkinteger(L, 4), block = luaL_checkinteger(L, 5);
  Dataset **u = new_dataset(L);
  Error e = {0};
  const char *at = bind_where(L);
  return made(L, u, dataset_interleave(&e, at, in, n, types, script_function(L, 2), cycle, block), &e);
}

static int flat_map(lua_State *L) { /* (dataset, function, types) */
  Dataset *in = check(L, 1);
  Type types[MOST_COMPONENTS];
  int n = read_types(L, 3, types);
  Dataset **u = new_dataset(L);
  Error e = {0};
  const char *at = bind_where(L);
  return made(L, u, dataset_flat_map(&e, at, in, n, types, script_function(L, 2)), &e);
}

/* ---- the rest: a line or two each ---- */

#define BEGIN                  \
  Dataset *in = check(L, 1);   \
  Error e = {0};               \
  Dataset **u = new_dataset(L); \
  const char *at = bind_where(L)

static int batch(lua_State *L) {
  BEGIN;
  return made(L, u, dataset_batch(&e, at, in, luaL_checkinteger(L, 2), lua_toboolean(L, 3)), &e);
}

static int padded_batch(lua_State *L) { /* (dataset, size, drop, list of {dtype, shape} | nil, list of tensors | nil) */
  Type types[MOST_COMPONENTS];
  const Type *shapes[MOST_COMPONENTS];
  Tensor *values[MOST_COMPONENTS] = {0};
  int n = lua_istable(L, 4) ? read_types(L, 4, types) : 0;
  for (int i = 0; i < n; i++) shapes[i] = &types[i];
  int v = lua_istable(L, 5) ? read_tensors(L, 5, values) : 0;
  BEGIN;
  if ((n && n != dataset_component_count(in)) || (v && v != dataset_component_count(in)))
    return bind_fail(L, ERR_VALUE, "padded_batch: the element has %d components", dataset_component_count(in));
  return made(L, u, dataset_padded_batch(&e, at, in, luaL_checkinteger(L, 2), n ? shapes : NULL, v ? values : NULL, lua_toboolean(L, 3)), &e);
}

static int unbatch(lua_State *L) {
  BEGIN;
  return made(L, u, dataset_unbatch(&e, at, in), &e);
}

static int window(lua_State *L) {
  BEGIN;
  return made(L, u, dataset_window(&e, at, in, luaL_checkinteger(L, 2), luaL_optinteger(L, 3, 0), luaL_optinteger(L, 4, 1),
                                   lua_toboolean(L, 5)), &e);
}

static int shuffle(lua_State *L) { /* (dataset, buffer, seed | nil, reshuffle) */
  BEGIN;
  ShuffleOptions o = {.buffer_size = luaL_checkinteger(L, 2), .has_seed = !lua_isnoneornil(L, 3), .keep_order = !lua_toboolean(L, 4)};
  if (o.has_seed) o.seed = (uint64_t)luaL_checkinteger(L, 3);
  return made(L, u, dataset_shuffle(&e, at, in, &o), &e);
}

static int repeat_n(lua_State *L) {
  BEGIN;
  return made(L, u, dataset_repeat(&e, at, in, luaL_checkinteger(L, 2)), &e);
}

static int take(lua_State *L) {
  BEGIN;
  return made(L, u, dataset_take(&e, at, in, luaL_checkinteger(L, 2)), &e);
}

static int skip(lua_State *L) {
  BEGIN;
  return made(L, u, dataset_skip(&e, at, in, luaL_checkinteger(L, 2)), &e);
}

static int shard(lua_State *L) {
  BEGIN;
  return made(L, u, dataset_shard(&e, at, in, luaL_checkinteger(L, 2), luaL_checkinteger(L, 3)), &e);
}

static int enumerate(lua_State *L) {
  BEGIN;
  return made(L, u, dataset_enumerate(&e, at, in, luaL_optinteger(L, 2, 0)), &e);
}

static int concatenate(lua_State *L) {
  BEGIN;
  return made(L, u, dataset_concatenate(&e, at, in, check(L, 2)), &e);
}

static int cache(lua_State *L) {
  BEGIN;
  return made(L, u, dataset_cache(&e, at, in, luaL_optstring(L, 2, NULL)), &e);
}

static int buffer(lua_State *L) {
  BEGIN;
  return made(L, u, dataset_buffer(&e, at, in, luaL_checkinteger(L, 2)), &e);
}

static int prefetch(lua_State *L) {
  BEGIN;
  return made(L, u, dataset_prefetch(&e, at, in, luaL_optinteger(L, 2, DATA_AUTOTUNE)), &e);
}

static int zip(lua_State *L) { /* (list of datasets) */
  Dataset *in[MOST_COMPONENTS];
  int n = (int)luaL_len(L, 1);
  if (n > MOST_COMPONENTS) return bind_fail(L, ERR_VALUE, "zip: more than %d datasets", MOST_COMPONENTS);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 1, i + 1);
    in[i] = check(L, -1);
    lua_pop(L, 1);
  }
  Error e = {0};
  Dataset **u = new_dataset(L);
  return made(L, u, dataset_zip(&e, bind_where(L), n, in), &e);
}

/* ---- files ---- */

static void push_names(lua_State *L, const ImageFolder *f) {
  lua_createtable(L, f->class_count, 0);
  for (int i = 0; i < f->class_count; i++) {
    lua_pushstring(L, f->class_name[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* A tensor that a reader is going to give: its userdata is there first. */
static int read_tensor(lua_State *L, Status (*read)(Error *, const char *, Tensor **)) {
  const char *path = luaL_checkstring(L, 1);
  LuaTensor *u = bind_new_tensor(L);
  Error e = {0};
  read(&e, path, &u->tensor);
  bind_check(L, &e);
  return 1;
}

static Status read_text_bytes(Error *e, const char *path, Tensor **out) {
  return (*out = text_read_bytes(e, path)) ? OK : e->status;
}
static Status read_text_characters(Error *e, const char *path, Tensor **out) {
  return (*out = text_read_characters(e, path)) ? OK : e->status;
}

static int read_idx(lua_State *L) { return read_tensor(L, idx_read); }
static int read_npy(lua_State *L) { return read_tensor(L, npy_read); }
static int read_bytes(lua_State *L) { return read_tensor(L, read_text_bytes); }
static int read_characters(lua_State *L) { return read_tensor(L, read_text_characters); }

static int read_cifar(lua_State *L) { /* (path, classes) → images, labels */
  const char *path = luaL_checkstring(L, 1);
  int classes = (int)luaL_checkinteger(L, 2);
  LuaTensor *images = bind_new_tensor(L), *labels = bind_new_tensor(L);
  Error e = {0};
  cifar_read(&e, path, classes, &images->tensor, &labels->tensor);
  bind_check(L, &e);
  return 2;
}

/* (path, dtype, separator, has header, columns): names, or positions from 0; nil: all */
static int read_csv(lua_State *L) {
  enum { MOST_COLUMNS = 1024 };
  const char *path = luaL_checkstring(L, 1), *separator = luaL_checkstring(L, 3);
  const char *name[MOST_COLUMNS];
  int position[MOST_COLUMNS];
  CsvOptions o = {.dtype = bind_check_dtype(L, 2), .separator = separator[0], .has_header = lua_toboolean(L, 4)};
  if (lua_istable(L, 5)) {
    lua_Integer n = luaL_len(L, 5);
    if (n > MOST_COLUMNS) return bind_fail(L, ERR_VALUE, "from_csv: at most %d columns can be named", MOST_COLUMNS);
    o.column_count = (int)n;
    for (int i = 0; i < o.column_count; i++) {
      lua_rawgeti(L, 5, i + 1);
      bool named = lua_type(L, -1) == LUA_TSTRING;
      if (named) name[i] = lua_tostring(L, -1);
      else position[i] = (int)luaL_checkinteger(L, -1);
      if (i && named != (o.names != NULL)) return bind_fail(L, ERR_TYPE, "from_csv: columns are named either by name or by position");
      if (named) o.names = name;
      else o.positions = position;
      lua_pop(L, 1); /* the list holds the names */
    }
  }
  LuaTensor *u = bind_new_tensor(L);
  Error e = {0};
  csv_read(&e, path, &o, &u->tensor);
  bind_check(L, &e);
  return 1;
}

static int csv_columns(lua_State *L) { /* (path, separator) → names */
  const char *path = luaL_checkstring(L, 1), *separator = luaL_checkstring(L, 2);
  ImageFolder *f = lua_newuserdatauv(L, sizeof *f, 0); /* holds names, which may not be lost when Lua raises */
  *f = (ImageFolder){0};
  luaL_setmetatable(L, FOLDER_NAME);
  Error e = {0};
  csv_first_record(&e, path, separator[0], &f->class_name, &f->class_count);
  bind_check(L, &e);
  push_names(L, f);
  return 1;
}

/* What a file of named tensors holds, as a table; the names in the file's order as a list. */
static int read_named(lua_State *L) { /* (path, zipped) */
  const char *path = luaL_checkstring(L, 1);
  bool zipped = lua_toboolean(L, 2);
  Error e = {0};
  NamedTensors *kept = lua_newuserdatauv(L, sizeof *kept, 0);
  named_init(kept);
  luaL_setmetatable(L, NAMED_NAME);
  if (zipped) npz_read(&e, path, kept);
  else safetensors_read(&e, path, kept);
  bind_check(L, &e);
  lua_createtable(L, 0, kept->count);
  lua_createtable(L, kept->count, 0);
  for (int i = 0; i < kept->count; i++) {
    LuaTensor *u = bind_new_tensor(L);
    u->tensor = tensor_retain(kept->tensor[i]);
    lua_setfield(L, -3, kept->name[i]);
    lua_pushstring(L, kept->name[i]);
    lua_rawseti(L, -2, i + 1);
  }
  named_clear(kept);
  named_init(kept);
  return 2;
}

static int free_named(lua_State *L) {
  named_clear(lua_touserdata(L, 1));
  named_init(lua_touserdata(L, 1));
  return 0;
}

static int from_lines(lua_State *L) { /* (path) */
  const char *path = luaL_checkstring(L, 1);
  Dataset **u = new_dataset(L);
  Error e = {0};
  return made(L, u, dataset_from_lines(&e, bind_where(L), path), &e);
}

static int from_images(lua_State *L) { /* (path, height, width, channels) → dataset, class names */
  const char *path = luaL_checkstring(L, 1);
  int64_t height = luaL_checkinteger(L, 2), width = luaL_checkinteger(L, 3);
  int channels = (int)luaL_checkinteger(L, 4);
  ImageFolder *f = lua_newuserdatauv(L, sizeof *f, 0);
  *f = (ImageFolder){0};
  luaL_setmetatable(L, FOLDER_NAME);
  Error e = {0};
  image_folder_list(&e, path, f);
  bind_check(L, &e);
  push_names(L, f);
  Dataset **u = new_dataset(L);
  made(L, u, dataset_from_images(&e, bind_where(L), f, height, width, channels), &e);
  lua_insert(L, -2);
  return 2;
}

static int free_folder(lua_State *L) {
  image_folder_clear(lua_touserdata(L, 1));
  return 0;
}

static int draw_digits(lua_State *L) { /* (seed, set, count) → images, labels; set 0: training, 1: test */
  int64_t seed = luaL_checkinteger(L, 1), set = luaL_checkinteger(L, 2), count = luaL_checkinteger(L, 3);
  if (set != DIGITS_TRAIN && set != DIGITS_TEST) return luaL_error(L, "the set of digits is 0 or 1");
  LuaTensor *images = bind_new_tensor(L), *labels = bind_new_tensor(L);
  Error e = {0};
  digits_draw(&e, engine_pool(bind_state(L)->engine), (uint64_t)seed, (int)set, count, &images->tensor, &labels->tensor);
  bind_check(L, &e);
  return 2;
}

/* ---- questions ---- */

static int types(lua_State *L) {
  push_types(L, check(L, 1));
  return 1;
}

static int cardinality(lua_State *L) {
  lua_pushinteger(L, dataset_cardinality(check(L, 1)));
  return 1;
}

static int describe(lua_State *L) { /* → kind, source, static, kind and source of the batch that keeps a remainder */
  Dataset *d = check(L, 1);
  const Dataset *rest = dataset_find_remainder(d);
  lua_pushstring(L, dataset_kind(d));
  lua_pushstring(L, dataset_source(d));
  lua_pushboolean(L, dataset_is_static(d));
  lua_pushstring(L, rest ? dataset_source(rest) : NULL);
  return 4;
}

/* ---- iterators ---- */

static DataContext context_of(lua_State *L) {
  State *s = bind_state(L);
  return (DataContext){.pool = engine_pool(s->engine), .threads = s->engine->threads, .seed = s->engine->seed, .host = s->host};
}

static int open_iterator(lua_State *L) { /* (dataset, peek) */
  Dataset *d = check(L, 1);
  DataContext context = context_of(L);
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
  if (*u && iterator_is_busy(*u)) return bind_fail(L, ERR_FAILED_PRECONDITION, "an iterator can't be closed while it is being read");
  return free_iterator(L);
}

static int next_element(lua_State *L) {
  Iterator **u = luaL_checkudata(L, 1, ITERATOR_NAME);
  if (!*u) return 0;
  int n = dataset_component_count(iterator_dataset(*u));
  if (n > MOST_COMPONENTS) return bind_fail(L, ERR_VALUE, "a dataset's element has more than %d components", MOST_COMPONENTS);
  lua_createtable(L, n, 0);
  LuaTensor *hold[MOST_COMPONENTS]; /* made first: nothing may raise while the tensors are loose */
  for (int i = 0; i < n; i++) {
    hold[i] = bind_new_tensor(L);
    lua_rawseti(L, -2, i + 1);
  }
  Tensor *out[MOST_COMPONENTS] = {NULL};
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
  /* the collector sees 40 bytes a tensor; tell it of the rest */
  if (bytes >= 1024) lua_gc(L, LUA_GCSTEP, bytes >> 10 > 1 << 20 ? 1 << 20 : (int)(bytes >> 10));
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

/* ---- infeeds ---- */

static Infeed *check_infeed(lua_State *L) { return (Infeed *)bind_check_object(L, 1, INFEED_NAME); }

static int new_infeed(lua_State *L) { /* (dataset, depth) */
  Dataset *d = check(L, 1);
  int depth = (int)luaL_checkinteger(L, 2);
  DataContext context = context_of(L);
  bind_push_object(L, NULL, INFEED_NAME);
  Error e = {0};
  *(Object **)lua_touserdata(L, -1) = (Object *)infeed_new(&e, d, &context, depth);
  bind_check(L, &e);
  return 1;
}

static int dequeue(lua_State *L) { /* in the current trace → list of symbolic components */
  State *s = bind_state(L);
  Infeed *q = check_infeed(L);
  if (!s->trace) return luaL_error(L, "no function is being traced");
  Graph *g = s->trace->trace->graph;
  bind_mark_line(L, g);
  Node *n = feed_dequeue(g, infeed_feed(q));
  Error e = g->error;
  bind_check(L, &e);
  lua_createtable(L, n->out_count, 0);
  for (int i = 0; i < n->out_count; i++) {
    bind_push_value(L, &n->out[i], s->trace);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int open_infeed(lua_State *L) {
  Infeed *q = check_infeed(L);
  DataContext context = context_of(L);
  Error e = {0};
  infeed_set_context(q, &context);
  infeed_open(q, &e);
  bind_check(L, &e);
  return 0;
}

static int open_infeed_explicitly(lua_State *L) {
  infeed_open_explicitly(check_infeed(L));
  return 0;
}

static int close_infeed(lua_State *L) {
  Error e = {0};
  infeed_close(check_infeed(L), &e);
  bind_check(L, &e);
  return 0;
}

static int replace_infeed(lua_State *L) { /* (infeed, dataset, depth): while it is closed */
  Infeed *q = check_infeed(L);
  Dataset *d = check(L, 2);
  Error e = {0};
  infeed_replace(q, d, (int)luaL_checkinteger(L, 3), &e);
  bind_check(L, &e);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, 1, 1);
  return 0;
}

static int infeed_state(lua_State *L) {
  lua_pushboolean(L, infeed_is_open(check_infeed(L)));
  lua_pushinteger(L, infeed_position(check_infeed(L)));
  return 2;
}

static int save_infeed(lua_State *L) {
  Error e = {0};
  Tensor *t = infeed_save(check_infeed(L), &e);
  bind_check(L, &e);
  bind_push_tensor(L, t);
  return 1;
}

static int restore_infeed(lua_State *L) {
  LuaTensor *t = bind_check_tensor(L, 2, "saved");
  DataContext context = context_of(L);
  Error e = {0};
  infeed_set_context(check_infeed(L), &context);
  infeed_restore(check_infeed(L), t->tensor, &e);
  bind_check(L, &e);
  return 0;
}

void bind_open_dataset(lua_State *L) {
  static const luaL_Reg functions[] = {{"from_tensors", from_tensors}, {"from_slices", from_slices}, {"range", range},
                                       {"from_generator", from_generator}, {"zip", zip}, {"new_infeed", new_infeed},
                                       {"read_idx", read_idx}, {"read_npy", read_npy}, {"read_bytes", read_bytes},
                                       {"read_characters", read_characters}, {"read_cifar", read_cifar}, {"read_csv", read_csv}, {"csv_columns", csv_columns},
                                       {"read_named", read_named}, {"from_lines", from_lines}, {"from_images", from_images},
                                       {"draw_digits", draw_digits}, {"same", same}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"map", map}, {"filter", filter}, {"map_host", map_host}, {"filter_host", filter_host}, {"interleave", interleave},
      {"flat_map", flat_map}, {"batch", batch}, {"padded_batch", padded_batch}, {"unbatch", unbatch}, {"window", window},
      {"shuffle", shuffle}, {"repeat_n", repeat_n}, {"take", take}, {"skip", skip}, {"shard", shard}, {"enumerate", enumerate},
      {"concatenate", concatenate}, {"cache", cache}, {"buffer", buffer}, {"prefetch", prefetch}, {"types", types},
      {"cardinality", cardinality}, {"describe", describe}, {"iterator", open_iterator}, {NULL, NULL}};
  static const luaL_Reg iterator_methods[] = {{"next", next_element}, {"skip", skip_elements}, {"close", close_iterator},
                                              {"benchmark", benchmark}, {NULL, NULL}};
  static const luaL_Reg infeed_methods[] = {{"dequeue", dequeue}, {"open", open_infeed}, {"open_explicitly", open_infeed_explicitly}, {"close", close_infeed}, {"replace", replace_infeed},
                                            {"state", infeed_state}, {"save", save_infeed}, {"restore", restore_infeed}, {NULL, NULL}};
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  lua_setfield(L, -2, "data");
  luaL_newmetatable(L, DATASET_NAME);
  lua_pushcfunction(L, free_dataset), lua_setfield(L, -2, "__gc");
  luaL_newlib(L, methods), lua_setfield(L, -2, "__index");
  luaL_newmetatable(L, ITERATOR_NAME);
  lua_pushcfunction(L, free_iterator), lua_setfield(L, -2, "__gc");
  luaL_newlib(L, iterator_methods), lua_setfield(L, -2, "__index");
  luaL_newmetatable(L, NAMED_NAME);
  lua_pushcfunction(L, free_named), lua_setfield(L, -2, "__gc");
  luaL_newmetatable(L, FOLDER_NAME);
  lua_pushcfunction(L, free_folder), lua_setfield(L, -2, "__gc");
  lua_pop(L, 4);
  bind_object_type(L, INFEED_NAME, infeed_methods);
}
