/* Lua functions called by C on the script's thread. They run on a coroutine of their own, so no
 * error is raised into C. */
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
/* Calls it with the pushed arguments. A failure is put into e. Results stay on the coroutine. */
Status callback_call(Callback *c, int arguments, int results, Error *e);
/* The same for a call that is made again after Ctrl-C ended it: ERR_CANCELLED in that case. */
Status callback_call_again(Callback *c, int arguments, int results, Error *e);
/* The error value on top of the stack in words, which take its place. A text stays as it is; of all
 * else it is what its __tostring gives, or its type. */
const char *callback_error_words(lua_State *L);
/* The coroutine on which a callback runs at this moment, NULL while none does; for signal
 * handlers. */
lua_State *callback_running(void);
#endif
