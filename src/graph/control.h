/* Ops that hold regions. A region's inputs are its arguments, then extras shared with its node:
 *   repeat  in: count, carried…, extras…
 *           region body: index, carried…, extras… → carried…, written…
 *   while   in: limit, carried…, extras…
 *           regions cond, body: carried…, extras…; cond gives one bool
 *   cond    in: test, extras…
 *           regions yes, no: extras… → results…, written…
 *   call    in: arguments…, extras…
 *           region body: arguments…, extras… → results…, written…
 *   custom  in: arguments…, extras…
 *           region body: as call's, with values saved for the gradient among the results
 *           region gradient: upstream…, saved… → gradients of some inputs. upstream lists which
 *           outputs the first inputs of that region stand for, saved what the others are
 *           (k: input k of the node; -1-k: output k), given whose its outputs are
 * written lists the positions (among the extras) of variables that the regions change; the node's
 * outputs are the explicit ones, then one for each written. limit is -1 for none. */
#ifndef IPULUA_GRAPH_CONTROL_H
#define IPULUA_GRAPH_CONTROL_H
#include "graph/graph.h"

/* attributes: body | yes, cond | no | gradient, count, list, plan of a pipelined repeat */
enum {
  CONTROL_BODY,
  CONTROL_OTHER,
  CONTROL_EXPLICIT,
  CONTROL_WRITTEN,
  CONTROL_PLAN,
  CONTROL_UPSTREAM,
  CONTROL_SAVED,
  CONTROL_GIVEN
};

extern const OpDef control_repeat, control_while, control_cond, control_call, control_custom;

typedef struct ControlParts {
  Graph *body, *other;
  int explicit_count, written_count;
  const int64_t *written;
  Object *plan;
} ControlParts;
/* Append such a node; g owns the regions from now on, whatever becomes of the node. NULL with
 * g->error set. */
Node *control_node(Graph *g, const OpDef *op, Value *const *in, int in_count,
                   const ControlParts *parts);

static inline const Graph *control_body(const Node *n) { return n->attr[CONTROL_BODY].graph; }
static inline const Graph *control_other(const Node *n) { return n->attr[CONTROL_OTHER].graph; }
static inline Object *control_plan(const Node *n) {
  return n->attr[CONTROL_PLAN].kind == ATTR_OBJECT ? n->attr[CONTROL_PLAN].object : NULL;
}
static inline int control_explicit(const Node *n) { return (int)n->attr[CONTROL_EXPLICIT].i; }
static inline int control_written_count(const Node *n) { return n->attr[CONTROL_WRITTEN].ints.n; }
static inline int control_written(const Node *n, int i) {
  return (int)n->attr[CONTROL_WRITTEN].ints.v[i];
}
#endif
