/* Gradients by a tape: its graph is differentiated, and the new nodes are computed one by one. */
#include <stdlib.h>
#include <string.h>

#include "engine/eager.h"
#include "engine/run.h"
#include "lua/tape.h"
#include "ops/ops.h"
#include "transform/autodiff.h"
#include "transform/clone.h"

/* A loop, branch or call of the gradient: a program of its own. */
static Status run_control(Engine *engine, const Node *n, Tensor *const *in, Tensor ***out,
                          int *out_count, Error *e) {
  Trace *to = trace_new(NULL);
  Value **values = calloc((size_t)(n->in_count + n->out_count) + 1, sizeof *values);
  Program *p = NULL;
  *out = calloc((size_t)n->out_count + 1, sizeof **out);
  if (to && values && *out) {
    for (int i = 0; i < n->in_count; i++) values[i] = trace_argument(to, &n->in[i]->type, NULL);
    Node *made = clone_node(to->graph, n, values);
    for (int i = 0; made && i < n->out_count; i++) values[i] = &made->out[i];
    if (made) trace_end_root(to, values, n->out_count, NULL);
    p = program_compile(e, to, n->out_count, NULL, 0, engine->kernels, &engine->numerics,
                        engine->threads, n->op->name);
  } else {
    fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  }
  if (p) engine_number_rounding(engine, p);
  if (p && program_run(engine, p, in, *out, e) == OK) *out_count = n->out_count;
  program_free(p);
  trace_free(to);
  free(values);
  return e->status;
}

static Status run_node(State *s, Tape *t, const Node *n, Error *e) {
  Tensor **in = calloc((size_t)n->in_count + 1, sizeof *in), **out = NULL;
  int out_count = 0;
  for (int k = 0; in && k < n->in_count; k++) in[k] = tape_noted(t, n->in[k]);
  engine_follow_scopes(s->engine, &n->place); /* the scopes of the differentiated node */
  Status status = !in                       ? fail(e, ERR_OUT_OF_MEMORY, "out of memory")
                  : n->op->traits & CONTROL ? run_control(s->engine, n, in, &out, &out_count, e)
                                            : eager_apply(s->engine, n->op, in, n->in_count,
                                                          n->attr, n->source, &out, &out_count, e);
  engine_follow_scopes(s->engine, &s->scope.place);
  if (status == OK) tape_record_node(s, t, n, in, out, e);
  for (int k = 0; k < out_count; k++) {
    if (!tape_note(t, &n->out[k], out[k])) fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    tensor_release(out[k]);
  }
  free(in);
  free(out);
  return e->status;
}

/* Compute the nodes appended since `from`, and note their values. */
static Status evaluate(State *s, Tape *t, int from, Error *e) {
  const Graph *g = t->graph;
  for (int i = from; i < g->node_count && e->status == OK; i++) {
    Node *n = g->node[i];
    if (node_is_input(n)) continue;
    if (!node_is_constant(n)) run_node(s, t, n, e);
    else if (!tape_note(t, &n->out[0], n->attr[0].tensor))
      fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  }
  return e->status;
}

/* ---- (tape, ys, xs, dys | nil) ---- */

typedef struct Question {
  Value **ys, **dys, **xs, **dx;
  int y_count, x_count;
} Question;

static Value **room_for(lua_State *L, int count) {
  Value **v = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *v, 0);
  memset(v, 0, (size_t)(count + 1) * sizeof *v);
  return v;
}

/* The list at dys may hold false. */
static void read_question(lua_State *L, Tape *t, Question *q) {
  q->y_count = (int)luaL_len(L, 2), q->x_count = (int)luaL_len(L, 3);
  q->ys = room_for(L, q->y_count), q->dys = room_for(L, q->y_count);
  q->xs = room_for(L, q->x_count), q->dx = room_for(L, q->x_count);
  for (int i = 0; i < q->y_count; i++) {
    lua_rawgeti(L, 2, i + 1);
    q->ys[i] = tape_value_at(L, t, lua_gettop(L));
    lua_pop(L, 1);
    if (!lua_istable(L, 4)) continue;
    lua_rawgeti(L, 4, i + 1);
    if (lua_toboolean(L, -1)) q->dys[i] = tape_value_at(L, t, lua_gettop(L));
    lua_pop(L, 1);
  }
  for (int i = 0; i < q->x_count; i++) {
    lua_rawgeti(L, 3, i + 1);
    q->xs[i] = tape_value_at(L, t, lua_gettop(L));
    lua_pop(L, 1);
  }
}

/* Marks the values that depend on a source, and among them the ones that a target needs. */
static void mark_between(const Graph *g, const Question *q, bool *depends, bool *needed) {
  for (int i = 0; i < q->x_count; i++)
    if (q->xs[i]) depends[q->xs[i]->node->id] = true;
  for (int i = 0; i < g->node_count; i++)
    for (int k = 0; k < g->node[i]->in_count; k++)
      if (depends[g->node[i]->in[k]->node->id]) depends[g->node[i]->id] = true;
  for (int i = 0; i < q->y_count; i++)
    if (q->ys[i]) needed[q->ys[i]->node->id] = depends[q->ys[i]->node->id];
  for (int i = g->node_count - 1; i >= 0; i--)
    for (int k = 0; needed[g->node[i]->id] && k < g->node[i]->in_count; k++) {
      int id = g->node[i]->in[k]->node->id;
      needed[id] = needed[id] || depends[id];
    }
}

/* A tape has what replica 0 was given and gave; what replicas sum is of all of them. */
static void refuse_together(lua_State *L, const Tape *t, const Question *q) {
  if (!t->together_count) return;
  size_t nodes = (size_t)t->graph->next_id + 1;
  bool *depends = lua_newuserdatauv(L, 2 * nodes, 0), *needed = depends + nodes;
  memset(depends, 0, 2 * nodes);
  mark_between(t->graph, q, depends, needed);
  for (int i = 0; i < t->together_count; i++)
    if (needed[t->together[i]->id])
      bind_fail(L, ERR_FAILED_PRECONDITION,
                "GradientTape.gradient: a tape can't go back through a function whose replicas "
                "compute together; ask for gradients inside of it");
  lua_pop(L, 1);
}

static int readings_of(const Tape *t, const Variable *v) {
  int n = 0;
  for (int i = 0; i < t->reading_count; i++) n += t->reading[i].variable == v;
  return n;
}

/* Gradients by a variable that was read, assigned and read again: the sum over all its readings. A
 * reading inside of a traced function is counted within that function. */
static Value *sum_over_readings(lua_State *L, Tape *t, const Question *q, const Variable *v) {
  int count = 0;
  Value **xs = room_for(L, t->reading_count), **dx = room_for(L, t->reading_count), *sum = NULL;
  for (int i = 0; i < t->reading_count; i++)
    if (t->reading[i].variable == v && node_is_input(t->reading[i].value->node))
      xs[count++] = t->reading[i].value;
  autodiff_by(t->graph, v->serial, q->ys, q->dys, q->y_count, xs, count, dx);
  for (int i = 0; i < count; i++)
    if (dx[i]) sum = sum ? ops_add(t->graph, sum, dx[i]) : dx[i];
  lua_pop(L, 2);
  return sum;
}

static void differentiate(lua_State *L, Tape *t, Question *q) {
  autodiff(t->graph, q->ys, q->dys, q->y_count, q->xs, q->x_count, q->dx);
  for (int i = 0; i < q->x_count; i++) {
    lua_rawgeti(L, 3, i + 1);
    const Variable *v = bind_test_variable(L, -1);
    if (v && readings_of(t, v) > 1) q->dx[i] = sum_over_readings(L, t, q, v);
    lua_pop(L, 1);
  }
}

/* A list of tensors that the tape keeps track of; false for one without a gradient. */
static int push_gradients(lua_State *L, Tape *t, const Question *q) {
  lua_createtable(L, q->x_count, 0);
  for (int i = 0; i < q->x_count; i++) {
    Tensor *tensor = q->dx[i] ? tape_noted(t, q->dx[i]) : NULL;
    const TensorSlot *s = tensor ? tensor_map_find(&t->known, tensor) : NULL;
    Error e = {0};
    if (tensor && !s && t->records && !tensor_map_put(&t->known, tensor, q->dx[i], NULL))
      fail(&e, ERR_OUT_OF_MEMORY, "out of memory on a GradientTape");
    bind_check(L, &e);
    if (tensor) /* a variable's own tensor stays its own */
      tensor = s && s->variable ? tensor_view(&e, tensor, &tensor->type, tensor->stride, 0)
                                : tensor_retain(tensor);
    bind_check(L, &e);
    if (tensor) bind_push_tensor(L, tensor);
    else lua_pushboolean(L, false);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* Ops that a stopped tape runs for a gradient are not recorded in it. */
static void forget(Tape *t, const GraphMark *mark, int from) {
  while (t->count && t->note[t->count - 1].value->node->id >= from)
    tensor_release(t->note[--t->count].tensor);
  graph_rewind(t->graph, mark);
}

int tape_gradients(lua_State *L) {
  Tape *t = tape_check(L, 1);
  if (!t->graph) t->graph = graph_new();
  if (!t->graph) return bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
  Graph *g = t->graph;
  Question q;
  lua_settop(L, 4);
  read_question(L, t, &q);
  refuse_together(L, t, &q);
  int from = g->node_count;
  GraphMark mark = graph_mark(g);
  differentiate(L, t, &q);
  Error e = g->error;
  error_clear(&g->error);
  if (e.status == OK) evaluate(bind_state(L), t, from, &e);
  if (e.status == OK) push_gradients(L, t, &q);
  if (!t->records || e.status != OK) forget(t, &mark, from);
  bind_check(L, &e);
  return 1;
}
