/* The Lua side of a context: found and opened at the first model. */
#ifndef IPULUA_API_INTERPRETER_H
#define IPULUA_API_INTERPRETER_H
#include "api/context.h"

/* Calls a function of ipulua/tools/embed.lua, after opening the interpreter. It takes over `in`. */
Status interpreter_call(ipu_context *c, BridgeCall *call);
#endif
