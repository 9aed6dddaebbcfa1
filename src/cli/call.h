/* Protected calls of Lua code from the command, with a traceback and interruption by Ctrl-C. */
#ifndef IPULUA_CLI_CALL_H
#define IPULUA_CLI_CALL_H
#include <lua.h>

/* Message handlers for lua_pcall. For a script: the message and its traceback. For the prompt:
 * the message alone; the traceback is kept in registry["ipulua.traceback"]. */
int message_with_traceback(lua_State *L);
int message_alone(lua_State *L);
#define TRACEBACK_KEY "ipulua.traceback"

/* lua_pcall with handler; meanwhile Ctrl-C raises "interrupted!" as base/interrupt.h says. */
int call_with(lua_State *L, lua_CFunction handler, int arguments, int results);

/* From now on Ctrl-C interrupts co, until its caller resumes. call_leave_thread takes the result of
 * call_enter_thread. */
lua_State *call_enter_thread(lua_State *co);
void call_leave_thread(lua_State *L, lua_State *outer);
/* Installs versions of coroutine.resume and coroutine.wrap that call them. */
void call_open_coroutines(lua_State *L);
#endif
