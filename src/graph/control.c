#include "graph/control.h"

#define CONTROL_ROW(word)                                                            \
  {                                                                                  \
    .name = word, .traits = CONTROL | INTERNAL | STATEFUL, .outputs = -1, .attrs = { \
      {.name = "body", .kind = ATTR_GRAPH, .fallback = "nil"},                       \
      {.name = "other", .kind = ATTR_GRAPH, .fallback = "nil"},                      \
      {.name = "explicit", .kind = ATTR_INT, .fallback = "0"},                       \
      {.name = "written", .kind = ATTR_INTS, .fallback = "nil"},                     \
      {.name = "plan", .kind = ATTR_OBJECT, .fallback = "nil"},                      \
      {.name = "upstream", .kind = ATTR_INTS, .fallback = "nil"},                    \
      {.name = "saved", .kind = ATTR_INTS, .fallback = "nil"},                       \
      {.name = "given", .kind = ATTR_INTS, .fallback = "nil"},                       \
    }                                                                                \
  }
const OpDef control_repeat = CONTROL_ROW("repeat");
const OpDef control_while = CONTROL_ROW("while");
const OpDef control_cond = CONTROL_ROW("cond");
const OpDef control_call = CONTROL_ROW("call");
const OpDef control_custom = CONTROL_ROW("custom");

Node *control_node(Graph *g, const OpDef *op, Value *const *in, int in_count,
                   const ControlParts *parts) {
  for (Graph *r = parts->body; r; r = r == parts->body ? parts->other : NULL)
    if (r->error.status != OK && g->error.status == OK) g->error = r->error;
  Attr attrs[MAX_ATTRS] = {{.kind = ATTR_GRAPH, .graph = parts->body},
                           {.kind = ATTR_GRAPH, .graph = parts->other},
                           attr_int(parts->explicit_count),
                           attr_ints(parts->written, parts->written_count),
                           {.kind = parts->plan ? ATTR_OBJECT : ATTR_NONE, .object = parts->plan}};
  Node *n = graph_node(g, op, in, in_count, attrs);
  graph_adopt(g, parts->body);
  graph_adopt(g, parts->other);
  if (!n || g->error.status != OK) return NULL;
  if (!node_outputs(g->arena, n, parts->explicit_count + parts->written_count)) {
    fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory while tracing a %s", op->name);
    return NULL;
  }
  for (int i = 0; i < n->out_count; i++) n->out[i].type = parts->body->output[i]->type;
  return n;
}
