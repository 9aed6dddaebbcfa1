/* Coroutines that Ctrl-C interrupts. Hooks belong to a Lua thread, so the running one must be
 * known. These versions of coroutine.resume, wrap and close note it, and otherwise act as Lua's
 * own. close is among them because __close runs in the thread. */
#include <lauxlib.h>
#include <lualib.h>

#include "cli/call.h"

#if LUA_VERSION_RELEASE_NUM < 50406
#define lua_closethread(L, from) lua_resetthread(L)
#endif

static int refused(lua_State *L, const char *why) {
  lua_pushstring(L, why);
  return -1;
}

/* Resumes co with the topmost `arguments` values of L. Pushes its values and gives their number,
 * or the error and -1. */
static int run(lua_State *L, lua_State *co, int arguments) {
  if (!lua_checkstack(co, arguments)) return refused(L, "too many arguments to resume");
  lua_xmove(L, co, arguments);
  int values = 0;
  lua_State *outer = call_enter_thread(co);
  int status = lua_resume(co, L, arguments, &values);
  call_leave_thread(L, outer);
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_xmove(co, L, 1);
    return -1;
  }
  if (!lua_checkstack(L, values + 1)) {
    lua_pop(co, values);
    return refused(L, "too many results to resume");
  }
  lua_xmove(co, L, values);
  return values;
}

static int resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  int values = run(L, co, lua_gettop(L) - 1), count = values >= 0 ? values : 1;
  lua_pushboolean(L, values >= 0);
  lua_insert(L, -1 - count);
  return count + 1;
}

/* Calls the function that wrap returned. An error of the coroutine becomes the caller's. */
static int call_wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  int values = run(L, co, lua_gettop(L));
  if (values >= 0) return values;
  int status = lua_status(co);
  /* an error inside, not one of resuming: closes the coroutine's variables */
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_pop(L, 1);
    lua_State *outer = call_enter_thread(co);
    status = lua_closethread(co, L);
    call_leave_thread(L, outer);
    lua_xmove(co, L, 1);
  }
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, call_wrapped, 1);
  return 1;
}

/* Upvalue 1 is Lua's own. */
static int close_thread(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  int arguments = lua_gettop(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_State *outer = call_enter_thread(co ? co : L);
  int status = lua_pcall(L, arguments, LUA_MULTRET, 0);
  call_leave_thread(L, outer);
  return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

void call_open_coroutines(lua_State *L) {
  static const luaL_Reg functions[] = {{"resume", resume}, {"wrap", wrap}, {NULL, NULL}};
  lua_getglobal(L, LUA_COLIBNAME);
  luaL_setfuncs(L, functions, 0);
  lua_getfield(L, -1, "close");
  lua_pushcclosure(L, close_thread, 1);
  lua_setfield(L, -2, "close");
  lua_pop(L, 1);
}
