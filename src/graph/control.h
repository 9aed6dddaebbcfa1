/* Ops that hold regions. A region's inputs are its arguments, then extras shared with its node.
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
 * written lists the positions (among the extras) of variables that the regions change. The node's
 * outputs are the explicit ones, then one for each written. limit is CONTROL_NO_LIMIT for none.
 * With any other negative limit the body doesn't run. */
#ifndef IPULUA_GRAPH_CONTROL_H
#define IPULUA_GRAPH_CONTROL_H
#include "graph/graph.h"

#define CONTROL_NO_LIMIT INT32_MIN

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

/* The role of a region in its node. */
typedef enum RegionRole {
  REGION_NONE,
  REGION_RESULTS,  /* runs; its outputs are the node's: a body, a branch */
  REGION_TEST,     /* runs; its output says whether the loop continues */
  REGION_GRADIENT, /* used by autodiff; not run with the node */
} RegionRole;

/* A row's description of its regions. The first one is a REGION_RESULTS. */
typedef struct ControlRule {
  bool loops; /* results are the inputs of the next iteration */
  /* 1: the node's first operand (a count, limit or test) is not passed to regions */
  int skip;
  /* 1: the regions' first input (the index of a counted loop) is no operand of the node */
  int lead;
  RegionRole other; /* of the second region */
} ControlRule;

extern const OpDef control_repeat, control_while, control_cond, control_call, control_custom;

typedef struct ControlParts {
  Graph *body, *other;
  int explicit_count, written_count;
  const int64_t *written;
  Object *plan;
} ControlParts;
/* Appends a node with regions. g owns the regions from now on, also after a failure. NULL with
 * g->error set. */
Node *control_node(Graph *g, const OpDef *op, Value *const *in, int in_count,
                   const ControlParts *parts);

/* The regions of a node, and how its operands and outputs correspond to their inputs and outputs.
 * All regions but a gradient have the same inputs. */
typedef struct ControlRegion {
  Graph *graph;
  RegionRole role;
} ControlRegion;
typedef struct ControlRegions {
  int count; /* 0: of any other node */
  ControlRegion region[2];
  bool loops;
  int skip, lead; /* as ControlRule's */
  int carried;    /* operands after the skipped ones that a loop carries; 0: it is no loop */
  int inputs;     /* of a region that runs */
} ControlRegions;
ControlRegions control_regions(const Node *n);
/* The input of the regions that operand k becomes; -1: none. */
static inline int control_input(const ControlRegions *c, int k) {
  return k < c->skip ? -1 : k - c->skip + c->lead;
}
static inline bool region_runs(const ControlRegion *r) { return r->role != REGION_GRADIENT; }
static inline bool region_gives(const ControlRegion *r) { return r->role == REGION_RESULTS; }
/* Whether a test chooses one of two regions. */
static inline bool control_chooses(const ControlRegions *c) {
  return c->count == 2 && c->region[1].role == REGION_RESULTS;
}
/* Whether it is a call: one region, which runs once whenever the node does. */
static inline bool control_calls(const ControlRegions *c) { return c->count && !c->skip; }
/* The i-th region that runs, in order: a test, then the body. NULL: there are no more. */
const ControlRegion *control_running(const ControlRegions *c, int i);
/* The operand that output i replaces: a carried value, or a variable that a loop or branch changes;
 * -1: none. */
int control_replaced(const Node *n, int i);
/* The first node for which `is` holds, among the nodes of g and of their regions, in preorder.
 * NULL: none. */
typedef bool NodeTest(const Node *n, void *context);
const Node *graph_find(const Graph *g, NodeTest *is, void *context);
const Node *graph_pipeline(const Graph *g); /* the first loop with a plan */
/* Whether n is a counted loop over a body with pipeline stages. */
bool loop_has_stages(const Node *n);

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
