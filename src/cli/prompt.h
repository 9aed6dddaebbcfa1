/* The prompt: read, evaluate, print, until the input ends.
 *
 * It requires one Lua module, if it is there: "ipulua.tools.help", a table with these fields.
 *   show(value, text)   prints what is known of the value; text is the expression as it was typed,
 *                       or nil
 *   options             a table: function or class → list of its option names, or of rows that
 *                       begin with them
 * It uses the metafields __repr, a function that returns the text to show, and __name. __repr goes
 * before __tostring. */
#ifndef IPULUA_CLI_PROMPT_H
#define IPULUA_CLI_PROMPT_H
#include <lua.h>

void prompt_run(lua_State *L);

/* A module for package.preload: a function that runs the prompt until the input ends. Its lines are
 * run with the table that it is given as _ENV. */
int prompt_open(lua_State *L);
#endif
