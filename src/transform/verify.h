/* Checks that a graph is valid. With -DIPULUA_VERIFY (make debug, asan, tsan) it runs after every
 * pass. A failure is an error of the library, not of a script. */
#ifndef IPULUA_TRANSFORM_VERIFY_H
#define IPULUA_TRANSFORM_VERIFY_H
#include "graph/graph.h"

#ifdef IPULUA_VERIFY
enum { VERIFYING = 1 };
#else
enum { VERIFYING = 0 };
#endif

/* Checks that operands are made before they are read, in the same graph. Numbers of operands and
 * attributes must match the row, types must match infer, and regions must fit their nodes. pass
 * names the graph's maker in the message. */
Status graph_verify(Error *e, const Graph *g, const char *pass);
#endif
