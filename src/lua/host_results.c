#include "lua/host_results.h"

#include <stdlib.h>
#include <string.h>

#define RESULTS_NAME "ipulua.HostResults"

static void drop(HostAnswer *a) {
  for (int i = 0; a->tensor && i < a->op->out_count; i++) tensor_release(a->tensor[i]);
  free(a->tensor);
  a->tensor = NULL;
}

static int free_results(lua_State *L) {
  HostResults *r = lua_touserdata(L, 1);
  for (int i = 0; i < r->count; i++) drop(&r->answer[i]);
  free(r->answer);
  *r = (HostResults){0};
  return 0;
}

HostResults *host_results_new(lua_State *L) {
  HostResults *r = lua_newuserdatauv(L, sizeof *r, 0);
  *r = (HostResults){0};
  luaL_setmetatable(L, RESULTS_NAME);
  return r;
}

void host_results_begin(State *s, HostResults *r) {
  r->outer = s->host_results;
  s->host_results = r;
}

void host_results_end(State *s, HostResults *r) { s->host_results = r->outer; }

static HostAnswer *answer_of(const HostResults *r, const HostOp *op) {
  for (int i = 0; i < r->count; i++)
    if (r->answer[i].op == op) return &r->answer[i];
  return NULL;
}

Status host_results_note(State *s, const HostOp *op, Tensor *const *tensor, Error *e) {
  HostResults *r = s->host_results;
  if (!r) return OK;
  HostAnswer *a = answer_of(r, op);
  if (a) {
    a->calls++;
    drop(a);
    return OK;
  }
  Tensor **kept = calloc((size_t)op->out_count + 1, sizeof *kept);
  if (!kept || !array_reserve(&r->answer, &r->capacity, r->count + 1, sizeof *r->answer)) {
    free(kept);
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory in a host callback");
  }
  for (int i = 0; i < op->out_count; i++) kept[i] = tensor_retain(tensor[i]);
  r->answer[r->count++] = (HostAnswer){op, 1, kept};
  return OK;
}

/* ---- in a graph ---- */

static Value *constant_of(Graph *g, const Type *type, Tensor *given) {
  if (given) return graph_constant(g, given);
  Tensor *zeros = tensor_new(&g->error, type);
  if (zeros) memset(zeros->data, 0, type_bytes(type));
  return graph_take_constant(g, zeros);
}

static void read_instead(Graph *g, int nodes, const Value *of, Value *instead) {
  for (int i = 0; i < nodes; i++)
    for (int k = 0; k < g->node[i]->in_count; k++)
      if (g->node[i]->in[k] == of) g->node[i]->in[k] = instead;
  for (int i = 0; i < g->output_count; i++)
    if (g->output[i] == of) g->output[i] = instead;
}

void host_results_put_in(const HostResults *r, Graph *g, Error *e) {
  int nodes = g->node_count;
  for (int i = 0; i < nodes; i++) {
    Node *n = g->node[i];
    if (!node_is_host(n)) continue;
    const HostAnswer *a = answer_of(r, (const HostOp *)n->attr[0].object);
    if (a && a->calls > 1) continue;
    for (int k = 0; k < n->out_count; k++) {
      Value *v = constant_of(g, &n->out[k].type, a ? a->tensor[k] : NULL);
      if (!v) {
        *e = g->error;
        return;
      }
      read_instead(g, nodes, &n->out[k], v);
    }
  }
  for (int i = 0; i < g->region_count && e->status == OK; i++)
    host_results_put_in(r, g->region[i], e);
}

void bind_open_host_results(lua_State *L) { bind_type(L, RESULTS_NAME, free_results, NULL); }
