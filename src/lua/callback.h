/* Lua functions that C calls: on the script's own thread, on a coroutine of their own, never
 * raising into C. */
#ifndef IPULUA_LUA_CALLBACK_H
#define IPULUA_LUA_CALLBACK_H
#include "lua/bind.h"

typedef struct Callback {
  State *state;
  int reference;
} Callback;

Callback *callback_new(lua_State *L, int index); /* of the function at index; raises */
void callback_free(Callback *c);
/* Begin a call: pushes the function on the coroutine, where arguments follow. */
lua_State *callback_begin(Callback *c);
/* Call it with what was pushed. A failure becomes e; results stay on the coroutine. */
Status callback_call(Callback *c, int arguments, int results, Error *e);
/* The coroutine on which a callback runs at this moment, NULL while none does; for signal
 * handlers. */
lua_State *callback_running(void);
#endif
