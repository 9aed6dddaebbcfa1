/* One attribute of an op's call. */
#ifndef IPULUA_LUA_ATTRIBUTES_H
#define IPULUA_LUA_ATTRIBUTES_H
#include "lua/bind.h"

/* Reads the value at index as the attribute of a row. The values that it refers to stay on the
 * stack during the call. Raises with a message for the caller. */
Attr attribute_read(lua_State *L, int index, const OpDef *op, const AttrDef *def);
#endif
