#include "cli/call.h"

#include <lauxlib.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/interrupt.h"
#include "lua/callback.h"

/* The state that a signal handler has to reach, which gets no context: of call_with, or of a
 * coroutine that it resumed. */
static _Atomic(lua_State *) running, running_callback;

/* Pushes "script:12", the innermost line of Lua code that is not the library's own; the
 * innermost of all while that is not loaded. */
static void push_line(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  bool loaded = lua_getfield(L, -1, "ipulua.base.blame") == LUA_TTABLE &&
                lua_getfield(L, -1, "where") == LUA_TFUNCTION;
  if (loaded && lua_pcall(L, 0, 1, 0) == LUA_OK && lua_isstring(L, -1)) return;
  lua_Debug caller;
  for (int level = 0; lua_getstack(L, level, &caller); level++) {
    lua_getinfo(L, "Sl", &caller);
    if (caller.currentline <= 0) continue;
    lua_pushfstring(L, "%s:%d", caller.short_src, caller.currentline);
    return;
  }
  lua_pushliteral(L, "?");
}

/* Runs soon after a Ctrl-C. While a library call holds the interruption, to stop in good order, the
 * hook waits. If the library has taken it, the hook does nothing. */
static void stop(lua_State *L, lua_Debug *event) {
  (void)event;
  Interrupt pending = interrupt_pending();
  if (pending == INTERRUPT_SOON && interrupt_held()) return;
  lua_sethook(L, NULL, 0, 0);
  if (pending == INTERRUPT_NONE) return;
  interrupt_take();
  luaL_checkstack(L, 8, NULL);
  push_line(L);
  lua_pushfstring(L, "%s: interrupted!", lua_tostring(L, -1));
  lua_error(L);
}

enum { ALWAYS = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT };

lua_State *call_enter_thread(lua_State *co) { return atomic_exchange(&running, co); }

void call_leave_thread(lua_State *L, lua_State *outer) {
  atomic_store(&running, outer);
  /* it came too late for the coroutine */
  if (outer && interrupt_pending() != INTERRUPT_NONE) lua_sethook(L, stop, ALWAYS, 1);
}

/* lua_sethook is the one function of Lua that may be called here. */
static void on_interrupt(int number) {
  if (interrupt_raise() > 1) signal(number, SIG_DFL); /* the next one ends the process */
  lua_State *L = atomic_load(&running), *callback = callback_running();
  if (L) lua_sethook(L, stop, ALWAYS, 1);
  if (L && callback) {
    atomic_store(&running_callback, callback);
    lua_sethook(callback, stop, ALWAYS, 1);
  }
}

static const char *describe(lua_State *L) {
  const char *message = lua_tostring(L, 1);
  if (message) return message;
  if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING)
    return lua_tostring(L, -1);
  return lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
}

/* Pushes Lua's message, followed by the name that was probably meant, if one is known. Otherwise
 * the message is returned unchanged. */
static const char *with_hint(lua_State *L, const char *message) {
  if (lua_type(L, 1) != LUA_TSTRING ||
      (!strstr(message, ": attempt to ") && !strstr(message, ": bad argument #1 to 'for ")))
    return message;
  int top = lua_gettop(L);
  luaL_checkstack(L, 4, NULL);
  bool loaded = lua_getglobal(L, "require") == LUA_TFUNCTION;
  lua_pushliteral(L, "ipulua.tools.explain");
  if (loaded && lua_pcall(L, 1, 1, 0) == LUA_OK && lua_istable(L, -1) &&
      lua_getfield(L, -1, "message") == LUA_TFUNCTION) {
    lua_pushvalue(L, 1);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING)
      return lua_tostring(L, -1);
  }
  lua_settop(L, top);
  return message;
}

int message_with_traceback(lua_State *L) {
  const char *message = lua_tostring(L, 1);
  if (!message) {
    /* An error object that can show itself is shown as it is. */
    if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) return 1;
    message = describe(L);
  }
  luaL_traceback(L, L, with_hint(L, message), 1);
  return 1;
}

int message_alone(lua_State *L) {
  const char *message = with_hint(L, describe(L));
  luaL_traceback(L, L, message, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, TRACEBACK_KEY);
  lua_pushstring(L, message);
  return 1;
}

int call_with(lua_State *L, lua_CFunction handler, int arguments, int results) {
  int base = lua_gettop(L) - arguments;
  lua_pushcfunction(L, handler);
  lua_insert(L, base);
  interrupt_reset();
  atomic_store(&running, L);
  struct sigaction before, ours = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
  sigemptyset(&ours.sa_mask);
  sigaction(SIGINT, &ours, &before);
  int status = lua_pcall(L, arguments, results, base);
  sigaction(SIGINT, &before, NULL);
  atomic_store(&running, NULL);
  lua_State *callback = atomic_exchange(&running_callback, NULL);
  /* a late Ctrl-C must not stop the next line */
  if (lua_gethook(L) == stop) lua_sethook(L, NULL, 0, 0);
  if (callback && lua_gethook(callback) == stop) lua_sethook(callback, NULL, 0, 0);
  interrupt_reset();
  lua_remove(L, base);
  return status;
}
