#include "lua/tape.h"
#include "lua/context.h"
#include "lua/host_results.h"
#include "lua/trace.h"

#include <stdlib.h>
#include <string.h>

#include "graph/control.h"
#include "transform/clone.h"

#define TAPE_NAME "ipulua.Tape"
enum { TOLD_BYTES = 1 << 16, MANY_TAPES = 16 };

static const char TAPES_KEY; /* in the registry: userdata by tape, weakly */

/* ---- recording tapes ---- */

/* A callback has tapes of its own: outer tapes don't record it. The tapes of a coroutine that has
 * yielded pause. */
static Tape *from(Tape *t) {
  while (t && (t->depth < t->state->unrecorded || !context_is_active(t->state, t->thread)))
    t = t->next;
  return t;
}
static Tape *tape_first(const State *s) { return from(s->tapes); }
bool tape_is_recording(const State *s) { return tape_first(s) != NULL; }
static Tape *following(const Tape *t) { return from(t->next); }

/* ---- a tape's memory ---- */

static void stop(Tape *t) {
  if (!t->records) return;
  t->records = false;
  for (Tape **p = &t->state->tapes; *p; p = &(*p)->next) {
    if (*p != t) continue;
    *p = t->next;
    break;
  }
}

void tape_clear(Tape *t) {
  for (int i = 0; i < t->count; i++) tensor_release(t->note[i].tensor);
  for (int i = 0; i < t->reading_count; i++) variable_release(t->reading[i].variable);
  free(t->note);
  free(t->reading);
  free(t->together);
  tensor_map_clear(&t->known);
  graph_free(t->graph);
  Tape kept = {.state = t->state,
               .records = t->records,
               .next = t->next,
               .depth = t->depth,
               .thread = t->thread};
  *t = kept;
}

static bool begin(Tape *t) {
  if (!t->graph) t->graph = graph_new();
  return t->graph != NULL;
}

/* A tape's record is larger than its userdata, so the garbage collector gets its size. */
static void tell_collector(lua_State *L, Tape *t) {
  size_t bytes = t->graph ? arena_bytes(t->graph->arena) + (size_t)t->count * sizeof *t->note : 0;
  if (bytes < t->told + TOLD_BYTES) return;
  bind_tell_collector(L, bytes - t->told);
  t->told = bytes;
}

bool tape_note(Tape *t, const Value *v, Tensor *tensor) {
  if (!array_reserve(&t->note, &t->capacity, t->count + 1, sizeof *t->note)) return false;
  t->note[t->count++] = (Note){v, tensor_retain(tensor)};
  return true;
}

Tensor *tape_noted(const Tape *t, const Value *v) {
  for (int low = 0, high = t->count; low < high;) {
    int middle = low + (high - low) / 2;
    const Value *m = t->note[middle].value;
    if (m == v) return t->note[middle].tensor;
    if (m->node->id < v->node->id || (m->node->id == v->node->id && m->index < v->index))
      low = middle + 1;
    else high = middle;
  }
  return NULL;
}

/* ---- the values of tensors ---- */

static Value *out_of_memory(Tape *t) {
  fail(&t->graph->error, ERR_OUT_OF_MEMORY, "out of memory on a GradientTape");
  return NULL;
}

/* NULL: the graph has an error. */
static Value *give_value(Tape *t, Tensor *tensor, Value *v) {
  return tape_note(t, v, tensor) && tensor_map_put(&t->known, tensor, v, NULL) ? v
                                                                               : out_of_memory(t);
}

/* The value of a tensor: an input of the tape at its first use. */
static Value *value_of_tensor(Tape *t, Tensor *tensor) {
  const TensorSlot *s = tensor_map_find(&t->known, tensor);
  if (s) return s->value;
  Value *v = graph_input(t->graph, &tensor->type, NULL);
  return v ? give_value(t, tensor, v) : NULL;
}

/* While programs are only priced, a variable without a value reads as zeros. */
static Tensor *read_variable(const Tape *t, const Variable *v) {
  Error e = {0};
  if (!v->value) return tensor_new(&e, &v->type);
  return v->writers ? tensor_from(&e, &v->type, observed_data(t->state->engine->seen, v))
                    : tensor_retain(v->value);
}

static bool note_reading(Tape *t, Variable *v, Value *value) {
  Tensor *held = read_variable(t, v);
  bool noted = held && tape_note(t, value, held) &&
               (!v->value || tensor_map_put(&t->known, v->value, value, v));
  tensor_release(held);
  if (!noted ||
      !array_reserve(&t->reading, &t->reading_capacity, t->reading_count + 1, sizeof *t->reading))
    return false;
  t->reading[t->reading_count++] = (TapeReading){variable_retain(v), value};
  return true;
}

static Value *last_reading(const Tape *t, const Variable *v) {
  for (int i = t->reading_count - 1; i >= 0; i--)
    if (t->reading[i].variable == v) return t->reading[i].value;
  return NULL;
}

/* The input that v was before; NULL: it was not read, or it may have another value now. */
static Value *known_variable(const Tape *t, const Variable *v) {
  if (!v->value) return last_reading(t, v);
  if (v->writers) return NULL; /* the program writes another value each time */
  const TensorSlot *s = tensor_map_find(&t->known, v->value);
  return s && s->variable == v ? s->value : NULL;
}

/* A variable is one input however often it is read, until it is assigned: then its tensor is
 * another one. */
static Value *value_of_variable(Tape *t, Variable *v) {
  Value *known = known_variable(t, v);
  if (known) return known;
  Value *value = graph_input(t->graph, &v->type, v->name);
  if (!value) return NULL;
  return note_reading(t, v, value) ? value : out_of_memory(t);
}

Value *tape_value_at(lua_State *L, Tape *t, int index) {
  LuaTensor *u = bind_test_tensor(L, index);
  Variable *v = u ? NULL : bind_test_variable(L, index);
  if (v) {
    bind_settle(L, v);
    return v->value ? value_of_variable(t, v) : last_reading(t, v);
  }
  if (u && !u->tensor) bind_concrete(L, index, "GradientTape.gradient"); /* raises */
  return u ? value_of_tensor(t, u->tensor) : NULL;
}

/* ---- recording ---- */

static void take_error(Tape *t, Error *e) {
  if (t->graph->error.status == OK) return;
  *e = t->graph->error;
  error_clear(&t->graph->error);
}

static void record(Tape *t, const OpDef *op, Value *const *in, int count, const Attr *attrs,
                   Tensor *const *out, int out_count) {
  Graph *g = t->graph;
  Node *n = graph_node(g, op, in, count, attrs);
  for (int i = 0; n && i < out_count; i++)
    if (!give_value(t, out[i], &n->out[i])) return;
}

void tape_record_on(lua_State *L, Tape *t, const OpDef *op, Tensor *const *in, int count,
                    const Attr *attrs, Tensor *const *out, int out_count) {
  if (!begin(t)) bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
  Value **value = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *value, 0);
  bind_mark_line(L, t->graph);
  for (int i = 0; i < count; i++) value[i] = value_of_tensor(t, in[i]);
  lua_pop(L, 1);
  record(t, op, value, count, attrs, out, out_count);
  bind_check_graph(L, t->graph);
}

static bool begin_at(Tape *t, const char *where, Error *e) {
  bool good = begin(t);
  if (good) bind_mark_at(t->state, t->graph, where);
  else fail(e, ERR_OUT_OF_MEMORY, "out of memory on a GradientTape");
  return good;
}

void tape_record(lua_State *L, const OpDef *op, const int *index, Tensor *const *in, int count,
                 const Attr *attrs, int first, int out_count) {
  Value **value = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *value, 0);
  Tensor **out = lua_newuserdatauv(L, (size_t)(out_count + 1) * sizeof *out, 0);
  Variable **variable = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *variable, 0);
  for (int i = 0; i < out_count; i++) out[i] = bind_test_tensor(L, first + i)->tensor;
  for (int i = 0; i < count; i++) variable[i] = bind_test_variable(L, index[i]);
  State *s = bind_state(L);
  const char *where = bind_where(L);
  Error e = {0};
  for (Tape *t = tape_first(s); t && e.status == OK;
       t = following(t)) { /* without Lua: its collector may end a tape */
    if (!begin_at(t, where, &e)) break;
    for (int i = 0; i < count; i++)
      value[i] = variable[i] ? value_of_variable(t, variable[i]) : value_of_tensor(t, in[i]);
    record(t, op, value, count, attrs, out, out_count);
    take_error(t, &e);
  }
  bind_check(L, &e);
  lua_pop(L, 3);
  if (tape_first(bind_state(L))) tell_collector(L, tape_first(bind_state(L)));
}

void tape_record_reading(lua_State *L, Variable *v) {
  Tensor *tensor = bind_test_tensor(L, -1)->tensor;
  const OpDef *identity = bind_op(L, "identity");
  State *s = bind_state(L);
  const char *where = bind_where(L);
  Error e = {0};
  for (Tape *t = tape_first(s); t && e.status == OK; t = following(t)) {
    if (!begin_at(t, where, &e)) break;
    Value *value = value_of_variable(t, v);
    record(t, identity, &value, 1, NULL, &tensor, 1);
    take_error(t, &e);
  }
  bind_check(L, &e);
}

void tape_record_node(State *s, const Tape *but, const Node *n, Tensor *const *in,
                      Tensor *const *out, Error *e) {
  for (Tape *t = tape_first(s); t && e->status == OK; t = following(t)) {
    if (t == but) continue;
    Value **value = begin(t) ? calloc((size_t)n->in_count + 1, sizeof *value) : NULL;
    if (!value) {
      fail(e, ERR_OUT_OF_MEMORY, "out of memory on a GradientTape");
      return;
    }
    for (int i = 0; i < n->in_count; i++) value[i] = value_of_tensor(t, in[i]);
    Node *made = clone_node(t->graph, n, value);
    for (int i = 0; made && i < n->out_count; i++) give_value(t, out[i], &made->out[i]);
    free(value);
    *e = t->graph->error;
    error_clear(&t->graph->error);
  }
}

/* ---- programs ---- */

struct TapeCall {
  int tapes,
      inputs;  /* Lua code may begin and end tapes meanwhile: these are the tapes that recorded when
                * it began */
  Tape **tape; /* a list on the stack keeps them alive */
  Value **in;  /* [tapes][inputs] */
};

static int count_tapes(const State *s) {
  int n = 0;
  for (const Tape *t = s->tapes; t; t = t->next) n++;
  return n;
}

/* The inputs of a call: arguments, variables, and the tensors that the program holds. */
static void read_inputs(lua_State *L, const Program *p, int arguments, Tape *t, Value **in) {
  if (!begin(t)) bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < p->argument_count; i++) {
    lua_rawgeti(L, arguments, i + 1);
    *in++ = tape_value_at(L, t, lua_gettop(L));
    lua_pop(L, 1);
  }
  for (int i = 0; i < p->variable_count; i++)
    *in++ = p->variable[i]->value ? value_of_variable(t, p->variable[i]) : NULL;
  for (int i = 0; i < p->lifted.count; i++) *in++ = value_of_tensor(t, p->lifted.tensor[i]);
}

TapeCall *tape_begin_call(lua_State *L, Program *p, int arguments) {
  State *s = bind_state(L);
  int tapes = 0, at = 0;
  for (const Tape *t = tape_first(s); t; t = following(t)) tapes++;
  if (!tapes) return NULL;
  Error e = {0};
  program_lift(&e, p);
  bind_check(L, &e);
  int inputs = p->argument_count + p->variable_count + p->lifted.count;
  TapeCall *c = lua_newuserdatauv(
      L, sizeof *c + (size_t)tapes * ((size_t)inputs * sizeof *c->in + sizeof *c->tape), 1);
  *c = (TapeCall){.tapes = tapes, .inputs = inputs, .tape = (Tape **)(void *)(c + 1)};
  c->in = (Value **)(void *)(c->tape + tapes);
  lua_createtable(L, tapes, 0);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &TAPES_KEY);
  for (Tape *t = tape_first(s); t; t = following(t)) {
    lua_rawgetp(L, -1, t);
    if (lua_isnil(L, -1)) { /* no script refers to it any more, though the collector hasn't called
                             * yet */
      lua_pop(L, 1);
      continue;
    }
    lua_rawseti(L, -3, at + 1);
    c->tape[at] = t;
    read_inputs(L, p, arguments, t, c->in + (size_t)at++ * (size_t)inputs);
  }
  c->tapes = at;
  lua_pop(L, 1);
  lua_setiuservalue(L, -2, 1);
  return c;
}

static bool computes_together(const Node *n, void *context) {
  (void)context;
  return n->op->eval_collective && !node_is_host(n);
}

static void note_replicas(const Program *p, Tape *t, const Node *n) {
  if (p->replicas < 2 && p->all_replicas < 2) return;
  if (!graph_find(p->traced, computes_together, NULL)) return;
  if (array_reserve(&t->together, &t->together_capacity, t->together_count + 1,
                    sizeof *t->together))
    t->together[t->together_count++] = n;
  else fail(&t->graph->error, ERR_OUT_OF_MEMORY, "out of memory on a GradientTape");
}

static void note_call(lua_State *L, const Program *p, Tape *t, Value **in, int inputs, int results,
                      const HostResults *answers) {
  Graph *g = t->graph, *body = g ? graph_copy(p->traced) : NULL;
  if (!g) return; /* cleared meanwhile */
  int64_t *written = arena_alloc(g->arena, (size_t)(p->variable_count + 1) * sizeof *written);
  int written_count = 0;
  if (!body || !written) {
    graph_free(body);
    bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
  }
  for (int i = 0; i < p->variable_count; i++)
    if (p->writes[i]) written[written_count++] = p->argument_count + i;
  host_results_put_in(answers, body, &g->error);
  if (g->error.status != OK) graph_free(body), bind_check_graph(L, g);
  bind_mark_line(L, g);
  ControlParts parts = {.body = body,
                        .explicit_count = p->result_count,
                        .written = written,
                        .written_count = written_count};
  Node *n = control_node(g, &control_call, in, inputs, &parts);
  for (int i = 0; n && i < p->result_count; i++) {
    lua_rawgeti(L, results, i + 1);
    give_value(t, bind_test_tensor(L, -1)->tensor, &n->out[i]);
    lua_pop(L, 1);
  }
  for (int i = 0; n && i < written_count; i++) {
    Variable *v = p->variable[written[i] - p->argument_count];
    if (!note_reading(t, v, &n->out[p->result_count + i]))
      fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory on a GradientTape");
  }
  if (n) note_replicas(p, t, n);
  bind_check_graph(L, g);
  tell_collector(L, t);
}

void tape_end_call(lua_State *L, Program *p, TapeCall *call, const HostResults *answers) {
  int results = lua_gettop(L);
  for (int i = 0; i < call->tapes; i++)
    note_call(L, p, call->tape[i], call->in + (size_t)i * (size_t)call->inputs, call->inputs,
              results, answers);
}

/* ---- tapes ---- */

Tape *tape_check(lua_State *L, int index) { return luaL_checkudata(L, index, TAPE_NAME); }

static int free_tape(lua_State *L) {
  Tape *t = tape_check(L, 1);
  stop(t);
  tape_clear(t);
  return 0;
}

/* Tapes that no script refers to record until they are collected. The collector is called before
 * there are many. */
static void collect_forgotten(lua_State *L, State *s) {
  int open = count_tapes(s);
  if (open < s->many_tapes) return;
  lua_gc(L, LUA_GCCOLLECT);
  open = count_tapes(s);
  s->many_tapes = open > MANY_TAPES / 2 ? 2 * open : MANY_TAPES;
}

bool tape_any_holds(lua_State *L, const Tensor *tensor) {
  bool held = false;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &TAPES_KEY);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    const Tape *t = lua_touserdata(L, -1);
    held = held || tensor_map_find(&t->known, tensor);
  }
  lua_pop(L, 1);
  return held;
}

/* → a tape that records */
static int new_tape(lua_State *L) {
  State *s = bind_state(L);
  if (!s->many_tapes) s->many_tapes = MANY_TAPES;
  collect_forgotten(L, s);
  Tape *t = lua_newuserdatauv(L, sizeof *t, 1);
  *t = (Tape){
      .state = s, .records = true, .next = s->tapes, .depth = s->unrecorded, .thread = s->thread};
  context_push_thread(L, s->thread);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, TAPE_NAME);
  s->tapes = t;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &TAPES_KEY);
  lua_pushvalue(L, -2);
  lua_rawsetp(L, -2, t);
  lua_pop(L, 1);
  return 1;
}

static int pause_tape(lua_State *L) {
  stop(tape_check(L, 1));
  return 0;
}

static int release_tape(lua_State *L) { return free_tape(L); }

static int records(lua_State *L) {
  lua_pushboolean(L, tape_first(bind_state(L)) != NULL);
  return 1;
}

/* f(…) beside all tapes. */
static int unrecorded(lua_State *L) {
  State *s = bind_state(L);
  s->unrecorded++;
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  s->unrecorded--;
  return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

void bind_open_tape(lua_State *L) {
  static const luaL_Reg functions[] = {{"tape_new", new_tape},
                                       {"tape_pause", pause_tape},
                                       {"tape_release", release_tape},
                                       {"tape_gradients", tape_gradients},
                                       {"tape_records", records},
                                       {"unrecorded", unrecorded},
                                       {NULL, NULL}};
  bind_set_functions(L, functions);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  bind_set_text(L, "__mode", "v");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &TAPES_KEY);
  bind_type(L, TAPE_NAME, free_tape, NULL);
}
