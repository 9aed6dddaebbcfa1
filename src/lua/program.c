/* Programs, made from traces: their runs, replicas and variables. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "dist/instances.h"
#include "dist/shared.h"
#include "engine/run.h"
#include "lua/bind.h"
#include "lua/host_results.h"
#include "lua/tape.h"
#include "program/dot.h"
#include "program/memory.h"
#include "program/replicas.h"
#include "program/text.h"

enum { MAX_LISTED = 4096 };
#define ROOT_NAME "ipulua.Root"

Program *bind_check_program(lua_State *L, int index) {
  Program **p = luaL_checkudata(L, index, PROGRAM_NAME);
  if (!*p) luaL_error(L, "this program has been freed");
  return *p;
}

static int free_compiled(lua_State *L) {
  Program **p = lua_touserdata(L, 1);
  program_free(*p);
  *p = NULL;
  return 0;
}

/* Userdata that owns a trace until it is compiled. */
static int free_root(lua_State *L) {
  Trace **t = lua_touserdata(L, 1);
  trace_free(*t);
  *t = NULL;
  return 0;
}

void bind_push_program(lua_State *L, Trace *t, Value *const *results, int count, const char *name,
                       bool outline) {
  State *s = bind_state(L);
  Trace **held = lua_newuserdatauv(L, sizeof *held, 0);
  *held = t;
  luaL_setmetatable(L, ROOT_NAME);
  int *written = lua_newuserdatauv(L, (size_t)(t->extra_count + 1) * sizeof *written, 0);
  Program **p = lua_newuserdatauv(L, sizeof *p, 0);
  *p = NULL;
  luaL_setmetatable(L, PROGRAM_NAME);
  int written_count = trace_end_root(t, results, count, written);
  Error e = {0};
  t->replicas = s->replicas;
  const Engine *g = s->engine;
  *p = outline
           ? program_outline(&e, t, count, written, written_count, g->kernels, &g->numerics, name)
           : program_compile(&e, t, count, written, written_count, g->kernels, &g->numerics,
                             g->threads, name);
  trace_free(t);
  *held = NULL;
  bind_check(L, &e);
  lua_replace(L, -3);
  lua_pop(L, 1);
  bind_tell_collector(
      L, (*p)->memory_bytes + arena_bytes((*p)->arena) + arena_bytes((*p)->graph->arena));
}

Tensor **bind_arguments(lua_State *L, int index, const Program *p) {
  Tensor **in =
      lua_newuserdatauv(L, (size_t)(p->argument_count + p->result_count + 2) * sizeof *in, 0);
  lua_createtable(L, p->argument_count, 0); /* keeps packed copies alive */
  int keep = lua_gettop(L);
  for (int i = 0; i < p->argument_count; i++) {
    lua_rawgeti(L, index, i + 1);
    Tensor *t = bind_concrete(L, -1, "argument");
    if (!type_equal(&t->type, &p->graph->input[i]->type))
      luaL_error(L, "argument %d has another type than was traced", i + 1);
    if (!tensor_is_dense(t)) {
      Error e = {0};
      LuaTensor *u = bind_new_tensor(L);
      u->tensor = t = tensor_dense(&e, t);
      bind_check(L, &e);
    }
    in[i] = t;
    lua_rawseti(L, keep, i + 1);
    lua_settop(L, keep);
  }
  return in;
}

void bind_push_results(lua_State *L, Tensor **out, int count) {
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    Tensor *t = out[i];
    out[i] = NULL;
    bind_push_tensor(L, t);
    lua_rawseti(L, -2, i + 1);
  }
}

/* (program, list of tensors) → list of tensors */
static int run(lua_State *L) {
  Program *p = bind_check_program(L, 1);
  State *s = bind_state(L);
  bind_settle(L, NULL);
  bind_initialise_all(L, p);
  for (int i = 0; i < p->variable_count; i++) bind_check_steady(L, p->variable[i]);
  if (!atomic_load(&p->running)) atomic_store(&p->cancelled, false);
  Tensor **in = bind_arguments(L, 2, p);
  TapeCall *taped = s->tapes ? tape_begin_call(L, p, 2) : NULL;
  HostResults *answers = taped ? host_results_new(L) : NULL;
  Error e = {0};
  if (answers) host_results_begin(s, answers);
  program_run(s->engine, p, in, in + p->argument_count + 1, &e);
  if (answers) host_results_end(s, answers);
  bind_check(L, &e);
  bind_push_results(L, in + p->argument_count + 1, p->result_count);
  if (taped) tape_end_call(L, p, taped, answers);
  return 1;
}

/* (program, replicas, first, all): several instances have replicas; those from `first` on, of
 * `all`, are on this one */
static int replicate(lua_State *L) {
  Program *p = bind_check_program(L, 1);
  lua_Integer replicas = luaL_checkinteger(L, 2), first = luaL_optinteger(L, 3, 0),
              all = luaL_optinteger(L, 4, 0);
  if (replicas < 1 || replicas > MAX_LISTED || first < 0 || all < 0 || all > INT_MAX / 2 ||
      first > all)
    return luaL_error(L, "a program has 1 to %d replicas", MAX_LISTED);
  Error e = {0};
  const Instances *instances = bind_state(L)->engine->instances;
  p->window_bytes = instances ? instances_shared_bytes(instances) : 0;
  program_replicate(&e, p, (int)replicas, (int)first, (int)all, bind_state(L)->engine->threads);
  bind_check(L, &e);
  return 0;
}

/* The number of replicas for collectives of the program being traced. */
static int set_replicas(lua_State *L) {
  bind_state(L)->replicas = (int)luaL_checkinteger(L, 1);
  return 0;
}

/* The number of replicas that a collective got since the last call; 0: no collective asked. */
static int replicas_asked(lua_State *L) {
  lua_pushinteger(L, bind_state(L)->replicas_asked);
  bind_state(L)->replicas_asked = 0;
  return 1;
}

/* Whether it has collectives. */
static int has_collectives(lua_State *L) {
  lua_pushboolean(L, program_has_collectives(bind_check_program(L, 1)));
  return 1;
}

static void push_totals(lua_State *L, MeetingTotals m) {
  bind_set_integer(L, "bytes", m.bytes);
  bind_set_number(L, "seconds", m.seconds);
  bind_set_number(L, "waited", m.waited);
}

static void push_cost(lua_State *L, const Program *p, const Phase *phase) {
  const Node *n = phase->step[0]->node;
  const CollectiveCost *cost = &phase->cost;
  int count = p->all_replicas / p->replicas;
  char type[TYPE_TEXT];
  lua_createtable(L, 0, 9);
  bind_set_text(L, "op", n->op->name);
  bind_set_text(L, "type", type_text(&n->in[0]->type, type));
  bind_set_text(L, "line", n->source);
  bind_set_text(L, "way", cost->way);
  bind_set_integer(L, "count", cost->count);
  push_totals(L, cost->of[p->first_replica / p->replicas]);
  lua_createtable(L, count, 0);
  for (int q = 0; q < count; q++) {
    lua_createtable(L, 0, 3);
    push_totals(L, cost->of[q]);
    lua_rawseti(L, -2, q + 1);
  }
  lua_setfield(L, -2, "instances");
  lua_rawseti(L, -2, luaL_len(L, -2) + 1);
}

static void push_meetings(lua_State *L, const Program *program, const Phases *list) {
  luaL_checkstack(L, 6, NULL);
  for (int i = 0; i < list->count; i++) {
    const Phase *p = &list->phase[i];
    if (p->cost.count) push_cost(L, program, p);
    for (int k = 0; p->nested && k < p->step[0]->nested_count; k++)
      push_meetings(L, program, &p->nested[k]);
  }
}

/* → list of {op, type, line, way, count, bytes, seconds, waited, instances}: the program's meetings
 * with other instances, and their cost. Costs of other instances are known up to the meeting before
 * the newest. Data that travels in another meeting's message has no bytes of its own. */
static int meetings(lua_State *L) {
  Program *p = bind_check_program(L, 1);
  lua_newtable(L);
  if (p->replication) push_meetings(L, p, &p->replication->main);
  return 1;
}

static void push_types(lua_State *L, const Node *n) {
  lua_createtable(L, n->in_count, 0);
  for (int i = 0; i < n->in_count; i++) {
    bind_push_type(L, &n->in[i]->type);
    lua_rawseti(L, -2, i + 1);
  }
}

static void list_queues(lua_State *L, const Graph *g) {
  for (int i = 0; i < g->node_count; i++) {
    const Node *n = g->node[i];
    if (!node_is_dequeue(n) && !node_is_enqueue(n)) continue;
    lua_createtable(L, 0, 3);
    lua_pushlightuserdata(L, n->attr[0].object), lua_setfield(L, -2, "identity");
    if (node_is_enqueue(n)) {
      bind_set_integer(L, "form", outlet_form(n));
      push_types(L, n), lua_setfield(L, -2, "types");
    }
    lua_rawseti(L, -2, luaL_len(L, -2) + 1);
  }
  for (int i = 0; i < g->region_count; i++) list_queues(L, g->region[i]);
}

/* The queues that a program reads and fills: {identity} of an infeed, {identity, form, types =
 * list of {dtype, shape}} of an outfeed. */
static int queues(lua_State *L) {
  Program *p = bind_check_program(L, 1);
  lua_newtable(L);
  list_queues(L, p->graph);
  return 1;
}

/* Sets in the table on top: device (-1: all is the host's; nil: no op names one), and other_device
 * if ops name another one. */
static void push_devices(lua_State *L, const Program *p) {
  ProgramDevices d = program_devices(p);
  if (d.is_placed && !d.on_ipu) d.device = DEVICE_HOST;
  if (d.device == DEVICE_ANY) return;
  bind_set_integer(L, "device", d.device);
  bind_set_text(L, "device_line", d.source);
  if (d.other == DEVICE_ANY) return;
  bind_set_integer(L, "other_device", d.other);
  bind_set_text(L, "other_line", d.other_source);
}

static int describe(lua_State *L) {
  Program *p = bind_check_program(L, 1);
  lua_newtable(L);
  bind_set_integer(L, "replicas", p->all_replicas ? p->all_replicas : p->replicas);
  bind_set_integer(L, "local_replicas", p->replicas);
  push_devices(L, p);
  bind_set_integer(L, "shards", program_shards(p));
  bind_set_text(L, "name", p->name);
  bind_set_integer(L, "steps", p->step_count);
  bind_set_integer(L, "executions", p->executions);
  bind_set_integer(L, "memory_bytes", (lua_Integer)p->memory_bytes);
  bind_set_integer(L, "remote_bytes", (lua_Integer)p->remote_bytes);
  bind_set_integer(L, "live_bytes", (lua_Integer)max_live_bytes(p->buffer, p->buffer_count));
  bind_set_integer(L, "nodes", p->graph->node_count);
  bind_set_flag(L, "unshared_state", p->unshared_state);
  bind_set_flag(L, "unshared_weights", p->unshared_weights);
  lua_newtable(L);
  for (int i = 0; i < p->variable_count; i++) {
    lua_pushstring(L, p->variable[i]->name);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "variables");
  return 1;
}

static int result_types(lua_State *L) {
  Program *p = bind_check_program(L, 1);
  lua_createtable(L, p->result_count, 0);
  for (int i = 0; i < p->result_count; i++) {
    bind_push_type(L, &p->result_type[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* In the order of describe's variables. */
static int variable_types(lua_State *L) {
  Program *p = bind_check_program(L, 1);
  lua_createtable(L, p->variable_count, 0);
  for (int i = 0; i < p->variable_count; i++) {
    bind_push_type(L, &p->variable[i]->type);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* When it is loaded: no values of its variables cross. */
static int make_up(lua_State *L) {
  Program *p = bind_check_program(L, 1);
  Engine *g = bind_state(L)->engine;
  Error e = {0};
  synthetic_parameters(&e, &g->synthetic, g->seed, p->variable, p->variable_count);
  bind_check(L, &e);
  return 0;
}

static int push_program_text(lua_State *L, char *s) {
  if (!s) return bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
  lua_pushstring(L, s);
  free(s);
  return 1;
}

static int text(lua_State *L) {
  return push_program_text(L, program_text(bind_check_program(L, 1)));
}
static int dot(lua_State *L) { return push_program_text(L, program_dot(bind_check_program(L, 1))); }

void bind_open_program(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"set_replicas", set_replicas}, {"replicas_asked", replicas_asked}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"run", run},
                                     {"replicate", replicate},
                                     {"meets", has_collectives},
                                     {"meetings", meetings},
                                     {"queues", queues},
                                     {"describe", describe},
                                     {"text", text},
                                     {"dot", dot},
                                     {"nodes", bind_program_nodes},
                                     {"result_types", result_types},
                                     {"variable_types", variable_types},
                                     {"make_up", make_up},
                                     {NULL, NULL}};
  bind_set_functions(L, functions);
  bind_type(L, ROOT_NAME, free_root, NULL);
  bind_type(L, PROGRAM_NAME, free_compiled, methods);
}
