/* Ops from shared objects (ipulua_op.h). */
#ifndef IPULUA_OPS_LIBRARY_H
#define IPULUA_OPS_LIBRARY_H
#include "graph/op.h"

typedef struct OpLibrary OpLibrary;
/* NULL with e filled: there is no such file, it is no library of ops, it has another ABI, or a row
 * is invalid. */
OpLibrary *op_library_open(Error *e, const char *path);
void op_library_close(OpLibrary *l); /* after the last graph with its nodes; NULL is fine */
/* Row i; NULL after the last one. It lives as long as l. */
const OpDef *op_library_row(const OpLibrary *l, int i);
#endif
