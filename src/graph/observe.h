/* Functions on the host may read variables in the middle of a program. What they are to see is
 * what the script has assigned before it calls them: the value of each variable that the program
 * changes is a hidden operand of the call, behind those that the script hands over. So the order
 * in which the program writes its memory doesn't matter, and no update comes too early. */
#ifndef IPULUA_GRAPH_OBSERVE_H
#define IPULUA_GRAPH_OBSERVE_H
#include "graph/graph.h"
#include "graph/variable.h"

enum { OBSERVED = 1 }; /* attribute of nodes with the trait OBSERVES: serials, one an operand */

int node_shown(const Node *n); /* operands that are not hidden */
/* Variables that a script has, and that lie where they can be read. */
bool variable_is_observed(const Variable *v);
/* n is to see that v holds value there: in a region of n's, too. */
void node_observe(Graph *g, Node *n, const Variable *v, Value *value);
/* Calls in g, and in its regions, see those alone whose serials are in the list. */
void graph_observe_only(Graph *g, const int64_t *serial, int count);

/* What a function sees while it runs; the functions around it, too. */
typedef struct Observed Observed;
struct Observed {
  int count;
  const int64_t *serial;
  const void *const *data;
  const Observed *outer;
};
const void *observed_data(const Observed *o,
                          const Variable *v); /* dense; of v, which has a value */

/* More operands of a control node, of which each of its regions gets inputs: inner[0] [count] of
 * its body, inner[1] of its other one. */
bool control_append(Graph *g, Node *n, Value *const *outer, int count, Value **inner[2]);
#endif
