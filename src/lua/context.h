/* Open scopes and traces belong to a coroutine. A coroutine is inside the scopes and traces of its
 * resumer. The ones that it opens itself hold in it alone. While it has something open, it keeps
 * that and its surroundings; otherwise they are its current resumer's. A switch of coroutines is
 * noticed at the next call of the library, in bind_state. */
#ifndef IPULUA_LUA_CONTEXT_H
#define IPULUA_LUA_CONTEXT_H
#include "lua/bind.h"

/* Called once, for a new state. */
void context_begin(lua_State *L, State *s);
/* Called when L runs, but another thread ran at the last call. */
void context_switch(lua_State *L, State *s);
/* Whether a thread runs, or waits for one that it resumed. */
bool context_is_active(const State *s, lua_State *thread);
void context_push_thread(lua_State *L, lua_State *thread); /* pushes the latter */
#endif
