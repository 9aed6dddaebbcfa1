/* String attributes whose value is one of several words. */
#ifndef IPULUA_GRAPH_CHOICE_H
#define IPULUA_GRAPH_CHOICE_H
#include "graph/op.h"

/* The word of def->choices that equals `given` in any letter case, and its length. NULL: there is
 * none. */
const char *choice_find(const AttrDef *def, const char *given, size_t *length);
/* Fails with a message that lists the choices, and names the one that is probably meant. */
Status choice_refuse(Error *e, const OpDef *op, const AttrDef *def, const char *given);
#endif
