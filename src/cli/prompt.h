/* The prompt: read, evaluate, print, until the input ends. */
#ifndef IPULUA_CLI_PROMPT_H
#define IPULUA_CLI_PROMPT_H
#include <lua.h>

void prompt_run(lua_State *L);
#endif
