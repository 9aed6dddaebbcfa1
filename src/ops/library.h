/* Ops from shared objects (ipulua_op.h). */
#ifndef IPULUA_OPS_LIBRARY_H
#define IPULUA_OPS_LIBRARY_H
#include "graph/op.h"

typedef struct OpLibrary OpLibrary;
/* NULL with e filled: no such file, no library of ops, another ABI, a row that can't be. */
OpLibrary *op_library_open(Error *e, const char *path);
void op_library_close(OpLibrary *l); /* after the last graph with its nodes; NULL is fine */
/* Row i; NULL behind the last one. Lives as long as l. */
const OpDef *op_library_row(const OpLibrary *l, int i);
#endif
