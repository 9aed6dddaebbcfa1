/* Plans of pipelines and their timetables, for Lua. Stages, positions, IPUs and micro-batches count
 * from 0. */
#include <stdlib.h>
#include <string.h>

#include "graph/control.h"
#include "lua/bind.h"
#include "lua/object.h"
#include "ops/io/remote.h"
#include "program/schedule.h"

#define PLAN_NAME "ipulua.PipelinePlan"
enum { MAX_STAGES = 4096, MAX_ENTRIES = 1 << 24 };

Object *bind_opt_plan(lua_State *L, int index) {
  return lua_isnoneornil(L, index) ? NULL : bind_check_object(L, index, PLAN_NAME);
}

static PipelinePlan *check(lua_State *L) {
  return (PipelinePlan *)bind_check_object(L, 1, PLAN_NAME);
}

static int integer_at(lua_State *L, int list, int i, const char *what) {
  lua_geti(L, list, i);
  int good;
  lua_Integer v = lua_tointegerx(L, -1, &good);
  if (!good || v < 0 || v > MAX_ENTRIES)
    bind_fail(L, ERR_VALUE, "pipeline: entry %d of %s must be an integer from 0 to %d", i, what,
              MAX_ENTRIES);
  lua_pop(L, 1);
  return (int)v;
}

/* The list t[name] of non-negative integers as a userdata, which is pushed. */
static int *integers(lua_State *L, const char *name, int *count) {
  lua_getfield(L, 1, name);
  luaL_argcheck(L, lua_istable(L, -1), 1, name);
  int n = (int)luaL_len(L, -1), list = lua_gettop(L);
  if (n < 1 || n > MAX_STAGES)
    bind_fail(L, ERR_VALUE, "pipeline: '%s' must have 1 to %d entries, got %d", name, MAX_STAGES,
              n);
  int *v = lua_newuserdatauv(L, (size_t)n * sizeof *v, 0);
  for (int i = 0; i < n; i++) v[i] = integer_at(L, list, i + 1, name);
  *count = n;
  return v;
}

static bool flag_of(lua_State *L, int table, const char *name) {
  lua_getfield(L, table, name);
  bool on = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return on;
}

static bool flag(lua_State *L, const char *name) { return flag_of(L, 1, name); }

void bind_read_offload(lua_State *L, int index, Offload *o) {
  int table = lua_absindex(L, index);
  *o = (Offload){0};
  if (!lua_istable(L, table)) return;
  o->state = flag_of(L, table, "state");
  o->weights = flag_of(L, table, "weights");
  o->activations = flag_of(L, table, "activations");
  o->accumulators = flag_of(L, table, "accumulators");
  o->shard_state = flag_of(L, table, "shard_state");
  o->shard_weights = flag_of(L, table, "shard_weights");
  lua_getfield(L, table, "least");
  o->min = (size_t)luaL_optinteger(L, -1, 0);
  lua_pop(L, 1);
}

static const Schedule *check_schedule(lua_State *L) {
  lua_getfield(L, 1, "schedule");
  const char *name = luaL_checkstring(L, -1);
  const Schedule *found = schedule_find(name);
  if (!found) bind_fail(L, ERR_VALUE, "pipeline: there is no schedule '%s'", name);
  lua_pop(L, 1);
  return found;
}

/* {{{program, micro}, …} for each IPU} */
static void set_order(lua_State *L, PipelinePlan *p) {
  lua_getfield(L, 1, "order");
  luaL_argcheck(L, lua_istable(L, -1), 1, "order");
  int lists = lua_gettop(L);
  lua_Integer total = 0;
  int *begin = lua_newuserdatauv(L, ((size_t)p->ipus + 1) * sizeof *begin, 0);
  begin[0] = 0;
  for (int d = 0; d < p->ipus; d++) {
    if (lua_geti(L, lists, d + 1) == LUA_TTABLE) total += luaL_len(L, -1);
    if (total > MAX_ENTRIES)
      bind_fail(L, ERR_VALUE, "pipeline: a schedule of more than %d entries", (int)MAX_ENTRIES);
    begin[d + 1] = (int)total;
    lua_pop(L, 1);
  }
  TimetableEntry *order = lua_newuserdatauv(L, ((size_t)total + 1) * sizeof *order, 0);
  for (int d = 0; d < p->ipus; d++) {
    lua_geti(L, lists, d + 1);
    int list = lua_gettop(L);
    for (int i = begin[d]; i < begin[d + 1]; i++) {
      if (lua_geti(L, list, i - begin[d] + 1) != LUA_TTABLE)
        bind_fail(
            L, ERR_TYPE,
            "pipeline: entry %d of IPU %d in the schedule must be a pair {program, micro-batch}",
            i - begin[d] + 1, d);
      order[i] = (TimetableEntry){integer_at(L, -1, 1, "a schedule's entry"),
                                  integer_at(L, -1, 2, "a schedule's entry")};
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  Error e = {0};
  pipeline_plan_set_order(&e, p, order, begin);
  bind_check(L, &e);
}

static const char *const recomputations[] = {"none", "stage", "interleaved", NULL};

/* {schedule, training, position_of = {stage → position}, ipu_of = {stage → IPU}, recomputation =
 * "none" | "stage" | "interleaved", order, offload} */
static int new_plan(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  int stages, ipus;
  const int *position_of = integers(L, "position_of", &stages),
            *ipu_of = integers(L, "ipu_of", &ipus);
  if (stages != ipus)
    return luaL_error(L, "'position_of' has %d entries, 'ipu_of' %d; each needs one for a stage",
                      stages, ipus);
  const Schedule *schedule = check_schedule(L);
  lua_getfield(L, 1, "recomputation");
  int mode = luaL_checkoption(L, -1, "none", recomputations);
  Object **held = bind_push_object(L, PLAN_NAME);
  Error e = {0};
  PipelinePlan *p =
      pipeline_plan_new(&e, schedule, flag(L, "training"), stages, position_of, ipu_of);
  *held = (Object *)p;
  bind_check(L, &e);
  p->recomputation = (Recomputation)mode;
  p->io_overlap = flag(L, "io_overlap");
  lua_getfield(L, 1, "offload");
  bind_read_offload(L, -1, &p->offload);
  lua_pop(L, 1);
  int plan = lua_gettop(L);
  if (schedule->given) set_order(L, p);
  lua_settop(L, plan);
  return 1;
}

static void push_schedule(lua_State *L, const Schedule *s) {
  lua_createtable(L, 0, 5);
  bind_set_text(L, "name", s->name);
  bind_set_flag(L, "both_passes", s->both_passes);
  bind_set_flag(L, "one_at_a_time", s->one_at_a_time);
  bind_set_flag(L, "given", s->given);
  lua_newtable(L);
  for (int i = 0; s->recomputations[i] != RECOMPUTE_NONE; i++) {
    const char *way = recomputations[s->recomputations[i]];
    bind_set_flag(L, way, true);
    lua_pushstring(L, way);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "recomputations");
}

/* → the rows of the schedules: a list of {name, both_passes, one_at_a_time, given, recomputations},
 * which has each under its name, too */
static int schedules(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; schedule_at(i); i++) {
    push_schedule(L, schedule_at(i));
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, schedule_at(i)->name);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* plan → the number that a count of micro-batches must be a multiple of, the smallest count */
static int overlap(lua_State *L) {
  const PipelinePlan *p = check(L);
  lua_pushinteger(L, plan_overlap(p));
  lua_pushinteger(L, plan_min(p));
  return 2;
}

/* The plan with one stage at each position: concurrent stages count as one. */
static PipelinePlan *push_positions(lua_State *L, const PipelinePlan *p) {
  int *v = lua_newuserdatauv(L, (size_t)(2 * p->positions) * sizeof *v, 0);
  for (int s = p->stages - 1; s >= 0; s--)
    v[p->position_of[s]] = p->position_of[s], v[p->positions + p->position_of[s]] = p->ipu_of[s];
  Object **held = bind_push_object(L, PLAN_NAME);
  Error e = {0};
  *held =
      (Object *)pipeline_plan_new(&e, p->schedule, p->training, p->positions, v, v + p->positions);
  bind_check(L, &e);
  return (PipelinePlan *)*held;
}

/* plan → for each position, the copies of its activations that wait for its backward pass (0 in
 * inference) */
static int stashes(lua_State *L) {
  const PipelinePlan *p = check(L);
  if (p->stages != p->positions && !p->order) p = push_positions(L, p);
  lua_createtable(L, p->positions, 0);
  for (int k = 0; k < p->positions; k++) {
    Error e = {0};
    int copies = p->training ? plan_copies(&e, p, k, 2 * p->positions - 1 - k, false) : 1;
    bind_check(L, &e);
    lua_pushinteger(L, copies - 1);
    lua_rawseti(L, -2, k + 1);
  }
  return 1;
}

/* (plan, micro-batches) → how many time steps they take */
static int time_steps(lua_State *L) {
  PipelinePlan *p = check(L);
  lua_Integer micros = luaL_checkinteger(L, 2);
  Error e = {0};
  Timetable *t = micros > 0 && micros <= MAX_ENTRIES ? timetable_new(&e, p, (int)micros) : NULL;
  bind_check(L, &e);
  if (!t) return 0;
  lua_pushinteger(L, t->rows);
  timetable_free(t);
  return 1;
}

/* An entry for each of the program's stages. */
static int push_entry(lua_State *L, const PipelinePlan *p, TimetableEntry x, int at) {
  for (int s = 0; s < p->stages; s++) {
    if (p->position_of[s] != plan_position_of_program(p, x.program)) continue;
    lua_createtable(L, 0, 4);
    bind_set_integer(L, "ipu", p->ipu_of[s]);
    bind_set_integer(L, "stage", s);
    bind_set_flag(L, "backward", x.program >= p->positions);
    bind_set_integer(L, "micro", x.micro);
    lua_rawseti(L, -2, ++at);
  }
  return at;
}

/* (plan, micro-batches) → a list of rows, each a list of {ipu, stage, backward, micro} in the
 * order in which an IPU runs them */
static int timetable(lua_State *L) {
  PipelinePlan *p = check(L);
  lua_Integer micros = luaL_checkinteger(L, 2);
  Error e = {0};
  if (micros > MAX_ENTRIES)
    fail(&e, ERR_VALUE, "a schedule of more than %d micro-batches", (int)MAX_ENTRIES);
  Timetable *t = e.status == OK ? timetable_new(&e, p, micros < 0 ? 0 : (int)micros) : NULL;
  bind_check(L, &e);
  lua_createtable(L, t->rows, 0);
  for (int r = 0; r < t->rows; r++) {
    lua_newtable(L);
    for (int i = t->row_begin[r], at = 0; i < t->row_begin[r + 1]; i++)
      at = push_entry(L, p, t->entry[i], at);
    lua_rawseti(L, -2, r + 1);
  }
  timetable_free(t);
  return 1;
}

/* ---- the content of a program's stages ---- */

typedef struct StageMeasure {
  int forward_ops, backward_ops;
  size_t weight_bytes, stash_bytes;
} StageMeasure;

/* Whose bytes v is. */
static const Value *storage(const Value *v) {
  while (v->node->op->traits & VIEW && v->index == 0) v = v->node->in[0];
  return v;
}

/* seen has a flag for each output of each node and each stage. A value of a forward pass that a
 * stage's backward pass reads is stashed there once. A weight counts in the first stage that reads
 * it. Named inputs are variables. */
static void measure_use(const Node *n, const Value *v, StageMeasure *stage, int stages,
                        bool *seen) {
  v = storage(v);
  const Node *from = v->node;
  bool weight = node_is_input(from) && from->name && v->type.rank > 0;
  bool stashed =
      !node_is_input(from) && n->place.backward && from->place.stage >= 0 && !from->place.backward;
  if (node_is_constant(from) || (!weight && !stashed)) return;
  int owner = n->place.stage, output = v->index < MAX_OUTPUTS ? v->index : 0;
  bool *mark = &seen[(from->id * MAX_OUTPUTS + output) * stages + (weight ? 0 : owner)];
  if (*mark) return;
  *mark = true;
  if (weight) stage[owner].weight_bytes += type_bytes(&v->type);
  else stage[owner].stash_bytes += type_bytes(&v->type);
}

static bool measure(const Graph *g, StageMeasure *stage, int stages) {
  bool *seen = calloc((size_t)g->next_id + 1, (size_t)(MAX_OUTPUTS * stages) * sizeof *seen);
  for (int i = 0; seen && i < g->node_count; i++) {
    const Node *n = g->node[i];
    if (n->place.stage < 0 || n->place.stage >= stages || !node_is_made(n)) continue;
    if (!(n->op->traits & VIEW) && !node_is_transfer(n))
      ++*(n->place.backward ? &stage[n->place.stage].backward_ops
                            : &stage[n->place.stage].forward_ops);
    for (int k = 0; k < n->in_count; k++) measure_use(n, n->in[k], stage, stages, seen);
  }
  bool good = seen != NULL;
  free(seen);
  return good;
}

/* (program) → for each stage {forward_ops, backward_ops, weight_bytes, stash_bytes} of one
 * micro-batch; nothing without a pipeline */
static int stages_of(lua_State *L) {
  const Program *p = bind_check_program(L, 1);
  const Node *loop = graph_pipeline(p->graph);
  if (!loop) return 0;
  const PipelinePlan *plan = (const PipelinePlan *)control_plan(loop);
  int count = plan->stages;
  StageMeasure *stage = lua_newuserdatauv(L, (size_t)count * sizeof *stage, 0);
  memset(stage, 0, (size_t)count * sizeof *stage);
  if (!measure(control_body(loop), stage, count))
    return bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
  lua_createtable(L, count, 0);
  for (int s = 0; s < count; s++) {
    lua_createtable(L, 0, 4);
    bind_set_integer(L, "forward_ops", stage[s].forward_ops);
    bind_set_integer(L, "backward_ops", stage[s].backward_ops);
    bind_set_integer(L, "weight_bytes", (lua_Integer)stage[s].weight_bytes);
    bind_set_integer(L, "stash_bytes", (lua_Integer)stage[s].stash_bytes);
    lua_rawseti(L, -2, s + 1);
  }
  return 1;
}

void bind_open_pipeline(lua_State *L) {
  static const luaL_Reg functions[] = {{"pipeline_plan", new_plan},
                                       {"schedules", schedules},
                                       {"pipeline_stages", stages_of},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"overlap", overlap},
                                     {"stashes", stashes},
                                     {"timetable", timetable},
                                     {"time_steps", time_steps},
                                     {NULL, NULL}};
  bind_set_functions(L, functions);
  bind_object_type(L, PLAN_NAME, methods);
}
