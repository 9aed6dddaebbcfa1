/* Prices of programs: core.price(program, options) and its results. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "lua/bind.h"
#include "machine/band.h"
#include "machine/io_tiles.h"
#include "machine/memory.h"
#include "machine/price.h"
#include "machine/profile.h"
#include "machine/summary.h"

#define PRICE_NAME "ipulua.Price"

static Price *check_price(lua_State *L) {
  Price **p = luaL_checkudata(L, 1, PRICE_NAME);
  if (!*p) luaL_error(L, "this price has been freed");
  return *p;
}

static int free_price(lua_State *L) {
  Price **p = lua_touserdata(L, 1);
  price_free(*p);
  *p = NULL;
  return 0;
}

/* ---- options ---- */

static bool flag(lua_State *L, int index, const char *name, bool fallback) {
  bool value = lua_getfield(L, index, name) == LUA_TNIL ? fallback : lua_toboolean(L, -1);
  lua_pop(L, 1);
  return value;
}

static lua_Integer integer(lua_State *L, int index, const char *name, lua_Integer fallback) {
  lua_Integer value =
      lua_getfield(L, index, name) == LUA_TNIL ? fallback : luaL_checkinteger(L, -1);
  lua_pop(L, 1);
  return value;
}

static double number(lua_State *L, int index, const char *name, double fallback) {
  double value = lua_getfield(L, index, name) == LUA_TNIL ? fallback : luaL_checknumber(L, -1);
  lua_pop(L, 1);
  return value;
}

/* A chip's name, or JSON. */
static Status read_target(lua_State *L, int index, Error *e, Target *t) {
  size_t length;
  lua_getfield(L, index, "target");
  const char *text = luaL_optlstring(L, -1, TARGET_DEFAULT, &length);
  const Target *known = target_find(text);
  Status s = OK;
  if (known) *t = *known;
  else if (text[strspn(text, " \t\r\n")] == '{') s = target_parse(e, text, length, t);
  else {
    char names[TARGET_NAMES];
    s = fail(e, ERR_VALUE, "there is no target '%.60s'; known ones are %s", text,
             target_names(names, true));
  }
  lua_pop(L, 1);
  if (s == OK)
    s = target_restrict(e, t, integer(L, index, "tiles_per_ipu", 0),
                        integer(L, index, "io_tiles", 0));
  if (s != OK) return s;
  t->code = t->code && flag(L, index, "code", true);
  t->matmul_proportion = number(L, index, "matmul_proportion", 0);
  t->conv_proportion = number(L, index, "conv_proportion", 0);
  t->cholesky_block = integer(L, index, "cholesky_block", 0);
  t->solve_block = integer(L, index, "solve_block", 0);
  return s;
}

/* The positions of the shards, after the configuration's selection order. */
static void read_order(lua_State *L, int index, Pod *p) {
  if (lua_getfield(L, index, "order") == LUA_TTABLE) {
    p->order_count = (int)luaL_len(L, -1);
    if (p->order_count > POD_IPUS_MAX)
      bind_fail(L, ERR_VALUE, "the order must name at most %d IPUs, got %d", POD_IPUS_MAX,
                p->order_count);
    for (int i = 0; i < p->order_count; i++) {
      lua_rawgeti(L, -1, i + 1);
      p->order[i] = (uint16_t)luaL_checkinteger(L, -1);
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
}

/* Values of the program's integer arguments; pushes the object that keeps them. */
static const int64_t *read_arguments(lua_State *L, int index, const Program *p) {
  int64_t *known = lua_newuserdatauv(L, (size_t)(p->argument_count + 1) * sizeof *known, 0);
  for (int i = 0; i < p->argument_count; i++) known[i] = INT64_MIN;
  if (lua_getfield(L, index, "arguments") == LUA_TTABLE) {
    for (int i = 0; i < p->argument_count; i++) {
      lua_rawgeti(L, -1, i + 1);
      LuaTensor *t = bind_test_tensor(L, -1);
      if (t && t->tensor && type_count(&t->tensor->type) == 1 &&
          !dtype_is_float(t->tensor->type.dtype))
        known[i] = (int64_t)tensor_get(t->tensor, 0);
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
  return known;
}

static Status read_machine(lua_State *L, int index, Error *e, Machine *m) {
  Target t;
  lua_getfield(L, index, "topology");
  const char *topology = lua_tostring(L, -1); /* stays: the table holds it */
  lua_pop(L, 1);
  Status s = read_target(L, index, e, &t);
  if (s == OK) s = pod_make(e, &t, (int)integer(L, index, "ipus", 1), topology, &m->pod);
  if (s != OK) return s;
  read_order(L, index, &m->pod);
  m->pod.instances = (int)integer(L, index, "instances", 1);
  if (m->pod.instances < 1 || m->pod.ipus % m->pod.instances)
    return fail(e, ERR_VALUE, "%d IPUs can't be shared among %d instances", m->pod.ipus,
                m->pod.instances);
  m->pod.model_host = flag(L, index, "model_host", false);
  m->recompute = flag(L, index, "recompute", false);
  lua_getfield(L, index, "offload");
  bind_read_offload(L, -1, &m->offload);
  lua_pop(L, 1);
  static const char *const merged[] = {[MERGE_SUMS] = "merge_sums",
                                       [MERGE_SCATTERS] = "merge_reduce_scatters",
                                       [MERGE_GATHERS] = "merge_all_gathers",
                                       [MERGE_COPIES] = "merge_copies"};
  for (int k = 0; k < MERGE_COUNT; k++) m->merge_bytes[k] = number(L, index, merged[k], 0);
  m->dependencies = flag(L, index, "dependencies", false);
  m->no_outlining = flag(L, index, "no_outlining", false);
  m->half_products = flag(L, index, "half_products", false);
  m->half_convolutions = flag(L, index, "half_convolutions", false);
  m->synthetic_infeed = flag(L, index, "synthetic_infeed", false);
  m->synthetic_outfeed = flag(L, index, "synthetic_outfeed", false);
  m->synthetic_variables = flag(L, index, "synthetic_variables", false);
  m->no_prefetch = flag(L, index, "no_prefetch", false);
  m->split_infeed = flag(L, index, "split_infeed", false);
  m->io_tiles = (int)integer(L, index, "io_tiles", 0);
  m->io_proportion = number(L, index, "io_proportion", 0);
  m->calls = number(L, index, "calls", 0);
  return OK;
}

/* (program, options) */
static int price(lua_State *L) {
  Program *p = bind_check_program(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  Machine m = {0};
  Error e = {0};
  Status s = read_machine(L, 2, &e, &m);
  m.argument = read_arguments(L, 2, p);
  Price **out = lua_newuserdatauv(L, sizeof *out, 2);
  *out = NULL;
  luaL_setmetatable(L, PRICE_NAME);
  lua_pushvalue(L, 1); /* priced steps name the program's nodes */
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, -2);
  lua_setiuservalue(L, -2, 2);
  if (s == OK) *out = price_program(&e, p, &m);
  bind_check(L, &e);
  return 1;
}

/* ---- telling ---- */

static void set_count(lua_State *L, const char *name, double value) {
  bind_set_integer(L, name, (int64_t)(value + 0.5));
}

static void push_cycles(lua_State *L, const double *cycles, double total) {
  lua_createtable(L, 0, PHASE_COUNT + 1);
  for (int k = 0; k < PHASE_COUNT; k++)
    bind_set_number(L, cost_phase_name((CostPhase)k), cycles[k]);
  bind_set_number(L, "total", total);
}

/* Bytes of the IPUs of one replica, from first to last. */
static void push_memory(lua_State *L, const Price *p, int first, int last) {
  double total = 0, gaps = 0, always = 0, streaming = 0;
  lua_createtable(L, 0, BYTES_COUNT + 4);
  for (int k = 0; k < BYTES_COUNT; k++) {
    double bytes = 0;
    for (int i = first; i <= last; i++) bytes += p->ipu[i].bytes[k];
    bytes = floor(bytes + 0.5);
    set_count(L, price_category_name((PriceCategory)k), bytes);
    total += bytes;
  }
  for (int i = first; i <= last; i++) {
    gaps += p->ipu[i].gaps;
    always += p->ipu[i].always;
    streaming += p->ipu[i].streaming;
  }
  set_count(L, "total", total);
  set_count(L, "gaps", gaps);
  set_count(L, "always_live", always);
  set_count(L, "streaming", streaming);
}

static void set_io_tiles(lua_State *L, const Price *p, double bytes) {
  if (!price_has_io(p)) return;
  set_count(L, "io_tiles_bytes", bytes);
  set_count(L, "io_tiles_limit", price_io_limit(p));
}

static void push_ipus(lua_State *L, const Price *p) {
  lua_createtable(L, p->shards, 0);
  for (int i = 0; i < p->shards; i++) {
    const IpuPrice *x = &p->ipu[i];
    lua_createtable(L, 0, 10);
    push_cycles(L, x->cycles, p->total), lua_setfield(L, -2, "cycles");
    push_memory(L, p, i, i), lua_setfield(L, -2, "memory");
    set_count(L, "max_tile_bytes", x->max);
    set_count(L, "fullest_tile_bytes", price_fullest(x));
    set_count(L, "min_tile_bytes", x->min);
    set_count(L, "mean_tile_bytes", x->mean);
    set_count(L, "tiles_over", x->tiles_over);
    set_io_tiles(L, p, x->io_bytes);
    bind_set_flag(L, "fits", x->fits);
    lua_rawseti(L, -2, i + 1);
  }
}

static void push_stages(lua_State *L, const Price *p) {
  lua_createtable(L, p->stage_count, 0);
  for (int s = 0; s < p->stage_count; s++) {
    const StagePrice *x = &p->stage[s];
    lua_createtable(L, 0, 9);
    set_count(L, "stage", s);
    set_count(L, "ipu", x->ipu);
    bind_set_number(L, "forward_cycles", x->forward);
    bind_set_number(L, "backward_cycles", x->backward);
    set_count(L, "stash_depth", x->stash_depth);
    set_count(L, "stash_bytes", x->stash_bytes);
    set_count(L, "bytes", price_bytes(&p->ipu[x->ipu]));
    set_count(L, "max_tile_bytes", p->ipu[x->ipu].max);
    set_count(L, "fullest_tile_bytes", price_fullest(&p->ipu[x->ipu]));
    lua_rawseti(L, -2, s + 1);
  }
}

static int summary(lua_State *L) {
  const Price *p = check_price(L);
  lua_createtable(L, 0, 24);
  bind_set_text(L, "name", p->name);
  bind_set_text(L, "target", p->machine.pod.target.name);
  set_count(L, "ipus", p->machine.pod.ipus);
  set_count(L, "replicas", p->replicas);
  set_count(L, "instances", pod_hosts(&p->machine.pod));
  set_count(L, "local_replicas", p->replicas / pod_hosts(&p->machine.pod));
  set_count(L, "shards", p->shards);
  bind_set_flag(L, "fits", p->fits);
  bind_set_number(L, "seconds", p->seconds);
  push_cycles(L, p->cycles, p->total), lua_setfield(L, -2, "cycles");
  push_memory(L, p, 0, p->shards - 1), lua_setfield(L, -2, "memory");
  set_count(L, "max_tile_bytes", p->ipu[p->worst].max);
  set_count(L, "fullest_tile_bytes", price_fullest(&p->ipu[p->worst]));
  set_count(L, "tile_bytes", price_tile_limit(p));
  set_count(L, "tiles", (double)p->machine.pod.target.tiles);
  double max_io = 0;
  for (int i = 0; i < p->shards; i++) max_io = fmax(max_io, p->ipu[i].io_bytes);
  set_io_tiles(L, p, max_io);
  push_stages(L, p), lua_setfield(L, -2, "stages");
  push_ipus(L, p), lua_setfield(L, -2, "ipu");
  Band band = price_band(p);
  lua_createtable(L, 0, 2);
  bind_set_number(L, "cycles", band.cycles), bind_set_number(L, "memory", band.memory);
  lua_setfield(L, -2, "band");
  bind_set_number(L, "elements", p->elements * p->replicas);
  set_count(L, "batch", (double)p->batch);
  set_count(L, "ops", p->op_count);
  set_count(L, "ops_priced", p->op_count - p->unpriced);
  bind_set_number(L, "flops", p->flops * p->replicas);
  bind_set_number(L, "exchanged_bytes", p->moved_bytes * (double)p->machine.pod.target.tiles);
  bind_set_number(L, "streamed_bytes", p->streamed_bytes * p->replicas);
  if (p->stage_count) {
    set_count(L, "time_steps", p->time_steps);
    double busy = 0;
    for (int i = 0; i < p->shards; i++)
      busy += p->ipu[i].cycles[PHASE_COMPUTE] + p->ipu[i].cycles[PHASE_EXCHANGE];
    bind_set_number(L, "utilisation", p->total > 0 ? busy / p->shards / p->total : 0);
  }
  bind_set_text(L, "why", p->why);
  return 1;
}

static int fits(lua_State *L) {
  lua_pushboolean(L, check_price(L)->fits);
  return 1;
}

/* t[name] += value, for the table on top of the stack. */
static void add_to(lua_State *L, const char *name, double value) {
  lua_getfield(L, -1, name);
  double sum = lua_tonumber(L, -1) + value;
  lua_pop(L, 1);
  bind_set_number(L, name, sum);
}

/* Cycles of a run by node name, and bytes by name of node or variable: two tables. */
static int names(lua_State *L) {
  const Price *p = check_price(L);
  lua_newtable(L);
  for (int i = 0; i < p->step_count; i++) {
    const PricedStep *r = &p->step[i];
    if (r->cost && r->node && r->node->name) add_to(L, r->node->name, r->times * priced_cycles(r));
  }
  lua_newtable(L);
  for (int i = 0; i < p->allocation_count; i++)
    add_to(L, allocation_name(&p->allocation[i]), p->allocation[i].bytes);
  return 2;
}

enum { MAX_PRETENDED = 1 << 20, MAX_COMPONENTS = 256 };

/* An outfeed gets zeros for each element that a run would have put there. */
static Status pretend_put(const Node *n, double times, int replicas, char *zeros, Error *e) {
  const Type *types[MAX_COMPONENTS];
  const void **data = calloc((size_t)(replicas * n->in_count) + 1, sizeof *data);
  if (!data) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int k = 0; k < n->in_count; k++) types[k] = &n->in[k]->type;
  for (int k = 0; k < replicas * n->in_count; k++) data[k] = zeros;
  for (double i = 0; i < times && i < MAX_PRETENDED && e->status == OK; i++)
    outlet_put(n, replicas, types, data, e);
  free(data);
  return e->status;
}

static int pretend(lua_State *L) {
  const Price *p = check_price(L);
  for (int i = 0; i < p->step_count; i++) {
    const PricedStep *r = &p->step[i];
    if (r->kind != PRICED_HOST_OUT || !r->node || !node_is_enqueue(r->node) ||
        r->node->in_count > MAX_COMPONENTS)
      continue;
    size_t max = 1;
    for (int k = 0; k < r->node->in_count; k++) {
      size_t bytes = type_bytes(&r->node->in[k]->type);
      if (bytes > max) max = bytes;
    }
    char *zeros = lua_newuserdatauv(L, max, 0);
    memset(zeros, 0, max);
    Error e = {0};
    pretend_put(r->node, r->times, int_max(p->program->replicas, 1), zeros, &e);
    lua_pop(L, 1);
    bind_check(L, &e);
  }
  return 0;
}

/* Text of one of profile.h's writers. */
static int push_text(lua_State *L, char *text) {
  if (!text) return bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory while writing a profile");
  lua_pushstring(L, text);
  free(text);
  return 1;
}

static int json(lua_State *L) {
  return push_text(L, profile_json(check_price(L), luaL_optstring(L, 2, "{}")));
}
static int trace(lua_State *L) { return push_text(L, profile_trace(check_price(L))); }
static int text(lua_State *L) { return push_text(L, profile_text(check_price(L))); }

/* (price, {{words, price}, …}) */
static int complaint(lua_State *L) {
  enum { MAX = 16 };
  const Price *p = check_price(L);
  Remedy list[MAX];
  int count = lua_istable(L, 2) ? (int)luaL_len(L, 2) : 0;
  if (count > MAX) count = MAX;
  for (int i = 0; i < count; i++) { /* the table keeps the strings that are read from it */
    lua_rawgeti(L, 2, i + 1);
    lua_rawgeti(L, -1, 1), lua_rawgeti(L, -2, 2);
    list[i].words = luaL_checkstring(L, -2);
    Price **changed = luaL_checkudata(L, -1, PRICE_NAME);
    list[i].price = *changed ? *changed : p;
    lua_pop(L, 3);
  }
  return push_text(L, profile_complaint(p, list, count));
}

/* (options with a target) → {tiles, streaming_bytes} of the chip */
static int target_facts(lua_State *L) {
  Error e = {0};
  Target t;
  read_target(L, 1, &e, &t);
  bind_check(L, &e);
  lua_createtable(L, 0, 2);
  set_count(L, "tiles", (double)t.tiles);
  set_count(L, "streaming_bytes", (double)t.streaming_bytes);
  return 1;
}

/* → the chips, in order of age: {name, architecture, tiles, tile_bytes} */
static int chips(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; target_at(i); i++) {
    const Target *t = target_at(i);
    lua_createtable(L, 0, 4);
    bind_set_text(L, "name", t->name);
    bind_set_text(L, "architecture", t->architecture);
    set_count(L, "tiles", (double)t->tiles);
    set_count(L, "tile_bytes", (double)t->tile_bytes);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* (bool) → the former value */
static int set_estimating(lua_State *L) {
  State *s = bind_state(L);
  bool former = s->estimating;
  s->estimating = lua_toboolean(L, 1);
  lua_pushboolean(L, former);
  return 1;
}

static int is_estimating(lua_State *L) {
  lua_pushboolean(L, bind_state(L)->estimating);
  return 1;
}

void bind_open_price(lua_State *L) {
  static const luaL_Reg functions[] = {{"price", price},
                                       {"target_facts", target_facts},
                                       {"chips", chips},
                                       {"set_estimating", set_estimating},
                                       {"is_estimating", is_estimating},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"summary", summary}, {"fits", fits},           {"names", names},
      {"pretend", pretend}, {"json", json},           {"trace", trace},
      {"text", text},       {"complaint", complaint}, {NULL, NULL}};
  bind_set_functions(L, functions);
  bind_type(L, PRICE_NAME, free_price, methods);
}
