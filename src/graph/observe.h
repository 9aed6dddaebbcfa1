/* Functions on the host may read variables in the middle of a program. They see the values that the
 * script has assigned before the call. So the value of each variable that the program changes is a
 * hidden operand of the call, after the script's operands. The order in which the program writes
 * its memory doesn't matter, and no update is seen too early. */
#ifndef IPULUA_GRAPH_OBSERVE_H
#define IPULUA_GRAPH_OBSERVE_H
#include "graph/graph.h"
#include "graph/variable.h"

/* attribute of nodes with the trait OBSERVES: a serial for each hidden operand */
enum { OBSERVED = 1 };

int node_shown(const Node *n); /* operands that are not hidden */
/* Whether v is a variable of the script, in memory where it can be read. */
bool variable_is_observed(const Variable *v);
/* Lets n, and the nodes in its regions, see `value` as the value of v. */
void node_observe(Graph *g, Node *n, const Variable *v, Value *value);
/* Calls in g, and in its regions, see only the variables whose serials are in the list. */
void graph_observe_only(Graph *g, const int64_t *serial, int count);

/* The values that a running function sees, and the functions around it. */
typedef struct Observed Observed;
struct Observed {
  int count;
  const int64_t *serial;
  const void *const *data;
  const Observed *outer;
};
const void *observed_data(const Observed *o,
                          const Variable *v); /* dense; of v, which has a value */

/* Appends operands to a control node, and an input for each to its regions. inner[0] gets the
 * inputs of its body, [count], and inner[1] the other region's. */
bool control_append(Graph *g, Node *n, Value *const *outer, int count, Value **inner[2]);
#endif
