/* Plain tables: lists and records, as scripts write them. Plain tables that the library returns
 * have a metatable, whose __tostring shows their entries. Its field "plain" marks them as plain. */
#ifndef IPULUA_LUA_PLAIN_H
#define IPULUA_LUA_PLAIN_H
#include <lua.h>
#include <stdbool.h>

/* Whether the value at index is a table without a metatable, or with one that says `plain =
 * true`. */
bool plain_is(lua_State *L, int index);
/* Gives the table on top of the stack the metatable of returned tables. Raises an error if memory
 * is short. */
void plain_mark(lua_State *L);
/* The same for a tensor's shape, whose metatable is one for all shapes: base/plain.lua has it
 * refuse position 0. */
void plain_mark_shape(lua_State *L);
#endif
