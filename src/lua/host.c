/* Lua functions as nodes of programs. A program that runs on another thread asks the script's
 * thread to call them. Tensors are copied, so that either thread may give up the call. */
#include <stdlib.h>
#include <string.h>

#include "graph/observe.h"
#include "lua/callback.h"
#include "lua/host_results.h"
#include "lua/object.h"
#include "ops/io/feed.h"

#define HOST_NAME "ipulua.HostFunction"
enum { MAX_VALUES = 4096 };

typedef struct LuaFunction {
  HostOp op;
  State *state;
  Callback *callback;
  Type out_type[];
} LuaFunction;

typedef struct Request {
  HostRequest head;
  LuaFunction *function;
  Observed seen; /* the program waits: its memory stays as it is */
  int in_count;
  Tensor *tensor[]; /* inputs, then outputs */
} Request;

static void free_request(HostRequest *r) {
  Request *q = (Request *)r;
  int count = q->in_count + q->function->op.out_count;
  for (int i = 0; i < count; i++) tensor_release(q->tensor[i]);
  free(q);
}

static Status take_result(lua_State *L, int index, const Type *want, int position, Tensor **out,
                          Error *e) {
  LuaTensor *t = bind_test_tensor(L, index);
  char wanted[TYPE_TEXT], got[TYPE_TEXT];
  if (!t || !t->tensor)
    return fail(e, ERR_TYPE, "host_callback: result %d must be a tensor, got %s", position,
                luaL_typename(L, index));
  if (!type_equal(&t->tensor->type, want))
    return fail(e, ERR_INVALID_ARGUMENT, "host_callback: result %d is %s, but was declared as %s",
                position, type_text(&t->tensor->type, got), type_text(want, wanted));
  *out = tensor_dense(e, t->tensor);
  return *out ? OK : e->status;
}

static Status run_request(HostRequest *r, Error *e) {
  Request *q = (Request *)r;
  LuaFunction *f = q->function;
  int out_count = f->op.out_count;
  lua_State *L = callback_begin(f->callback);
  if (!lua_checkstack(L, q->in_count + out_count + LUA_MINSTACK)) {
    lua_pop(L, 1);
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory in a host callback");
  }
  for (int i = 0; i < q->in_count; i++) bind_push_tensor(L, tensor_retain(q->tensor[i]));
  Engine *engine = f->state->engine;
  q->seen.outer = engine->seen;
  engine->seen = &q->seen;
  f->state->in_callback++;
  HostResults *noted = f->state->host_results; /* calls in it are not part of the run */
  f->state->host_results = NULL;
  Status s = callback_call(f->callback, q->in_count, out_count, e);
  f->state->host_results = noted;
  f->state->in_callback--;
  engine->seen = q->seen.outer;
  if (s != OK) return s;
  int first = lua_gettop(L) - out_count + 1;
  for (int i = 0; i < out_count && s == OK; i++)
    s = take_result(L, first + i, &f->out_type[i], i + 1, &q->tensor[q->in_count + i], e);
  lua_settop(L, first - 1);
  return s == OK ? host_results_note(f->state, &f->op, q->tensor + q->in_count, e) : s;
}

static bool never(void *context) {
  (void)context;
  return false;
}

static Status call_function(HostOp *h, const Call *c) {
  LuaFunction *f = (LuaFunction *)h;
  Request *q = calloc(1, sizeof *q + (size_t)(c->in_count + c->out_count + 1) * sizeof *q->tensor);
  if (!q) return fail(c->error, ERR_OUT_OF_MEMORY, "out of memory in a host callback");
  const Attr *seen = &c->attr[OBSERVED];
  int hidden = seen->kind == ATTR_INTS ? seen->ints.n : 0;
  q->function = f;
  q->in_count = c->in_count - hidden;
  if (hidden) q->seen = (Observed){hidden, seen->ints.v, c->in + q->in_count, NULL};
  Status s = OK;
  for (int i = 0; i < q->in_count && s == OK; i++) {
    q->tensor[i] = tensor_from(c->error, c->in_type[i], c->in[i]);
    if (!q->tensor[i]) s = c->error->status;
  }
  host_request_init(&q->head, run_request, free_request);
  if (s == OK) s = host_call(f->state->host, c->error, &q->head, never, NULL);
  for (int i = 0; i < c->out_count && s == OK; i++)
    memcpy(c->out[i], q->tensor[q->in_count + i]->data, type_bytes(c->out_type[i]));
  host_request_release(&q->head);
  return s;
}

static void destroy(Object *o) {
  LuaFunction *f = (LuaFunction *)o;
  callback_free(f->callback);
  free(f);
}

static Type read_type(lua_State *L, int index) {
  lua_getfield(L, index, "dtype");
  Type type = {.dtype = bind_check_dtype(L, -1)};
  lua_getfield(L, index, "shape");
  type.rank = bind_check_shape(L, -1, "shape", type.shape);
  lua_pop(L, 2);
  return type;
}

/* (function, list of values, list of {dtype, shape}, whether it may read variables) in the current
 * trace, or the sessions' graph → list of results */
static int host_callback(lua_State *L) {
  State *s = bind_state(L);
  TraceRef *ref = s->trace ? s->trace : bind_graph(L);
  Graph *g = ref->trace->graph;
  lua_settop(L, 4);
  int in_count = (int)luaL_len(L, 2), out_count = (int)luaL_len(L, 3);
  if (in_count > MAX_VALUES || out_count > MAX_VALUES)
    return bind_fail(L, ERR_VALUE, "host_callback: at most %d values", MAX_VALUES);
  Value **in = lua_newuserdatauv(L, (size_t)(in_count + 1) * sizeof *in, 0);
  for (int i = 0; i < in_count; i++) {
    lua_rawgeti(L, 2, i + 1);
    in[i] = bind_value_in(L, ref, lua_gettop(L), "host_callback");
    lua_pop(L, 1);
  }
  Object **holder = bind_push_object(L, HOST_NAME);
  Callback *callback = callback_new(L, 1);
  LuaFunction *f = calloc(1, sizeof *f + (size_t)(out_count + 1) * sizeof f->out_type[0]);
  if (!f) {
    callback_free(callback);
    return bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
  }
  f->op.object = (Object){.references = 1, .kind = "host function", .destroy = destroy};
  f->op.out_type = f->out_type;
  f->op.call = call_function;
  f->state = s;
  f->callback = callback;
  *holder = &f->op.object; /* the userdata owns it from here */
  for (int i = 0; i < out_count; i++) {
    lua_rawgeti(L, 3, i + 1);
    f->out_type[i] = read_type(L, lua_gettop(L));
    lua_pop(L, 1);
  }
  f->op.out_count = out_count;
  bind_mark_line(L, g);
  Node *n = host_op(g, &f->op, in, in_count);
  if (n && lua_toboolean(L, 4)) trace_observe(ref->trace, n);
  Error e = g->error;
  error_clear(&g->error);
  bind_check(L, &e);
  lua_createtable(L, out_count, 0);
  for (int i = 0; i < out_count; i++) {
    bind_push_value(L, &n->out[i], ref);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

void bind_open_host(lua_State *L) {
  lua_pushcfunction(L, host_callback);
  lua_setfield(L, -2, "host_callback");
  bind_object_type(L, HOST_NAME, NULL);
}
