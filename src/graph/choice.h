/* Attributes that are one of several words. */
#ifndef IPULUA_GRAPH_CHOICE_H
#define IPULUA_GRAPH_CHOICE_H
#include "graph/op.h"

/* Where in def->choices the word stands that given spells, in any letter case, and its length;
 * NULL: it spells none. */
const char *choice_find(const AttrDef *def, const char *given, size_t *length);
/* Says which there are, and which may be meant. */
Status choice_refuse(Error *e, const OpDef *op, const AttrDef *def, const char *given);
#endif
