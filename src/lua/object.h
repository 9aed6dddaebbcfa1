/* Reference-counted C objects (queues, datasets) as userdata of a named type. */
#ifndef IPULUA_LUA_OBJECT_H
#define IPULUA_LUA_OBJECT_H
#include "lua/bind.h"
/* makes the metatable */
void bind_object_type(lua_State *L, const char *name, const luaL_Reg *methods);
/* pushes a userdata whose object the caller fills in */
Object **bind_push_object(lua_State *L, const char *name);
Object *bind_check_object(lua_State *L, int index, const char *name);
#endif
