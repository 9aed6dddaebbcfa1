/* Values as the prompt prints them, and the tables that the library returns as print does. */
#ifndef IPULUA_LUA_SHOW_H
#define IPULUA_LUA_SHOW_H
#include <lua.h>

/* Pushes the text of the value at index: through the metafield __repr or __tostring if there is
 * one, a table by its entries (tables inside shortened to {...}), anything else as print does.
 * columns: what a table fills before it is broken into lines. May raise. */
void show_push(lua_State *L, int index, int columns);
#endif
