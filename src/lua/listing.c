/* The nodes of a program's graph as a list of tables, regions after the node that holds them. */
#include "graph/control.h"
#include "lua/bind.h"

typedef struct Listing {
  lua_State *L; /* the list is on top of the stack */
  int count;
} Listing;

static void set_text(lua_State *L, const char *key, const char *text) {
  if (!text || !*text) return;
  bind_set_text(L, key, text);
}

static void set_place(lua_State *L, const Placement *p) {
  if (p->device == DEVICE_HOST) lua_pushliteral(L, "/device:CPU:0");
  else lua_pushfstring(L, "/device:IPU:%d", p->device == DEVICE_ANY ? 0 : p->device);
  lua_setfield(L, -2, "device");
  if (p->shard >= 0) bind_set_integer(L, "shard", p->shard);
  if (p->stage >= 0) bind_set_integer(L, "stage", p->stage);
  bind_set_flag(L, "backward", p->backward);
}

/* Positions in the list of the nodes that make the operands. */
static void set_operands(lua_State *L, const Node *n, int first) {
  lua_createtable(L, n->in_count, 0);
  for (int i = 0; i < n->in_count; i++) {
    lua_pushinteger(L, first + n->in[i]->node->id);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "operands");
}

static void push_node(lua_State *L, const Node *n, int position, int first, int depth) {
  lua_createtable(L, 0, 12);
  bind_set_text(L, "op", n->op->name);
  if (node_is_input(n) && n->name) lua_pushstring(L, n->name);
  else lua_pushfstring(L, "%s%s", n->name ? n->name : "", n->op->name);
  lua_setfield(L, -2, "name");
  if (n->out_count) bind_set_type(L, &n->out[0].type);
  set_place(L, &n->place);
  set_text(L, "line", n->source);
  set_text(L, "attributes", n->attributes);
  set_operands(L, n, first);
  bind_set_integer(L, "id", position);
  bind_set_integer(L, "depth", depth);
}

static void list_graph(Listing *l, const Graph *g, int depth) {
  lua_State *L = l->L;
  luaL_checkstack(L, 8, "regions are nested too deeply");
  int first = l->count + 1;
  l->count += g->node_count;
  for (int i = 0; i < g->node_count; i++) {
    push_node(L, g->node[i], first + i, first, depth);
    lua_rawseti(L, -2, first + i);
  }
  for (int i = 0; i < g->node_count; i++) {
    ControlRegions c = control_regions(g->node[i]);
    for (int r = 0; r < c.count; r++) list_graph(l, c.region[r].graph, depth + 1);
  }
}

int bind_program_nodes(lua_State *L) {
  const Program *p = bind_check_program(L, 1);
  lua_newtable(L);
  Listing l = {.L = L};
  list_graph(&l, p->graph, 0);
  return 1;
}
