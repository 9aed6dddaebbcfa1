#include "ops/io/feed.h"

enum { ROW_DEQUEUE, ROW_ENQUEUE, ROW_HOST };

static Status eval_host(const Call *c) {
  HostOp *f = (HostOp *)c->attr[0].object;
  return f->call(f, c);
}

/* The script is called for one replica after the other. */
static Status collective_host(const Call *const *replica, int count) {
  Status s = OK;
  for (int i = 0; i < count && s == OK; i++) s = eval_host(replica[i]);
  return s;
}

const OpDef ops_feed[] = {
    [ROW_DEQUEUE] = {.name = "infeed_dequeue",
                     .traffic = TRAFFIC_DEQUEUE,
                     .summary = "The next element of an infeed queue.",
                     .attrs = {{.name = "queue", .kind = ATTR_OBJECT}},
                     .traits = STATEFUL | INTERNAL | NO_GRADIENT,
                     .outputs = -1},
    [ROW_ENQUEUE] = {.name = "outfeed_enqueue",
                     .traffic = TRAFFIC_ENQUEUE,
                     .summary = "Hand values to an outfeed queue.",
                     .attrs = {{.name = "queue", .kind = ATTR_OBJECT},
                               {.name = "form", .kind = ATTR_INT, .fallback = "0"}},
                     .traits = STATEFUL | INTERNAL | NO_GRADIENT,
                     .outputs = -1},
    [ROW_HOST] = {.name = "host_function",
                  .traffic = TRAFFIC_HOST,
                  .infinite = true,
                  .summary = "Call a function on the host.",
                  .attrs = {{.name = "function", .kind = ATTR_OBJECT},
                            {.name = "seen", .kind = ATTR_INTS, .fallback = "nil"}},
                  .traits = STATEFUL | INTERNAL | NO_GRADIENT | OBSERVES,
                  .outputs = -1,
                  .eval = eval_host,
                  .eval_collective = collective_host},
    {0}};

static Node *feed_node(Graph *g, int row, Object *o, Value *const *in, int count, int out_count,
                       const Type *out) {
  Attr attrs[MAX_ATTRS] = {{.kind = ATTR_OBJECT, .object = o}};
  Node *n = graph_node(g, &ops_feed[row], in, count, attrs);
  if (!n) return NULL;
  if (!node_outputs(g->arena, n, out_count)) return NULL;
  for (int i = 0; i < out_count; i++) n->out[i].type = out[i];
  return n;
}

Node *feed_dequeue(Graph *g, Feed *f) {
  return feed_node(g, ROW_DEQUEUE, &f->object, NULL, 0, f->count, f->type);
}
Node *outlet_enqueue(Graph *g, Outlet *o, int form, Value *const *in, int count) {
  Node *n = feed_node(g, ROW_ENQUEUE, &o->object, in, count, 0, NULL);
  if (n) n->attr[1] = (Attr){.kind = ATTR_INT, .i = form};
  return n;
}
int outlet_form(const Node *n) { return (int)n->attr[1].i; }
Status outlet_put(const Node *n, int replicas, const Type *const *type, const void *const *data,
                  Error *e) {
  Outlet *o = (Outlet *)n->attr[0].object;
  return o->put(o, outlet_form(n), replicas, n->in_count, type, data, e);
}
Node *host_op(Graph *g, HostOp *f, Value *const *in, int count) {
  return feed_node(g, ROW_HOST, &f->object, in, count, f->out_count, f->out_type);
}
bool node_is_dequeue(const Node *n) { return n->op->traffic == TRAFFIC_DEQUEUE; }
bool node_is_enqueue(const Node *n) { return n->op->traffic == TRAFFIC_ENQUEUE; }
bool node_is_host(const Node *n) { return n->op->traffic == TRAFFIC_HOST; }
