/* The texts that a library of ops gives for arguments: "{axis = 1, keepdims = true}". */
#ifndef IPULUA_OPS_LIBRARY_TEXT_H
#define IPULUA_OPS_LIBRARY_TEXT_H
#include "graph/graph.h"

/* Can attr_fallback read it? It would turn a text that it can't read into another value. */
bool library_is_literal(AttrKind kind, const char *text);
/* A table of arguments → attributes by position; unnamed ones stay as they are. */
Status library_read(Graph *g, const OpDef *op, const char *text, Attr *attrs);
#endif
