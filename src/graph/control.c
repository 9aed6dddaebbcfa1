#include "graph/control.h"

#define CONTROL_ROW(word, ...)                                            \
  {                                                                       \
    .name = word, .traits = CONTROL | INTERNAL | STATEFUL, .outputs = -1, \
    .control = &(const ControlRule){__VA_ARGS__}, .attrs = {              \
      {.name = "body", .kind = ATTR_GRAPH, .fallback = "nil"},            \
      {.name = "other", .kind = ATTR_GRAPH, .fallback = "nil"},           \
      {.name = "explicit", .kind = ATTR_INT, .fallback = "0"},            \
      {.name = "written", .kind = ATTR_INTS, .fallback = "nil"},          \
      {.name = "plan", .kind = ATTR_OBJECT, .fallback = "nil"},           \
      {.name = "upstream", .kind = ATTR_INTS, .fallback = "nil"},         \
      {.name = "saved", .kind = ATTR_INTS, .fallback = "nil"},            \
      {.name = "given", .kind = ATTR_INTS, .fallback = "nil"},            \
    }                                                                     \
  }
const OpDef control_repeat = CONTROL_ROW("repeat", .loops = true, .skip = 1, .lead = 1);
const OpDef control_while = CONTROL_ROW("while", .loops = true, .skip = 1, .other = REGION_TEST);
const OpDef control_cond = CONTROL_ROW("cond", .skip = 1, .other = REGION_RESULTS);
const OpDef control_call = CONTROL_ROW("call", .other = REGION_NONE);
const OpDef control_custom = CONTROL_ROW("custom", .other = REGION_GRADIENT);

ControlRegions control_regions(const Node *n) {
  const ControlRule *rule = n->op->control;
  if (!rule) return (ControlRegions){.count = 0};
  ControlRegions c = {.loops = rule->loops,
                      .skip = rule->skip,
                      .lead = rule->lead,
                      .carried = rule->loops ? control_explicit(n) : 0,
                      .inputs = n->in_count - rule->skip + rule->lead};
  for (int r = CONTROL_BODY; r <= CONTROL_OTHER; r++)
    if (n->attr[r].kind == ATTR_GRAPH && n->attr[r].graph)
      c.region[c.count++] =
          (ControlRegion){n->attr[r].graph, r == CONTROL_BODY ? REGION_RESULTS : rule->other};
  return c;
}

const ControlRegion *control_running(const ControlRegions *c, int i) {
  bool tests = c->count == 2 && c->region[1].role == REGION_TEST;
  const ControlRegion *r = i < c->count ? &c->region[tests ? 1 - i : i] : NULL;
  return r && region_runs(r) ? r : NULL;
}

int control_replaced(const Node *n, int i) {
  const ControlRule *rule = n->op->control;
  int written = i - control_explicit(n), carried = rule->loops ? control_explicit(n) : 0;
  if (!rule->skip || (written < 0 && !rule->loops)) return -1;
  return rule->skip + (written < 0 ? i : carried + control_written(n, written));
}

const Node *graph_find(const Graph *g, NodeTest *is, void *context) {
  const Node *found = NULL;
  for (int i = 0; i < g->node_count && !found; i++) {
    ControlRegions c = control_regions(g->node[i]);
    if (is(g->node[i], context)) found = g->node[i];
    for (int r = 0; r < c.count && !found; r++) found = graph_find(c.region[r].graph, is, context);
  }
  return found;
}

static bool is_pipelined(const Node *n, void *context) {
  (void)context;
  return n->op->traits & CONTROL && control_plan(n);
}

const Node *graph_pipeline(const Graph *g) { return graph_find(g, is_pipelined, NULL); }

bool loop_has_stages(const Node *n) {
  const Graph *body = n->op->control->lead ? control_body(n) : NULL;
  for (int i = 0; body && i < body->node_count; i++)
    if (body->node[i]->place.stage >= 0) return true;
  return false;
}

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
