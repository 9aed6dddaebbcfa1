/* What scopes and traces are open is a coroutine's own matter: it is inside whatever its resumer
 * has open, and what it opens itself holds in it alone. A coroutine that has something open keeps
 * that, and what was around it, until it is closed; the others follow whoever resumes them. Nobody
 * says which coroutine runs: the binding looks at each call, in bind_state. */
#ifndef IPULUA_LUA_CONTEXT_H
#define IPULUA_LUA_CONTEXT_H
#include "lua/bind.h"

/* Called once, for a new state. */
void context_begin(lua_State *L, State *s);
/* L runs, and was not the one that ran at the last call. */
void context_switch(lua_State *L, State *s);
/* Whether a thread runs, or waits for one that it resumed. */
bool context_is_active(const State *s, lua_State *thread);
void context_push_thread(lua_State *L, lua_State *thread); /* pushes the latter */
#endif
