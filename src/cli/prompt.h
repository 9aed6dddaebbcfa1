/* The prompt: read, evaluate, print, until the input ends.
 *
 * It asks for one Lua module, and does without if there is none: require("ipulua.tools.help") is a table
 * with
 *   show(value, text)   prints what is known of the value; text is the expression as it was typed,
 *                       or nil
 *   options             a table: function or class → list of its option names, or of rows that
 *                       begin with them
 * Metafields it knows: __repr (a function giving the text to show, before __tostring), __name. */
#ifndef IPULUA_CLI_PROMPT_H
#define IPULUA_CLI_PROMPT_H
#include <lua.h>

void prompt_run(lua_State *L);
#endif
