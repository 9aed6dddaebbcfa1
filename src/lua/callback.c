#include "lua/callback.h"

#include "base/interrupt.h"
#include "lua/context.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* For a signal handler, which gets no context: the thread of Lua that a callback runs on. */
static _Atomic(lua_State *) running;

lua_State *callback_running(void) { return atomic_load(&running); }

Callback *callback_new(lua_State *L, int index) {
  luaL_checktype(L, index, LUA_TFUNCTION);
  Callback *c = malloc(sizeof *c);
  if (!c) luaL_error(L, "out of memory");
  c->state = bind_state(L);
  lua_pushvalue(L, index);
  c->reference = luaL_ref(L, LUA_REGISTRYINDEX);
  return c;
}

void callback_free(Callback *c) {
  if (!c) return;
  luaL_unref(c->state->callbacks, LUA_REGISTRYINDEX, c->reference);
  free(c);
}

lua_State *callback_begin(Callback *c) {
  lua_State *L = c->state->callbacks;
  lua_checkstack(L, 300);
  lua_rawgeti(L, LUA_REGISTRYINDEX, c->reference);
  return L;
}

static bool says_itself(lua_State *L) {
  if (luaL_getmetafield(L, -1, "__tostring") == LUA_TNIL) return false;
  lua_pushvalue(L, -2);
  if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING) return true;
  lua_pop(L, 1);
  return false;
}

const char *callback_error_words(lua_State *L) {
  if (lua_isstring(L, -1)) return lua_tostring(L, -1);
  if (!says_itself(L)) lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, -1));
  lua_replace(L, -2);
  return lua_tostring(L, -1);
}

/* Make a failed pcall's message on top of L into e; "script.lua:12: words" gives its source. */
static Status callback_error(lua_State *L, Error *e) {
  const char *text = callback_error_words(L);
  const char *colon = strchr(text, ':'), *second = colon ? strchr(colon + 1, ':') : NULL;
  bool placed = second && strspn(colon + 1, "0123456789") == (size_t)(second - colon - 1) &&
                second > colon + 1;
  if (placed) {
    char source[200];
    size_t n =
        (size_t)(second - text) < sizeof source - 1 ? (size_t)(second - text) : sizeof source - 1;
    memcpy(source, text, n);
    source[n] = 0;
    fail_at(e, source, ERR_RUNTIME, "%s", second + 1 + strspn(second + 1, " "));
  } else {
    fail(e, ERR_RUNTIME, "%s", text);
  }
  lua_pop(L, 1);
  return ERR_RUNTIME;
}

Status callback_call(Callback *c, int arguments, int results, Error *e) {
  lua_State *L = c->state->callbacks;
  /* a callback is not part of the function that is being traced */
  TraceRef *trace = c->state->trace;
  lua_State *calling = c->state->calling;
  c->state->calling = c->state->thread;
  c->state->trace = NULL;
  c->state->unrecorded++;
  lua_State *outer = atomic_exchange(&running, L);
  int status = lua_pcall(L, arguments, results, 0);
  atomic_store(&running, outer);
  /* it has run coroutines */
  if (c->state->thread != c->state->calling) context_switch(L, c->state);
  c->state->calling = calling;
  c->state->trace = trace;
  c->state->unrecorded--;
  return status == LUA_OK ? OK : callback_error(L, e);
}

Status callback_call_again(Callback *c, int arguments, int results, Error *e) {
  int before = interrupt_taken();
  Status s = callback_call(c, arguments, results, e);
  if (s == OK || interrupt_taken() == before) return s;
  return e->status = ERR_CANCELLED;
}
