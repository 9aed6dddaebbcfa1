/* What a valid graph is. With -DIPULUA_VERIFY (make debug, asan, tsan) it is asked after every
 * pass; a failure is ours, never a script's. */
#ifndef IPULUA_TRANSFORM_VERIFY_H
#define IPULUA_TRANSFORM_VERIFY_H
#include "graph/graph.h"

#ifdef IPULUA_VERIFY
enum { VERIFYING = 1 };
#else
enum { VERIFYING = 0 };
#endif

/* Operands made before they are read, in the same graph; arities and attributes as the row says;
 * types as infer finds them; regions that fit their nodes. pass names the maker in the message. */
Status graph_verify(Error *e, const Graph *g, const char *pass);
#endif
