/* Values as the prompt prints them. */
#ifndef IPULUA_CLI_SHOW_H
#define IPULUA_CLI_SHOW_H
#include <lua.h>

/* Pushes the text of the value at index: through the metafield __repr or __tostring if there is one, a table
 * by its entries (tables inside shortened to {...}), anything else as print does. May raise. */
void show_push(lua_State *L, int index);
#endif
