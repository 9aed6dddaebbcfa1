/* Functions on the elements of datasets. They are traced once and run by worker threads, or called
 * on the script's thread. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/run.h"
#include "lua/callback.h"
#include "lua/dataset.h"

/* ---- traced functions ---- */

/* The program of a function, and a copy for each worker that runs at the same time, made when first
 * needed. Counters of random ops are variables of the program. A copy has its own, and sets them to
 * the element's number. So the numbers depend neither on threads nor on earlier readings. */
typedef struct Mapped {
  State *state;
  Program *program; /* its own */
  pthread_mutex_t mutex;
  Program *copy[MAP_WORKERS];
  Callback *retrace; /* types → program, for elements of changing shape; NULL: static */
  Type out_type[DATASET_COMPONENTS]; /* with retrace: -1 where extents change */
} Mapped;

static Program *copy_program(const Program *from, Error *e) {
  Program *p = program_copy(e, from, 1);
  for (int i = 0; p && i < p->variable_count; i++) {
    Variable *own = variable_new(e, p->variable[i]->name, &p->variable[i]->type, false);
    if (own) own->counts_runs = p->variable[i]->counts_runs, own->value = tensor_new(e, &own->type);
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

/* Each random op's counter is the element's counter. It counts from where the seed begins; the op's
 * own seed begins at 0. */
static Status run_mapped(void *context, int worker, uint64_t number, const void *const *in,
                         void *const *out, Error *e) {
  Mapped *m = context;
  Program *p = worker_program(m, worker, e);
  if (!p) return e->status;
  for (int i = 0; i < p->variable_count; i++) {
    void *counter = variable_writable(e, p->variable[i]);
    if (!counter) return e->status;
    uint64_t count = (uint64_t)atomic_load(&m->program->variable[i]->start) + number;
    memcpy(counter, &count, sizeof count);
  }
  return program_run_into(m->state->engine, NULL, p, number, in, out, e);
}

static void release_mapped(void *context) {
  Mapped *m = context;
  for (int i = 0; i < MAP_WORKERS; i++) program_free(m->copy[i]);
  program_free(m->program);
  callback_free(m->retrace);
  pthread_mutex_destroy(&m->mutex);
  free(m);
}

/* Takes the program out of the userdata at index: it may be running on another thread when Lua's
 * state is closed. */
static Mapped *new_mapped(lua_State *L, State *s, int index, Error *e) {
  Program **p = luaL_testudata(L, index, PROGRAM_NAME);
  if (!p || !*p) return fail(e, ERR_INTERNAL, "the function was not traced"), NULL;
  for (int i = 0; i < (*p)->variable_count; i++)
    if (!(*p)->variable[i]->counts_runs) {
      fail(
          e, ERR_VALUE,
          "the function reads variable '%s', which may change while the dataset is read; take its value before "
          "(local value = v:read_value()), or give {eager = true}",
          (*p)->variable[i]->name);
      return NULL;
    }
  if ((*p)->result_count > DATASET_COMPONENTS) {
    fail(e, ERR_VALUE, "a dataset's element has more than %d components", DATASET_COMPONENTS);
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
    bind_push_type(L, &in[i]);
    lua_rawseti(L, -2, i + 1);
  }
  if (callback_call_again(m->retrace, 1, 1, e) != OK) return e->status;
  Mapped *v = new_mapped(L, m->state, lua_gettop(L), e);
  lua_pop(L, 1);
  if (!v) return e->status;
  *variant = (MapFunction){.context = v,
                           .in_count = count,
                           .out_count = v->program->result_count,
                           .out_type = v->program->result_type,
                           .run = run_mapped,
                           .release = release_mapped};
  return OK;
}

/* (program, retrace | nil, output types when there is retrace) from index on. Nothing is held
 * when this raises. */
static MapFunction read_map(lua_State *L, int index, const char *who) {
  State *s = bind_state(L);
  bool varies = lua_isfunction(L, index + 1);
  Type out[DATASET_COMPONENTS];
  if (varies) bind_read_types(L, index + 2, out);
  Callback *retrace = varies ? callback_new(L, index + 1) : NULL;
  Error e = {0};
  Mapped *m = new_mapped(L, s, index, &e);
  if (!m) {
    callback_free(retrace);
    bind_fail(L, e.status, "%s: %s", who, e.message);
  }
  MapFunction f = {.context = m,
                   .in_count = m->program->argument_count,
                   .out_count = m->program->result_count,
                   .out_type = m->program->result_type,
                   .run = run_mapped,
                   .release = release_mapped};
  if (varies) {
    memcpy(m->out_type, out, sizeof out);
    m->retrace = retrace;
    f.specialise = specialise;
    f.out_type = m->out_type;
  }
  return f;
}

static int map(lua_State *L) { /* (dataset, parallel, program, retrace, output types) */
  Dataset *in = bind_check_dataset(L, 1);
  int parallel = bind_check_int(L, 2, "num_parallel_calls");
  lua_settop(L, 5);
  Dataset **u = bind_new_dataset(L);
  Error e = {0};
  const char *at = bind_where(L);
  return bind_made_dataset(L, u, dataset_map(&e, at, in, read_map(L, 3, "map"), parallel), &e);
}

static int filter(lua_State *L) { /* (dataset, program, retrace, output types) */
  Dataset *in = bind_check_dataset(L, 1);
  lua_settop(L, 4);
  Dataset **u = bind_new_dataset(L);
  Error e = {0};
  const char *at = bind_where(L);
  return bind_made_dataset(L, u, dataset_filter(&e, at, in, read_map(L, 2, "filter")), &e);
}

/* ---- functions on the script's thread ---- */

static Status call_host(void *context, Tensor *const *in, int in_count, Tensor **out, int out_count,
                        Dataset **dataset, Error *e) {
  Callback *c = context;
  lua_State *L = callback_begin(c);
  lua_createtable(L, in_count, 0);
  for (int i = 0; i < in_count; i++) {
    bind_push_tensor(L, tensor_retain(in[i]));
    lua_rawseti(L, -2, i + 1);
  }
  if (callback_call_again(c, 1, 1, e) != OK) return e->status;
  if (!dataset) return bind_take_list(L, out, out_count, e);
  Dataset **u = luaL_testudata(L, -1, DATASET_NAME);
  Status s = u && *u ? OK : fail(e, ERR_TYPE, "the function must return a dataset");
  if (s == OK) *dataset = dataset_retain(*u);
  lua_pop(L, 1);
  return s;
}

static ScriptFunction script_function(lua_State *L, int index) {
  return (ScriptFunction){callback_new(L, index), call_host, bind_release_callback,
                          bind_take_number};
}

typedef Dataset *Make(Error *e, const char *source, Dataset *in, int count, const Type *types,
                      ScriptFunction f);

static int with_types(lua_State *L, Make *make) { /* (dataset, function, types) */
  Dataset *in = bind_check_dataset(L, 1);
  Type types[DATASET_COMPONENTS];
  int n = bind_read_types(L, 3, types);
  Dataset **u = bind_new_dataset(L);
  Error e = {0};
  const char *at = bind_where(L);
  return bind_made_dataset(L, u, make(&e, at, in, n, types, script_function(L, 2)), &e);
}

static int map_host(lua_State *L) { return with_types(L, dataset_map_host); }
static int flat_map(lua_State *L) { return with_types(L, dataset_flat_map); }

/* (dataset, function) */
static int with_predicate(lua_State *L,
                          Dataset *make(Error *, const char *, Dataset *, ScriptFunction)) {
  Dataset *in = bind_check_dataset(L, 1);
  Dataset **u = bind_new_dataset(L);
  Error e = {0};
  const char *at = bind_where(L);
  return bind_made_dataset(L, u, make(&e, at, in, script_function(L, 2)), &e);
}

static int filter_host(lua_State *L) { return with_predicate(L, dataset_filter_host); }
static int take_while_host(lua_State *L) { return with_predicate(L, dataset_take_while_host); }

static int interleave(lua_State *L) { /* (dataset, function, types, cycle, block) */
  Dataset *in = bind_check_dataset(L, 1);
  Type types[DATASET_COMPONENTS];
  int n = bind_read_types(L, 3, types);
  lua_Integer cycle = luaL_checkinteger(L, 4), block = luaL_checkinteger(L, 5);
  Dataset **u = bind_new_dataset(L);
  Error e = {0};
  const char *at = bind_where(L);
  return bind_made_dataset(
      L, u, dataset_interleave(&e, at, in, n, types, script_function(L, 2), cycle, block), &e);
}

const luaL_Reg bind_mapping_methods[] = {{"map", map},
                                         {"filter", filter},
                                         {"map_host", map_host},
                                         {"filter_host", filter_host},
                                         {"take_while_host", take_while_host},
                                         {"interleave", interleave},
                                         {"flat_map", flat_map},
                                         {NULL, NULL}};
