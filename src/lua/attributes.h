/* One attribute of an op's call. */
#ifndef IPULUA_LUA_ATTRIBUTES_H
#define IPULUA_LUA_ATTRIBUTES_H
#include "lua/bind.h"

/* What lies on the stack there, as the row wants it; what the attribute holds stays on the stack
 * while the call lasts. Raises in the caller's words. */
Attr attribute_read(lua_State *L, int index, const OpDef *op, const AttrDef *def);
#endif
