/* Values as the prompt prints them, and the tables that the library returns as print does. */
#ifndef IPULUA_LUA_SHOW_H
#define IPULUA_LUA_SHOW_H
#include <lua.h>

/* Pushes the text of the value at index. The metafields __repr and __tostring are used if there are
 * any. A table is shown by its entries, with inner tables shortened to {...}. Other values are
 * shown as by print. A table wider than `columns` is broken into lines. May raise. */
void show_push(lua_State *L, int index, int columns);
#endif
